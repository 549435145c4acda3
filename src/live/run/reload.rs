//! Reloads an evicted run in slices, so that no other run waits for a large one.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::{News, Run, now};
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
    reader: RunReader,
    pub(super) index: Arc<Index>,
    /// The stamps of the files when the index was dropped.
    before: Option<StampsHash>,
    /// Whether there is more to read.
    pub(super) more: bool,
}

impl Reload {
    /// Reads at most about `limit` bytes of each file. Returns whether there is more.
    pub(super) fn read(&mut self, limit: u64) -> bool {
        let delta = self.reader.refresh(limit);
        self.take(delta)
    }

    /// Reads like [`Self::read`], for a caller that waits until everything is read.
    pub(super) fn read_patiently(&mut self, limit: u64) -> bool {
        let delta = self.reader.refresh_patiently(limit);
        self.take(delta)
    }

    fn take(&mut self, delta: Delta) -> bool {
        self.more = delta.more || self.reader.is_under_way();
        Arc::make_mut(&mut self.index).apply(delta);
        self.more
    }
}

impl Run {
    /// Starts a reload, or continues one that was started.
    pub(super) fn begin_again(&self, held: Held) -> Box<Reload> {
        let before = match held {
            Held::Reloading(reload) => return reload,
            Held::Parked(stamps) => Some(stamps),
            Held::Failed(stamps) => stamps,
            Held::Unread | Held::Open(_) => None,
        };
        let reader = RunReader::settling(self.dir.clone(), self.settle);
        Box::new(Reload {
            reader,
            index: Arc::default(),
            before,
            more: true,
        })
    }

    /// Publishes the reloaded index if it's complete.
    pub(super) fn catch_up(&self, reload: Box<Reload>) -> Held {
        // If a file couldn't be read completely, the next check tries again.
        if reload.more || reload.reader.is_busy() {
            return Held::Reloading(reload);
        }
        let Reload {
            reader,
            index,
            before,
            ..
        } = *reload;
        let seen = StampsHash::from(reader.seen());
        if before != Some(seen) || self.summary().partial {
            self.outdated.store(true, Ordering::Relaxed);
        }
        // Changed permissions or times alone are no sign of life.
        if before.is_some_and(|before| !before.has_sizes_of(seen)) {
            self.grew.store(now(), Ordering::Relaxed);
        }
        *self.index.write().unwrap_or_else(PoisonError::into_inner) = Some(index);
        Held::Open(Box::new(reader))
    }

    /// Updates the summary after a reload. Until that's complete, the old summary stays, marked as
    /// partial.
    pub(super) fn summarize_reload(&self, held: &Held) -> News {
        if let Held::Reloading(reload) = held {
            let mut summary = self.summary.write().unwrap_or_else(PoisonError::into_inner);
            let changed = !summary.partial;
            Arc::make_mut(&mut summary).partial = true;
            let waits = reload.reader.waits();
            return News {
                changed,
                more: reload.more && !waits,
                waits,
                ..News::default()
            };
        }
        let outdated = self.outdated.swap(false, Ordering::Relaxed);
        News {
            changed: self.sum_up() || outdated,
            ..News::default()
        }
    }
}
