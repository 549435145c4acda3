//! Sends POST requests to an address and reads the responses, as a body or a stream of events.
//!
//! Independent of chat formats and connections.

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

/// Maximum size of a response, in bytes. No model writes that much.
const MAX_ANSWER_BYTES: usize = 16 << 20;
/// The error for a response that is too long.
pub(super) const TOO_LONG: &str = "is longer than 16 MiB";
/// Connections that were idle for longer aren't reused, because servers close theirs at about that
/// time.
const IDLE: Duration = Duration::from_secs(30);

/// An address to post to.
#[derive(Debug)]
pub(super) struct Http {
    uri: Uri,
    authorization: Option<HeaderValue>,
    client: Wire,
}

/// A response whose body hasn't been read yet.
pub(super) struct Response {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    body: UnsyncBoxBody<bytes::Bytes, io::Error>,
}

impl Http {
    /// Creates a client for `path` below `base_url`.
    ///
    /// # Errors
    /// Fails if the address is invalid, or if the system has no certificates for verifying servers.
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

    /// Returns the server's authority, which contains nothing secret.
    pub(super) fn server(&self) -> &str {
        self.uri
            .authority()
            .map_or("the server", |authority| authority.as_str())
    }

    /// Sends `body` and returns once the response's head has arrived.
    pub(super) async fn post(&self, body: &bytes::Bytes) -> Result<Response, String> {
        self.post_with(body, &HeaderMap::new()).await
    }

    /// Sends `body` with additional headers.
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
    /// Returns a header as text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns whether the body is a stream of events, even if none was requested.
    pub(super) fn is_stream(&self) -> bool {
        self.header("content-type")
            .is_some_and(|kind| kind.trim_start().starts_with("text/event-stream"))
    }

    /// Reads the whole body.
    pub(super) async fn bytes(self) -> Result<bytes::Bytes, String> {
        self.body
            .collect()
            .await
            .map(http_body_util::Collected::to_bytes)
            .map_err(|error| error.to_string())
    }

    /// Passes the data of each event to `take`, until `take` has enough or the body ends.
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

/// Describes why a body ended early.
fn cut(error: BodyError) -> io::Error {
    if error.is::<LengthLimitError>() {
        io::Error::other(TOO_LONG)
    } else {
        io::Error::other(error)
    }
}

/// Whether to stop reading a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Enough {
    Yes,
    No,
}

/// Returns the address of `path` below `base_url`. A query, such as a version, stays at the end.
fn address(base_url: &str, path: &str) -> Result<Uri> {
    let wrong = |why: &str| {
        Error::new(Kind::Usage, format!("the base_url {why}"))
            .hint("use a URL like https://api.example.com/v1, or http://127.0.0.1:8080/v1 for a server on this machine")
    };
    let base: Uri = base_url
        .trim()
        .parse()
        .map_err(|error| wrong("isn't a valid URL").because(error))?;
    let (Some(scheme), Some(authority)) = (base.scheme_str(), base.authority()) else {
        return Err(wrong("must have http:// or https:// and a host"));
    };
    if !matches!(scheme, "http" | "https") {
        return Err(wrong("must start with http:// or https://"));
    }
    // Errors name this part of the address, so it must not contain secrets.
    if authority.as_str().contains('@') {
        return Err(wrong("must not contain a user name or password")
            .hint("put the key into an environment variable: api_key_env in an agent file, or OPENAI_API_KEY for a program"));
    }
    let query = base
        .query()
        .map_or_else(String::new, |query| format!("?{query}"));
    // Without a path, `base_url` is the complete address and stays unchanged.
    let below = if path.is_empty() {
        base.path()
    } else {
        base.path().trim_end_matches('/')
    };
    let text = format!("{scheme}://{authority}{below}{path}{query}");
    text.parse()
        .map_err(|error| wrong("isn't a valid URL").because(error))
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
        assert_eq!(wrong("localhost:8080/v1"), "the base_url isn't a valid URL");
        assert_eq!(
            wrong("/v1"),
            "the base_url must have http:// or https:// and a host"
        );
        assert_eq!(
            wrong("ftp://a/b"),
            "the base_url must start with http:// or https://"
        );
        assert_eq!(
            wrong("https://me:pass@a.example/v1"),
            "the base_url must not contain a user name or password"
        );
    }
}
