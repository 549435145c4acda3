//! Evaluates the recorded rules of board's engine's run over the recorded facts, using the engine's
//! code. The recorded verdict determines which of them ended the run.

use serde_json::Number;

use super::super::phase::of_phase;
use super::status::{REFUTED, RuleStatus, Standing, plain};
use crate::analysis::facts::{Depth, Record, record};
use crate::analysis::lost::has_reply_without_line;
use crate::analysis::retrace::{Retraced, limit_of_stop, retrace};
use crate::analysis::rule_replay::{RuleReading, WhatIf, replay_from, survey};
use crate::analysis::stated;
use crate::analysis::summary::Summary;
use crate::analysis::verdict::{LimitFrom, is_reason_borrowed};
use crate::format;
use crate::model::{Bound, Gate, Index, Lines, Reading, Source, StopVerdict, TraceFile};
use crate::stop::{
    BUDGETS, BudgetRow, Check, Counts, CriticWish, EntryRule, StepFacts, StopRules, StopSet,
};

/// The note for a rule in code whose state is unknown.
const NO_ANSWER: &str = "no step records its result";

/// Returns the rules of a run that records them.
pub(super) fn rules(summary: &Summary, index: &Index, lines: &dyn Lines) -> Vec<RuleStatus> {
    let stop = index.stop();
    let mut run_record = record(index, lines, Depth::Heads);
    if summary.life.liveness.is_over() && has_reply_without_line(index) {
        // This reply may have reached a limit that the other steps didn't.
        run_record.resumed.usage_missing += 1;
        run_record.resumed.cost_missing += 1;
    }
    with_texts(&mut run_record, index, lines);
    let mut rules = match run_record.rules.clone() {
        // Refused before the first step, so no rule was evaluated.
        Some(_) if run_record.facts.is_empty() && stop.is_some() => Vec::new(),
        Some(rules) => surveyed(rules, &run_record),
        None => vec![plain(
            "rules",
            "stop_rules",
            Standing::Unknown,
            "the rules aren't recorded",
        )],
    };
    rules.extend(besides(&run_record, index));
    let retraced = retrace(index);
    if let Some(stop) = stop {
        judge(&mut rules, stop, retraced.as_ref());
    }
    rules
        .iter_mut()
        .for_each(|rule| dispute(rule, index, retraced.as_ref()));
    rules
}

/// Removes a limit that records disagree on from a rule's row, and notes the disagreement. A rule
/// that measured less than its limit isn't shown as fired.
fn dispute(rule: &mut RuleStatus, index: &Index, retraced: Option<&Retraced>) {
    let unit = match &*rule.id {
        "budget.steps" => "steps",
        "budget.tokens" => "tokens",
        "budget.time" => "ms",
        _ if rule.stop.is_some() => "",
        _ => return,
    };
    let limit = if unit.is_empty() {
        limit_of_stop(index, retraced)
    } else {
        index.limit(unit)
    };
    if let Some(stated) = limit.disputed() {
        rule.reading.limit = None;
        rule.note = format!(
            "the records disagree on the limit: {}",
            stated::values(stated, unit)
        );
    } else if rule.result == Standing::Fired && rule.reading.is_refuted() {
        rule.result = Standing::Unknown;
        rule.note = REFUTED.to_owned();
    }
}

/// Adds the texts of the last step. Rules on texts use no other step, and heads record only whether
/// texts are equal.
fn with_texts(record: &mut Record, index: &Index, lines: &dyn Lines) {
    let last = record
        .facts
        .iter_mut()
        .rev()
        .find(|facts| facts.reached > Gate::BeforeStep);
    let Some(last) = last else { return };
    let span = usize::try_from(last.step)
        .ok()
        .and_then(|step| index.steps().get(step))
        .map(|head| head.span);
    let line = span.and_then(|span| lines.record(TraceFile::Steps, span).ok());
    let step = line.as_ref().and_then(format::step);
    if let Some(whole) = step.and_then(|step| StepFacts::from_step(last.step, &step).ok()) {
        *last = whole;
    }
}

/// Returns the rows for the budget and the lists.
fn surveyed(rules: StopRules, record: &Record) -> Vec<RuleStatus> {
    let Ok(set) = StopSet::<()>::builder().rules(rules).build_fail_closed() else {
        return vec![plain(
            "rules",
            "stop_rules",
            Standing::Unknown,
            "the recorded rules can't be used",
        )];
    };
    let mut end = replay_from(&set, record.resumed.clone(), &record.facts);
    if record.facts.is_empty() {
        end.readings = survey(&set, &end.stats, &StepFacts::begin(0, 0));
    }
    let rules = set.record();
    for reading in &mut end.readings {
        if let Check::Unknown(needs) = &mut reading.check
            && is_in_code(&rules, &reading.id)
        {
            // The last step may not have reached the gate where the rule is checked.
            match last_answer(&record.facts, &reading.id) {
                Some(check) => reading.check = check,
                None => *needs = NO_ANSWER.into(),
            }
        }
    }
    let kind = |reading: &RuleReading| {
        if reading.source == Source::Budget {
            return reading.id.replace('.', "_");
        }
        let mut entries = rules.completion.iter().chain(&rules.policies);
        match entries
            .find(|entry| entry.id.as_deref() == Some(&*reading.id))
            .map(|entry| &entry.rule)
        {
            Some(EntryRule::Spec(spec)) => spec.name().to_owned(),
            _ => "opaque".to_owned(),
        }
    };
    let mut rows: Vec<RuleStatus> = end
        .readings
        .iter()
        .map(|reading| row(reading, kind(reading)))
        .collect();
    let used = |row: &BudgetRow| match row.rule.counts {
        Counts::Steps => Some(end.stats.steps),
        Counts::Tokens => tokens(&end),
        _ => end.stats.elapsed_ms,
    };
    let off = BUDGETS
        .iter()
        .filter(|row| (row.limit)(&rules.budget).is_none())
        .map(|row| RuleStatus {
            reading: Reading {
                measured: used(row).map(Into::into),
                unit: row.rule.unit.into(),
                ..Reading::default()
            },
            ..plain(row.id, row.code, Standing::Off, "no limit was set")
        });
    rows.extend(off);
    if rules.completion.is_empty() {
        rows.push(plain("decision", "final", Standing::Held, ""));
    }
    rows
}

/// Returns whether the rule with this id is in code.
fn is_in_code(rules: &StopRules, id: &str) -> bool {
    let mut entries = rules.completion.iter().chain(&rules.policies);
    entries.any(|entry| {
        entry.id.as_deref() == Some(id) && matches!(entry.rule, EntryRule::Opaque { .. })
    })
}

/// Returns the last recorded answer of a rule in code.
fn last_answer(facts: &[StepFacts], id: &str) -> Option<Check> {
    let mut answers = facts
        .iter()
        .rev()
        .flat_map(|facts| facts.opaque.iter().rev());
    answers
        .find(|answer| answer.id == id)
        .map(|answer| answer.check.clone())
}

/// Returns the tokens used. `None` if no step called a model or one didn't record its tokens.
fn tokens(end: &WhatIf) -> Option<u64> {
    let total = end.stats.tokens.total();
    (total > 0 && end.stats.usage_missing == 0).then_some(total)
}

fn row(reading: &RuleReading, kind: String) -> RuleStatus {
    let (result, said, note) = match &reading.check {
        Check::Stop { reading, .. } => (Standing::Held, Some(reading), ""),
        Check::Pass(reading) => (Standing::Held, Some(reading), &*reading.detail),
        Check::Off(why) => (Standing::Off, None, &**why),
        Check::Unknown(needs) => (Standing::Unknown, None, &**needs),
    };
    let note = match result {
        Standing::Unknown if note == NO_ANSWER => NO_ANSWER.to_owned(),
        Standing::Unknown => format!("{note} isn't recorded"),
        Standing::Off if note == "0" => "a limit of 0".to_owned(),
        _ => note.to_owned(),
    };
    RuleStatus {
        is_inferred: false,
        id: reading.id.clone(),
        kind,
        label: String::new(),
        stands: "",
        is_outcome: false,
        result,
        also: matches!(reading.check, Check::Stop { .. }),
        bound: Bound::Exact,
        mark: "",
        reading: said.cloned().unwrap_or_default(),
        limit_from: (result != Standing::Off).then_some(LimitFrom::SetBy(reading.limit_from)),
        note,
        stop: None,
    }
}

/// Returns the rules outside the lists: critics, failures, the agent, the environment.
fn besides(record: &Record, index: &Index) -> Vec<RuleStatus> {
    let facts = &record.facts;
    if record.last_step().is_none() {
        return Vec::new();
    }
    let held = |id, kind| plain(id, kind, Standing::Held, "");
    let asked = facts.iter().any(|facts| !facts.critics.is_empty());
    let stops = facts
        .iter()
        .flat_map(|facts| &facts.critics)
        .any(|critic| critic.wish == CriticWish::Stop);
    let critics = match (asked, stops) {
        (false, _) => plain("critics", "critic_stop", Standing::Off, "no critics"),
        (true, true) => plain(
            "critics",
            "critic_stop",
            Standing::Held,
            "a critic requested a stop",
        ),
        (true, false) => plain("critics", "critic_stop", Standing::Held, ""),
    };
    // A failed tool is an error of its step and never reaches the recovery policy. Each error that
    // does has an event, including the one the policy gave up on.
    let raised = index
        .segment()
        .filter(|segment| segment.init.is_some())
        .map(|segment| segment.recoveries);
    let given_up = index.stop().filter(|stop| stop.criterion == "recovery");
    let recovered = raised.map(|raised| raised.saturating_sub(usize::from(given_up.is_some())));
    let recovery = RuleStatus {
        reading: Reading {
            measured: recovered.map(Into::into),
            unit: "recovered errors".into(),
            ..Reading::default()
        },
        ..held(
            "recovery",
            given_up.map_or("recovery_exhausted", |stop| stop.code.as_str()),
        )
    };
    vec![
        critics,
        recovery,
        held("agent", "agent_condition"),
        held("env", "env_terminal"),
    ]
}

/// Applies the recorded verdict: marks the rule that ended the run, and those that were also true.
fn judge(rules: &mut Vec<RuleStatus>, stop: &StopVerdict, retraced: Option<&Retraced>) {
    // At the time limit, running work is dropped under a name that isn't a rule. Then the time
    // limit's row ended the run, unless a limit of the engine itself came first.
    let is_time_over = rules
        .iter()
        .filter(|rule| rule.id == "budget.time")
        .any(|rule| {
            let Reading {
                measured, limit, ..
            } = &rule.reading;
            let both = measured
                .as_ref()
                .and_then(Number::as_u64)
                .zip(limit.as_ref().and_then(Number::as_u64));
            both.is_some_and(|(measured, limit)| measured >= limit)
        });
    let is_borrowed = is_reason_borrowed(stop);
    let own = |criterion: &str| match criterion {
        "budget_time" if is_time_over && !is_borrowed => "budget.time".to_owned(),
        critic if critic.starts_with("critic[") => "critics".to_owned(),
        criterion => criterion.to_owned(),
    };
    let fired = own(&stop.criterion);
    if !rules.iter().any(|rule| rule.id == fired) {
        let label = if is_borrowed {
            "Agent's stop reason"
        } else {
            ""
        };
        rules.push(RuleStatus {
            label: label.to_owned(),
            ..plain(&fired, stop.code.as_str(), Standing::Fired, "")
        });
    }
    let also: Vec<String> = stop.also.iter().map(|id| own(id)).collect();
    for rule in rules.iter_mut() {
        // A rule that is true now but wasn't evaluated at that moment didn't end the run either.
        let was_true = retraced.and_then(|retraced| retraced.was_true(&rule.id));
        rule.also = was_true.unwrap_or_else(|| also.contains(&rule.id));
        if rule.id != fired {
            continue;
        }
        (rule.result, rule.also) = (Standing::Fired, false);
        if stop.reading.measured.is_some() && stop.reading.limit.is_some() {
            rule.reading = stop.reading.clone();
        }
        rule.limit_from = stop.limit_from.map(LimitFrom::SetBy).or(rule.limit_from);
        rule.note = if rule.reading.limit.is_some() {
            String::new()
        } else {
            of_phase(&stop.reading.detail)
        };
        rule.stop = Some(Box::new(stop.clone()));
        if retraced.is_some_and(|retraced| retraced.is_refuted) {
            rule.result = Standing::Unknown;
            rule.note =
                "recorded as ending the run, but the recorded rules and steps contradict it"
                    .to_owned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop::OpaqueAnswer;

    #[test]
    fn a_rule_in_code_stands_as_it_answered_last_whatever_ended_the_run() {
        let set = StopSet::<()>::builder()
            .policy_when("far", Gate::AfterStep, |_| false)
            .build()
            .unwrap();
        let step = |n: u64, reached: Gate, opaque: Vec<OpaqueAnswer>| StepFacts {
            reached,
            opaque,
            ..StepFacts::begin(n, n * 10)
        };
        let check = Check::Pass(Reading {
            detail: "near".into(),
            ..Reading::default()
        });
        let answer = OpaqueAnswer {
            id: "far".to_owned(),
            gate: Gate::AfterStep,
            check,
        };
        // A budget ended the run before its last step.
        let far = |answers: Vec<OpaqueAnswer>| {
            let facts = vec![
                step(0, Gate::AfterStep, answers),
                step(1, Gate::BeforeStep, Vec::new()),
            ];
            let rows = surveyed(
                set.record(),
                &Record {
                    facts,
                    ..Record::default()
                },
            );
            rows.into_iter()
                .find(|row| row.id == "far")
                .map(|row| (row.kind, row.result, row.note))
                .unwrap()
        };
        assert_eq!(
            far(vec![answer]),
            ("opaque".to_owned(), Standing::Held, "near".to_owned())
        );
        assert_eq!(
            far(Vec::new()),
            ("opaque".to_owned(), Standing::Unknown, NO_ANSWER.to_owned())
        );
    }
}
