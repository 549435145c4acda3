//! Compares the recorded verdict with a replay of the recorded rules over the recorded steps.
//!
//! A missing rule or fact leaves a comparison open. It's never reported as a difference.

use super::facts::{self, Record};
use super::newest::newest_run;
use super::rule_replay::{WhatIf, replay, replay_from};
use super::stated::used_of;
use crate::model::stated::{Agreement, Source as Place, Stated};
use crate::model::{Code, Gate, Index, Reading, Source, StopVerdict};
use crate::stop::{BUDGETS, Check, EntryRule, RuleEntry, StepFacts, StopRules, StopSet, StopSpec};

/// What the recorded rules and steps say about the recorded verdict.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Retraced {
    /// The statements of the verdict that they contradict, one sentence each, most important first.
    pub(super) differences: Vec<String>,
    /// Whether they contradict that the verdict's rule ended the run as stated.
    pub(super) is_refuted: bool,
    /// The limit of that rule, if the verdict states a different one.
    limit: Option<Stated<f64>>,
    /// The rules that were true when the run ended, in evaluation order. `None` if that's unknown.
    held: Option<Vec<String>>,
    /// The rules that lack a fact.
    unknown: Vec<String>,
}

impl Retraced {
    /// Returns whether the rule with this id was true when the run ended, or `None` if that's
    /// unknown.
    pub(super) fn was_true(&self, id: &str) -> Option<bool> {
        let held = self.held.as_ref()?;
        let is_true = held.iter().any(|held| held == id);
        (is_true || !self.unknown.iter().any(|unknown| unknown == id)).then_some(is_true)
    }
}

/// Returns the limit that ended the newest run, according to its verdicts and its recorded rule.
pub(super) fn limit_of_stop(index: &Index, retraced: Option<&Retraced>) -> Agreement<f64> {
    let stated = index.limit_of_stop();
    let Some(of_rule) = retraced.and_then(|retraced| retraced.limit.clone()) else {
        return stated;
    };
    match stated {
        Agreement::Unknown => Agreement::Unknown,
        Agreement::Agreed(mut stated) | Agreement::Disputed(mut stated) => {
            stated.push(of_rule);
            Agreement::of(stated, |a, b| a == b)
        }
    }
}

/// Replays the recorded rules of the newest run. Returns `None` if the records don't agree on a
/// verdict, or there are no rules.
pub(super) fn retrace(index: &Index) -> Option<Retraced> {
    let stop = index.stop().filter(|stop| !stop.criterion.is_empty())?;
    let record = facts::kept(index)?;
    let set = StopSet::<()>::builder()
        .rules(record.rules.clone()?)
        .build_fail_closed()
        .ok()?;
    let mut found = Retraced::default();
    let rules = set.record();
    of_the_rule(stop, &set, &rules, &mut found);
    let is_backward = |facts: &&StepFacts| {
        let times = [facts.t_start_ms, facts.t_decided_ms, facts.t_end_ms]
            .into_iter()
            .flatten();
        times
            .clone()
            .zip(times.skip(1))
            .any(|(one, next)| next < one)
    };
    let backward = record.facts.iter().find(is_backward);
    found.differences.extend(backward.map(|facts| {
        format!(
            "The times in the facts of step {} run backwards (steps.jsonl)",
            label(index, facts.step)
        )
    }));
    if is_whole(index, &record) && stop.gate.is_some() {
        of_the_steps(index, stop, &set, &record, &mut found);
    }
    Some(found)
}

/// Returns whether the facts cover all steps, in order.
fn is_whole(index: &Index, record: &Record) -> bool {
    let ids = newest_run(index).map(|(_, step)| step.step_id);
    let is_rising = ids
        .clone()
        .zip(ids.skip(1))
        .all(|(one, next)| one.is_some() && one < next);
    let is_read = record.unread == 0 && record.facts.iter().all(|facts| !facts.is_unread);
    is_rising
        && is_read
        && record.lost.is_none()
        && record.foreign.is_none()
        && !record.begun
        && !index.is_partial()
}

/// Compares the verdict with the rule that it names.
fn of_the_rule(stop: &StopVerdict, set: &StopSet, rules: &StopRules, found: &mut Retraced) {
    let id = &*stop.criterion;
    let mut refute = |sentence: String| {
        found.differences.push(sentence);
        found.is_refuted = true;
    };
    let Some((entry, place)) = entry_of(rules, id) else {
        let budget = BUDGETS.iter().find(|row| row.id == id);
        let is_listed = matches!(
            stop.source,
            Source::Budget | Source::Policy | Source::Completion
        );
        // An end outside the lists uses its code as its name.
        let is_rule = is_listed && id != stop.code.as_str() || budget.is_some();
        let is_missing = budget.is_none_or(|row| (row.limit)(&rules.budget).is_none());
        if is_rule && is_missing {
            refute(format!(
                "The verdict names the rule {id}, but the recorded rules don't include it"
            ));
        } else if let Some(row) = budget.filter(|row| row.code != stop.code.as_str()) {
            refute(format!(
                "The verdict gives {id} as {}; recomputed: {}",
                stop.code, row.code
            ));
        }
        return;
    };
    let EntryRule::Spec(spec) = &entry.rule else {
        return;
    };
    if !may_give(spec, &stop.code) {
        refute(format!(
            "The verdict gives {id} as {}, but the recorded rule is {}",
            stop.code,
            spec.name()
        ));
        return;
    }
    let readings = replay(set, [&StepFacts::begin(0, 0)]).readings;
    let check = readings
        .iter()
        .find(|reading| reading.id == id)
        .map(|reading| &reading.check);
    match check {
        Some(Check::Off(_)) => refute(format!(
            "The verdict names the rule {id}, but the recorded rule is switched off"
        )),
        Some(Check::Pass(reading) | Check::Stop { reading, .. }) if members(spec).is_none() => {
            let other = reading
                .limit()
                .filter(|limit| stop.reading.limit().is_some_and(|stated| stated != *limit));
            found.limit = other.map(|value| Stated {
                value,
                source: place,
            });
            found.is_refuted |= found.limit.is_some();
        }
        _ => {}
    }
}

/// Returns the rule with this id and its position in the manifest.
fn entry_of<'a>(rules: &'a StopRules, id: &str) -> Option<(&'a RuleEntry, Place)> {
    let lists = [
        ("completion", &rules.completion),
        ("policies", &rules.policies),
    ];
    lists.into_iter().find_map(|(list, entries)| {
        let at = entries
            .iter()
            .position(|entry| entry.id.as_deref() == Some(id))?;
        let field = format!("/stop_rules/{list}/{at}").into();
        Some((
            entries.get(at)?,
            Place {
                who: "the recorded rule",
                file: "manifest.json",
                line: None,
                field,
            },
        ))
    })
}

fn members(spec: &StopSpec) -> Option<&[StopSpec]> {
    match spec {
        StopSpec::AnyOf(group) => Some(&group.of),
        StopSpec::AllOf(group) => Some(&group.of),
        _ => None,
    }
}

/// Returns whether a rule can end a run with this code.
fn may_give(spec: &StopSpec, code: &Code) -> bool {
    match members(spec) {
        Some(members) => members.iter().any(|member| may_give(member, code)),
        None => {
            spec.name() == code.as_str()
                || matches!((spec, code), (StopSpec::FinalResult(_), Code::Final))
                || matches!(code, Code::InvalidRegex | Code::CriterionError)
        }
    }
}

/// Compares the verdict with the replay of all rules.
fn of_the_steps(
    index: &Index,
    stop: &StopVerdict,
    set: &StopSet,
    record: &Record,
    found: &mut Retraced,
) {
    let Some(last) = record.facts.last() else {
        return;
    };
    let again = replay_from(set, record.start(), &record.facts);
    found.unknown = again
        .unknown
        .iter()
        .map(|unknown| unknown.id.clone())
        .collect();
    let ran = if last.reached == Gate::BeforeStep {
        before(record)
    } else {
        Some(last.step)
    };
    if let Some(verdict) = &again.verdict
        && (verdict.gate, verdict.step) != (Some(last.reached), ran)
    {
        // The budget is checked before a step, so the verdict's step is the one before it.
        let step = verdict.step.map_or_else(
            || "before the first step".to_owned(),
            |n| format!("after step {}", label(index, n)),
        );
        let numbers = in_brackets(&verdict.reading);
        found.differences.push(format!(
            "By the recorded rules, {} would have ended the run {step}{numbers}, but the run continued",
            verdict.criterion
        ));
        found.is_refuted = true;
        return;
    }
    // The facts of the last gate may be missing.
    if stop.gate != Some(last.reached) {
        return;
    }
    let held = again.verdict.as_ref().map_or_else(Vec::new, |verdict| {
        std::iter::once(&verdict.criterion)
            .chain(&verdict.also)
            .cloned()
            .collect()
    });
    found.held = Some(held);
    of_the_order(stop, &again, found);
    if let Some(verdict) = again
        .verdict
        .as_ref()
        .filter(|verdict| verdict.criterion == stop.criterion)
    {
        of_the_fields(
            index,
            stop,
            verdict,
            is_sum_partial(&again, &stop.reading.unit),
            found,
        );
    }
    of_the_others(index, stop, &again, found);
}

/// Returns the step before the last one of a record.
fn before(record: &Record) -> Option<u64> {
    record
        .facts
        .iter()
        .rev()
        .nth(1)
        .map(|facts| facts.step)
        .or(record.resumed.last_step)
}

/// Compares which rule ended the run: the verdict's, or an earlier one.
fn of_the_order(stop: &StopVerdict, again: &WhatIf, found: &mut Retraced) {
    let id = &*stop.criterion;
    let first = again.verdict.as_ref().map(|verdict| &*verdict.criterion);
    let sentence = match found.was_true(id) {
        Some(false) => {
            let numbers = reading_of(again, id).map(in_brackets).unwrap_or_default();
            format!(
                "The verdict records that {id} ended the run, but by the recorded steps it wasn't true{numbers}"
            )
        }
        Some(true) if first != Some(id) => {
            let first = first.unwrap_or_default();
            let numbers = reading_of(again, first)
                .map(in_brackets)
                .unwrap_or_default();
            format!(
                "The verdict records that {id} ended the run, but {first} was also true{numbers} and is checked first"
            )
        }
        _ => return,
    };
    // A rule that isn't recorded, or has a different limit, is already reported.
    let is_named = found.is_refuted;
    found.is_refuted = true;
    if !is_named {
        found.differences.push(sentence);
    }
}

/// Returns whether some steps lack a number of this unit, so that their sum is a lower bound.
fn is_sum_partial(again: &WhatIf, unit: &str) -> bool {
    match unit {
        "tokens" => again.stats.usage_missing > 0,
        "usd" => again.stats.cost_missing > 0,
        _ => false,
    }
}

/// Compares the fields of two verdicts of one rule.
fn of_the_fields(
    index: &Index,
    stop: &StopVerdict,
    again: &StopVerdict,
    is_partial: bool,
    found: &mut Retraced,
) {
    let mut unlike: Vec<String> = Vec::new();
    let (one, other) = (&stop.reading, &again.reading);
    let mut differ = |name: &str, stated: Option<String>, is: Option<String>| {
        if let (Some(stated), Some(is)) = (stated, is)
            && stated != is
        {
            unlike.push(format!("{name} is {stated}, not {is}"));
        }
    };
    let is_near = one
        .measured()
        .zip(other.measured())
        .is_some_and(|(a, b)| (a - b).abs() <= 1e-9 * a.abs().max(b.abs()));
    let number = |reading: &Reading| {
        reading
            .measured
            .as_ref()
            .filter(|_| !is_near && !is_partial)
            .map(ToString::to_string)
    };
    differ("measured", number(one), number(other));
    let op = |reading: &Reading| reading.op.map(|op| op.as_str().to_owned());
    differ("op", op(one), op(other));
    let unit = |reading: &Reading| Some(reading.unit.to_string()).filter(|unit| !unit.is_empty());
    differ("unit", unit(one), unit(other));
    // Older versions named the rule.
    let is_renamed = (&stop.code, &again.code) == (&Code::FinalResult, &Code::Final);
    differ(
        "code",
        Some(stop.code.to_string()).filter(|_| !is_renamed),
        Some(again.code.to_string()),
    );
    let source =
        |stop: &StopVerdict| Some(stop.source.to_string()).filter(|source| !source.is_empty());
    differ("source", source(stop), source(again));
    let from = |stop: &StopVerdict| stop.limit_from.map(|from| from.as_str().to_owned());
    differ("limit_from", from(stop), from(again));
    let step = again
        .step
        .and_then(|n| index.steps().get(usize::try_from(n).ok()?)?.step_id);
    differ(
        "step",
        stop.step.map(|step| step.to_string()),
        step.map(|step| step.to_string()),
    );
    if let Some((stated, is)) = unlike_numbers(&one.detail, &other.detail).filter(|_| !is_partial) {
        differ(
            "detail",
            Some(format!("\"{stated}\"")),
            Some(format!("\"{is}\"")),
        );
    }
    // A rule can't have seen steps after the last step of the newest run.
    let last = newest_run(index)
        .next_back()
        .and_then(|(_, step)| u64::try_from(step.step_id?).ok());
    if let (Some((from, to)), Some(last)) = (one.steps(), last.filter(|_| other.steps().is_some()))
        && to > last
    {
        differ(
            "evidence",
            Some(format!("steps {from} to {to}")),
            Some(format!("steps up to {last}")),
        );
    }
    if !unlike.is_empty() {
        found.is_refuted = true;
        let unlike = unlike.join(", ");
        found.differences.push(format!(
            "The verdict of {} doesn't match the recorded steps: {unlike}",
            stop.criterion
        ));
    }
}

/// Compares which other rules were true when the run ended.
fn of_the_others(index: &Index, stop: &StopVerdict, again: &WhatIf, found: &mut Retraced) {
    // Records that disagree on this are reported elsewhere, and a long list may be truncated.
    let stops = index.recorded_stops();
    let is_agreed = stops.iter().all(|(other, _)| other.also == stop.also);
    if !is_agreed || stop.also.len() >= crate::model::end::MAX_ALSO {
        return;
    }
    let numbers = |id: &str| reading_of(again, id).map(in_brackets).unwrap_or_default();
    let mut said: Vec<String> = Vec::new();
    for id in stop
        .also
        .iter()
        .filter(|id| found.was_true(id) == Some(false))
    {
        said.push(format!(
            "The verdict records that {id} was also true, but by the recorded steps it wasn't{}",
            numbers(id)
        ));
    }
    let is_claimed = |id: &String| *id == stop.criterion || stop.also.contains(id);
    // If the verdict's rule was true but came later, the first rule is already reported.
    let named = found
        .was_true(&stop.criterion)
        .filter(|was| *was)
        .and(again.verdict.as_ref())
        .map(|first| &first.criterion);
    for id in found
        .held
        .iter()
        .flatten()
        .filter(|id| !is_claimed(id) && Some(*id) != named)
    {
        said.push(format!(
            "By the recorded steps, {id} was true when the run ended{}, but the verdict omits it",
            numbers(id)
        ));
    }
    found.differences.extend(said);
}

/// Returns the reading of a rule at the moment the run ended.
fn reading_of<'a>(again: &'a WhatIf, id: &str) -> Option<&'a Reading> {
    let check = again
        .readings
        .iter()
        .find(|reading| reading.id == id)
        .map(|reading| &reading.check)?;
    match check {
        Check::Pass(reading) | Check::Stop { reading, .. } => Some(reading),
        _ => None,
    }
}

/// Formats " (5 of 20 steps)". Empty without two numbers.
fn in_brackets(reading: &Reading) -> String {
    let numbers = reading.measured().zip(reading.limit());
    numbers.map_or_else(String::new, |(used, limit)| {
        format!(" ({})", used_of(used, limit, &reading.unit))
    })
}

/// Returns the label of the step with this ordinal.
fn label(index: &Index, ordinal: u64) -> String {
    index.label(usize::try_from(ordinal).unwrap_or(usize::MAX))
}

/// Returns the texts if they have the same words but different numbers. Different versions of a
/// writer may word a sentence differently.
fn unlike_numbers<'a>(one: &'a str, other: &'a str) -> Option<(&'a str, &'a str)> {
    let words = |text: &str| -> String {
        text.chars()
            .filter(|char| !char.is_ascii_digit() && *char != '.')
            .collect()
    };
    (one != other && !one.ends_with('…') && words(one) == words(other)).then_some((one, other))
}
