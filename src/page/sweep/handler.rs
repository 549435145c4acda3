//! Handles what-if questions over many runs: the page, the part that shows progress, and the JSON.
//!
//! A request starts a computation and changes nothing else. Repeating the request returns the same
//! computation.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;

use crate::analysis::query::Query;
use crate::analysis::summary::Summary;
use crate::analysis::sweep::{SweepSpec, Typed};
use crate::page::answer::{self, html};
use crate::page::app::AppState;
use crate::page::blocking::blocking;
use crate::page::error::{Answer, WebError};
use crate::page::jobs::Job;
use crate::page::jobs::over::Over;
use crate::page::params::Params;
use crate::page::shell::{NavItem, Shell};
use crate::page::sweep::json::document;
use crate::page::sweep::task::Standing;
use crate::page::sweep::{Context, Form, SweepPage, SweepPart, SweepTask, View};

/// Limits the critics to choose from.
const MAX_CRITICS: usize = 100;

/// `GET /whatif`
pub(crate) async fn page(State(state): State<AppState>, params: Params) -> Answer {
    let form = form(&params);
    let (status, job) = match ask(&state, &form, &params).await {
        Ok(job) => (StatusCode::OK, Ok(job)),
        // Errors in a rule are shown next to its field.
        Err(Refused::Rule(why)) => (StatusCode::BAD_REQUEST, Err(why)),
        Err(Refused::Other(error)) => return Err(error),
    };
    let shell = state.shell(NavItem::WhatIf);
    let page = show(&state, form, job, move |view| {
        html(&SweepPage {
            shell: Shell {
                title: view.title(),
                ..shell
            },
            view,
        })
    });
    Ok((status, page.await?).into_response())
}

/// `GET /live/whatif`
pub(crate) async fn part(State(state): State<AppState>, params: Params) -> Answer {
    let form = form(&params);
    let job = ask(&state, &form, &params).await?;
    show(&state, form, Ok(job), |view| html(&SweepPart { view })).await
}

/// `GET /api/whatif`
pub(crate) async fn json(State(state): State<AppState>, params: Params) -> Answer {
    let form = form(&params);
    let job = ask(&state, &form, &params).await?;
    let document = |view: View<'_>| {
        answer::json(
            &view
                .standing
                .map(|standing| document(view.context, &standing)),
        )
    };
    show(&state, form, Ok(job), document).await
}

/// Why a question is refused.
enum Refused {
    /// An invalid rule or limit: which one, and how to write a valid one.
    Rule(String),
    Other(WebError),
}

impl From<Refused> for WebError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Rule(why) => WebError::bad_request("Invalid rule or limit", &why),
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
        rules: params
            .all("rule")
            .unwrap_or_default()
            .into_iter()
            .filter(|rule| !rule.trim().is_empty())
            .collect(),
    }
}

/// Finds or starts the job for the question.
async fn ask(
    state: &AppState,
    form: &Form,
    params: &Params,
) -> Result<Arc<Job<SweepTask>>, Refused> {
    let typed = Typed {
        sweep: &form.sweep,
        values: &form.values,
        critic: &form.critic,
        streak: &form.streak,
        rules: form.rules.iter().map(String::as_str).collect(),
    };
    let spec = SweepSpec::parse(&typed).map_err(|wrong| Refused::Rule(wrong.to_string()))?;
    let query = Query::parse(&form.query);
    let id = format!("{query}\n{spec}");
    let library = Arc::clone(&state.library);
    let make = move || {
        let over = Over::of(&library, query);
        let summaries: Vec<Arc<Summary>> = over.runs.iter().map(|run| run.summary()).collect();
        let prepared = spec.ready(summaries.iter().map(|summary| &**summary));
        prepared
            .map(|prepared| SweepTask::new(prepared, over))
            .map_err(|wrong| Refused::Rule(wrong.to_string()))
    };
    state.sweeps.ask(params, id, make).await
}

/// Renders the current state of the question on a blocking thread.
async fn show(
    state: &AppState,
    form: Form,
    job: Result<Arc<Job<SweepTask>>, String>,
    make: impl FnOnce(View<'_>) -> Answer + Send + 'static,
) -> Answer {
    let (library, zone) = (Arc::clone(&state.library), state.zone.clone());
    blocking(move || {
        let summaries: Vec<Arc<Summary>> =
            library.counted().iter().map(|run| run.summary()).collect();
        let critics: BTreeSet<&str> = summaries
            .iter()
            .flat_map(|summary| &summary.critics)
            .map(String::as_str)
            .collect();
        let (job, fault) = match job {
            Ok(job) => (Some(job), None),
            Err(why) => (None, Some(why)),
        };
        let query = Query::parse(&form.query);
        let selected = match &job {
            Some(job) => job.task.over.runs.len(),
            None => summaries
                .iter()
                .filter(|summary| query.matches(&***summary))
                .count(),
        };
        let context = Context {
            critics: critics
                .into_iter()
                .take(MAX_CRITICS)
                .map(str::to_owned)
                .collect(),
            known: summaries.len(),
            selected,
            zone,
            query,
            form,
            fault,
        };
        let Some(job) = job else {
            return make(View {
                context: &context,
                standing: None,
            });
        };
        // Read the status before the progress, so that a finished question has its sums.
        let status = job.status(&job.task.over, &library);
        let progress = job.task.progress();
        let standing = Standing {
            status,
            done: progress.done,
            total: job.task.over.runs.len(),
            prepared: &job.task.prepared,
            sweep: progress.sweep.as_deref(),
        };
        make(View {
            context: &context,
            standing: Some(standing),
        })
    })
    .await?
}
