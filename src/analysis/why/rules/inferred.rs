//! Infers the rules of a QitOS run. It records the task's budget and the stop reason. The rest is
//! inferred from what its loop always does, or else is unknown.
//!
//! The loop checks the budget before each step. After the critics, it checks for a final decision,
//! then the agent, the environment and the list of criteria, and reports the first that is true.

use serde_json::Number;

use super::status::{REFUTED, RuleStatus, Standing, plain};
use crate::analysis::life::Liveness;
use crate::analysis::lost::{Lost, lost};
use crate::analysis::newest::newest_run;
use crate::analysis::stated;
use crate::analysis::summary::Summary;
use crate::analysis::verdict::cause::{Cause, Spent, cause};
use crate::analysis::verdict::criterion::{Criterion, Own};
use crate::analysis::verdict::{LimitFrom, decided_stop, is_disputed, last_mode};
use crate::model::manifest::{Failure, Manifest};
use crate::model::{CriticAction, EventHead, EventKind, Index, Op, Origin, Reading, StopReason};

/// The note for a rule whose limit is unknown.
const UNRECORDED: &str = "the limit isn't recorded";

/// Returns the rules of a run that doesn't record them.
pub(super) fn rules(summary: &Summary, index: &Index) -> Vec<RuleStatus> {
    let asked = Asked::of(summary, index);
    if asked.reason.is_some_and(StopReason::is_preflight) {
        return asked.other().into_iter().collect();
    }
    let mut rules = vec![asked.steps(), asked.time(), asked.tokens()];
    rules.extend([asked.answer(), asked.critics(), asked.recoveries()]);
    rules.extend([asked.agent(), asked.env(), asked.criteria()]);
    rules.extend(asked.other());
    if is_disputed(index) {
        rules.iter_mut().for_each(leave_open);
    }
    rules
}

/// Marks a rule that didn't end the run as unknown if the files disagree on what did. A limit with
/// room left certainly didn't.
fn leave_open(rule: &mut RuleStatus) {
    if rule.result == Standing::Held && rule.reading.headroom().is_none_or(|left| left <= 0.0) {
        (rule.result, rule.note) = (
            Standing::Unknown,
            "the files disagree on how the run ended".to_owned(),
        );
    }
}

/// How far the last stop check came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum LastCheck {
    /// It never ran.
    Never,
    /// It ran, but not in the last step.
    Before,
    /// It stopped at the final decision and checked nothing further.
    Decision,
    /// It stopped at the agent's own condition.
    Agent,
    /// It stopped because the environment ended the run.
    Env,
    /// It reached the list of criteria, or went through it.
    Criteria,
}

struct Asked<'a> {
    summary: &'a Summary,
    index: &'a Index,
    /// The reason, if the run ended.
    reason: Option<StopReason>,
    word: &'a str,
    /// The cause of the reason.
    cause: Cause<'a>,
    check: LastCheck,
    /// Finished steps without a line.
    lost: Option<Lost>,
}

impl<'a> Asked<'a> {
    fn of(summary: &'a Summary, index: &'a Index) -> Self {
        let ended = summary.life.liveness != Liveness::Died && !summary.life.liveness.may_grow();
        // If two reasons contradict each other, neither is trusted. A run that died may have been
        // stopped before.
        let died = summary.life.liveness == Liveness::Died;
        let word = match summary.verdict.stop_reason.as_deref() {
            Some(word) => Some(word).filter(|_| ended && !is_disputed(index)),
            None => decided_stop(index).filter(|_| died),
        };
        Self {
            summary,
            index,
            reason: word.map(StopReason::parse),
            word: word.unwrap_or_default(),
            cause: word.map_or(Cause::Named, |word| cause(index, word)),
            check: last_check(index, summary.life.liveness.may_grow()),
            // The round in which an exception ended the run never finished.
            lost: lost(index).filter(|_| ended),
        }
    }

    /// Returns whether the run ended with `reason`, and for what the word itself names.
    fn ended_by(&self, reason: StopReason) -> bool {
        self.reason == Some(reason) && self.cause == Cause::Named
    }

    /// Returns a limit of the budget: fired, held or unknown.
    fn budget(&self, reason: StopReason, kind: &str, unit: &'static str) -> RuleStatus {
        let spent = Spent::of(self.index, reason);
        let (measured, op) = (spent.measured, spent.op);
        let limit = spent.limit.agreed().copied();
        let disputed = spent
            .limit
            .disputed()
            .map(|stated| stated::values(stated, unit));
        let named = self.reason == Some(reason);
        let fired = named && self.cause == Cause::Budget;
        let disagree =
            disputed.map(|values| format!("the records disagree on the limit: {values}"));
        let (result, note) = match (measured, limit) {
            _ if fired && spent.is_used_up() == Some(false) => (Standing::Unknown, REFUTED),
            _ if fired => (
                Standing::Fired,
                if spent.limit.is_stated() {
                    ""
                } else {
                    UNRECORDED
                },
            ),
            _ if named && self.cause == Cause::NotRecorded && spent.limit.is_stated() => (
                Standing::Unknown,
                "named by the stop reason, but the numbers don't show that it was used up",
            ),
            // If none of the disputed limits was reached, the rule didn't fire.
            _ if disagree.is_some() && spent.is_used_up() == Some(false) => (Standing::Held, ""),
            (_, None) => (Standing::Unknown, UNRECORDED),
            (None, Some(_)) => (Standing::Unknown, "the usage isn't recorded"),
            (Some(_), Some(_)) => (Standing::Held, ""),
        };
        let mut rule = RuleStatus {
            reading: reading(measured, op, limit, unit),
            limit_from: limit.map(|_| LimitFrom::SetBy(Origin::Task)),
            ..plain(
                &format!("budget.{}", kind.trim_start_matches("budget_")),
                kind,
                result,
                disagree.as_deref().unwrap_or(note),
            )
        };
        // Checked at the start of the next step, which another stop preempted.
        if Spent::overrun(self.index, reason).is_some() && rule.result != Standing::Off {
            (rule.result, rule.note) = (
                Standing::Unknown,
                "reached before the last step, but the run continued".to_owned(),
            );
        }
        rule.also = rule.result == Standing::Held
            && self.reason.is_some()
            && rule.reading.headroom().is_some_and(|left| left <= 0.0);
        rule
    }

    fn steps(&self) -> RuleStatus {
        let mut rule = self.budget(StopReason::BudgetSteps, "budget_steps", "steps");
        let in_state = self
            .index
            .segment()
            .and_then(|segment| segment.state_limit)
            .filter(|_| rule.note == UNRECORDED);
        if let Some(limit) = in_state {
            rule.note = format!("engine limit not recorded; agent state says {limit}");
        }
        // It fires at the first step that is one too many, so the number of steps is the limit.
        let inferred = self
            .summary
            .verdict
            .limit
            .filter(|limit| limit.from == LimitFrom::Inferred);
        let Some(limit) = inferred else { return rule };
        RuleStatus {
            reading: reading(
                rule.reading.measured(),
                Op::AtLeast,
                Some(limit.steps as f64),
                "steps",
            ),
            limit_from: Some(LimitFrom::Inferred),
            note: String::new(),
            ..rule
        }
    }

    fn time(&self) -> RuleStatus {
        self.budget(StopReason::BudgetTime, "budget_time", "ms")
    }

    fn tokens(&self) -> RuleStatus {
        let mut rule = self.budget(StopReason::BudgetTokens, "budget_tokens", "tokens");
        if rule.reading.measured().is_none() && rule.reading.limit().is_some() {
            rule.note = "no step records its tokens".to_owned();
        }
        rule
    }

    fn answer(&self) -> RuleStatus {
        let fired = self.ended_by(StopReason::Final);
        let (result, note) = match (last_mode(self.index), self.check) {
            _ if fired => (Standing::Fired, ""),
            (Some("final"), LastCheck::Never | LastCheck::Before) => (
                Standing::Unknown,
                "the last step gave an answer, but no stop check followed",
            ),
            (Some("final"), _) => (Standing::Held, "the last step gave an answer"),
            (None, LastCheck::Never) => (Standing::Unknown, "no stop check is recorded"),
            _ => (Standing::Held, ""),
        };
        plain("decision", "final", result, note)
    }

    fn critics(&self) -> RuleStatus {
        let asked = newest_run(self.index).any(|(_, step)| !step.critics.is_empty());
        let stops = newest_run(self.index)
            .filter(|(_, step)| step.requested(CriticAction::Stop))
            .count();
        let fired = self.ended_by(StopReason::CriticStop);
        match (fired, asked) {
            (true, _) => plain("critics", "critic_stop", Standing::Fired, ""),
            (_, true) if stops > 0 => plain(
                "critics",
                "critic_stop",
                Standing::Held,
                "a critic requested a stop",
            ),
            (_, true) => plain("critics", "critic_stop", Standing::Held, ""),
            (_, false) if self.check == LastCheck::Never || self.lost.is_some() => plain(
                "critics",
                "critic_stop",
                Standing::Unknown,
                "no step has critic output",
            ),
            // Critics run before the stop check.
            (_, false) => plain("critics", "critic_stop", Standing::Off, "no critics"),
        }
    }

    fn recoveries(&self) -> RuleStatus {
        // Each recovery is an event, so without rounds their number is unknown.
        let rounds = self.index.groups().len();
        let failures = self
            .index
            .segment()
            .filter(|segment| segment.first_group < rounds);
        let failures = failures.map(|segment| segment.recoveries);
        let row = |result, recovered: Option<usize>, note| RuleStatus {
            reading: Reading {
                measured: recovered.map(Into::into),
                unit: "recovered errors".into(),
                ..Reading::default()
            },
            ..plain("recovery", "recovery_exhausted", result, note)
        };
        if !self.ended_by(StopReason::UnrecoverableError) {
            // A policy may allow any number, and it isn't recorded.
            return row(Standing::Unknown, failures, UNRECORDED);
        }
        let last = self.index.manifest().get().and_then(Manifest::fatal);
        if last.is_some_and(Failure::is_given_up) {
            let note = "the last error was recoverable too; the limit isn't recorded";
            // The failure that ended the run has a RECOVER event too.
            return row(
                Standing::Fired,
                failures.map(|failures| failures.saturating_sub(1)),
                note,
            );
        }
        let note = match last.and_then(|failure| failure.recoverable) {
            Some(false) => "not a recoverable kind of error",
            _ => "neither the limit nor whether it was recoverable is recorded",
        };
        plain("recovery", "unrecoverable_error", Standing::Fired, note)
    }

    fn agent(&self) -> RuleStatus {
        let fired = self.ended_by(StopReason::AgentCondition);
        self.after("agent", "agent_condition", fired, LastCheck::Agent)
    }

    fn env(&self) -> RuleStatus {
        let fired = self.ended_by(StopReason::EnvTerminal);
        self.after("env", "env_terminal", fired, LastCheck::Env)
    }

    /// Returns a rule of the stop check that leaves a record only if it's true.
    fn after(&self, id: &str, kind: &str, fired: bool, place: LastCheck) -> RuleStatus {
        let (result, note) = match self.check {
            _ if fired => (Standing::Fired, ""),
            LastCheck::Never => (Standing::Unknown, "no stop check is recorded"),
            check if check > place => (Standing::Held, ""),
            _ => (Standing::Unknown, "not checked in the last step"),
        };
        plain(id, kind, result, note)
    }

    /// Returns the criterion that stopped the run, or a row for a list that isn't recorded.
    fn criteria(&self) -> RuleStatus {
        let list = self
            .index
            .manifest()
            .get()
            .and_then(|manifest| manifest.criteria.as_deref());
        let list = list
            .filter(|list| !list.is_empty())
            .map(|list| list.join(", "));
        let Cause::Criterion(criterion @ Criterion { own, words }) = self.cause else {
            let (result, note) = match (list, self.check) {
                (None, _) => (Standing::Unknown, "the criteria aren't recorded".to_owned()),
                // The list is the last thing that the stop check evaluates.
                (Some(list), LastCheck::Criteria) => (Standing::Held, list),
                (Some(list), _) => (
                    Standing::Unknown,
                    format!("{list}; not checked in the last step"),
                ),
            };
            return plain("criteria", "criteria", result, &note);
        };
        let kind = match own {
            Some(Own::Result) => "final_result",
            Some(Own::Time) => "max_runtime",
            Some(Own::Tokens) => "token_budget",
            Some(Own::Steps) => "max_steps",
            Some(Own::Stagnation) => "stagnation",
            None => "criterion",
        };
        let recorded = format!("recorded as {}", self.word);
        let said = criterion.reading();
        let note = match own {
            Some(Own::Stagnation) => "what it compares isn't recorded".to_owned(),
            Some(_) => if said.is_none() { words } else { "" }.to_owned(),
            // Which of several criteria it was isn't recorded.
            None => {
                list.map_or(String::new(), |list| format!("one of {list}: "))
                    + &format!("{words}; {recorded}")
            }
        };
        let rule = plain("criteria", kind, Standing::Fired, &note);
        let Some(said) = said else { return rule };
        let (result, note) = match said.is_refuted() {
            true => (Standing::Unknown, REFUTED.to_owned()),
            false => (rule.result, rule.note.clone()),
        };
        RuleStatus {
            result,
            note,
            limit_from: Some(if said.limit.is_some() {
                LimitFrom::Criteria
            } else {
                LimitFrom::Inferred
            }),
            // A criterion that counts one by one stops at its limit.
            reading: Reading {
                limit: said.limit.clone().or_else(|| said.measured.clone()),
                ..said
            },
            ..rule
        }
    }

    /// Returns the cause of the end if it's none of the rules above.
    fn other(&self) -> Option<RuleStatus> {
        let issue = self
            .index
            .segment()
            .and_then(|segment| segment.end.as_ref()?.1.issue.as_deref());
        let overflow = self
            .index
            .segment()
            .and_then(|segment| segment.overflow.as_ref())
            .map(|(_, text)| &**text);
        if self.cause == Cause::NotRecorded {
            return Some(plain(
                "unrecorded",
                "unrecorded",
                Standing::Fired,
                &format!("recorded as {}", self.word),
            ));
        }
        let (id, note) = match self.reason.filter(|_| self.cause == Cause::Named)? {
            StopReason::TaskValidationFailed | StopReason::EnvCapabilityMismatch => {
                ("preflight", issue)
            }
            StopReason::ContextOverflow => ("context", overflow),
            StopReason::CancelledImmediate
            | StopReason::CancelledAfterStep
            | StopReason::Interrupt => ("cancel", None),
            StopReason::Success => ("success", None),
            StopReason::MaxSteps => ("max_steps", Some("its numbers aren't recorded")),
            StopReason::Other => ("unknown", Some("an unknown stop reason")),
            _ => return None,
        };
        Some(plain(
            id,
            self.word,
            Standing::Fired,
            note.unwrap_or_default(),
        ))
    }
}

fn reading(measured: Option<f64>, op: Op, limit: Option<f64>, unit: &'static str) -> Reading {
    let number = |value: Option<f64>| value.and_then(Number::from_f64);
    Reading {
        measured: number(measured),
        limit: number(limit),
        op: Some(op),
        unit: unit.into(),
        ..Reading::default()
    }
}

/// Returns how far the last stop check of the newest run came. While the run continues, the
/// previous check counts.
fn last_check(index: &Index, goes_on: bool) -> LastCheck {
    let first = index.segment().map_or(0, |segment| segment.first_event);
    let is_check =
        |event: &EventHead| matches!(event.kind, EventKind::Checked | EventKind::Stopped);
    let newest = index
        .events()
        .iter()
        .enumerate()
        .skip(first)
        .rev()
        .find(|(_, event)| is_check(event));
    let Some((at, check)) = newest else {
        return LastCheck::Never;
    };
    let last = index.groups().last().map_or(0, |group| group.first);
    if at < last && !goes_on {
        return LastCheck::Before;
    }
    let stop = index
        .segment()
        .and_then(|segment| segment.stop.as_ref())
        .map(|(_, stop)| stop);
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
