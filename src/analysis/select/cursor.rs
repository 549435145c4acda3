//! Cursors mark the end of a window: the sort value of its last run and the run's key, encoded for
//! addresses.
//!
//! The format is `VALUE:KEY`, with an empty value if the run has none. Numbers are written so that
//! they read back exactly. In text, `%` and `:` are percent-encoded.

use crate::analysis::columns::{Column, Value as Cell};
use crate::analysis::summary::Summary;

/// The value that a run is sorted by. All values of a column are of the same kind.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(super) enum SortKey<'a> {
    /// A number. Times in microseconds are exact until the year 2255.
    Number(f64),
    /// Text, never empty.
    Text(&'a str),
}

/// Longer texts are sorted by their beginning, because a cursor is part of an address; bytes.
const MAX_TEXT: usize = 200;

/// Returns the sort value of `run` in column `by`, or `None` if it's unknown.
pub(super) fn place<'a>(run: &'a Summary, by: &Column) -> Option<SortKey<'a>> {
    match by.value(run)? {
        Cell::Text(text) => Some(&text[..text.floor_char_boundary(MAX_TEXT)])
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

/// A parsed cursor.
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
    /// Parses what [`write()`] wrote for the same column.
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

    /// Returns the value of the last row.
    pub(super) fn place(&self) -> Option<SortKey<'_>> {
        match &self.value {
            Value::Unknown => None,
            Value::Number(number) => Some(SortKey::Number(*number)),
            Value::Text(text) => Some(SortKey::Text(text)),
        }
    }
}

/// Writes a cursor that points after the run with this value and key.
pub(super) fn write(place: Option<SortKey<'_>>, key: &str) -> String {
    match place {
        None => format!(":{key}"),
        Some(SortKey::Number(number)) => format!("{number}:{key}"),
        Some(SortKey::Text(text)) => {
            format!("{}:{key}", text.replace('%', "%25").replace(':', "%3A"))
        }
    }
}
