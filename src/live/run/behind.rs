//! Reads an evicted run again, in slices, so that no other run waits for a large one.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::{News, Run, now};
use crate::model::{Delta, Index};
use crate::trace::{RunReader, Stamps};

/// How a run is followed.
#[derive(Debug)]
pub(super) enum Held {
    /// Not yet.
    Unread,
    /// By a reader that knows where each file goes on.
    Open(Box<RunReader>),
    /// By one that has not come to the end again: a run that was let go of is read in slices, and as long as some are
    /// missing nobody is shown them.
    Behind(Box<Behind>),
    /// By what its files look like from outside.
    Parked(Stamps),
    /// Not, until its files change: what reads them failed.
    Failed(Option<Stamps>),
}

impl Held {
    /// Whether a document has been read in part, which counts among those that are read at a time.
    pub(super) fn is_under_way(&self) -> bool {
        match self {
            Held::Open(reader) => reader.is_under_way(),
            Held::Behind(behind) => behind.reader.is_under_way(),
            Held::Unread | Held::Parked(_) | Held::Failed(_) => false,
        }
    }
}

impl Default for Held {
    fn default() -> Self {
        Held::Failed(None)
    }
}

/// What was read of a run that was let go of.
#[derive(Debug)]
pub(super) struct Behind {
    reader: RunReader,
    pub(super) index: Arc<Index>,
    /// What its files looked like when it was let go of.
    before: Option<Stamps>,
    /// There is more to read.
    pub(super) more: bool,
}

impl Behind {
    /// Reads at most about `limit` bytes of each file; says whether there are more.
    pub(super) fn read(&mut self, limit: u64) -> bool {
        let delta = self.reader.refresh(limit);
        self.take(delta)
    }

    /// The same for somebody who waits until all is read.
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
    /// What reads it again, from its start or from where that came to.
    pub(super) fn begin_again(&self, held: Held) -> Box<Behind> {
        let before = match held {
            Held::Behind(behind) => return behind,
            Held::Parked(stamps) => Some(stamps),
            Held::Failed(stamps) => stamps,
            Held::Unread | Held::Open(_) => None,
        };
        let reader = RunReader::settling(self.dir.clone(), self.settle);
        Box::new(Behind {
            reader,
            index: Arc::default(),
            before,
            more: true,
        })
    }

    /// Shows what was read again, if that is all there is.
    pub(super) fn catch_up(&self, behind: Box<Behind>) -> Held {
        // Where not all could be read, the next one who looks tries again.
        if behind.more || behind.reader.is_busy() {
            return Held::Behind(behind);
        }
        let Behind {
            reader,
            index,
            before,
            ..
        } = *behind;
        if before != Some(reader.seen()) || self.summary().partial {
            self.outdated.store(true, Ordering::Relaxed);
        }
        // Other rights or another time alone are no sign of life.
        if before.is_some_and(|before| before.sizes() != reader.seen().sizes()) {
            self.grew.store(now(), Ordering::Relaxed);
        }
        *self.index.write().unwrap_or_else(PoisonError::into_inner) = Some(index);
        Held::Open(Box::new(reader))
    }

    /// Sums up what was read again; as long as that is not all, what was said before stays, marked as not all.
    pub(super) fn tell_of_rereading(&self, held: &Held) -> News {
        if let Held::Behind(behind) = held {
            let mut summary = self.summary.write().unwrap_or_else(PoisonError::into_inner);
            let changed = !summary.partial;
            Arc::make_mut(&mut summary).partial = true;
            let waits = behind.reader.waits();
            return News {
                changed,
                more: behind.more && !waits,
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
