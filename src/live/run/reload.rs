//! Reloads an evicted run in slices, so that no other run waits for a large one.

use std::sync::Arc;

use crate::model::{Delta, Index};
use crate::trace::{RunReader, StampsHash};

/// How a run is followed.
#[derive(Debug)]
pub(super) enum Held {
    /// The run hasn't been read.
    Unread,
    /// A reader is open and knows the position in each file.
    Open(Box<RunReader>),
    /// The run is being reloaded after its index was dropped. Its files are read in slices, and the
    /// index stays hidden until it's complete.
    Reloading(Box<Reload>),
    /// Only the stamps of its files are kept.
    Parked(StampsHash),
    /// Reading failed. The run isn't read again until its files change.
    Failed(Option<StampsHash>),
}

impl Held {
    /// Returns whether a document has been read in part. Such documents count toward the limit of
    /// concurrent reads.
    pub(super) fn is_under_way(&self) -> bool {
        match self {
            Held::Open(reader) => reader.is_under_way(),
            Held::Reloading(reload) => reload.reader.is_under_way(),
            Held::Unread | Held::Parked(_) | Held::Failed(_) => false,
        }
    }
}

impl Default for Held {
    fn default() -> Self {
        Held::Failed(None)
    }
}

/// A partial reload.
#[derive(Debug)]
pub(super) struct Reload {
    pub(super) reader: RunReader,
    pub(super) index: Arc<Index>,
    /// The stamps of the files when the index was dropped.
    pub(super) before: Option<StampsHash>,
    /// Whether there is more to read.
    pub(super) more: bool,
}

impl Reload {
    /// Reads at most about `limit` bytes of each file. Returns whether there is more.
    pub(super) fn read(&mut self, limit: u64) -> bool {
        let delta = self.reader.refresh(limit);
        self.take(delta)
    }

    /// Reads like [`Self::read`], for a request, which waits until everything is read.
    pub(super) fn read_in_turn(&mut self, limit: u64) -> bool {
        let delta = self.reader.refresh_patiently(limit);
        self.take(delta)
    }

    fn take(&mut self, delta: Delta) -> bool {
        self.more = delta.more || self.reader.is_under_way();
        Arc::make_mut(&mut self.index).apply(delta);
        self.more
    }
}
