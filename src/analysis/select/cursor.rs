//! Where does a window end? The value a run is sorted by, and that value with its key as a text for addresses.
//!
//! `VALUE:KEY`; the value is empty where the run has none. A number is written so that it reads back exactly, in a
//! text `%` and `:` are encoded.

use crate::analysis::columns::{Column, Value as Cell};
use crate::analysis::summary::Summary;

/// What a run is sorted by. All runs have the same kind in one column.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(super) enum SortKey<'a> {
    /// A number. Times in microseconds are exact up to the year 2255.
    Number(f64),
    /// A text, never empty.
    Text(&'a str),
}

/// What `run` is sorted by in column `by`; `None` where it is unknown.
pub(super) fn place<'a>(run: &'a Summary, by: &Column) -> Option<SortKey<'a>> {
    match by.value(run)? {
        Cell::Text(text) => Some(text)
            .filter(|text| !text.is_empty())
            .map(SortKey::Text),
        Cell::Count(number) | Cell::Time(number) => Some(SortKey::Number(number as f64)),
        Cell::Score(number) | Cell::Millis(number) => Some(number)
            .filter(|number| !number.is_nan())
            .map(SortKey::Number),
        Cell::Usd(cost) => Some(cost.usd())
            .filter(|usd| !usd.is_nan())
            .map(SortKey::Number),
        Cell::List(_) | Cell::Flag(_) => None,
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
    pub(super) fn parse(text: &str, by: &Column) -> Option<Self> {
        let (value, key) = text.split_once(':')?;
        let value = match by {
            _ if value.is_empty() => Value::Unknown,
            _ if by.is_text() => Value::Text(value.replace("%3A", ":").replace("%25", "%")),
            _ => Value::Number(value.parse().ok().filter(|number: &f64| !number.is_nan())?),
        };
        Some(Self {
            value,
            key: key.to_owned(),
        })
    }

    /// The value of the last row.
    pub(super) fn place(&self) -> Option<SortKey<'_>> {
        match &self.value {
            Value::Unknown => None,
            Value::Number(number) => Some(SortKey::Number(*number)),
            Value::Text(text) => Some(SortKey::Text(text)),
        }
    }
}

/// Writes a cursor that stands behind the run with this value and key.
pub(super) fn write(place: Option<SortKey<'_>>, key: &str) -> String {
    match place {
        None => format!(":{key}"),
        Some(SortKey::Number(number)) => format!("{number}:{key}"),
        Some(SortKey::Text(text)) => {
            format!("{}:{key}", text.replace('%', "%25").replace(':', "%3A"))
        }
    }
}
