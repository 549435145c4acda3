//! What is answered when something cannot be shown? The same words as a page and as a problem document.

pub(crate) mod view;

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};

use askama::Template as _;
use axum::http::header::{ALLOW, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use axum::http::{Response as HttpResponse, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use serde::Serialize;

use crate::analysis::format::visible_line;
use crate::page::app::AppState;
use crate::page::error::view::{CloseName, ErrorPage, Link};
use crate::page::part::href;
use crate::page::shell::{Pulse, Shell};

/// A request that gets no answer of the usual kind.
///
/// Boxed, because it is the rare half of many results.
#[derive(Debug)]
pub(crate) struct WebError(Box<Refusal>);

#[derive(Debug)]
struct Refusal {
    status: StatusCode,
    title: String,
    thing: Option<String>,
    detail: String,
    hints: Vec<String>,
    close: Vec<CloseName>,
    links: Vec<Link>,
    /// The run that may appear later.
    awaited: Option<String>,
    /// Whether it goes to somebody who may know nothing of this machine.
    outside: bool,
    incident: Option<String>,
}

/// An error document of RFC 9457, with the board's hints.
#[derive(Debug, Serialize)]
struct Problem<'a> {
    r#type: &'static str,
    title: String,
    status: u16,
    detail: &'a str,
    hints: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    incident: Option<&'a str>,
}

impl WebError {
    pub(crate) fn new(status: StatusCode, title: &str, detail: &str) -> Self {
        Self(Box::new(Refusal {
            status,
            title: title.to_owned(),
            thing: None,
            detail: detail.to_owned(),
            hints: Vec::new(),
            close: Vec::new(),
            links: Vec::new(),
            awaited: None,
            outside: false,
            incident: None,
        }))
    }

    pub(crate) fn not_found(title: &str, detail: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, title, detail)
    }

    pub(crate) fn bad_request(title: &str, detail: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, title, detail)
    }

    /// A fault of ours: the log has `cause`, the reader an id to find it by.
    pub(crate) fn fault(cause: &dyn std::fmt::Display) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let incident = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        tracing::error!(%incident, "{cause}");
        let mut error = Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "The board failed to show this",
            "This is a fault of the board, not of the trace. The terminal it runs in has the details.",
        );
        error.0.incident = Some(incident);
        error
    }

    pub(crate) fn named(mut self, thing: &str) -> Self {
        self.0.thing = Some(visible_line(thing).into_owned());
        self
    }

    pub(crate) fn hint(mut self, hint: &str) -> Self {
        self.0.hints.push(hint.to_owned());
        self
    }

    pub(crate) fn close_to(mut self, names: Vec<CloseName>) -> Self {
        self.0.close = names;
        self
    }

    pub(crate) fn link(mut self, text: &str, href: String) -> Self {
        self.0.links.push(Link { text: text.to_owned(), href });
        self
    }

    /// The page turns into the run once it appears.
    pub(crate) fn awaiting(mut self, key: &str) -> Self {
        self.0.awaited = Some(key.to_owned());
        self
    }

    /// The answer goes to whoever asked, which may be another site or a stranger: it names no directory of this machine.
    pub(crate) fn for_strangers(mut self) -> Self {
        self.0.outside = true;
        self
    }

    /// The answer: a problem document for the API, else a page.
    pub(crate) fn respond(self, state: &AppState, api: bool) -> Response {
        let mut response = if api { self.0.problem() } else { self.0.page(state) };
        *response.status_mut() = self.0.status;
        let more = match self.0.status {
            StatusCode::METHOD_NOT_ALLOWED => Some((ALLOW, "GET, HEAD")),
            // The name tells a second board that this is one.
            StatusCode::UNAUTHORIZED => Some((WWW_AUTHENTICATE, "Bearer realm=\"board\"")),
            _ => None,
        };
        if let Some((name, value)) = more {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

impl Refusal {
    /// The title with the name of the thing.
    fn named_title(&self) -> String {
        match &self.thing {
            Some(thing) => format!("{} {thing}", self.title),
            None => self.title.clone(),
        }
    }

    fn problem(&self) -> Response {
        let title = self.named_title();
        let (status, incident) = (self.status.as_u16(), self.incident.as_deref());
        let problem =
            Problem { r#type: "about:blank", title, status, detail: &self.detail, hints: &self.hints, incident };
        let body = serde_json::to_string(&problem).unwrap_or_default();
        ([(CONTENT_TYPE, "application/problem+json")], body).into_response()
    }

    fn page(&self, state: &AppState) -> Response {
        let revision = *state.library.revision().borrow();
        let pulse = self.awaited.as_ref().map(|key| Pulse {
            url: href::with_query(&format!("{}/live", href::run(key)), &[("awaited", "1")]),
            revision,
            ..Pulse::default()
        });
        let mut links = self.links.clone();
        links.push(Link { text: "All runs".to_owned(), href: "/".to_owned() });
        let page = ErrorPage {
            shell: Shell {
                title: format!("{} {}", self.status.as_u16(), self.named_title()),
                root: if self.outside { String::new() } else { crate::page::runs::handler::shown_roots(state) },
                stream: pulse.as_ref().map(|_| "/events".to_owned()),
                revision,
                boot: state.boot.to_string(),
                ..Shell::default()
            },
            pulse,
            status: self.status.as_u16(),
            title: self.title.clone(),
            thing: self.thing.clone(),
            detail: self.detail.clone(),
            hints: self.hints.clone(),
            asks_token: self.status == StatusCode::UNAUTHORIZED,
            close: self.close.clone(),
            links,
            incident: self.incident.clone(),
        };
        match page.render() {
            Ok(html) => Html(html).into_response(),
            Err(error) => format!("{} {}: {error}", self.status, self.title).into_response(),
        }
    }
}

/// What a panic in a handler becomes. A panic is a bug of ours; the server goes on.
#[expect(clippy::needless_pass_by_value, reason = "the signature that CatchPanicLayer asks for")]
pub(crate) fn panicked(cause: Box<dyn Any + Send>) -> HttpResponse<axum::body::Body> {
    let words =
        cause.downcast_ref::<String>().cloned().or_else(|| cause.downcast_ref::<&str>().map(ToString::to_string));
    let error = WebError::fault(&words.unwrap_or_else(|| "panic without words".to_owned()));
    let mut response = error.0.problem();
    *response.status_mut() = error.0.status;
    response
}
