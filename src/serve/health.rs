//! Does the board run, and how far has it looked? For whoever watches over it.

use axum::extract::{OriginalUri, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use schemars::JsonSchema;
use serde::Serialize;

use crate::live::Mode;
use crate::page::app::AppState;
use crate::page::error::{Answer, WebError};
use crate::page::json::json;

/// How the board does.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Health {
    status: &'static str,
    runs: usize,
    watch: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    watch_reason: Option<String>,
    scan_age_ms: u128,
    indexing: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    stalled: Option<String>,
    /// How often the thread that looks for news failed and was started again.
    restarts: usize,
}

/// `GET /healthz`
pub(crate) async fn healthz(State(state): State<AppState>) -> Answer {
    // Before the status: runs that come in between are then counted among those that are still to be read.
    let runs = state.library.runs().len();
    let status = state.library.status();
    let (watch, watch_reason) = match status.mode {
        Mode::Native => ("native", None),
        Mode::Poll(why) => ("poll", Some(why)),
    };
    let health = Health {
        status: if status.stalled.is_some() { "stalled" } else { "ok" },
        runs,
        watch,
        watch_reason,
        scan_age_ms: status.looked.elapsed().as_millis(),
        // Before the first look nobody knows how many there are.
        indexing: if status.first_look_done { status.indexing } else { status.indexing.max(1) },
        stalled: status.stalled,
        restarts: status.restarts,
    };
    let code = if health.stalled.is_some() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    json(&health).map(|health| (code, health).into_response())
}

/// Any address below `/api` that is none.
pub(crate) async fn not_found(OriginalUri(uri): OriginalUri) -> WebError {
    WebError::not_found("There is nothing at", "/api/openapi.json lists the addresses of the API.").named(uri.path())
}
