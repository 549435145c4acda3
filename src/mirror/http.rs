//! How does a request go out and its answer come back? One GET, and its body piece by piece, each within its time.
//!
//! Knows nothing of stores, nor how a server is reached.

use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Request, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use tokio::time::timeout;

use crate::error::Result;
use crate::wire::{Wire, chain};

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
        let client = Wire::new(is_tls, patience.connect, IDLE)?;
        Ok(Self { client, patience })
    }

    /// Asks; the answer's head is here when this returns.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub(super) async fn get(
        &self,
        url: &str,
        headers: &[(&'static str, String)],
    ) -> Result<Response, String> {
        let mut request = Request::get(url)
            .body(Full::default())
            .map_err(|error| error.to_string())?;
        for (name, value) in headers {
            let value = HeaderValue::from_str(value).map_err(|error| format!("{name}: {error}"))?;
            request
                .headers_mut()
                .insert(HeaderName::from_static(name), value);
        }
        let answered = timeout(self.patience.head, self.client.send(request)).await;
        let answered =
            answered.map_err(|_| format!("no answer within {} s", self.patience.head.as_secs()))?;
        let (head, body) = answered?.into_parts();
        Ok(Response {
            status: head.status,
            headers: head.headers,
            body: body.map_err(|error| chain(&*error)).boxed_unsync(),
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
            match frame
                .map_err(|_| format!("the answer stopped for {} s", self.patience.as_secs()))?
            {
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
