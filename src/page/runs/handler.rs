//! Serves the run table, and the error pages for unknown addresses.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{OriginalUri, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::IntoResponse;

use crate::analysis::columns::{COLUMNS, Column, Shown, chosen, in_order};
use crate::analysis::query::{Query, Sort};
use crate::analysis::select::{Grouping, is_cursor, select};
use crate::live::Mode;
use crate::page::answer::html;
use crate::page::app::AppState;
use crate::page::blocking::blocking;
use crate::page::error::{Answer, WebError};
use crate::page::params::Params;
use crate::page::part::href;
use crate::page::runs::csv::{fields, write_csv};
use crate::page::runs::fill::list::{ListContext, Listed, MAX_ROWS, Root, Store, WINDOW, Watch};
use crate::page::runs::fill::{page, pulse};
use crate::page::shell::now;

/// `GET /`
pub(crate) async fn runs(State(state): State<AppState>, params: Params) -> Answer {
    show(state, params, |context, runs| {
        if let Some(after) = context
            .after
            .as_deref()
            .filter(|after| !is_cursor(after, context.sort))
        {
            let detail = "The link is incomplete, or it belongs to another sort order.";
            let error = WebError::bad_request("Can't continue the list at", detail).named(after);
            return Err(error.link("First page", href::runs(&context.query)));
        }
        html(&page(context, runs))
    })
    .await
}

/// `GET /live/runs`
pub(crate) async fn runs_pulse(State(state): State<AppState>, params: Params) -> Answer {
    show(state, params, |context, runs| html(&pulse(context, runs))).await
}

/// `GET /runs.csv`: serves every matching run, with the chosen columns.
pub(crate) async fn runs_csv(State(state): State<AppState>, params: Params) -> Answer {
    let (sort, cols) = (sort(&params)?, cols(&params)?);
    let of = state.clone();
    let body = crate::page::download::body(&state, move |out| {
        let query = of.query(params.text("q"));
        let (runs, _) = listed(&of, &query);
        let found = select(&runs, &query, sort, usize::MAX, None);
        let columns = if cols.is_empty() {
            fields()
        } else {
            cols.iter().map(|(column, _)| *column).collect()
        };
        write_csv(
            out,
            &columns,
            found.rows.iter().map(|listed| &*listed.summary),
        )
    });
    let headers = [
        (CONTENT_TYPE, "text/csv; charset=utf-8"),
        (CONTENT_DISPOSITION, "attachment; filename=\"runs.csv\""),
    ];
    Ok((headers, body.await?).into_response())
}

async fn show(
    state: AppState,
    params: Params,
    make: impl FnOnce(&ListContext, &[Listed]) -> Answer + Send + 'static,
) -> Answer {
    blocking(move || {
        // Read the revision before the runs. A change in between is then sent twice, but never lost.
        let revision = *state.library.revision().borrow();
        let query = state.query(params.text("q"));
        let (runs, copies) = listed(&state, &query);
        let duplicates = if query.asks_for_copies() { copies } else { 0 };
        let total = runs.len() - duplicates;
        let context = context(&state, &params, revision, total, duplicates)?;
        make(&context, &runs)
    })
    .await
    .flatten()
}

/// Builds the inputs of the page, which lists `total` runs and `duplicates` of them.
fn context(
    state: &AppState,
    params: &Params,
    revision: u64,
    total: usize,
    duplicates: usize,
) -> Result<ListContext, WebError> {
    let status = state.library.status();
    let read_at = Instant::now();
    let stores = status
        .roots
        .iter()
        .filter_map(|root| {
            Some(Store {
                status: root.mirror.clone()?,
                read_at,
            })
        })
        .collect();
    let roots = status.roots.into_iter().map(|root| Root {
        shown: root.path.to_string_lossy().into_owned(),
        fault: root.fault,
        skipped_total: root.skipped_total,
        skipped: root.skipped,
    });
    let now = now();
    let looked = i64::try_from(status.looked.elapsed().as_micros()).unwrap_or_default();
    let elsewhere = state.library.elsewhere().iter();
    Ok(ListContext {
        roots: roots.collect(),
        stores,
        elsewhere: elsewhere
            .map(|place| (place.tool, place.dir.to_string_lossy().into_owned()))
            .collect(),
        watch: match (status.stalled, status.mode) {
            (Some(why), _) => Watch::Stalled(why),
            (None, Mode::Native) => Watch::Native,
            (None, Mode::Poll(why)) => Watch::Poll(why),
        },
        duplicates,
        looked: status.first_look_done.then_some(now - looked),
        indexing: (status.indexing > 0).then(|| (total.saturating_sub(status.indexing), total)),
        now,
        zone: state.zone.clone(),
        query: params.text("q").to_owned(),
        sort: sort(params)?,
        group: group(params)?,
        limit: params.number("limit")?.unwrap_or(WINDOW).clamp(1, MAX_ROWS),
        after: Some(params.text("after").to_owned()).filter(|after| !after.is_empty()),
        revision,
        boot: state.boot.to_string(),
        since: params.number("since")?.map(|since| since as u64),
        // The form of the selection tray uses `run`, like all pages that take several runs.
        marks: ["mark", "run"]
            .iter()
            .filter_map(|name| params.all(name))
            .flatten()
            .take(MAX_MARKS)
            .collect(),
        rows: Some(params.text("rows").to_owned()).filter(|rows| !rows.is_empty()),
        columns: params.text("columns").to_owned(),
        chosen: cols(params)?,
        views: Arc::clone(&state.views.views),
        marking: !params.text("marking").is_empty(),
    })
}

/// Maximum number of runs that can be marked.
const MAX_MARKS: usize = 50;

/// Returns the requested sort order.
///
/// # Errors
/// Returns an error if the field doesn't exist or can't be sorted by.
pub(crate) fn sort(params: &Params) -> Result<Sort, WebError> {
    let text = params.text("sort");
    if text.is_empty() {
        return Ok(Sort::default());
    }
    text.parse().map_err(|_: String| {
        let names = Sort::names();
        let detail = format!("Sort by one of: {names}. A leading - reverses the order.");
        // Some columns can't be sorted by.
        let title = match Column::find(text.trim_start_matches('-')) {
            Some(_) => "Can't sort by",
            None => "Unknown column",
        };
        WebError::bad_request(title, &detail).named(text)
    })
}

/// Returns what to group runs by, if anything.
///
/// # Errors
/// Returns an error if runs can't be grouped by it.
pub(crate) fn group(params: &Params) -> Result<Option<&'static Grouping>, WebError> {
    let text = params.text("group");
    if text.is_empty() {
        return Ok(None);
    }
    Grouping::find(text).map(Some).ok_or_else(|| {
        WebError::bad_request(
            "Can't group by",
            &format!("Group by one of: {}.", Grouping::names()),
        )
        .named(text)
    })
}

/// Returns the chosen columns. They are in one parameter, or in several if the form sent them.
///
/// # Errors
/// Returns an error for an unknown column.
fn cols(params: &Params) -> Result<Vec<Shown>, WebError> {
    let all = params.all("cols").unwrap_or_default();
    let names = all
        .iter()
        .flat_map(|names| names.split(','))
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let found = chosen(names).map(|mut columns| {
        // The form sends checkboxes in page order. An address can choose the order of the columns.
        if all.len() > 1 {
            in_order(&mut columns);
        }
        columns
    });
    found.map_err(|name| {
        let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
        let detail = format!(
            "`cols` must be a comma-separated list of: {}.",
            names.join(", ")
        );
        WebError::bad_request("Unknown column", &detail).named(name)
    })
}

/// Returns the runs to list, with the revisions that the list needs, and the number of duplicates.
/// A query for duplicates gets them too.
pub(crate) fn listed(state: &AppState, query: &Query) -> (Vec<Listed>, usize) {
    let listed = |run: &std::sync::Arc<crate::live::Run>| {
        // Read the revision before the summary, as above.
        let revision = run.revision_now();
        Listed {
            summary: run.summary(),
            revision,
            born: run.born(),
        }
    };
    let (runs, copies) = state.library.listed(query.asks_for_copies());
    (runs.iter().map(listed).collect(), copies)
}

/// Answers requests for unknown addresses.
pub(crate) async fn not_found(OriginalUri(uri): OriginalUri) -> WebError {
    WebError::not_found(
        "No page at",
        "The address may be mistyped, or from another version of board.",
    )
    .named(uri.path())
}
