//! Reads the records of a trace: spans with their attributes, and the messages in them.

use std::collections::HashMap;

use crate::format::part::text;
use crate::format::value::{count, filled, member, number, unpacked};
use crate::format::{CallDraft, Tokens};
use crate::model::json::walk;

/// Values nested more deeply than this stay as they are.
const MAX_DEPTH: usize = 16;

fields! {
    pub(super) struct Raw {
        trace = "traceId", id = "spanId", parent = "parentSpanId", name, start = "startTimeUnixNano",
        end = "endTimeUnixNano", attributes, status, events, time = "timeUnixNano",
        observed = "observedTimeUnixNano", event = "eventName", body,
    }
    pub(super) struct Attribute { key, value }
    pub(super) struct Status { code, message }
    pub(super) struct SpanEvent { name, attributes }
    pub(super) struct Message { role, parts, content, finish_reason, calls = "tool_calls" }
    pub(super) struct Choice { message, finish_reason }
    pub(super) struct Piece { kind = "type", content, text, id, name, arguments }
    pub(super) struct OldCall { id, function }
    pub(super) struct Function { name, arguments }
}

/// A span and its attributes by key.
pub(super) struct Span<'a> {
    pub(super) raw: Raw<'a>,
    pub(super) attributes: HashMap<String, &'a str>,
}

/// The kind of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Reply,
    Tool,
    Agent,
    Other,
}

pub(super) fn nanos(value: Option<&str>) -> Option<u64> {
    text(value).as_deref().or(value)?.parse().ok()
}

impl<'a> Span<'a> {
    pub(super) fn of(record: &'a str) -> Self {
        let raw = Raw::of(record);
        Self {
            raw,
            attributes: attributes(raw.attributes),
        }
    }

    /// Returns the text of the first of these attributes that exists. A structured value is
    /// returned as JSON.
    pub(super) fn text(&self, keys: &[&str]) -> Option<String> {
        let value = keys.iter().find_map(|key| self.attributes.get(*key))?;
        let plain = plain(value, 0);
        text(Some(&plain))
            .or(Some(plain))
            .filter(|text| !text.is_empty())
    }

    /// Returns the value of an attribute as JSON. Some writers store it as text.
    pub(super) fn json(&self, keys: &[&str]) -> Option<String> {
        self.text(keys).map(|text| unpacked(&text))
    }

    pub(super) fn count(&self, keys: &[&str]) -> Option<u64> {
        self.text(keys)?.parse().ok()
    }

    /// Returns the recorded tokens.
    pub(super) fn tokens(&self) -> Tokens {
        let own = self.own_tokens();
        if own != Tokens::default() {
            return own;
        }
        let Some(details) = self.json(&["langfuse.observation.usage_details"]) else {
            return own;
        };
        let of = |key: &str| count(member(&details, key));
        Tokens {
            input: of("input"),
            output: of("output"),
            ..own
        }
    }

    fn own_tokens(&self) -> Tokens {
        let tokens = self.recorded_tokens();
        // GitHub Copilot omits counts of 0.
        let is_copilot = self.attributes.contains_key("github.copilot.turn_id");
        let none = tokens.input.filter(|_| is_copilot).map(|_| 0);
        Tokens {
            cached: tokens.cached.or(none),
            written: tokens.written.or(none),
            ..tokens
        }
    }

    fn recorded_tokens(&self) -> Tokens {
        Tokens {
            input: self.count(&[
                "gen_ai.usage.input_tokens",
                "gen_ai.usage.prompt_tokens",
                "llm.token_count.prompt",
                "gen_ai.aggregated_usage.input_tokens",
            ]),
            cached: self.count(&[
                "gen_ai.usage.cache_read.input_tokens",
                "gen_ai.usage.cache_read_input_tokens",
                "gen_ai.usage.details.cache_read_tokens",
                "llm.token_count.prompt_details.cache_read",
                "gen_ai.aggregated_usage.cache_read.input_tokens",
            ]),
            output: self.count(&[
                "gen_ai.usage.output_tokens",
                "gen_ai.usage.completion_tokens",
                "llm.token_count.completion",
                "gen_ai.aggregated_usage.output_tokens",
            ]),
            reasoning: self.count(&[
                "gen_ai.usage.reasoning.output_tokens",
                "gen_ai.usage.details.reasoning_tokens",
                "llm.token_count.completion_details.reasoning",
            ]),
            written: self.count(&[
                "gen_ai.usage.cache_creation.input_tokens",
                // GitHub Copilot's name.
                "gen_ai.usage.cache_write.input_tokens",
                "gen_ai.usage.cache_creation_input_tokens",
                "gen_ai.usage.details.cache_write_tokens",
                "llm.token_count.prompt_details.cache_write",
            ]),
            written_1h: self.count(&["board.tokens_cache_write_1h"]),
        }
    }

    /// Returns the recorded cost in US dollars.
    pub(super) fn cost(&self) -> Option<f64> {
        let own = number(
            self.text(&["operation.cost", "gen_ai.usage.cost", "llm.cost.total"])
                .as_deref(),
        );
        own.or_else(|| {
            number(member(
                &self.json(&["langfuse.observation.cost_details"])?,
                "total",
            ))
        })
    }

    /// Returns the call id that a tool's span names.
    pub(super) fn call_id(&self) -> Option<String> {
        self.text(&[
            "gen_ai.tool.call.id",
            "tool_call.id",
            "tool.id",
            "ai.toolCall.id",
        ])
    }

    pub(super) fn sort(&self) -> Sort {
        let kind = self.text(&[
            "openinference.span.kind",
            "traceloop.span.kind",
            "langsmith.span.kind",
            "langfuse.observation.type",
        ]);
        match (
            self.text(&["gen_ai.operation.name"]).as_deref(),
            kind.as_deref(),
        ) {
            (Some("chat" | "text_completion" | "generate_content" | "completion"), _) => {
                Sort::Reply
            }
            (Some("execute_tool"), _) => Sort::Tool,
            (Some("invoke_agent" | "invoke_workflow"), _) => Sort::Agent,
            (Some(_), _) => Sort::Other,
            (None, Some("LLM" | "llm" | "generation")) => Sort::Reply,
            (None, Some("TOOL" | "tool")) => Sort::Tool,
            (None, Some("AGENT" | "agent" | "workflow")) => Sort::Agent,
            (None, _) if self.attributes.contains_key("llm.request.type") => Sort::Reply,
            _ => Sort::Other,
        }
    }

    pub(super) fn micros(value: Option<&str>) -> Option<i64> {
        // An unknown time is recorded as 0.
        nanos(value)
            .filter(|nanos| *nanos > 0)
            .and_then(|nanos| i64::try_from(nanos / 1_000).ok())
    }

    pub(super) fn is_level_error(&self) -> bool {
        self.text(&["langfuse.observation.level"]).as_deref() == Some("ERROR")
    }

    /// Returns what went wrong: the name of the exception, and its message.
    pub(super) fn fault(&self) -> Option<(String, String)> {
        let status = self.raw.status.map(Status::of).unwrap_or_default();
        let is_error = match status.code {
            Some("2" | "\"STATUS_CODE_ERROR\"") => true,
            // Not every writer sets the status.
            None | Some("0" | "\"STATUS_CODE_UNSET\"") => {
                self.attributes.contains_key("error.type") || self.is_level_error()
            }
            Some(_) => false,
        };
        is_error.then_some(())?;
        let raised = self
            .raw
            .events
            .into_iter()
            .flat_map(walk::items)
            .map(SpanEvent::of);
        let raised = raised
            .filter(|event| event.name == Some("\"exception\""))
            .last();
        let all = attributes(raised.and_then(|event| event.attributes));
        let of = |key: &str| {
            all.get(key)
                .and_then(|value| filled(Some(&plain(value, 0))))
        };
        let kind = of("exception.type")
            .or_else(|| self.text(&["error.type"]).filter(|kind| kind != "_OTHER"));
        let kind = kind.unwrap_or_default();
        let words = of("exception.message").or_else(|| filled(status.message));
        let words = words
            .or_else(|| self.text(&["langfuse.observation.status_message"]))
            .unwrap_or_default();
        let name = kind.rsplit('.').next().unwrap_or_default().to_owned();
        Some((name, words))
    }
}

pub(super) fn attributes(list: Option<&str>) -> HashMap<String, &str> {
    let all = list.into_iter().flat_map(walk::items).map(Attribute::of);
    all.filter_map(|attribute| Some((text(attribute.key)?, attribute.value?)))
        .collect()
}

/// Converts an attribute's value, which OTLP wraps in its type, to JSON.
pub(super) fn plain(value: &str, depth: usize) -> String {
    let Some((kind, inner)) = walk::members(value).next() else {
        return "null".to_owned();
    };
    let values = || {
        walk::members(inner)
            .filter(|(key, _)| *key == "\"values\"")
            .flat_map(|(_, list)| walk::items(list))
    };
    match kind {
        // 64-bit numbers are strings in OTLP.
        "\"intValue\"" => text(Some(inner)).unwrap_or_else(|| inner.to_owned()),
        "\"arrayValue\"" if depth < MAX_DEPTH => {
            let items: Vec<String> = values().map(|item| plain(item, depth + 1)).collect();
            format!("[{}]", items.join(","))
        }
        "\"kvlistValue\"" if depth < MAX_DEPTH => {
            let members = values().map(Attribute::of).filter_map(|member| {
                Some(format!(
                    "{}:{}",
                    member.key?,
                    plain(member.value.unwrap_or("{}"), depth + 1)
                ))
            });
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        _ => inner.to_owned(),
    }
}

/// Returns the text of a message, its reasoning, and its calls.
pub(super) fn said(message: &Message<'_>) -> (String, Vec<String>, Vec<CallDraft>) {
    let (mut words, mut thought, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    words.extend(filled(message.content));
    let inner = message
        .parts
        .or(message.content.filter(|content| content.starts_with('[')));
    for piece in inner.into_iter().flat_map(walk::items).map(Piece::of) {
        let words_of = || filled(piece.content).or_else(|| filled(piece.text));
        match piece.kind {
            Some("\"text\"") => words.extend(words_of()),
            Some("\"reasoning\"" | "\"thinking\"") => thought.extend(words_of()),
            Some("\"tool_call\"") => calls.push(call(piece.id, piece.name, piece.arguments)),
            _ => {}
        }
    }
    for old in message
        .calls
        .into_iter()
        .flat_map(walk::items)
        .map(OldCall::of)
    {
        let function = old.function.map(Function::of).unwrap_or_default();
        calls.push(call(old.id, function.name, function.arguments));
    }
    (words.join("\n"), thought, calls)
}

pub(super) fn call(id: Option<&str>, name: Option<&str>, arguments: Option<&str>) -> CallDraft {
    let args = match text(arguments) {
        Some(inner) => unpacked(&inner),
        None => arguments
            .filter(|arguments| *arguments != "null")
            .unwrap_or_default()
            .to_owned(),
    };
    CallDraft {
        id: text(id).unwrap_or_default(),
        name: text(name).unwrap_or_default(),
        args,
    }
}
