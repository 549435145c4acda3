//! Decides which requests to admit, and restricts what responses may do in a browser.
//!
//! Every page the user has open can reach a local server. A foreign name in `Host` indicates DNS
//! rebinding, and a foreign `Origin` indicates another site trying to read; both are refused. Every
//! response forbids foreign scripts, frames and referrers.

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use std::sync::Arc;
use std::time::Duration;

use crate::page::app::AppState;
use crate::page::error::WebError;
use crate::page::error_page::respond;
use crate::page::extract::is_api_path;
use crate::serve::listen::MAX_HEAD_BYTES;
use crate::serve::token::Token;

/// Limits the bytes of an address; longer ones are refused (414). Board's longest form names
/// fifty runs.
const MAX_ADDRESS_BYTES: usize = 32 << 10;

const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                   form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Headers that identify the origin of a request. Like `Host`, they must not be repeated.
const ONCE: [HeaderName; 4] = [
    header::ORIGIN,
    SEC_FETCH_SITE,
    SEC_FETCH_MODE,
    SEC_FETCH_DEST,
];

/// Limits the bytes of a search as encoded in the address.
const MAX_SEARCH_BYTES: usize = 6_000;

/// How long a request with a wrong token waits for its response. Such requests wait one after
/// another.
const GUESS_PAUSE: Duration = Duration::from_millis(200);

/// Headers of every response.
const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, CSP),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=()",
    ),
];

/// Checks requests when board requires a token.
#[derive(Debug)]
pub(crate) struct Gate {
    token: Token,
    /// The cookie's value. The token can't be derived from it, because browsers store cookies in
    /// files and send them to other ports.
    ticket: Token,
    /// The cookie's name. Cookies ignore ports, so two boards on one machine, or behind two
    /// tunnels, need different names.
    cookie: String,
    guesses: tokio::sync::Mutex<()>,
}

/// How a request authenticates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    /// Board requires no token.
    NotAsked,
    /// The request has the token in a header.
    Held,
    /// The address contains the token, which a redirect moves into a cookie.
    InAddress,
    /// The request has a wrong token.
    Wrong,
    Missing,
}

impl Gate {
    pub(crate) fn new(token: Token) -> Self {
        let name = token.derive("name of the cookie");
        let cookie = format!("board_{}", name.reveal().get(..16).unwrap_or_default());
        Self {
            ticket: token.derive("cookie"),
            token,
            cookie,
            guesses: tokio::sync::Mutex::new(()),
        }
    }

    fn key(&self, uri: &Uri, headers: &HeaderMap) -> Key {
        let in_address = pairs(uri)
            .filter_map(|pair| pair.strip_prefix("token="))
            .filter(|_| !is_api_path(uri.path()));
        let texts = |name| {
            headers
                .get_all(name)
                .iter()
                .filter_map(|value| value.to_str().ok())
        };
        let bearers = texts(header::AUTHORIZATION)
            .filter_map(|text| text.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim());
        let tickets = texts(header::COOKIE)
            .flat_map(|text| text.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='))
            .filter_map(|(name, value)| (name == self.cookie).then_some(value));
        let mut wrong = false;
        let mut is_one = |known: &Token, given: &str| {
            wrong |= !given.is_empty();
            known.is(given)
        };
        if in_address
            .into_iter()
            .any(|given| is_one(&self.token, given))
        {
            return Key::InAddress;
        }
        let held = bearers.into_iter().any(|given| is_one(&self.token, given))
            || tickets.into_iter().any(|given| is_one(&self.ticket, given));
        match (held, wrong) {
            (true, _) => Key::Held,
            (false, true) => Key::Wrong,
            (false, false) => Key::Missing,
        }
    }

    /// Redirects the browser to the same address without the token and sets the cookie.
    fn welcome(&self, uri: &Uri) -> Response {
        let cookie = format!(
            "{}={}; HttpOnly; SameSite=Strict; Path=/",
            self.cookie,
            self.ticket.reveal()
        );
        let headers = [
            (header::LOCATION, without_token(uri)),
            (header::SET_COOKIE, cookie),
            (header::CACHE_CONTROL, "no-store".to_owned()),
        ];
        (StatusCode::SEE_OTHER, headers).into_response()
    }
}

/// Returns the parameters of an address without decoding them.
fn pairs(uri: &Uri) -> impl Iterator<Item = &str> {
    uri.query()
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty())
}

/// Returns the same address on this board without the token.
fn without_token(uri: &Uri) -> String {
    // Two leading slashes would name another host.
    let path = uri.path().trim_start_matches(['/', '\\']);
    let rest: Vec<&str> = pairs(uri)
        .filter(|pair| *pair != "token" && !pair.starts_with("token="))
        .collect();
    let mark = if rest.is_empty() { "" } else { "?" };
    format!("/{path}{mark}{}", rest.join("&"))
}

/// The checks every request must pass before a handler sees it.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    pub(crate) state: AppState,
    /// The token check, if board requires a token.
    pub(crate) gate: Option<Arc<Gate>>,
}

/// Admits a request, or responds with the reason it was refused.
pub(crate) async fn admit(
    State(admission): State<Admission>,
    request: Request,
    next: Next,
) -> Response {
    let Admission { state, gate } = admission;
    let uri = request.uri();
    let key = gate
        .as_ref()
        .map_or(Key::NotAsked, |gate| gate.key(uri, request.headers()));
    if let (Key::Wrong, Some(gate)) = (key, &gate) {
        let _turn = gate.guesses.lock().await;
        tokio::time::sleep(GUESS_PAUSE).await;
    }
    let checked = check(&state, key, request.method(), uri, request.headers());
    let mut response = match (checked, &gate) {
        (Ok(()), Some(gate)) if key == Key::InAddress => gate.welcome(uri),
        (Ok(()), _) => return next.run(request).await,
        (Err(refusal), _) => respond(&refusal.for_strangers(), &state, is_api_path(uri.path())),
    };
    add_headers(response.headers_mut());
    response
}

fn check(
    state: &AppState,
    key: Key,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(), WebError> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Err(WebError::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "board is read-only",
            "It accepts only GET and HEAD requests.",
        ));
    }
    if uri
        .path_and_query()
        .is_some_and(|text| text.as_str().len() > MAX_ADDRESS_BYTES)
    {
        let detail = format!("board accepts addresses of up to {MAX_ADDRESS_BYTES} bytes.");
        return Err(WebError::new(
            StatusCode::URI_TOO_LONG,
            "The address is too long",
            &detail,
        ));
    }
    // The connection's own check doesn't apply to a head that arrives in one read.
    let head = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum::<usize>();
    if head > MAX_HEAD_BYTES {
        let detail = format!("board accepts request heads of up to {MAX_HEAD_BYTES} bytes.");
        return Err(WebError::new(
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "The request head is too long",
            &detail,
        ));
    }
    // Servers disagree about where a body ends. A body that is never read can't cause such a
    // mismatch.
    let has_body = headers.contains_key(header::TRANSFER_ENCODING)
        || headers
            .get_all(header::CONTENT_LENGTH)
            .iter()
            .any(|length| length != "0");
    if has_body {
        let detail = "Put all parameters in the address.";
        return Err(WebError::bad_request(
            "board accepts no request bodies",
            detail,
        ));
    }
    let host = own_host(state, key, uri, headers)?;
    if let Some(name) = ONCE
        .into_iter()
        .find(|name| headers.get_all(name).iter().nth(1).is_some())
    {
        let detail = "It's unclear which one counts, so board rejects the request.";
        return Err(
            WebError::bad_request("The request repeats the header", detail).named(name.as_str()),
        );
    }
    if is_foreign(host, headers) {
        return Err(WebError::new(
            StatusCode::FORBIDDEN,
            "Request from another site",
            "board answers only requests from its own pages.",
        ));
    }
    // Styles and scripts are the same for everyone, and the page that asks for the token needs
    // them.
    if matches!(key, Key::Missing | Key::Wrong) && !uri.path().starts_with("/static/") {
        let detail = "The token is printed in the terminal that board runs in, or was chosen by whoever started board.";
        let title = match key {
            Key::Wrong => "Wrong token",
            _ => "This server requires a token",
        };
        return Err(WebError::new(StatusCode::UNAUTHORIZED, title, detail)
            .hint("Programs send it as a header: Authorization: Bearer TOKEN.")
            .link("Try again", without_token(uri)));
    }
    let is_search = |name: &str| percent_encoding::percent_decode_str(name).eq(*b"q");
    let is_long = |pair: &str| {
        pair.split_once('=')
            .is_some_and(|(name, search)| search.len() > MAX_SEARCH_BYTES && is_search(name))
    };
    if uri
        .query()
        .is_some_and(|query| query.split('&').any(is_long))
    {
        return Err(WebError::new(
            StatusCode::URI_TOO_LONG,
            "This search is too long",
            "A search can have at most 6,000 bytes in the address, because every link on a page repeats it.",
        ));
    }
    Ok(())
}

/// Whether another site sent the request, according to the browser's headers. Names and values are
/// compared case-insensitively.
fn is_foreign(host: &str, headers: &HeaderMap) -> bool {
    let text = |name| {
        headers
            .get(name)
            .map(|value: &HeaderValue| value.to_str().unwrap_or("?"))
    };
    let is = |text: &str, words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    let is_own_origin = |origin: &str| {
        origin.split_once("://").is_some_and(|(scheme, rest)| {
            is(scheme, &["http", "https"]) && rest.eq_ignore_ascii_case(host)
        })
    };
    if text(header::ORIGIN).is_some_and(|origin| !is_own_origin(origin)) {
        return true;
    }
    // Links from other sites may lead here, but their scripts and image tags may not read from
    // here. Browsers treat another port of this machine as the same site and send cookies with it.
    // Unknown values aren't trusted.
    if text(SEC_FETCH_SITE).is_none_or(|site| is(site, &["same-origin", "none"])) {
        return false;
    }
    // Loading a frame is a navigation too, but the user doesn't see it.
    let is_seen = text(SEC_FETCH_DEST).is_none_or(|dest| is(dest, &["document"]));
    let is_navigation = text(SEC_FETCH_MODE).is_some_and(|mode| is(mode, &["navigate"]));
    !(is_navigation && is_seen)
}

/// Returns the host that the request names, which must be board's.
fn own_host<'a>(
    state: &AppState,
    key: Key,
    uri: &'a Uri,
    headers: &'a HeaderMap,
) -> Result<&'a str, WebError> {
    let mut hosts = headers
        .get_all(header::HOST)
        .iter()
        .map(|value| value.to_str().unwrap_or("?"));
    let (given, second) = (hosts.next(), hosts.next());
    if second.is_some() {
        let detail = "board and a proxy might pick different ones, so board rejects the request.";
        return Err(WebError::bad_request("The request names two hosts", detail));
    }
    let authority = uri.authority().map(axum::http::uri::Authority::as_str);
    let host = authority.or(given).unwrap_or_default();
    // Pages of other sites can't know the token, so a request that has it may use any name for the
    // board.
    let known = matches!(key, Key::Held | Key::InAddress);
    let foreign = |host: &&str| !is_own_name(host_name(host), &state.host);
    let named = [Some(host), given].into_iter().flatten().find(foreign);
    match named {
        Some(name) if !known => Err(WebError::new(
            StatusCode::MISDIRECTED_REQUEST,
            "Unknown host",
            "board doesn't serve this host name. Another site may have pointed its name at this machine.",
        )
        .named(name)
        .hint("Open the address that board printed, or start board with --host NAME.")),
        _ => Ok(host),
    }
}

/// Returns the name in a `Host` value, without port and brackets, or an empty string if the value
/// is malformed.
fn host_name(host: &str) -> &str {
    let (name, rest) = match host.strip_prefix('[').map(|inside| inside.split_once(']')) {
        Some(Some((name, rest))) if name.contains(':') => (name, rest),
        Some(_) => return "",
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |port: &str| {
        !port.is_empty() && port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit())
    };
    if rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port) {
        name
    } else {
        ""
    }
}

/// Whether a name can only mean this server: an IP address (rebinding needs a name), `localhost`,
/// or the value of `--host`.
fn is_own_name(name: &str, own: &str) -> bool {
    name.parse::<std::net::IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || (!name.is_empty() && name.eq_ignore_ascii_case(own))
}

/// Adds the common headers to a response.
pub(crate) async fn headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    add_headers(response.headers_mut());
    response
}

fn add_headers(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-cache"));
}

#[cfg(test)]
mod tests;
