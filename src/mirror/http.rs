//! Sends the requests of object_store with board's own client: counts them, and limits the time and size of answers.
//!
//! object_store can retry too, but not after the wait that a store asks for, and not for a damaged body. So each request
//! is sent once here, and [`super::store`] retries.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, HeaderValue, LAST_MODIFIED,
};
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use jiff::fmt::rfc2822::DateTimePrinter;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use tokio::time::timeout;

use super::address::Cloud;
use super::fault::Fault;
use super::listing;
use super::settings::Settings;
use crate::error::Result;
use crate::wire::{BodyError, Wire, chain};

/// Idle connections are closed after this time.
const IDLE: Duration = Duration::from_secs(15);
/// Limits a page of a listing. 1,000 objects whose keys have 1,024 characters take up to 6.5 MB, since XML escapes some
/// characters, such as `&quot;`.
const MAX_PAGE_BYTES: usize = 8 << 20;
/// Limits an error document and an answer with credentials.
const MAX_TEXT_BYTES: usize = 64 << 10;
/// Limits the wait for credentials. Outside of a cloud, the address of the metadata service doesn't answer at all.
const LOGIN_TIME: Duration = Duration::from_secs(5);
/// The headers of an object that the mirror uses.
const USED: [http::HeaderName; 4] = [CONTENT_LENGTH, CONTENT_RANGE, CONTENT_ENCODING, ETAG];
/// The time that object_store gets if the store sends none that it can read. [`super::fetch`] takes it for unknown.
const EPOCH: &str = "Thu, 01 Jan 1970 00:00:00 GMT";
/// The body that object_store gets in place of a page, since [`listing::page`] read it already.
const EMPTY_PAGE: &str = "<Page><Blobs/></Page>";

/// Time limits of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    pub(super) connect: Duration,
    /// Until the head of the answer.
    pub(super) head: Duration,
    /// Between two pieces of the body.
    pub(super) piece: Duration,
}

/// The purpose of a request, as an extension of it. Requests for credentials have none.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    /// A page of a listing. The answer gets a [`listing::Page`] as an extension.
    List,
    /// An object of this size in the listing, or the rest of one. The answer gets its headers as an extension.
    Get { size: u64 },
}

/// Sends requests to a store and to the services that issue credentials for it.
#[derive(Debug)]
pub(super) struct Http {
    plain: Wire,
    /// Created for the first request over TLS, since it reads the certificates of the system.
    tls: OnceLock<Result<Wire, String>>,
    patience: Patience,
    /// The number of requests sent to the store, and how many were for listings. The status shows them while a listing
    /// runs, which may take hours.
    pub(super) requests: Arc<AtomicU64>,
    pub(super) listings: Arc<AtomicU64>,
}

impl Http {
    /// Prepares connections; with `is_tls`, over TLS too.
    pub(super) fn new(is_tls: bool, patience: Patience) -> Result<Self> {
        let tls = match is_tls {
            true => OnceLock::from(Ok(Wire::new(true, patience.connect, IDLE)?)),
            false => OnceLock::new(),
        };
        Ok(Self {
            plain: Wire::new(false, patience.connect, IDLE)?,
            tls,
            patience,
            requests: Arc::default(),
            listings: Arc::default(),
        })
    }

    /// Sends a request.
    async fn send(
        &self,
        request: HttpRequest,
        patience: Duration,
    ) -> Result<Response<BoxBody<Bytes, BodyError>>, String> {
        let tls = || {
            let wire = Wire::new(true, self.patience.connect, IDLE);
            wire.map_err(|error| format!("{error:#}"))
        };
        let wire = match request.uri().scheme_str() {
            Some("https") => self.tls.get_or_init(tls).as_ref().map_err(Clone::clone)?,
            _ => &self.plain,
        };
        let (head, body) = request.into_parts();
        let body = Full::from(body.as_bytes().cloned().unwrap_or_default());
        timeout(patience, wire.send(Request::from_parts(head, body)))
            .await
            .unwrap_or_else(|_| Err(format!("no answer within {} s", patience.as_secs())))
    }

    /// Reads a whole body of at most `limit` bytes.
    async fn read(
        &self,
        mut body: BoxBody<Bytes, BodyError>,
        limit: usize,
    ) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        while let Some(frame) = within(self.patience.piece, body.frame()).await? {
            let piece = frame
                .map_err(|error| cut(&error))?
                .into_data()
                .unwrap_or_default();
            if bytes.len() + piece.len() > limit {
                return Err(format!("the response is longer than {limit} bytes"));
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }
}

/// Describes a truncated body.
fn cut(error: &BodyError) -> String {
    format!("the response was truncated: {}", chain(&**error))
}

/// Limits the wait for a piece of a body.
pub(super) async fn within<T>(
    patience: Duration,
    piece: impl Future<Output = T>,
) -> Result<T, String> {
    let late = |_| format!("the response stalled for {} s", patience.as_secs());
    timeout(patience, piece).await.map_err(late)
}

/// Returns the headers that object_store gets. It refuses objects for any header that isn't ASCII, for a time in another
/// format than RFC 2822, and for a missing length.
fn readable(all: &HeaderMap, size: u64) -> HeaderMap {
    let mut headers: HeaderMap = USED
        .iter()
        .filter_map(|name| Some((name.clone(), all.get(name)?.clone())))
        .collect();
    // Bodies in chunks have no length. They end at the listed size at the latest.
    headers
        .entry(CONTENT_LENGTH)
        .or_insert_with(|| HeaderValue::from(size));
    let modified = all
        .get(LAST_MODIFIED)
        .and_then(|value| listing::time(value.to_str().ok()?.trim()))
        .and_then(|time| {
            DateTimePrinter::new()
                .timestamp_to_rfc9110_string(&time)
                .ok()
        })
        .and_then(|text| HeaderValue::try_from(text).ok());
    let epoch = HeaderValue::from_static(EPOCH);
    headers.insert(LAST_MODIFIED, modified.unwrap_or(epoch));
    headers
}

/// The client for object_store. Knows the settings, to explain errors.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    pub(super) http: Arc<Http>,
    pub(super) cloud: Cloud,
    pub(super) settings: Settings,
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Connector {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let http = &*self.http;
        let purpose = request.extensions().get::<Purpose>().copied();
        let host = request.uri().authority().map(ToString::to_string);
        let host = host.unwrap_or_default();
        let Some(purpose) = purpose else {
            let failed = |why| Fault::no_login(&format!("{host}: {why}"), self.cloud);
            let answer = http.send(request, LOGIN_TIME).await.map_err(failed)?;
            let (head, body) = answer.into_parts();
            let text = http.read(body, MAX_TEXT_BYTES).await.map_err(failed)?;
            return Ok(Response::from_parts(head, text.into()));
        };
        http.requests.fetch_add(1, Ordering::Relaxed);
        if matches!(purpose, Purpose::List) {
            http.listings.fetch_add(1, Ordering::Relaxed);
        }
        let answer = http.send(request, http.patience.head).await;
        let answer = answer.map_err(|why| Fault::no_answer(&host, &why))?;
        let (mut head, body) = answer.into_parts();
        if !head.status.is_success() {
            let text = http.read(body, MAX_TEXT_BYTES).await.unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            return Err(Fault::of_answer(&host, &head, &text, self.cloud, &self.settings).into());
        }
        let body = match purpose {
            Purpose::List => {
                let passing = |why| Fault::Passing(why, None);
                let text = http.read(body, MAX_PAGE_BYTES).await.map_err(passing)?;
                let odd = |why| passing(format!("can't read the listing: {why}"));
                let page = listing::page(&String::from_utf8_lossy(&text)).map_err(odd)?;
                head.extensions.insert(page);
                Bytes::from_static(EMPTY_PAGE.as_bytes()).into()
            }
            Purpose::Get { size } => {
                let headers = readable(&head.headers, size);
                let all = std::mem::replace(&mut head.headers, headers);
                head.extensions.insert(all);
                let cut = |error| HttpError::from(Fault::Passing(cut(&error), None));
                HttpResponseBody::new(body.map_err(cut))
            }
        };
        Ok(Response::from_parts(head, body))
    }
}
