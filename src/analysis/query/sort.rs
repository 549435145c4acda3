//! In which order? A column and a direction.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use crate::analysis::columns::{COLUMNS, Column, UPDATED};

/// A column and its direction; the default is the last change, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sort {
    /// The column.
    pub by: &'static Column,
    /// Whether against the column's own direction: times newest first, numbers largest first, words from A to Z.
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
    /// The names of all columns that one can sort by.
    pub fn names() -> String {
        let names = COLUMNS
            .iter()
            .filter(|column| column.is_sortable())
            .map(|column| column.name);
        names.collect::<Vec<_>>().join(", ")
    }

    /// The order after a click on the head of column `by`: its own direction first, the other one second.
    #[must_use]
    pub fn clicked(self, by: &'static Column) -> Sort {
        Sort {
            by,
            reversed: self.by == by && !self.reversed,
        }
    }

    /// Whether the largest value comes first.
    pub fn is_descending(self) -> bool {
        self.by.is_text() == self.reversed
    }

    /// Orders two values of the column; what is unknown or not a number comes last in either direction.
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

/// Writes the column's name, after `-` where reversed.
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

/// Reads what `Display` writes; the error is what was expected.
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
                "sort takes one of {}, reversed with a - before it",
                Self::names()
            )),
        }
    }
}
