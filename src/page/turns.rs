//! Limits how many long tasks of one kind run at a time, and how many may wait.
//!
//! A waiting request occupies one of the limited places for responses. If any number could wait,
//! one client that requests many downloads and reads none would block everyone else. This module
//! must not know what the tasks do.

use std::sync::Arc;

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::page::error::WebError;

/// Limits the requests waiting for one kind of work. All kinds together use only a fraction of the
/// places for responses.
pub(crate) const MAX_WAITING: usize = 32;

/// The turns of one kind of work.
#[derive(Debug, Clone)]
pub(crate) struct Turns {
    turns: Arc<Semaphore>,
    /// Counts requests that are running or waiting.
    open: Arc<Semaphore>,
}

/// A turn, held until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _turn: OwnedSemaphorePermit,
    _open: OwnedSemaphorePermit,
}

impl Turns {
    /// Allows `at_a_time` tasks to run at the same time.
    pub(crate) fn new(at_a_time: usize) -> Self {
        Self {
            turns: Arc::new(Semaphore::new(at_a_time)),
            open: Arc::new(Semaphore::new(at_a_time + MAX_WAITING)),
        }
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// Fails if too many requests are already waiting.
    pub(crate) async fn take(&self) -> Result<Turn, WebError> {
        let busy = |_| {
            let detail = "Too many requests of this kind are running or waiting.";
            WebError::new(StatusCode::SERVICE_UNAVAILABLE, "board is busy", detail)
                .hint("Try again in a moment.")
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
