//! Follows object stores (S3, Google Cloud Storage, Azure): lists them and keeps the files of traces in a cache directory,
//! which is then read like any other root.
//!
//! Knows neither what the files mean nor their readers. Writes nothing to a store. If a store is away, the cache stays, and
//! the status says how old it is.

mod address;
mod status;
#[cfg(feature = "cloud")]
mod thread;
#[cfg(not(feature = "cloud"))]
#[path = "no_store.rs"]
mod thread;

#[cfg(feature = "cloud")]
mod az;
#[cfg(feature = "cloud")]
mod client;
#[cfg(feature = "cloud")]
mod evicted;
#[cfg(feature = "cloud")]
mod fault;
#[cfg(feature = "cloud")]
mod fetch;
#[cfg(feature = "cloud")]
mod follow;
#[cfg(feature = "cloud")]
mod http;
#[cfg(feature = "cloud")]
mod keep;
#[cfg(feature = "cloud")]
mod listing;
#[cfg(feature = "cloud")]
mod pace;
#[cfg(feature = "cloud")]
mod place;
#[cfg(feature = "cloud")]
mod plan;
#[cfg(feature = "cloud")]
mod settings;
#[cfg(feature = "cloud")]
mod shared;
#[cfg(feature = "cloud")]
mod store;

use std::path::PathBuf;
use std::time::Duration;

pub(crate) use address::Address;
#[cfg(feature = "cloud")]
pub(crate) use settings::Settings;
pub(crate) use status::Status;
#[cfg(test)]
pub(crate) use status::Trouble;
pub(crate) use thread::Mirror;
#[cfg(not(feature = "cloud"))]
pub(crate) use thread::Settings;

/// How to follow a store.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The directory of the cache; `None` for one that is removed at the end.
    pub cache: Option<PathBuf>,
    /// The largest size of the cache in bytes.
    pub limit: u64,
    /// The time between listings, if the budget allows it.
    pub every: Duration,
    /// The limit of requests for listings per minute.
    pub budget: u32,
    /// The limits of a listing.
    pub listing: ListingBounds,
}

/// The limits of a listing. A listing beyond one fails as a whole, since the missing objects are unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListingBounds {
    /// Objects.
    pub objects: usize,
    /// Pages, each with up to 1,000 objects.
    pub pages: usize,
    /// Pages in a row without an object.
    pub empty_pages: usize,
    /// Bytes of keys, tags and tokens of pages, since they are held in memory.
    pub bytes: usize,
    /// Time for a page, from the first request to the end of its body, without pauses for the budget.
    pub page_time: Duration,
    /// Time for all pages, without pauses for the budget.
    pub time: Duration,
}

impl Default for ListingBounds {
    fn default() -> Self {
        Self {
            objects: 1_000_000,
            pages: 10_000,
            empty_pages: 20,
            bytes: 128 << 20,
            page_time: Duration::from_secs(150),
            time: Duration::from_secs(1_800),
        }
    }
}

/// Locks a mutex, even after a panic of another thread.
#[cfg(feature = "cloud")]
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
#[cfg(feature = "cloud")]
pub(crate) mod fake;
#[cfg(test)]
#[cfg(feature = "cloud")]
mod tests;
