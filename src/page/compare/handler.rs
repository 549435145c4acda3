//! Serves comparisons of runs: the pages, their live updates, and the JSON.

use std::cmp::Reverse;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Redirect};

use crate::analysis::compare::{compare, compared};
use crate::analysis::format;
use crate::live::Run;
use crate::page::app::AppState;
use crate::page::blocking::blocking;
use crate::page::compare::moment::Opened;
use crate::page::compare::{Choice, CompareBody, ComparePage, ComparePulse, LockstepPage, side};
use crate::page::error::{Answer, WebError};
use crate::page::extract::{MAX_RUNS, Params};
use crate::page::json::json;
use crate::page::part::href;
use crate::page::run::handler::{html, load_again};
use crate::page::run_view::RunView;
use crate::page::runs::handler::{no_such_run, now, shown_roots};
use crate::page::shell::{NavItem, Pulse, Shell};

/// The address of the pulse.
const PULSE: &str = "/live/compare";

/// The runs that an address names: two as `a` and `b`, or any number as `run`.
struct Request {
    runs: Vec<Arc<Run>>,
    from: Option<usize>,
}

/// Parses the request. If it names fewer than two runs, the user still has to choose.
fn request(state: &AppState, params: &Params) -> Result<Request, WebError> {
    let mut keys: Vec<String> = ["a", "b"]
        .iter()
        .map(|name| params.text(name).to_owned())
        .collect();
    keys.extend(params.all("run").unwrap_or_default());
    keys.retain(|key| !key.is_empty());
    if keys.len() > MAX_RUNS {
        let detail = format!("Compare at most {MAX_RUNS} runs at once.");
        return Err(WebError::bad_request("Too many runs:", &detail).named(&keys.len().to_string()));
    }
    let run = |key: &String| {
        state
            .library
            .run(key)
            .ok_or_else(|| no_such_run(state, key).link("Choose runs", href::compare("", "")))
    };
    Ok(Request {
        runs: keys.iter().map(run).collect::<Result<_, _>>()?,
        from: params.number("from")?,
    })
}

/// Runs `show` on a blocking thread with the current state of the runs.
pub(crate) async fn with_views<T: Send + 'static>(
    state: &AppState,
    runs: Vec<Arc<Run>>,
    show: impl FnOnce(&[RunView<'_>]) -> Result<T, WebError> + Send + 'static,
) -> Result<T, WebError> {
    let zone = state.zone.clone();
    let shown = blocking(move || {
        let read: Vec<_> = runs
            .iter()
            .map(|run| (run.summary(), run.index(), run))
            .collect();
        let views: Vec<RunView<'_>> = read
            .iter()
            .map(|(summary, index, run)| RunView {
                summary,
                index,
                lines: &***run,
                now: now(),
                stale: None,
                related_runs: &Vec::new,
                zone: &zone,
            })
            .collect();
        show(&views)
    });
    shown.await.flatten()
}

fn shell(state: &AppState, runs: &[Arc<Run>], title: String) -> Shell {
    let alive = runs
        .iter()
        .any(|run| run.summary().life.liveness.may_grow());
    Shell {
        title,
        root: shown_roots(state),
        stream: alive.then(|| "/events".to_owned()),
        revision: *state.library.revision().borrow(),
        boot: state.boot.to_string(),
        ended: false,
        place: NavItem::Compare,
    }
}

fn title(runs: &[Arc<Run>]) -> String {
    match runs {
        [a, b] => format!("Compare {} and {}", a.key(), b.key()),
        [] | [_] => "Compare".to_owned(),
        _ => format!("Compare {}", format::counted(runs.len(), "run")),
    }
}

/// `GET /compare`
pub(crate) async fn page(State(state): State<AppState>, params: Params) -> Answer {
    let request = request(&state, &params)?;
    // Each comparison has one address, so two marked runs become A and B.
    if let ([a, b], true) = (request.runs.as_slice(), params.has("run")) {
        return Ok(
            Redirect::to(&href::compare(a.key().as_str(), b.key().as_str())).into_response(),
        );
    }
    let shell = shell(&state, &request.runs, title(&request.runs));
    if request.runs.len() < 2 {
        let choice = choice(&state, &request.runs, &params);
        return html(&ComparePage {
            shell,
            pulse: None,
            choice: Some(choice),
            body: None,
        });
    }
    let pulse = shell
        .stream
        .is_some()
        .then(|| pulse(&request, shell.revision));
    with_views(&state, request.runs, move |views| {
        html(&ComparePage {
            shell,
            pulse,
            choice: None,
            body: Some(CompareBody::new(views, request.from)),
        })
    })
    .await
}

/// Collects the runs to choose from, newest first.
fn choice(state: &AppState, chosen: &[Arc<Run>], params: &Params) -> Choice {
    let mut runs: Vec<_> = state
        .library
        .counted()
        .iter()
        .map(|run| run.summary())
        .collect();
    runs.sort_by_key(|summary| Reverse(summary.updated));
    let chosen = chosen.first().map(|run| run.summary());
    Choice {
        a: params.text("a").to_owned(),
        b: params.text("b").to_owned(),
        chosen,
        runs,
    }
}

fn pulse(request: &Request, revision: u64) -> Pulse {
    let from = request
        .from
        .map(|from| from.to_string())
        .unwrap_or_default();
    let since = revision.to_string();
    let mut pairs: Vec<(&str, &str)> = request
        .runs
        .iter()
        .map(|run| ("run", run.key().as_str()))
        .collect();
    pairs.extend([("from", from.as_str()), ("since", &since)]);
    Pulse {
        url: href::with_query(PULSE, &pairs),
        revision,
        ..Pulse::default()
    }
}

/// `GET /live/compare`: the updated comparison, or only a pulse if no run changed.
pub(crate) async fn part(State(state): State<AppState>, params: Params) -> Answer {
    // Read before the runs, so that changes made in between trigger another request.
    let revision = *state.library.revision().borrow();
    // A run disappeared while the page was open. Reloading the page shows the error.
    let Ok(request) = request(&state, &params) else {
        return Ok(load_again());
    };
    let since = params.number("since").ok().flatten().unwrap_or_default() as u64;
    let next = pulse(&request, revision);
    if request.runs.iter().all(|run| run.revision_now() <= since) {
        return html(&next);
    }
    with_views(&state, request.runs, move |views| {
        html(&ComparePulse {
            pulse: next,
            body: CompareBody::new(views, request.from),
        })
    })
    .await
}

/// `GET /compare/replay`
pub(crate) async fn lockstep(State(state): State<AppState>, params: Params) -> Answer {
    let (request, at) = (
        request(&state, &params)?,
        params.number("at")?.unwrap_or_default(),
    );
    if request.runs.len() != 2 {
        return Ok(
            Redirect::to(&href::compare(params.text("a"), params.text("b"))).into_response(),
        );
    }
    let shell = Shell {
        stream: None,
        ..shell(&state, &request.runs, String::new())
    };
    with_views(&state, request.runs, move |views| match views {
        [a, b] => lockstep_page(shell, a, b, at),
        _ => Err(WebError::fault(&"expected exactly two runs")),
    })
    .await
}

fn lockstep_page<'a>(shell: Shell, a: &'a RunView<'a>, b: &'a RunView<'a>, at: usize) -> Answer {
    let comparison = compare(a.index, b.index);
    let (one, other, total) = (a.key(), b.key(), comparison.rows.len());
    let Some(row) = comparison.rows.get(at).copied() else {
        let has = match total {
            0 => "Neither run has any steps.".to_owned(),
            _ => format!(
                "They have {}, 0 to {}.",
                format::counted(total, "row"),
                total - 1
            ),
        };
        let error = WebError::not_found("These runs have no row", &has).named(&at.to_string());
        return Err(error.link("Open the comparison", href::compare(one, other)));
    };
    let shell = Shell {
        title: format!("Row {} of {total}: {one} and {other}", at + 1),
        ..shell
    };
    let opened = Opened::new(&comparison, &row, a, b);
    html(&LockstepPage {
        shell,
        a,
        b,
        comparison,
        at,
        relation: row.relation,
        opened,
    })
}

/// `GET /api/compare`
pub(crate) async fn api(State(state): State<AppState>, params: Params) -> Answer {
    with_views(
        &state,
        request(&state, &params)?.runs,
        |views| match views {
            [a, b] => json(&compared(&side(a), &side(b))),
            _ => Err(WebError::bad_request(
                "Two runs are required",
                "Pass their keys as a and b.",
            )),
        },
    )
    .await
}
