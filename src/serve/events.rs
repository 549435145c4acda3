//! Notifies browsers of changes with a stream of revision numbers, and nothing else.
//!
//! The channel holds a single number. Slow readers skip numbers and use no extra memory.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, HeaderName};
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;

use crate::live::Run;
use crate::page::app::AppState;
use crate::page::error::{Answer, WebError};
use crate::page::extract::RunParam;

/// Proxies and browsers close a silent connection after about a minute.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// `GET /events`
pub(crate) async fn library(State(state): State<AppState>) -> Answer {
    let revision = state.library.revision();
    stream(state, revision, None)
}

/// `GET /runs/{key}/events`
pub(crate) async fn run(State(state): State<AppState>, RunParam(run): RunParam) -> Answer {
    let revision = run.revision();
    stream(state, revision, Some(run))
}

fn stream(state: AppState, revision: watch::Receiver<u64>, run: Option<Arc<Run>>) -> Answer {
    let open = Arc::clone(&state.streams)
        .try_acquire_owned()
        .map_err(|_| {
            let detail = "Too many pages with live updates are open.";
            WebError::new(StatusCode::SERVICE_UNAVAILABLE, "board is busy", detail)
                .hint("Close some of board's pages.")
        })?;
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        feed(state, revision, run, sender).await;
        drop(open);
    });
    let sse =
        Sse::new(ReceiverStream::new(receiver)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    let headers = [
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, sse).into_response())
}

/// Sends the current revision and each later one, until the reader leaves or the server stops.
async fn feed(
    state: AppState,
    mut revision: watch::Receiver<u64>,
    run: Option<Arc<Run>>,
    sender: mpsc::Sender<Result<Event, Infallible>>,
) {
    let mut stopping = state.stopping.clone();
    loop {
        // Read before the message is built, so that the message reports `gone` too.
        let gone = run.as_deref().is_some_and(Run::is_gone);
        let now = *revision.borrow_and_update();
        let message = message(now, &state.boot, run.as_deref());
        tokio::select! {
            sent = sender.send(Ok(Event::default().event("rev").data(message))) => if sent.is_err() { return },
            _ = stopping.wait_for(|stop| *stop) => break,
        }
        // If the directory comes back, it is a new run, and clients must subscribe again.
        if gone {
            break;
        }
        tokio::select! {
            changed = revision.changed() => if changed.is_err() { break },
            _ = stopping.wait_for(|stop| *stop) => break,
            () = sender.closed() => return,
        }
    }
    // Don't wait for a reader that doesn't read.
    let _ = sender.try_send(Ok(Event::default().event("bye").data("{}")));
}

fn message(revision: u64, boot: &str, run: Option<&Run>) -> String {
    let status = run.map(|run| {
        if run.is_gone() {
            "gone"
        } else {
            run.summary().life.liveness.word()
        }
    });
    match status {
        Some(status) => format!(r#"{{"rev":{revision},"boot":"{boot}","status":"{status}"}}"#),
        None => format!(r#"{{"rev":{revision},"boot":"{boot}"}}"#),
    }
}
