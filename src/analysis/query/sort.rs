//! The sort order of a list: a column and a direction.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use crate::analysis::columns::{COLUMNS, Column, UPDATED};

/// A column and its direction. Sorts by last change by default, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sort {
    /// The column.
    pub by: &'static Column,
    /// Whether the column's own direction is reversed. Times sort newest first, numbers largest
    /// first, words from A to Z.
    pub reversed: bool,
}

impl Default for Sort {
    fn default() -> Self {
        Self {
            by: UPDATED,
            reversed: false,
        }
    }
}

impl Sort {
    /// Returns the names of all sortable columns.
    pub fn names() -> String {
        let names = COLUMNS
            .iter()
            .filter(|column| column.is_sortable())
            .map(|column| column.name);
        names.collect::<Vec<_>>().join(", ")
    }

    /// Returns the order after a click on the header of column `by`: its own direction first, then
    /// the reverse.
    #[must_use]
    pub fn clicked(self, by: &'static Column) -> Sort {
        Sort {
            by,
            reversed: self.by == by && !self.reversed,
        }
    }

    /// Returns whether the largest value comes first.
    pub fn is_descending(self) -> bool {
        self.by.is_text() == self.reversed
    }

    /// Compares two values of the column. Missing values and NaN come last in both directions.
    pub fn order<T: PartialOrd>(self, a: Option<T>, b: Option<T>) -> Ordering {
        let comparable = |value: &T| value.partial_cmp(value).is_some();
        match (a.filter(comparable), b.filter(comparable)) {
            (Some(a), Some(b)) => {
                let order = a.partial_cmp(&b).unwrap_or(Ordering::Equal);
                if self.is_descending() {
                    order.reverse()
                } else {
                    order
                }
            }
            (a, b) => b.is_some().cmp(&a.is_some()),
        }
    }
}

/// Writes the column's name, with a leading `-` if reversed.
impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}{}",
            if self.reversed { "-" } else { "" },
            self.by.name
        )
    }
}

/// Parses what `Display` writes. The error states what was expected.
impl FromStr for Sort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (reversed, name) = text
            .strip_prefix('-')
            .map_or((false, text), |name| (true, name));
        match COLUMNS
            .iter()
            .find(|column| column.name == name && column.is_sortable())
        {
            Some(by) => Ok(Sort { by, reversed }),
            None => Err(format!(
                "must be one of: {}, with a leading - to reverse it",
                Self::names()
            )),
        }
    }
}
