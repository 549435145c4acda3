//! Who follows a store, and how does it stand? A thread of its own, so that a slow store keeps nobody waiting.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::evicted::Evicted;
use super::follow::Follower;
use super::http::Patience;
use super::keep::Keep;
use super::store::Store;
use super::{Address, Options, Settings, Status, Trouble};
use crate::error::{Error, Kind, Result};

/// How long a store may take for what.
const PATIENCE: Patience = Patience {
    connect: Duration::from_secs(10),
    head: Duration::from_secs(30),
    piece: Duration::from_secs(30),
};
/// The first wait after a failure; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// A store that is followed until this is dropped.
#[derive(Debug)]
pub struct Mirror {
    dir: PathBuf,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and whoever asks have in common.
pub(super) struct Shared {
    pub(super) address: String,
    state: Mutex<State>,
    listener: Mutex<Option<Box<dyn Fn() + Send>>>,
    pub(super) listings_before: AtomicU64,
    /// Those of the store.
    requests: Arc<AtomicU64>,
    listings: Arc<AtomicU64>,
    pub(super) evicted: Arc<Evicted>,
}

/// The status, and what it is made of.
pub(super) struct State {
    status: Status,
    pub(super) listing_trouble: Option<Trouble>,
    pub(super) fetch_trouble: Option<Trouble>,
    /// What those who listen know of it.
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
    /// Follows a store. Returns at once; what was here before can be read already.
    ///
    /// # Errors
    /// The store's address cannot be used, or the cache directory cannot be written.
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
        let failed = |error| {
            Error::new(Kind::Unreadable, format!("{address} cannot be followed")).because(error)
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let store = Store::new(address.clone(), settings, patience, first_wait)?;
        let keep = Keep::open(options.cache.as_deref(), address, &store.host())?;
        let dir = keep.dir().to_owned();
        let shared = Arc::new(Shared::new(address, &store, &keep, &options));
        let (stop, stopped) = watch::channel(false);
        let follower = Follower::new(store, keep, Arc::clone(&shared), options);
        let follow =
            move || tokio::task::LocalSet::new().block_on(&runtime, follower.follow(stopped));
        let thread = std::thread::Builder::new()
            .name("board-mirror".to_owned())
            .spawn(follow)
            .map_err(failed)?;
        Ok(Self {
            dir,
            shared,
            stop,
            thread: Some(thread),
        })
    }

    /// Where the objects lie as files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The address that the person named.
    pub fn address(&self) -> &str {
        &self.shared.address
    }

    /// How it stands.
    pub fn status(&self) -> Status {
        self.shared.read(|state| {
            let trouble = state
                .listing_trouble
                .clone()
                .or_else(|| state.fetch_trouble.clone());
            Status {
                trouble,
                evicted: self.shared.evicted.count(),
                requests: self.shared.requests.load(Ordering::Relaxed),
                listings: self.shared.listings.load(Ordering::Relaxed),
                ..state.status.clone()
            }
        })
    }

    /// Whether any file was removed, so that it is worth asking which.
    pub fn has_evicted(&self) -> bool {
        self.shared.evicted.count() > 0
    }

    /// Whether one of `files` was removed to keep the cache within its limit.
    pub fn is_evicted(&self, files: &[PathBuf]) -> bool {
        self.shared.evicted.is_evicted(files)
    }

    /// Keeps `files` from being evicted as long as the value lives; `None` where one was.
    pub fn hold(&self, files: &[PathBuf]) -> Option<impl Sized + Send + use<>> {
        self.shared.evicted.hold(files)
    }

    /// Somebody opens what lies in `path`: it is fetched if it was evicted, and stays before what is newer.
    pub fn ask(&self, path: &Path) {
        self.shared.evicted.ask(path);
    }

    /// Word of evicted files that came back or failed to.
    pub fn news(&self) -> watch::Receiver<()> {
        self.shared.evicted.news()
    }

    /// Why what lies in `path` did not come back when it was asked for.
    pub fn failure(&self, path: &Path) -> Option<String> {
        self.shared.evicted.failure(path)
    }

    /// Has `listener` called when something about the store itself changed that people see.
    pub fn listen(&self, listener: impl Fn() + Send + 'static) {
        *self
            .shared
            .listener
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(Box::new(listener));
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        // A panic in the thread was reported when it happened.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Shared {
    fn new(address: &Address, store: &Store, keep: &Keep, options: &Options) -> Self {
        let status = Status {
            address: address.to_string(),
            host: store.host(),
            as_of: None,
            listed: None,
            listing: None,
            paused_until: None,
            next: Some(Instant::now()),
            objects: 0,
            bytes: 0,
            others: 0,
            waiting: 0,
            kept_bytes: 0,
            limit: options.limit,
            evicted: 0,
            requests: 0,
            listings: 0,
            budget: options.budget,
            every: options.every,
            trouble: None,
            odd: Arc::default(),
            odd_total: 0,
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
            requests: Arc::clone(&store.requests),
            listings: Arc::clone(&store.listings),
            evicted: Arc::new(Evicted::new(keep.dir(), keep.evicted())),
        }
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Tells who listens, where there is something to tell; says it once on the terminal too.
    pub(super) fn tell(&self) {
        let mut news = false;
        self.change(|state| {
            let trouble = state
                .listing_trouble
                .as_ref()
                .or(state.fetch_trouble.as_ref());
            let now = (trouble.is_some(), state.as_of.is_some(), state.odd_total);
            news = now != state.told;
            match trouble {
                Some(trouble) if !state.told.0 => {
                    let hint = trouble
                        .hint
                        .as_ref()
                        .map_or_else(String::new, |hint| format!("; {hint}"));
                    tracing::warn!("{}: {}{hint}", self.address, trouble.what);
                }
                None if state.told.0 => tracing::info!("{} answers again", self.address),
                _ => {}
            }
            state.told = now;
        });
        if news
            && let Some(listener) = &*self.listener.lock().unwrap_or_else(PoisonError::into_inner)
        {
            listener();
        }
    }
}
