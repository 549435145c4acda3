//! How does one talk to a server over HTTP? One POST a message; the answer is a document, or a stream of events in which it
//! comes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::super::http::{Enough, Http as Post, Response};
use super::Lost;
use crate::error::{Error, Kind, Result};
use crate::rpc::Message;
use crate::rpc::mcp::LIST_CHANGED;

const CONNECT: Duration = Duration::from_secs(10);
const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
/// So much of what a server says beside the protocol is told.
const WORDS: usize = 300;

/// A server at an address.
#[derive(Debug)]
pub(super) struct Http {
    post: Post,
    headers: Mutex<HeaderMap>,
    next: AtomicU64,
    changed: AtomicBool,
}

impl Http {
    /// Prepares to ask; nothing is sent yet.
    ///
    /// # Errors
    /// An address or a header that is none.
    pub(super) fn new(url: &str, headers: &BTreeMap<String, String>) -> Result<Self> {
        let post = Post::new(url, "", None, CONNECT).map_err(|error| {
            Error::new(Kind::Usage, format!("the url {url} cannot be used")).because(error)
        })?;
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            let wrong = || Error::new(Kind::Usage, format!("the header {name} cannot be sent"));
            let mut value = HeaderValue::from_str(value).map_err(|error| wrong().because(error))?;
            value.set_sensitive(true);
            all.insert(
                HeaderName::try_from(name.as_str()).map_err(|error| wrong().because(error))?,
                value,
            );
        }
        Ok(Self {
            post,
            headers: Mutex::new(all),
            next: AtomicU64::new(1),
            changed: AtomicBool::new(false),
        })
    }

    /// Every request from now on says which version was agreed on.
    pub(super) fn speaks(&self, version: &str) {
        self.set(VERSION, HeaderValue::from_str(version).ok());
    }

    fn set(&self, name: &'static str, value: Option<HeaderValue>) {
        if let Some(value) = value {
            self.headers
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(name, value);
        }
    }

    pub(super) fn has_changed(&self) -> bool {
        self.changed.swap(false, Ordering::Relaxed)
    }

    pub(super) async fn notify(&self, method: &str) {
        // A notice is not answered; what goes wrong shows at the next request.
        let _ = self
            .send(Message::Notice {
                method: method.to_owned(),
                params: Value::Null,
            })
            .await;
    }

    pub(super) async fn request(
        &self,
        method: &str,
        params: Value,
    ) -> std::result::Result<Value, Lost> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let response = self
            .send(Message::Request {
                id: id.into(),
                method: method.to_owned(),
                params,
            })
            .await?;
        self.set(SESSION, response.headers.get(SESSION).cloned());
        let status = response.status;
        let mut answer = None;
        let mut take = |text: &[u8]| {
            match serde_json::from_slice(text)
                .ok()
                .and_then(|value| Message::read(value).ok())
            {
                Some(Message::Reply { id: of, result })
                    if of == id || (of.is_null() && result.is_err()) =>
                {
                    answer = Some(result.map_err(Lost::Refused));
                }
                Some(Message::Notice { method, .. }) if method == LIST_CHANGED => {
                    self.changed.store(true, Ordering::Relaxed);
                }
                _ => {}
            }
            if answer.is_some() {
                Enough::Yes
            } else {
                Enough::No
            }
        };
        let (ended, body) = if response.is_stream() {
            (
                response.events(|data| take(data.as_bytes())).await,
                bytes::Bytes::new(),
            )
        } else {
            let body = response.bytes().await.map_err(Lost::Gone)?;
            take(&body);
            (Ok(()), body)
        };
        answer.unwrap_or_else(|| {
            let words: String = String::from_utf8_lossy(&body).chars().take(WORDS).collect();
            Err(Lost::Gone(match (ended, status.is_success()) {
                (Err(error), _) => format!("its answer broke off: {error}"),
                (Ok(()), false) => format!("it answered {status}: {words}"),
                (Ok(()), true) => format!("its answer is no answer to the request: {words}"),
            }))
        })
    }

    async fn send(&self, message: Message) -> std::result::Result<Response, Lost> {
        let headers = self
            .headers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let body = bytes::Bytes::from(message.write().to_string());
        self.post
            .post_with(&body, &headers)
            .await
            .map_err(Lost::Gone)
    }
}
