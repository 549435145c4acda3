//! Defines what the pipe and HTTP transports share: how they read a server's messages, and the server's state.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use rmcp::model::{
    CancelledNotificationParam, CustomResult, ErrorCode, ErrorData, Implementation,
    InitializeResult, ProtocolVersion, RequestId, ServerCapabilities, ServerJsonRpcMessage,
    ServerNotification, ServerResult,
};
use rmcp::service::ClientInitializeError;
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use rmcp::{Peer, RoleClient, ServiceError};
use serde::Deserialize as _;
use serde_json::{Map, Value};
use tokio::task::unconstrained;

/// Maximum size of the kept end of a server's stderr, in bytes.
const WORDS: usize = 2_000;
/// Maximum length of the quote of an invalid answer in an error, in characters.
const QUOTE: usize = 300;
/// The error code of responses that board creates because the server didn't.
const GONE: ErrorCode = ErrorCode(i32::MIN);
const CLOSED: &str = "the connection is closed";

/// The reason why a request has no result.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Lost {
    /// The server answered with an error.
    Refused(ErrorData),
    /// The server didn't answer, or not as the protocol requires.
    Gone(String),
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lost::Refused(error) => write!(f, "{} (error {})", error.message, error.code.0),
            Lost::Gone(why) => f.write_str(why),
        }
    }
}

impl From<ErrorData> for Lost {
    fn from(error: ErrorData) -> Self {
        match error.code {
            GONE => Lost::Gone(error.message.into_owned()),
            _ => Lost::Refused(error),
        }
    }
}

/// Returns the beginning of an invalid answer, for an error.
pub(super) fn quote(text: &str) -> String {
    text.chars().take(QUOTE).collect()
}

/// The state of a server, apart from its messages.
#[derive(Debug, Default)]
pub(super) struct Status {
    /// The number of times that the server said that its list of tools changed.
    changes: AtomicU64,
    /// The ids of requests without a response. Only a pipe notes them.
    open: Mutex<HashSet<RequestId>>,
    words: Mutex<VecDeque<u8>>,
    ended: Mutex<Option<String>>,
}

impl Status {
    /// Reads a message. Returns `None` for anything else, since some programs print other things too.
    pub(super) fn read(&self, text: &[u8]) -> Option<ServerJsonRpcMessage> {
        let mut fields = serde_json::from_slice(text).ok()?;
        let message = call_result(&mut fields)
            .or_else(|| ServerJsonRpcMessage::deserialize(&fields).ok())
            .or_else(|| tolerated(fields))?;
        let message = handshake(message);
        match &message {
            // Noted here and not in a handler, so that it is known before the responses that follow.
            ServerJsonRpcMessage::Notification(notification) => {
                if let ServerNotification::ToolListChangedNotification(_) =
                    notification.notification
                {
                    self.changes.fetch_add(1, Ordering::Relaxed);
                }
            }
            ServerJsonRpcMessage::Response(response) => self.closes(&response.id),
            ServerJsonRpcMessage::Error(error) => {
                error.id.iter().for_each(|id| self.closes(id));
            }
            ServerJsonRpcMessage::Request(_) => {}
        }
        Some(message)
    }

    /// Notes that a request waits for a response.
    pub(super) fn opens(&self, id: &RequestId) {
        lock(&self.open).insert(id.clone());
    }

    /// Notes that a request doesn't wait any more. Like the SDK, it accepts a number that is written as a string.
    pub(super) fn closes(&self, id: &RequestId) {
        let mut open = lock(&self.open);
        if let (false, RequestId::String(text)) = (open.remove(id), id)
            && let Ok(number) = text.parse()
        {
            open.remove(&RequestId::Number(number));
        }
    }

    #[cfg(test)]
    pub(super) fn open(&self) -> usize {
        lock(&self.open).len()
    }

    /// Returns error responses to all open requests.
    pub(super) fn fail_all(&self, why: &str) -> Vec<ServerJsonRpcMessage> {
        let error = ErrorData::new(GONE, why.to_owned(), None);
        let ids = std::mem::take(&mut *lock(&self.open));
        ids.into_iter()
            .map(|id| ServerJsonRpcMessage::error(error.clone(), Some(id)))
            .collect()
    }

    /// Returns how often the list of tools changed.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    pub(super) fn keep_words(&self, piece: &[u8]) {
        let mut words = lock(&self.words);
        words.extend(piece);
        let over = words.len().saturating_sub(WORDS);
        words.drain(..over);
    }

    /// Returns the end of what the server wrote to stderr.
    pub(super) fn last_words(&self) -> String {
        String::from_utf8_lossy(lock(&self.words).make_contiguous()).into_owned()
    }

    pub(super) fn end(&self, why: String) {
        *lock(&self.ended) = Some(why);
    }

    /// Returns how the server ended, or `otherwise` if that isn't known.
    fn ended(&self, otherwise: &str) -> Lost {
        let why = lock(&self.ended).clone();
        Lost::Gone(why.unwrap_or_else(|| otherwise.to_owned()))
    }

    /// Returns why a request failed.
    pub(super) fn lost(&self, error: ServiceError) -> Lost {
        match error {
            ServiceError::McpError(error) => error.into(),
            ServiceError::TransportSend(error) => self.ended(&reason(&error)),
            ServiceError::TransportClosed => self.ended(CLOSED),
            other => Lost::Gone(other.to_string()),
        }
    }

    /// Returns why a server couldn't be started.
    pub(super) fn not_begun(&self, error: ClientInitializeError) -> Lost {
        match error {
            ClientInitializeError::JsonRpcError(error) => error.into(),
            ClientInitializeError::TransportError { error, .. } => self.ended(&reason(&error)),
            ClientInitializeError::ConnectionClosed(_) => self.ended(CLOSED),
            ClientInitializeError::ExpectedInitResult(Some(result)) => {
                let result = serde_json::to_string(&result).unwrap_or_default();
                Lost::Gone(format!(
                    "its response isn't a valid handshake: {}",
                    quote(&result)
                ))
            }
            other => Lost::Gone(other.to_string()),
        }
    }
}

/// Returns why a message couldn't be sent.
fn reason(error: &DynamicTransportError) -> String {
    match error.error.downcast_ref::<StreamableHttpError<io::Error>>() {
        Some(StreamableHttpError::Client(why)) => why.to_string(),
        _ => error.error.to_string(),
    }
}

/// Reads a response to a call, and keeps its result as it is. The SDK's types drop unknown fields and round numbers.
fn call_result(fields: &mut Map<String, Value>) -> Option<ServerJsonRpcMessage> {
    let has_error = fields.get("error").is_some_and(|error| !error.is_null());
    if fields.get("jsonrpc")? != "2.0" || fields.contains_key("method") || has_error {
        return None;
    }
    fields.get("result")?.get("content")?;
    let id = RequestId::deserialize(fields.get("id")?).ok()?;
    let result = CustomResult(fields.remove("result")?);
    Some(ServerJsonRpcMessage::response(result.into(), id))
}

/// Reads the result of a handshake where the SDK can't because a part is missing or invalid. board only uses the version.
fn handshake(mut message: ServerJsonRpcMessage) -> ServerJsonRpcMessage {
    if let ServerJsonRpcMessage::Response(response) = &mut message
        && let ServerResult::CustomResult(CustomResult(result)) = &response.result
        && let Some(version) = result.get("protocolVersion")
        && let Ok(version) = ProtocolVersion::deserialize(version)
    {
        let result = InitializeResult::new(ServerCapabilities::default())
            .with_server_info(Implementation::new("unknown", "unknown"))
            .with_protocol_version(version);
        response.result = result.into();
    }
    message
}

/// Reads a message that the SDK doesn't: a response with both a result and an error that is null, or with an error of
/// another shape, and a request or notification whose `params` aren't an object.
fn tolerated(mut fields: Map<String, Value>) -> Option<ServerJsonRpcMessage> {
    let Some(error) = fields.remove("error") else {
        // Without them, a request is answered or refused. The server would wait for that forever.
        fields.remove("params")?;
        return serde_json::from_value(fields.into()).ok();
    };
    if error.is_null() {
        return serde_json::from_value(fields.into()).ok();
    }
    let id = serde_json::from_value(fields.remove("id")?).ok()?;
    let code = error.get("code").and_then(Value::as_i64);
    let code = code.and_then(|code| i32::try_from(code).ok());
    let words = error.get("message").and_then(Value::as_str);
    let error = ErrorData::new(
        code.map_or(ErrorCode::INTERNAL_ERROR, ErrorCode),
        words.map_or_else(|| error.to_string(), str::to_owned),
        None,
    );
    Some(ServerJsonRpcMessage::error(error, Some(id)))
}

/// Sends `notifications/cancelled` when it is dropped before the answer arrived.
pub(super) struct Waiting<'a> {
    pub(super) peer: &'a Peer<RoleClient>,
    /// The request's id, or `None` once the request is answered.
    pub(super) id: Option<RequestId>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            let reason = "the call timed out".to_owned();
            let cancelled = CancelledNotificationParam::new(Some(id), Some(reason));
            // The first poll queues the notification, if the queue has room. `drop` can't wait for more. The task may have used
            // up its budget, so the poll must not depend on that.
            let mut queued = pin!(unconstrained(self.peer.notify_cancelled(cancelled)));
            let _ = queued
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()));
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
