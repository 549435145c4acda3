//! Defines how JSON documents of the API are sent, and how they represent times.
//!
//! The names in a document are a promise: schemas gain fields, but none is renamed or removed.
//! Unknown values are `null`, never 0. Times are RFC 3339 in UTC with microseconds.

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use jiff::Timestamp;
use serde::Serialize;

use crate::model::time::rfc3339;
use crate::page::error::{Answer, WebError};

#[cfg(test)]
mod tests;

/// Sends `value` as a JSON document.
pub(crate) fn json(value: &impl Serialize) -> Answer {
    let body = serde_json::to_string(value).map_err(|error| WebError::fault(&error))?;
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

/// Formats a time in microseconds since the epoch as RFC 3339. Returns `None` if the year can't be
/// represented as a date.
pub(crate) fn time(micros: i64) -> Option<String> {
    rfc3339(micros).or_else(|| {
        let at = Timestamp::from_microsecond(micros).ok()?;
        Some(at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string())
    })
}
