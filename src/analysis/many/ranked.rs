//! The first rows of a list, with the number of the others.

use schemars::JsonSchema;
use serde::Serialize;

/// The first rows of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Ranked{T}")]
pub(crate) struct Ranked<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// The number of further rows.
    pub left_out: usize,
}

impl<T> Default for Ranked<T> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            left_out: 0,
        }
    }
}

impl<T> Ranked<T> {
    pub(super) fn new(mut rows: Vec<T>, limit: usize) -> Self {
        let left_out = rows.len().saturating_sub(limit);
        rows.truncate(limit);
        Self { rows, left_out }
    }

    /// Returns the same list with other rows.
    pub(super) fn map<U>(self, row: impl FnMut(T) -> U) -> Ranked<U> {
        Ranked {
            rows: self.rows.into_iter().map(row).collect(),
            left_out: self.left_out,
        }
    }
}
