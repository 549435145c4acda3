//! Does the board run, and how far has it looked? For whoever watches over it.

use axum::extract::{OriginalUri, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use schemars::JsonSchema;
use serde::Serialize;

use crate::live::{MirrorStatus, Mode};
use crate::page::app::AppState;
use crate::page::error::{Answer, WebError};
use crate::page::json::json;
use crate::page::runs::json::Skipped;

/// So many objects that are left out are named.
const MAX_NAMED: usize = 10;

/// How the board does.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Health {
    status: &'static str,
    runs: usize,
    watch: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    watch_reason: Option<String>,
    scan_age_ms: u128,
    indexing: usize,
    /// Whether runs were read that were not compared with their copies yet: some may count twice.
    uncompared: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stalled: Option<String>,
    /// How often the thread that looks for news failed and was started again.
    restarts: usize,
    /// Object stores among the roots.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stores: Vec<Store>,
}

/// How the mirror of an object store stands.
#[derive(Debug, Serialize, JsonSchema)]
struct Store {
    root: String,
    /// How old what is shown of it is; none before all of it was here.
    lag_ms: Option<u128>,
    listed_age_ms: Option<u128>,
    /// Objects that a listing under way has found so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    listing_objects: Option<usize>,
    /// How long a listing under way waits because its budget of requests is spent.
    #[serde(skip_serializing_if = "Option::is_none")]
    listing_waits_ms: Option<u128>,
    objects: usize,
    bytes: u64,
    waiting: usize,
    left_out: usize,
    /// The first of those that are left out: objects that never came, and so have no run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out_first: Vec<Skipped>,
    /// Objects whose files were removed to keep within the limit, and are fetched again where their run is opened.
    evicted: usize,
    kept_bytes: u64,
    kept_limit: u64,
    requests: u64,
    listing_requests: u64,
    listing_requests_a_minute_at_most: u32,
    listing_every_ms: u128,
    /// What is wrong with the store as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// What to do about it.
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
            left_out_first: (status.odd.iter().take(MAX_NAMED))
                .map(|odd| Skipped {
                    path: odd.key.clone(),
                    reason: odd.reason.clone(),
                    kind: "object",
                })
                .collect(),
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
    // Before the status: runs that come in between are then counted among those that are still to be read.
    let runs = state.library.runs().len();
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
        runs,
        watch,
        watch_reason,
        scan_age_ms: status.looked.elapsed().as_millis(),
        // Before the first look nobody knows how many there are.
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

/// Any address below `/api` that is none.
pub(crate) async fn not_found(OriginalUri(uri): OriginalUri) -> WebError {
    WebError::not_found(
        "There is nothing at",
        "/api/openapi.json lists the addresses of the API.",
    )
    .named(uri.path())
}
