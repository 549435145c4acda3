//! Where do the files of a run contradict each other about its end? A sentence each, naming what says what.

use crate::analysis::life::Liveness;
use crate::analysis::newest::newest_run;
use crate::analysis::summary::Summary;
use crate::model::{Index, Outcome, StopReason, StopVerdict};

/// The contradictions, the gravest first.
pub(super) fn contradictions(summary: &Summary, index: &Index) -> Vec<String> {
    let mut found = Vec::new();
    of_the_label(summary, index, &mut found);
    of_the_ends(summary, index, &mut found);
    of_the_verdict(index, &mut found);
    found
}

/// What the stop reason says, against the status, the success and the answer.
fn of_the_label(summary: &Summary, index: &Index, found: &mut Vec<String>) {
    let Some(word) = summary.verdict.stop_reason.as_deref() else { return };
    let reason = StopReason::parse(word);
    let says_answered = matches!(reason, StopReason::Final | StopReason::Success);
    let manifest = index.manifest().get();
    let success = manifest.and_then(|manifest| manifest.success);
    if says_answered && success == Some(false) {
        found.push(format!("The stop reason {word} says that the run answered, and success is recorded as false"));
    }
    // Without a manifest or a last step nobody knows whether there was an answer.
    let last = newest_run(index).next_back().map(|(_, step)| index.name(step.mode));
    let no_answer = summary.answer.is_none() && last.is_some_and(|mode| mode != "final");
    if says_answered && manifest.is_some() && no_answer {
        found.push(format!("The stop reason {word} says that the run answered, and no file has an answer"));
    }
    let kept = manifest.is_some_and(|manifest| manifest.final_result.is_some());
    if reason == StopReason::CriticStop && kept {
        found.push("A critic stopped the run, and the manifest has a final result".to_owned());
    }
    // Our own engine says so as QitOS does, and says the outcome beside it.
    let outcome = summary.verdict.outcome;
    let cut = matches!(outcome, Outcome::Truncated | Outcome::Halted | Outcome::Failed);
    if summary.status.as_deref() == Some("completed") && index.stop().is_none() && cut {
        found.push(format!("The status is completed, and the stop reason {word} says that the task was not done"));
    }
}

/// What the manifest says of the end, against the END event.
fn of_the_ends(summary: &Summary, index: &Index, found: &mut Vec<String>) {
    let manifest = index.manifest().get();
    let Some((_, end, _)) = index.segment().and_then(|segment| segment.end.as_ref()) else { return };
    let said = manifest.and_then(|manifest| manifest.stop_reason.as_deref());
    if let (Some(end), Some(said)) = (end.reason.as_deref(), said)
        && end != said
    {
        found.push(format!("The manifest says {said}, the END event says {end}"));
    }
    if let (Some(told), Some(kept)) = (end.stop.as_deref(), manifest.and_then(|manifest| manifest.stop.as_deref()))
        && told != kept
    {
        let said = |stop: &StopVerdict| match stop.step {
            Some(step) => format!("{} by {} after step {step}", stop.code, stop.criterion),
            None => format!("{} by {}", stop.code, stop.criterion),
        };
        found.push(format!("The manifest records {}, the END event {}", said(kept), said(told)));
    }
    if summary.life.liveness == Liveness::Finished && summary.status.as_deref() == Some("running") {
        let reason = end.reason.as_deref().map_or_else(String::new, |reason| format!(" with {reason}"));
        found.push(format!("The manifest still says running, and the END event says that the run ended{reason}"));
    }
}

/// What the recorded verdict says, against the steps.
fn of_the_verdict(index: &Index, found: &mut Vec<String>) {
    let Some(named) = index.stop().and_then(StopVerdict::step_id) else { return };
    let ran = newest_run(index).any(|(_, step)| step.step_id == Some(named))
        || index.groups().iter().any(|group| group.step_id == Some(named));
    if !ran && !index.is_partial() {
        found.push(format!("The verdict names step {named} as the last that ran, and no file tells of such a step"));
    }
}
