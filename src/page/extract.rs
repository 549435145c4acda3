//! Extracts typed parameters from a request's address. If one is missing, the response is an error
//! page rather than a parser's message.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tokio::time::{Instant, timeout};
use tokio_stream::StreamExt as _;

use crate::analysis::closest::closest;
use crate::analysis::format::counted;
use crate::live::{FETCH_PATIENCE, Run};
use crate::page::app::AppState;
use crate::page::blocking::blocking;
use crate::page::error::WebError;
use crate::page::params::Params;
use crate::page::part::href;

/// How long a request waits for a run while the roots are scanned for the first time.
const SCAN_PATIENCE: Duration = Duration::from_secs(5);
/// How often it looks for the run if nothing is announced.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Maximum number of runs shown side by side.
pub(crate) const MAX_RUNS: usize = 50;

/// The run that the address names. The key is looked up in the library and never becomes a path.
#[derive(Debug)]
pub(crate) struct RunParam(pub(crate) Arc<Run>);

/// A step that the run has, by its ordinal.
#[derive(Debug)]
pub(crate) struct StepParam(pub(crate) Arc<Run>, pub(crate) usize);

/// An event that the run has, by its ordinal.
#[derive(Debug)]
pub(crate) struct EventParam(pub(crate) Arc<Run>, pub(crate) usize);

/// The last named part of the path, whatever its name in the route.
#[derive(Debug)]
pub(crate) struct LastPart(pub(crate) String);

/// Returns the parts of the path by their names in the route. Empty if the decoded path isn't
/// UTF-8, because no resource has such a name.
async fn path_parts(parts: &mut Parts) -> Vec<(String, String)> {
    let params = RawPathParams::from_request_parts(parts, &()).await.ok();
    let params = params.iter().flatten();
    params
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

async fn path_part(parts: &mut Parts, name: &str) -> Option<String> {
    path_parts(parts)
        .await
        .into_iter()
        .find(|(known, _)| known == name)
        .map(|(_, value)| value)
}

/// Whether an address is part of the API.
pub(crate) fn is_api_path(path: &str) -> bool {
    path.strip_prefix("/api")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the error for an unknown key. It lists the runs with the most similar names, and its
/// page waits for the run.
/// While the roots are scanned for the first time, the run may exist.
pub(crate) fn no_such_run(state: &AppState, key: &str) -> WebError {
    if !state.library.status().first_look_done {
        let detail = format!("The first scan of {} isn't complete.", state.shown_roots());
        return WebError::new(StatusCode::SERVICE_UNAVAILABLE, "Not read yet:", &detail)
            .named(key)
            .awaiting(key);
    }
    let runs = state.library.runs();
    let close = closest(key, runs.iter().map(|run| (run.key().as_str(), run))).take(3);
    let detail = format!("There is no run with this name in {}.", state.shown_roots());
    WebError::not_found("No run named", &detail)
        .named(key)
        .close_to(close.map(|run| run.summary()).collect())
        .awaiting(key)
}

impl FromRequestParts<AppState> for RunParam {
    type Rejection = WebError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, WebError> {
        let key = path_part(parts, "key")
            .await
            .unwrap_or_else(|| "\u{fffd}".to_owned());
        let run = state
            .library
            .run(&key)
            .ok_or_else(|| no_such_run(state, &key))?;
        Ok(Self(run))
    }
}

/// Fetches missing files and reloads evicted runs named in the request, before any resource is held
/// for the response. Large files take time to read, and handlers request the index in places that
/// must not wait.
pub(crate) async fn load_runs(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let mut keys: Vec<String> = path_part(&mut parts, "key").await.into_iter().collect();
    let Ok(params) = Params::from_request_parts(&mut parts, &()).await;
    let named = params
        .pairs()
        .filter(|(name, _)| *name == "run" || href::SIDE_PARAMS.contains(name));
    keys.extend(named.take(MAX_RUNS).map(|(_, key)| key.to_owned()));
    first_scan(&state, &keys).await;
    let runs: Vec<_> = keys
        .iter()
        .filter_map(|key| state.library.run(key))
        .collect();
    // Request all runs before waiting for the first.
    runs.iter().for_each(|run| run.ask());
    let until = Instant::now() + FETCH_PATIENCE;
    let mut files = Vec::new();
    for run in runs {
        match held(&run, until).await {
            Ok(of_run) => files.extend(of_run),
            Err(why) => return not_here(&run, &why).into_response(),
        }
        reload(&state, run).await;
    }
    let (parts, body) = next
        .run(Request::from_parts(parts, body))
        .await
        .into_parts();
    // An event stream lasts as long as its page is open, and it doesn't read the run's files.
    let is_stream = parts
        .headers
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind == "text/event-stream");
    if files.is_empty() || is_stream || body.size_hint().exact().is_some() {
        return Response::from_parts(parts, body);
    }
    let pieces = body.into_data_stream().map(move |piece| {
        let _until_the_last = &files;
        piece
    });
    Response::from_parts(parts, Body::from_stream(pieces))
}

/// Waits until these runs are known, or all of those in the roots are.
async fn first_scan(state: &AppState, keys: &[String]) {
    let until = Instant::now() + SCAN_PATIENCE;
    let mut revision = state.library.revision();
    let is_unknown = |key: &String| state.library.run(key).is_none();
    while Instant::now() < until
        && !state.library.status().first_look_done
        && keys.iter().any(is_unknown)
    {
        let _ = timeout(LOOK_EVERY, revision.changed()).await;
    }
}

/// Keeps the files of a run in the cache until the response is complete. Lines are read one by one,
/// so evicting the files midway would break the response. Returns `None` if the files aren't in a
/// store's cache.
async fn held(run: &Run, until: Instant) -> Result<Option<impl Sized + Send + use<>>, String> {
    loop {
        run.fetch(until).await?;
        match run.hold() {
            Ok(files) => return Ok(files),
            Err(_) if Instant::now() < until => {}
            Err(_) => return Err("other runs need the space at the moment".to_owned()),
        }
    }
}

/// The error for a run whose files were evicted from its store's cache and can't be fetched again.
fn not_here(run: &Run, why: &str) -> WebError {
    let detail = format!(
        "Its files were evicted from the store's cache to make room for newer ones, and {why}."
    );
    let error = WebError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "Not available locally:",
        &detail,
    );
    let error = error
        .named(run.key().as_str())
        .hint("Use --s3-cache to allow a larger cache.");
    error
        .link("Try again", href::run(run.key().as_str()))
        .link("All runs", "/".to_owned())
}

/// Reloads a run if it is evicted. However many requests wait, one thread reads it, and few runs are
/// read at once.
async fn reload(state: &AppState, run: Arc<Run>) {
    if !run.is_parked() {
        return;
    }
    let turn = Arc::clone(run.waking()).lock_owned().await;
    if !run.is_parked() {
        return;
    }
    // The semaphores are never closed.
    let large = if run.is_large() {
        Arc::clone(&state.large_reloads).acquire_owned().await.ok()
    } else {
        None
    };
    let Ok(place) = Arc::clone(&state.reloads).acquire_owned().await else {
        return;
    };
    // If the client leaves, the reload still completes.
    let read = move || drop((run.index(), turn, place, large));
    let _ = blocking(read).await;
}

impl FromRequestParts<AppState> for StepParam {
    type Rejection = WebError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, WebError> {
        let RunParam(run) = RunParam::from_request_parts(parts, state).await?;
        let text = path_part(parts, "n").await.unwrap_or_default();
        let total = run.index().steps().len();
        match text.parse::<usize>() {
            Ok(n) if n < total => Ok(Self(run, n)),
            Ok(n) => Err(no_such_step(&run, total, n)),
            Err(_) => {
                let has = run.summary().has_steps("It", &run.index(), total);
                let detail = format!("{has}. Use a step number.");
                let error = WebError::bad_request("This run has no step", &detail).named(&text);
                Err(error.link("Open the run", href::run(run.key().as_str())))
            }
        }
    }
}

/// The error for a run with `total` steps but no step `n`. A run that is still being read may have
/// it.
pub(crate) fn no_such_step(run: &Run, total: usize, n: usize) -> WebError {
    if run.summary().partial {
        let sentence = &run.summary().verdict.sentence;
        let detail = format!("The run: {sentence}. Try again in a moment.");
        let error = WebError::not_found("Not read yet: step", &detail).named(&n.to_string());
        return error.link("Open the run", href::run(run.key().as_str()));
    }
    let has = run.summary().has_steps("It", &run.index(), total);
    let error =
        WebError::not_found("This run has no step", &format!("{has}.")).named(&n.to_string());
    error.link("Open the run", href::run(run.key().as_str()))
}

impl FromRequestParts<AppState> for EventParam {
    type Rejection = WebError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, WebError> {
        let RunParam(run) = RunParam::from_request_parts(parts, state).await?;
        let text = path_part(parts, "n").await.unwrap_or_default();
        let total = run.index().events().len();
        if let Some(n) = text.parse().ok().filter(|n| *n < total) {
            return Ok(Self(run, n));
        }
        let has = format!("It has {}, numbered from 0.", counted(total, "event"));
        let error = WebError::not_found("This run has no event", &has).named(&text);
        Err(error.link("Open the run", href::run(run.key().as_str())))
    }
}

impl<S: Sync> FromRequestParts<S> for LastPart {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(
            path_parts(parts)
                .await
                .pop()
                .map(|(_, value)| value)
                .unwrap_or_default(),
        ))
    }
}
