//! The status of a mirror, as pages and `/healthz` show it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::trace::Skipped;

/// The status of a mirror.
#[derive(Debug, Clone, Default)]
pub(crate) struct Status {
    /// The address as the person wrote it.
    pub address: String,
    /// The cache is complete as of this time; `None` until it is complete for the first time.
    pub as_of: Option<Instant>,
    /// When the last complete listing ended.
    pub listed: Option<Instant>,
    /// The number of objects that the current listing has found so far.
    pub listing: Option<usize>,
    /// When the current listing sends its next request, if it waits for its budget.
    pub paused_until: Option<Instant>,
    /// When the next listing begins.
    pub next: Option<Instant>,
    /// The number of objects in the last listing that may belong to traces.
    pub objects: usize,
    /// The size of these objects.
    pub bytes: u64,
    /// The number of objects that aren't fetched, because their names aren't those of traces.
    pub others: usize,
    /// The number of objects to fetch: new or changed ones.
    pub waiting: usize,
    /// The size of the cache.
    pub kept_bytes: u64,
    /// The limit of that size.
    pub limit: u64,
    /// The number of objects whose files were removed to stay within the limit. Pages still show their runs, and fetch them
    /// again when somebody opens one.
    pub evicted: usize,
    /// The number of requests sent, including those of the current listing.
    pub requests: u64,
    /// The number of these requests for listings.
    pub listings: u64,
    /// The limit of requests for listings per minute.
    pub budget: u32,
    /// The time between listings, which follows from the budget.
    pub every: Duration,
    /// Why the store can't be followed.
    pub trouble: Option<Trouble>,
    /// The first objects that couldn't be fetched, with reasons.
    pub odd: Arc<[Skipped]>,
    /// The number of all such objects.
    pub odd_total: usize,
}

/// Why a store can't be followed at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// What is wrong.
    pub what: String,
    /// What to do about it, if known.
    pub hint: Option<String>,
    /// Since when.
    pub since: Instant,
}
