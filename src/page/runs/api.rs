//! Serves the run table as JSON.

use axum::extract::State;

use crate::analysis::query::Query;
use crate::analysis::select::{Selection, Window, groups, select};
use crate::live::SkippedTotal;
use crate::page::app::AppState;
use crate::page::error::{Answer, WebError};
use crate::page::extract::Params;
use crate::page::json::json;
use crate::page::runs::fill::group;
use crate::page::runs::handler::{group as grouped, listed, sort};
use crate::page::runs::json::{GroupRow, RunRow, Runs, Skipped};

/// Runs per response by default.
const DEFAULT_LIMIT: usize = 100;
/// Skipped files and directories that are listed, at most. There may be many more of them than
/// runs.
const MAX_SKIPPED: usize = 100;

/// `GET /api/runs`
pub(crate) async fn runs(State(state): State<AppState>, params: Params) -> Answer {
    let (limit, query, after) = (
        params.limit(DEFAULT_LIMIT)?,
        Query::parse(params.text("q")),
        params.text("after"),
    );
    let revision = *state.library.revision().borrow();
    let runs = listed(&state, &query);
    let (sort, after_key) = (
        sort(&params)?,
        Some(after).filter(|after| !after.is_empty()),
    );
    let window = Window {
        limit,
        after: after_key,
        rows: group::ROWS,
    };
    let groups = grouped(&params)?.map(|by| groups(&runs, &query, by, sort, window));
    let selection = match &groups {
        Some(groups) => Selection {
            rows: Vec::new(),
            ..groups.selection()
        },
        None => select(&runs, &query, sort, limit, after_key),
    };
    if selection.after_ignored {
        let detail = "after must be the value of next from the previous response.";
        return Err(WebError::bad_request("Invalid cursor:", detail).named(after));
    }
    let roots = state.library.status().roots;
    let skipped = roots
        .iter()
        .flat_map(|root| root.skipped.iter().map(Skipped::from));
    let mut skipped_total = SkippedTotal::default();
    roots
        .iter()
        .for_each(|root| skipped_total.add(&root.skipped_total));
    // Objects that a store didn't deliver are neither directories nor runs.
    let stores = || roots.iter().filter_map(|root| root.mirror.as_ref());
    let left_out = stores().flat_map(|store| store.odd.iter());
    let left_out = left_out.map(|odd| Skipped {
        path: odd.key.clone(),
        reason: odd.reason.clone(),
        kind: "object",
    });
    json(&Runs {
        revision,
        total: selection.total,
        matched: selection.matched,
        runs: selection
            .rows
            .iter()
            .map(|row| RunRow(&row.summary))
            .collect(),
        next: selection.next,
        groups: groups
            .as_ref()
            .map(|groups| groups.groups.iter().map(GroupRow::new).collect()),
        groups_total: groups.as_ref().map(|groups| groups.count),
        copies: state.library.runs().len() - state.library.counted().len(),
        ignored: query.ignored,
        skipped: skipped.chain(left_out).take(MAX_SKIPPED).collect(),
        skipped_total: skipped_total.all() + stores().map(|store| store.odd_total).sum::<usize>(),
        skipped_files: skipped_total.files,
    })
}
