//! Serves the steps of a run as JSON: a window of step heads, or one step with its lines.

use axum::extract::State;
use axum::http::StatusCode;

use crate::analysis::step_document as document;
use crate::model::{MAX_LINE_BYTES, TraceFile};
use crate::page::answer::json;
use crate::page::app::AppState;
use crate::page::error::{Answer, WebError};
use crate::page::extract::{RunParam, StepParam};
use crate::page::params::Params;
use crate::page::part::href;
use crate::page::run::handler::with_view;

/// The default number of steps in a response.
const DEFAULT_LIMIT: usize = 200;

/// Limits the bytes of a step's line and events. Larger steps don't fit in one response.
const MAX_STEP_BYTES: u64 = 32 << 20;

/// `GET /api/runs/{key}/steps`
pub(crate) async fn steps(
    State(state): State<AppState>,
    RunParam(run): RunParam,
    params: Params,
) -> Answer {
    let (limit, after) = (params.limit(DEFAULT_LIMIT)?, params.number("after")?);
    with_view(&state, &run, move |view| {
        json(&document::steps(view.index, after, limit))
    })
    .await
}

/// `GET /api/runs/{key}/steps/{n}`
pub(crate) async fn step(State(state): State<AppState>, StepParam(run, n): StepParam) -> Answer {
    with_view(&state, &run, move |view| {
        let gone = |why: String| {
            WebError::not_found(
                "This step can't be read",
                &format!("Cause: {why}."),
            )
        };
        let span = view
            .index
            .steps()
            .get(n)
            .map(|step| step.span)
            .unwrap_or_default();
        let events = view
            .index
            .events()
            .range(document::events_of(view.index, n));
        let lengths = || events.clone().map(|event| event.span.len).chain([span.len]);
        let bytes = lengths().sum::<u64>();
        if bytes > MAX_STEP_BYTES || lengths().any(|len| len > MAX_LINE_BYTES) {
            let detail = format!(
                "Its line and events have {bytes} bytes. Fetch them one by one through their raw addresses."
            );
            let error = WebError::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "This step is too large for one response",
                &detail,
            );
            return Err(error.link("Open the raw line", format!("{}/raw", href::step(view.key(), n))));
        }
        let line = view.lines.line(TraceFile::Steps, span).map_err(gone)?;
        let events: Result<Vec<_>, _> = events
            .clone()
            .map(|event| view.lines.line(TraceFile::Events, event.span))
            .collect();
        let events = events.map_err(gone)?;
        let step = document::step(view.index, n, &line, &events);
        json(&step.ok_or_else(|| gone("the files changed".to_owned()))?)
    })
    .await
}
