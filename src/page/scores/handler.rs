//! The scores of one run, as a page and as CSV, and of several runs over each other.

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

use crate::model::{Lines as _, TraceFile};
use crate::page::app::AppState;
use crate::page::blocking::blocking;
use crate::page::error::{Answer, WebError};
use crate::page::extract::{Params, RunParam};
use crate::page::json::json;
use crate::page::lens::Lens;
use crate::page::part::href;
use crate::page::run::RunPulse;
use crate::page::run::handler::{answer, crumb, ended, html, load_again, run_ended, shell, with_lens};
use crate::page::runs::handler as pages;
use crate::page::scores::csv::{CsvRun, write_csv};
use crate::page::scores::several as view;
use crate::page::scores::several::{Found, Wanted};
use crate::page::scores::{Query, ScoresPage};
use crate::page::shell::{Place, Pulse, Shell};

const TAB: &str = "scores";
const TITLE: &str = "Scores";

fn query(params: &Params) -> Result<Query, WebError> {
    let text = |name: &str| params.text(name).to_owned();
    Ok(Query { threshold: text("threshold"), critic: text("critic"), before: params.number("before")? })
}

/// `GET /runs/{key}/scores`
pub(crate) async fn page(State(state): State<AppState>, RunParam(run): RunParam, params: Params) -> Response {
    let shell = shell(&state, &run, String::new());
    let page = with_lens(&state, &run, move |lens| {
        let query = query(&params)?;
        html(&ScoresPage {
            pulse: next(lens, &query, shell.revision),
            shell: Shell { title: crate::page::run::head::content_title(lens, TITLE), ..shell },
            crumb: crumb(),
            head: crate::page::run::head::head_with_verdict(lens),
            tabs: crate::page::run::head::tabs(lens, TAB),
            form: crate::page::scores::fill::scores_form(lens, &query),
            body: crate::page::scores::fill::scores_body(lens, &query),
        })
    });
    answer(&state, page.await.and_then(|page| page))
}

/// The next pulse: what the page asks for, and which scores it has.
fn next(lens: &Lens<'_>, query: &Query, revision: u64) -> Pulse {
    let before = query.before.map(|before| before.to_string()).unwrap_or_default();
    let (since, has) = (revision.to_string(), crate::page::scores::fill::scores_mark(lens));
    let fields = [("threshold", query.threshold.as_str()), ("critic", &query.critic), ("before", &before)];
    let cursor = [("ended", ended(lens)), ("has", &has), ("since", &since)];
    let base = format!("{}/live", href::scores(lens.summary.key.as_str()));
    Pulse { url: href::with_query(&base, &[&fields[..], &cursor].concat()), revision, ..Pulse::default() }
}

/// `GET /runs/{key}/scores/live`: all but the form, which belongs to the reader.
pub(crate) async fn pulse(State(state): State<AppState>, run: Result<RunParam, WebError>, params: Params) -> Response {
    // The run went away while somebody looked at it; its page says so when it is loaded again.
    let Ok(RunParam(run)) = run else { return load_again() };
    // Taken before the index is read: what comes in between is asked for once more.
    let revision = run.revision_now();
    let pulse = with_lens(&state, &run, move |lens| {
        let query = query(&params)?;
        let say = run_ended(lens, params.text("ended"));
        // Most news of a run are events between two steps, and change no score.
        let stale = say.is_some() || params.text("has") != crate::page::scores::fill::scores_mark(lens);
        html(&RunPulse {
            pulse: Pulse { say, ..next(lens, &query, revision) },
            title: Some(crate::page::run::head::content_title(lens, TITLE).into()),
            head: Some(crate::page::run::head::head_with_verdict(lens)),
            tabs: Some(crate::page::run::head::tabs(lens, TAB)),
            scores: stale.then(|| crate::page::scores::fill::scores_body(lens, &query)),
            ..RunPulse::default()
        })
    });
    answer(&state, pulse.await.and_then(|pulse| pulse))
}

/// `GET /runs/{key}/scores.csv`: written while it is read, since every step's line is.
pub(crate) async fn csv(State(state): State<AppState>, RunParam(run): RunParam) -> Response {
    let name = format!("attachment; filename*=UTF-8''{}-scores.csv", href::encode(run.key().as_str()));
    let body = crate::page::download::body(&state, move |out| {
        let index = run.index();
        let line = |n: usize| run.line(TraceFile::Steps, index.steps().get(n)?.span).ok();
        write_csv(out, &[CsvRun { name: None, index: &index, line: &line }])
    });
    let kind = "text/csv; charset=utf-8; header=present".to_owned();
    let headers = [(CONTENT_TYPE, kind), (CONTENT_DISPOSITION, name)];
    answer(&state, body.await.map(|body| (headers, body).into_response()))
}

/// `GET /scores`: several runs over each other. A key that no run has is named, and the others are shown.
pub(crate) async fn several(State(state): State<AppState>, params: Params) -> Response {
    let of = state.clone();
    let made = blocking(move || {
        let text = |name: &str| params.text(name).to_owned();
        let mut runs = params.all("run").unwrap_or_default();
        let mut seen = std::collections::HashSet::new();
        runs.retain(|key| seen.insert(key.clone()));
        let wanted = Wanted { runs, critic: text("critic"), axis: text("x"), threshold: text("threshold") };
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for key in &wanted.runs {
            match of.library.run(key) {
                Some(run) => found.push((run.summary(), run.index())),
                None => missing.push(key.clone()),
            }
        }
        let mut known: Vec<_> = of.library.runs().iter().map(|run| run.summary()).collect();
        known.sort_by_key(|run| std::cmp::Reverse(run.updated));
        let known: Vec<_> = known.iter().map(|run| &**run).collect();
        let runs: Vec<_> = found.iter().map(|(summary, index)| Found { summary, index }).collect();
        let page = html(&view::page(pages::shell(&of, Place::Scores), &wanted, &runs, &missing, &known))?;
        let status = if runs.is_empty() && !missing.is_empty() { StatusCode::NOT_FOUND } else { StatusCode::OK };
        Ok((status, page).into_response())
    });
    answer(&state, made.await.flatten())
}

/// `GET /api/runs/{key}/scores`
pub(crate) async fn api(State(state): State<AppState>, RunParam(run): RunParam) -> Answer {
    with_lens(&state, &run, |lens| {
        let line = |n: usize| lens.lines.line(TraceFile::Steps, lens.index.steps().get(n)?.span).ok();
        json(&crate::page::scores::json::scores(lens.index, line))
    })
    .await?
}
