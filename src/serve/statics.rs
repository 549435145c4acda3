//! Which static file is asked for? The embedded ones, for ever cacheable under their version.

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

use crate::page::app::AppState;
use crate::page::assets;
use crate::page::error::WebError;
use crate::page::extract::LastPart;

/// `GET /static/{version}/{name}`. An old version gets the file of today: a page of the last start may still ask.
pub(crate) async fn file(State(state): State<AppState>, LastPart(name): LastPart) -> Response {
    match assets::find(&name) {
        Some(asset) => {
            let cache = "public, max-age=31536000, immutable";
            ([(CONTENT_TYPE, asset.mime), (CACHE_CONTROL, cache)], asset.text).into_response()
        }
        None => WebError::not_found("There is no file", "The board has no such static file.")
            .named(&name)
            .respond(&state, false),
    }
}
