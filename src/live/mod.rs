//! Finds the runs below the roots, follows them, and keeps their indexes up to date.
//!
//! Knows nothing of HTTP or HTML. Readers see only one number, the revision: a newer one means that
//! something changed. It only rises, so a slow reader may skip numbers without missing a state.

mod cache;
mod hints;
mod queue;
mod roots;
mod rounds;
mod run;
mod scan;
mod search;
mod supervise;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, RwLock, mpsc};
use std::time::{Duration, Instant};

use tokio::sync::watch;

pub use roots::{Listed, list};
pub use run::{FETCH_PATIENCE, Run};
pub use search::{HitSink, search};

pub use crate::mirror::Status as MirrorStatus;

use crate::mirror::Mirror;
use crate::model::RunKey;
use crate::model::price::Prices;
pub use crate::trace::{Skipped, SkippedKind, SkippedTotal};
use hints::Hints;
use supervise::Beat;

/// The scan thread counts as stalled after this long without a sign of life. Checking one file
/// takes a fraction of a second.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time that the scan thread gets to write the index cache when the library is closed.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// Options for following roots.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Checks every file this often, and ignores file system events.
    pub poll: Option<Duration>,
    /// A directory outside of the roots for the index cache. With it, the next start doesn't have
    /// to read unchanged runs.
    pub cache: Option<PathBuf>,
    /// The prices of models, for estimating costs that aren't recorded.
    pub prices: Arc<Prices>,
    /// Directories that weren't opened, but that contain traces, judging by their names.
    pub elsewhere: Vec<Elsewhere>,
    /// The object stores. Their mirror directories are among the roots.
    pub mirrors: Vec<Arc<Mirror>>,
}

/// A directory in which a tool keeps its traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// The tool.
    pub tool: &'static str,
    /// The directory.
    pub dir: PathBuf,
}

/// All runs below some roots, kept up to date by a background thread.
#[derive(Debug)]
pub struct Library {
    shared: Arc<Shared>,
    elsewhere: Vec<Elsewhere>,
    /// The object stores among the roots, by the root's position.
    mirrors: Vec<(usize, Arc<Mirror>)>,
    /// Disconnects once nothing follows the roots. `None` if nothing ever did.
    followed: Mutex<Option<mpsc::Receiver<()>>>,
}

#[derive(Debug)]
struct Shared {
    runs: RwLock<BTreeMap<RunKey, Arc<Run>>>,
    status: RwLock<Status>,
    revision: watch::Sender<u64>,
    hints: Arc<Hints>,
    /// The scan thread's signs of life, and how long one may be overdue.
    beat: Beat,
    patience: Duration,
    #[cfg(test)]
    fault: Mutex<Option<fn()>>,
}

/// The state of watching.
#[derive(Debug, Clone)]
pub struct Status {
    /// How the board learns of changes.
    pub mode: Mode,
    /// When the roots were last scanned.
    pub looked: Instant,
    /// Whether the roots were scanned at all.
    pub first_look_done: bool,
    /// The number of runs that aren't completely indexed yet.
    pub indexing: usize,
    /// Whether runs that may contain the same records still have to be compared.
    pub uncompared: bool,
    /// Why no updates arrive, if that's so.
    pub stalled: Option<String>,
    /// How often the scan thread failed and was restarted.
    pub restarts: usize,
    /// The roots.
    pub roots: Vec<RootStatus>,
}

/// How the board learns of changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// File system events, and a sweep that catches what they miss.
    Native,
    /// Polling only, with the reason.
    Poll(String),
}

/// The state of a root.
#[derive(Debug, Clone)]
pub struct RootStatus {
    /// The root as the user typed it.
    pub path: PathBuf,
    /// Why the root can't be read, if it can't.
    pub fault: Option<String>,
    /// The first of the files and directories that aren't shown as runs.
    pub skipped: Arc<[Skipped]>,
    /// The number of skipped files and directories.
    pub skipped_total: SkippedTotal,
    /// The state of the mirror, if the root is an object store.
    pub mirror: Option<MirrorStatus>,
}

impl Library {
    /// Opens roots and follows them until the library is dropped. Returns immediately, and runs
    /// appear as they are found.
    pub fn open(roots: Vec<PathBuf>, options: Options) -> Self {
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
        let end = supervise::start(&shared, roots, options);
        Self {
            shared,
            elsewhere,
            mirrors,
            followed: Mutex::new(Some(end)),
        }
    }

    /// Reads roots once, completely.
    pub fn load(roots: Vec<PathBuf>) -> Self {
        Self::load_with(roots, Arc::default())
    }

    /// Reads roots once, completely, with prices to estimate costs.
    pub fn load_with(roots: Vec<PathBuf>, prices: Arc<Prices>) -> Self {
        let shared = Arc::new(Shared::new(&roots, &[]));
        let options = Options {
            poll: Some(Duration::MAX),
            prices,
            ..Options::default()
        };
        scan::Scanner::new(Arc::clone(&shared), roots, options).read_once();
        Self {
            shared,
            elsewhere: Vec::new(),
            mirrors: Vec::new(),
            followed: Mutex::default(),
        }
    }

    /// Returns the directories that weren't opened, but that contain traces, judging by their
    /// names.
    pub fn elsewhere(&self) -> &[Elsewhere] {
        &self.elsewhere
    }

    /// Returns all runs, ordered by key.
    pub fn runs(&self) -> Vec<Arc<Run>> {
        self.shared
            .runs
            .read()
            .map(|runs| runs.values().cloned().collect())
            .unwrap_or_default()
    }

    /// Returns the runs that count. Of several files with the same records, only one does.
    pub fn counted(&self) -> Vec<Arc<Run>> {
        let mut runs = self.runs();
        runs.retain(|run| run.summary().counts());
        runs
    }

    /// Returns the run with this key.
    pub fn run(&self, key: &str) -> Option<Arc<Run>> {
        self.shared
            .runs
            .read()
            .ok()?
            .get(&RunKey::new(key))
            .cloned()
    }

    /// Stops following the roots, after the index cache is written. The runs remain readable.
    pub fn stop(&self) {
        self.shared.hints.stop();
    }

    /// Stops following the roots and waits until the index cache is written, but no longer than a
    /// second, because a disk may not respond.
    pub fn close(&self) {
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
    pub fn revision(&self) -> watch::Receiver<u64> {
        self.shared.revision.subscribe()
    }

    /// Simulates a stall.
    #[cfg(test)]
    pub(crate) fn stall(&self, why: &str) {
        self.shared.say_stalled(Some(why.to_owned()));
    }

    /// Returns the state of watching.
    pub fn status(&self) -> Status {
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

impl Shared {
    fn new(roots: &[PathBuf], mirrors: &[Arc<Mirror>]) -> Self {
        let root = |path: &PathBuf| RootStatus {
            path: roots::shown(path, mirrors),
            fault: None,
            skipped: Arc::default(),
            skipped_total: SkippedTotal::default(),
            mirror: None,
        };
        let status = Status {
            mode: Mode::Poll("not watching".to_owned()),
            looked: Instant::now(),
            first_look_done: false,
            uncompared: false,
            indexing: 0,
            stalled: None,
            restarts: 0,
            roots: roots.iter().map(root).collect(),
        };
        Self {
            runs: RwLock::default(),
            status: RwLock::new(status),
            revision: watch::Sender::new(0),
            hints: Arc::default(),
            beat: Beat::new(),
            patience: PATIENCE,
            #[cfg(test)]
            fault: Mutex::default(),
        }
    }

    fn set_status(&self, change: impl FnOnce(&mut Status)) {
        match self.status.write() {
            Ok(mut status) => change(&mut status),
            Err(poisoned) => change(&mut poisoned.into_inner()),
        }
    }

    /// Sets why no updates arrive, or clears it. Notifies the followers of single runs, too.
    fn say_stalled(&self, stalled: Option<String>) {
        let mut changed = false;
        self.set_status(|status| {
            changed = status.stalled != stalled;
            status.stalled = stalled;
        });
        if changed {
            let runs: Vec<_> = self
                .runs
                .read()
                .map(|runs| runs.values().cloned().collect())
                .unwrap_or_default();
            self.raise(|revision| {
                runs.iter()
                    .filter(|run| run.is_looked_at())
                    .for_each(|run| run.tell(revision))
            });
        }
    }

    /// Drops all runs. Pages that follow one have to look it up again.
    fn forget_runs(&self) {
        let runs = match self.runs.write() {
            Ok(mut runs) => std::mem::take(&mut *runs),
            Err(poisoned) => std::mem::take(&mut *poisoned.into_inner()),
        };
        self.runs.clear_poison();
        self.raise(|revision| runs.values().for_each(|run| run.leave(revision)));
    }

    /// Triggers the fault that a test set.
    #[cfg(test)]
    fn play_fault(&self) {
        let fault = self
            .fault
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take();
        fault.into_iter().for_each(|fault| fault());
    }

    /// Raises the revision. `before` gets the new number before anyone is notified, so that readers
    /// find it on the changed run.
    fn raise(&self, before: impl FnOnce(u64)) {
        self.revision.send_modify(|revision| {
            *revision += 1;
            before(*revision);
        });
    }
}

#[cfg(test)]
mod tests;
