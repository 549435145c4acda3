//! Assembles a decision from the parts of a text, or refuses it and names what is missing or superfluous.
//!
//! Defines the words of a decision, independent of the grammars. All grammars fill the same draft.

use serde_json::{Map, Value};

use super::diagnostics::{Ignored, ParsedDecision, Refusal, Repairs, Trouble, snippet};
use crate::engine::{Action, Decision};

/// The meaning of a key, label or tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Thought,
    Reflection,
    Action,
    Input,
    Answer,
    Mode,
    Observation,
}

impl Word {
    /// Maximum length of a known name, with room for spaces.
    const MAX_LEN: usize = 40;

    /// Returns the meaning of `name`. Ignores case, spaces, tabs, `_` and `-`.
    pub(super) fn of(name: &str) -> Option<Self> {
        if name.len() > Self::MAX_LEN {
            return None;
        }
        let plain: String = name
            .chars()
            .filter(|letter| !matches!(letter, ' ' | '\t' | '_' | '-'))
            .collect();
        Some(match plain.to_ascii_lowercase().as_str() {
            "thought" | "thinking" | "think" | "rationale" => Self::Thought,
            "reflection" | "reflect" | "selfreflection" => Self::Reflection,
            "action" | "actions" | "tool" | "call" => Self::Action,
            "actioninput" | "toolinput" => Self::Input,
            "finalanswer" | "final" | "answer" => Self::Answer,
            "mode" => Self::Mode,
            "observation" => Self::Observation,
            _ => return None,
        })
    }
}

/// The parts of a decision.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) mode: Option<String>,
    pub(super) actions: Vec<Action>,
    pub(super) ignored: Ignored,
    thought: String,
    reflection: String,
    answer: Option<String>,
}

impl Draft {
    /// Adds a thought. Several are joined.
    pub(super) fn think(&mut self, text: &str) {
        join(&mut self.thought, text);
    }

    /// Adds a reflection. Several are joined.
    pub(super) fn reflect(&mut self, text: &str) {
        join(&mut self.reflection, text);
    }

    /// Sets the answer. A blank answer is ignored.
    pub(super) fn answer(&mut self, text: &str) -> Result<(), Refusal> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(());
        }
        if self.answer.is_some() {
            let fix = "Give one final answer.";
            return Err(Refusal::new(
                Trouble::InvalidActionSchema,
                "There are two final answers.",
                fix,
            )
            .at("final_answer"));
        }
        self.answer = Some(text.to_owned());
        Ok(())
    }

    /// Returns the decision. If a mode is given, it determines the kind of decision. Otherwise
    /// there must be either actions or an answer.
    pub(super) fn settle(self, repairs: Repairs) -> Result<ParsedDecision, Refusal> {
        let Self {
            mode,
            actions,
            mut ignored,
            thought,
            reflection,
            answer,
        } = self;
        let mode = mode
            .map(|mode| mode.trim().to_ascii_lowercase())
            .filter(|mode| !mode.is_empty());
        let missing = |what: &str, path: &str| {
            let fix = format!("Give `{path}`, or leave the mode out.");
            Err(Refusal::new(Trouble::MissingRequiredField, what, fix).at(path))
        };
        let decision = match (mode.as_deref(), answer) {
            (Some("wait"), answer) => {
                answer
                    .iter()
                    .for_each(|answer| ignored.note("the final answer", answer));
                actions
                    .iter()
                    .for_each(|action| ignored.note("the action", &action.name));
                Decision {
                    mode: crate::engine::Mode::Wait,
                    ..Decision::default()
                }
            }
            (Some("act"), _) if actions.is_empty() => {
                return missing("The mode is act, without an action.", "action");
            }
            (Some("act"), answer) => {
                answer
                    .iter()
                    .for_each(|answer| ignored.note("the final answer", answer));
                Decision::act(actions)
            }
            (Some("final"), None) => {
                return missing("The mode is final, without an answer.", "final_answer");
            }
            (Some("final"), Some(answer)) => {
                actions
                    .iter()
                    .for_each(|action| ignored.note("the action", &action.name));
                Decision::final_answer(answer)
            }
            (Some(mode), _) => {
                let summary = format!("There is no mode {}.", snippet(mode));
                let fix = "The mode is act, wait or final.";
                return Err(Refusal::new(Trouble::InvalidActionSchema, summary, fix).at("mode"));
            }
            (None, None) if actions.is_empty() => {
                let fix = "Call a tool, or give a final answer.";
                let summary = "There is neither an action nor a final answer.";
                return Err(Refusal::new(Trouble::MissingActionOrFinal, summary, fix));
            }
            (None, None) => Decision::act(actions),
            (None, Some(answer)) if actions.is_empty() => Decision::final_answer(answer),
            (None, Some(_)) => {
                let fix = "Give one of them: first act, and answer when the result is known.";
                let summary = "There are both an action and a final answer.";
                return Err(Refusal::new(Trouble::InvalidActionSchema, summary, fix));
            }
        };
        let mut decision = Decision {
            rationale: Some(thought).filter(|thought| !thought.is_empty()),
            ..decision
        };
        if !reflection.is_empty() {
            decision = decision.meta("reflection", reflection);
        }
        Ok(ParsedDecision {
            decision,
            repairs,
            ignored,
        })
    }
}

fn join(all: &mut String, text: &str) {
    let text = text.trim();
    if !all.is_empty() && !text.is_empty() {
        all.push('\n');
    }
    all.push_str(text);
}

/// Parses an action from an object with `name` and `args`. `cut` means that the text ended after
/// the object, perhaps before its arguments.
pub(super) fn action(
    value: Value,
    path: &str,
    cut: bool,
    ignored: &mut Ignored,
) -> Result<Action, Refusal> {
    const FIX: &str = r#"Write the action as {"name": "tool", "args": {"key": "value"}}."#;
    let Value::Object(mut map) = value else {
        return Err(Refusal::new(
            Trouble::InvalidActionSchema,
            "The action is not an object.",
            FIX,
        )
        .at(path));
    };
    let name = match map.remove("name") {
        Some(Value::String(name)) if !name.trim().is_empty() => name,
        _ => {
            let summary = "The action has no name.";
            return Err(Refusal::new(Trouble::MissingRequiredField, summary, FIX)
                .at(format!("{path}.name")));
        }
    };
    let args = match map.remove("args") {
        Some(args) => {
            arguments(args, &name).map_err(|refusal| refusal.at(format!("{path}.args")))?
        }
        // If arguments under another key were ignored, the tool would be called without them.
        None if cut || !map.is_empty() => {
            let summary = format!("The action {} has no args.", snippet(&name));
            return Err(Refusal::new(Trouble::MissingRequiredField, summary, FIX)
                .at(format!("{path}.args")));
        }
        None => Map::new(),
    };
    map.keys()
        .for_each(|key| ignored.note("the action's key", key));
    let name = name.trim().to_owned();
    Ok(Action {
        name,
        args,
        id: None,
    })
}

/// Returns the arguments of a call of `name`. Refuses anything except an object.
pub(super) fn arguments(args: Value, name: &str) -> Result<Map<String, Value>, Refusal> {
    let kind = match args {
        Value::Object(args) => return Ok(args),
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
    };
    let summary = format!(
        "The arguments of {} are {kind}, not an object.",
        snippet(name)
    );
    let fix = r#"Write the arguments as an object; use {} without arguments."#;
    Err(Refusal::new(Trouble::InvalidActionSchema, summary, fix))
}

/// Returns the text after a leading `<think>..</think>`, which reasoning models write before their
/// decision. If the reasoning doesn't end, returns an empty text.
pub(in crate::engine) fn after_reasoning(text: &str) -> &str {
    let inside = text.trim_start().strip_prefix("<think>");
    inside.map_or(text, |inside| {
        inside.split_once("</think>").map_or("", |(_, after)| after)
    })
}

/// Returns whether `before` and `after` are the two halves of a code fence. Either or both may be
/// empty.
pub(super) fn is_fence(before: &str, after: &str) -> bool {
    let opens = |text: &str| {
        text.strip_prefix("```")
            .is_some_and(|word| word.chars().all(char::is_alphanumeric))
    };
    let (before, after) = (before.trim(), after.trim());
    (opens(before) || before.is_empty()) && (after == "```" || after.is_empty())
}
