//! Where does a window end? The value a run is sorted by, and that value with its key as a text for addresses.
//!
//! `VALUE:KEY`; the value is empty where the run has none. A number is written so that it reads back exactly, in a
//! text `%` and `:` are encoded.

use crate::analysis::query::SortBy;
use crate::analysis::summary::Summary;

use super::subject::status_word;

/// What a run is sorted by. All runs have the same kind in one column.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(super) enum Place<'a> {
    /// A number. Times in microseconds are exact up to the year 2255.
    Number(f64),
    /// A text, never empty.
    Text(&'a str),
}

/// What `run` is sorted by in column `by`; `None` where it is unknown.
pub(super) fn place(run: &Summary, by: SortBy) -> Option<Place<'_>> {
    let number = |value: Option<f64>| value.filter(|value| !value.is_nan()).map(Place::Number);
    match by {
        SortBy::Updated => number(run.updated.map(|micros| micros as f64)),
        SortBy::Started => number(run.started.map(|micros| micros as f64)),
        SortBy::Steps => number(Some(run.steps as f64)),
        SortBy::Events => number(Some(run.events as f64)),
        SortBy::Tokens => number(run.tokens.map(|tokens| tokens as f64)),
        SortBy::Score => number(run.last_score),
        SortBy::Duration => number(run.duration_ms),
        SortBy::Issues => number(Some(run.issues.0 as f64)),
        SortBy::Run => Some(Place::Text(run.key.as_str())),
        SortBy::Status => Some(Place::Text(status_word(run))),
        SortBy::Model => run.model.as_deref().filter(|model| !model.is_empty()).map(Place::Text),
    }
}

/// A cursor as read.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cursor {
    value: Value,
    /// The key of the last row.
    pub(super) key: String,
}

#[derive(Debug, Clone, PartialEq)]
enum Value {
    Unknown,
    Number(f64),
    Text(String),
}

impl Cursor {
    /// Reads what [`write()`] wrote for the same column.
    pub(super) fn parse(text: &str, by: SortBy) -> Option<Self> {
        let (value, key) = text.split_once(':')?;
        let value = match by {
            _ if value.is_empty() => Value::Unknown,
            SortBy::Run | SortBy::Status | SortBy::Model => Value::Text(value.replace("%3A", ":").replace("%25", "%")),
            _ => Value::Number(value.parse().ok().filter(|number: &f64| !number.is_nan())?),
        };
        Some(Self { value, key: key.to_owned() })
    }

    /// The value of the last row.
    pub(super) fn place(&self) -> Option<Place<'_>> {
        match &self.value {
            Value::Unknown => None,
            Value::Number(number) => Some(Place::Number(*number)),
            Value::Text(text) => Some(Place::Text(text)),
        }
    }
}

/// Writes a cursor that stands behind the run with this value and key.
pub(super) fn write(place: Option<Place<'_>>, key: &str) -> String {
    match place {
        None => format!(":{key}"),
        Some(Place::Number(number)) => format!("{number}:{key}"),
        Some(Place::Text(text)) => format!("{}:{key}", text.replace('%', "%25").replace(':', "%3A")),
    }
}
