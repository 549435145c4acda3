//! Calls models over OpenAI-compatible endpoints. Retries temporary failures, within limits on
//! attempts and time.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;
use tokio::time::timeout;

use super::endpoint::Endpoint;
use super::http::{Enough, Http, Response, TOO_LONG};
use super::retry::retry_after;
use super::secret::{Pieces, Secret};
use super::surrogate::mended;
use super::wire::{self, Answer, Complaint};
use crate::engine::{ChatModel, ModelError, ModelErrorKind, Reply, Request};
use crate::error::{Error, Kind, Result};
use crate::stop::Usage;
use crate::wire::is_unreached;

/// Maximum length of a server's error message, in bytes.
const MAX_MESSAGE_BYTES: usize = 500;

/// Waits between attempts. Tests replace it.
type Sleep = Box<dyn Fn(Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// A [`ChatModel`] behind an OpenAI-compatible endpoint.
///
/// ```no_run
/// use trace_board::llm::{Client, Endpoint};
///
/// # fn main() -> trace_board::Result<()> {
/// // The model, its server and the key come from environment variables.
/// let model = Client::from_env()?;
///
/// // A server that needs no key.
/// let model = Client::openai("http://127.0.0.1:8080/v1", "qwen3-coder")?;
///
/// // All settings of an `Endpoint`.
/// let endpoint = Endpoint::from_env()?.setting("temperature", 0.2).context_window(32_768);
/// let model = Client::new(endpoint)?;
/// # Ok(())
/// # }
/// ```
///
/// A client retries temporary failures, and sends nothing before the first request. It runs on a
/// tokio runtime with I/O and the timer enabled.
pub struct Client {
    endpoint: Endpoint,
    http: Http,
    sleep: Sleep,
    /// Number of waits so far. Each wait uses a different random value.
    waits: AtomicU64,
    /// Number of tool calls that came without an id.
    nameless: AtomicU64,
    /// Whether the service refused the additional fields of earlier replies.
    refuses_fields: AtomicBool,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

/// Why one attempt failed.
#[derive(Debug)]
struct Failure {
    kind: ModelErrorKind,
    message: String,
    retry_after: Option<Duration>,
    /// Tokens used before the reply was interrupted.
    usage: Usage,
    /// Whether the server refused the request or wasn't reached. If no reply began, such an attempt
    /// used no tokens.
    is_refusal: bool,
}

impl Failure {
    fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retry_after: None,
            usage: Usage::default(),
            is_refusal: false,
        }
    }

    fn transient(message: impl Into<String>) -> Self {
        Self::new(ModelErrorKind::Transient, message)
    }
}

impl Client {
    /// Creates a client for a model below `base_url`, without a key and with the defaults of
    /// [`Endpoint::new`].
    ///
    /// # Errors
    /// Fails like [`Client::new`].
    pub fn openai(base_url: impl Into<String>, model: impl Into<String>) -> Result<Self> {
        Self::new(Endpoint::new(base_url, model))
    }

    /// Creates a client from environment variables; see [`Endpoint::from_env`].
    ///
    /// # Errors
    /// Fails if a variable is missing, and like [`Client::new`].
    pub fn from_env() -> Result<Self> {
        Self::new(Endpoint::from_env()?)
    }

    /// Creates a client.
    ///
    /// # Errors
    /// Fails if the address is invalid, the key contains characters that a header can't, or the
    /// system has no certificates.
    pub fn new(endpoint: Endpoint) -> Result<Self> {
        Self::sleeping(
            endpoint,
            Box::new(|wait| Box::pin(tokio::time::sleep(wait))),
        )
    }

    pub(super) fn sleeping(endpoint: Endpoint, sleep: Sleep) -> Result<Self> {
        let authorization = endpoint.key.header().map_err(|error| {
            Error::new(
                Kind::Usage,
                "the key contains characters that a header can't contain",
            )
            .because(error)
        })?;
        let http = Http::new(
            &endpoint.base_url,
            "/chat/completions",
            authorization,
            endpoint.timeouts.connect,
        )?;
        Ok(Self {
            endpoint,
            http,
            sleep,
            waits: AtomicU64::new(0),
            nameless: AtomicU64::new(0),
            refuses_fields: AtomicBool::new(false),
        })
    }

    async fn attempt(
        &self,
        body: &Bytes,
        on_text: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Answer, Failure> {
        let timeouts = self.endpoint.timeouts;
        let late = |what: &str, limit: Duration| {
            Failure::transient(format!("{what} within {} ms", limit.as_millis()))
        };
        let mut answer = Answer::default();
        let asking = async {
            let posted = timeout(timeouts.first_byte, self.http.post(body)).await;
            let posted = posted.map_err(|_| late("the reply didn't start", timeouts.first_byte))?;
            let response = posted.map_err(|lost| Failure {
                is_refusal: is_unreached(&lost),
                ..Failure::transient(lost)
            })?;
            let status = response.status;
            if !status.is_success() {
                let mut failure = refused(response).await;
                if status == StatusCode::UNAUTHORIZED && !self.endpoint.key.is_some() {
                    failure.message.push_str(" (no API key was sent)");
                }
                return Err(failure);
            }
            match response.is_stream() {
                true => self.streamed(response, &mut answer, on_text).await,
                false => whole(response, &mut answer, &self.endpoint.key, on_text).await,
            }
        };
        let asked = timeout(timeouts.whole, asking).await;
        match asked.unwrap_or_else(|_| Err(late("the reply wasn't complete", timeouts.whole))) {
            // This includes a reply without text and calls: the caller judges it, and its tokens
            // count.
            Ok(()) => Ok(answer),
            Err(failure) => Err(Failure {
                usage: answer.spent(body.len(), failure.is_refusal),
                ..failure
            }),
        }
    }

    async fn streamed(
        &self,
        response: Response,
        answer: &mut Answer,
        on_text: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<(), Failure> {
        let mut wrong = None;
        let mut done = false;
        let mut scrubber = Pieces::new(&self.endpoint.key);
        let take = |data: &str| {
            if data.trim() == "[DONE]" {
                done = true;
                return Enough::Yes;
            }
            match json(data.as_bytes()) {
                Ok(piece) => match Complaint::find(&piece) {
                    Some(complaint) => wrong = Some(complained(&complaint, StatusCode::OK)),
                    None => scrubber.push(&answer.take(&piece), on_text),
                },
                Err(error) => {
                    wrong = Some(Failure::transient(format!(
                        "part of the reply isn't JSON: {error}"
                    )))
                }
            }
            if wrong.is_some() {
                Enough::Yes
            } else {
                Enough::No
            }
        };
        let ended = response.events(take).await;
        scrubber.end(on_text);
        if let Some(failure) = wrong {
            return Err(failure);
        }
        // Some servers omit `[DONE]` and others the finish reason. A reply without both was
        // interrupted.
        if !done && answer.finish_reason.is_none() {
            return Err(ended.err().map_or_else(
                || Failure::transient("the reply ended early"),
                |error| torn(&error),
            ));
        }
        Ok(())
    }

    /// Returns whether to send back the additional fields of earlier replies. Follows the setting.
    /// Without one, sends them unless the service refused them.
    fn sends_fields(&self) -> bool {
        self.endpoint
            .send_fields
            .unwrap_or_else(|| !self.refuses_fields.load(Ordering::Relaxed))
    }

    fn body(&self, request: &Request, with_fields: bool) -> Bytes {
        let Endpoint {
            model,
            stream,
            settings,
            ..
        } = &self.endpoint;
        Bytes::from(wire::request(
            model,
            *stream,
            settings,
            request,
            with_fields,
        ))
    }

    /// Returns the message for display: on one line, truncated, and without the key.
    fn readable(&self, message: &str) -> String {
        let scrubbed = self.endpoint.key.scrub(message);
        let line = scrubbed.split_whitespace().collect::<Vec<_>>().join(" ");
        match line
            .char_indices()
            .map(|(at, letter)| at + letter.len_utf8())
            .take_while(|end| *end <= MAX_MESSAGE_BYTES)
            .last()
        {
            Some(end) if end < line.len() => format!("{}...", line.get(..end).unwrap_or_default()),
            _ => line,
        }
    }

    /// Removes the key from a reply, since servers and proxies have been seen to echo headers. Also
    /// gives every tool call an id: the result is sent back under that id, and services refuse a
    /// call without a result.
    fn cleaned(&self, mut reply: Reply) -> Reply {
        let key = &self.endpoint.key;
        reply.text = key.scrub(&reply.text).into_owned();
        for call in &mut reply.tool_calls {
            if call.id.is_empty() {
                call.id = format!("call_{}", self.nameless.fetch_add(1, Ordering::Relaxed));
            }
            for text in [&mut call.id, &mut call.name, &mut call.arguments] {
                *text = key.scrub(text).into_owned();
            }
        }
        for fields in reply
            .tool_calls
            .iter_mut()
            .map(|call| &mut call.fields)
            .chain([&mut reply.fields])
        {
            if let Value::Object(scrubbed) = key.scrub_value(Value::Object(std::mem::take(fields)))
            {
                *fields = scrubbed;
            }
        }
        for text in [&mut reply.finish_reason, &mut reply.model]
            .into_iter()
            .flatten()
        {
            *text = key.scrub(text).into_owned();
        }
        reply
    }
}

impl ChatModel for Client {
    fn name(&self) -> &str {
        &self.endpoint.model
    }

    fn context_window(&self) -> Option<u64> {
        self.endpoint.context_window
    }

    async fn complete(
        &self,
        request: &Request,
        on_text: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Reply, ModelError> {
        let retry = &self.endpoint.retry;
        let mut with_fields = self.sends_fields();
        let mut body = self.body(request, with_fields);
        let mut wasted = Usage::default();
        // Covers all attempts and waits. The lengths of waits are added, not measured.
        let mut spent = Duration::ZERO;
        let mut attempts = 1;
        loop {
            let begun = Instant::now();
            let failure = match self.attempt(&body, on_text).await {
                Ok(answer) => {
                    if !with_fields && self.endpoint.send_fields.is_none() {
                        self.refuses_fields.store(true, Ordering::Relaxed);
                    }
                    return Ok(Reply {
                        wasted,
                        ..self.cleaned(answer.reply(attempts))
                    });
                }
                Err(failure) => failure,
            };
            wasted = wasted.plus(failure.usage);
            // Some services refuse a request without earlier reasoning, others one with it. The
            // error message tells which.
            if with_fields
                && self.endpoint.send_fields.is_none()
                && names_a_field(&failure, request)
            {
                tracing::debug!(
                    "retrying without the fields of earlier replies, which the service refused"
                );
                with_fields = false;
                body = self.body(request, with_fields);
                attempts += 1;
                spent = spent.saturating_add(begun.elapsed());
                continue;
            }
            let message = self.readable(&format!("{}: {}", self.http.server(), failure.message));
            let mut error = ModelError {
                kind: failure.kind,
                message,
                attempts,
                retry_after: failure.retry_after,
                usage: wasted,
            };
            // Other errors won't go away. An empty reply is left to the engine.
            if failure.kind != ModelErrorKind::Transient {
                return Err(error);
            }
            error.kind = ModelErrorKind::GivenUp;
            if attempts > retry.retries {
                error.message.push_str(&times(attempts));
                return Err(error);
            }
            let draw = self.waits.fetch_add(1, Ordering::Relaxed);
            let wait = failure
                .retry_after
                .unwrap_or_else(|| retry.wait(attempts, draw));
            spent = spent.saturating_add(begun.elapsed()).saturating_add(wait);
            let (limit, whose) = match request.time_left.filter(|left| *left < retry.total) {
                Some(left) => (left, "the run's remaining time".to_owned()),
                None => (
                    retry.total,
                    format!("the limit of {} s per reply", retry.total.as_secs_f64()),
                ),
            };
            if spent > limit {
                let asked = failure
                    .retry_after
                    .map(|wait| format!("; it says to retry after {} s", wait.as_secs_f64()));
                let (asked, times) = (asked.unwrap_or_default(), times(attempts));
                error.message.push_str(&format!(
                    "{asked}{times}. Another attempt would exceed {whose}"
                ));
                return Err(error);
            }
            tracing::debug!(
                "attempt {attempts} failed, retrying in {} ms: {error}",
                wait.as_millis()
            );
            (self.sleep)(wait).await;
            attempts += 1;
        }
    }
}

/// Describes the number of attempts, if there was more than one.
fn times(attempts: u32) -> String {
    if attempts > 1 {
        format!(" ({attempts} attempts)")
    } else {
        String::new()
    }
}

/// Parses JSON. Replaces lone surrogates, which some servers send and no Rust string can hold, with
/// U+FFFD.
fn json(bytes: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(bytes).or_else(|wrong| match mended(&String::from_utf8_lossy(bytes)) {
        Some(mended) => serde_json::from_str(&mended),
        None => Err(wrong),
    })
}

/// Returns whether a request was refused with a message that names an additional field of its
/// messages.
fn names_a_field(failure: &Failure, request: &Request) -> bool {
    let calls = request
        .messages
        .iter()
        .flat_map(|message| &message.tool_calls)
        .map(|call| &call.fields);
    let mut names = request
        .messages
        .iter()
        .map(|message| &message.fields)
        .chain(calls)
        .flat_map(|fields| fields.keys());
    failure.kind == ModelErrorKind::Fatal
        && names.any(|name| failure.message.contains(name.as_str()))
}

/// Reads a reply that isn't streamed.
async fn whole(
    response: Response,
    answer: &mut Answer,
    key: &Secret,
    on_text: &(dyn Fn(&str) + Send + Sync),
) -> Result<(), Failure> {
    let bytes = response.bytes().await.map_err(|error| torn(&error))?;
    let body = json(&bytes)
        .map_err(|error| Failure::transient(format!("the reply isn't JSON: {error}")))?;
    if let Some(complaint) = Complaint::find(&body) {
        return Err(complained(&complaint, StatusCode::OK));
    }
    let text = answer.take(&body);
    if !text.is_empty() {
        on_text(&key.scrub(&text));
    }
    Ok(())
}

/// Describes a reply that was interrupted. A reply that is too long isn't retried, because it would
/// be too long again.
fn torn(error: &str) -> Failure {
    match error.contains(TOO_LONG) {
        true => Failure::new(ModelErrorKind::Fatal, format!("the reply {TOO_LONG}")),
        false => Failure::transient(format!("the reply ended early: {error}")),
    }
}

/// Describes a server's refusal, and decides whether a retry may help.
async fn refused(response: Response) -> Failure {
    let status = response.status;
    let wait = response
        .header("retry-after")
        .and_then(|value| retry_after(value, response.header("date")));
    let body = response.bytes().await.unwrap_or_default();
    let complaint = serde_json::from_slice(&body)
        .ok()
        .and_then(|body| Complaint::find(&body));
    let complaint = complaint.unwrap_or_else(|| {
        let message = String::from_utf8_lossy(&body).into_owned();
        Complaint {
            message,
            code: String::new(),
        }
    });
    Failure {
        retry_after: wait,
        ..complained(&complaint, status)
    }
}

fn complained(complaint: &Complaint, status: StatusCode) -> Failure {
    let busy = matches!(status.as_u16(), 408 | 409 | 429 | 500..=599);
    let kind = match status {
        _ if complaint.is_overflow() => ModelErrorKind::Overflow,
        // An error after a reply began successfully is the server's problem.
        StatusCode::OK => ModelErrorKind::Transient,
        StatusCode::PAYLOAD_TOO_LARGE => ModelErrorKind::Overflow,
        _ if busy => ModelErrorKind::Transient,
        _ => ModelErrorKind::Fatal,
    };
    let said = if complaint.message.trim().is_empty() {
        "no reason given"
    } else {
        complaint.message.trim()
    };
    let status = if status == StatusCode::OK {
        "error in the reply".to_owned()
    } else {
        format!("HTTP {status}")
    };
    Failure {
        is_refusal: true,
        ..Failure::new(kind, format!("{status}: {said}"))
    }
}
