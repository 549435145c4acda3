//! How does a request go out and its answer come back? One GET over HTTP/1.1, with TLS where the address says so.
//!
//! Knows nothing of stores. No redirect is followed: what signs a request is for one host alone.

use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::timeout;

use crate::error::{Error, Kind, Result};

/// A connection that was idle for longer is not used again.
const IDLE: Duration = Duration::from_secs(15);

/// How long is waited for what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    pub(super) connect: Duration,
    /// For the head of an answer.
    pub(super) head: Duration,
    /// For each further piece of its body.
    pub(super) piece: Duration,
}

/// What asks.
#[derive(Debug)]
pub(super) struct Http {
    client: Wire,
    patience: Patience,
}

/// With TLS or without; without it, nobody needs certificates to talk to a server on the same machine.
#[derive(Debug)]
enum Wire {
    Plain(Client<HttpConnector, Empty<Bytes>>),
    Tls(Client<HttpsConnector<HttpConnector>, Empty<Bytes>>),
}

/// The head of an answer, with its body still to come.
pub(super) struct Response {
    pub(super) status: StatusCode,
    headers: HeaderMap,
    body: UnsyncBoxBody<Bytes, String>,
    patience: Duration,
}

impl Http {
    /// Prepares to ask servers of this scheme.
    ///
    /// # Errors
    /// The system has no certificates to check a server's by.
    pub(super) fn new(is_tls: bool, patience: Patience) -> Result<Self> {
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(patience.connect));
        tcp.set_nodelay(true);
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_idle_timeout(IDLE).pool_timer(TokioTimer::new());
        let client = if is_tls {
            tcp.enforce_http(false);
            let tls = HttpsConnectorBuilder::new().with_native_roots().map_err(|error| {
                Error::new(Kind::Unreadable, "the system's certificates cannot be read")
                    .because(error)
                    .hint("install them (the package ca-certificates), or name a file of them in SSL_CERT_FILE")
            })?;
            Wire::Tls(builder.build(tls.https_only().enable_http1().wrap_connector(tcp)))
        } else {
            Wire::Plain(builder.build(tcp))
        };
        Ok(Self { client, patience })
    }

    /// Asks; the answer's head is here when this returns.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub(super) async fn get(&self, url: &str, headers: &[(&'static str, String)]) -> Result<Response, String> {
        let mut request = Request::get(url).body(Empty::new()).map_err(|error| error.to_string())?;
        for (name, value) in headers {
            let value = HeaderValue::from_str(value).map_err(|error| format!("{name}: {error}"))?;
            request.headers_mut().insert(HeaderName::from_static(name), value);
        }
        let who = HeaderValue::from_static(concat!("trace-board/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().insert(USER_AGENT, who);
        let answer = async {
            match &self.client {
                Wire::Plain(client) => client.request(request).await,
                Wire::Tls(client) => client.request(request).await,
            }
        };
        let answered = timeout(self.patience.head, answer).await;
        let answered = answered.map_err(|_| format!("no answer within {} s", self.patience.head.as_secs()))?;
        let (head, body) = answered.map_err(|error| why(&error))?.into_parts();
        Ok(Response {
            status: head.status,
            headers: head.headers,
            body: body.map_err(|error| chain(&error)).boxed_unsync(),
            patience: self.patience.piece,
        })
    }
}

impl Response {
    /// A header as text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The next piece of the body; `None` at its end.
    ///
    /// # Errors
    /// It is cut off, or nothing comes.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            let frame = timeout(self.patience, self.body.frame()).await;
            match frame.map_err(|_| format!("the answer stopped for {} s", self.patience.as_secs()))? {
                None => return Ok(None),
                Some(Err(error)) => return Err(format!("the answer was cut off: {error}")),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }

    /// The whole body, of at most `limit` bytes.
    ///
    /// # Errors
    /// It is cut off or longer, or nothing comes.
    pub(super) async fn bytes(&mut self, limit: usize) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        while let Some(piece) = self.piece().await? {
            if bytes.len() + piece.len() > limit {
                return Err(format!("the answer is longer than {limit} bytes"));
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }
}

fn why(error: &ClientError) -> String {
    if error.is_connect() { format!("cannot connect: {}", last(error)) } else { chain(error) }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |cause| cause.source()).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// The first cause, which says most: `Connection refused`, `unknown issuer`.
fn last(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |cause| cause.source());
    causes.last().map(ToString::to_string).unwrap_or_default()
}
