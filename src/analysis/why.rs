//! Why did the run stop, and what shows it? The verdict with its evidence, each piece with the place it comes from.

use super::life::{Basis, Liveness};
use super::summary::Summary;
use super::verdict::{Mark, Outcome, reading, recorded};
use crate::model::event::StopNote;
use crate::model::{CriticAction, Index, RecordedStop, StopReason};

/// At most this many pieces of evidence are given.
const MAX_EVIDENCE: usize = 6;

/// A piece of evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Which sort it is.
    pub kind: Kind,
    /// One sentence, without a full stop.
    pub text: String,
    /// The step it comes from, as an ordinal.
    pub step: Option<usize>,
    /// The event it comes from, as an index.
    pub event: Option<usize>,
}

/// Sorts of evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// How the run ended, by its events.
    End,
    /// A rule's verdict.
    Rule,
    /// A critic's verdict.
    Critic,
    /// An error.
    Error,
    /// What the manifest says.
    Manifest,
    /// An answer.
    Answer,
    /// What is missing.
    Gap,
}

impl Kind {
    /// The word used in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Kind::End => "end",
            Kind::Rule => "rule",
            Kind::Critic => "critic",
            Kind::Error => "error",
            Kind::Manifest => "manifest",
            Kind::Answer => "answer",
            Kind::Gap => "gap",
        }
    }
}

/// The explanation of a run's end, beside its [`Summary`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Why {
    /// The weightiest first.
    pub evidence: Vec<Evidence>,
    /// Where the files contradict each other, a sentence each.
    pub contradictions: Vec<String>,
    /// The first step in which something went wrong, and what.
    pub first_trouble: Option<(usize, String)>,
}

/// Explains a run.
pub fn why(summary: &Summary, index: &Index) -> Why {
    let mut evidence = Vec::new();
    from_record(summary, index, &mut evidence);
    from_events(index, &mut evidence);
    from_silence(summary, index, &mut evidence);
    from_failures(index, &mut evidence);
    from_critics(summary, index, &mut evidence);
    if let Some(answer) = &summary.answer {
        let step = summary.verdict.step;
        evidence.push(Evidence { kind: Kind::Answer, text: format!("The answer: {answer}"), step, event: None });
    }
    evidence.truncate(MAX_EVIDENCE);
    Why { evidence, contradictions: contradictions(summary, index), first_trouble: first_trouble(index) }
}

/// The rule that ended the run, as our own engine records it.
fn from_record(summary: &Summary, index: &Index, evidence: &mut Vec<Evidence>) {
    let Some(stop) = recorded(index).filter(|_| !summary.life.liveness.may_grow()) else { return };
    let event = index.segment().and_then(|segment| segment.end.as_ref()).map(|(event, ..)| *event);
    let by = if stop.criterion == stop.code { String::new() } else { format!(" ({})", stop.code) };
    let compared = reading(stop).or_else(|| Some(stop.detail.to_string()).filter(|detail| !detail.is_empty()));
    let compared = compared.map_or_else(String::new, |words| format!(": {words}"));
    // What is no rule has a name that says what it is: `decision`, `critic[0]`, `recovery`.
    let rule = matches!(&*stop.source, "budget" | "policy" | "completion");
    let text = format!("Ended by {}{}{by}{compared}", if rule { "the rule " } else { "" }, stop.criterion);
    evidence.push(Evidence { kind: Kind::Rule, text, step: summary.verdict.step, event });
    if let Some((from, to)) = stop.rests_on.filter(|(from, to)| from < to) {
        let step = index.steps().iter().rposition(|step| step.step_id == Some(from));
        let text = format!("It rests on steps {from} to {to}");
        evidence.push(Evidence { kind: Kind::Rule, text, step, event: None });
    }
}

fn from_events(index: &Index, evidence: &mut Vec<Evidence>) {
    let Some(segment) = index.segment() else { return };
    let mut add = |kind, event, text| evidence.push(Evidence { kind, text, step: None, event: Some(event) });
    if let Some((event, end, ok)) = &segment.end {
        let reason = end.reason.as_deref().unwrap_or("no reason");
        let named = index.events().get(*event).and_then(|event| event.step_id);
        let ran = |id: i64| index.groups().iter().skip(segment.first_group).any(|group| group.step_id == Some(id));
        let never = named
            .filter(|id| end.stop.is_none() && !ran(*id))
            .map_or_else(String::new, |id| format!(" and names step {id}, which never ran"));
        // Its verdict stands above; what else it says is worth a line only where it says something else.
        let told = end.stop.as_ref().is_some_and(|stop| stop.stop_reason == end.reason);
        let well = if *ok { "" } else { ", not ok" };
        if !told {
            add(Kind::End, *event, format!("The END event says {reason}{well}{never}"));
        }
        if let Some(issue) = &end.issue {
            add(Kind::Error, *event, format!("Preflight: {issue}"));
        }
    }
    let ended_as = |stop: &StopNote| recorded(index).is_some_and(|ended| ended.stop_reason == stop.reason);
    if let Some((event, stop)) = segment.stop.as_ref().filter(|(_, stop)| !ended_as(stop)) {
        let reason = stop.reason.as_deref().unwrap_or("no reason");
        let detail = stop.detail.as_deref().map_or_else(String::new, |detail| format!(": {detail}"));
        let env = if stop.env_terminal { ", as the environment said" } else { "" };
        add(Kind::Rule, *event, format!("The stop check ended the run with {reason}{detail}{env}"));
    }
    if let Some((event, text)) = &segment.overflow {
        add(Kind::Rule, *event, format!("The request did not fit the context window: {text}"));
    }
    if let Some((event, text)) = &segment.error {
        add(Kind::Error, *event, format!("The last error: {text}"));
    }
}

fn from_silence(summary: &Summary, index: &Index, evidence: &mut Vec<Evidence>) {
    if summary.life.liveness == Liveness::Finished {
        return;
    }
    let mut add = |event, text| evidence.push(Evidence { kind: Kind::Gap, text, step: None, event });
    if summary.life.basis == Basis::Teardown {
        let event = index.segment().and_then(|segment| segment.teardown);
        add(
            event,
            "Tool sets were torn down and no END event was written: an exception left the engine's loop".to_owned(),
        );
    } else if summary.life.liveness == Liveness::Died {
        let last = index.events().len().checked_sub(1);
        let words = last.and_then(|at| index.events().get(at)).map(|event| {
            let (phase, stage) = (index.name(event.phase), index.name(event.stage));
            format!("The last event is {phase} {stage}; neither teardown nor END follow, as after a kill")
        });
        add(last, words.unwrap_or_else(|| "No event was written".to_owned()));
    }
    if summary.verdict.mark == Mark::Died && summary.status.as_deref() == Some("running") {
        add(None, "The manifest still says running".to_owned());
    }
}

fn from_failures(index: &Index, evidence: &mut Vec<Evidence>) {
    let Some(manifest) = index.manifest().get() else { return };
    for failure in manifest.failures.iter().rev().take(2) {
        let step = index.steps().iter().rposition(|step| step.step_id.is_some() && step.step_id == failure.step_id);
        let then = match &*failure.decision {
            "continue" => "the engine went on",
            "stop" => "the engine stopped",
            other => other,
        };
        let message = failure.message.trim_end_matches('.');
        let text = format!("Failure report: {} in {}: {message}; {then}", failure.category, failure.phase);
        evidence.push(Evidence { kind: Kind::Manifest, text, step, event: None });
    }
}

fn from_critics(summary: &Summary, index: &Index, evidence: &mut Vec<Evidence>) {
    let Some((at, step)) = index.steps().iter().enumerate().rev().find(|(_, step)| !step.critics.is_empty()) else {
        return;
    };
    let words: Vec<String> = step
        .critics
        .iter()
        .take(4)
        .map(|mark| match mark.score {
            Some(score) => format!("{} {}", index.name(mark.name), super::format::score(score)),
            None => format!("{} without a number", index.name(mark.name)),
        })
        .collect();
    let asked = match (step.asked(CriticAction::Stop), step.asked(CriticAction::Retry)) {
        (true, _) => "a stop was asked for",
        (_, true) => "a retry was asked for",
        _ => "no stop was asked for",
    };
    let text = format!("Last scores: {}; {asked}", words.join(", "));
    let evidence_of = Evidence { kind: Kind::Critic, text, step: Some(at), event: None };
    // A critic's stop is the reason itself and leads.
    if summary.verdict.mark == Mark::Critic { evidence.insert(0, evidence_of) } else { evidence.push(evidence_of) }
}

fn contradictions(summary: &Summary, index: &Index) -> Vec<String> {
    let mut found = Vec::new();
    let manifest = index.manifest().get();
    let reason = summary.verdict.stop_reason.as_deref().map(StopReason::parse);
    let success = manifest.and_then(|manifest| manifest.success);
    if matches!(reason, Some(StopReason::Final | StopReason::Success)) && success == Some(false) {
        found.push("The label says that the run answered, and success is recorded as false".to_owned());
    }
    let completed = summary.status.as_deref() == Some("completed");
    // Our own engine says so as QitOS does, and says the outcome beside it.
    if completed
        && recorded(index).is_none()
        && matches!(summary.verdict.outcome, Outcome::Truncated | Outcome::Halted | Outcome::Failed)
    {
        found.push("Status is completed: the engine returned, but the task was not done".to_owned());
    }
    let end = index.segment().and_then(|segment| segment.end.as_ref()?.1.reason.as_deref());
    let said = manifest.and_then(|manifest| manifest.stop_reason.as_deref());
    if let (Some(end), Some(said)) = (end, said)
        && end != said
    {
        found.push(format!("The manifest says {said}, the END event says {end}"));
    }
    let told = index.segment().and_then(|segment| segment.end.as_ref()?.1.stop.as_deref());
    if let (Some(told), Some(kept)) = (told, manifest.and_then(|manifest| manifest.stop.as_deref()))
        && told != kept
    {
        let said = |stop: &RecordedStop| match stop.step {
            Some(step) => format!("{} by {} after step {step}", stop.code, stop.criterion),
            None => format!("{} by {}", stop.code, stop.criterion),
        };
        found.push(format!("The manifest records {}, the END event {}", said(kept), said(told)));
    }
    if summary.life.liveness == Liveness::Finished && summary.status.as_deref() == Some("running") {
        found.push("The manifest says running, and the run ended".to_owned());
    }
    found
}

/// The first step with an error, a failed command or a critic who wanted something else.
fn first_trouble(index: &Index) -> Option<(usize, String)> {
    index.steps().iter().enumerate().find_map(|(at, step)| {
        let event_error = || index.groups().get(index.group_of(at)?)?.error.as_ref().map(|(_, text)| text.to_string());
        let tool = || step.error.as_deref().map(|error| format!("a tool failed: {error}"));
        let code = || step.returncode.map(|code| format!("a command returned {code}"));
        let asked = |action, word: &str| {
            let reason = step.critic_reason.as_deref().filter(|reason| !reason.is_empty());
            step.asked(action)
                .then(|| format!("{word} asked for{}", reason.map_or_else(String::new, |why| format!(": {why}"))))
        };
        let bad_line = || (!step.fate.is_readable()).then(|| "its line cannot be read".to_owned());
        let trouble = bad_line().or_else(event_error).or_else(tool).or_else(code);
        let trouble =
            trouble.or_else(|| asked(CriticAction::Retry, "retry")).or_else(|| asked(CriticAction::Stop, "stop"));
        trouble.map(|words| (at, words))
    })
}
