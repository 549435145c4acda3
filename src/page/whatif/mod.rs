//! Evaluates other stop rules on one run: the page with a form that holds the query and a row for
//! each rule, and the JSON.
//!
//! The form and the table are one part, `#whatif`, so that a response can include field errors. A
//! live run updates only the sentence and the table, `#lead` and `#answer`.

pub(super) mod answer;
mod cells;
mod form;
#[cfg(test)]
mod tests;

use askama::Template;
use askama::filters::HtmlSafe;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect};

use crate::analysis::whatif::{Typed, near, report, rule_set, typed};
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
use crate::page::whatif::answer::RulesAnswer;
use crate::page::whatif::form::{RulesForm, form, from_form};

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
            body: whatif(view, params.all("rule"), step)?,
        })
    })
    .await
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
                whatif(view, from_form(&params.pairs()), step)?.answer,
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
        let typed = typed_rules(view, params.all("rule"));
        if let Some((text, wrong)) = typed
            .iter()
            .find_map(|typed| Some((&typed.text, typed.read.as_ref().err()?)))
        {
            let mut error = WebError::bad_request("Invalid rule", &format!("{}.", wrong.why));
            if !wrong.names(text) {
                error = error.named(text);
            }
            return Err(error.hint(&format!("Example: {}", wrong.example)));
        }
        let rule_set = rule_set(&typed).map_err(|error| WebError::fault(&error))?;
        json(&report(&rule_set, view.summary, view.index, view.lines))
    })
    .await
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

#[derive(Template)]
#[template(path = "whatif/page.html")]
struct WhatIfPage<'a> {
    shell: Shell,
    pulse: Pulse,
    head: RunHead<'a>,
    tabs: Tabs<'a>,
    /// The form and its results.
    body: WhatIfBody<'a>,
}

/// The form and the answer, `#whatif`.
#[derive(Template)]
#[template(path = "whatif/whatif.html")]
struct WhatIfBody<'a> {
    form: RulesForm,
    answer: RulesAnswer<'a>,
}

impl HtmlSafe for WhatIfBody<'_> {}

/// Builds the form and the answer to its rules. Without rules, uses ones near the recorded values.
/// The addresses keep `step`, the step selected in other tabs.
///
/// # Errors
/// Fails if valid rules can't be combined, which is a fault of board.
fn whatif<'a>(
    view: &'a RunView<'a>,
    rules: Option<Vec<String>>,
    step: Option<usize>,
) -> Result<WhatIfBody<'a>, WebError> {
    let suggested = rules.is_none();
    let typed = typed_rules(view, rules);
    let rule_set = rule_set(&typed)
        .map_err(|error| WebError::fault(&error))?
        .suggested(suggested);
    let report = report(&rule_set, view.summary, view.index, view.lines);
    Ok(WhatIfBody {
        form: form(view, &typed, suggested, step),
        answer: RulesAnswer { view, report },
    })
}

/// Parses rules received over HTTP, without reading any files. Without rules, returns ones near the
/// recorded values.
fn typed_rules(view: &RunView<'_>, rules: Option<Vec<String>>) -> Vec<Typed> {
    let near = || {
        near(view.summary, view.index)
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    typed(rules.unwrap_or_else(near), |file| {
        Err(format!(
            "schemas can't be read from files here: put the content of {file:?} in the rule itself, as JSON"
        ))
    })
}
