//! Carries messages between the client's stream and the SDK.
//!
//! The SDK's own transport drops lines that are too long or aren't JSON. It supports no batches and doesn't limit the
//! requests in flight. After the end of the input it allows five seconds for the remaining answers. This one answers bad
//! lines with an error, stops at the next request while [`MAX_OPEN`] are in flight, and ends when all are answered.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage,
};
use serde_json::{Value, json};
use tokio::io::AsyncRead;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::lines::{Lines, TooLong};

/// Where a request names its protocol version, as a JSON pointer.
const VERSION: &str = "/params/_meta/io.modelcontextprotocol~1protocolVersion";
const LATEST: &str = "2026-07-28";
/// The longest message, in bytes.
pub(super) const MAX_MESSAGE: usize = 4 << 20;
/// How many requests may be in flight: unanswered, or answered and not written yet.
pub(super) const MAX_OPEN: usize = 32;

/// A line to write: an answer, or the answers to a batch.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) text: String,
    /// Released once the line is written.
    _permits: Vec<OwnedSemaphorePermit>,
}

/// Reads messages from `R` and sends replies to a channel.
pub(super) struct Transport<R> {
    lines: Lines<R>,
    /// Messages that were read but not handled yet. Requests have a place for their answer.
    messages: VecDeque<(ClientJsonRpcMessage, Option<Place>)>,
    /// Error responses that weren't sent yet.
    refusals: VecDeque<Reply>,
    permits: Arc<Semaphore>,
    /// The requests that the SDK has, by the ids that it knows them by.
    pending: Arc<Mutex<HashMap<RequestId, (Place, OwnedSemaphorePermit)>>>,
    /// How many requests the SDK got. Each has its own id there: a client may use the id of a cancelled request again
    /// before the SDK is done with that one.
    admitted: i64,
    replies: mpsc::Sender<Reply>,
}

/// The answers to a line. In protocol version 2025-03-26 it may be a batch: a list, which is answered by a list.
#[derive(Default)]
struct Answers {
    /// In the order of the messages. `null` until the request is answered.
    list: Vec<Value>,
    missing: usize,
    is_batch: bool,
    permits: Vec<OwnedSemaphorePermit>,
}

/// Where an answer belongs.
struct Place {
    /// The id that the client gave the request.
    id: RequestId,
    answers: Arc<Mutex<Answers>>,
    index: usize,
}

impl Answers {
    fn reply(&mut self) -> Reply {
        let mut list = std::mem::take(&mut self.list);
        let value = match self.is_batch {
            true => list.into(),
            false => list.pop().unwrap_or_default(),
        };
        Reply {
            text: value.to_string(),
            _permits: std::mem::take(&mut self.permits),
        }
    }
}

impl Place {
    /// Stores the answer. Returns the reply to the line once it has all answers.
    fn fill(self, answer: Value, permit: OwnedSemaphorePermit) -> Option<Reply> {
        let mut answers = lock(&self.answers);
        answers.permits.push(permit);
        *answers.list.get_mut(self.index)? = answer;
        answers.missing -= 1;
        (answers.missing == 0).then(|| answers.reply())
    }
}

impl<R: AsyncRead + Unpin> Transport<R> {
    /// Creates a transport, and the channel for its replies. The channel closes when the SDK is done.
    pub(super) fn new(input: R) -> (Self, mpsc::Receiver<Reply>) {
        let (replies, receiver) = mpsc::channel(1);
        let transport = Self {
            lines: Lines::new(input, MAX_MESSAGE),
            messages: VecDeque::new(),
            refusals: VecDeque::new(),
            permits: Arc::new(Semaphore::new(MAX_OPEN)),
            pending: Arc::default(),
            admitted: 0,
            replies,
        };
        (transport, receiver)
    }

    /// Queues the messages of a line, and the errors about them.
    fn read(&mut self, line: Result<Vec<u8>, TooLong>) {
        let mut answers = Answers::default();
        let values = match line.map(|line| serde_json::from_slice(&line)) {
            Ok(Ok(Value::Array(list))) if (1..=MAX_OPEN).contains(&list.len()) => {
                answers.is_batch = true;
                Ok(list)
            }
            Ok(Ok(Value::Array(_))) => {
                let why = format!("a batch has 1 to {MAX_OPEN} messages");
                Err(ErrorData::invalid_request(why, None))
            }
            Ok(Ok(value)) => Ok(vec![value]),
            Ok(Err(error)) => {
                let why = format!("this line isn't JSON: {error}");
                Err(ErrorData::parse_error(why, None))
            }
            Err(TooLong) => {
                let why =
                    format!("a message has at most {MAX_MESSAGE} bytes, and this line has more");
                Err(ErrorData::parse_error(why, None))
            }
        };
        let read = match values {
            Ok(values) => values.into_iter().filter_map(message).collect(),
            Err(error) => vec![Err(refusal(None, &error))],
        };
        let mut messages = Vec::new();
        for message in read {
            match message {
                Ok(ClientJsonRpcMessage::Request(request)) => {
                    let place = (request.id.clone(), answers.list.len());
                    messages.push((ClientJsonRpcMessage::Request(request), Some(place)));
                    answers.list.push(Value::Null);
                    answers.missing += 1;
                }
                Ok(message) => messages.push((message, None)),
                Err(refusal) => answers.list.push(refusal),
            }
        }
        if answers.missing == 0 && !answers.list.is_empty() {
            self.refusals.push_back(answers.reply());
        }
        let answers = Arc::new(Mutex::new(answers));
        let messages = messages.into_iter().map(|(message, place)| {
            let place = place.map(|(id, index)| Place {
                id,
                answers: Arc::clone(&answers),
                index,
            });
            (message, place)
        });
        self.messages.extend(messages);
    }

    /// Returns the message, with the SDK's ids, if it is for the SDK.
    fn admit(
        &mut self,
        mut message: ClientJsonRpcMessage,
        place: Option<(Place, OwnedSemaphorePermit)>,
    ) -> Option<ClientJsonRpcMessage> {
        let mut pending = lock(&self.pending);
        let open = |id: &RequestId| {
            let mut all = pending.iter();
            let found = all.find(|(_, (place, _))| place.id == *id);
            found.map(|(own, (place, _))| (own.clone(), lock(&place.answers).is_batch))
        };
        match (&mut message, place) {
            (ClientJsonRpcMessage::Request(request), Some((place, permit))) => {
                if open(&place.id).is_some() {
                    let why = "a request with this id isn't answered yet";
                    let error = refusal(Some(&place.id), &ErrorData::invalid_request(why, None));
                    self.refusals.extend(place.fill(error, permit));
                    return None;
                }
                request.id = RequestId::Number(self.admitted);
                self.admitted += 1;
                pending.insert(request.id.clone(), (place, permit));
            }
            (ClientJsonRpcMessage::Notification(notification), _) => {
                // The SDK won't answer a cancelled request. A batch is answered whole, so its requests can't be cancelled.
                if let ClientNotification::CancelledNotification(cancelled) =
                    &mut notification.notification
                {
                    let id = cancelled.params.request_id.as_mut()?;
                    let (own, is_batch) = open(id)?;
                    if is_batch {
                        return None;
                    }
                    pending.remove(&own);
                    *id = own;
                }
            }
            _ => {}
        }
        Some(message)
    }
}

impl<R: AsyncRead + Unpin + Send> rmcp::transport::Transport<RoleServer> for Transport<R> {
    type Error = Infallible;

    fn send(
        &mut self,
        mut message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        let id = match &mut message {
            ServerJsonRpcMessage::Response(response) => Some(&mut response.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_mut(),
            ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => None,
        };
        let request = id.and_then(|id| {
            let request = lock(&self.pending).remove(id)?;
            id.clone_from(&request.0.id);
            Some(request)
        });
        let reply = request.and_then(|(place, permit)| {
            // Through a value, which sorts the keys.
            place.fill(serde_json::to_value(&message).unwrap_or_default(), permit)
        });
        let replies = self.replies.clone();
        async move {
            if let Some(reply) = reply {
                // The channel closes early when a reply couldn't be written.
                let _ = replies.send(reply).await;
            }
            Ok(())
        }
    }

    /// Returns the next message. Dropping the future loses nothing: what was read stays queued until it is handled.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if !self.refusals.is_empty() {
                let room = self.replies.reserve().await.ok()?;
                room.send(self.refusals.pop_front()?);
            } else if self.messages.is_empty() {
                let Some(line) = self.lines.next().await else {
                    // All permits are free once all answers are written.
                    let _ = self.permits.acquire_many(MAX_OPEN as u32).await;
                    return None;
                };
                self.read(line);
            } else {
                let is_request = matches!(self.messages.front(), Some((_, Some(_))));
                let permit = match is_request {
                    true => Some(Arc::clone(&self.permits).acquire_owned().await.ok()?),
                    // Not limited: one of them may cancel a request, which makes room.
                    false => None,
                };
                let (message, place) = self.messages.pop_front()?;
                if let Some(message) = self.admit(message, place.zip(permit)) {
                    return Some(message);
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// Reads a message, or returns the error response to it. Notifications have no response, so an invalid one is ignored.
fn message(value: Value) -> Option<Result<ClientJsonRpcMessage, Value>> {
    let id = value.get("id").cloned();
    let has_id = id.is_some();
    let id: Option<RequestId> = id.and_then(|id| serde_json::from_value(id).ok());
    // Requests of other versions don't name it. The SDK would accept them, and ignore a version that isn't a string.
    let version = value.pointer(VERSION);
    if let (Some(_), Some(version)) = (&id, version.filter(|version| **version != LATEST)) {
        let data = json!({ "requested": version, "supported": [LATEST] });
        let code = ErrorCode::UNSUPPORTED_PROTOCOL_VERSION;
        let error = ErrorData::new(code, "Unsupported protocol version", Some(data));
        return Some(Err(refusal(id.as_ref(), &error)));
    }
    let has_method = value.get("jsonrpc").is_some_and(|version| version == "2.0")
        && value.get("method").is_some_and(Value::is_string);
    if let Ok(message) = serde_json::from_value(value) {
        return Some(Ok(message));
    }
    let is_notification = has_method && !has_id;
    (!is_notification).then(|| {
        let why = "a message is an object with `jsonrpc` \"2.0\" and a `method`, a `result` or an `error`; \
            an id is a string or an integer";
        let error = match has_method && id.is_some() {
            true => ErrorData::invalid_params("`params` must be an object", None),
            false => ErrorData::invalid_request(why, None),
        };
        Err(refusal(id.as_ref(), &error))
    })
}

/// An error response. Its id is `null` if the request's couldn't be read.
fn refusal(id: Option<&RequestId>, error: &ErrorData) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": error })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
