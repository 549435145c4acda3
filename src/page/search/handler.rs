//! A text in all runs: the page, the part that shows hits as they come, and the JSON.
//!
//! Asking starts a search and changes nothing else; whoever asks the same again finds the same one.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::analysis::query::Query;
use crate::analysis::search::{MAX_HITS, Needle};
use crate::page::app::AppState;
use crate::page::blocking::blocking;
use crate::page::error::WebError;
use crate::page::extract::Params;
use crate::page::jobs::Job;
use crate::page::jobs::over::Over;
use crate::page::json;
use crate::page::run::handler::html;
use crate::page::runs::handler::shell;
use crate::page::search as view;
use crate::page::search::{Context, Standing};
use crate::page::shell::Place;

pub(crate) mod task;

pub(crate) use crate::page::search::handler::task::Search;

/// `GET /search`
pub(crate) async fn page(State(state): State<AppState>, params: Params) -> Response {
    match ask(&state, &params).await {
        Ok((context, job)) => {
            let status = if context.fault.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
            let page = show(&state, job, move |standing| html(&view::page(&context, standing))).await;
            page.map_or_else(|error| error.respond(&state, false), |page| (status, page).into_response())
        }
        Err(error) => error.respond(&state, false),
    }
}

/// `GET /live/search`
pub(crate) async fn part(State(state): State<AppState>, params: Params) -> Response {
    let made = match ask(&state, &params).await {
        Ok((context, job)) => show(&state, job, move |standing| html(&view::part(&context, standing))).await,
        Err(error) => Err(error),
    };
    made.unwrap_or_else(|error| error.respond(&state, false))
}

/// `GET /api/search`
pub(crate) async fn json(State(state): State<AppState>, params: Params) -> Response {
    let made = match ask(&state, &params).await {
        Ok((Context { fault: Some(why), .. }, _)) => Err(WebError::bad_request("This cannot be searched for", &why)),
        Ok((context, job)) => {
            show(&state, job, move |standing| crate::page::api::json(&json::search(&context, standing))).await
        }
        Err(error) => Err(error),
    };
    made.unwrap_or_else(|error| error.respond(&state, true))
}

/// What is asked, and the search that answers it, where there is something to search for.
async fn ask(state: &AppState, params: &Params) -> Result<(Context, Option<Arc<Job<Search>>>), WebError> {
    let text = params.text("q").to_owned();
    let query = Query::parse(params.text("in"));
    let needle = Needle::new(&text);
    let context = Context {
        typed: params.text("in").to_owned(),
        limit: params.number("limit")?.unwrap_or(view::SHOWN).clamp(1, MAX_HITS),
        ignored: query.ignored.clone(),
        fault: needle.as_ref().err().filter(|_| params.has("q") && !text.is_empty()).cloned(),
        known: state.library.runs().len(),
        shell: shell(state, Place::Search),
        zone: state.zone.clone(),
        text,
    };
    let Ok(needle) = needle else { return Ok((context, None)) };
    let id = format!("{query}\n{}", needle.text());
    let library = Arc::clone(&state.library);
    let make = move || Ok::<_, WebError>(Search::new(needle, Over::of(&library, query)));
    let job = state.searches.ask(params, id, make).await?;
    Ok((context, Some(job)))
}

/// Gives the view what it needs of the search, off the async threads.
async fn show(
    state: &AppState,
    job: Option<Arc<Job<Search>>>,
    make: impl FnOnce(Option<&Standing>) -> Result<Response, WebError> + Send + 'static,
) -> Result<Response, WebError> {
    let state = state.clone();
    let shown = blocking(move || {
        let Some(job) = job else { return make(None) };
        // The state comes first: what has ended holds all its hits.
        let stands = job.state().shown();
        make(Some(&Standing {
            state: stands,
            number: job.number,
            changed: job.task.over.changed(&state.library),
            tally: job.task.tally(),
        }))
    });
    shown.await?
}
