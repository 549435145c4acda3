//! How is an answer sent that may be larger than the memory? Written while it is read, a piece at a time.
//!
//! A reader that takes nothing holds a thread and a few pieces until the connection gives it up, so only so many are
//! written at a time, and only so many wait for that; pages have threads of their own.

use std::io::{self, Write};

use axum::body::{Body, Bytes};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::page::app::AppState;
use crate::page::error::WebError;

/// So many are written at a time; others wait for their turn.
pub(crate) const MAX_DOWNLOADS: usize = 16;
/// The most bytes in one piece, and how many pieces may wait for the connection.
const PIECE_BYTES: usize = 64 << 10;
const PIECES: usize = 4;

/// The body that `write` writes. Where it fails, the reader sees a broken answer, not one that only looks complete.
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
            // Whoever left needs not be told.
            let _ = sender.blocking_send(Err(error));
        }
    });
    Ok(Body::from_stream(ReceiverStream::new(receiver)))
}

/// Hands what is written to the connection, and waits while it is slow.
struct Pieces {
    sender: mpsc::Sender<Result<Bytes, io::Error>>,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A long line comes past the buffer in one write; sent as one piece, each that waits would hold all of it.
        let piece = bytes.get(..PIECE_BYTES).unwrap_or(bytes);
        let sent = self.sender.blocking_send(Ok(Bytes::copy_from_slice(piece)));
        sent.map(|()| piece.len())
            .map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
