//! Reads lines of `output.jsonl`, written by evaluations of OpenHands. A line is one instance of a
//! benchmark, with the history of its conversation, its patch, and its error.
//!
//! The history is a list of events of either generation of OpenHands. In the oldest files, each
//! item pairs an action with its observation.

use super::super::part::{self, text};
use super::super::value::{above_zero, cut, filled, int, is_text, limit, member, patched};
use super::super::watch::begun;
use super::super::{Draft, EventDraft, Lines, Paths, Reader, Several, Shape, Source, Tool};
use super::{Session, exported, is_event};
use crate::model::{Can, Capabilities, Certainty, Ended, Format, Outcome, RunScore, Trial};

/// A file of instances.
pub(in crate::format) static INSTANCES: Tool = Tool {
    format: Format {
        name: "OpenHands evaluation",
        can: Capabilities {
            state: Can::Partly,
            scores: Can::Partly,
            times: Can::Yes,
            tokens: Can::Partly,
            cost: Can::Partly,
            limits: Can::Partly,
            success: Can::Partly,
            ..Capabilities::NONE
        },
        file: "instance",
        assemble: Some(|n, records| part::line(n, records.iter().map(|record| part_of(record)))),
        is_of_coding_agent: true,
        ..Format::UNKNOWN
    },
    shape: Shape::Several(&Several {
        paths: PATHS,
        named_by: &[&["instance_id"], &["attempt"]],
        name: |values| match values {
            [Some(id), attempt] => {
                let id = text(Some(id)).unwrap_or_else(|| id.clone());
                // Most instances have one attempt.
                let attempt = int(attempt.as_deref()).filter(|attempt| *attempt > 1);
                Some(attempt.map_or(id.clone(), |attempt| format!("{id}_attempt_{attempt}")))
            }
            _ => None,
        },
        lines: Some(&Lines { what: "instance" }),
        ..Several::NONE
    }),
    is: |name, head| name.ends_with(".jsonl") && is_instance(head),
    reader: || Box::new(Instance::default()),
};

const PATHS: Paths = &[
    &["history", "*"],
    &["metrics"],
    &["metadata"],
    &["test_result"],
    &["error"],
    &["instruction"],
    &["instance_id"],
    &["attempt"],
];

fields! {
    struct Metadata { agent = "agent_class", dataset, llm, config = "llm_config", max = "max_iterations" }
    struct Llm { model }
    struct Tested { report, resolved, patch = "git_patch" }
    struct Report { resolved }
}

/// Returns whether a file has instances, by its first line. The history may come after a long
/// patch.
fn is_instance(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let members = begun(line);
    let begins = |wanted: &str, with: char| {
        members
            .iter()
            .any(|(key, value)| key.trim_matches('"') == wanted && value.starts_with(with))
    };
    begins("instance_id", '"') && (begins("history", '[') || begins("test_result", '{'))
}

/// An instance while it is being read.
#[derive(Debug, Default)]
struct Instance {
    history: Option<Box<dyn Reader>>,
    metadata: String,
    tested: String,
    error: Option<String>,
    task: Option<String>,
    id: Option<String>,
    attempt: Option<i64>,
}

impl Reader for Instance {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        let value = Some(record.text);
        match record.path {
            0 => {
                let first = || -> Box<dyn Reader> {
                    match is_event(record.text) {
                        true => Box::new(Session::default()),
                        false => Box::new(exported::Trajectory::default()),
                    }
                };
                self.history.get_or_insert_with(first).record(record, draft);
            }
            4 => self.error = filled(value),
            5 => self.task = filled(value),
            6 => self.id = filled(value).or_else(|| int(value).map(|id| id.to_string())),
            7 => self.attempt = int(value),
            path if record.text.starts_with('{') => {
                let phase = ["", "metrics", "metadata", "test_result"]
                    .get(path)
                    .copied()
                    .unwrap_or_default();
                draft.event(EventDraft {
                    phase,
                    ..EventDraft::default()
                });
                match path {
                    1 => exported::total(record.text, draft),
                    2 => record.text.clone_into(&mut self.metadata),
                    _ => record.text.clone_into(&mut self.tested),
                }
            }
            _ => {}
        }
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        let totals = (draft.run().tokens, draft.run().usage, draft.run().cost_usd);
        let stated = draft.run().statements.clone();
        if let Some(history) = &mut self.history {
            history.look(draft);
        }
        if let Some(task) = self.task.take().filter(|_| !draft.has_task()) {
            let note = Some(draft.task(Some(&task)));
            draft.event(EventDraft {
                phase: "instruction",
                note,
                ..EventDraft::default()
            });
        }
        let metadata = Metadata::of(&self.metadata);
        let model = metadata
            .llm
            .or(metadata.config)
            .and_then(|llm| filled(Llm::of(llm).model));
        let resolved = resolved(&self.tested);
        let patch = filled(Tested::of(&self.tested).patch).unwrap_or_default();
        let run = draft.run();
        run.patched = patched(&patch);
        // The events in the history may record totals too.
        let (tokens, usage, cost) = totals;
        if tokens.is_some() {
            (run.tokens, run.usage) = (tokens, usage);
        }
        if tokens.is_some() || cost.is_some() {
            run.statements = stated;
        }
        run.cost_usd = cost.or(run.cost_usd);
        run.tool = Some("OpenHands".into());
        // A line is written when its instance is over.
        run.is_closed = true;
        run.awaits_user = false;
        run.run_id = self.id.as_deref().map(cut);
        run.model = run.model.take().or_else(|| model.map(|model| cut(&model)));
        run.agent = filled(metadata.agent).map(|agent| cut(&agent));
        run.limits = limit(
            "max_iterations",
            above_zero(metadata.max),
            "iterations",
            None,
        )
        .into_iter()
        .collect();
        run.trial = Some(Box::new(Trial {
            task_set: filled(metadata.dataset).map(|set| cut(&set)),
            task_id: self.id.as_deref().map(cut),
            repeat: self.attempt,
            ..Trial::default()
        }));
        run.success = resolved;
        run.scores.extend(
            resolved.map(|resolved| RunScore::number("resolved", f64::from(u8::from(resolved)))),
        );
        if let Some(error) = &self.error {
            let end = exported::standing("error", error);
            let known = run.ended.as_ref().map(|end| end.outcome);
            if known == Some(Outcome::Completed) {
                let word = run
                    .ended
                    .as_ref()
                    .map(|end| end.word.to_string())
                    .unwrap_or_default();
                run.conflicts.push(cut(&format!(
                    "The history ends with {word}, but the instance records an error"
                )));
            }
            // An event with the same end may contain more details.
            let is_told = matches!(
                known,
                Some(Outcome::Failed | Outcome::Truncated | Outcome::Halted)
            );
            if !is_told && let Some(end) = end {
                run.final_result = None;
                run.ended = Some(Box::new(Ended {
                    certainty: Certainty::Recorded,
                    ..end
                }));
            }
        }
    }
}

/// Returns whether the benchmark's tests passed, if they ran.
fn resolved(tested: &str) -> Option<bool> {
    let tested = Tested::of(tested);
    let of_report = tested.report.and_then(|report| Report::of(report).resolved);
    match of_report.or(tested.resolved) {
        Some("true") => Some(true),
        Some("false") => Some(false),
        _ => None,
    }
}

/// Returns the part of a step in an event of either generation.
fn part_of(record: &str) -> super::Part {
    if is_text(member(record, "kind")) {
        super::part_of(record)
    } else {
        exported::part_of(record)
    }
}
