//! The run table as JSON.

use axum::extract::State;

use crate::analysis::query::Query;
use crate::analysis::select::{Selection, Window, groups, select};
use crate::page::app::AppState;
use crate::page::error::{Answer, WebError};
use crate::page::extract::Params;
use crate::page::json::json;
use crate::page::runs::fill::group;
use crate::page::runs::handler::{group as grouped, listed, sort};
use crate::page::runs::json::{GroupRow, RunRow, Runs, Skipped};

/// So many runs are given unless the request says otherwise.
const DEFAULT_LIMIT: usize = 100;
/// So many directories that are no runs are named; there may be many more of them than of runs.
const MAX_SKIPPED: usize = 100;

/// `GET /api/runs`
pub(crate) async fn runs(State(state): State<AppState>, params: Params) -> Answer {
    let (limit, query, after) = (params.limit(DEFAULT_LIMIT)?, Query::parse(params.text("q")), params.text("after"));
    let revision = *state.library.revision().borrow();
    let runs = listed(&state);
    let (sort, after_key) = (sort(&params)?, Some(after).filter(|after| !after.is_empty()));
    let window = Window { limit, after: after_key, rows: group::ROWS };
    let groups = grouped(&params)?.map(|by| groups(&runs, &query, by, sort, window));
    let selection = match &groups {
        Some(groups) => Selection { rows: Vec::new(), ..groups.selection() },
        None => select(&runs, &query, sort, limit, after_key),
    };
    if selection.after_ignored {
        let detail = "after takes what next held in the answer before.";
        return Err(WebError::bad_request("Not a cursor:", detail).named(after));
    }
    let roots = state.library.status().roots;
    let skipped = roots.iter().flat_map(|root| root.skipped.iter());
    let skipped = skipped.map(|skipped| (&skipped.path, &skipped.reason));
    // What never came from a store is no directory, and no run either.
    let stores = || roots.iter().filter_map(|root| root.mirror.as_ref());
    let left_out = stores().flat_map(|store| store.odd.iter()).map(|odd| (&odd.key, &odd.reason));
    json(&Runs {
        revision,
        total: selection.total,
        matched: selection.matched,
        runs: selection.rows.iter().map(|row| RunRow(&row.summary)).collect(),
        next: selection.next,
        groups: groups.as_ref().map(|groups| groups.groups.iter().map(GroupRow::new).collect()),
        groups_total: groups.as_ref().map(|groups| groups.count),
        ignored: query.ignored,
        skipped: skipped
            .chain(left_out)
            .take(MAX_SKIPPED)
            .map(|(path, reason)| Skipped { path: path.clone(), reason: reason.clone() })
            .collect(),
        skipped_total: roots.iter().map(|root| root.skipped.len()).sum::<usize>()
            + stores().map(|store| store.odd_total).sum::<usize>(),
    })
}
