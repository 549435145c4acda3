//! Reports what can't be shown, with the same text as a page and as a problem document.
//!
//! Handlers return a [`WebError`], and only [`show`] turns it into a response.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use askama::Template;
use axum::extract::{Request, State};
use axum::http::header::{ALLOW, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use axum::http::{Response as HttpResponse, StatusCode};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::format::visible_line;
use crate::analysis::summary::Summary;
use crate::page::app::AppState;
use crate::page::extract::is_api_path;
use crate::page::part::{href, text};
use crate::page::shell::{Pulse, Shell};

/// The result of a handler.
pub(crate) type Answer = Result<Response, WebError>;

/// An error response.
///
/// Boxed, because it's the rare half of many results.
#[derive(Debug, Clone)]
pub(crate) struct WebError(Box<Refusal>);

#[derive(Debug, Clone, Default)]
struct Refusal {
    status: StatusCode,
    /// The error, up to the name of the subject: `No run named`.
    title: String,
    /// The subject, as requested.
    thing: Option<String>,
    detail: String,
    hints: Vec<String>,
    /// Existing runs with similar names.
    close: Vec<Arc<Summary>>,
    /// Links to continue with, as text and address. The first is the main one.
    links: Vec<(String, String)>,
    /// The key of a run that may appear later.
    awaited: Option<String>,
    /// Whether the response may go to someone who must learn nothing about this machine.
    outside: bool,
    /// The id of the log entry, for faults of the board.
    incident: Option<String>,
}

/// An error document (RFC 9457) with the board's hints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Problem<'a> {
    r#type: &'static str,
    title: String,
    status: u16,
    detail: &'a str,
    hints: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    incident: Option<&'a str>,
}

#[derive(Debug, Template)]
#[template(path = "error/page.html")]
struct ErrorPage<'a> {
    shell: Shell,
    /// Loads the run once it appears, if `shell.stream` is set. Until then its address responds
    /// with 204, and afterwards with 200 and `HX-Refresh: true`, which reloads this page.
    pulse: Option<Pulse>,
    error: &'a Refusal,
}

impl ErrorPage<'_> {
    fn asks_token(&self) -> bool {
        self.error.status == StatusCode::UNAUTHORIZED
    }
}

impl WebError {
    pub(crate) fn new(status: StatusCode, title: &str, detail: &str) -> Self {
        let (title, detail) = (title.to_owned(), detail.to_owned());
        Self(Box::new(Refusal {
            status,
            title,
            detail,
            ..Refusal::default()
        }))
    }

    pub(crate) fn not_found(title: &str, detail: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, title, detail)
    }

    pub(crate) fn bad_request(title: &str, detail: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, title, detail)
    }

    /// Creates an error for a fault of the board. Logs `cause` and shows the reader an id to find
    /// it by.
    pub(crate) fn fault(cause: &dyn std::fmt::Display) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let incident = format!(
            "{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        tracing::error!(%incident, "{cause}");
        let mut error = Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "The board couldn't show this",
            "This is a bug in the board, not a problem with the trace. The terminal it runs in has the details.",
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

    pub(crate) fn close_to(mut self, runs: Vec<Arc<Summary>>) -> Self {
        self.0.close = runs;
        self
    }

    pub(crate) fn link(mut self, text: &str, href: String) -> Self {
        self.0.links.push((text.to_owned(), href));
        self
    }

    /// Makes the page load the run when it appears.
    pub(crate) fn awaiting(mut self, key: &str) -> Self {
        self.0.awaited = Some(key.to_owned());
        self
    }

    /// Omits the directories of this machine, because the client may be another site or a stranger.
    pub(crate) fn for_strangers(mut self) -> Self {
        self.0.outside = true;
        self
    }

    /// Builds the response: a problem document for the API, or else a page.
    pub(crate) fn respond(self, state: &AppState, api: bool) -> Response {
        let mut response = if api {
            self.0.problem()
        } else {
            self.0.page(state)
        };
        *response.status_mut() = self.0.status;
        let more = match self.0.status {
            StatusCode::METHOD_NOT_ALLOWED => Some((ALLOW, "GET, HEAD")),
            // A starting board recognises another one by this realm.
            StatusCode::UNAUTHORIZED => Some((WWW_AUTHENTICATE, "Bearer realm=\"board\"")),
            _ => None,
        };
        if let Some((name, value)) = more {
            response
                .headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

/// Passes the error from the handler to [`show`].
impl IntoResponse for WebError {
    fn into_response(self) -> Response {
        let mut response = self.0.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Turns handler errors into problem documents for programs and pages for people.
pub(crate) async fn show(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let api = is_api_path(request.uri().path());
    let mut response = next.run(request).await;
    match response.extensions_mut().remove::<WebError>() {
        Some(error) => error.respond(&state, api),
        None => response,
    }
}

impl Refusal {
    /// Returns the title with the subject's name.
    fn named_title(&self) -> String {
        match &self.thing {
            Some(thing) => format!("{} {thing}", self.title),
            None => self.title.clone(),
        }
    }

    fn problem(&self) -> Response {
        let problem = Problem {
            r#type: "about:blank",
            title: self.named_title(),
            status: self.status.as_u16(),
            detail: &self.detail,
            hints: &self.hints,
            incident: self.incident.as_deref(),
        };
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
        let shell = Shell {
            title: format!("{} {}", self.status.as_u16(), self.named_title()),
            root: if self.outside {
                String::new()
            } else {
                crate::page::runs::handler::shown_roots(state)
            },
            stream: pulse.as_ref().map(|_| "/events".to_owned()),
            revision,
            boot: state.boot.to_string(),
            ..Shell::default()
        };
        match (ErrorPage {
            shell,
            pulse,
            error: self,
        })
        .render()
        {
            Ok(html) => Html(html).into_response(),
            Err(error) => format!("{} {}: {error}", self.status, self.title).into_response(),
        }
    }
}

/// Responds to a panic in a handler. The panic is a bug of the board, and the server continues.
#[expect(
    clippy::needless_pass_by_value,
    reason = "CatchPanicLayer requires this signature"
)]
pub(crate) fn panicked(cause: Box<dyn Any + Send>) -> HttpResponse<axum::body::Body> {
    let words = cause
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| cause.downcast_ref::<&str>().map(ToString::to_string));
    let error = WebError::fault(&words.unwrap_or_else(|| "panic without a message".to_owned()));
    let mut response = error.0.problem();
    *response.status_mut() = error.0.status;
    response
}

#[cfg(test)]
mod tests {
    use crate::page::error::*;
    use crate::page::tests::{HOSTILE, check_page};

    fn render(error: &WebError, shell: Shell, pulse: Option<Pulse>) -> String {
        ErrorPage {
            shell,
            pulse,
            error: &error.0,
        }
        .render()
        .unwrap()
    }

    #[test]
    fn an_error_page_leads_on() {
        let error = WebError::not_found("No run named", "")
            .named("retri")
            .link("Search", href::runs("retri"));
        let tags = check_page(&render(&error, Shell::default(), None));
        assert!(tags.iter().any(
            |tag| tag.get("class") == Some("btn main") && tag.get("href") == Some("/?q=retri")
        ));
        assert!(
            tags.iter()
                .any(|tag| tag.get("class") == Some("btn") && tag.get("href") == Some("/"))
        );
        assert!(
            tags.iter()
                .all(|tag| tag.get("data-live").is_none() && tag.get("data-stream").is_none())
        );
    }

    #[test]
    fn hostile_text_stays_text() {
        let text = || HOSTILE.to_owned();
        let error = WebError::new(StatusCode::UNAUTHORIZED, HOSTILE, HOSTILE)
            .named(HOSTILE)
            .hint(HOSTILE);
        let error = error.link(HOSTILE, href::runs(HOSTILE));
        let shell = Shell {
            title: text(),
            root: text(),
            stream: Some(text()),
            boot: text(),
            ..Shell::default()
        };
        let html = render(
            &error,
            shell,
            Some(Pulse {
                url: text(),
                say: Some(text()),
                ..Pulse::default()
            }),
        );
        assert!(
            check_page(&html)
                .iter()
                .any(|tag| tag.get("id") == Some("token"))
        );
        assert!(
            !html.contains("alert(1)</script>") && !html.contains("<hx-partial"),
            "{html}"
        );
    }
}
