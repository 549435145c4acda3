//! Finds contradictions between a run's files about its end. Returns one sentence each, naming the
//! sources.

use std::collections::BTreeSet;

use super::cause::{Cause, Spent, cause};
use super::facts::{Facts, is_disputed, steps};
use super::recorded::is_reason_borrowed;
use super::{claims, ended, rounds};
use crate::analysis::facts;
use crate::analysis::format::count;
use crate::analysis::life::{Life, Liveness};
use crate::analysis::newest::{after_the_end, kept_answer, label, newest_run};
use crate::analysis::retrace::limit_of_stop;
use crate::analysis::stated;
use crate::model::index::is_same_reason;
use crate::model::{Code, Outcome, Reading, StopReason, StopVerdict};

/// Returns the contradictions, most serious first. Empty while the run may continue.
pub(super) fn contradictions(facts: &Facts<'_>, life: &Life, outcome: Outcome) -> Vec<String> {
    let mut found = Vec::new();
    if life.liveness.may_grow() {
        return found;
    }
    let altered = facts
        .manifest
        .into_iter()
        .flat_map(|manifest| &manifest.altered);
    found.extend(
        altered.map(|what| {
            format!("When the run ended, its writer found that another program had written to the trace: {what}")
        }),
    );
    of_the_reason(facts, &mut found);
    of_the_limits(facts, &mut found);
    found.extend(of_the_numbers(facts));
    found.extend(of_the_status(facts, outcome));
    of_the_ends(facts, life, &mut found);
    of_the_answer(facts, &mut found);
    claims::claims(facts, &mut found);
    of_the_verdict(facts, &mut found);
    found.extend(stated::disputed_totals(facts.index));
    found.extend(of_the_usage(facts));
    found.extend(stated::running_total(facts.index));
    found.extend(rounds::contradictions(facts.index));
    let conflicts = facts
        .manifest
        .into_iter()
        .flat_map(|manifest| &manifest.conflicts);
    found.extend(conflicts.map(|conflict| conflict.to_string()));
    found
}

/// Compares the stop reason with success and answer.
fn of_the_reason(facts: &Facts<'_>, found: &mut Vec<String>) {
    let Some(word) = facts.reason else { return };
    let reason = StopReason::parse(word);
    if reason.says_answered() && facts.is_unsuccessful() {
        found.push(format!(
            "The stop reason {word} implies an answer, but success is recorded as false"
        ));
    }
    if reason.says_answered() && facts.has_no_answer() {
        found.push(format!(
            "The stop reason {word} implies an answer, but no file has one"
        ));
    }
    let is_borrowed = facts.stop.is_some_and(is_reason_borrowed);
    if reason.is_preflight() && facts.done > 0 && !is_borrowed {
        let done = steps(facts.done);
        found.push(format!(
            "The stop reason {word} implies that the run didn't start, but it has {done}"
        ));
    }
    if reason == StopReason::CriticStop && facts.no_critic_stopped() && !is_borrowed {
        found.push(format!(
            "The stop reason {word} implies that a critic stopped the run, but none requested a stop"
        ));
    }
    let kept = facts.manifest.is_some() && kept_answer(facts.index).is_some();
    if reason == StopReason::CriticStop && kept && !is_borrowed {
        found.push("A critic stopped the run, but the manifest has a final result".to_owned());
    }
}

/// Compares the limit that supposedly ended the run with the numbers recorded for it. This is the
/// only place that compares the measured value with the limit, for all formats.
fn of_the_numbers(facts: &Facts<'_>) -> Option<String> {
    let ended = facts
        .index
        .manifest()
        .get()
        .and_then(|manifest| manifest.ended.as_deref());
    if let Some(ended) = ended.filter(|ended| !ended.refuted.is_empty()) {
        let used = ended::each_of(&ended.refuted);
        return Some(format!(
            "The recorded end {} implies that a limit was reached, but the trace records {used}",
            ended.word
        ));
    }
    let (who, reading) = fired(facts)?;
    if !reading.is_refuted() {
        return None;
    }
    let used = stated::used_of(reading.measured()?, reading.limit()?, &reading.unit);
    let bound = ended.map_or("", |ended| ended.bound.words());
    let used = format!("{bound}{used}");
    Some(format!(
        "{who} implies that a limit was reached, but the trace records {used}"
    ))
}

/// Returns the limit that supposedly ended the run, and the source of that claim.
fn fired(facts: &Facts<'_>) -> Option<(String, Reading)> {
    let index = facts.index;
    if let Some(ended) = index
        .manifest()
        .get()
        .and_then(|manifest| manifest.ended.as_deref())
    {
        let name = if ended.word.is_empty() {
            &ended.headline
        } else {
            &ended.word
        };
        let limit = index.limit(ended.unit);
        let agreed = limit
            .agreed()
            .copied()
            .and_then(serde_json::Number::from_f64);
        return Some((
            format!("The recorded end {name}"),
            Reading {
                limit: agreed,
                ..ended.reading()
            },
        ));
    }
    if let Some(stop) = facts.stop {
        return Some((
            format!("The verdict of {}", stop.criterion),
            stop.reading.clone(),
        ));
    }
    let word = facts.reason?;
    if let Cause::Criterion(criterion) = cause(index, word) {
        return Some((format!("The criterion behind {word}"), criterion.reading()?));
    }
    let spent = Spent::of(index, StopReason::parse(word));
    let unit = match StopReason::parse(word) {
        StopReason::BudgetTime => "ms",
        StopReason::BudgetTokens => "tokens",
        _ => "steps",
    };
    let number = |value: Option<f64>| value.and_then(serde_json::Number::from_f64);
    let reading = Reading::compare(spent.measured.unwrap_or(f64::NAN), spent.op, f64::NAN, unit);
    Some((
        format!("The stop reason {word}"),
        Reading {
            limit: number(spent.limit.agreed().copied()),
            ..reading
        },
    ))
}

/// Reports limits that records disagree on: the one that ended the run, and those of the budget.
fn of_the_limits(facts: &Facts<'_>, found: &mut Vec<String>) {
    let index = facts.index;
    let mut units = vec![
        ("step limit", "steps"),
        ("token limit", "tokens"),
        ("time limit", "ms"),
        ("cost limit", "usd"),
    ];
    let ended = index
        .manifest()
        .get()
        .and_then(|manifest| manifest.ended.as_deref());
    units.extend(
        ended
            .map(|ended| ("limit", ended.unit))
            .filter(|(_, unit)| units.iter().all(|(_, known)| known != unit)),
    );
    let before = found.len();
    for (about, unit) in units {
        let limit = index.limit(unit);
        found.extend(
            limit
                .disputed()
                .map(|stated| stated::number_in_words(index, about, unit, stated)),
        );
    }
    let of_stop = limit_of_stop(index, facts.retraced());
    if let Some(stated) = of_stop.disputed().filter(|_| found.len() == before) {
        let unit = index
            .recorded_stops()
            .first()
            .map_or_else(String::new, |(stop, _)| stop.reading.unit.to_string());
        found.push(stated::number_in_words(index, "limit", &unit, stated));
    }
}

/// Compares the status with the outcome.
fn of_the_status(facts: &Facts<'_>, outcome: Outcome) -> Option<String> {
    let status = facts.manifest?.status.as_deref()?;
    let word = facts.reason?;
    // QitOS records `completed` for every end that isn't an error or a cancellation.
    let fits = match (status, outcome) {
        (_, Outcome::Unknown | Outcome::Running) => true,
        ("failed", outcome) => outcome == Outcome::Failed,
        ("stopped", outcome) => outcome == Outcome::Cancelled,
        // Our own engine records `failed` and `stopped` for these.
        ("completed", Outcome::Failed | Outcome::Cancelled) if facts.stop.is_some() => false,
        ("completed", _) => !matches!(
            StopReason::parse(word),
            StopReason::UnrecoverableError | StopReason::CancelledImmediate
        ),
        _ => true,
    };
    let says = match outcome {
        Outcome::Completed => "it ended well",
        Outcome::Truncated => "a limit ended it",
        Outcome::Halted => "it was stopped",
        Outcome::Failed => "an error ended it",
        Outcome::Cancelled => "it was cancelled",
        Outcome::Running | Outcome::Unknown => "",
    };
    (!fits)
        .then(|| format!("The status is {status}, but the stop reason {word} implies that {says}"))
}

/// Compares the end according to the manifest, the END event, the stop check and the critics.
fn of_the_ends(facts: &Facts<'_>, life: &Life, found: &mut Vec<String>) {
    found.extend(stated::end_in_words(facts.index));
    found.extend(stated::ignored_stops(facts.index));
    let (Some(segment), manifest) = (facts.segment, facts.manifest) else {
        return;
    };
    let Some((_, end, _)) = &segment.end else {
        // A writer finishes its events before it updates the manifest.
        let said = manifest.filter(|manifest| manifest.is_final() && segment.init.is_some());
        if let Some(status) = said
            .and_then(|manifest| manifest.status.as_deref())
            .filter(|_| !facts.index.is_partial())
        {
            found.push(format!(
                "The manifest records {status}, but the newest run has no readable END event"
            ));
        }
        return;
    };
    if let (Some(in_event), Some(kept)) = (
        end.stop.as_deref(),
        manifest.and_then(|manifest| manifest.stop.as_deref()),
    ) && in_event != kept
        && !is_disputed(facts.index)
    {
        let said = |stop: &StopVerdict| match stop.step {
            Some(step) => format!("{} by {} after step {step}", stop.code, stop.criterion),
            None => format!("{} by {}", stop.code, stop.criterion),
        };
        let (kept_as, in_event_as) = (said(kept), said(in_event));
        let is_disputed = facts.index.limit_of_stop().disputed().is_some();
        let unlike = unlike(kept, in_event, is_disputed);
        if kept_as != in_event_as {
            found.push(format!(
                "The manifest records {kept_as}, the END event {in_event_as}"
            ));
        } else if !unlike.is_empty() {
            found.push(format!(
                "The manifest and the END event both record {kept_as} but differ: {unlike}"
            ));
        }
    }
    let status = manifest.and_then(|manifest| manifest.status.as_deref());
    // QitOS never updates the manifest of a run that it didn't start.
    let unstarted = facts.stop.is_none()
        && facts
            .reason
            .is_some_and(|word| StopReason::parse(word).is_preflight());
    if life.liveness == Liveness::Finished && status == Some("running") && !unstarted {
        let reason = end
            .reason
            .as_deref()
            .map_or_else(String::new, |reason| format!(" with {reason}"));
        found.push(format!(
            "The manifest still records status running, but the END event records that the run ended{reason}"
        ));
    }
    if let (Some(line), true) = (
        newest_run(facts.index).next_back(),
        after_the_end(facts.index) > 0,
    ) {
        let last = facts
            .last
            .map_or_else(|| "an earlier step".to_owned(), label);
        found.push(format!(
            "The END event comes after {last}, but steps.jsonl continues to {}",
            label(line)
        ));
    }
}

/// Lists the fields in which two verdicts differ, with both values. Omits the limit if it's already
/// reported.
fn unlike(kept: &StopVerdict, in_event: &StopVerdict, without_limit: bool) -> String {
    let fields = |stop: &StopVerdict| match serde_json::to_value(stop) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (kept, in_event) = (fields(kept), fields(in_event));
    let names: BTreeSet<&String> = kept.keys().chain(in_event.keys()).collect();
    let words = |value: Option<&serde_json::Value>| {
        value.map_or_else(|| "missing".to_owned(), ToString::to_string)
    };
    let is_named = |name: &String| without_limit && name == "limit";
    let differs = names
        .into_iter()
        .filter(|name| kept.get(*name) != in_event.get(*name) && !is_named(name));
    let say = |name: &String| {
        format!(
            "{name} is {} vs. {}",
            words(kept.get(name)),
            words(in_event.get(name))
        )
    };
    differs.map(say).collect::<Vec<_>>().join(", ")
}

/// Compares the answer according to the manifest, the stop check and the last step.
fn of_the_answer(facts: &Facts<'_>, found: &mut Vec<String>) {
    found.extend(stated::answer_in_words(facts.index));
    let twice = newest_run(facts.index)
        .filter(|(_, step)| step.answers_twice)
        .map(label)
        .next();
    found.extend(
        twice.map(|step| format!("In {step}, the decision and the state record different answers")),
    );
}

/// Compares the recorded verdict with the steps and with its own numbers.
fn of_the_verdict(facts: &Facts<'_>, found: &mut Vec<String>) {
    let (Some(stop), index) = (facts.stop, facts.index) else {
        return;
    };
    found.extend(
        facts
            .retraced()
            .into_iter()
            .flat_map(|retraced| retraced.differences.iter().cloned()),
    );
    if let Some(named) = stop.step_id() {
        let ran = newest_run(index).any(|(_, step)| step.step_id == Some(named))
            || index
                .groups()
                .iter()
                .any(|group| group.step_id == Some(named));
        if !ran && !index.is_partial() {
            found.push(format!(
                "The verdict names step {named} as the last one, but no file records it"
            ));
        }
    }
    for (stop, source) in index.recorded_stops() {
        let (outcome, reason) = (stop.implied_outcome(), stop.implied_reason());
        let is_own = matches!(stop.code, Code::Custom(_));
        if !is_own && stop.outcome != outcome {
            let (code, said) = (&stop.code, stop.outcome.as_str());
            found.push(format!(
                "The verdict {code} ({source}) has the outcome {said}, but this code implies {}",
                outcome.as_str()
            ));
        }
        let is_own_word = stop.code.as_str() == stop.stop_reason;
        if !is_own && !is_own_word && !is_same_reason(&stop.stop_reason, reason) {
            let (code, said) = (&stop.code, &stop.stop_reason);
            found.push(format!(
                "The verdict {code} ({source}) has the stop reason {said}, but this code implies {reason}"
            ));
        }
    }
}

/// Compares the tokens in a step's facts with those of its request.
fn of_the_usage(facts: &Facts<'_>) -> Option<String> {
    let (n, of_facts, of_request) = facts::disputed_usage(facts.index).next()?;
    let (step, of_facts, of_request) = (facts.index.label(n), count(of_facts), count(of_request));
    Some(format!(
        "The facts of step {step} count {of_facts} tokens, but its request counts {of_request} (steps.jsonl)"
    ))
}
