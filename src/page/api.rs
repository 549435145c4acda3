//! The JSON side: the same facts as the pages, in the shapes that scripts rely on.

use std::io::{self, Write};
use std::sync::Arc;

use axum::extract::{OriginalUri, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::analysis::query::Query;
use crate::analysis::select::select;
use crate::live::{Mode, Run};
use crate::model::TraceFile;
use crate::page::app::AppState;
use crate::page::error::WebError;
use crate::page::extract::{Params, RunParam, StepParam};
use crate::page::json;
use crate::page::run::handler::with_lens;
use crate::page::runs::handler::{listed, sort};

/// So many rows, steps or events are given unless the request says otherwise, and at most.
const DEFAULT_LIMIT: usize = 200;
const MAX_LIMIT: usize = 10_000;

pub(crate) use crate::page::app::json;

fn answer(state: &AppState, result: Result<Response, WebError>) -> Response {
    result.unwrap_or_else(|error| error.respond(state, true))
}

fn limit(params: &Params, default: usize) -> Result<usize, WebError> {
    match params.number("limit")? {
        None => Ok(default),
        Some(0) => Err(WebError::bad_request("Too small a limit:", "limit takes a whole number from 1 on.").named("0")),
        Some(limit) => Ok(limit.min(MAX_LIMIT)),
    }
}

/// `GET /api/runs`
pub(crate) async fn runs(State(state): State<AppState>, params: Params) -> Response {
    answer(&state, list(&state, &params))
}

fn list(state: &AppState, params: &Params) -> Result<Response, WebError> {
    let (limit, query, after) = (limit(params, 100)?, Query::parse(params.text("q")), params.text("after"));
    let revision = *state.library.revision().borrow();
    let runs = listed(state);
    let selection = select(&runs, &query, sort(params)?, limit, Some(after).filter(|after| !after.is_empty()));
    if selection.after_ignored {
        let detail = "after takes what next held in the answer before.";
        return Err(WebError::bad_request("Not a cursor:", detail).named(after));
    }
    let skipped = state.library.status().roots.into_iter().flat_map(|root| root.skipped);
    json(&json::Runs {
        revision,
        total: selection.total,
        matched: selection.matched,
        runs: selection.rows.iter().map(|row| json::RunRow(&row.summary)).collect(),
        next: selection.next,
        ignored: query.ignored.iter().map(json::Ignored::from).collect(),
        skipped: skipped.map(|skipped| json::Skipped { path: skipped.path, reason: skipped.reason }).collect(),
    })
}

/// `GET /api/runs/{key}`
pub(crate) async fn run(State(state): State<AppState>, RunParam(run): RunParam) -> Response {
    let shown = with_lens(&state, &run, |lens| {
        let manifest = lens.lines.manifest().ok();
        json(&json::run(lens.summary, lens.index, manifest.as_deref()))
    });
    answer(&state, shown.await.and_then(|shown| shown))
}

/// `GET /api/runs/{key}/steps`
pub(crate) async fn steps(State(state): State<AppState>, RunParam(run): RunParam, params: Params) -> Response {
    let asked = limit(&params, DEFAULT_LIMIT).and_then(|limit| Ok((limit, params.number("after")?)));
    let (limit, after) = match asked {
        Ok(asked) => asked,
        Err(error) => return error.respond(&state, true),
    };
    let shown = with_lens(&state, &run, move |lens| json(&json::step_heads(lens.index, after, limit)));
    answer(&state, shown.await.and_then(|shown| shown))
}

/// `GET /api/runs/{key}/steps/{n}`
pub(crate) async fn step(State(state): State<AppState>, StepParam(run, n): StepParam) -> Response {
    let shown = with_lens(&state, &run, move |lens| {
        let gone =
            |why: String| WebError::not_found("This step cannot be read now", &format!("The system says: {why}."));
        let span = lens.index.steps().get(n).map(|step| step.span).unwrap_or_default();
        let line = lens.lines.line(TraceFile::Steps, span).map_err(gone)?;
        let events = lens.index.events().get(json::events_of(lens.index, n)).unwrap_or_default();
        let events: Result<Vec<_>, _> =
            events.iter().map(|event| lens.lines.line(TraceFile::Events, event.span)).collect();
        let step = json::step(lens.index, n, &line, &events.map_err(gone)?).map(|step| json(&step));
        step.unwrap_or_else(|| Err(gone("the files changed".to_owned())))
    });
    answer(&state, shown.await.and_then(|shown| shown))
}

/// `GET /api/runs/{key}/scores`
pub(crate) async fn scores(State(state): State<AppState>, RunParam(run): RunParam) -> Response {
    let shown = with_lens(&state, &run, |lens| {
        let line = |n: usize| lens.lines.line(TraceFile::Steps, lens.index.steps().get(n)?.span).ok();
        json(&json::scores(lens.index, line))
    });
    answer(&state, shown.await.and_then(|shown| shown))
}

/// `GET /api/runs/{key}/state/{n}`
pub(crate) async fn state(State(state): State<AppState>, StepParam(run, n): StepParam) -> Response {
    let shown = with_lens(&state, &run, move |lens| json(&json::state(lens.index, lens.lines, n)));
    answer(&state, shown.await.and_then(|shown| shown))
}

/// `GET /api/runs/{key}/why`
pub(crate) async fn why(State(state): State<AppState>, RunParam(run): RunParam) -> Response {
    let shown = with_lens(&state, &run, |lens| json(&json::why(lens.summary, lens.index, lens.lines)));
    answer(&state, shown.await.and_then(|shown| shown))
}

/// `GET /api/runs/{key}/raw`: written while it is read, a line at a time, since the files may be larger than the memory.
pub(crate) async fn raw(State(state): State<AppState>, RunParam(run): RunParam) -> Response {
    let body = crate::page::download::body(&state, move |out| write_raw(&run, out)).await;
    answer(&state, body.map(|body| ([(CONTENT_TYPE, "application/json")], body).into_response()))
}

fn write_raw(run: &Arc<Run>, mut out: &mut dyn Write) -> io::Result<()> {
    let manifest = run.whole_manifest().ok().flatten();
    let lines = |file| run.dir().read_lines(file).ok();
    json::write_raw(&mut out, manifest.as_deref(), lines(TraceFile::Steps), lines(TraceFile::Events))
}

#[derive(Debug, Serialize)]
struct Health {
    status: &'static str,
    runs: usize,
    watch: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    watch_reason: Option<String>,
    scan_age_ms: u128,
    indexing: usize,
}

/// `GET /healthz`
pub(crate) async fn healthz(State(state): State<AppState>) -> Response {
    // Before the status: runs that come in between are then counted among those that are still to be read.
    let runs = state.library.runs().len();
    let status = state.library.status();
    let (watch, watch_reason) = match status.mode {
        Mode::Native => ("native", None),
        Mode::Poll(why) => ("poll", Some(why)),
    };
    let health = Health {
        status: "ok",
        runs,
        watch,
        watch_reason,
        scan_age_ms: status.looked.elapsed().as_millis(),
        // Before the first look nobody knows how many there are.
        indexing: if status.first_look_done { status.indexing } else { status.indexing.max(1) },
    };
    answer(&state, json(&health))
}

/// Any address below `/api` that is none.
pub(crate) async fn not_found(State(state): State<AppState>, OriginalUri(uri): OriginalUri) -> Response {
    WebError::not_found("There is nothing at", "The README lists the addresses of the API.")
        .named(uri.path())
        .respond(&state, true)
}
