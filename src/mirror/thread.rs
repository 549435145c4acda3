//! Runs the follower of a store in a thread, so that a slow store blocks nothing else, and shares its status.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::sync::watch;

use super::evicted::Evicted;
use super::follow::Follower;
use super::http::Patience;
use super::keep::Keep;
use super::store::Store;
use super::{Address, Options, Settings, Status, Trouble, lock};
use crate::error::{Error, Kind, Result};

/// The time limits of requests.
const PATIENCE: Patience = Patience {
    connect: Duration::from_secs(10),
    head: Duration::from_secs(30),
    piece: Duration::from_secs(30),
};
/// The wait before the first retry; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// The wait for the thread at the end. It stops at once, unless the disk or a listener blocks it.
const END: Duration = Duration::from_millis(500);

/// Follows a store until it is dropped.
#[derive(Debug)]
pub struct Mirror {
    dir: PathBuf,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    /// Closed when the thread has stopped following.
    ended: Mutex<Receiver<()>>,
    /// The cache, if it isn't kept. Removed last, even if the thread is still busy.
    _temporary: Option<TempDir>,
}

/// The state that the thread shares with readers.
pub(super) struct Shared {
    pub(super) address: String,
    state: Mutex<State>,
    listener: Mutex<Option<Box<dyn Fn() + Send>>>,
    pub(super) listings_before: AtomicU64,
    /// The counters of the store.
    requests: Arc<AtomicU64>,
    listings: Arc<AtomicU64>,
    pub(super) evicted: Arc<Evicted>,
}

/// The status, and its parts.
pub(super) struct State {
    status: Status,
    pub(super) listing_trouble: Option<Trouble>,
    pub(super) fetch_trouble: Option<Trouble>,
    /// What listeners were last notified of.
    told: (bool, bool, usize),
}

impl std::ops::Deref for State {
    type Target = Status;
    fn deref(&self) -> &Status {
        &self.status
    }
}

impl std::ops::DerefMut for State {
    fn deref_mut(&mut self) -> &mut Status {
        &mut self.status
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Mirror {
    /// Follows a store. Returns at once; files cached earlier can be read already.
    ///
    /// # Errors
    /// The settings can't be used, or the cache directory can't be written.
    pub fn follow(address: &Address, settings: Settings, options: Options) -> Result<Self> {
        Self::follow_with(address, settings, options, PATIENCE, FIRST_WAIT)
    }

    pub(super) fn follow_with(
        address: &Address,
        settings: Settings,
        options: Options,
        patience: Patience,
        first_wait: Duration,
    ) -> Result<Self> {
        let failed =
            |error| Error::new(Kind::Unreadable, format!("can't follow {address}")).because(error);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let store = Store::new(address.clone(), settings, patience, first_wait)?;
        let (base, temporary) = match &options.cache {
            Some(base) => (base.clone(), None),
            None => {
                let dir = tempfile::tempdir().map_err(|error| {
                    let what = format!("can't create a temporary cache for {address}");
                    let hint = "set TMPDIR to another directory";
                    Error::new(Kind::Unreadable, what).because(error).hint(hint)
                })?;
                (dir.path().to_owned(), Some(dir))
            }
        };
        let keep = Keep::open(&base, address, &store.id())?;
        let dir = keep.dir().to_owned();
        let shared = Arc::new(Shared::new(address, &store, &keep, &options));
        let (stop, stopped) = watch::channel(false);
        let mut follower = Follower::new(store, keep, Arc::clone(&shared), options);
        let (running, ended) = mpsc::channel();
        let follow = move || {
            tokio::task::LocalSet::new().block_on(&runtime, follower.follow(stopped));
            drop(running);
            // A host name may be looked up for a long time, in a thread of the runtime.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new()
            .name("board-mirror".to_owned())
            .spawn(follow)
            .map_err(failed)?;
        Ok(Self {
            dir,
            shared,
            stop,
            thread: Some(thread),
            ended: Mutex::new(ended),
            _temporary: temporary,
        })
    }

    /// The directory of the cached files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The address as the person wrote it.
    pub fn address(&self) -> &str {
        &self.shared.address
    }

    /// The current status.
    pub fn status(&self) -> Status {
        self.shared.read(|state| {
            let trouble = state.listing_trouble.as_ref();
            Status {
                trouble: trouble.or(state.fetch_trouble.as_ref()).cloned(),
                evicted: self.shared.evicted.count(),
                requests: self.shared.requests.load(Ordering::Relaxed),
                listings: self.shared.listings.load(Ordering::Relaxed),
                ..state.status.clone()
            }
        })
    }

    /// Returns whether any file was evicted.
    pub fn has_evicted(&self) -> bool {
        self.shared.evicted.count() > 0
    }

    /// Returns whether one of `files` was evicted.
    pub fn is_evicted(&self, files: &[PathBuf]) -> bool {
        self.shared.evicted.is_evicted(files)
    }

    /// Keeps `files` from being evicted until the value is dropped. Returns `None` if one is evicted already.
    pub fn hold(&self, files: &[PathBuf]) -> Option<impl Sized + Send + use<>> {
        self.shared.evicted.hold(files)
    }

    /// Records that somebody opens `path`. It is fetched if it was evicted, and stays longer than newer files.
    pub fn ask(&self, path: &Path) {
        self.shared.evicted.ask(path);
    }

    /// Reports evicted files that were fetched again, or couldn't be.
    pub fn news(&self) -> watch::Receiver<()> {
        self.shared.evicted.news()
    }

    /// Returns why `path` couldn't be fetched again.
    pub fn failure(&self, path: &Path) -> Option<String> {
        self.shared.evicted.failure(path)
    }

    /// Calls `listener` when the status of the store itself changes.
    pub fn listen(&self, listener: impl Fn() + Send + 'static) {
        *lock(&self.shared.listener) = Some(Box::new(listener));
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if lock(&self.ended).recv_timeout(END) == Err(RecvTimeoutError::Timeout) {
            // A kept cache stays usable whenever the thread ends.
            tracing::warn!(
                "{} is still busy; exiting without waiting for it",
                self.address()
            );
            return;
        }
        // A panic in the thread was reported when it happened.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Shared {
    pub(super) fn new(address: &Address, store: &Store, keep: &Keep, options: &Options) -> Self {
        let status = Status {
            address: address.to_string(),
            host: store.host(),
            next: Some(Instant::now()),
            limit: options.limit,
            budget: options.budget,
            every: options.every,
            ..Status::default()
        };
        let state = State {
            status,
            listing_trouble: None,
            fetch_trouble: None,
            told: (false, false, 0),
        };
        Self {
            address: address.to_string(),
            state: Mutex::new(state),
            listener: Mutex::default(),
            listings_before: AtomicU64::new(0),
            requests: Arc::clone(&store.http().requests),
            listings: Arc::clone(&store.http().listings),
            evicted: Arc::new(Evicted::new(keep.dir(), keep.evicted())),
        }
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&lock(&self.state))
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut lock(&self.state));
    }

    /// Notifies listeners of changes, and logs them once.
    pub(super) fn tell(&self) {
        let mut news = false;
        self.change(|state| {
            let trouble = state.listing_trouble.as_ref();
            let trouble = trouble.or(state.fetch_trouble.as_ref());
            let now = (trouble.is_some(), state.as_of.is_some(), state.odd_total);
            news = now != state.told;
            match trouble {
                Some(trouble) if !state.told.0 => {
                    let hint = trouble.hint.iter().map(|hint| format!("; {hint}"));
                    let hint = hint.collect::<String>();
                    tracing::warn!("{}: {}{hint}", self.address, trouble.what);
                }
                None if state.told.0 => tracing::info!("{} is responding again", self.address),
                _ => {}
            }
            state.told = now;
        });
        if news && let Some(listener) = &*lock(&self.listener) {
            listener();
        }
    }
}
