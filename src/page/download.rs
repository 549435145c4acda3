//! Sends responses that may not fit in memory, writing them piece by piece while they are read.
//!
//! A stalled reader holds a thread and a few pieces until its connection is closed. The number of
//! downloads that run or wait is therefore limited, and pages have separate threads.

use std::io::{self, Write};

use axum::body::{Body, Bytes};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::page::app::AppState;
use crate::page::error::WebError;

/// The maximum bytes of a piece, and the maximum number of pieces that wait for the connection.
const PIECE_BYTES: usize = 64 << 10;
const PIECES: usize = 4;

/// Returns a body that `write` fills. If `write` fails, the reader sees a broken response, not one
/// that looks complete.
pub(crate) async fn body(
    state: &AppState,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static,
) -> Result<Body, WebError> {
    let turn = state.downloads.take().await?;
    let (sender, receiver) = mpsc::channel(PIECES);
    tokio::task::spawn_blocking(move || {
        let _turn = turn;
        let mut out = io::BufWriter::with_capacity(
            PIECE_BYTES,
            Pieces {
                sender: sender.clone(),
            },
        );
        if let Err(error) = write(&mut out).and_then(|()| out.flush()) {
            // If the reader has left, there is no one to report the error to.
            let _ = sender.blocking_send(Err(error));
        }
    });
    Ok(Body::from_stream(ReceiverStream::new(receiver)))
}

/// Passes written bytes to the connection, and blocks while it is slow.
struct Pieces {
    sender: mpsc::Sender<Result<Bytes, io::Error>>,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A long line bypasses the buffer in a single write. Splitting it keeps waiting pieces
        // small.
        let piece = bytes.get(..PIECE_BYTES).unwrap_or(bytes);
        let sent = self.sender.blocking_send(Ok(Bytes::copy_from_slice(piece)));
        sent.map(|()| piece.len())
            .map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
