//! Says what can't be shown, and why. Handlers return a [`WebError`], which
//! [`error_page`](super::error_page) turns into a response.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::format::visible_line;
use crate::analysis::summary::Summary;

/// The result of a handler.
pub(crate) type Answer = Result<Response, WebError>;

/// An error response.
///
/// Boxed, because it's the rare half of many results.
#[derive(Debug, Clone)]
pub(crate) struct WebError(pub(super) Box<Refusal>);

#[derive(Debug, Clone, Default)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    /// The error, up to the name of the subject: `No run named`.
    pub(super) title: String,
    /// The subject, as requested.
    pub(super) thing: Option<String>,
    pub(super) detail: String,
    pub(super) hints: Vec<String>,
    /// Existing runs with similar names.
    pub(super) close: Vec<Arc<Summary>>,
    /// Links to continue with, as text and address. The first is the main one.
    pub(super) links: Vec<(String, String)>,
    /// The key of a run that may appear later.
    pub(super) awaited: Option<String>,
    /// Whether the response may go to someone who must learn nothing about this machine.
    pub(super) outside: bool,
    /// The id of the log entry, for faults of board.
    pub(super) incident: Option<String>,
}

/// An error document (RFC 9457) with hints.
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

    /// Creates an error for a fault of board. Logs `cause` and shows the reader an id to find
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
            "board couldn't show this",
            "This is a bug in board, not a problem with the trace. The terminal it runs in has the details.",
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
}

/// Passes the error from the handler to [`show`](super::error_page::show).
impl IntoResponse for WebError {
    fn into_response(self) -> Response {
        let mut response = self.0.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl Refusal {
    /// Returns the title with the subject's name.
    pub(super) fn named_title(&self) -> String {
        match &self.thing {
            Some(thing) => format!("{} {thing}", self.title),
            None => self.title.clone(),
        }
    }

    pub(super) fn problem(&self) -> Response {
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
}
