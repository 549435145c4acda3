//! The state after a step as JSON. As a page it is a tab of its run.

use axum::extract::State;

use crate::page::app::AppState;
use crate::page::error::Answer;
use crate::page::extract::StepParam;
use crate::page::json::json;
use crate::page::run::handler::with_lens;
use crate::page::state::json as document;

/// `GET /api/runs/{key}/state/{n}`
pub(crate) async fn api(State(state): State<AppState>, StepParam(run, n): StepParam) -> Answer {
    with_lens(&state, &run, move |lens| json(&document::state(lens.index, lens.lines, n))).await
}
