//! Converts native tool calls into a decision.
//!
//! The input is the calls as a provider returns them: a name, and arguments that should be JSON.

use serde_json::{Map, Value};

use super::diagnostics::{
    Contract, Ignored, Parsed, ParsedDecision, Refusal, Repairs, Trouble, snippet,
};
use super::draft::{after_reasoning, arguments};
use super::json::only_object;
use super::literal::Reader;
use crate::engine::{Action, Decision, ToolCall};

const CONTRACT: Contract = Contract {
    parser: "native",
    id: "native_tool_calls_v1",
    shape: r#"a tool call whose arguments are a JSON object: {"key": "value"}"#,
    salvaged: Trouble::SalvagedToolArguments,
};

/// Returns the decision to execute `calls`, with `text` as the reason.
///
/// Broken arguments are repaired like those of the JSON parser. If one call can't be repaired, the
/// result has no decision, because a model that makes several calls relies on all of them. Empty
/// arguments, which some providers send for none, become an empty object. Without calls there is no
/// decision: the caller decides whether plain text is an answer.
pub fn native(calls: &[ToolCall], text: &str) -> Parsed {
    // The preview shows what is broken: the arguments, not the text next to the call.
    let mut subject = None;
    let outcome = decide(calls, text, &mut subject);
    CONTRACT.report(subject.unwrap_or(text), outcome)
}

fn decide<'t>(
    calls: &'t [ToolCall],
    text: &str,
    subject: &mut Option<&'t str>,
) -> Result<ParsedDecision, Refusal> {
    if calls.is_empty() && text.trim().is_empty() {
        return Err(Contract::empty());
    }
    if calls.is_empty() {
        let summary = "There is text, but no tool call.";
        return Err(Refusal::new(
            Trouble::MissingActionOrFinal,
            summary,
            "Call one of the tools.",
        ));
    }
    let mut repairs = Repairs::default();
    let mut actions = Vec::with_capacity(calls.len());
    for (place, call) in calls.iter().enumerate() {
        let outcome = read(place, call);
        if outcome
            .as_ref()
            .map_or(true, |(_, taken)| !taken.is_empty() && subject.is_none())
        {
            *subject = Some(&call.arguments);
        }
        let (args, taken) = outcome?;
        repairs.add(&taken);
        let id = Some(call.id.clone()).filter(|id| !id.is_empty());
        actions.push(Action {
            name: call.name.trim().to_owned(),
            args,
            id,
        });
    }
    let thought = Some(after_reasoning(text).trim()).filter(|thought| !thought.is_empty());
    let decision = Decision {
        rationale: thought.map(str::to_owned),
        ..Decision::act(actions)
    };
    Ok(ParsedDecision {
        decision,
        repairs,
        ignored: Ignored::default(),
    })
}

fn read(place: usize, call: &ToolCall) -> Result<(Map<String, Value>, Repairs), Refusal> {
    let (name, text) = (call.name.trim(), call.arguments.as_str());
    let path = format!("tool_calls[{place}].arguments");
    if name.is_empty() {
        let summary = format!("Tool call {place} has no name.");
        let fix = "Name one of the tools.";
        return Err(Refusal::new(Trouble::MissingRequiredField, summary, fix)
            .at(format!("tool_calls[{place}].name")));
    }
    if text.trim().is_empty() {
        return Ok(Default::default());
    }
    let mut reader = Reader::json(text);
    let first = reader.value(0);
    let read = match first {
        Ok(value) if !value.is_object() => {
            arguments(value, name).map(|args| (args, reader.repairs))
        }
        // An object inside a list can't be the arguments.
        Err(fault) if text.trim_start().starts_with('[') => Err(Refusal::broken(
            Trouble::InvalidJson,
            "The JSON is broken.",
            &fault,
            text,
        )),
        _ => only_object(text, |_| true),
    };
    read.map_err(|refusal| {
        let summary = format!(
            "The call of {} cannot be read: {}",
            snippet(name),
            refusal.summary
        );
        Refusal {
            summary,
            path: Some(path),
            ..refusal
        }
    })
}
