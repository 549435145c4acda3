//! The run table, and what is said about addresses that lead nowhere.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::{OriginalUri, State};
use axum::response::Response;

use super::AppState;
use super::error::WebError;
use super::extract::Params;
use crate::analysis::summary::Summary;
use crate::view::error::CloseName;
use crate::view::href;

/// The time now, in microseconds since the epoch.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// The roots as the person typed them.
pub(super) fn shown_roots(state: &AppState) -> String {
    let roots = state.library.status().roots;
    roots.iter().map(|root| root.path.to_string_lossy().into_owned()).collect::<Vec<_>>().join(", ")
}

/// What is said where no run has the key: the ones with the most similar names, and a page that waits for the run.
pub(super) fn no_such_run(state: &AppState, key: &str) -> WebError {
    let mut close: Vec<(usize, std::sync::Arc<Summary>)> =
        state.library.runs().iter().map(|run| (difference(key, run.key().as_str()), run.summary())).collect();
    close.sort_by_key(|(difference, _)| *difference);
    let names =
        close.iter().take(3).filter(|(difference, _)| *difference <= key.len().max(8)).map(|(_, summary)| CloseName {
            name: summary.key.to_string(),
            href: href::run(summary.key.as_str()),
            note: summary.verdict.sentence.clone(),
        });
    let detail = "No directory of that name below the root holds a trace. If a run of that name is about to start, this page turns into it.";
    WebError::not_found("There is no run called", detail).named(key).close_to(names.collect()).awaiting(key)
}

/// How different two names are: the bytes left after their common start and end.
fn difference(a: &str, b: &str) -> usize {
    let start = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let rest = a.len().min(b.len()) - start;
    let end = a.bytes().rev().zip(b.bytes().rev()).take(rest).take_while(|(a, b)| a == b).count();
    a.len().max(b.len()) - start - end
}

/// Any address that is none.
pub(super) async fn not_found(State(state): State<AppState>, OriginalUri(uri): OriginalUri) -> Response {
    WebError::not_found("There is no page at", "The address may be mistyped, or from another version of the board.")
        .named(uri.path())
        .respond(&state, false)
}
