//! Reports whether the server is running and how far it has read, for monitoring.

use axum::extract::{OriginalUri, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use schemars::JsonSchema;
use serde::Serialize;

use crate::live::{MirrorStatus, Mode, Skipped};
use crate::page::answer::json;
use crate::page::app::AppState;
use crate::page::error::{Answer, WebError};

/// Maximum number of skipped objects listed by name.
const MAX_NAMED: usize = 10;

/// The health of the server.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Health {
    status: &'static str,
    /// The number of runs. Duplicates aren't counted.
    runs: usize,
    /// The number of files and directories with only records of a run that is already counted.
    duplicates: usize,
    watch: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    watch_reason: Option<String>,
    scan_age_ms: u128,
    indexing: usize,
    /// Whether some runs haven't been compared with possible duplicates yet. Such runs may be
    /// counted twice.
    uncompared: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stalled: Option<String>,
    /// How often the thread that watches for changes failed and was restarted.
    restarts: usize,
    /// The object stores among the roots.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stores: Vec<Store>,
}

/// The state of an object store's mirror.
#[derive(Debug, Serialize, JsonSchema)]
struct Store {
    root: String,
    /// The age of the data shown from this store. Null until the first complete sync.
    lag_ms: Option<u128>,
    listed_age_ms: Option<u128>,
    /// Objects found so far by the listing in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    listing_objects: Option<usize>,
    /// How long the listing in progress waits before its next request, because its request budget
    /// is spent.
    #[serde(skip_serializing_if = "Option::is_none")]
    listing_waits_ms: Option<u128>,
    objects: usize,
    bytes: u64,
    waiting: usize,
    left_out: usize,
    /// The first skipped objects. They were never fetched, so they have no run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out_first: Vec<Skipped>,
    /// Objects whose files were evicted to stay under the cache limit. Opening their run fetches
    /// them again.
    evicted: usize,
    kept_bytes: u64,
    kept_limit: u64,
    requests: u64,
    listing_requests: u64,
    listing_requests_a_minute_at_most: u32,
    listing_every_ms: u128,
    /// The error that affects the whole store.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// A suggested fix for the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    error_hint: Option<String>,
}

impl Store {
    fn new(status: MirrorStatus) -> Self {
        Self {
            root: status.address,
            lag_ms: status.as_of.map(|moment| moment.elapsed().as_millis()),
            listed_age_ms: status.listed.map(|moment| moment.elapsed().as_millis()),
            listing_objects: status.listing,
            listing_waits_ms: status.paused_until.map(|until| {
                until
                    .saturating_duration_since(std::time::Instant::now())
                    .as_millis()
            }),
            objects: status.objects,
            bytes: status.bytes,
            waiting: status.waiting,
            left_out: status.odd_total,
            left_out_first: status.odd.iter().take(MAX_NAMED).cloned().collect(),
            evicted: status.evicted,
            kept_bytes: status.kept_bytes,
            kept_limit: status.limit,
            requests: status.requests,
            listing_requests: status.listings,
            listing_requests_a_minute_at_most: status.budget,
            listing_every_ms: status.every.as_millis(),
            error: status.trouble.as_ref().map(|trouble| trouble.what.clone()),
            error_hint: status.trouble.and_then(|trouble| trouble.hint),
        }
    }
}

/// `GET /healthz`
pub(crate) async fn healthz(State(state): State<AppState>) -> Answer {
    // Count the runs before reading the status, so that runs added in between count as unindexed.
    let (runs, duplicates) = state.library.listed(false);
    let status = state.library.status();
    let (watch, watch_reason) = match status.mode {
        Mode::Native => ("native", None),
        Mode::Poll(why) => ("poll", Some(why)),
    };
    let health = Health {
        status: if status.stalled.is_some() {
            "stalled"
        } else {
            "ok"
        },
        runs: runs.len(),
        duplicates,
        watch,
        watch_reason,
        scan_age_ms: status.looked.elapsed().as_millis(),
        // Before the first scan, the number of runs is unknown.
        indexing: if status.first_look_done {
            status.indexing
        } else {
            status.indexing.max(1)
        },
        uncompared: status.uncompared,
        stalled: status.stalled,
        restarts: status.restarts,
        stores: status
            .roots
            .into_iter()
            .filter_map(|root| root.mirror)
            .map(Store::new)
            .collect(),
    };
    let code = if health.stalled.is_some() {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::OK
    };
    json(&health).map(|health| (code, health).into_response())
}

/// Answers unknown addresses below `/api`.
pub(crate) async fn not_found(OriginalUri(uri): OriginalUri) -> WebError {
    WebError::not_found(
        "No API endpoint at",
        "See /api/openapi.json for a list of endpoints.",
    )
    .named(uri.path())
}
