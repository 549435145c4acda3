//! What changed? Finds runs below the roots, follows them and keeps their indexes.
//!
//! Knows nothing of HTTP or HTML. One number crosses to the outside, the revision: whoever is told a newer one looks
//! again. It only rises, and a reader that is slow skips numbers without missing a state.

mod cache;
mod hints;
mod roots;
mod rounds;
mod run;
mod scan;
mod search;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::watch;

pub use run::Run;
pub use search::{Listener, search};

use crate::model::RunKey;
use crate::trace::Skipped;
use hints::Hints;

/// How to watch.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Look at every file this often and take no events from the system.
    pub poll: Option<Duration>,
    /// A directory outside of the roots where the board notes what it knows, so that the next start need not read runs
    /// that did not change.
    pub cache: Option<PathBuf>,
}

/// All runs below some roots, kept up to date by a thread of its own.
#[derive(Debug)]
pub struct Library {
    shared: Arc<Shared>,
    scanner: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    runs: RwLock<BTreeMap<RunKey, Arc<Run>>>,
    status: RwLock<Status>,
    revision: watch::Sender<u64>,
    hints: Arc<Hints>,
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
    /// Directories that are not shown as runs.
    pub skipped: Vec<Skipped>,
}

impl Library {
    /// Opens roots and follows them until the library is dropped. Returns at once; runs appear as they are found.
    pub fn open(roots: Vec<PathBuf>, options: Options) -> Self {
        let shared = Arc::new(Shared::new(&roots));
        let thread_shared = Arc::clone(&shared);
        let scan = move || scan::Scanner::new(thread_shared, roots, options).follow();
        let spawned = std::thread::Builder::new().name("board-scan".to_owned()).spawn(scan);
        if let Err(error) = &spawned {
            shared.set_status(|status| status.mode = Mode::Poll(format!("the watching thread did not start: {error}")));
        }
        Self { shared, scanner: Mutex::new(spawned.ok()) }
    }

    /// Reads roots once, completely.
    pub fn load(roots: Vec<PathBuf>) -> Self {
        let shared = Arc::new(Shared::new(&roots));
        scan::Scanner::new(Arc::clone(&shared), roots, Options { poll: Some(Duration::MAX), cache: None }).read_once();
        Self { shared, scanner: Mutex::default() }
    }

    /// All runs, in order of their keys.
    pub fn runs(&self) -> Vec<Arc<Run>> {
        self.shared.runs.read().map(|runs| runs.values().cloned().collect()).unwrap_or_default()
    }

    /// The run with a key.
    pub fn run(&self, key: &str) -> Option<Arc<Run>> {
        self.shared.runs.read().ok()?.get(&RunKey::new(key)).cloned()
    }

    /// Follows the roots no longer, and returns once what is known is noted. What it holds can still be read.
    pub fn close(&self) {
        self.shared.hints.stop();
        let scanner = self.scanner.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        // A panic in the thread was reported when it happened.
        let _ = scanner.map(JoinHandle::join);
    }

    /// The newest revision, and word of newer ones.
    pub fn revision(&self) -> watch::Receiver<u64> {
        self.shared.revision.subscribe()
    }

    /// How the watching goes.
    pub fn status(&self) -> Status {
        match self.shared.status.read() {
            Ok(status) => status.clone(),
            Err(poisoned) => poisoned.into_inner().clone(),
        }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn new(roots: &[PathBuf]) -> Self {
        let root = |path: &PathBuf| RootStatus { path: path.clone(), fault: None, skipped: Vec::new() };
        let status = Status {
            mode: Mode::Poll("not watching".to_owned()),
            looked: Instant::now(),
            first_look_done: false,
            indexing: 0,
            roots: roots.iter().map(root).collect(),
        };
        Self {
            runs: RwLock::default(),
            status: RwLock::new(status),
            revision: watch::Sender::new(0),
            hints: Arc::default(),
        }
    }

    fn set_status(&self, change: impl FnOnce(&mut Status)) {
        match self.status.write() {
            Ok(mut status) => change(&mut status),
            Err(poisoned) => change(&mut poisoned.into_inner()),
        }
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
