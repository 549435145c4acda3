//! Defines how JSON documents of the API are sent.
//!
//! The names in a document are a promise: schemas gain fields, but none is renamed or removed.
//! Unknown values are `null`, never 0. Times are RFC 3339 in UTC with microseconds.

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use serde::Serialize;

use crate::page::error::{Answer, WebError};

#[cfg(test)]
mod tests;

/// Sends `value` as a JSON document.
pub(crate) fn json(value: &impl Serialize) -> Answer {
    let body = serde_json::to_string(value).map_err(|error| WebError::fault(&error))?;
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}
