//! How is a model asked? A request goes out, a reply or a named failure comes back.
//!
//! Knows no provider and no HTTP; whoever has a client implements [`ChatModel`]. [`Scripted`] answers from a list.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::erased::Boxed;
use crate::stop::Usage;

/// Something that answers requests.
pub trait ChatModel: Send + Sync {
    /// The model's name, for the manifest.
    fn name(&self) -> &str;

    /// Asks once. Retries over the network are the implementer's, who says [`ModelErrorKind::GivenUp`] where there are no
    /// more, so that the recovery policy does not begin them anew. `on_text` is called with pieces of text as they come,
    /// by those who stream.
    fn complete(
        &self,
        request: &Request,
        on_text: &(dyn Fn(&str) + Send + Sync),
    ) -> impl Future<Output = Result<Reply, ModelError>> + Send;

    /// How many tokens fit into a request and its reply, where that is known.
    fn context_window(&self) -> Option<u64> {
        None
    }
}

/// [`ChatModel`] behind a pointer.
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

/// What a model is asked.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Request {
    /// The conversation, system message first.
    pub messages: Vec<Message>,
    /// The tools it may call; empty where calls are written as text.
    pub tools: Vec<ToolSpec>,
    /// How long the run may still take, where that is limited: nobody waits longer before asking again.
    pub time_left: Option<Duration>,
}

impl Request {
    /// A request without tools.
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
    /// Who speaks.
    pub role: Role,
    /// The text; empty where an assistant only calls tools.
    pub content: String,
    /// The calls of an assistant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// What an assistant's message had besides, such as `reasoning_content`; see [`Reply::fields`].
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub fields: Map<String, Value>,
}

impl Message {
    /// A message without calls.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
            tool_calls: Vec::new(),
            tool_call_id: None,
            fields: Map::new(),
        }
    }

    /// The instructions.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new(Role::System, content)
    }

    /// What the agent is told.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new(Role::User, content)
    }

    /// What the model said.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::new(Role::Assistant, content)
    }

    /// The result of a call.
    pub fn tool(id: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            tool_call_id: Some(id.into()),
            ..Self::new(Role::Tool, content)
        }
    }

    /// Its tokens, estimated as a quarter of its bytes: the usual rule of thumb for English text.
    pub fn estimated_tokens(&self) -> u64 {
        let calls = self.tool_calls.iter();
        let calls: usize = calls
            .map(|call| call.name.len() + call.arguments.len() + bytes_of(call.fields.values()))
            .sum();
        ((self.content.len() + calls + bytes_of(self.fields.values())) as u64).div_ceil(4)
    }
}

/// The bytes of the texts in values, which is what is long in them.
fn bytes_of<'a>(values: impl Iterator<Item = &'a Value>) -> usize {
    let bytes = |value: &Value| match value {
        Value::String(text) => text.len(),
        Value::Array(items) => bytes_of(items.iter()),
        Value::Object(members) => bytes_of(members.values()),
        _ => 0,
    };
    values.map(bytes).sum()
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions.
    System,
    /// The agent's side.
    User,
    /// The model.
    Assistant,
    /// A tool's result.
    Tool,
}

/// A tool as a model is told of it.
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

/// A call that a model asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id under which it expects the result; may be empty.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as the model wrote them: JSON, it is hoped.
    pub arguments: String,
    /// What the call had besides, such as a signature of the thought behind it; sent back as it came. What stood beside
    /// name and arguments is in an object under `function`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub fields: Map<String, Value>,
}

impl ToolCall {
    /// A call with nothing besides.
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

/// What a model said.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Reply {
    /// Its text; empty where it only calls tools.
    pub text: String,
    /// Its calls.
    pub tool_calls: Vec<ToolCall>,
    /// What its message had besides, under the service's names: `reasoning_content`, `reasoning`, `thinking_blocks`.
    /// It is recorded and goes with the message into later requests, which some services refuse without it.
    pub fields: Map<String, Value>,
    /// The tokens it reports; `None` where it does not, and the engine then estimates.
    pub usage: Option<Usage>,
    /// What it cost in US dollars, where it says so.
    pub cost_usd: Option<f64>,
    /// Why it ended, in the provider's word: `stop`, `length`, `tool_calls`.
    pub finish_reason: Option<String>,
    /// The model that answered, where it differs from the one that was asked.
    pub model: Option<String>,
    /// How many times it was asked until it answered.
    pub attempts: u32,
    /// The tokens of attempts before that gave no reply, as of [`ModelError::usage`]; not a part of `usage`.
    pub wasted: Usage,
}

impl Reply {
    /// A reply of text alone.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            attempts: 1,
            ..Self::default()
        }
    }

    /// A reply that calls tools.
    pub fn calls(calls: impl IntoIterator<Item = ToolCall>) -> Self {
        Self {
            tool_calls: calls.into_iter().collect(),
            attempts: 1,
            ..Self::default()
        }
    }

    /// The reply as a message of the conversation.
    pub(crate) fn message(&self) -> Message {
        let (tool_calls, fields) = (self.tool_calls.clone(), self.fields.clone());
        Message {
            tool_calls,
            fields,
            ..Message::assistant(&*self.text)
        }
    }

    /// Adds text beside calls.
    #[must_use]
    pub fn saying(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }

    /// Adds a field that its message has besides.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.fields.insert(name.into(), value.into());
        self
    }

    /// Says why it ended, in the provider's word.
    #[must_use]
    pub fn finished(mut self, reason: impl Into<String>) -> Self {
        self.finish_reason = Some(reason.into());
        self
    }

    /// Says what it cost in US dollars.
    #[must_use]
    pub fn cost(mut self, usd: f64) -> Self {
        self.cost_usd = Some(usd);
        self
    }

    /// Says how many tokens it took.
    #[must_use]
    pub fn usage(mut self, input: u64, output: u64) -> Self {
        self.usage = Some(Usage::reported(input, output));
        self
    }
}

/// Why a model did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelError {
    /// What kind of failure.
    pub kind: ModelErrorKind,
    /// What happened, without any secret.
    pub message: String,
    /// How many times it was asked.
    pub attempts: u32,
    /// How long the provider asks to wait, where it says so.
    pub retry_after: Option<Duration>,
    /// The tokens that were taken all the same: as the provider says, or estimated from what was sent and what came; none
    /// where the requests were refused or reached nobody.
    pub usage: Usage,
}

/// Kinds of failure of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// It may go better next time: overload, a lost connection, a cut answer.
    Transient,
    /// The request does not fit into the context window.
    Overflow,
    /// The answer holds neither text nor calls.
    Empty,
    /// It was asked as often, or for as long, as it may be; nobody asks it again.
    GivenUp,
    /// It will not go better: no access, no such model, a refused request.
    Fatal,
}

impl ModelError {
    /// A failure of one call.
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

/// A model that answers from a list, for tests and documentation.
#[derive(Debug)]
pub struct Scripted {
    replies: Mutex<VecDeque<Result<Reply, ModelError>>>,
}

impl Scripted {
    /// Gives these replies in order, then fails.
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::with_failures(replies.into_iter().map(Ok))
    }

    /// Gives these replies and failures in order, then fails.
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
