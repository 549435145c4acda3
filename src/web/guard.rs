//! Who may ask, and what may the answer do in a browser?
//!
//! A local server is reachable from every page the person has open. A foreign name in `Host` is DNS rebinding, a foreign
//! `Origin` is another site reading along; both are refused. Every answer forbids scripts, frames and referrers of others.

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::Response;

use super::AppState;
use super::error::WebError;
use super::extract::is_api_path;

const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                   form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The longest search, as it stands in the address.
const MAX_SEARCH_BYTES: usize = 6_000;

/// Headers of every answer.
const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, CSP),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
];

/// Lets a request in, or answers why not.
pub(super) async fn admit(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let api = is_api_path(request.uri().path());
    match check(&state, request.method(), request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => {
            let mut response = refusal.respond(&state, api);
            add_headers(response.headers_mut());
            response
        }
    }
}

fn check(state: &AppState, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), WebError> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Err(WebError::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "The board only shows",
            "It changes nothing, so it answers GET and HEAD.",
        ));
    }
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or("?"));
    let host = uri.authority().map(|authority| authority.as_str()).or(text(header::HOST)).unwrap_or_default();
    if !is_own_name(host_name(host), &state.host) {
        return Err(WebError::new(
            StatusCode::MISDIRECTED_REQUEST,
            "This name is not the board's",
            "The request names a host that the board does not serve. Another site may have pointed its name at this machine.",
        )
        .named(host)
        .hint("Open the board by the address it printed, or start it with --host and the name you use."));
    }
    let foreign_origin =
        text(header::ORIGIN).is_some_and(|origin| origin.split_once("://").map(|(_, rest)| rest) != Some(host));
    // A link from another site may lead here; another site's script or image tag may not read from here.
    let site = text(HeaderName::from_static("sec-fetch-site"));
    let mode = text(HeaderName::from_static("sec-fetch-mode"));
    let foreign_fetch = site == Some("cross-site") && mode != Some("navigate");
    if foreign_origin || foreign_fetch {
        return Err(WebError::new(
            StatusCode::FORBIDDEN,
            "Another site asked",
            "The board answers only its own pages.",
        ));
    }
    let is_long = |pair: &str| pair.strip_prefix("q=").is_some_and(|search| search.len() > MAX_SEARCH_BYTES);
    if uri.query().is_some_and(|query| query.split('&').any(is_long)) {
        return Err(WebError::new(
            StatusCode::URI_TOO_LONG,
            "This search is too long",
            "A search has at most 6,000 bytes in the address: a page repeats it in each of its links.",
        ));
    }
    Ok(())
}

/// The name in a `Host` value, without port and brackets.
fn host_name(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

/// A name that can only mean this server: an address (rebinding needs a name), `localhost`, or what `--host` said.
fn is_own_name(name: &str, own: &str) -> bool {
    name.parse::<std::net::IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || (!name.is_empty() && name.eq_ignore_ascii_case(own))
}

/// Adds the headers of every answer.
pub(super) async fn headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    add_headers(response.headers_mut());
    response
}

fn add_headers(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_names() {
        for host in ["127.0.0.1:8765", "localhost:1", "LOCALHOST", "[::1]:80", "192.168.1.5", "box:80"] {
            assert!(is_own_name(host_name(host), "box"), "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example", "", ":80", "[evil]"] {
            assert!(!is_own_name(host_name(host), "box"), "{host}");
        }
    }
}
