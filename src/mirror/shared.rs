//! Holds the status of a store, which its thread shares with readers.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::evicted::Evicted;
use super::http::Http;
use super::lock;
use super::status::{Status, Trouble};

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

impl Shared {
    /// Begins with `status`. `http` counts the requests.
    pub(super) fn new(status: Status, http: &Http, evicted: Evicted) -> Self {
        Self {
            address: status.address.clone(),
            state: Mutex::new(State {
                status,
                listing_trouble: None,
                fetch_trouble: None,
                told: (false, false, 0),
            }),
            listener: Mutex::default(),
            listings_before: AtomicU64::new(0),
            requests: Arc::clone(&http.requests),
            listings: Arc::clone(&http.listings),
            evicted: Arc::new(evicted),
        }
    }

    /// The current status.
    pub(super) fn status(&self) -> Status {
        self.read(|state| {
            let trouble = state.listing_trouble.as_ref();
            Status {
                trouble: trouble.or(state.fetch_trouble.as_ref()).cloned(),
                evicted: self.evicted.count(),
                requests: self.requests.load(Ordering::Relaxed),
                listings: self.listings.load(Ordering::Relaxed),
                ..state.status.clone()
            }
        })
    }

    /// Calls `listener` when the status of the store itself changes.
    pub(super) fn listen(&self, listener: impl Fn() + Send + 'static) {
        *lock(&self.listener) = Some(Box::new(listener));
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
