//! Serves the scores of one run as a page, CSV and JSON, and the overlay of several runs.

use std::cmp::Reverse;
use std::collections::HashSet;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::IntoResponse;

use crate::analysis::scores::recorded_scores;
use crate::model::{Lines as _, TraceFile};
use crate::page::answer::{html, json, load_again};
use crate::page::app::AppState;
use crate::page::compare::with_views;
use crate::page::error::{Answer, WebError};
use crate::page::extract::RunParam;
use crate::page::params::Params;
use crate::page::part::href;
use crate::page::run::handler::{ended, run_ended, shell, with_view};
use crate::page::run::head::{RunHead, Tabs};
use crate::page::run_view::RunView;
use crate::page::scores::csv::{CsvRun, write_csv};
use crate::page::scores::query::Query;
use crate::page::scores::several::SeveralPage;
use crate::page::scores::{ScoresBody, ScoresPage, ScoresPulse};
use crate::page::shell::{NavItem, Pulse, Shell};

const TAB: &str = "scores";
const TITLE: &str = "Scores";

fn query(params: &Params) -> Result<Query, WebError> {
    let text = |name: &str| params.text(name).to_owned();
    let [before, from, to, step] = ["before", "from", "to", "step"].map(|name| params.number(name));
    let (threshold, critic) = (text("threshold"), text("critic"));
    Ok(Query {
        threshold,
        critic,
        before: before?,
        from: from?,
        to: to?,
        step: step?,
    })
}

/// `GET /runs/{key}/scores`
pub(crate) async fn page(
    State(state): State<AppState>,
    RunParam(run): RunParam,
    params: Params,
) -> Answer {
    let shell = shell(&state, &run);
    with_view(&state, &run, move |view| {
        let query = query(&params)?;
        html(&ScoresPage {
            pulse: next(view, &query, shell.revision),
            shell: Shell {
                title: view.title(TITLE),
                ..shell
            },
            head: RunHead {
                verdict: true,
                step: query.step,
                ..RunHead::new(view)
            },
            tabs: Tabs {
                view,
                current: TAB,
                step: query.step,
            },
            body: ScoresBody::new(view, query),
        })
    })
    .await
}

/// Identifies the scores on a page. A page with the same mark looks the same.
fn scores_mark(view: &RunView<'_>) -> String {
    let steps = view.index.steps();
    // The last line may change without a new one.
    let last = steps.last().map_or(0, |step| step.span.len);
    format!("{}.{last}", steps.len())
}

/// Returns the next pulse: the query of the page, and the scores that it has.
fn next(view: &RunView<'_>, query: &Query, revision: u64) -> Pulse {
    let cursor = [
        ("ended", ended(view)),
        ("has", &scores_mark(view)),
        ("since", &revision.to_string()),
    ];
    let base = format!("{}/live", href::scores(view.key()));
    Pulse {
        url: query.address(&base, &cursor),
        revision,
        ..Pulse::default()
    }
}

/// `GET /runs/{key}/scores/live`
pub(crate) async fn pulse(
    State(state): State<AppState>,
    run: Result<RunParam, WebError>,
    params: Params,
) -> Answer {
    // The run vanished while its page was open. A reload shows that.
    let Ok(RunParam(run)) = run else {
        return Ok(load_again());
    };
    // Read the revision before the index. A later change then triggers another pulse.
    let revision = run.revision_now();
    with_view(&state, &run, move |view| {
        let query = query(&params)?;
        let say = run_ended(view, params.text("ended"));
        // Most updates of a run are events between two steps, which don't change scores.
        let stale = say.is_some() || params.text("has") != scores_mark(view);
        html(&ScoresPulse {
            pulse: Pulse {
                say,
                ..next(view, &query, revision)
            },
            title: view.title(TITLE).into(),
            head: RunHead {
                verdict: true,
                step: query.step,
                ..RunHead::new(view)
            },
            tabs: Tabs {
                view,
                current: TAB,
                step: query.step,
            },
            body: stale.then(|| ScoresBody::new(view, query)),
        })
    })
    .await
}

/// `GET /runs/{key}/scores.csv`: streams the table, because it reads the line of every step.
pub(crate) async fn csv(State(state): State<AppState>, RunParam(run): RunParam) -> Answer {
    let name = format!(
        "attachment; filename*=UTF-8''{}-scores.csv",
        href::encode(run.key().as_str())
    );
    let body = crate::page::download::body(&state, move |out| {
        let index = run.index();
        let line = |n: usize| run.line(TraceFile::Steps, index.steps().get(n)?.span).ok();
        write_csv(
            out,
            &[CsvRun {
                name: None,
                index: &index,
                line: &line,
            }],
        )
    });
    let kind = "text/csv; charset=utf-8; header=present".to_owned();
    let headers = [(CONTENT_TYPE, kind), (CONTENT_DISPOSITION, name)];
    Ok((headers, body.await?).into_response())
}

/// `GET /scores`: serves the overlay of several runs. Unknown keys are listed, and the other runs
/// are shown.
pub(crate) async fn several(State(state): State<AppState>, params: Params) -> Answer {
    let mut keys = params.all("run").unwrap_or_default();
    let mut seen = HashSet::new();
    keys.retain(|key| seen.insert(key.clone()));
    let mut known: Vec<_> = state
        .library
        .counted()
        .iter()
        .map(|run| run.summary())
        .collect();
    known.sort_by_key(|run| Reverse(run.updated));
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for key in keys {
        match state.library.run(&key) {
            Some(run) => found.push(run),
            None => missing.push(key),
        }
    }
    let status = if found.is_empty() && !missing.is_empty() {
        StatusCode::NOT_FOUND
    } else {
        StatusCode::OK
    };
    let shell = state.shell(NavItem::Scores);
    with_views(&state, found, move |views| {
        let query = Query {
            before: None,
            ..query(&params)?
        };
        let page = SeveralPage::new(
            shell,
            query,
            params.text("x"),
            views,
            missing,
            (params.text("find"), known),
        );
        Ok((status, html(&page)?).into_response())
    })
    .await
}

/// `GET /api/runs/{key}/scores`
pub(crate) async fn api(State(state): State<AppState>, RunParam(run): RunParam) -> Answer {
    with_view(&state, &run, |view| {
        let line = |n: usize| {
            view.lines
                .line(TraceFile::Steps, view.index.steps().get(n)?.span)
                .ok()
        };
        json(&recorded_scores(view.index, line))
    })
    .await
}
