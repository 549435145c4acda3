//! Parses a decision from a JSON object in a text.
//!
//! Defines the object's keys. `literal` parses the values.

use serde_json::{Map, Value};

use super::diagnostics::{Contract, Extraction, Parsed, ParsedDecision, Refusal, Repairs, Trouble};
use super::draft::{Draft, Word, action, after_reasoning, is_fence};
use super::literal::{Reader, consumed};
use super::{Parser, tool_list};
use crate::engine::ToolSpec;

const CONTRACT: Contract = Contract {
    parser: "json",
    id: "json_decision_v1",
    shape: r#"{"thought": "...", "action": {"name": "tool", "args": {"key": "value"}}} or {"thought": "...", "final_answer": "..."}"#,
    salvaged: Trouble::SalvagedJsonPayload,
};

/// Parses a JSON object with `thought`, `action` or `actions`, `final_answer` and `mode`.
#[derive(Debug, Clone, Copy, Default)]
pub struct JsonText;

impl Parser for JsonText {
    fn name(&self) -> &'static str {
        CONTRACT.parser
    }

    fn contract(&self) -> &'static str {
        CONTRACT.id
    }

    fn parse(&self, text: &str) -> Parsed {
        CONTRACT.report(text, decide(text))
    }

    fn instructions(&self, tools: &[ToolSpec]) -> String {
        let tools = tool_list(tools);
        format!(
            r#"Answer with one JSON object and nothing else. To call a tool:
{{"thought": "why", "action": {{"name": "tool", "args": {{"key": "value"}}}}}}
To call several in order, give "actions": [..] instead of "action". When the task is done:
{{"thought": "why", "final_answer": "the answer, as text"}}
To do nothing in this step: {{"mode": "wait", "thought": "why"}}

{tools}"#
        )
    }
}

fn decide(text: &str) -> Result<ParsedDecision, Refusal> {
    if text.trim().is_empty() {
        return Err(Contract::empty());
    }
    let (map, repairs) = only_object(text, is_decision)?;
    draft(map, repairs.has(Extraction::Truncated))?.settle(repairs)
}

fn is_decision(map: &Map<String, Value>) -> bool {
    map.keys().any(|key| Word::of(key).is_some())
}

/// Returns the only object of `text` that is `wanted`. If there are two, both are refused, since
/// it's unclear which one is meant.
///
/// A brace that doesn't start an object is skipped. A broken object ends the search, because its
/// inner objects aren't meant as decisions. Each attempt reads at most one string, and no string is
/// read twice, so the search is linear.
pub(super) fn only_object(
    whole: &str,
    wanted: fn(&Map<String, Value>) -> bool,
) -> Result<(Map<String, Value>, Repairs), Refusal> {
    let broken = |fault: &_| {
        Refusal::broken(
            Trouble::InvalidJson,
            "The JSON object is broken.",
            fault,
            whole,
        )
    };
    let text = after_reasoning(whole);
    let (mut found, mut unwanted, mut cut) = (None, false, None);
    let mut rest = text;
    while let Some((_, at_brace)) = rest.find('{').and_then(|at| rest.split_at_checked(at)) {
        let mut reader = Reader::json(at_brace);
        match reader.value(0) {
            Ok(Value::Object(map)) if wanted(&map) => {
                if found.is_some() {
                    let fix = "Give one object with one decision.";
                    return Err(Refusal::new(
                        Trouble::InvalidJson,
                        "There is more than one JSON object.",
                        fix,
                    ));
                }
                let before = consumed(text, at_brace);
                found = Some((map, reader.repairs, before, reader.rest));
                rest = reader.rest;
            }
            Ok(_) => {
                unwanted = true;
                rest = reader.rest;
            }
            Err(fault) if reader.keys > 0 => return Err(broken(&fault)),
            Err(fault) => {
                cut = cut.or(Some(fault).filter(|fault| fault.cut));
                rest = at_brace.strip_prefix('{').unwrap_or_default();
            }
        }
    }
    let Some((map, mut repairs, before, after)) = found else {
        return Err(match cut {
            _ if unwanted => {
                let summary = "The JSON object has neither an action nor a final answer.";
                Refusal::new(
                    Trouble::MissingActionOrFinal,
                    summary,
                    "Call a tool, or give a final answer.",
                )
            }
            Some(fault) => broken(&fault),
            None => Refusal::new(
                Trouble::InvalidJson,
                "There is no JSON object.",
                "Give one JSON object and nothing else.",
            ),
        });
    };
    if !before.trim().is_empty() || !after.trim().is_empty() {
        repairs.note(if is_fence(before, after) {
            Extraction::Fenced
        } else {
            Extraction::Extracted
        });
    }
    Ok((map, repairs))
}

fn draft(map: Map<String, Value>, cut: bool) -> Result<Draft, Refusal> {
    let mut draft = Draft::default();
    for (key, value) in map {
        match (Word::of(&key), value) {
            // A null value counts as missing.
            (Some(_), Value::Null) => {}
            (Some(Word::Thought), Value::String(text)) => draft.think(&text),
            (Some(Word::Reflection), Value::String(text)) => draft.reflect(&text),
            (Some(Word::Mode), Value::String(mode)) if draft.mode.is_none() => {
                draft.mode = Some(mode)
            }
            (Some(Word::Answer), Value::String(text)) => draft.answer(&text)?,
            (Some(Word::Answer), _) => {
                let fix = "Give the answer as a string.";
                return Err(Refusal::new(
                    Trouble::InvalidActionSchema,
                    "The final answer is not a string.",
                    fix,
                )
                .at(key));
            }
            (Some(Word::Mode), _) => {
                let fix = "The mode is act, wait or final.";
                return Err(Refusal::new(
                    Trouble::InvalidActionSchema,
                    "The mode is not one word.",
                    fix,
                )
                .at(key));
            }
            (Some(Word::Action), Value::Array(list)) if list.is_empty() => {}
            (Some(Word::Action), _) if !draft.actions.is_empty() => {
                let fix = r#"Give one list "actions"."#;
                let summary = "Actions are under two keys, so their order is unknown.";
                return Err(Refusal::new(Trouble::InvalidActionSchema, summary, fix).at(key));
            }
            (Some(Word::Action), Value::Array(list)) => {
                for (place, value) in list.into_iter().enumerate() {
                    let read = action(value, &format!("{key}[{place}]"), cut, &mut draft.ignored)?;
                    draft.actions.push(read);
                }
            }
            (Some(Word::Action), value) => {
                let read = action(value, &key, cut, &mut draft.ignored)?;
                draft.actions.push(read);
            }
            (_, _) => draft.ignored.note("the key", &key),
        }
    }
    Ok(draft)
}
