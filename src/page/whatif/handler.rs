//! Other stop rules asked about one run, as a page and as JSON.

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};

use crate::analysis::whatif::{answers, question};
use crate::page::app::AppState;
use crate::page::error::WebError;
use crate::page::extract::{Params, RunParam};
use crate::page::json::json;
use crate::page::lens::Lens;
use crate::page::part::href;
use crate::page::run::RunPulse;
use crate::page::run::handler::{answer, crumb, ended, html, load_again, run_ended, shell, with_lens};
use crate::page::shell::{Pulse, Shell};
use crate::page::whatif::json;
use crate::page::whatif::{WhatIfBody, WhatIfPage};

const TAB: &str = "whatif";
const TITLE: &str = "What-if";

/// `GET /runs/{key}/whatif`
pub(crate) async fn page(State(state): State<AppState>, RunParam(run): RunParam, params: Params) -> Response {
    // One address for one question, however it was asked; it is the one to share.
    if let Some(rules) = crate::page::whatif::fill::form::from_form(&params.pairs()) {
        return Redirect::to(&href::whatif_with(run.key().as_str(), &rules)).into_response();
    }
    let shell = shell(&state, &run, String::new());
    let page = with_lens(&state, &run, move |lens| {
        let page = WhatIfPage {
            pulse: next(lens, shell.revision),
            shell: Shell { title: crate::page::run::head::content_title(lens, TITLE), ..shell },
            crumb: crumb(),
            head: crate::page::run::head::head(lens),
            tabs: crate::page::run::head::tabs(lens, TAB),
            body: body(lens, params.all("rule"))?,
        };
        html(&page)
    });
    answer(&state, page.await.and_then(|page| page))
}

fn body(lens: &Lens<'_>, rules: Option<Vec<String>>) -> Result<WhatIfBody, WebError> {
    crate::page::whatif::fill::whatif(lens, rules).map_err(|why| WebError::fault(&why))
}

/// The next pulse; the form's fields go with it, so that the answer is to the rules that the reader sees.
fn next(lens: &Lens<'_>, revision: u64) -> Pulse {
    let base = format!("{}/live", href::whatif(lens.summary.key.as_str()));
    let url = href::with_query(&base, &[("ended", ended(lens)), ("since", &revision.to_string())]);
    Pulse { url, revision, ..Pulse::default() }
}

/// `GET /runs/{key}/whatif/live`: all but the form, which belongs to the reader.
pub(crate) async fn pulse(State(state): State<AppState>, run: Result<RunParam, WebError>, params: Params) -> Response {
    // The run went away while somebody looked at it; its page says so when it is loaded again.
    let Ok(RunParam(run)) = run else { return load_again() };
    // Taken before the index is read: what comes in between is asked for once more.
    let revision = run.revision_now();
    let pulse = with_lens(&state, &run, move |lens| {
        let say = run_ended(lens, params.text("ended"));
        html(&RunPulse {
            pulse: Pulse { say, ..next(lens, revision) },
            title: Some(crate::page::run::head::content_title(lens, TITLE).into()),
            head: Some(crate::page::run::head::head(lens)),
            tabs: Some(crate::page::run::head::tabs(lens, TAB)),
            whatif: Some(body(lens, crate::page::whatif::fill::form::from_form(&params.pairs()))?.answer),
            ..RunPulse::default()
        })
    });
    answer(&state, pulse.await.and_then(|pulse| pulse))
}

/// `GET /api/runs/{key}/whatif`
pub(crate) async fn api(State(state): State<AppState>, RunParam(run): RunParam, params: Params) -> Response {
    let shown = with_lens(&state, &run, move |lens| {
        let typed = crate::page::whatif::fill::typed_rules(lens, params.all("rule"));
        if let Some((text, wrong)) = typed.iter().find_map(|typed| Some((&typed.text, typed.read.as_ref().err()?))) {
            let error = WebError::bad_request("This rule cannot be asked:", &format!("{}.", wrong.why)).named(text);
            return Err(error.hint(&format!("A right one: {}", wrong.right)));
        }
        let question = question(&typed).map_err(|error| WebError::fault(&error))?;
        json(&json::whatif(&answers(&question, lens.summary, lens.index, lens.lines), lens.summary, lens.index))
    });
    shown.await.and_then(|shown| shown).unwrap_or_else(|error| error.respond(&state, true))
}
