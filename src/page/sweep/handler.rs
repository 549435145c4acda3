//! Other rules over many runs: the page, the part that says how far it is, and the JSON.
//!
//! Asking starts a computation and changes nothing else; the same question asked again finds the same one.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::analysis::query::Query;
use crate::analysis::summary::Summary;
use crate::analysis::sweep::{Asking, Typed};
use crate::page::app::AppState;
use crate::page::blocking::blocking;
use crate::page::error::WebError;
use crate::page::extract::Params;
use crate::page::jobs::Job;
use crate::page::jobs::over::Over;
use crate::page::json;
use crate::page::run::handler::html;
use crate::page::runs::handler::shell;
use crate::page::shell::Place;
use crate::page::sweep as view;
use crate::page::sweep::{Context, Form, Standing};

pub(crate) mod task;

pub(crate) use crate::page::sweep::handler::task::Question;

/// So many critics are offered to choose from.
const MAX_CRITICS: usize = 100;

/// `GET /whatif`
pub(crate) async fn page(State(state): State<AppState>, params: Params) -> Response {
    let form = form(&params);
    let (status, job) = match ask(&state, &form, &params).await {
        Ok(job) => (StatusCode::OK, Ok(job)),
        // What is wrong with a rule is said beside the field it was typed into.
        Err(Refused::Rule(why)) => (StatusCode::BAD_REQUEST, Err(why)),
        Err(Refused::Other(error)) => return error.respond(&state, false),
    };
    let page = show(&state, form, job, |context, standing| html(&view::page(context, standing.as_ref()))).await;
    match page.and_then(|page| page) {
        Ok(page) => (status, page).into_response(),
        Err(error) => error.respond(&state, false),
    }
}

/// `GET /live/whatif`
pub(crate) async fn part(State(state): State<AppState>, params: Params) -> Response {
    let form = form(&params);
    let made = match ask(&state, &form, &params).await {
        Ok(job) => show(&state, form, Ok(job), |context, standing| html(&view::part(context, standing.as_ref()))).await,
        Err(refused) => Err(refused.into()),
    };
    made.and_then(|part| part).unwrap_or_else(|error| error.respond(&state, false))
}

/// `GET /api/whatif`
pub(crate) async fn json(State(state): State<AppState>, params: Params) -> Response {
    let form = form(&params);
    let document = |context: &Context, standing: Option<Standing<'_>>| {
        crate::page::api::json(&standing.map(|standing| json::sweep(context, &standing)))
    };
    let made = match ask(&state, &form, &params).await {
        Ok(job) => show(&state, form, Ok(job), document).await,
        Err(refused) => Err(refused.into()),
    };
    made.and_then(|document| document).unwrap_or_else(|error| error.respond(&state, true))
}

/// Why a question is not asked.
enum Refused {
    /// A rule or a limit is wrong: which, and how a right one is written.
    Rule(String),
    Other(WebError),
}

impl From<Refused> for WebError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Rule(why) => WebError::bad_request("This cannot be asked", &why),
            Refused::Other(error) => error,
        }
    }
}

impl From<WebError> for Refused {
    fn from(error: WebError) -> Self {
        Refused::Other(error)
    }
}

fn form(params: &Params) -> Form {
    let text = |name: &str| params.text(name).to_owned();
    Form {
        query: text("q"),
        sweep: text("sweep"),
        values: text("values"),
        critic: text("critic"),
        streak: text("streak"),
        rules: params.all("rule").unwrap_or_default().into_iter().filter(|rule| !rule.trim().is_empty()).collect(),
    }
}

/// Finds the job that answers the question, or begins it.
async fn ask(state: &AppState, form: &Form, params: &Params) -> Result<Arc<Job<Question>>, Refused> {
    let typed = Typed {
        sweep: &form.sweep,
        values: &form.values,
        critic: &form.critic,
        streak: &form.streak,
        rules: form.rules.iter().map(String::as_str).collect(),
    };
    let asking = Asking::parse(&typed).map_err(|wrong| Refused::Rule(wrong.to_string()))?;
    let query = Query::parse(&form.query);
    let id = format!("{query}\n{asking}");
    let library = Arc::clone(&state.library);
    let make = move || {
        let over = Over::of(&library, query);
        let summaries: Vec<Arc<Summary>> = over.runs.iter().map(|run| run.summary()).collect();
        let inquiry = asking.ready(summaries.iter().map(|summary| &**summary));
        inquiry.map(|inquiry| Question::new(inquiry, over)).map_err(|wrong| Refused::Rule(wrong.to_string()))
    };
    state.sweeps.ask(params, id, make).await
}

/// Gives the view what it needs of the board and of the job, off the async threads.
async fn show<T: Send + 'static>(
    state: &AppState,
    form: Form,
    job: Result<Arc<Job<Question>>, String>,
    make: impl FnOnce(&Context, Option<Standing<'_>>) -> T + Send + 'static,
) -> Result<T, WebError> {
    let state = state.clone();
    let shown = blocking(move || {
        let summaries: Vec<Arc<Summary>> = state.library.runs().iter().map(|run| run.summary()).collect();
        let critics: BTreeSet<&str> =
            summaries.iter().flat_map(|summary| &summary.critics).map(String::as_str).collect();
        let (job, fault) = match job {
            Ok(job) => (Some(job), None),
            Err(why) => (None, Some(why)),
        };
        let context = Context {
            critics: critics.into_iter().take(MAX_CRITICS).map(str::to_owned).collect(),
            known: summaries.len(),
            shell: shell(&state, Place::WhatIf),
            zone: state.zone.clone(),
            query: Query::parse(&form.query),
            form,
            fault,
        };
        let Some(job) = job else { return make(&context, None) };
        // The state comes first: what has ended holds its sums.
        let (stands, progress) = (job.state(), job.task.progress());
        let standing = Standing {
            state: stands.shown(),
            number: job.number,
            done: progress.done,
            total: job.task.over.runs.len(),
            changed: job.task.over.changed(&state.library),
            inquiry: &job.task.inquiry,
            sweep: progress.sweep.as_deref(),
        };
        make(&context, Some(standing))
    });
    shown.await
}
