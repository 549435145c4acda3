//! Defines which handler answers each address.

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;

use super::{backpressure, events, health, openapi, statics};
use crate::page::app::AppState;
use crate::page::{
    compare, edits, error_page, experiment, export, extract, failures, jump, keys, overview,
    replay, run, runs, scores, search, state, step, sweep, usage, whatif,
};

/// Routes for all callers, without admission checks.
pub(super) fn answers(state: AppState) -> Router {
    let pages = Router::new()
        .route("/", get(runs::handler::runs))
        .route("/live/runs", get(runs::handler::runs_pulse))
        .route("/runs.csv", get(runs::handler::runs_csv))
        .route("/edits", get(edits::page))
        .route("/views", get(runs::views::explain))
        .route("/compare", get(compare::page))
        .route("/compare/replay", get(compare::lockstep))
        .route("/live/compare", get(compare::part))
        .route("/whatif", get(sweep::page))
        .route("/live/whatif", get(sweep::part))
        .route("/search", get(search::page))
        .route("/usage", get(usage::page))
        .route("/overview", get(overview::page))
        .route("/live/overview", get(overview::part))
        .route("/failures", get(failures::page))
        .route("/experiments", get(experiment::page))
        .route("/live/search", get(search::part))
        .route("/scores", get(scores::handler::several))
        .route("/keys", get(keys::page))
        .route("/keys/part", get(keys::part))
        .route("/runs/{key}", get(run::handler::page))
        .route("/runs/{key}/", get(run::handler::page))
        .route("/runs/{key}/live", get(run::handler::pulse))
        .route("/runs/{key}/whatif", get(whatif::page))
        .route("/runs/{key}/whatif/live", get(whatif::pulse))
        .route("/runs/{key}/replay", get(replay::page))
        .route("/runs/{key}/replay/part", get(replay::part))
        .route("/runs/{key}/replay/live", get(replay::pulse))
        .route("/runs/{key}/scores", get(scores::handler::page))
        .route("/runs/{key}/scores/live", get(scores::handler::pulse))
        .route("/runs/{key}/scores.csv", get(scores::handler::csv))
        .route("/runs/{key}/export.html", get(export::page))
        .route("/runs/{key}/export", get(export::share::save))
        .route("/runs/{key}/share", get(export::share::page))
        .route("/runs/{key}/steps/part", get(run::handler::rows_part))
        .route(
            "/runs/{key}/transcript.md",
            get(run::handler::transcript_md),
        )
        .route(
            "/runs/{key}/transcript/part",
            get(run::handler::transcript_part),
        )
        .route(
            "/runs/{key}/transcript/found",
            get(run::handler::transcript_found),
        )
        .route("/runs/{key}/steps/{n}", get(run::handler::step))
        .route("/runs/{key}/steps/{n}/part", get(run::handler::step_part))
        .route("/runs/{key}/steps/{n}/value", get(run::source::step_value))
        .route("/runs/{key}/steps/{n}/raw", get(run::source::step_raw))
        .route(
            "/runs/{key}/steps/{n}/assets/{asset}",
            get(run::source::asset),
        )
        .route(
            "/runs/{key}/events/{n}/value",
            get(run::source::event_value),
        )
        .route("/runs/{key}/events/{n}/raw", get(run::source::event_raw))
        .route(
            "/runs/{key}/manifest/value",
            get(run::source::manifest_value),
        )
        .route("/runs/{key}/manifest/raw", get(run::source::manifest_raw))
        .fallback(runs::handler::not_found);
    let api = Router::new()
        .route("/openapi.json", get(openapi::document))
        .route("/runs", get(runs::api::runs))
        .route("/compare", get(compare::api))
        .route("/whatif", get(sweep::api))
        .route("/search", get(search::api))
        .route("/usage", get(usage::api))
        .route("/overview", get(overview::api))
        .route("/failures", get(failures::api))
        .route("/experiments", get(experiment::api))
        .route("/jump", get(jump::api))
        .route("/edits", get(edits::api))
        .route("/complete", get(runs::complete::api))
        .route("/runs/{key}", get(run::api::run))
        .route("/runs/{key}/steps", get(step::api::steps))
        .route("/runs/{key}/steps/{n}", get(step::api::step))
        .route("/runs/{key}/scores", get(scores::handler::api))
        .route("/runs/{key}/state/{n}", get(state::api::api))
        .route("/runs/{key}/state/{n}/history", get(state::api::history))
        .route("/runs/{key}/why", get(run::api::why))
        .route("/runs/{key}/files", get(run::api::files))
        .route("/runs/{key}/whatif", get(whatif::api))
        .route("/runs/{key}/raw", get(run::api::raw))
        .fallback(health::not_found);
    Router::new()
        .nest("/api", api)
        .route("/healthz", get(health::healthz))
        // Plain-text responses can't name an icon, so browsers request this path.
        .route(
            "/favicon.ico",
            get(|| async { axum::http::StatusCode::NO_CONTENT }),
        )
        .route("/events", get(events::library))
        .route("/runs/{key}/events", get(events::run))
        .route("/static/{version}/{*name}", get(statics::file))
        .merge(pages)
        .layer(from_fn_with_state(
            backpressure::ResponseLimits::default(),
            backpressure::limit_buffered_responses,
        ))
        .layer(from_fn_with_state(state.clone(), extract::load_runs))
        .layer(from_fn_with_state(state.clone(), error_page::show))
        // Innermost, so that the response to a panic gets the common headers too.
        .layer(tower_http::catch_panic::CatchPanicLayer::custom(
            error_page::panicked,
        ))
        .with_state(state)
}
