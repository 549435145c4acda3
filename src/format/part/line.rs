//! Writes a step as JSON, in the layout of this crate's own steps.

use std::fmt::Write as _;

use super::{Answer, CallDraft, Part, Tokens, joined, quoted};
use crate::model::step::NOT_RECORDED;

/// Returns the line of step `n`, merged from `parts`.
pub(in crate::format) fn line(n: usize, parts: impl IntoIterator<Item = Part>) -> String {
    let mut step = Part::default();
    parts.into_iter().for_each(|part| step.add(part));
    step.line(n)
}

/// Returns the line of step `n`, merged from the parts that its records contain. A part may depend on
/// those before it: a result on its call.
pub(in crate::format) fn line_of(
    n: usize,
    records: &[String],
    part_of: impl Fn(&str, &Part) -> Part,
) -> String {
    let mut step = Part::default();
    for record in records {
        let part = part_of(record, &step);
        step.add(part);
    }
    step.line(n)
}

impl Part {
    /// Returns the line of step `n`, without its line end.
    pub fn line(&self, n: usize) -> String {
        let mut out = Object::new();
        out.json("step_id", &n.to_string());
        out.text("agent_id", self.agent.as_deref());
        out.json("decision", &self.decision());
        out.json(
            "actions",
            &list(self.calls.iter().map(|call| call.json(&call.args_json()))),
        );
        let results = self.results();
        let results = results.iter().map(|(tool, result)| result.json(*tool));
        out.json("action_results", &list(results));
        if let Some(changes) = self.changes_json() {
            out.json("state_diff", &changes);
        }
        if let Some(critics) = self.critics_json() {
            out.json("critic_outputs", &critics);
        }
        if !self.text.is_empty() {
            let mut response = Object::new();
            response.text("text", Some(&joined(&self.text)));
            out.json("model_response", &response.end());
        } else if self.is_text_unknown {
            out.json("model_response", "{\"text\":null}");
        }
        self.usage(&mut out);
        out.text("model", self.model.as_deref());
        out.text("finish_reason", self.finish.as_deref());
        if let Some(error) = self.error_json() {
            out.json("error", &error);
        }
        out.end()
    }

    fn decision(&self) -> String {
        let Some(mode) = self.mode() else {
            return "null".to_owned();
        };
        let mut out = Object::new();
        out.text("mode", Some(mode));
        out.text("rationale", self.rationale(mode).as_deref());
        if mode == "final" {
            out.text("final_answer", Some(&joined(&self.text)));
        }
        out.end()
    }

    /// Returns the changed state keys as an object of objects; `None` if no change is recorded.
    pub(super) fn changes_json(&self) -> Option<String> {
        if self.changes.is_empty() {
            return None;
        }
        let mut changes = Object::new();
        for (at, (key, before, after)) in self.changes.iter().enumerate() {
            let mut sides = Object::new();
            before.iter().for_each(|value| sides.json("before", value));
            after.iter().for_each(|value| sides.json("after", value));
            let diff = self.diffs.iter().find(|(of, _)| *of == at);
            sides.text("diff", diff.map(|(_, diff)| &**diff));
            changes.json(key, &sides.end());
        }
        Some(changes.end())
    }

    /// Returns the scores as a list of critic outputs; `None` if there aren't any.
    pub(super) fn critics_json(&self) -> Option<String> {
        let critics = self.scores.iter().map(|(name, score, reason)| {
            let mut critic = Object::new();
            critic.text("name", Some(name));
            critic.json("score", &score.map_or_else(|| "null".to_owned(), number));
            critic.text("reason", reason.as_deref());
            critic.end()
        });
        (!self.scores.is_empty()).then(|| list(critics))
    }

    /// Returns the error of the step itself as an object.
    pub(super) fn error_json(&self) -> Option<String> {
        let message = self.error.as_deref()?;
        let mut object = Object::new();
        let phase = if self.is_incomplete {
            "reply"
        } else {
            "decide"
        };
        object.text("phase", Some(phase));
        object.text("message", Some(message));
        Some(object.end())
    }

    fn usage(&self, out: &mut Object) {
        if self.tokens.is_some() {
            let tokens = self.all_tokens();
            let mut context = Object::new();
            // Readers add the output to `input_tokens_total`, so an unknown output makes the sum
            // unknown.
            let input = if tokens.output.is_some() {
                "input_tokens_total"
            } else {
                "input_tokens"
            };
            context.count(input, tokens.input);
            context.count("output_tokens", tokens.output);
            context.count("cached_tokens", tokens.cached);
            context.count("cache_write_tokens", tokens.written);
            context.count("cache_write_1h_tokens", tokens.written_1h);
            context.count("reasoning_tokens", tokens.reasoning);
            context.text(
                "counting_mode",
                self.tokens_estimated.then_some("engine_estimate"),
            );
            if !self.others.is_empty() {
                context.json(
                    "other_models",
                    &list(
                        self.others
                            .iter()
                            .map(|(model, tokens)| tokens.of_model(model)),
                    ),
                );
            }
            out.json("context", &context.end());
        }
        if let Some(cost) = self.cost {
            out.json("cost_usd", &number(cost));
        }
    }
}

impl Tokens {
    /// Returns the tokens of one of several models as an object.
    fn of_model(&self, model: &str) -> String {
        let mut object = Object::new();
        object.text("model", Some(model));
        object.count("input_tokens", self.input);
        object.count("output_tokens", self.output);
        object.count("cached_tokens", self.cached);
        object.count("cache_write_tokens", self.written);
        object.count("cache_write_1h_tokens", self.written_1h);
        object.end()
    }
}

impl CallDraft {
    fn json(&self, args: &str) -> String {
        let mut out = Object::new();
        out.text("name", Some(&self.name));
        out.json("args", args);
        out.text("action_id", Some(&*self.id).filter(|id| !id.is_empty()));
        out.end()
    }
}

impl Answer {
    fn json(&self, tool: Option<&str>) -> String {
        let mut out = Object::new();
        out.text("status", Some(self.status.unwrap_or(NOT_RECORDED)));
        out.json("output", self.output_json());
        out.json(
            "error",
            &self
                .error
                .as_deref()
                .map_or_else(|| "null".to_owned(), quoted),
        );
        let mut metadata = Object::new();
        metadata.text("tool_name", tool);
        if let Some(ms) = self.known_ms() {
            metadata.json("latency_ms", &number(ms));
        }
        out.json("metadata", &metadata.end());
        if let Some(exit) = self.exit.filter(|exit| *exit != 0) {
            out.json("returncode", &exit.to_string());
        }
        out.end()
    }
}

/// A JSON object that is being written.
struct Object(String);

impl Object {
    fn new() -> Self {
        Self("{".to_owned())
    }

    /// Writes a member whose value is JSON text.
    fn json(&mut self, key: &str, value: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push_str(&quoted(key));
        self.0.push(':');
        self.0.push_str(value);
    }

    /// Writes a member whose value is a string, if there is one.
    fn text(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.json(key, &quoted(value));
        }
    }

    fn count(&mut self, key: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.json(key, &value.to_string());
        }
    }

    fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    let mut out = String::from("[");
    for item in items {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&item);
    }
    out.push(']');
    out
}

fn number(value: f64) -> String {
    let mut out = String::new();
    // JSON can't express infinite numbers and NaN.
    let _ = if value.is_finite() {
        write!(out, "{value}")
    } else {
        write!(out, "null")
    };
    out
}
