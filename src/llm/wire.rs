//! How is a request written, and an answer read? The chat completions of OpenAI, as all the world speaks them.
//!
//! Many servers speak it a little differently: fields are missing, null, of another type, or new. So an answer is read
//! field by field out of whatever JSON it is, and only what is not there at all is missed.

use serde_json::{Map, Value, json};

use crate::engine::{Message, Reply, Request, Role, ToolCall, ToolSpec};
use crate::stop::Usage;

/// The body of a request; `settings` are further fields as the user wrote them.
pub(super) fn request(model: &str, stream: bool, settings: &Map<String, Value>, request: &Request) -> Vec<u8> {
    let mut body = Map::new();
    body.insert("model".to_owned(), model.into());
    body.insert("messages".to_owned(), request.messages.iter().map(message).collect());
    if !request.tools.is_empty() {
        body.insert("tools".to_owned(), request.tools.iter().map(tool).collect());
    }
    if stream {
        body.insert("stream".to_owned(), true.into());
        // Without it most servers do not say what a streamed answer cost.
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    }
    body.extend(settings.clone());
    Value::Object(body).to_string().into_bytes()
}

fn message(message: &Message) -> Value {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let calls: Vec<Value> = message.tool_calls.iter().map(call).collect();
    // Beside calls, some servers refuse an empty text and want none.
    let content = (!message.content.is_empty() || calls.is_empty()).then_some(&message.content);
    let mut written = json!({"role": role, "content": content});
    if let Some(fields) = written.as_object_mut() {
        if !calls.is_empty() {
            fields.insert("tool_calls".to_owned(), calls.into());
        }
        if let Some(id) = &message.tool_call_id {
            fields.insert("tool_call_id".to_owned(), id.as_str().into());
        }
    }
    written
}

fn call(call: &ToolCall) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
}

fn tool(spec: &ToolSpec) -> Value {
    let (name, description, parameters) = (&spec.name, &spec.description, &spec.parameters);
    json!({"type": "function", "function": {"name": name, "description": description, "parameters": parameters}})
}

/// What a server complains about, in an error's body or in the middle of an answer.
pub(super) struct Complaint {
    /// Its words.
    pub(super) message: String,
    /// Its code or type, where it gives one.
    pub(super) code: String,
}

impl Complaint {
    /// The complaint in `body`, where there is one.
    pub(super) fn find(body: &Value) -> Option<Self> {
        let error = body.get("error").filter(|error| !error.is_null()).or_else(|| {
            // Without an `error`, an answer with choices is an answer.
            (body.get("choices").is_none() && ["message", "detail"].iter().any(|key| body.get(*key).is_some()))
                .then_some(body)
        })?;
        let word = |key: &str| match error.get(key) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        let message = error.as_str().map(str::to_owned).or_else(|| word("message")).or_else(|| word("detail"));
        let code = [word("code"), word("type")].into_iter().flatten().collect::<Vec<_>>().join(" ");
        Some(Self { message: message.unwrap_or_else(|| error.to_string()), code })
    }

    /// Whether it says that the request is longer than the model can take.
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

/// An answer, whole or as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Answer {
    text: String,
    calls: Vec<Begun>,
    usage: Option<Usage>,
    cost_usd: Option<f64>,
    /// Why it ended; without one it has not ended.
    pub(super) finish_reason: Option<String>,
    model: Option<String>,
}

/// A call, and where in the stream it stands.
#[derive(Debug)]
struct Begun {
    index: Option<u64>,
    call: ToolCall,
}

impl Answer {
    /// Takes a whole answer, or one piece of it, and returns the piece of text. Both have the same shape but for the
    /// name of one field.
    pub(super) fn take(&mut self, piece: &Value) -> String {
        if let Some(usage) = piece.get("usage").and_then(usage) {
            self.usage = Some(usage);
            // Not in OpenAI's own protocol; OpenRouter and LiteLLM add it.
            self.cost_usd = piece.pointer("/usage/cost").and_then(Value::as_f64);
        }
        if self.model.is_none() {
            self.model =
                piece.get("model").and_then(Value::as_str).filter(|model| !model.is_empty()).map(str::to_owned);
        }
        let Some(choice) = piece.get("choices").and_then(|choices| choices.get(0)) else { return String::new() };
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
            self.finish_reason = Some(reason.to_owned());
        }
        let whole = choice.get("message").filter(|message| !message.is_null());
        let Some(said) = whole.or_else(|| choice.get("delta")) else { return String::new() };
        let calls = said.get("tool_calls").and_then(Value::as_array);
        calls.into_iter().flatten().for_each(|call| self.call(call, whole.is_some()));
        let mut text = said.get("content").map(text).unwrap_or_default();
        if text.is_empty() {
            // A model that declines says so in a field of its own.
            text = said.get("refusal").map(self::text).unwrap_or_default();
        }
        self.text.push_str(&text);
        text
    }

    /// Takes a call or a piece of one. Pieces go together by index; where a server gives none, a piece with a new id
    /// begins a call and one without an id goes on with the last.
    fn call(&mut self, piece: &Value, whole: bool) {
        let index = piece.get("index").and_then(Value::as_u64);
        let id = piece.get("id").and_then(Value::as_str).unwrap_or_default();
        let function = piece.get("function").unwrap_or(piece);
        let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
        let arguments = match function.get("arguments") {
            Some(Value::String(text)) => text.clone(),
            None | Some(Value::Null) => String::new(),
            // Some servers give the arguments themselves instead of their text.
            Some(value) => value.to_string(),
        };
        let same = |begun: &Begun| match index {
            Some(_) => begun.index == index,
            None => id.is_empty() || begun.call.id == id,
        };
        let place = match index {
            _ if whole => None,
            Some(_) => self.calls.iter().position(same),
            None => self.calls.len().checked_sub(1).filter(|last| self.calls.get(*last).is_some_and(same)),
        };
        match place.and_then(|place| self.calls.get_mut(place)) {
            Some(begun) => {
                if begun.call.id.is_empty() {
                    begun.call.id = id.to_owned();
                }
                // Most send the name once; one that comes again in full is no second half.
                if begun.call.name != name {
                    begun.call.name.push_str(name);
                }
                begun.call.arguments.push_str(&arguments);
            }
            None => {
                let call = ToolCall { id: id.to_owned(), name: name.to_owned(), arguments };
                self.calls.push(Begun { index, call });
            }
        }
    }

    /// Whether there is neither text nor a call.
    pub(super) fn is_empty(&self) -> bool {
        self.text.trim().is_empty() && self.calls.is_empty()
    }

    /// The answer as the engine takes it.
    pub(super) fn reply(self, attempts: u32) -> Reply {
        let mut reply = Reply::text(self.text);
        reply.tool_calls = self.calls.into_iter().map(|begun| begun.call).collect();
        reply.usage = self.usage;
        reply.cost_usd = self.cost_usd;
        reply.finish_reason = self.finish_reason;
        reply.model = self.model;
        reply.attempts = attempts;
        reply
    }
}

/// Text, or the texts of parts.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect(),
        _ => String::new(),
    }
}

/// What an answer cost; `None` unless both numbers are there.
fn usage(usage: &Value) -> Option<Usage> {
    let tokens = |key: &str| usage.get(key).and_then(Value::as_u64);
    let (input, output) = (tokens("prompt_tokens")?, tokens("completion_tokens")?);
    Some(Usage { input, output, estimated: false })
}
