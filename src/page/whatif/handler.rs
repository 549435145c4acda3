//! Serves what-if questions about one run, as a page and as JSON.

use axum::extract::State;
use axum::response::{IntoResponse, Redirect};

use crate::analysis::whatif::{report, rule_set};
use crate::page::answer::{html, json, load_again};
use crate::page::app::AppState;
use crate::page::error::{Answer, WebError};
use crate::page::extract::RunParam;
use crate::page::params::Params;
use crate::page::part::href;
use crate::page::run::handler::{ended, run_ended, shell, with_view};
use crate::page::run::head::{RunHead, Tabs};
use crate::page::run::{RunPulse, TabUpdate};
use crate::page::run_view::RunView;
use crate::page::shell::{Pulse, Shell};
use crate::page::whatif::fill::form::from_form;
use crate::page::whatif::{WhatIfBody, WhatIfPage};

const TAB: &str = "whatif";
const TITLE: &str = "What-if";

/// `GET /runs/{key}/whatif`
pub(crate) async fn page(
    State(state): State<AppState>,
    RunParam(run): RunParam,
    params: Params,
) -> Answer {
    let step = params.number("step")?;
    // Redirect a submitted form to the canonical address of its rules, which can be shared.
    if let Some(rules) = from_form(&params.pairs()) {
        return Ok(
            Redirect::to(&href::whatif_with(run.key().as_str(), &rules, step)).into_response(),
        );
    }
    let shell = shell(&state, &run);
    with_view(&state, &run, move |view| {
        html(&WhatIfPage {
            pulse: next(view, shell.revision),
            shell: Shell {
                title: view.title(TITLE),
                ..shell
            },
            head: RunHead {
                verdict: true,
                step,
                ..RunHead::new(view)
            },
            tabs: Tabs {
                view,
                current: TAB,
                step,
            },
            body: body(view, params.all("rule"), step)?,
        })
    })
    .await
}

fn body<'a>(
    view: &'a RunView<'a>,
    rules: Option<Vec<String>>,
    step: Option<usize>,
) -> Result<WhatIfBody<'a>, WebError> {
    crate::page::whatif::fill::whatif(view, rules, step).map_err(|why| WebError::fault(&why))
}

/// Returns the next pulse. Requests include the form's fields, so that the answer matches the rules
/// on the page.
fn next(view: &RunView<'_>, revision: u64) -> Pulse {
    let base = format!("{}/live", href::whatif(view.key()));
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

/// `GET /runs/{key}/whatif/live`: everything but the form, which the reader may be editing.
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
    let step = params.number("step")?;
    with_view(&state, &run, move |view| {
        let say = run_ended(view, params.text("ended"));
        html(&RunPulse {
            pulse: Pulse {
                say,
                ..next(view, revision)
            },
            title: view.title(TITLE),
            head: RunHead {
                verdict: true,
                step,
                ..RunHead::new(view)
            },
            verdict: None,
            strip: None,
            tabs: Tabs {
                view,
                current: TAB,
                step,
            },
            tab_update: Some(TabUpdate::WhatIf(
                body(view, from_form(&params.pairs()), step)?.answer,
            )),
        })
    })
    .await
}

/// `GET /api/runs/{key}/whatif`
pub(crate) async fn api(
    State(state): State<AppState>,
    RunParam(run): RunParam,
    params: Params,
) -> Answer {
    with_view(&state, &run, move |view| {
        let typed = crate::page::whatif::fill::typed_rules(view, params.all("rule"));
        if let Some((text, wrong)) = typed
            .iter()
            .find_map(|typed| Some((&typed.text, typed.read.as_ref().err()?)))
        {
            let error =
                WebError::bad_request("Invalid rule", &format!("{}.", wrong.why)).named(text);
            return Err(error.hint(&format!("Example: {}", wrong.example)));
        }
        let rule_set = rule_set(&typed).map_err(|error| WebError::fault(&error))?;
        json(&report(&rule_set, view.summary, view.index, view.lines))
    })
    .await
}
