//! Reaches a server at an address: one POST per message. The answer is a document or a stream of events.
//!
//! The SDK manages the session and its headers, and uses this module as its HTTP client. Requests use the same proxies,
//! certificates and limits as those to models.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::Sse;
use tokio_stream::Stream;

use super::super::http::{Enough, Http as Post};
use super::link::{Status, quote};
use crate::error::{Error, Kind, Result};

const CONNECT: Duration = Duration::from_secs(10);
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// An HTTP client for one server.
#[derive(Debug, Clone)]
pub(super) struct Http {
    post: Arc<Post>,
    headers: HashMap<HeaderName, HeaderValue>,
    status: Arc<Status>,
}

type Events = std::pin::Pin<Box<dyn Stream<Item = std::result::Result<Sse, SseError>> + Send>>;
type Failed = StreamableHttpError<io::Error>;

impl Http {
    /// Creates a client without connecting.
    ///
    /// # Errors
    /// Fails if the address or a header is invalid.
    pub(super) fn new(
        url: &str,
        headers: &BTreeMap<String, String>,
        status: Arc<Status>,
    ) -> Result<Self> {
        let post = Post::new(url, "", None, CONNECT).map_err(|error| {
            Error::new(Kind::Usage, format!("can't use the url {url}")).because(error)
        })?;
        let mut all = HashMap::new();
        for (name, value) in headers {
            let wrong = || Error::new(Kind::Usage, format!("can't send the header {name}"));
            let mut value = HeaderValue::from_str(value).map_err(|error| wrong().because(error))?;
            value.set_sensitive(true);
            all.insert(
                HeaderName::try_from(name.as_str()).map_err(|error| wrong().because(error))?,
                value,
            );
        }
        Ok(Self {
            post: Arc::new(post),
            headers: all,
            status,
        })
    }

    /// Returns a transport for one session.
    pub(super) fn transport(&self) -> StreamableHttpClientTransport<Self> {
        // The client ignores this address and uses its own.
        let mut config = StreamableHttpClientTransportConfig::with_uri("");
        config.custom_headers = self.headers.clone();
        StreamableHttpClientTransport::with_client(self.clone(), config)
    }

    /// Sends a message and returns the response to it. Other messages that come with it are only noted.
    async fn exchange(
        &self,
        message: &ClientJsonRpcMessage,
        headers: &HeaderMap,
    ) -> std::result::Result<StreamableHttpPostResponse, Failed> {
        let failed = |why: String| StreamableHttpError::Client(io::Error::other(why));
        let body = serde_json::to_vec(message)?;
        let response = self.post.post_with(&body.into(), headers).await;
        let response = response.map_err(failed)?;
        let status = response.status;
        if status == StatusCode::NOT_FOUND && headers.contains_key(SESSION) {
            return Err(StreamableHttpError::SessionExpired);
        }
        let ClientJsonRpcMessage::Request(request) = message else {
            return Ok(StreamableHttpPostResponse::Accepted);
        };
        let session = response.header(SESSION.as_str()).map(str::to_owned);
        let (mut answer, mut words) = (None, String::new());
        if response.is_stream() {
            let read = response.events(|data| {
                answer = self.answer(data.as_bytes(), &request.id);
                match answer {
                    Some(_) => Enough::Yes,
                    None => Enough::No,
                }
            });
            if let (Err(why), None) = (read.await, &answer) {
                return Err(failed(format!("its response was truncated: {why}")));
            }
        } else {
            let body = response.bytes().await.map_err(failed)?;
            answer = self.answer(&body, &request.id);
            words = quote(&String::from_utf8_lossy(&body));
        }
        match answer {
            Some(answer) => Ok(StreamableHttpPostResponse::Json(answer, session)),
            None if status.is_success() => Err(failed(format!(
                "its response doesn't match the request: {words}"
            ))),
            None => Err(failed(format!("it answered {status}: {words}"))),
        }
    }

    /// Reads the response to `id`. Servers send errors without an id for requests they couldn't read.
    fn answer(&self, text: &[u8], id: &RequestId) -> Option<ServerJsonRpcMessage> {
        match self.status.read(text)? {
            ServerJsonRpcMessage::Response(response) if response.id == *id => {
                Some(ServerJsonRpcMessage::Response(response))
            }
            ServerJsonRpcMessage::Error(error) if error.id.as_ref().is_none_or(|of| of == id) => {
                Some(ServerJsonRpcMessage::error(error.error, Some(id.clone())))
            }
            _ => None,
        }
    }
}

impl StreamableHttpClient for Http {
    type Error = io::Error;

    async fn post_message(
        &self,
        _: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> std::result::Result<StreamableHttpPostResponse, Failed> {
        let mut headers: HeaderMap = headers.into_iter().collect();
        if let Some(Ok(session)) = session.as_deref().map(HeaderValue::from_str) {
            headers.insert(SESSION, session);
        }
        match (self.exchange(&message, &headers).await, message) {
            // Notifications have no answer. The next request reports what is wrong.
            (Err(StreamableHttpError::Client(_)), ClientJsonRpcMessage::Notification(_)) => {
                Ok(StreamableHttpPostResponse::Accepted)
            }
            (answer, _) => answer,
        }
    }

    /// Does nothing, because servers drop idle sessions.
    async fn delete_session(
        &self,
        _: Arc<str>,
        _: Arc<str>,
        _: Option<String>,
        _: HashMap<HeaderName, HeaderValue>,
    ) -> std::result::Result<(), Failed> {
        Err(StreamableHttpError::ServerDoesNotSupportDeleteSession)
    }

    /// Does nothing, because a run keeps no connection open between its calls.
    async fn get_stream(
        &self,
        _: Arc<str>,
        _: Option<Arc<str>>,
        _: Option<String>,
        _: Option<String>,
        _: HashMap<HeaderName, HeaderValue>,
    ) -> std::result::Result<Events, Failed> {
        Err(StreamableHttpError::ServerDoesNotSupportSse)
    }
}
