//! Sends requests to a server over HTTP/1.1, with TLS for `https` addresses, and explains failures
//! in words.
//!
//! This module must not know what the requests ask for. It checks certificates against the system's
//! store, so a company's own certificate authority works. It follows neither redirects nor proxies,
//! so a request's contents reach only the address it names.

use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderValue, USER_AGENT};
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::error::{Error, Kind, Result};

/// Prefix of errors raised before anything was sent.
const CANNOT_CONNECT: &str = "can't connect: ";

/// The reason a body ended early.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// An HTTP client, with or without TLS. Without TLS, connecting to a server on the same machine
/// needs no certificates.
#[derive(Debug)]
pub(crate) enum Wire {
    /// For `http://`.
    Plain(Client<HttpConnector, Full<Bytes>>),
    /// For `https://`.
    Tls(Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
}

impl Wire {
    /// Creates a client for one scheme. Connections idle for longer than `idle` aren't reused.
    ///
    /// # Errors
    /// Fails if the system has no certificates to check the server's against.
    pub(crate) fn new(is_tls: bool, connect: Duration, idle: Duration) -> Result<Self> {
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(connect));
        tcp.set_nodelay(true);
        let mut builder = Client::builder(TokioExecutor::new());
        builder
            .pool_idle_timeout(idle)
            .pool_timer(TokioTimer::new());
        if !is_tls {
            return Ok(Self::Plain(builder.build(tcp)));
        }
        tcp.enforce_http(false);
        let tls = HttpsConnectorBuilder::new().with_native_roots().map_err(|error| {
            Error::new(Kind::Unreadable, "can't read the system's certificates")
                .because(error)
                .hint("install the package ca-certificates, or set SSL_CERT_FILE to a certificate file")
        })?;
        Ok(Self::Tls(builder.build(
            tls.https_only().enable_http1().wrap_connector(tcp),
        )))
    }

    /// Sends a request and returns once the response head has arrived.
    ///
    /// # Errors
    /// Returns the reason for the failure in words.
    pub(crate) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> std::result::Result<Response<BoxBody<Bytes, BodyError>>, String> {
        // Some gateways reject requests without a user agent.
        let who = HeaderValue::from_static(concat!("trace-board/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().insert(USER_AGENT, who);
        let answered = match self {
            Self::Plain(client) => client.request(request).await,
            Self::Tls(client) => client.request(request).await,
        };
        let why = |error: hyper_util::client::legacy::Error| {
            if error.is_connect() {
                format!("{CANNOT_CONNECT}{}", last(&error))
            } else {
                chain(&error)
            }
        };
        Ok(answered
            .map_err(why)?
            .map(|body| body.map_err(BodyError::from).boxed()))
    }
}

/// Whether an error from [`Wire::send`] means that no byte was sent.
pub(crate) fn is_unreached(error: &str) -> bool {
    error.starts_with(CANNOT_CONNECT)
}

/// Joins an error and its causes into one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    for cause in
        std::iter::successors(error.source(), |cause| cause.source()).map(ToString::to_string)
    {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// Returns the root cause, which is the most specific: `Connection refused`, `unknown issuer`.
fn last(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |cause| cause.source());
    causes.last().map(ToString::to_string).unwrap_or_default()
}
