//! How is it asked for? The only room that knows axum.
//!
//! Never opens a file itself; asks `live` what there is, `analysis` what it means and `view` how it looks. Nothing
//! here changes anything: there are GET routes only.

mod api;
mod compare;
mod download;
mod error;
mod events;
mod export;
mod extract;
mod guard;
mod jobs;
mod pages;
mod replay;
mod run;
mod scores;
mod search;
mod serve;
mod statics;
mod sweep;
mod token;
mod whatif;

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::get;
use jiff::tz::TimeZone;
use tokio::sync::{Semaphore, watch};
use tower_http::compression::CompressionLayer;

pub use serve::{Address, Ready, asked_to_stop, serve};
pub use token::Token;

use crate::live::Library;

/// What all handlers share.
#[derive(Debug, Clone)]
pub struct AppState {
    library: Arc<Library>,
    /// Tells one start of the server from another.
    boot: Arc<str>,
    /// The name the server was told to listen on, beside addresses and `localhost`.
    host: Arc<str>,
    /// What a request must bring to be let in.
    gate: Option<Arc<guard::Gate>>,
    zone: TimeZone,
    /// Questions over many runs that are under way or were answered lately.
    sweeps: Arc<jobs::Jobs<sweep::Question>>,
    /// Searches that are under way or were done lately.
    searches: Arc<jobs::Jobs<search::Search>>,
    /// One for each long answer that may be written now.
    downloads: Arc<Semaphore>,
    /// True once the server is to stop; streams end then.
    stopping: watch::Receiver<bool>,
}

impl AppState {
    /// State for a library served under the name `host`; `stopping` ends all streams when it turns true.
    pub fn new(library: Arc<Library>, host: &str, stopping: watch::Receiver<bool>) -> Self {
        // A start is told apart by its time; nobody has to guess or keep it secret.
        let started = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let boot = format!("{:x}", started.as_nanos());
        let sweeps = Arc::new(jobs::Jobs::new(stopping.clone()));
        let searches = Arc::new(jobs::Jobs::new(stopping.clone()));
        let downloads = Arc::new(Semaphore::new(download::MAX_DOWNLOADS));
        let (boot, host, zone) = (boot.into(), host.into(), TimeZone::system());
        Self { library, boot, host, gate: None, zone, sweeps, searches, downloads, stopping }
    }

    /// The same behind `token`, which a board on `port` asks for.
    #[must_use]
    pub fn behind(self, token: Token) -> Self {
        Self { gate: Some(Arc::new(guard::Gate::new(token))), ..self }
    }
}

/// The board as a router, to serve or to nest.
pub fn router(state: AppState) -> Router {
    let pages = Router::new()
        .route("/", get(pages::runs))
        .route("/live/runs", get(pages::runs_pulse))
        .route("/runs.csv", get(pages::runs_csv))
        .route("/compare", get(compare::page))
        .route("/compare/replay", get(compare::lockstep))
        .route("/live/compare", get(compare::part))
        .route("/whatif", get(sweep::page))
        .route("/live/whatif", get(sweep::part))
        .route("/search", get(search::page))
        .route("/live/search", get(search::part))
        .route("/scores", get(scores::several))
        .route("/runs/{key}", get(run::page))
        .route("/runs/{key}/", get(run::page))
        .route("/runs/{key}/live", get(run::pulse))
        .route("/runs/{key}/whatif", get(whatif::page))
        .route("/runs/{key}/whatif/live", get(whatif::pulse))
        .route("/runs/{key}/replay", get(replay::page))
        .route("/runs/{key}/replay/part", get(replay::part))
        .route("/runs/{key}/replay/live", get(replay::pulse))
        .route("/runs/{key}/scores", get(scores::page))
        .route("/runs/{key}/scores/live", get(scores::pulse))
        .route("/runs/{key}/scores.csv", get(scores::csv))
        .route("/runs/{key}/export.html", get(export::page))
        .route("/runs/{key}/steps/{n}", get(run::step))
        .route("/runs/{key}/steps/{n}/part", get(run::step_part))
        .route("/runs/{key}/steps/{n}/value", get(run::step_value))
        .route("/runs/{key}/steps/{n}/raw", get(run::step_raw))
        .route("/runs/{key}/steps/{n}/assets/{asset}", get(run::asset))
        .route("/runs/{key}/events/{n}/value", get(run::event_value))
        .route("/runs/{key}/events/{n}/raw", get(run::event_raw))
        .route("/runs/{key}/manifest/value", get(run::manifest_value))
        .route("/runs/{key}/manifest/raw", get(run::manifest_raw))
        .fallback(pages::not_found);
    let api = Router::new()
        .route("/runs", get(api::runs))
        .route("/compare", get(compare::api))
        .route("/whatif", get(sweep::json))
        .route("/search", get(search::json))
        .route("/runs/{key}", get(api::run))
        .route("/runs/{key}/steps", get(api::steps))
        .route("/runs/{key}/steps/{n}", get(api::step))
        .route("/runs/{key}/scores", get(api::scores))
        .route("/runs/{key}/state/{n}", get(api::state))
        .route("/runs/{key}/why", get(api::why))
        .route("/runs/{key}/whatif", get(whatif::api))
        .route("/runs/{key}/raw", get(api::raw))
        .fallback(api::not_found);
    Router::new()
        .nest("/api", api)
        .route("/healthz", get(api::healthz))
        .route("/events", get(events::library))
        .route("/runs/{key}/events", get(events::run))
        .route("/static/{version}/{*name}", get(statics::file))
        .merge(pages)
        // Innermost, so that the answer to a panic has the headers of every answer.
        .layer(tower_http::catch_panic::CatchPanicLayer::custom(error::panicked))
        .layer(CompressionLayer::new())
        .layer(from_fn(guard::headers))
        .layer(from_fn_with_state(state.clone(), guard::admit))
        .with_state(state)
}

#[cfg(test)]
mod tests;
