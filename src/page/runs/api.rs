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
/// So many directories that are no runs are named; there may be many more of them than of runs.
const MAX_SKIPPED: usize = 100;

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
    let roots = state.library.status().roots;
    let skipped = roots.iter().flat_map(|root| root.skipped.iter());
    json(&Runs {
        revision,
        total: selection.total,
        matched: selection.matched,
        runs: selection.rows.iter().map(|row| RunRow(&row.summary)).collect(),
        next: selection.next,
        ignored: query.ignored,
        skipped: skipped
            .take(MAX_SKIPPED)
            .map(|skipped| Skipped { path: skipped.path.clone(), reason: skipped.reason.clone() })
            .collect(),
        skipped_total: roots.iter().map(|root| root.skipped.len()).sum(),
    })
}
