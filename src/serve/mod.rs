//! Serves the board: admission, connections, event streams, static files, and the Model
//! Context Protocol (`mcp`).
//!
//! All routes are GET, and none changes anything. The responses are built in `page`.

mod backpressure;
mod events;
mod guard;
mod health;
mod inside;
mod listen;
pub(crate) mod mcp;
mod openapi;
mod routes;
mod statics;
mod token;

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use tower_http::compression::CompressionLayer;

pub(crate) use crate::serve::listen::{Address, asked_to_stop, serve};
pub(crate) use crate::serve::token::Token;

pub(crate) use crate::page::app::AppState;

/// Returns board as a router, to serve or to nest. If `token` is given, every request must
/// present it.
pub(crate) fn router(state: AppState, token: Option<Token>) -> Router {
    let gate = token.map(|token| Arc::new(guard::Gate::new(token)));
    let admission = guard::Admission {
        state: state.clone(),
        gate,
    };
    routes::answers(state.clone())
        .layer(CompressionLayer::new())
        .layer(from_fn_with_state(state, listen::in_turn))
        .layer(from_fn(guard::headers))
        .layer(from_fn_with_state(admission, guard::admit))
}

#[cfg(test)]
mod tests;
