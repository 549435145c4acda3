//! What all requests of a client share, and how they get documents of the API.

use std::fmt;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::analysis::format::lowered;
use crate::model::json::Json;
use crate::page::app::AppState;
use crate::page::part::href;
use crate::serve::inside::Inside;

/// Why a call failed, and what to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) what: String,
    pub(super) because: String,
    pub(super) hints: Vec<String>,
}

impl Trouble {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            ..Self::default()
        }
    }

    pub(super) fn because(self, because: impl Into<String>) -> Self {
        Self {
            because: because.into(),
            ..self
        }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Reads an error of the API.
    fn of_problem(problem: &Json<'_>) -> Self {
        let text = |name| {
            problem
                .get(name)
                .and_then(Json::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let hints = problem
            .get("hints")
            .and_then(Json::as_array)
            .unwrap_or_default();
        let hints = hints
            .iter()
            .filter_map(Json::as_str)
            .map(str::to_owned)
            .collect();
        Self {
            what: as_message(&text("title")),
            because: text("detail"),
            hints,
        }
    }
}

/// Begins a title in lower case, as messages do, unless it begins with an acronym.
fn as_message(title: &str) -> String {
    match title.chars().nth(1).is_some_and(char::is_uppercase) {
        true => title.to_owned(),
        false => lowered(title),
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.what)?;
        if !self.because.is_empty() {
            write!(f, "\nbecause: {}", self.because)?;
        }
        self.hints
            .iter()
            .try_for_each(|hint| write!(f, "\nhint: {hint}"))
    }
}

/// A document of the API.
pub(super) type Document = Result<String, Trouble>;
/// What all requests share.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) state: AppState,
    inside: Inside,
    /// Until then requests wait for the runs to be indexed.
    settled_by: Instant,
}

impl Session {
    /// Creates a session about the runs of `state`. Its first requests wait at most `settle` until all are indexed.
    pub(super) fn new(state: AppState, settle: Duration) -> Self {
        Self {
            inside: Inside::new(state.clone()),
            state,
            settled_by: Instant::from_std(std::time::Instant::now() + settle),
        }
    }

    /// Waits until the runs are indexed, within limits. Returns how many aren't.
    pub(super) async fn settle(&self) -> usize {
        let mut news = self.state.library.revision();
        loop {
            let status = self.state.library.status();
            let unknown = if status.first_look_done {
                status.indexing
            } else {
                status.indexing.max(1)
            };
            if unknown == 0 && !status.uncompared || Instant::now() >= self.settled_by {
                return unknown;
            }
            // The end of a scan doesn't always change the revision.
            let soon = (Instant::now() + Duration::from_millis(20)).min(self.settled_by);
            let _ = timeout_at(soon, news.changed()).await;
        }
    }

    /// Gets a document of the API.
    pub(super) async fn get(&self, path: &str, query: &[(&str, &str)]) -> Document {
        match self.inside.get(&href::with_query(path, query)).await {
            Ok((true, body)) => Ok(body),
            Ok((false, body)) => Err(Json::parse(&body).map_or_else(
                || Trouble::new(body.clone()),
                |problem| Trouble::of_problem(&problem),
            )),
            Err(why) => Err(Trouble::new("can't return the result").because(why)),
        }
    }
}
