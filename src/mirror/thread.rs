//! Runs the follower of a store in a thread, so that a slow store blocks nothing else.

use std::path::{Path, PathBuf};
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
use super::shared::Shared;
use super::store::Store;
use super::{Address, Options, Settings, Status, lock};
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
pub(crate) struct Mirror {
    dir: PathBuf,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    /// Closed when the thread has stopped following.
    ended: Mutex<Receiver<()>>,
    /// The cache, if it isn't kept. Removed last, even if the thread is still busy.
    _temporary: Option<TempDir>,
}

impl Mirror {
    /// Follows a store. Returns at once; files cached earlier can be read already.
    ///
    /// # Errors
    /// The settings can't be used, or the cache directory can't be written.
    pub(crate) fn follow(address: &Address, settings: Settings, options: Options) -> Result<Self> {
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
        let shared = Arc::new(shared(address, &store, &keep, &options));
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
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The address as the person wrote it.
    pub(crate) fn address(&self) -> &str {
        &self.shared.address
    }

    /// The current status.
    pub(crate) fn status(&self) -> Status {
        self.shared.status()
    }

    /// Returns whether any file was evicted.
    pub(crate) fn has_evicted(&self) -> bool {
        self.shared.evicted.count() > 0
    }

    /// Returns whether one of `files` was evicted.
    pub(crate) fn is_evicted(&self, files: &[PathBuf]) -> bool {
        self.shared.evicted.is_evicted(files)
    }

    /// Keeps `files` from being evicted until the value is dropped. Returns `None` if one is evicted already.
    pub(crate) fn hold(&self, files: &[PathBuf]) -> Option<impl Sized + Send + use<>> {
        self.shared.evicted.hold(files)
    }

    /// Records that somebody opens `path`. It is fetched if it was evicted, and stays longer than newer files.
    pub(crate) fn ask(&self, path: &Path) {
        self.shared.evicted.ask(path);
    }

    /// Reports evicted files that were fetched again, or couldn't be.
    pub(crate) fn news(&self) -> watch::Receiver<()> {
        self.shared.evicted.news()
    }

    /// Returns why `path` couldn't be fetched again.
    pub(crate) fn failure(&self, path: &Path) -> Option<String> {
        self.shared.evicted.failure(path)
    }

    /// Calls `listener` when the status of the store itself changes.
    pub(crate) fn listen(&self, listener: impl Fn() + Send + 'static) {
        self.shared.listen(listener);
    }
}

/// Returns the state before anything is listed.
pub(super) fn shared(address: &Address, store: &Store, keep: &Keep, options: &Options) -> Shared {
    let status = Status {
        address: address.to_string(),
        next: Some(Instant::now()),
        limit: options.limit,
        budget: options.budget,
        every: options.every,
        ..Status::default()
    };
    let evicted = Evicted::new(keep.dir(), keep.evicted());
    Shared::new(status, store.http(), evicted)
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
