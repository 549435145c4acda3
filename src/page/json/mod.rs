//! What do all documents for programs have in common? How they are sent, and how a time is written.
//!
//! A name in a document is a promise: shapes gain fields, none is renamed or dropped. What is not known is `null`, never
//! 0. Times are RFC 3339 in UTC with microseconds.

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use jiff::Timestamp;
use serde::Serialize;

use crate::model::time::rfc3339;
use crate::page::error::{Answer, WebError};

#[cfg(test)]
mod tests;

/// A document for programs.
pub(crate) fn json(value: &impl Serialize) -> Answer {
    let body = serde_json::to_string(value).map_err(|error| WebError::fault(&error))?;
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

/// A time in microseconds since the epoch as RFC 3339; `None` outside the years that have dates.
pub(crate) fn time(micros: i64) -> Option<String> {
    rfc3339(micros).or_else(|| {
        let at = Timestamp::from_microsecond(micros).ok()?;
        Some(at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string())
    })
}
