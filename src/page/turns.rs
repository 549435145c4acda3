//! Who may begin what takes long, and how many may wait for that?
//!
//! Whoever waits holds a place among all answers meanwhile, of which there are only so many: if any number could wait, one
//! reader who asks for many downloads and takes none would keep everybody from the board. Knows nothing of what is done.

use std::sync::Arc;

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::page::error::WebError;

/// So many may wait for one kind of work. With all kinds there are, a fraction of the places that answers have.
pub(crate) const MAX_WAITING: usize = 32;

/// The turns of one kind of work.
#[derive(Debug, Clone)]
pub(crate) struct Turns {
    turns: Arc<Semaphore>,
    /// One for each that is at work or waits.
    open: Arc<Semaphore>,
}

/// Work goes on until this is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _turn: OwnedSemaphorePermit,
    _open: OwnedSemaphorePermit,
}

impl Turns {
    /// So many are at work at a time.
    pub(crate) fn new(at_a_time: usize) -> Self {
        Self {
            turns: Arc::new(Semaphore::new(at_a_time)),
            open: Arc::new(Semaphore::new(at_a_time + MAX_WAITING)),
        }
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// Too many wait already.
    pub(crate) async fn take(&self) -> Result<Turn, WebError> {
        let busy = |_| {
            let detail = "Too many answers of this kind are being made or wait for their turn.";
            WebError::new(StatusCode::SERVICE_UNAVAILABLE, "The board is busy", detail)
                .hint("Ask again in a moment.")
        };
        let open = Arc::clone(&self.open).try_acquire_owned().map_err(busy)?;
        let turn = Arc::clone(&self.turns)
            .acquire_owned()
            .await
            .map_err(|error| WebError::fault(&error))?;
        Ok(Turn {
            _turn: turn,
            _open: open,
        })
    }
}
