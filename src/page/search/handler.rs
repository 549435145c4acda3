//! Handles full-text search: the page, the part that shows hits as they arrive, and the JSON.
//!
//! A request starts a search and changes nothing else. Repeating the request returns the same
//! search.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;

use crate::analysis::query::Query;
use crate::analysis::search::{MAX_HITS, Needle};
use crate::page::answer::{self, html};
use crate::page::app::AppState;
use crate::page::blocking::blocking;
use crate::page::error::{Answer, WebError};
use crate::page::jobs::Job;
use crate::page::jobs::over::Over;
use crate::page::params::Params;
use crate::page::search::json::document;
use crate::page::search::{Body, Context, SHOWN, Search, SearchPage, SearchPart, Standing};
use crate::page::shell::{NavItem, Shell};

/// `GET /search`
pub(crate) async fn page(State(state): State<AppState>, params: Params) -> Answer {
    let (context, job) = ask(&state, &params).await?;
    let status = if context.fault.is_some() {
        StatusCode::BAD_REQUEST
    } else {
        StatusCode::OK
    };
    let shell = Shell {
        title: context.title(),
        ..state.shell(NavItem::Search)
    };
    let page = show(&state, context, job, move |body| {
        html(&SearchPage { shell, body })
    })
    .await?;
    Ok((status, page).into_response())
}

/// `GET /live/search`
pub(crate) async fn part(State(state): State<AppState>, params: Params) -> Answer {
    let (context, job) = ask(&state, &params).await?;
    show(&state, context, job, |body| html(&SearchPart { body })).await
}

/// `GET /api/search`
pub(crate) async fn json(State(state): State<AppState>, params: Params) -> Answer {
    let (context, job) = ask(&state, &params).await?;
    if let Some(why) = &context.fault {
        return Err(WebError::bad_request("Invalid search text", why));
    }
    show(&state, context, job, |body| {
        answer::json(&document(body.context, body.standing))
    })
    .await
}

/// Returns the request, and its search if the text is valid.
async fn ask(
    state: &AppState,
    params: &Params,
) -> Result<(Context, Option<Arc<Job<Search>>>), WebError> {
    let text = params.text("q").to_owned();
    let query = Query::parse(params.text("in"));
    let needle = Needle::new(&text);
    let context = Context {
        typed: params.text("in").to_owned(),
        limit: params.number("limit")?.unwrap_or(SHOWN).clamp(1, MAX_HITS),
        ignored: query.ignored.clone(),
        fault: needle.as_ref().err().filter(|_| !text.is_empty()).cloned(),
        known: state.library.counted().len(),
        zone: state.zone.clone(),
        text,
    };
    let Ok(needle) = needle else {
        return Ok((context, None));
    };
    let id = format!("{query}\n{}", needle.text());
    let library = Arc::clone(&state.library);
    let make = move || Ok::<_, WebError>(Search::new(needle, Over::of(&library, query)));
    let job = state.searches.ask(params, id, make).await?;
    Ok((context, Some(job)))
}

/// Renders the current state of the search on a blocking thread.
async fn show(
    state: &AppState,
    context: Context,
    job: Option<Arc<Job<Search>>>,
    make: impl FnOnce(Body<'_>) -> Answer + Send + 'static,
) -> Answer {
    let library = Arc::clone(&state.library);
    blocking(move || {
        // Read the status before the tally, so that a finished search has all its hits.
        let standing = job.map(|job| {
            let status = job.status(&job.task.over, &library);
            Standing {
                status,
                tally: job.task.tally(),
            }
        });
        let keys = standing
            .iter()
            .flat_map(|standing| standing.tally.found_in.iter().take(context.limit));
        let known = keys
            .filter_map(|found| Some((found.key.to_string(), library.run(&found.key)?.summary())))
            .collect();
        make(Body {
            context: &context,
            standing: standing.as_ref(),
            known: &known,
        })
    })
    .await?
}
