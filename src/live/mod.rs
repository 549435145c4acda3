//! What changed? Finds runs below the roots, follows them and keeps their indexes.
//!
//! Knows nothing of HTTP or HTML. One number crosses to the outside, the revision: whoever is told a newer one looks
//! again. It only rises, and a reader that is slow skips numbers without missing a state.

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
pub use search::{Listener, search};

pub use crate::mirror::Status as MirrorStatus;

use crate::mirror::Mirror;
use crate::model::RunKey;
use crate::model::price::Prices;
pub use crate::trace::{Skipped, SkippedTotal};
use hints::Hints;
use supervise::Beat;

/// A scan thread that is silent for longer is said to be stalled: a look at one file takes a fraction of a second.
const PATIENCE: Duration = Duration::from_secs(10);
/// So long the thread may take to note what is known when the library is closed.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// How to watch.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Look at every file this often and take no events from the system.
    pub poll: Option<Duration>,
    /// A directory outside of the roots where the board notes what it knows, so that the next start need not read runs
    /// that did not change.
    pub cache: Option<PathBuf>,
    /// What models take, to estimate costs that are not recorded.
    pub prices: Arc<Prices>,
    /// Directories that nobody asked to be opened, and that hold traces by their names.
    pub elsewhere: Vec<Elsewhere>,
    /// Object stores, of which some roots are the directories.
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

/// All runs below some roots, kept up to date by a thread of its own.
#[derive(Debug)]
pub struct Library {
    shared: Arc<Shared>,
    elsewhere: Vec<Elsewhere>,
    /// The object stores among the roots, by their places.
    mirrors: Vec<(usize, Arc<Mirror>)>,
    /// Breaks once nothing follows the roots any more; `None` where nothing does.
    followed: Mutex<Option<mpsc::Receiver<()>>>,
}

#[derive(Debug)]
struct Shared {
    runs: RwLock<BTreeMap<RunKey, Arc<Run>>>,
    status: RwLock<Status>,
    revision: watch::Sender<u64>,
    hints: Arc<Hints>,
    /// Signs of life of the scan thread, and for how long one may be missing.
    beat: Beat,
    patience: Duration,
    #[cfg(test)]
    fault: Mutex<Option<fn()>>,
}

/// How the watching goes.
#[derive(Debug, Clone)]
pub struct Status {
    /// What brings news.
    pub mode: Mode,
    /// When the roots were last looked at.
    pub looked: Instant,
    /// Whether the roots were looked at at all.
    pub first_look_done: bool,
    /// Runs of which not all bytes are in the index yet.
    pub indexing: usize,
    /// Whether runs that may hold the same records are still to be compared.
    pub uncompared: bool,
    /// Why no news come, if none do.
    pub stalled: Option<String>,
    /// How often the thread that looks for news failed and was started again.
    pub restarts: usize,
    /// The roots.
    pub roots: Vec<RootStatus>,
}

/// What brings news of changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// Events of the system, and a sweep that catches what they miss.
    Native,
    /// Only looking again and again, with the reason.
    Poll(String),
}

/// One root.
#[derive(Debug, Clone)]
pub struct RootStatus {
    /// The root as the person typed it.
    pub path: PathBuf,
    /// Why it cannot be read, if it cannot.
    pub fault: Option<String>,
    /// Files and directories that are not shown as runs, the first of them.
    pub skipped: Arc<[Skipped]>,
    /// How many there are.
    pub skipped_total: SkippedTotal,
    /// Of an object store, how its mirror stands.
    pub mirror: Option<MirrorStatus>,
}

impl Library {
    /// Opens roots and follows them until the library is dropped. Returns at once; runs appear as they are found.
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
                let told = Arc::downgrade(&shared);
                mirror.listen(move || {
                    told.upgrade()
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

    /// The same, with prices to estimate costs by.
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

    /// Directories that hold traces by their names, and that nobody asked to be opened.
    pub fn elsewhere(&self) -> &[Elsewhere] {
        &self.elsewhere
    }

    /// All runs, in order of their keys.
    pub fn runs(&self) -> Vec<Arc<Run>> {
        self.shared
            .runs
            .read()
            .map(|runs| runs.values().cloned().collect())
            .unwrap_or_default()
    }

    /// Those of them that count: of several files with the same records, one.
    pub fn counted(&self) -> Vec<Arc<Run>> {
        let mut runs = self.runs();
        runs.retain(|run| run.summary().counts());
        runs
    }

    /// The run with a key.
    pub fn run(&self, key: &str) -> Option<Arc<Run>> {
        self.shared
            .runs
            .read()
            .ok()?
            .get(&RunKey::new(key))
            .cloned()
    }

    /// Follows the roots no longer, once what is known is noted. What it holds can still be read.
    pub fn stop(&self) {
        self.shared.hints.stop();
    }

    /// The same, and waits for it; no longer than a second, since a disk may not answer.
    pub fn close(&self) {
        self.stop();
        let followed = self
            .followed
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take();
        // Either way nobody waits any more.
        let _ = followed.map(|end| end.recv_timeout(CLOSE_WITHIN));
    }

    /// The newest revision, and word of newer ones.
    pub fn revision(&self) -> watch::Receiver<u64> {
        self.shared.revision.subscribe()
    }

    /// Says that no news come.
    #[cfg(test)]
    pub(crate) fn stall(&self, why: &str) {
        self.shared.say_stalled(Some(why.to_owned()));
    }

    /// How the watching goes.
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

    /// Says why no news come, or that they do, to those too who look at one run.
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

    /// Lets go of all runs: whoever follows one has to ask for it anew.
    fn forget_runs(&self) {
        let runs = match self.runs.write() {
            Ok(mut runs) => std::mem::take(&mut *runs),
            Err(poisoned) => std::mem::take(&mut *poisoned.into_inner()),
        };
        self.runs.clear_poison();
        self.raise(|revision| runs.values().for_each(|run| run.leave(revision)));
    }

    /// Plays the fault that a test asked for.
    #[cfg(test)]
    fn play_fault(&self) {
        let fault = self
            .fault
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take();
        fault.into_iter().for_each(|fault| fault());
    }

    /// Raises the revision. `before` is told the new number before anybody is woken, so that whoever looks again
    /// finds it on the run that changed.
    fn raise(&self, before: impl FnOnce(u64)) {
        self.revision.send_modify(|revision| {
            *revision += 1;
            before(*revision);
        });
    }
}

#[cfg(test)]
mod tests;
