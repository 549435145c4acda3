//! Holds what the library, the scan thread and its supervisor share: the runs, and the state of
//! watching them.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::hints::Hints;
use super::roots::shown;
use super::run::Run;
use super::tags::FollowedTags;
use crate::in_order::cores;
use crate::mirror::{Mirror, Status as MirrorStatus};
use crate::model::RunKey;
use crate::model::price::Prices;
use crate::trace::{Skipped, SkippedTotal};

/// The scan thread counts as stalled after this long without a sign of life. Checking one file
/// takes a fraction of a second.
const PATIENCE: Duration = Duration::from_secs(10);

/// Options for following roots.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    /// Checks every file this often, and ignores file system events.
    pub poll: Option<Duration>,
    /// A directory outside of the roots for the index cache. With it, the next start doesn't have
    /// to read unchanged runs.
    pub cache: Option<PathBuf>,
    /// The prices of models, for estimating costs that aren't recorded.
    pub prices: Arc<Prices>,
    /// The tags that the user gave to runs.
    pub tags: Arc<FollowedTags>,
    /// Directories that weren't opened, but that contain traces, judging by their names.
    pub elsewhere: Vec<Elsewhere>,
    /// The object stores. Their mirror directories are among the roots.
    pub mirrors: Vec<Arc<Mirror>>,
    /// How many threads long tasks may use. By default, as many as the machine has cores.
    pub threads: Option<NonZero<usize>>,
}

impl Options {
    /// Returns how many threads long tasks may use.
    pub(super) fn threads(&self) -> NonZero<usize> {
        self.threads.unwrap_or_else(cores)
    }
}

/// A directory in which a tool keeps its traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Elsewhere {
    /// The tool.
    pub tool: &'static str,
    /// The directory.
    pub dir: PathBuf,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) runs: RwLock<BTreeMap<RunKey, Arc<Run>>>,
    pub(super) status: RwLock<Status>,
    pub(super) revision: watch::Sender<u64>,
    pub(super) hints: Arc<Hints>,
    /// The scan thread's signs of life, and how long one may be overdue.
    pub(super) beat: Beat,
    pub(super) patience: Duration,
    #[cfg(test)]
    pub(super) fault: Mutex<Option<fn()>>,
}

/// The state of watching.
#[derive(Debug, Clone)]
pub(crate) struct Status {
    /// How board learns of changes.
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

/// How board learns of changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mode {
    /// File system events, and a sweep that catches what they miss.
    Native,
    /// Polling only, with the reason.
    Poll(String),
}

/// The state of a root.
#[derive(Debug, Clone)]
pub(crate) struct RootStatus {
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

impl Shared {
    pub(super) fn new(roots: &[PathBuf], mirrors: &[Arc<Mirror>]) -> Self {
        let root = |path: &PathBuf| RootStatus {
            path: shown(path, mirrors),
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

    pub(super) fn set_status(&self, change: impl FnOnce(&mut Status)) {
        match self.status.write() {
            Ok(mut status) => change(&mut status),
            Err(poisoned) => change(&mut poisoned.into_inner()),
        }
    }

    /// Sets why no updates arrive, or clears it. Notifies the followers of single runs, too.
    pub(super) fn say_stalled(&self, stalled: Option<String>) {
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
    pub(super) fn forget_runs(&self) {
        let runs = match self.runs.write() {
            Ok(mut runs) => std::mem::take(&mut *runs),
            Err(poisoned) => std::mem::take(&mut *poisoned.into_inner()),
        };
        self.runs.clear_poison();
        self.raise(|revision| runs.values().for_each(|run| run.leave(revision)));
    }

    /// Triggers the fault that a test set.
    #[cfg(test)]
    pub(super) fn play_fault(&self) {
        let fault = self
            .fault
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        fault.into_iter().for_each(|fault| fault());
    }

    /// Raises the revision. `before` gets the new number before anyone is notified, so that readers
    /// find it on the changed run.
    pub(super) fn raise(&self, before: impl FnOnce(u64)) {
        self.revision.send_modify(|revision| {
            *revision += 1;
            before(*revision);
        });
    }
}

/// The scan thread's last sign of life, and the activity it began then.
#[derive(Debug)]
pub(super) struct Beat(Mutex<(Instant, String)>);

impl Beat {
    pub(super) fn new() -> Self {
        Self(Mutex::new((Instant::now(), "starting".to_owned())))
    }

    /// Gives a sign of life, with the activity that begins.
    pub(super) fn beat(&self, doing: &str) {
        let mut beat = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        beat.0 = Instant::now();
        beat.1.clear();
        beat.1.push_str(doing);
    }

    /// Returns the current activity if it has taken longer than `patience`.
    pub(super) fn overdue(&self, patience: Duration) -> Option<String> {
        let beat = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (beat.0.elapsed() > patience).then(|| beat.1.clone())
    }
}
