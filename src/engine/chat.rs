//! The interface to a model: takes a request, returns a reply or a classified failure.
//!
//! Must not know any provider or HTTP. A client for a model implements [`ChatModel`]. [`Scripted`] replies from a list.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::erased::Boxed;
use crate::stop::Usage;

/// A model that replies to requests.
pub trait ChatModel: Send + Sync {
    /// Returns the model's name, for the manifest.
    fn name(&self) -> &str;

    /// Sends one request. The implementation handles network retries. It returns [`ModelErrorKind::GivenUp`] when they
    /// are exhausted, so that the recovery policy does not start over. If the implementation streams, it calls
    /// `on_text` with each piece of text as it arrives.
    fn complete(
        &self,
        request: &Request,
        on_text: &(dyn Fn(&str) + Send + Sync),
    ) -> impl Future<Output = Result<Reply, ModelError>> + Send;

    /// Returns how many tokens fit into a request and its reply, if known.
    fn context_window(&self) -> Option<u64> {
        None
    }
}

/// [`ChatModel`] in a form that can be boxed.
pub(super) trait DynModel: Send + Sync {
    fn name(&self) -> &str;
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        on_text: &'a (dyn Fn(&str) + Send + Sync),
    ) -> Boxed<'a, Result<Reply, ModelError>>;
    fn context_window(&self) -> Option<u64>;
}

impl<M: ChatModel> DynModel for M {
    fn name(&self) -> &str {
        ChatModel::name(self)
    }

    fn complete<'a>(
        &'a self,
        request: &'a Request,
        on_text: &'a (dyn Fn(&str) + Send + Sync),
    ) -> Boxed<'a, Result<Reply, ModelError>> {
        Box::pin(ChatModel::complete(self, request, on_text))
    }

    fn context_window(&self) -> Option<u64> {
        ChatModel::context_window(self)
    }
}

/// A request to a model.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Request {
    /// The conversation, system message first.
    pub messages: Vec<Message>,
    /// The tools that it may call. Empty if calls are written as text.
    pub tools: Vec<ToolSpec>,
    /// How long the run may still take, if that is limited. A client doesn't wait longer than this before a retry.
    pub time_left: Option<Duration>,
}

impl Request {
    /// Creates a request without tools.
    pub fn new(messages: Vec<Message>) -> Self {
        Self {
            messages,
            tools: Vec::new(),
            time_left: None,
        }
    }
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Message {
    /// The author.
    pub role: Role,
    /// The text; empty if an assistant only calls tools.
    pub content: String,
    /// The calls of an assistant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// For a tool message: the id of the call that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Additional fields of an assistant's message, such as `reasoning_content`; see [`Reply::fields`].
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub fields: Map<String, Value>,
}

impl Message {
    /// Creates a message without calls.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
            tool_calls: Vec::new(),
            tool_call_id: None,
            fields: Map::new(),
        }
    }

    /// Creates a system message: the instructions.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new(Role::System, content)
    }

    /// Creates a user message: input for the agent.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new(Role::User, content)
    }

    /// Creates a message of the model.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::new(Role::Assistant, content)
    }

    /// Creates a message with the result of a call.
    pub fn tool(id: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            tool_call_id: Some(id.into()),
            ..Self::new(Role::Tool, content)
        }
    }

    /// Estimates the tokens of the message as a quarter of its bytes, the usual rule of thumb for English text.
    pub fn estimated_tokens(&self) -> u64 {
        let calls = self.tool_calls.iter();
        let calls: usize = calls
            .map(|call| call.name.len() + call.arguments.len() + bytes_of(call.fields.values()))
            .sum();
        ((self.content.len() + calls + bytes_of(self.fields.values())) as u64).div_ceil(4)
    }
}

/// Counts the bytes of all strings in the values. The rest is small.
fn bytes_of<'a>(values: impl Iterator<Item = &'a Value>) -> usize {
    let bytes = |value: &Value| match value {
        Value::String(text) => text.len(),
        Value::Array(items) => bytes_of(items.iter()),
        Value::Object(members) => bytes_of(members.values()),
        _ => 0,
    };
    values.map(bytes).sum()
}

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions.
    System,
    /// The agent or its user.
    User,
    /// The model.
    Assistant,
    /// A tool's result.
    Tool,
}

/// A tool as described to a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
}

impl ToolSpec {
    /// Describes a tool.
    pub fn new(name: impl Into<String>, description: impl Into<String>, parameters: Value) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            parameters,
        }
    }
}

/// A tool call in a reply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id under which the model expects the result. May be empty.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as the model wrote them; normally JSON.
    pub arguments: String,
    /// Additional fields of the call, such as the signature of the reasoning that led to it. They are sent back
    /// unchanged. Fields next to the name and the arguments are in an object under `function`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub fields: Map<String, Value>,
}

impl ToolCall {
    /// Creates a call without additional fields.
    pub fn new(
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
            fields: Map::new(),
        }
    }
}

/// A reply of a model.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Reply {
    /// The text; empty if the model only calls tools.
    pub text: String,
    /// The tool calls.
    pub tool_calls: Vec<ToolCall>,
    /// Additional fields of the message, under the service's names: `reasoning_content`, `reasoning`,
    /// `thinking_blocks`. They are recorded and sent with the message in later requests. Some services refuse a request
    /// without them.
    pub fields: Map<String, Value>,
    /// The tokens that the model reports. If it reports none, the engine estimates them.
    pub usage: Option<Usage>,
    /// The cost in US dollars, if reported.
    pub cost_usd: Option<f64>,
    /// Why the reply ended, in the provider's term: `stop`, `length`, `tool_calls`.
    pub finish_reason: Option<String>,
    /// The model that replied, if it is not the requested one.
    pub model: Option<String>,
    /// How many attempts the reply took.
    pub attempts: u32,
    /// The tokens of earlier attempts that returned no reply; see [`ModelError::usage`]. Not included in `usage`.
    pub wasted: Usage,
}

impl Reply {
    /// Creates a reply that is only text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            attempts: 1,
            ..Self::default()
        }
    }

    /// Creates a reply that calls tools.
    pub fn calls(calls: impl IntoIterator<Item = ToolCall>) -> Self {
        Self {
            tool_calls: calls.into_iter().collect(),
            attempts: 1,
            ..Self::default()
        }
    }

    /// Returns the reply as a message of the conversation.
    pub(crate) fn message(&self) -> Message {
        let (tool_calls, fields) = (self.tool_calls.clone(), self.fields.clone());
        Message {
            tool_calls,
            fields,
            ..Message::assistant(&*self.text)
        }
    }

    /// Adds text to a reply that calls tools.
    #[must_use]
    pub fn saying(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }

    /// Adds a field to the message.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.fields.insert(name.into(), value.into());
        self
    }

    /// Sets why the reply ended, in the provider's term.
    #[must_use]
    pub fn finished(mut self, reason: impl Into<String>) -> Self {
        self.finish_reason = Some(reason.into());
        self
    }

    /// Sets the cost in US dollars.
    #[must_use]
    pub fn cost(mut self, usd: f64) -> Self {
        self.cost_usd = Some(usd);
        self
    }

    /// Sets the tokens that the reply used.
    #[must_use]
    pub fn usage(mut self, input: u64, output: u64) -> Self {
        self.usage = Some(Usage::reported(input, output));
        self
    }
}

/// Why a model returned no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelError {
    /// The kind of failure.
    pub kind: ModelErrorKind,
    /// What happened. Contains no secrets.
    pub message: String,
    /// The number of attempts.
    pub attempts: u32,
    /// How long the provider asks the client to wait, if it does.
    pub retry_after: Option<Duration>,
    /// The tokens used despite the failure, as reported by the provider or estimated from what was sent and received.
    /// Zero if the requests were refused or never reached the provider.
    pub usage: Usage,
}

/// The kinds of failure of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// A retry may succeed: overload, a lost connection, a truncated reply.
    Transient,
    /// The request does not fit into the context window.
    Overflow,
    /// The reply has neither text nor calls.
    Empty,
    /// The limit on attempts or time is reached. There are no more retries.
    GivenUp,
    /// A retry can't succeed: no access, no such model, a refused request.
    Fatal,
}

impl ModelError {
    /// Creates a failure after one attempt.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            attempts: 1,
            retry_after: None,
            usage: Usage::default(),
        }
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ModelError {}

/// A model that replies from a list, for tests and documentation.
#[derive(Debug)]
pub struct Scripted {
    replies: Mutex<VecDeque<Result<Reply, ModelError>>>,
}

impl Scripted {
    /// Returns these replies in order, then fails.
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::with_failures(replies.into_iter().map(Ok))
    }

    /// Returns these replies and failures in order, then fails.
    pub fn with_failures(replies: impl IntoIterator<Item = Result<Reply, ModelError>>) -> Self {
        Self {
            replies: Mutex::new(replies.into_iter().collect()),
        }
    }
}

impl ChatModel for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    async fn complete(
        &self,
        _request: &Request,
        on_text: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Reply, ModelError> {
        let next = self
            .replies
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        let over = || {
            Err(ModelError::new(
                ModelErrorKind::Fatal,
                "the script has no more replies",
            ))
        };
        let reply = next.unwrap_or_else(over)?;
        on_text(&reply.text);
        Ok(reply)
    }
}
