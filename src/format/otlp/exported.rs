//! Reads evaluation results, and the facts about the whole run that `board export` adds to a trace.

use super::super::value::{cut, exported_end, filled, number};
use super::span::{Message, Span, SpanEvent, attributes, plain, said};
use crate::model::json::walk;
use crate::model::step::Usage;
use crate::model::{Ended, Manifest, RunScore};

/// The facts that `board export` adds about a run. Missing ones were unknown to it.
#[derive(Debug, Default)]
pub(super) struct Exported {
    /// The end, or `None` if the run was in progress.
    pub(super) end: Option<Ended>,
    /// The duration in seconds.
    pub(super) took: Option<f64>,
    tokens: Option<u64>,
    usage: Usage,
    cost: Option<f64>,
    estimated: Option<f64>,
    model_calls: Option<u64>,
    steps_unknown: bool,
}

/// An evaluation result.
pub(super) struct Judged {
    name: String,
    score: Option<f64>,
    label: Option<String>,
    reason: Option<String>,
}

impl Judged {
    /// Converts it to a score of a step: name, score, and explanation. If it has no score, the
    /// explanation begins with the label.
    pub(super) fn of_step(self) -> (String, Option<f64>, Option<String>) {
        let reason = match (self.label.filter(|_| self.score.is_none()), self.reason) {
            (Some(label), Some(reason)) => Some(format!("{label}: {reason}")),
            (label, reason) => label.or(reason),
        };
        (self.name, self.score, reason)
    }

    /// Converts it to a score of the run.
    pub(super) fn of_run(self) -> RunScore {
        let grade = self
            .label
            .filter(|_| self.score.is_none())
            .map(|label| cut(&label));
        RunScore {
            name: cut(&self.name),
            score: self.score,
            grade,
            reason: self.reason.map(|reason| cut(&reason)),
            ..RunScore::default()
        }
    }
}

impl Span<'_> {
    /// Returns the evaluation results among the span's events.
    pub(super) fn scores(&self) -> impl Iterator<Item = Judged> {
        let events = self
            .raw
            .events
            .into_iter()
            .flat_map(walk::items)
            .map(SpanEvent::of);
        let judged = events.filter(|event| event.name == Some("\"gen_ai.evaluation.result\""));
        judged.filter_map(|event| {
            let all = attributes(event.attributes);
            let of = |key: &str| all.get(key).map(|value| plain(value, 0));
            let named = |key: &str| filled(of(key).as_deref());
            Some(Judged {
                name: named("gen_ai.evaluation.name")?,
                score: number(of("gen_ai.evaluation.score.value").as_deref()),
                label: named("gen_ai.evaluation.score.label"),
                reason: named("gen_ai.evaluation.explanation"),
            })
        })
    }

    /// Returns the facts about the run, if `board export` wrote the trace.
    pub(super) fn exported(&self) -> Option<Exported> {
        let word = |key: &str| self.text(&[key]).unwrap_or_default();
        let amount = |key: &str| number(self.text(&[key]).as_deref());
        let outcome = self.text(&["board.outcome"])?;
        // A run may end without a recorded reason.
        let reason = word("board.stop_reason");
        Some(Exported {
            end: exported_end(
                &outcome,
                &word("board.certainty"),
                &reason,
                &word("board.verdict"),
            ),
            took: amount("board.duration_ms").map(|ms| ms / 1e3),
            tokens: self.count(&["board.total_tokens"]),
            usage: Usage {
                input: self.count(&["board.tokens_in"]),
                cached: self.count(&["board.tokens_cached"]),
                output: self.count(&["board.tokens_out"]),
                reasoning: self.count(&["board.tokens_reasoning"]),
                written: self.count(&["board.tokens_cache_write"]),
                written_1h: self.count(&["board.tokens_cache_write_1h"]),
            },
            cost: amount("board.cost_usd"),
            estimated: amount("board.cost_estimated_usd"),
            model_calls: self.count(&["board.model_calls"]),
            steps_unknown: self.text(&["board.steps_untold"]).is_some(),
        })
    }

    /// Returns whether the reply is a sub-agent's. Exported traces have no tool span around it.
    pub(super) fn exported_nested(&self) -> bool {
        self.text(&["board.nested"]).is_some()
    }

    /// Returns the answer of an exported run.
    pub(super) fn exported_answer(&self) -> Option<String> {
        let messages = self.json(&["gen_ai.output.messages"])?;
        walk::items(&messages)
            .map(Message::of)
            .map(|message| said(&message).0)
            .find(|said| !said.is_empty())
    }
}

impl Exported {
    /// Sets the facts of the run that its steps don't show. `of_steps` is the number of the steps'
    /// tokens.
    pub(super) fn tell(&self, of_steps: Option<u64>, run: &mut Manifest) {
        run.tokens = self.tokens.filter(|_| self.tokens != of_steps);
        // Steps may record less about the same tokens than the run, such as no cached tokens.
        run.usage = self.usage;
        (run.model_calls, run.replies_unknown) = (self.model_calls, self.model_calls.is_none());
        run.cost_usd = self.cost.or(self.estimated);
        run.cost_estimated = self.cost.is_none() && self.estimated.is_some();
        run.steps_unknown = self.steps_unknown;
    }
}
