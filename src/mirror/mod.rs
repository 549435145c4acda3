//! What is in the bucket? A task of its own lists an object store and keeps what belongs to traces as plain files in a cache
//! directory, which is then read like any other root.
//!
//! Knows nothing of what the files mean, nor who reads them. Nothing is ever written to the store. A store that is away
//! takes nothing away: what was read stays, and how old it is can be asked.

mod address;
mod status;
#[cfg(feature = "s3")]
mod thread;
#[cfg(not(feature = "s3"))]
#[path = "no_store.rs"]
mod thread;

#[cfg(feature = "s3")]
mod evicted;
#[cfg(feature = "s3")]
mod fetch;
#[cfg(feature = "s3")]
mod follow;
#[cfg(feature = "s3")]
mod http;
#[cfg(feature = "s3")]
mod keep;
#[cfg(feature = "s3")]
mod place;
#[cfg(feature = "s3")]
mod plan;
#[cfg(feature = "s3")]
mod settings;
#[cfg(feature = "s3")]
mod sign;
#[cfg(feature = "s3")]
mod store;
#[cfg(feature = "s3")]
mod xml;

use std::path::PathBuf;
use std::time::Duration;

pub use address::Address;
#[cfg(feature = "s3")]
pub use settings::Settings;
pub use status::{Odd, Status, Trouble};
pub use thread::Mirror;
#[cfg(not(feature = "s3"))]
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
}

#[cfg(test)]
#[cfg(feature = "s3")]
pub(crate) mod fake;
#[cfg(test)]
#[cfg(feature = "s3")]
mod tests;
