//! Serves the state after a step as JSON, and the history of one value in it.
//!
//! This file needs the view of a run. The handlers of a run need the tab, which is therefore in
//! another file.

use axum::extract::State;

use crate::analysis::format::{capitalised, visible_line};
use crate::analysis::{self, state::its_keys};
use crate::page::answer::json;
use crate::page::app::AppState;
use crate::page::error::{Answer, WebError};
use crate::page::extract::StepParam;
use crate::page::params::Params;
use crate::page::run::handler::with_view;

/// `GET /api/runs/{key}/state/{n}`
pub(crate) async fn api(State(state): State<AppState>, StepParam(run, n): StepParam) -> Answer {
    with_view(&state, &run, move |view| {
        json(&analysis::state::document(view.index, view.lines, n))
    })
    .await
}

/// `GET /api/runs/{key}/state/{n}/history`
pub(crate) async fn history(
    State(state): State<AppState>,
    StepParam(run, n): StepParam,
    params: Params,
) -> Answer {
    with_view(&state, &run, move |view| {
        let path = params.text("key");
        if path.is_empty() {
            let detail =
                "`key` must be a state key or the path of a value inside one, such as `plan[0].status`.";
            return Err(WebError::bad_request("Missing parameter: key", detail));
        }
        let history =
            analysis::state::history(view.index, view.lines, n, path).map_err(|keys| {
                let title = format!("The state after step {n} has no key");
                let keys = capitalised(&its_keys(&keys));
                WebError::not_found(&title, &format!("{}.", visible_line(&keys))).named(path)
            })?;
        json(&history)
    })
    .await
}
