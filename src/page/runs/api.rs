//! Serves the run table as JSON.

use std::collections::BTreeMap;

use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::columns::RunRow;
use crate::analysis::query::Ignored;
use crate::analysis::select::{Group, Selection, Window, groups, select};
use crate::analysis::summary::Summary;
use crate::live::{Skipped, SkippedTotal};
use crate::page::answer::json;
use crate::page::app::AppState;
use crate::page::error::{Answer, WebError};
use crate::page::params::Params;
use crate::page::runs::fill::list::ROWS;
use crate::page::runs::handler::{group as grouped, listed, sort};

/// A page of the run list.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(bound = "T: AsRef<Summary>")]
#[schemars(rename = "Runs", bound = "T: AsRef<Summary>")]
pub(crate) struct Runs<'a, T> {
    pub revision: u64,
    pub total: usize,
    /// The number of runs that the query matches.
    pub matched: usize,
    pub runs: Vec<RunRow<'a>>,
    /// The value of `after` for the next page.
    pub next: Option<String>,
    /// With `group`: a page of groups, in place of `runs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<Group<'a, T>>>,
    /// The number of groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups_total: Option<usize>,
    /// The number of duplicates of listed runs: files with the same records. They aren't counted as
    /// runs.
    pub copies: usize,
    /// Terms of the query that weren't understood. They don't filter.
    pub ignored: Vec<Ignored>,
    /// The first skipped items: files that look like traces but aren't read, directories without a
    /// run, and objects that a store didn't deliver.
    pub skipped: Vec<Skipped>,
    /// The number of skipped items.
    pub skipped_total: usize,
    /// The number of skipped files, by reason.
    pub skipped_files: BTreeMap<String, usize>,
}

/// Runs per response by default.
const DEFAULT_LIMIT: usize = 100;
/// Maximum number of skipped files and directories that are listed. There may be many more of them than
/// runs.
const MAX_SKIPPED: usize = 100;

/// `GET /api/runs`
pub(crate) async fn runs(State(state): State<AppState>, params: Params) -> Answer {
    let (limit, query, after) = (
        params.limit(DEFAULT_LIMIT)?,
        state.query(params.text("q")),
        params.text("after"),
    );
    let revision = *state.library.revision().borrow();
    let (runs, copies) = listed(&state, &query);
    let (sort, after_key) = (
        sort(&params)?,
        Some(after).filter(|after| !after.is_empty()),
    );
    let window = Window {
        limit,
        after: after_key,
        rows: ROWS,
    };
    let groups =
        grouped(&params)?.map(|by| groups(&runs, &query, by, sort, window, &state.clock()));
    let selection = match &groups {
        Some(groups) => Selection {
            rows: Vec::new(),
            ..groups.selection()
        },
        None => select(&runs, &query, sort, limit, after_key),
    };
    if selection.after_ignored {
        let detail = "`after` must be the value of `next` from the previous response.";
        return Err(WebError::bad_request("Invalid cursor:", detail).named(after));
    }
    let roots = state.library.status().roots;
    let skipped = roots.iter().flat_map(|root| root.skipped.iter());
    let mut skipped_total = SkippedTotal::default();
    roots
        .iter()
        .for_each(|root| skipped_total.add(&root.skipped_total));
    // Objects that a store didn't deliver are neither directories nor runs.
    let stores = || roots.iter().filter_map(|root| root.mirror.as_ref());
    let left_out = stores().flat_map(|store| store.odd.iter());
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
        groups_total: groups.as_ref().map(|groups| groups.count),
        groups: groups.map(|groups| groups.groups),
        copies,
        ignored: query.ignored,
        skipped: skipped.chain(left_out).take(MAX_SKIPPED).cloned().collect(),
        skipped_total: skipped_total.all() + stores().map(|store| store.odd_total).sum::<usize>(),
        skipped_files: skipped_total.files,
    })
}
