//! Serves the embedded static files, which browsers may cache forever under their version.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;

use crate::page::assets;
use crate::page::error::{Answer, WebError};
use crate::page::extract::LastPart;

/// `GET /static/{version}/{name}`. Ignores the version, because a page from before a restart may
/// still request an old one.
pub(crate) async fn file(LastPart(name): LastPart) -> Answer {
    let missing = || {
        WebError::not_found("No file named", "board has no static file with this name.")
            .named(&name)
    };
    let asset = assets::find(&name).ok_or_else(missing)?;
    let cache = "public, max-age=31536000, immutable";
    Ok((
        [(CONTENT_TYPE, asset.mime), (CACHE_CONTROL, cache)],
        asset.text,
    )
        .into_response())
}
