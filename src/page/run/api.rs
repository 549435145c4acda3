//! Serves a run as JSON: its facts, why it stopped, and its files in one document.

use std::io::{self, Write};
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use crate::analysis::files::document as changed_files;
use crate::analysis::run_document;
use crate::analysis::why::why as explain;
use crate::live::Run;
use crate::model::TraceFile;
use crate::page::answer::json;
use crate::page::app::AppState;
use crate::page::error::Answer;
use crate::page::extract::RunParam;
use crate::page::params::Params;
use crate::page::run::handler::with_view;
use crate::page::run::json_raw;

/// `GET /api/runs/{key}`
pub(crate) async fn run(State(state): State<AppState>, RunParam(run): RunParam) -> Answer {
    with_view(&state, &run, |view| {
        let manifest = view.lines.manifest().ok();
        json(&run_document::run(
            view.summary,
            view.index,
            manifest.as_deref(),
        ))
    })
    .await
}

/// `GET /api/runs/{key}/why`
pub(crate) async fn why(State(state): State<AppState>, RunParam(run): RunParam) -> Answer {
    with_view(&state, &run, |view| {
        json(&explain(view.summary, view.index, view.lines))
    })
    .await
}

/// Files per response by default.
const DEFAULT_FILES: usize = 200;

/// `GET /api/runs/{key}/files`
pub(crate) async fn files(
    State(state): State<AppState>,
    RunParam(run): RunParam,
    params: Params,
) -> Answer {
    let (limit, after) = (params.limit(DEFAULT_FILES)?, params.number("after")?);
    let (turn, lists) = (state.walk().await?, Arc::clone(&state.lists));
    with_view(&state, &run, move |view| {
        let _turn = turn;
        let of_run = (view.index, view.lines);
        json(&changed_files(&lists.of(view), of_run, after, limit))
    })
    .await
}

/// `GET /api/runs/{key}/raw`: streams the files line by line, since they may not fit in memory.
pub(crate) async fn raw(State(state): State<AppState>, RunParam(run): RunParam) -> Answer {
    let body = crate::page::download::body(&state, move |out| write_raw(&run, out)).await?;
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

fn write_raw(run: &Arc<Run>, mut out: &mut dyn Write) -> io::Result<()> {
    let manifest = run.whole_manifest().ok();
    let lines = |file| run.dir().read_lines(file).ok();
    json_raw::write_raw(
        &mut out,
        manifest,
        lines(TraceFile::Steps),
        lines(TraceFile::Events),
    )
}
