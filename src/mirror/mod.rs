//! What is in the bucket? A task of its own lists an object store and keeps what belongs to traces as plain files in a cache
//! directory, which is then read like any other root.
//!
//! Knows nothing of what the files mean, nor who reads them. Nothing is ever written to the store. A store that is away
//! takes nothing away: what was read stays, and how old it is can be asked.

mod address;
mod status;
#[cfg(feature = "cloud")]
mod thread;
#[cfg(not(feature = "cloud"))]
#[path = "no_store.rs"]
mod thread;

#[cfg(feature = "cloud")]
mod evicted;
#[cfg(feature = "cloud")]
mod fetch;
#[cfg(feature = "cloud")]
mod follow;
#[cfg(feature = "cloud")]
mod http;
#[cfg(feature = "cloud")]
mod keep;
#[cfg(feature = "cloud")]
mod place;
#[cfg(feature = "cloud")]
mod plan;
#[cfg(feature = "cloud")]
mod settings;
#[cfg(feature = "cloud")]
mod sign;
#[cfg(feature = "cloud")]
mod store;
#[cfg(feature = "cloud")]
mod xml;

use std::path::PathBuf;
use std::time::Duration;

pub use address::Address;
#[cfg(feature = "cloud")]
pub use settings::Settings;
pub use status::{Odd, Status, Trouble};
pub use thread::Mirror;
#[cfg(not(feature = "cloud"))]
pub use thread::Settings;

/// How to follow a store.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where files are kept between starts; without it, they go with the board.
    pub cache: Option<PathBuf>,
    /// Bytes that they may take.
    pub limit: u64,
    /// How often to list, where the budget allows it.
    pub every: Duration,
    /// At most so many requests a minute for listings.
    pub budget: u32,
    /// What one listing may hold and take.
    pub listing: ListingBounds,
}

/// Bounds what one listing may hold and take. A listing beyond a bound counts as failed: nothing says which objects it would
/// have had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListingBounds {
    /// Objects.
    pub objects: usize,
    /// Pages; a store puts up to 1,000 objects on each.
    pub pages: usize,
    /// Pages in a row without an object.
    pub empty_pages: usize,
    /// Bytes of keys and tags. A whole listing is held in memory.
    pub bytes: usize,
    /// Time to answer one page, from the first request for it to the end of its body.
    pub page_time: Duration,
    /// Time to answer all of them, without the pauses that the budget makes.
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

#[cfg(test)]
#[cfg(feature = "cloud")]
pub(crate) mod fake;
#[cfg(test)]
#[cfg(feature = "cloud")]
mod tests;
