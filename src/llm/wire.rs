//! Writes requests and reads replies of OpenAI's chat completions protocol, which many servers
//! implement.
//!
//! Many servers deviate slightly: fields are missing, null, of another type, or new. For this
//! reason, a reply is read field by field from any JSON, and nothing fails because of an unexpected
//! field.

use serde_json::{Map, Value, json};

use crate::engine::{Message, Reply, Request, Role, ToolCall, ToolSpec};
use crate::stop::Usage;

/// Returns the body of a request. `settings` are additional fields from the user. `with_fields`
/// decides whether the additional fields of earlier messages and calls are sent back.
pub(super) fn request(
    model: &str,
    stream: bool,
    settings: &Map<String, Value>,
    request: &Request,
    with_fields: bool,
) -> Vec<u8> {
    let mut body = Map::new();
    body.insert("model".to_owned(), model.into());
    body.insert(
        "messages".to_owned(),
        request
            .messages
            .iter()
            .map(|it| message(it, with_fields))
            .collect(),
    );
    if !request.tools.is_empty() {
        body.insert("tools".to_owned(), request.tools.iter().map(tool).collect());
    }
    if stream {
        body.insert("stream".to_owned(), true.into());
        // Without it, most servers don't report the usage of a streamed reply.
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    }
    body.extend(settings.clone());
    Value::Object(body).to_string().into_bytes()
}

fn message(message: &Message, with_fields: bool) -> Value {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let calls: Vec<Value> = message
        .tool_calls
        .iter()
        .map(|it| call(it, with_fields))
        .collect();
    // Some servers refuse an empty text next to calls and require null.
    let content = (!message.content.is_empty() || calls.is_empty()).then_some(&message.content);
    let mut written = json!({"role": role, "content": content});
    if let Some(fields) = written.as_object_mut() {
        if with_fields {
            fields.extend(message.fields.clone());
        }
        if !calls.is_empty() {
            fields.insert("tool_calls".to_owned(), calls.into());
        }
        if let Some(id) = &message.tool_call_id {
            fields.insert("tool_call_id".to_owned(), id.as_str().into());
        }
    }
    written
}

fn call(call: &ToolCall, with_fields: bool) -> Value {
    let mut written = if with_fields {
        Value::Object(call.fields.clone())
    } else {
        json!({})
    };
    let known = json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}});
    merge(&mut written, &known);
    written
}

/// Merges `more` into `value` recursively.
fn merge(value: &mut Value, more: &Value) {
    match (value, more) {
        (Value::Object(members), Value::Object(more)) => {
            for (key, more) in more {
                merge(members.entry(key).or_insert(Value::Null), more);
            }
        }
        (value, more) => value.clone_from(more),
    }
}

fn tool(spec: &ToolSpec) -> Value {
    let (name, description, parameters) = (&spec.name, &spec.description, &spec.parameters);
    json!({"type": "function", "function": {"name": name, "description": description, "parameters": parameters}})
}

/// A server's error, from an error response or in the middle of a reply.
pub(super) struct Complaint {
    /// The error message.
    pub(super) message: String,
    /// The error's code or type, if given.
    pub(super) code: String,
}

impl Complaint {
    /// Returns the error in `body`, if there is one.
    pub(super) fn find(body: &Value) -> Option<Self> {
        let error = body
            .get("error")
            .filter(|error| !error.is_null())
            .or_else(|| {
                // Without an `error`, a body with choices is a reply.
                (body.get("choices").is_none()
                    && ["message", "detail"]
                        .iter()
                        .any(|key| body.get(*key).is_some()))
                .then_some(body)
            })?;
        let word = |key: &str| match error.get(key) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        let message = error
            .as_str()
            .map(str::to_owned)
            .or_else(|| word("message"))
            .or_else(|| word("detail"));
        let code = [word("code"), word("type")]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" ");
        Some(Self {
            message: message.unwrap_or_else(|| error.to_string()),
            code,
        })
    }

    /// Returns whether the error says that the request exceeds the model's context window.
    pub(super) fn is_overflow(&self) -> bool {
        const WORDS: [&str; 8] = [
            "context_length_exceeded",
            "exceed_context_size",
            "context length",
            "context window",
            "context size",
            "maximum context",
            "prompt is too long",
            "too many tokens",
        ];
        let said = format!("{} {}", self.code, self.message).to_lowercase();
        WORDS.iter().any(|word| said.contains(word))
    }
}

/// A reply, complete or as far as it was received.
#[derive(Debug, Default)]
pub(super) struct Answer {
    text: String,
    calls: Vec<Begun>,
    /// Additional fields of the message, such as the model's reasoning.
    fields: Map<String, Value>,
    pub(super) usage: Option<Usage>,
    cost_usd: Option<f64>,
    /// Missing until the reply has ended.
    pub(super) finish_reason: Option<String>,
    model: Option<String>,
}

/// A tool call, and its index in the stream.
#[derive(Debug)]
struct Begun {
    index: Option<u64>,
    call: ToolCall,
}

impl Answer {
    /// Adds a complete reply or one piece of it, and returns its text. Both have the same shape,
    /// except for the name of one field.
    pub(super) fn take(&mut self, piece: &Value) -> String {
        if let Some(usage) = piece.get("usage").and_then(usage) {
            self.usage = Some(usage);
            // Not part of OpenAI's protocol. OpenRouter and LiteLLM add it.
            self.cost_usd = piece.pointer("/usage/cost").and_then(Value::as_f64);
        }
        if self.model.is_none() {
            self.model = piece
                .get("model")
                .and_then(Value::as_str)
                .filter(|model| !model.is_empty())
                .map(str::to_owned);
        }
        let Some(choice) = piece.get("choices").and_then(|choices| choices.get(0)) else {
            return String::new();
        };
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
            self.finish_reason = Some(reason.to_owned());
        }
        let whole = choice.get("message").filter(|message| !message.is_null());
        let Some(said) = whole.or_else(|| choice.get("delta")) else {
            return String::new();
        };
        let calls = said.get("tool_calls").and_then(Value::as_array);
        calls
            .into_iter()
            .flatten()
            .for_each(|call| self.call(call, whole.is_some()));
        keep(
            &mut self.fields,
            said,
            &["role", "content", "tool_calls", "refusal"],
        );
        self.keep_parts(said.get("content"));
        let mut text = said.get("content").map(text).unwrap_or_default();
        if text.is_empty() {
            // A model that declines uses a separate field for its text.
            text = said.get("refusal").map(self::text).unwrap_or_default();
        }
        self.text.push_str(&text);
        text
    }

    /// Keeps the original content if it has parts other than text, such as reasoning.
    fn keep_parts(&mut self, content: Option<&Value>) {
        let is_text = |part: &Value| part.get("type").is_none_or(|kind| kind == "text");
        let begun = self.fields.get_mut("content").and_then(Value::as_array_mut);
        match (content, begun) {
            (Some(Value::Array(parts)), Some(begun)) => begun.extend(parts.iter().cloned()),
            (Some(Value::Array(parts)), None) if !parts.iter().all(is_text) => {
                let before =
                    (!self.text.is_empty()).then(|| json!({"type": "text", "text": self.text}));
                self.fields.insert(
                    "content".to_owned(),
                    before.into_iter().chain(parts.iter().cloned()).collect(),
                );
            }
            (Some(Value::String(text)), Some(begun)) if !text.is_empty() => {
                begun.push(json!({"type": "text", "text": text}));
            }
            _ => {}
        }
    }

    /// Adds a tool call or a piece of one. Pieces are joined by index. If the server gives no
    /// index, a piece with a new id starts a call, and a piece without an id continues the last
    /// one.
    fn call(&mut self, piece: &Value, whole: bool) {
        let index = piece.get("index").and_then(Value::as_u64);
        let id = piece.get("id").and_then(Value::as_str).unwrap_or_default();
        let function = piece.get("function").unwrap_or(piece);
        let name = function
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let arguments = match function.get("arguments") {
            Some(Value::String(text)) => text.clone(),
            None | Some(Value::Null) => String::new(),
            // Some servers send the arguments as an object instead of text.
            Some(value) => value.to_string(),
        };
        let same = |begun: &Begun| match index {
            Some(_) => begun.index == index,
            None => id.is_empty() || begun.call.id == id,
        };
        let place = match index {
            _ if whole => None,
            Some(_) => self.calls.iter().position(same),
            None => self
                .calls
                .len()
                .checked_sub(1)
                .filter(|last| self.calls.get(*last).is_some_and(same)),
        };
        let mut fields = Map::new();
        if piece.get("function").is_some() {
            let mut beside = Map::new();
            keep(&mut beside, function, &["name", "arguments"]);
            if !beside.is_empty() {
                fields.insert("function".to_owned(), beside.into());
            }
            keep(&mut fields, piece, &["index", "id", "type", "function"]);
        } else {
            keep(
                &mut fields,
                piece,
                &["index", "id", "type", "name", "arguments"],
            );
        }
        match place.and_then(|place| self.calls.get_mut(place)) {
            Some(begun) => {
                keep(&mut begun.call.fields, &fields.into(), &[]);
                if begun.call.id.is_empty() {
                    begun.call.id = id.to_owned();
                }
                // Most servers send the name once. If it comes again in full, it isn't a second
                // part.
                if begun.call.name != name {
                    begun.call.name.push_str(name);
                }
                begun.call.arguments.push_str(&arguments);
            }
            None => {
                let call = ToolCall {
                    fields,
                    ..ToolCall::new(id, name, arguments)
                };
                self.calls.push(Begun { index, call });
            }
        }
    }

    /// Returns the tokens of a request whose reply was interrupted: the reported usage, or else an
    /// estimate from the sent and received text. Even if no reply arrived, the model may have
    /// worked on one, so the request counts. A refused request without a reply used no tokens.
    pub(super) fn spent(self, sent_bytes: usize, is_refusal: bool) -> Usage {
        let told = self.usage;
        let came = self.reply(1).message().estimated_tokens();
        told.unwrap_or_else(|| match came {
            0 if is_refusal => Usage::default(),
            came => Usage::estimated((sent_bytes as u64).div_ceil(4), came),
        })
    }

    /// Converts the answer to the engine's type.
    pub(super) fn reply(self, attempts: u32) -> Reply {
        let mut reply = Reply::text(self.text);
        reply.tool_calls = self.calls.into_iter().map(|begun| begun.call).collect();
        reply.fields = self.fields;
        reply.usage = self.usage;
        reply.cost_usd = self.cost_usd;
        reply.finish_reason = self.finish_reason;
        reply.model = self.model;
        reply.attempts = attempts;
        reply
    }
}

/// Returns the text of a message's content, which may consist of several parts.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part.get("text").and_then(Value::as_str))
            .collect(),
        _ => String::new(),
    }
}

/// Copies all members of `from` into `fields`, except for those in `but`, nulls and empty lists.
fn keep(fields: &mut Map<String, Value>, from: &Value, but: &[&str]) {
    let says_nothing =
        |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    let members = from.as_object().into_iter().flatten();
    for (key, value) in
        members.filter(|(key, value)| !but.contains(&key.as_str()) && !says_nothing(value))
    {
        match fields.get_mut(key) {
            Some(begun) => go_on(begun, value, true),
            None => drop(fields.insert(key.clone(), value.clone())),
        }
    }
}

/// Appends the next piece of a value. The text of a field is appended. Inside lists and objects,
/// only text with a key in `LONG` is appended, because kinds and ids are repeated in full.
fn go_on(begun: &mut Value, piece: &Value, is_text: bool) {
    const LONG: [&str; 7] = [
        "text",
        "thinking",
        "summary",
        "content",
        "reasoning",
        "data",
        "signature",
    ];
    match (begun, piece) {
        (Value::String(begun), Value::String(piece)) if is_text => begun.push_str(piece),
        (Value::Array(begun), Value::Array(pieces)) => {
            for piece in pieces {
                let index = piece.get("index").filter(|index| index.is_u64());
                match index.and_then(|index| {
                    begun
                        .iter_mut()
                        .find(|item| item.get("index") == Some(index))
                }) {
                    Some(item) => go_on(item, piece, false),
                    None => begun.push(piece.clone()),
                }
            }
        }
        (Value::Object(begun), Value::Object(pieces)) => {
            for (key, piece) in pieces.iter().filter(|(_, piece)| !piece.is_null()) {
                match begun.get_mut(key) {
                    Some(begun) => go_on(begun, piece, LONG.contains(&key.as_str())),
                    None => drop(begun.insert(key.clone(), piece.clone())),
                }
            }
        }
        (begun, piece) => begun.clone_from(piece),
    }
}

/// No reply has as many tokens. A larger number isn't a count, and would make the run's total wrong.
const MAX_TOKENS: u64 = u32::MAX as u64;

/// Reads the usage of a reply. `None` if either token count is missing or isn't a count.
fn usage(usage: &Value) -> Option<Usage> {
    let tokens = |key: &str| {
        let count = usage.pointer(key).and_then(Value::as_u64);
        count.filter(|count| *count <= MAX_TOKENS)
    };
    let (input, output) = (tokens("/prompt_tokens")?, tokens("/completion_tokens")?);
    let cached = [
        "/prompt_tokens_details/cached_tokens",
        "/prompt_cache_hit_tokens",
        "/cache_read_input_tokens",
    ];
    let reasoning = [
        "/completion_tokens_details/reasoning_tokens",
        "/reasoning_tokens",
    ]
    .into_iter()
    .find_map(tokens);
    // Some servers don't include reasoning tokens in the output tokens, as their total shows.
    let beside = reasoning.filter(|thought| {
        let told = tokens("/total_tokens");
        *thought > 0
            && told
                == input
                    .checked_add(output)
                    .and_then(|both| both.checked_add(*thought))
    });
    Some(Usage {
        cached: cached.into_iter().find_map(tokens),
        reasoning,
        ..Usage::reported(input, output.saturating_add(beside.unwrap_or(0)))
    })
}
