//! The run table as JSON.

use axum::extract::State;

use crate::analysis::query::Query;
use crate::analysis::select::select;
use crate::page::app::AppState;
use crate::page::error::{Answer, WebError};
use crate::page::extract::Params;
use crate::page::json::json;
use crate::page::runs::handler::{listed, sort};
use crate::page::runs::json::{RunRow, Runs, Skipped};

/// So many runs are given unless the request says otherwise.
const DEFAULT_LIMIT: usize = 100;

/// `GET /api/runs`
pub(crate) async fn runs(State(state): State<AppState>, params: Params) -> Answer {
    let (limit, query, after) = (params.limit(DEFAULT_LIMIT)?, Query::parse(params.text("q")), params.text("after"));
    let revision = *state.library.revision().borrow();
    let runs = listed(&state);
    let selection = select(&runs, &query, sort(&params)?, limit, Some(after).filter(|after| !after.is_empty()));
    if selection.after_ignored {
        let detail = "after takes what next held in the answer before.";
        return Err(WebError::bad_request("Not a cursor:", detail).named(after));
    }
    let skipped = state.library.status().roots.into_iter().flat_map(|root| root.skipped);
    json(&Runs {
        revision,
        total: selection.total,
        matched: selection.matched,
        runs: selection.rows.iter().map(|row| RunRow(&row.summary)).collect(),
        next: selection.next,
        ignored: query.ignored,
        skipped: skipped.map(|skipped| Skipped { path: skipped.path, reason: skipped.reason }).collect(),
    })
}
