//! Where do the files of a run contradict each other about its end? A sentence each, naming what says what.

use std::collections::BTreeSet;

use super::cause::{Cause, Spent, cause};
use super::{Facts, disputed, label, steps};
use crate::analysis::facts::lost;
use crate::analysis::format::{count, duration, usd};
use crate::analysis::life::{Life, Liveness};
use crate::analysis::newest::{after_the_end, manifest_of_end, newest_run};
use crate::model::{Can, Outcome, Reading, StopReason, StopVerdict};

/// Writers round what a run cost to cents, and add up what steps cost in another order.
const ROUNDED_USD: f64 = 0.005;
const ROUNDED_PART: f64 = 0.001;

/// The contradictions, the gravest first. None as long as the run goes on.
pub(super) fn contradictions(facts: &Facts<'_>, life: &Life, outcome: Outcome) -> Vec<String> {
    let mut found = Vec::new();
    if life.liveness.may_grow() {
        return found;
    }
    let altered = facts.manifest.into_iter().flat_map(|manifest| &manifest.altered);
    found.extend(altered.map(|what| format!("The writer found at its end that somebody else had written: {what}")));
    of_the_reason(facts, &mut found);
    found.extend(of_the_numbers(facts));
    found.extend(of_the_status(facts, outcome));
    of_the_ends(facts, life, &mut found);
    found.extend(of_the_answer(facts));
    of_the_verdict(facts, &mut found);
    found.extend(of_the_tokens(facts));
    of_the_parts(facts, &mut found);
    let conflicts = facts.manifest.into_iter().flat_map(|manifest| &manifest.conflicts);
    found.extend(conflicts.map(|conflict| conflict.to_string()));
    found
}

/// What the stop reason says, against success and answer.
fn of_the_reason(facts: &Facts<'_>, found: &mut Vec<String>) {
    let Some(word) = facts.reason else { return };
    let reason = StopReason::parse(word);
    if reason.says_answered() && facts.is_unsuccessful() {
        found.push(format!("The stop reason {word} says that the run answered, and success is recorded as false"));
    }
    if reason.says_answered() && facts.has_no_answer() {
        found.push(format!("The stop reason {word} says that the run answered, and no file has an answer"));
    }
    if reason.is_preflight() && facts.done > 0 {
        let done = steps(facts.done);
        found.push(format!("The stop reason {word} says that the run did not start, and it has {done}"));
    }
    if reason == StopReason::CriticStop && facts.no_critic_stopped() {
        found.push(format!("The stop reason {word} says that a critic stopped the run, and none asked for a stop"));
    }
    let kept = facts.manifest.is_some_and(|manifest| manifest.final_result.is_some());
    if reason == StopReason::CriticStop && kept {
        found.push("A critic stopped the run, and the manifest has a final result".to_owned());
    }
}

/// What the stop reason says of a limit, against the numbers.
fn of_the_numbers(facts: &Facts<'_>) -> Option<String> {
    let word = facts.reason.filter(|_| facts.stop.is_none())?;
    let reason = StopReason::parse(word);
    // A criterion has a limit of its own.
    if matches!(cause(facts.index, word), Cause::Criterion(_)) {
        return None;
    }
    let spent = Spent::of(facts.index, reason);
    let (measured, limit) = (spent.measured?, spent.limit?);
    if spent.is_used_up() != Some(false) {
        return None;
    }
    let amount = |value: f64| match reason {
        StopReason::BudgetTime => duration(std::time::Duration::try_from_secs_f64(value / 1e3).unwrap_or_default()),
        _ => count(value as u64),
    };
    let unit = match reason {
        StopReason::BudgetTime => "",
        StopReason::BudgetTokens => " tokens",
        _ => " steps",
    };
    let (measured, limit) = (amount(measured), amount(limit));
    Some(format!(
        "The stop reason {word} says that a budget was used up, and the task's is {measured} of {limit}{unit}"
    ))
}

/// What the status says, against how the run came out.
fn of_the_status(facts: &Facts<'_>, outcome: Outcome) -> Option<String> {
    let status = facts.manifest?.status.as_deref()?;
    let word = facts.reason?;
    // QitOS says `completed` of every end that is no error and no cancellation.
    let fits = match (status, outcome) {
        (_, Outcome::Unknown | Outcome::Running) => true,
        ("failed", outcome) => outcome == Outcome::Failed,
        ("stopped", outcome) => outcome == Outcome::Cancelled,
        ("completed", _) => !matches!(StopReason::parse(word), StopReason::UnrecoverableError),
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
    (!fits).then(|| format!("The status is {status}, and the stop reason {word} says that {says}"))
}

/// What manifest, END event, stop check and critics say of the end, against each other.
fn of_the_ends(facts: &Facts<'_>, life: &Life, found: &mut Vec<String>) {
    let (Some(segment), manifest) = (facts.segment, facts.manifest) else { return };
    if let Some((kept, told)) = disputed(facts.index) {
        found.push(format!("The manifest says {kept}, the END event says {told}"));
    }
    let checked = segment.stop.as_ref().and_then(|(_, stop)| stop.reason.as_deref());
    let by_critic = segment.critics.as_ref().is_some_and(|(_, stopped, _)| *stopped);
    for (who, says) in [("stop check", checked), ("critics' event", by_critic.then_some("critic_stop"))] {
        if let (Some(says), Some(word)) = (says, facts.reason)
            && says != word
        {
            found.push(format!("The {who} says {says}, the recorded stop reason is {word}"));
        }
    }
    let Some((_, end, _)) = &segment.end else {
        // A writer ends its events before it says so in the manifest.
        let said = manifest_of_end(facts.index).filter(|manifest| manifest.is_final() && segment.init.is_some());
        if let Some(status) = said.and_then(|manifest| manifest.status.as_deref()).filter(|_| !facts.index.is_partial())
        {
            found.push(format!("The manifest says {status}, and no END event of the newest run can be read"));
        }
        return;
    };
    if let (Some(told), Some(kept)) = (end.stop.as_deref(), manifest.and_then(|manifest| manifest.stop.as_deref()))
        && told != kept
    {
        let said = |stop: &StopVerdict| match stop.step {
            Some(step) => format!("{} by {} after step {step}", stop.code, stop.criterion),
            None => format!("{} by {}", stop.code, stop.criterion),
        };
        let (kept_as, told_as) = (said(kept), said(told));
        found.push(match kept_as == told_as {
            false => format!("The manifest records {kept_as}, the END event {told_as}"),
            true => format!("Manifest and END event record {kept_as}, but not alike: {}", unlike(kept, told)),
        });
    }
    let status = manifest.and_then(|manifest| manifest.status.as_deref());
    // QitOS never updates the manifest of a run that it did not start.
    let unstarted = facts.stop.is_none() && facts.reason.is_some_and(|word| StopReason::parse(word).is_preflight());
    if life.liveness == Liveness::Finished && status == Some("running") && !unstarted {
        let reason = end.reason.as_deref().map_or_else(String::new, |reason| format!(" with {reason}"));
        found.push(format!("The manifest still says running, and the END event says that the run ended{reason}"));
    }
    if let (Some(line), true) = (newest_run(facts.index).next_back(), after_the_end(facts.index) > 0) {
        let last = facts.last.map_or_else(|| "a step before".to_owned(), label);
        found.push(format!("The END event comes after {last}, and steps.jsonl goes on to {}", label(line)));
    }
}

/// The fields in which two verdicts differ, with the value of each.
fn unlike(kept: &StopVerdict, told: &StopVerdict) -> String {
    let fields = |stop: &StopVerdict| match serde_json::to_value(stop) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (kept, told) = (fields(kept), fields(told));
    let names: BTreeSet<&String> = kept.keys().chain(told.keys()).collect();
    let words = |value: Option<&serde_json::Value>| value.map_or_else(|| "nothing".to_owned(), ToString::to_string);
    let differs = names.into_iter().filter(|name| kept.get(*name) != told.get(*name));
    let say = |name: &String| format!("{name} is {} and {}", words(kept.get(name)), words(told.get(name)));
    differs.map(say).collect::<Vec<_>>().join(", ")
}

/// What the manifest keeps as the answer, against what the stop check took.
fn of_the_answer(facts: &Facts<'_>) -> Option<String> {
    let kept = facts.manifest?.final_result.as_deref()?;
    let taken = facts.segment?.stop.as_ref()?.1.answer.as_deref()?;
    // The index keeps less of what the stop check took.
    let same = taken.strip_suffix('…').map_or(kept == taken, |start| kept.starts_with(start));
    (!same).then(|| "The manifest's answer is another than the one that the stop check took".to_owned())
}

/// What the recorded verdict says, against the steps and against its own numbers.
fn of_the_verdict(facts: &Facts<'_>, found: &mut Vec<String>) {
    let (Some(stop), index) = (facts.stop, facts.index) else { return };
    if let Some(named) = stop.step_id() {
        let ran = newest_run(index).any(|(_, step)| step.step_id == Some(named))
            || index.groups().iter().any(|group| group.step_id == Some(named));
        if !ran && !index.is_partial() {
            found
                .push(format!("The verdict names step {named} as the last that ran, and no file tells of such a step"));
        }
    }
    if holds(&stop.reading) == Some(false) {
        let said = super::reading(stop).unwrap_or_default();
        found.push(format!("The verdict says that {} ended the run at {said}, which is not true", stop.criterion));
    }
}

/// Whether a comparison is true as recorded; `None` where it is not whole.
fn holds(reading: &Reading) -> Option<bool> {
    Some(reading.op?.holds(reading.measured()?, reading.limit()?))
}

/// What the manifest says of tokens, against the steps.
fn of_the_tokens(facts: &Facts<'_>) -> Option<String> {
    let index = facts.index;
    let kept = facts.manifest?.tokens.filter(|_| lost(index).is_none() && !index.is_partial())?;
    // A step whose request failed records a total of 0.
    let counted = index.tally().run.tokens?;
    // Our own engine counts what critics ask a model for besides, which no step's total has.
    let more = index.format().can.facts == Can::Yes && kept > counted;
    (kept != counted && !more).then(|| {
        let (kept, counted) = (count(kept), count(counted));
        format!("The manifest counts {kept} tokens, the steps {counted}")
    })
}

/// What the run as a whole is said to have cost and taken, against what its steps add up to. They are parts of it: it may
/// have asked a model for more, for which there is no step, and never for less. Where each request is a step and all say
/// what they cost, it is not more either.
fn of_the_parts(facts: &Facts<'_>, found: &mut Vec<String>) {
    let index = facts.index;
    let Some(manifest) = facts.manifest.filter(|_| !index.is_partial()) else { return };
    // Whether what a run went on from is in its sums is told by no writer.
    if manifest.copied.is_some() || manifest.branched_after.is_some() || manifest.resumed_after.is_some() {
        return;
    }
    let run = &index.tally().run;
    let costs = || newest_run(index).filter(|(_, step)| !step.repeats).map(|(_, step)| step.cost_usd);
    let sum: f64 = costs().flatten().sum();
    let is_all = manifest.model_calls == Some(run.readable as u64) && costs().all(|cost| cost.is_some());
    if let Some(kept) = manifest.cost_usd.filter(|_| !manifest.cost_estimated) {
        let more = if is_all { (sum - kept).abs() } else { sum - kept };
        if more > ROUNDED_USD.max(sum * ROUNDED_PART) {
            let (kept, sum) = (usd(kept), usd(sum));
            found.push(format!("The run is said to have cost {kept}, and its steps add up to {sum}"));
        }
    }
    // Steps of our own runs and of QitOS tell a total so far, which is compared already.
    let kept = manifest.tokens.filter(|_| index.format().is_one_file() && !manifest.tokens_of_steps);
    let sum = run.usage.input.map(|input| input.saturating_add(run.usage.output.unwrap_or_default()));
    if let Some((kept, sum)) = kept.zip(sum).filter(|(kept, sum)| kept < sum) {
        let (kept, sum) = (count(kept), count(sum));
        found.push(format!("The run is said to have taken {kept} tokens, and its steps add up to {sum}"));
    }
}
