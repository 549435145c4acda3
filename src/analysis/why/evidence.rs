//! Collects the evidence for why a run stopped: sentences with their sources, most important first.

use schemars::JsonSchema;
use serde::Serialize;

use super::phase::of_phase;
use crate::analysis::chain::{self, PatternKind};
use crate::analysis::format::{self, capitalised};
use crate::analysis::life::{Basis, Liveness};
use crate::analysis::newest::{are_steps_unknown, newest_run};
use crate::analysis::stated;
use crate::analysis::summary::Summary;
use crate::analysis::verdict::{RunStatus, UNSOLVED, deciding, ended, reading, under_way};
use crate::analysis::window::NearlyFull;
use crate::model::event::StopNote;
use crate::model::names::clipped;
use crate::model::step::Value;
use crate::model::words::words;
use crate::model::{
    Certainty, CriticAction, EventKind, Index, Lines, Outcome, Source, StepHead, TraceFile,
};

/// Limits the pieces of evidence.
const MAX_EVIDENCE: usize = 6;
/// Limits the quoted characters of a model's output.
const MAX_OUTPUT_CHARS: usize = 200;

/// The evidence at the last record if no end is recorded.
const UNTOLD: &str = "This is the last record. The trace doesn't record what happened next";
/// The same, if the last step makes no tool call.
const REPLIED: &str = "The last step made no tool call; it may be the final answer";

/// The gap in records that don't show where each step begins.
const UNCOUNTED: &str = "Step boundaries aren't recorded, so the number of steps is unknown";

/// A piece of evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Evidence {
    /// The kind of evidence.
    pub kind: Kind,
    /// One sentence, without a full stop.
    pub text: String,
    /// The step that it comes from, counted from 0; the first one if there are several.
    pub step: Option<usize>,
    /// The last step that it comes from, if there are several.
    pub last_step: Option<usize>,
    /// The event that it comes from, counted from 0.
    pub event: Option<usize>,
    /// Whether it describes a repetition of steps.
    #[serde(skip)]
    pub repeats: bool,
}

impl Evidence {
    fn at(kind: Kind, step: Option<usize>, text: String) -> Self {
        Self {
            kind,
            text,
            step,
            last_step: None,
            event: None,
            repeats: false,
        }
    }

    /// Returns the event or the steps that it comes from.
    pub fn place(&self, index: &Index) -> Option<String> {
        match (self.event, self.step, self.last_step) {
            (Some(event), ..) => Some(format!("event {event}")),
            (None, Some(first), Some(last)) if last != first => Some(format!(
                "steps {}–{}",
                index.label(first),
                index.label(last)
            )),
            (None, Some(step), _) => Some(format!("step {}", index.label(step))),
            (None, None, _) => None,
        }
    }
}

words! {
    /// Kinds of evidence.
    pub enum Kind {
        /// The end of the run, according to its events.
        End = "end",
        /// The verdict of a rule.
        Rule = "rule",
        /// The steps that led up to the end.
        Chain = "chain",
        /// The verdict of a critic.
        Critic = "critic",
        /// An error.
        Error = "error",
        /// A statement in the manifest.
        Manifest = "manifest",
        /// An answer.
        Answer = "answer",
        /// Something missing.
        Gap = "gap",
        /// A context window that is nearly full.
        Context = "context",
    }
}

/// Returns the evidence for a run's end.
pub(super) fn evidence(summary: &Summary, index: &Index, lines: &dyn Lines) -> Vec<Evidence> {
    let mut evidence = Vec::new();
    // A run that didn't reach its end is explained by what is missing, rather than by earlier
    // decisions.
    from_silence(summary, index, lines, &mut evidence);
    from_tool(summary, index, &mut evidence);
    if are_steps_unknown(index) {
        evidence.push(Evidence::at(Kind::Gap, None, UNCOUNTED.to_owned()));
    }
    from_record(summary, index, &mut evidence);
    from_events(summary, index, &mut evidence);
    if summary.answer.is_none() {
        from_output(index, lines, &mut evidence);
    }
    if let Some(full) = NearlyFull::at_the_end(summary, index) {
        evidence.push(Evidence::at(
            Kind::Context,
            Some(full.step),
            full.words(index),
        ));
    }
    from_chain(summary, index, &mut evidence);
    from_failures(index, &mut evidence);
    from_critics(summary, index, &mut evidence);
    if let Some(answer) = &summary.answer {
        let is_final = |n: &usize| {
            index
                .steps()
                .get(*n)
                .is_some_and(|step| index.name(step.mode) == "final")
        };
        let is_own = index.format().is_one_file();
        let step =
            stated::answered_at(index).or(summary.verdict.step.filter(|n| is_own || is_final(n)));
        // If the answering step has no line, the stop check contains the answer.
        let stop = index.segment().and_then(|segment| segment.stop.as_ref());
        let stop =
            stop.filter(|(_, stop)| stop.answer.as_deref().is_some_and(|text| !text.is_empty()));
        let event = stop.map(|(event, _)| *event).filter(|_| step.is_none());
        evidence.push(Evidence {
            event,
            ..Evidence::at(Kind::Answer, step, format!("Answer: {answer}"))
        });
    }
    from_scores(summary, index, &mut evidence);
    evidence.truncate(MAX_EVIDENCE);
    evidence
}

/// Adds the score that decides whether the task is solved, and the expected answer. They come first if
/// the answer was wrong, otherwise before the answer.
fn from_scores(summary: &Summary, index: &Index, evidence: &mut Vec<Evidence>) {
    let Some(target) = summary.target.as_deref() else {
        return;
    };
    let is_unsolved = summary.verdict.sentence.starts_with(UNSOLVED);
    let manifest = index.manifest().get();
    let given = manifest.and_then(|manifest| deciding(&manifest.scores));
    let score = given.filter(|_| is_unsolved).and_then(|given| {
        let reason = given.reason.as_deref()?;
        let first = reason
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty())?;
        let reason = clipped(first, MAX_OUTPUT_CHARS);
        let event = given.source.as_ref().map(|(event, _)| *event);
        Some(Evidence {
            event,
            ..Evidence::at(Kind::Critic, None, format!("{}: {reason}", given.name))
        })
    });
    let target = clipped(target, MAX_OUTPUT_CHARS);
    let target = Evidence::at(Kind::Answer, None, format!("Target: {target}"));
    let is_answer = |piece: &Evidence| piece.kind == Kind::Answer;
    let answer = evidence.iter().rposition(is_answer);
    let answer = answer.map(|at| evidence.remove(at));
    let scored = [Some(target), answer, score].into_iter().flatten();
    if is_unsolved {
        evidence.splice(0..0, scored);
    } else {
        // Of many pieces, the last are left out.
        evidence.truncate(MAX_EVIDENCE.saturating_sub(2));
        evidence.extend(scored);
    }
}

/// Adds the sequences of similar steps that led up to the end.
fn from_chain(summary: &Summary, index: &Index, evidence: &mut Vec<Evidence>) {
    let verdict = &summary.verdict;
    for pattern in chain::patterns_before_stop(index, verdict.mark, verdict.stop_reason.as_deref())
    {
        // The sentence for a stagnation already says this, and the rule shows its steps.
        let is_by_rule = index.stop().is_some();
        if pattern.kind == PatternKind::Idle
            && is_by_rule
            && verdict.sentence.starts_with("State unchanged")
        {
            continue;
        }
        let (last_step, repeats) = (Some(pattern.last), pattern.kind.is_loop());
        evidence.push(Evidence {
            last_step,
            repeats,
            ..Evidence::at(Kind::Chain, Some(pattern.first), pattern.text)
        });
    }
}

/// Adds the rule that ended the run, as recorded by board's engine.
fn from_record(summary: &Summary, index: &Index, evidence: &mut Vec<Evidence>) {
    let Some(stop) = index.stop().filter(|_| !summary.life.liveness.may_grow()) else {
        return;
    };
    let event = index
        .segment()
        .and_then(|segment| segment.end.as_ref())
        .map(|(event, ..)| *event);
    // `budget.steps` and `budget_steps` are the same name.
    let coded = |name: &str| match stop.code.as_str() {
        code if name.replace('.', "_") == code => name.to_owned(),
        code => format!("{name} ({code})"),
    };
    let compared = reading(stop)
        .or_else(|| Some(stop.reading.detail.to_string()).filter(|detail| !detail.is_empty()));
    let compared = compared.map_or_else(String::new, |words| format!(": {}", of_phase(&words)));
    let text = match stop.source {
        Source::Completion if stop.outcome == Outcome::Completed => {
            format!("Accepted by the rule {}{compared}", coded(&stop.criterion))
        }
        // A completion rule that fails also stops the run.
        Source::Completion | Source::Budget | Source::Policy => {
            let rule = match &*stop.criterion {
                "budget.steps" => "step limit".to_owned(),
                "budget.time" => "time limit".to_owned(),
                "budget.tokens" => "token limit".to_owned(),
                other => format!("rule {}", coded(other)),
            };
            format!("Stopped by the {rule}{compared}")
        }
        // Not a rule. The code may be more specific than the reason.
        _ => {
            let reason = summary.verdict.stop_reason.as_deref();
            let reason = reason.unwrap_or(&stop.stop_reason);
            format!("Stop reason {}{}", coded(reason), compared)
        }
    };
    evidence.push(Evidence {
        event,
        ..Evidence::at(Kind::Rule, summary.verdict.step, text)
    });
    if let Some((from, to)) = stop.reading.steps().filter(|(from, to)| from < to) {
        let place = |id| {
            index
                .steps()
                .iter()
                .rposition(|step| step.step_id == i64::try_from(id).ok())
        };
        let text = format!("Measured from step {from} to step {to}");
        evidence.push(Evidence {
            last_step: place(to),
            ..Evidence::at(Kind::Rule, place(from), text)
        });
    }
}

/// Adds how the run ended according to another tool's trace.
fn from_tool(summary: &Summary, index: &Index, evidence: &mut Vec<Evidence>) {
    let Some(ended) = ended(index, &summary.life) else {
        return;
    };
    let file = match ended.file {
        "" => format!("The {}", index.format().file_name(TraceFile::Events)),
        file => file.to_owned(),
    };
    // Notes, such as a reward, aren't part of how the run ended.
    let words = if ended.word.is_empty() {
        ended.words()
    } else if ended.restates_verdict() {
        String::new()
    } else {
        ended.detail.to_string()
    };
    let detail = if words.is_empty() {
        String::new()
    } else {
        format!(": {words}")
    };
    let text = match &*ended.word {
        // No record names the end, so the sentence is what board inferred.
        "" => format!("{}{detail}", ended.headline),
        word if ended.is_own_word() => format!("{}{detail}", capitalised(word)),
        word if ended.certainty == Certainty::Recorded => {
            format!("{file} records \"{word}\"{detail}")
        }
        word => format!("{file} records \"{word}\" last, but not how the run ended{detail}"),
    };
    evidence.push(Evidence {
        event: ended.event,
        ..Evidence::at(Kind::End, None, text)
    });
}

fn from_events(summary: &Summary, index: &Index, evidence: &mut Vec<Evidence>) {
    let Some(segment) = index.segment() else {
        return;
    };
    let mut add = |kind, event, text| {
        evidence.push(Evidence {
            event: Some(event),
            ..Evidence::at(kind, None, text)
        })
    };
    if let Some((event, end, ok)) = &segment.end {
        let reason = end.reason.as_deref().unwrap_or("no reason");
        let named = index.events().get(*event).and_then(|event| event.step_id);
        let ran = |id: i64| {
            index
                .groups()
                .iter()
                .skip(segment.first_group)
                .any(|group| group.step_id == Some(id))
        };
        let never = named
            .filter(|id| end.stop.is_none() && !ran(*id))
            .map_or_else(String::new, |id| format!(" at step {id}, which never ran"));
        // The verdict in the event is already listed. Its other fields are listed only if they add
        // something.
        let is_listed = end
            .stop
            .as_ref()
            .is_some_and(|stop| Some(&*stop.stop_reason) == end.reason.as_deref());
        // It isn't after a budget, an error or a cancellation.
        let well = if *ok { "" } else { " (not ok)" };
        if !is_listed {
            add(
                Kind::End,
                *event,
                format!("The END event records {reason}{well}{never}"),
            );
        }
        if let Some(issue) = &end.issue {
            add(Kind::Error, *event, format!("Preflight: {issue}"));
        }
    }
    let ended_as = |stop: &StopNote| {
        index
            .stop()
            .is_some_and(|ended| Some(&*ended.stop_reason) == stop.reason.as_deref())
    };
    if let Some((event, stop)) = segment.stop.as_ref().filter(|(_, stop)| !ended_as(stop)) {
        let reason = stop.reason.as_deref().map_or_else(
            || " without a reason".to_owned(),
            |word| format!(" as {word}"),
        );
        let detail = stop
            .detail
            .as_deref()
            .map_or_else(String::new, |detail| format!(": {detail}"));
        let env = if stop.env_terminal {
            ", as reported by the environment"
        } else {
            ""
        };
        let ended = if summary.verdict.mark == RunStatus::Died {
            "decided to end"
        } else {
            "ended"
        };
        add(
            Kind::Rule,
            *event,
            format!("The last stop check {ended} the run{reason}{detail}{env}"),
        );
    }
    if let Some((event, text)) = &segment.overflow {
        add(
            Kind::Rule,
            *event,
            format!("The request didn't fit the context window: {text}"),
        );
    }
    if let Some((event, text)) = &segment.error {
        add(Kind::Error, *event, format!("Last error: {text}"));
    }
}

/// Adds the model's output if no decision could be parsed from it. It often contains the reason.
fn from_output(index: &Index, lines: &dyn Lines, evidence: &mut Vec<Evidence>) {
    let first = index.segment().map_or(0, |segment| segment.first_group);
    let last = index
        .groups()
        .iter()
        .skip(first)
        .rev()
        .find_map(|group| Some((group, group.error.as_ref()?)));
    let Some((group, _)) = last.filter(|(_, (phase, _))| index.name(*phase).starts_with("DECIDE"))
    else {
        return;
    };
    let events = index.events().range(group.first..group.end);
    let Some((offset, event)) = events
        .enumerate()
        .rev()
        .find(|(_, event)| event.kind == EventKind::Output)
    else {
        return;
    };
    let Ok(record) = lines.record(TraceFile::Events, event.span) else {
        return;
    };
    let Some(output) = crate::format::event(&record).output.and_then(Value::string) else {
        return;
    };
    let words = output.trim();
    if !words.is_empty() {
        let text = format!("Model output: {}", clipped(words, MAX_OUTPUT_CHARS));
        evidence.push(Evidence {
            event: Some(group.first + offset),
            ..Evidence::at(Kind::Error, None, text)
        });
    }
}

/// Returns the model's text in a step, clipped.
fn said(step: &StepHead, lines: &dyn Lines) -> Option<String> {
    let record = lines.record(TraceFile::Steps, step.span).ok()?;
    let step = crate::format::step(&record)?;
    let words = step.text.and_then(Value::string)?;
    let words = words.trim();
    (!words.is_empty()).then(|| clipped(words, MAX_OUTPUT_CHARS).to_string())
}

fn from_silence(summary: &Summary, index: &Index, lines: &dyn Lines, evidence: &mut Vec<Evidence>) {
    if summary.life.liveness == Liveness::Finished {
        return;
    }
    let mut add = |event, text| {
        evidence.push(Evidence {
            event,
            ..Evidence::at(Kind::Gap, None, text)
        })
    };
    if index.format().is_one_file() {
        let last = index.events().len().checked_sub(1);
        if summary.verdict.mark == RunStatus::Unknown && !index.format().no_end_reason.is_empty() {
            let replied = newest_run(index)
                .next_back()
                .filter(|(_, step)| step.actions == 0 && !step.is_abandoned);
            let text = replied.map(|(_, step)| match said(step, lines) {
                Some(words) => format!("{REPLIED}: {words}"),
                None => REPLIED.to_owned(),
            });
            add(last, text.unwrap_or_else(|| UNTOLD.to_owned()));
        }
        if summary.verdict.mark == RunStatus::Died {
            add(last, "This is the last record. The program may have been killed, or it may be waiting for the user".to_owned());
        }
        return;
    }
    if summary.life.basis == Basis::Teardown {
        let event = index.segment().and_then(|segment| segment.teardown);
        add(
            event,
            "The engine closed its tools but wrote no END event, so it probably hit an unhandled exception".to_owned(),
        );
    } else if summary.life.liveness == Liveness::Died {
        let last = index.events().len().checked_sub(1);
        let words = last.and_then(|at| index.events().get(at)).map(|event| {
            let (phase, stage) = (index.name(event.phase), index.name(event.stage));
            // A run that is stepped from outside writes neither INIT nor END.
            let whole = index
                .segment()
                .is_some_and(|segment| segment.init.is_some());
            let as_if = if whole {
                ", as if the process had been killed"
            } else {
                ""
            };
            format!("The trace stops after the event {phase} {stage}{as_if}")
        });
        add(
            last,
            words.unwrap_or_else(|| "No events were written".to_owned()),
        );
    }
    if summary.verdict.mark == RunStatus::Died
        && let Some((event, words)) = under_way(index)
    {
        add(Some(event), words);
    }
    let segment = index.segment();
    let begun = segment.is_some_and(|segment| segment.first_group < index.groups().len());
    if summary.verdict.mark == RunStatus::Died
        && begun
        && segment.is_some_and(|segment| segment.init.is_none())
    {
        let first = segment.map(|segment| segment.first_event);
        add(
            first,
            "There is no INIT event either. Runs stepped by another program record neither"
                .to_owned(),
        );
    }
    if let Some(limit) = segment.and_then(|segment| segment.state_limit)
        && summary.life.basis == Basis::Teardown
        && summary.steps_now as i64 > limit
    {
        let done = summary.steps_now;
        let text = format!(
            "The agent's state allows {limit} steps, but the run has {done}. QitOS treats that as an error"
        );
        add(None, text);
    }
    if summary.verdict.mark == RunStatus::Died && summary.status.as_deref() == Some("running") {
        add(None, "The manifest still records status running".to_owned());
    }
}

/// Longer texts, in characters, are quoted in only one piece of evidence. Others refer to it.
const QUOTED_ONCE: usize = 30;

fn from_failures(index: &Index, evidence: &mut Vec<Evidence>) {
    let Some(manifest) = index.manifest().get() else {
        return;
    };
    for failure in manifest.failures.iter().rev().take(2) {
        let step = index
            .steps()
            .iter()
            .rposition(|step| step.step_id.is_some() && step.step_id == failure.step_id);
        let then = match &*failure.decision {
            "continue" => "the engine continued",
            "stop" => "the engine stopped",
            other => other,
        };
        let message = failure.message.trim_end_matches('.');
        let is_told = message.chars().count() > QUOTED_ONCE
            && evidence.iter().any(|piece| piece.text.contains(message));
        // A step with a line is the evidence's place.
        let at = failure.step_id.filter(|_| step.is_none());
        let at = at.map_or_else(String::new, |id| format!(" at step {id}"));
        let message = if is_told {
            String::new()
        } else {
            format!("{message}; ")
        };
        let text = format!(
            "Failure{at} ({}, {}): {message}{then}",
            failure.phase, failure.category
        );
        evidence.push(Evidence::at(Kind::Manifest, step, text));
    }
}

fn from_critics(summary: &Summary, index: &Index, evidence: &mut Vec<Evidence>) {
    let Some((at, step)) = newest_run(index)
        .rev()
        .find(|(_, step)| !step.critics.is_empty())
    else {
        return;
    };
    let words: Vec<String> = step
        .critics
        .iter()
        .take(4)
        .map(|mark| {
            let name = index.name(mark.name);
            let score = mark.score.map_or("no score".to_owned(), format::score);
            let request = match mark.action {
                CriticAction::Stop => " (stop requested)",
                CriticAction::Retry => " (retry requested)",
                _ => "",
            };
            format!("{score} from {name}{request}")
        })
        .collect();
    let noun = match words.len() {
        _ if step.critics.iter().all(|mark| mark.score.is_none()) => "critic output",
        1 => "score",
        _ => "scores",
    };
    let text = format!("Last {noun}: {}", words.join(", "));
    let evidence_of = Evidence::at(Kind::Critic, Some(at), text);
    // A critic's stop is the reason itself, so it comes first.
    if summary.verdict.mark == RunStatus::Critic {
        evidence.insert(0, evidence_of)
    } else {
        evidence.push(evidence_of)
    }
}
