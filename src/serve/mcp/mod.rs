//! Serves the Model Context Protocol over a stream: one message per line, until the stream ends.
//!
//! The SDK implements the protocol. The tools return documents of the API, so there is one source of JSON; [`bound`] cuts
//! them to the length that the caller asked for. Nothing here changes a trace.

mod bound;
mod calls;
mod server;
mod session;
#[cfg(test)]
mod tests;
mod tools;
mod transport;

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use rmcp::service::serve_directly;
use tokio::io::AsyncRead;
use tokio::sync::watch;

use crate::error::{Error, Kind};
use crate::live::Library;
use crate::page::app::AppState;
use server::Board;
use session::Session;
use transport::Transport;

/// Threads for blocking work: making answers, and reading the standard input.
const MAX_THREADS: usize = 17;
/// How long the first requests wait until all runs are indexed. Answers after that say how many runs are missing.
const SETTLE: Duration = Duration::from_secs(10);

/// Why serving failed.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The server couldn't start.
    Told(Error),
    /// The answers couldn't be written.
    Output(io::Error),
}

/// Answers the requests in `input` about the runs of `library` until `input` ends.
///
/// # Errors
/// The runtime can't start, or `out` can't be written.
pub(crate) fn talk(
    library: Library,
    input: impl AsyncRead + Unpin + Send + 'static,
    out: &mut dyn Write,
) -> Result<(), Ended> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(MAX_THREADS)
        .enable_all()
        .build()
        .map_err(|error| {
            let what = "the MCP server can't start its runtime";
            Ended::Told(Error::new(Kind::Unreadable, what).because(error))
        })?;
    let library = Arc::new(library);
    let (_stop, stopping) = watch::channel(false);
    let state = AppState::new(Arc::clone(&library), "localhost", stopping);
    let session = Session::new(state, SETTLE);
    let done = runtime.block_on(answer(session, input, out));
    library.close();
    runtime.shutdown_background();
    done.map_err(Ended::Output)
}

/// Writes the answers to `out`, one line each.
async fn answer(
    session: Session,
    input: impl AsyncRead + Unpin + Send + 'static,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (transport, mut replies) = Transport::new(input);
    // Without waiting for a handshake: requests of 2026-07-28 have none, and older ones are answered without it too.
    let _service = serve_directly(Board::new(session), transport, None);
    while let Some(reply) = replies.recv().await {
        writeln!(out, "{}", reply.text)?;
        out.flush()?;
    }
    Ok(())
}
