//! Finds the runs below the roots, follows them, and keeps their indexes up to date.
//!
//! Knows neither HTTP nor HTML. Readers see only one number, the revision: a newer one means that
//! something changed. It only rises, so a slow reader may skip numbers without missing a state.

mod cache;
mod editor;
mod hints;
mod queue;
mod roots;
mod rounds;
mod run;
mod scan;
mod search;
mod shared;
mod stored_indexes;
mod supervise;
mod tags;

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use tokio::sync::watch;

pub(crate) use crate::cache_file::build;
pub(crate) use editor::{Editor, EditorFile};
pub(crate) use roots::{Listed, list};
pub(crate) use run::{FETCH_PATIENCE, Run};
pub(crate) use search::{HitSink, search};
pub(crate) use shared::{Elsewhere, Mode, Options, Status};
pub(crate) use tags::{Added, FollowedTags, TagFile, check_tag, has_own_tag};

pub(crate) use crate::mirror::Status as MirrorStatus;
pub(crate) use crate::trace::{
    RedactionPreview, SharedSecrets, Skipped, SkippedKind, SkippedTotal,
};

use crate::mirror::Mirror;
use crate::model::RunKey;
use crate::model::price::Prices;
use shared::Shared;

/// The time that the scan thread gets to write the index cache when the library is closed.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// All runs below some roots, kept up to date by a background thread.
#[derive(Debug)]
pub(crate) struct Library {
    shared: Arc<Shared>,
    elsewhere: Vec<Elsewhere>,
    /// The object stores among the roots, by the root's position.
    mirrors: Vec<(usize, Arc<Mirror>)>,
    /// Disconnects once nothing follows the roots. `None` if nothing ever did.
    followed: Mutex<Option<mpsc::Receiver<()>>>,
    threads: NonZero<usize>,
}

impl Library {
    /// Opens roots and follows them until the library is dropped. Returns immediately, and runs
    /// appear as they are found.
    pub(crate) fn open(roots: Vec<PathBuf>, options: Options) -> Self {
        Self::follow(Shared::new(&roots, &options.mirrors), roots, options)
    }

    fn follow(shared: Shared, roots: Vec<PathBuf>, mut options: Options) -> Self {
        let shared = Arc::new(shared);
        let elsewhere = std::mem::take(&mut options.elsewhere);
        let mirrors: Vec<_> = options
            .mirrors
            .iter()
            .filter_map(|mirror| {
                let weak = Arc::downgrade(&shared);
                mirror.listen(move || {
                    weak.upgrade()
                        .into_iter()
                        .for_each(|shared| shared.raise(|_| {}))
                });
                Some((
                    roots.iter().position(|root| root == mirror.dir())?,
                    Arc::clone(mirror),
                ))
            })
            .collect();
        let threads = options.threads();
        let end = supervise::start(&shared, roots, options);
        Self {
            shared,
            elsewhere,
            mirrors,
            threads,
            followed: Mutex::new(Some(end)),
        }
    }

    /// Returns a library whose roots aren't scanned.
    #[cfg(test)]
    pub(crate) fn unscanned(roots: &[PathBuf]) -> Self {
        Self {
            shared: Arc::new(Shared::new(roots, &[])),
            elsewhere: Vec::new(),
            mirrors: Vec::new(),
            followed: Mutex::default(),
            threads: Options::default().threads(),
        }
    }

    /// Reads roots once, completely.
    #[cfg(test)]
    pub(crate) fn load(roots: Vec<PathBuf>) -> Self {
        Self::load_with(roots, Arc::default(), Arc::default())
    }

    /// Reads roots once, completely, with prices to estimate costs and the tags of the user.
    pub(crate) fn load_with(
        roots: Vec<PathBuf>,
        prices: Arc<Prices>,
        tags: Arc<FollowedTags>,
    ) -> Self {
        let shared = Arc::new(Shared::new(&roots, &[]));
        let options = Options {
            poll: Some(Duration::MAX),
            prices,
            tags,
            ..Options::default()
        };
        let threads = options.threads();
        scan::Scanner::new(Arc::clone(&shared), roots, options).read_once();
        Self {
            shared,
            elsewhere: Vec::new(),
            mirrors: Vec::new(),
            followed: Mutex::default(),
            threads,
        }
    }

    /// Returns how many threads long tasks may use.
    pub(crate) fn threads(&self) -> NonZero<usize> {
        self.threads
    }

    /// Returns the directories that weren't opened, but that contain traces, judging by their
    /// names.
    pub(crate) fn elsewhere(&self) -> &[Elsewhere] {
        &self.elsewhere
    }

    /// Returns all runs, ordered by key.
    pub(crate) fn runs(&self) -> Vec<Arc<Run>> {
        self.shared
            .runs
            .read()
            .map(|runs| runs.values().cloned().collect())
            .unwrap_or_default()
    }

    /// Returns the runs that count. Of several files with the same records, only one does.
    pub(crate) fn counted(&self) -> Vec<Arc<Run>> {
        self.listed(false).0
    }

    /// Returns the runs that count, or those and their duplicates, with the number of duplicates at
    /// the same moment.
    pub(crate) fn listed(&self, with_copies: bool) -> (Vec<Arc<Run>>, usize) {
        let mut runs = self.runs();
        let all = runs.len();
        let counts = |run: &Arc<Run>| run.summary().counts();
        let counting = if with_copies {
            runs.iter().filter(|run| counts(run)).count()
        } else {
            runs.retain(counts);
            runs.len()
        };
        (runs, all - counting)
    }

    /// Returns the run with this key.
    pub(crate) fn run(&self, key: &str) -> Option<Arc<Run>> {
        self.shared
            .runs
            .read()
            .ok()?
            .get(&RunKey::new(key))
            .cloned()
    }

    /// Stops following the roots, after the index cache is written. The runs remain readable.
    pub(crate) fn stop(&self) {
        self.shared.hints.stop();
    }

    /// Stops following the roots and waits until the index cache is written, but no longer than a
    /// second, because a disk may not respond.
    pub(crate) fn close(&self) {
        self.stop();
        let followed = self
            .followed
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take();
        // Whether it finished or timed out, the wait is over.
        let _ = followed.map(|end| end.recv_timeout(CLOSE_WITHIN));
    }

    /// Returns a receiver of the revision.
    pub(crate) fn revision(&self) -> watch::Receiver<u64> {
        self.shared.revision.subscribe()
    }

    /// Simulates a stall.
    #[cfg(test)]
    pub(crate) fn stall(&self, why: &str) {
        self.shared.say_stalled(Some(why.to_owned()));
    }

    /// Returns the state of watching.
    pub(crate) fn status(&self) -> Status {
        let mut status = match self.shared.status.read() {
            Ok(status) => status.clone(),
            Err(poisoned) => poisoned.into_inner().clone(),
        };
        for (at, mirror) in &self.mirrors {
            status
                .roots
                .iter_mut()
                .skip(*at)
                .take(1)
                .for_each(|root| root.mirror = Some(mirror.status()));
        }
        status
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests;
