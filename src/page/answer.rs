//! Sends pages, and JSON documents of the API.
//!
//! Any version may add fields to a document. Before 1.0, a minor version may rename or remove some.
//! Unknown values are `null`, never 0. Times are RFC 3339 in UTC with microseconds.

use askama::Template;
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::response::{Html, IntoResponse, Response};
use serde::Serialize;

use crate::page::error::{Answer, WebError};

/// Sends `value` as a JSON document.
pub(crate) fn json(value: &impl Serialize) -> Answer {
    let body = serde_json::to_string(value).map_err(|error| WebError::fault(&error))?;
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

/// Renders and sends a page, or a part of one.
pub(crate) fn html(page: &impl Template) -> Answer {
    page.render()
        .map(|html| Html(html).into_response())
        .map_err(|error| WebError::fault(&error))
}

/// Returns a response that makes the page reload itself, for changes that a pulse can't insert.
pub(crate) fn load_again() -> Response {
    [(HeaderName::from_static("hx-refresh"), "true")].into_response()
}
