//! Sends a trace to a receiver with OTLP over HTTP and JSON, in batches no larger than receivers
//! accept.

use std::cell::RefCell;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::error::{Error, Kind, Result};
use crate::page::export::otlp::Trace;
use crate::wire::Wire;

/// The batch size. Collectors accept 20 MiB, but some gateways in front of them only 4.
const BATCH_BYTES: usize = 2 << 20;
/// The maximum number of bytes read of a response.
const MAX_ANSWER_BYTES: usize = 64 << 10;
const CONNECT: Duration = Duration::from_secs(10);
const ANSWER: Duration = Duration::from_secs(30);
/// The default path of trace receivers.
const PATH: &str = "/v1/traces";
/// The variable with headers that a receiver requires, such as a key.
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// A receiver of traces.
pub(super) struct Receiver {
    uri: Uri,
    headers: HeaderMap,
    wire: Wire,
    runtime: Runtime,
}

/// Statistics of what was sent.
#[derive(Default)]
pub(super) struct Sent {
    pub(super) spans: usize,
    pub(super) bytes: u64,
    pub(super) trace: String,
}

impl Receiver {
    /// Creates a receiver for `url`.
    ///
    /// # Errors
    /// The address is invalid, the variable with headers can't be parsed, or the system has no
    /// certificates.
    pub(super) fn new(url: &str) -> Result<Self> {
        let wrong = || {
            Error::new(
                Kind::Usage,
                format!("{url} isn't a valid address for sending traces"),
            )
        };
        let uri: Uri = url.parse().map_err(|error| wrong().because(error))?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(wrong());
        };
        if authority.as_str().contains('@') {
            return Err(wrong().hint(format!("put the user name and password into {HEADERS}")));
        }
        let is_tls = scheme == "https";
        let uri = match uri.path() {
            "" | "/" => format!("{scheme}://{authority}{PATH}")
                .parse()
                .map_err(|error| wrong().because(error))?,
            _ => uri,
        };
        let headers = headers(&std::env::var(HEADERS).unwrap_or_default())?;
        // Requests are sent one after another, so a separate thread would be idle.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime
            .map_err(|error| Error::new(Kind::Bug, "can't start the runtime").because(error))?;
        let wire = {
            let _inside = runtime.enter();
            Wire::new(is_tls, CONNECT, ANSWER)?
        };
        Ok(Self {
            uri,
            headers,
            wire,
            runtime,
        })
    }

    /// Returns the receiver's host and port, without anything that may be secret.
    pub(super) fn name(&self) -> &str {
        self.uri
            .authority()
            .map_or("the receiver", |authority| authority.as_str())
    }

    /// Sends all spans.
    ///
    /// # Errors
    /// The receiver doesn't accept them.
    pub(super) fn send(&self, trace: &Trace<'_>) -> Result<Sent> {
        let (before, after) = trace.around();
        let mut sent = Sent {
            trace: trace.id().to_owned(),
            ..Sent::default()
        };
        let mut batch = String::new();
        let refused = RefCell::new(None);
        let mut flush = |batch: &mut String| -> io::Result<()> {
            let body = Bytes::from(format!("{before}{batch}{after}"));
            batch.clear();
            sent.bytes += body.len() as u64;
            self.runtime.block_on(self.post(body)).map_err(|error| {
                *refused.borrow_mut() = Some(error);
                io::Error::other("not accepted")
            })
        };
        let mut spans = 0;
        let all = trace.spans(&mut |span| {
            if !batch.is_empty() && batch.len() + span.len() > BATCH_BYTES {
                flush(&mut batch)?;
            }
            if !batch.is_empty() {
                batch.push(',');
            }
            batch.push_str(&span);
            spans += 1;
            Ok(())
        });
        let all = all.and_then(|()| flush(&mut batch));
        sent.spans = spans;
        match (all, refused.into_inner()) {
            (_, Some(error)) => Err(error),
            (Err(error), None) => {
                Err(Error::new(Kind::Bug, "can't build the trace").because(error))
            }
            (Ok(()), None) => Ok(sent),
        }
    }

    async fn post(&self, body: Bytes) -> Result<()> {
        let failed = |why: String| {
            Error::new(
                Kind::Unreadable,
                format!("can't send the trace to {}: {why}", self.name()),
            )
            .hint("it is safe to send it again: the ids stay the same")
        };
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        request
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let late = || failed(format!("no response within {} s", ANSWER.as_secs()));
        let (head, body) = timeout(ANSWER, self.wire.send(request))
            .await
            .map_err(|_| late())?
            .map_err(failed)?
            .into_parts();
        let read = timeout(ANSWER, Limited::new(body, MAX_ANSWER_BYTES).collect())
            .await
            .map_err(|_| late())?;
        let said = read.map(|said| said.to_bytes()).unwrap_or_default();
        if !head.status.is_success() {
            let said = String::from_utf8_lossy(&said);
            let said: String = said.trim().chars().take(200).collect();
            let hint = match head.status.as_u16() {
                401 | 403 => format!("put the key into {HEADERS}"),
                404 | 405 => {
                    format!("receivers usually listen at {PATH}, which is used if the address has no path")
                }
                415 => {
                    "it may accept only protobuf; a collector in between accepts JSON and forwards it"
                        .to_owned()
                }
                _ => return Err(failed(format!("{}: {said}", head.status))),
            };
            return Err(failed(format!("{}: {said}", head.status)).hint(hint));
        }
        // A receiver may accept only some spans and still report success.
        let answer: Value = serde_json::from_slice(&said).unwrap_or_default();
        let partly = answer.get("partialSuccess").unwrap_or(&Value::Null);
        let rejected = match partly.get("rejectedSpans") {
            Some(Value::String(count)) => count.parse().unwrap_or(1),
            Some(count) => count.as_u64().unwrap_or_default(),
            None => 0,
        };
        if rejected > 0 {
            let why = partly
                .get("errorMessage")
                .and_then(Value::as_str)
                .unwrap_or_default();
            return Err(failed(format!("{rejected} spans were rejected: {why}")));
        }
        Ok(())
    }
}

/// Parses `name=value,name=value`, with percent-encoded values.
fn headers(text: &str) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for pair in text
        .split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty())
    {
        // Error messages repeat neither name nor value, since they may be a key.
        let wrong = || {
            Error::new(Kind::Usage, format!("can't parse {HEADERS}"))
                .hint("the format is name=value,name=value")
        };
        let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
        let value = percent_encoding::percent_decode_str(value.trim())
            .decode_utf8()
            .map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(&value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(
            HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| wrong())?,
            value,
        );
    }
    Ok(headers)
}
