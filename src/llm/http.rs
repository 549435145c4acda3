//! How do bytes go out and come back? One POST to an address, and its answer: a body, or a stream of events.
//!
//! Knows nothing of chats, nor how a server is reached.

use std::io;
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use sse_stream::SseStream;
use tokio_stream::StreamExt as _;

use crate::error::{Error, Kind, Result};
use crate::wire::{BodyError, Wire, chain};

/// A longer answer is given up: no model writes so much.
const MAX_ANSWER_BYTES: usize = 16 << 20;
/// What is said of it.
pub(super) const TOO_LONG: &str = "is longer than 16 MiB";
/// A connection that was idle for longer is not used again; servers close theirs about then.
const IDLE: Duration = Duration::from_secs(30);

/// A place to post to.
#[derive(Debug)]
pub(super) struct Http {
    uri: Uri,
    authorization: Option<HeaderValue>,
    client: Wire,
}

/// The head of an answer, with its body still to come.
pub(super) struct Response {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    body: UnsyncBoxBody<bytes::Bytes, io::Error>,
}

impl Http {
    /// Prepares to post to `path` below `base_url`.
    ///
    /// # Errors
    /// The address is none, or the system has no certificates to check a server's by.
    pub(super) fn new(
        base_url: &str,
        path: &str,
        authorization: Option<HeaderValue>,
        connect: Duration,
    ) -> Result<Self> {
        let uri = address(base_url, path)?;
        let client = Wire::new(uri.scheme_str() == Some("https"), connect, IDLE)?;
        Ok(Self {
            uri,
            authorization,
            client,
        })
    }

    /// The server, without anything that may be secret.
    pub(super) fn server(&self) -> &str {
        self.uri
            .authority()
            .map_or("the server", |authority| authority.as_str())
    }

    /// Sends `body`; the answer's head is here when this returns.
    pub(super) async fn post(&self, body: &bytes::Bytes) -> Result<Response, String> {
        self.post_with(body, &HeaderMap::new()).await
    }

    /// The same with further headers.
    pub(super) async fn post_with(
        &self,
        body: &bytes::Bytes,
        more: &HeaderMap,
    ) -> Result<Response, String> {
        let mut request = Request::new(Full::new(body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(
            ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        headers.extend(more.clone());
        let (head, body) = self.client.send(request).await?.into_parts();
        let body = Limited::new(body, MAX_ANSWER_BYTES)
            .map_err(cut)
            .boxed_unsync();
        Ok(Response {
            status: head.status,
            headers: head.headers,
            body,
        })
    }
}

impl Response {
    /// A header as text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Whether the body is a stream of events, whatever was asked for.
    pub(super) fn is_stream(&self) -> bool {
        self.header("content-type")
            .is_some_and(|kind| kind.trim_start().starts_with("text/event-stream"))
    }

    /// The whole body.
    pub(super) async fn bytes(self) -> Result<bytes::Bytes, String> {
        self.body
            .collect()
            .await
            .map(http_body_util::Collected::to_bytes)
            .map_err(|error| error.to_string())
    }

    /// The data of each event, until `take` has enough or the body ends.
    pub(super) async fn events(
        self,
        mut take: impl FnMut(&str) -> Enough + Send,
    ) -> Result<(), String> {
        let mut events = SseStream::new(self.body);
        while let Some(event) = events.next().await {
            let event = event.map_err(|error| chain(&error))?;
            if let Some(data) = event.data
                && take(&data) == Enough::Yes
            {
                break;
            }
        }
        Ok(())
    }
}

/// Why a body ended early.
fn cut(error: BodyError) -> io::Error {
    if error.is::<LengthLimitError>() {
        io::Error::other(TOO_LONG)
    } else {
        io::Error::other(error)
    }
}

/// Whether the rest of a stream matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Enough {
    Yes,
    No,
}

/// The address of `path` below `base_url`; a query, such as a version, stays behind it.
fn address(base_url: &str, path: &str) -> Result<Uri> {
    let wrong = |why: &str| {
        Error::new(Kind::Usage, format!("the base_url {why}"))
            .hint("it looks like https://api.example.com/v1, or http://127.0.0.1:8080/v1 for a server on this machine")
    };
    let base: Uri = base_url
        .trim()
        .parse()
        .map_err(|error| wrong("is no address").because(error))?;
    let (Some(scheme), Some(authority)) = (base.scheme_str(), base.authority()) else {
        return Err(wrong("needs http:// or https:// and a host"));
    };
    if !matches!(scheme, "http" | "https") {
        return Err(wrong("needs http:// or https://"));
    }
    // Errors name the address, so nothing secret may be in its part that is shown.
    if authority.as_str().contains('@') {
        return Err(wrong("must not hold a user or a password")
            .hint("name the key's variable in api_key_env"));
    }
    let query = base
        .query()
        .map_or_else(String::new, |query| format!("?{query}"));
    // What is the whole address stays as it is.
    let below = if path.is_empty() {
        base.path()
    } else {
        base.path().trim_end_matches('/')
    };
    let text = format!("{scheme}://{authority}{below}{path}{query}");
    text.parse()
        .map_err(|error| wrong("is no address").because(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_goes_between_the_base_and_its_query() {
        let ok = |base: &str| address(base, "/chat/completions").unwrap().to_string();
        assert_eq!(
            ok("http://127.0.0.1:1/v1/"),
            "http://127.0.0.1:1/v1/chat/completions"
        );
        assert_eq!(
            ok("https://a.example"),
            "https://a.example/chat/completions"
        );
        assert_eq!(
            ok("https://a.example/x?api-version=2"),
            "https://a.example/x/chat/completions?api-version=2"
        );
    }

    #[test]
    fn what_is_no_address_is_refused_without_its_secrets() {
        let wrong = |base: &str| address(base, "/x").unwrap_err().to_string();
        assert_eq!(wrong("localhost:8080/v1"), "the base_url is no address");
        assert_eq!(
            wrong("/v1"),
            "the base_url needs http:// or https:// and a host"
        );
        assert_eq!(wrong("ftp://a/b"), "the base_url needs http:// or https://");
        assert_eq!(
            wrong("https://me:pass@a.example/v1"),
            "the base_url must not hold a user or a password"
        );
    }
}
