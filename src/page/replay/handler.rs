//! Serves the replay of a run: the page, the part that depends on the cursor, and live updates.

use axum::extract::State;

use crate::page::app::AppState;
use crate::page::error::{Answer, WebError};
use crate::page::extract::{Params, RunParam};
use crate::page::part::href;
use crate::page::replay::position::{NoPlace, ReplayQuery};
use crate::page::replay::{Replay, ReplayPage, ReplayPart};
use crate::page::run::handler::{ended, html, load_again, run_ended, shell, with_view};
use crate::page::run_view::RunView;
use crate::page::shell::{Pulse, Shell};

/// `GET /runs/{key}/replay`
pub(crate) async fn page(
    State(state): State<AppState>,
    RunParam(run): RunParam,
    params: Params,
) -> Answer {
    let shell = shell(&state, &run);
    with_view(&state, &run, move |view| {
        let replay = Replay::new(view, query(&params)?).map_err(|why| no_place(view, &why))?;
        html(&ReplayPage {
            pulse: next(view, shell.revision),
            shell: Shell {
                title: view.title(&replay.title()),
                ..shell
            },
            replay,
        })
    })
    .await
}

/// `GET /runs/{key}/replay/part`
pub(crate) async fn part(
    State(state): State<AppState>,
    RunParam(run): RunParam,
    params: Params,
) -> Answer {
    with_view(&state, &run, move |view| {
        let replay = Replay::new(view, query(&params)?).map_err(|why| no_place(view, &why))?;
        html(&ReplayPart {
            pulse: None,
            replay,
        })
    })
    .await
}

/// `GET /runs/{key}/replay/live`: the same position in the updated run, or the new end for a reader
/// who was at the end.
pub(crate) async fn pulse(
    State(state): State<AppState>,
    run: Result<RunParam, WebError>,
    params: Params,
) -> Answer {
    // The run disappeared while the page was open. Reloading the page shows the error.
    let Ok(RunParam(run)) = run else {
        return Ok(load_again());
    };
    // Read before the index, so that changes made in between trigger another request.
    let revision = run.revision_now();
    with_view(&state, &run, move |view| {
        let mut query = ReplayQuery {
            nearest: true,
            ..query(&params)?
        };
        if params.text("last") == "1" {
            (query.step, query.event) = ("end".to_owned(), None);
        }
        let replay = Replay::new(view, query).map_err(|why| no_place(view, &why))?;
        let say = run_ended(view, params.text("ended"));
        let pulse = Some(Pulse {
            say,
            ..next(view, revision)
        });
        html(&ReplayPart { pulse, replay })
    })
    .await
}

/// Returns the next pulse. The form fields next to the breakpoints carry the cursor.
fn next(view: &RunView<'_>, revision: u64) -> Pulse {
    let base = format!("{}/live", href::replay(view.key()));
    let url = href::with_query(
        &base,
        &[("ended", ended(view)), ("since", &revision.to_string())],
    );
    Pulse {
        url,
        revision,
        ..Pulse::default()
    }
}

fn query(params: &Params) -> Result<ReplayQuery, WebError> {
    let mut breaks = params.all("break").unwrap_or_default();
    breaks.extend(params.all("add").unwrap_or_default());
    breaks.retain(|text| !text.trim().is_empty());
    breaks.truncate(MAX_BREAKS);
    let given = std::mem::take(&mut breaks);
    for text in given {
        if !breaks.contains(&text) {
            breaks.push(text);
        }
    }
    Ok(ReplayQuery {
        step: params.text("step").to_owned(),
        event: params.number("event")?,
        at: params.number("at")?,
        events: signed(params, "events")?,
        steps: signed(params, "steps")?,
        speed: params.text("speed").to_owned(),
        clock: params.text("clock").to_owned(),
        breaks,
        key: params.text("key").to_owned(),
        nearest: false,
    })
}

/// Limits the breakpoints, because each is evaluated on every step.
const MAX_BREAKS: usize = 20;

/// Parses a distance: a whole number that may be negative.
fn signed(params: &Params, name: &str) -> Result<isize, WebError> {
    match params.text(name) {
        "" => Ok(0),
        text => text.parse().map_err(|_| {
            let detail = format!("{name} must be a whole number. Negative numbers go back.");
            WebError::bad_request("Invalid number", &detail).named(text)
        }),
    }
}

fn no_place(view: &RunView<'_>, why: &NoPlace) -> WebError {
    let key = view.key();
    WebError::not_found(why.what, &why.instead)
        .named(&why.named)
        .link("Replay from the start", href::replay(key))
        .link("Open the run", href::run(key))
}
