//! Which rules did a QitOS run have? It records the task's budget and the reason of the stop; the rest is concluded from
//! what its loop always does, and is unknown where that leaves it open.
//!
//! The loop asks the budget before each step; after the critics it asks for a final decision, the agent, the environment
//! and the list of criteria, in this order, and reports the first that is true.

use serde_json::Number;

use super::{Rule, Standing, plain};
use crate::analysis::facts::{Lost, lost};
use crate::analysis::life::Liveness;
use crate::analysis::newest::newest_run;
use crate::analysis::summary::Summary;
use crate::analysis::verdict::LimitFrom;
use crate::model::event::InitNote;
use crate::model::{CriticAction, EventKind, Index, Op, Origin, Reading, StopReason};
use crate::stop;

/// The rules of a run that does not record them.
pub(super) fn rules(summary: &Summary, index: &Index) -> Vec<Rule> {
    let asked = Asked::of(summary, index);
    if asked.reason.is_some_and(StopReason::is_preflight) {
        return asked.other().into_iter().collect();
    }
    let mut rules = vec![asked.steps(), asked.time(), asked.tokens()];
    rules.extend([asked.answer(), asked.critics(), asked.recoveries()]);
    rules.extend([asked.agent(), asked.env(), asked.criteria()]);
    rules.extend(asked.other());
    rules
}

/// What the stop check said last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum LastCheck {
    /// It was never asked.
    Never,
    /// It stopped at the final decision, and looked no further.
    Decision,
    /// It stopped at the agent's own condition.
    Agent,
    /// It stopped because the environment ended.
    Env,
    /// It came to the list of criteria, or through it.
    Criteria,
}

struct Asked<'a> {
    summary: &'a Summary,
    index: &'a Index,
    /// The reason, where the run ended.
    reason: Option<StopReason>,
    word: &'a str,
    /// What the task sets.
    task: Option<&'a InitNote>,
    /// The words of the criterion that stopped the run.
    detail: Option<&'a str>,
    check: LastCheck,
    /// Steps that were over and have no line.
    lost: Option<Lost>,
}

impl<'a> Asked<'a> {
    fn of(summary: &'a Summary, index: &'a Index) -> Self {
        let segment = index.segment();
        let ended = summary.life.liveness == Liveness::Finished;
        let word = summary.verdict.stop_reason.as_deref().filter(|_| ended);
        let stop = segment.and_then(|segment| segment.stop.as_ref()).map(|(_, stop)| stop);
        let detail = stop.filter(|stop| stop.reason.as_deref() == word).and_then(|stop| stop.detail.as_deref());
        Self {
            summary,
            index,
            reason: word.map(StopReason::parse),
            word: word.unwrap_or_default(),
            task: segment.and_then(|segment| segment.init.as_ref()).map(|(_, init)| init),
            detail,
            check: last_check(index),
            // The round in which an exception ended the run was never over.
            lost: lost(index, index.newest_start()).filter(|_| ended),
        }
    }

    /// Whether the run ended for `reason` by the budget, and not by a criterion of the same name.
    fn spent(&self, reason: StopReason) -> bool {
        self.reason == Some(reason) && self.detail.is_none()
    }

    /// A limit of the budget: fired, held or unknown.
    fn budget(
        &self,
        kind: &str,
        op: Op,
        unit: &'static str,
        measured: Option<f64>,
        limit: Option<f64>,
        spent: bool,
    ) -> Rule {
        let mut rule = Rule {
            id: format!("budget.{}", kind.trim_start_matches("budget_")),
            kind: kind.to_owned(),
            reading: reading(measured, op, limit, unit),
            limit_from: limit.map(|_| LimitFrom::SetBy(Origin::Task)),
            ..Rule::default()
        };
        rule.result = match limit {
            _ if spent => Standing::Fired,
            Some(_) => Standing::Held,
            None => Standing::Unknown,
        };
        if limit.is_none() {
            rule.note = "the limit is not recorded".to_owned();
        }
        // Asked at the top of the next step, which another stop forestalled.
        rule.also = rule.result == Standing::Held
            && self.reason.is_some()
            && rule.reading.headroom().is_some_and(|left| left <= 0.0);
        rule
    }

    fn steps(&self) -> Rule {
        let spent = self.spent(StopReason::BudgetSteps);
        // Steps without a line ran, and their number is not the file's.
        let done = self.lost.is_none().then_some(self.summary.steps_now as f64);
        let limit = self.summary.verdict.limit.filter(|limit| limit.from != LimitFrom::State);
        let mut rule =
            self.budget("budget_steps", Op::AtLeast, "steps", done, limit.map(|limit| limit.steps as f64), spent);
        if limit.is_some_and(|limit| limit.from == LimitFrom::Inferred) {
            rule.limit_from = Some(LimitFrom::Inferred);
        }
        rule
    }

    fn time(&self) -> Rule {
        let limit = self.task.and_then(|task| task.max_seconds).map(|seconds| seconds * 1e3);
        self.budget("budget_time", Op::Above, "ms", self.summary.duration_ms, limit, self.spent(StopReason::BudgetTime))
    }

    fn tokens(&self) -> Rule {
        let limit = self.task.and_then(|task| task.max_tokens).map(|tokens| tokens as f64);
        let spent = self.spent(StopReason::BudgetTokens);
        let used = self.summary.tokens.map(|tokens| tokens as f64);
        let mut rule = self.budget("budget_tokens", Op::AtLeast, "tokens", used, limit, spent);
        if used.is_none() && limit.is_some() {
            rule.result = if spent { Standing::Fired } else { Standing::Unknown };
            rule.note = "no step records its tokens".to_owned();
        }
        rule
    }

    fn answer(&self) -> Rule {
        let by_decision = self.check == LastCheck::Decision;
        let fired = matches!(self.reason, Some(StopReason::Final)) && (by_decision || self.detail.is_none());
        let last = newest_run(self.index).next_back().map(|(_, step)| self.index.name(step.mode));
        let given = last == Some("final") && !fired;
        let result = if fired { Standing::Fired } else { Standing::Held };
        let note = if given { "the last step gave an answer" } else { "" };
        plain("decision", "final", result, note)
    }

    fn critics(&self) -> Rule {
        let asked = newest_run(self.index).any(|(_, step)| !step.critics.is_empty());
        let stops = newest_run(self.index).filter(|(_, step)| step.asked(CriticAction::Stop)).count();
        let fired = self.reason == Some(StopReason::CriticStop);
        match (fired, asked) {
            (true, _) => plain("critics", "critic_stop", Standing::Fired, ""),
            (_, true) if stops > 0 => plain("critics", "critic_stop", Standing::Held, "a critic asked for a stop"),
            (_, true) => plain("critics", "critic_stop", Standing::Held, ""),
            (_, false) if self.check == LastCheck::Never || self.lost.is_some() => {
                plain("critics", "critic_stop", Standing::Unknown, "no step has a critic's output")
            }
            // Critics are asked before the stop check.
            (_, false) => plain("critics", "critic_stop", Standing::Off, "there are no critics"),
        }
    }

    fn recoveries(&self) -> Rule {
        let limit = self.index.format().recoveries;
        // The failure that ended the run has a RECOVER event too.
        let failures = self.index.segment().map_or(0, |segment| segment.recoveries) as f64;
        let exhausted = limit.is_some_and(|limit| failures > limit);
        if self.reason == Some(StopReason::UnrecoverableError) && !exhausted {
            let note = match limit {
                Some(_) => "not a sort of error that is recovered from",
                None => "not a sort of error that is recovered from, or too many; the limit is not recorded",
            };
            return plain("recovery", "unrecoverable_error", Standing::Fired, note);
        }
        let (result, note) = match limit {
            Some(_) if exhausted => (Standing::Fired, ""),
            Some(_) => (Standing::Held, ""),
            None => (Standing::Unknown, "the limit is not recorded"),
        };
        Rule {
            reading: reading(Some(failures), Op::Above, limit, "recovered errors"),
            limit_from: limit.map(|_| LimitFrom::SetBy(Origin::Default)),
            ..plain("recovery", "recovery_exhausted", result, note)
        }
    }

    fn agent(&self) -> Rule {
        let fired = self.reason == Some(StopReason::AgentCondition);
        self.after("agent", "agent_condition", fired, LastCheck::Agent)
    }

    fn env(&self) -> Rule {
        let fired = self.reason == Some(StopReason::EnvTerminal);
        self.after("env", "env_terminal", fired, LastCheck::Env)
    }

    /// A rule of the stop check that only says something when it is true.
    fn after(&self, id: &str, kind: &str, fired: bool, place: LastCheck) -> Rule {
        let (result, note) = match self.check {
            _ if fired => (Standing::Fired, ""),
            LastCheck::Never => (Standing::Unknown, "no stop check is recorded"),
            check if check > place => (Standing::Held, ""),
            _ => (Standing::Unknown, "not asked in the last step"),
        };
        plain(id, kind, result, note)
    }

    /// The criterion that stopped the run, or one row for the list that nobody recorded.
    fn criteria(&self) -> Rule {
        let Some(detail) = self.detail else {
            return match self.reason {
                Some(StopReason::Stagnation | StopReason::MaxSteps) => {
                    plain("criteria", self.word, Standing::Fired, "its numbers are not recorded")
                }
                _ => plain("criteria", "criteria", Standing::Unknown, "the list is not recorded"),
            };
        };
        let kind = match self.reason {
            Some(StopReason::Final | StopReason::Success) => "final_result",
            Some(StopReason::BudgetTime) => "max_runtime",
            Some(StopReason::BudgetTokens) => "token_budget",
            Some(StopReason::MaxSteps | StopReason::BudgetSteps) => "max_steps",
            _ => self.word,
        };
        let said = compared(detail);
        let note = if said.is_none() { detail } else { "" };
        let rule = plain("criteria", kind, Standing::Fired, note);
        let Some((measured, limit, seconds)) = said else { return rule };
        let scale = if seconds { 1e3 } else { 1.0 };
        let unit = stop::row(kind).map_or("", |row| row.unit);
        Rule {
            // A criterion that counts one by one stops at its limit.
            reading: reading(Some(measured * scale), Op::AtLeast, Some(limit.unwrap_or(measured) * scale), unit),
            limit_from: Some(if limit.is_some() { LimitFrom::Criteria } else { LimitFrom::Inferred }),
            ..rule
        }
    }

    /// What ended the run and is none of the rules above.
    fn other(&self) -> Option<Rule> {
        let issue = self.index.segment().and_then(|segment| segment.end.as_ref()?.1.issue.as_deref());
        let overflow = self.index.segment().and_then(|segment| segment.overflow.as_ref()).map(|(_, text)| &**text);
        let (id, note) = match self.reason? {
            StopReason::TaskValidationFailed | StopReason::EnvCapabilityMismatch => ("preflight", issue),
            StopReason::ContextOverflow => ("context", overflow),
            StopReason::CancelledImmediate | StopReason::CancelledAfterStep | StopReason::Interrupt => ("cancel", None),
            StopReason::Success if self.detail.is_none() => ("success", None),
            StopReason::Other => ("unknown", Some("a reason the board does not know")),
            _ => return None,
        };
        Some(plain(id, self.word, Standing::Fired, note.unwrap_or_default()))
    }
}

fn reading(measured: Option<f64>, op: Op, limit: Option<f64>, unit: &'static str) -> Reading {
    let number = |value: Option<f64>| value.and_then(Number::from_f64);
    Reading { measured: number(measured), limit: number(limit), op: Some(op), unit: unit.into(), ..Reading::default() }
}

/// How far the last stop check of the newest run came.
fn last_check(index: &Index) -> LastCheck {
    let first = index.segment().map_or(0, |segment| segment.first_event);
    let events = index.events().get(first..).unwrap_or_default();
    let check = events.iter().rev().find(|event| matches!(event.kind, EventKind::Checked | EventKind::Stopped));
    let Some(check) = check else { return LastCheck::Never };
    let stop = index.segment().and_then(|segment| segment.stop.as_ref()).map(|(_, stop)| stop);
    match stop.filter(|_| check.kind == EventKind::Stopped) {
        None => LastCheck::Criteria,
        Some(stop) if stop.detail.is_some() => LastCheck::Criteria,
        Some(stop) if stop.env_terminal => LastCheck::Env,
        Some(stop) => match stop.reason.as_deref().map(StopReason::parse) {
            Some(StopReason::AgentCondition) => LastCheck::Agent,
            Some(StopReason::EnvTerminal) => LastCheck::Env,
            _ => LastCheck::Decision,
        },
    }
}

/// The numbers of a criterion's words, `elapsed=0.840s >= max_runtime_seconds=0.700s` or `stagnant_steps=3`, and
/// whether they are seconds.
fn compared(detail: &str) -> Option<(f64, Option<f64>, bool)> {
    let number = |side: &str| {
        let value = side.split_once('=')?.1.trim();
        value.strip_suffix('s').unwrap_or(value).parse::<f64>().ok().filter(|value| value.is_finite())
    };
    match detail.split_once(" >= ").or_else(|| detail.split_once(" > ")) {
        Some((measured, limit)) => Some((number(measured)?, Some(number(limit)?), measured.trim().ends_with('s'))),
        None => Some((number(detail)?, None, detail.trim().ends_with('s'))),
    }
}
