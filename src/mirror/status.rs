//! How does a mirror stand?

use std::sync::Arc;
use std::time::{Duration, Instant};

/// How a mirror stands.
#[derive(Debug, Clone)]
pub struct Status {
    /// The address that the person named.
    pub address: String,
    /// The host that is asked.
    pub host: String,
    /// The store was wholly here as it was then; `None` before all was here once in this process.
    pub as_of: Option<Instant>,
    /// When the last complete listing ended.
    pub listed: Option<Instant>,
    /// Objects that a listing under way has found so far.
    pub listing: Option<usize>,
    /// When the listing under way sends its next request, while it waits because its budget is spent.
    pub paused_until: Option<Instant>,
    /// When the next listing begins.
    pub next: Option<Instant>,
    /// Objects that may belong to traces, by the last listing, and their bytes.
    pub objects: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that belong to no trace by their names, and are not fetched.
    pub others: usize,
    /// Objects that are not here yet, or changed since they were fetched.
    pub waiting: usize,
    /// Bytes on disk, and how many there may be.
    pub kept_bytes: u64,
    /// How many there may be.
    pub limit: u64,
    /// Objects whose files were removed to keep within the limit. What was read of them is still shown, and they are fetched
    /// again where somebody opens them.
    pub evicted: usize,
    /// Requests that were sent, also those of a listing under way.
    pub requests: u64,
    /// How many of them were for listings.
    pub listings: u64,
    /// At most so many requests for listings are sent a minute.
    pub budget: u32,
    /// How often the store is listed, as that follows from the budget.
    pub every: Duration,
    /// What is wrong with the store as a whole.
    pub trouble: Option<Trouble>,
    /// The first objects that could not be had, each with the reason.
    pub odd: Arc<[Odd]>,
    /// How many there are.
    pub odd_total: usize,
}

/// Why a store is not followed at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What is wrong.
    pub what: String,
    /// What to do about it, where that is known.
    pub hint: Option<String>,
    /// Since when.
    pub since: Instant,
}

/// An object that is not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Odd {
    /// Its key below the prefix.
    pub key: String,
    /// Why.
    pub reason: String,
}
