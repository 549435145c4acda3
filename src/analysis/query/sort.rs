//! In which order? The sort keys of the run table.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// A column to sort by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SortBy {
    /// The last change.
    #[default]
    Updated,
    /// The start.
    Started,
    /// The run's key.
    Run,
    /// The status word.
    Status,
    /// The number of steps.
    Steps,
    /// The number of events.
    Events,
    /// The number of tokens.
    Tokens,
    /// The last score.
    Score,
    /// The duration.
    Duration,
    /// The model's name.
    Model,
    /// The number of issues.
    Issues,
}

impl SortBy {
    /// Every column.
    pub const ALL: [SortBy; 11] = [
        SortBy::Updated,
        SortBy::Started,
        SortBy::Run,
        SortBy::Status,
        SortBy::Steps,
        SortBy::Events,
        SortBy::Tokens,
        SortBy::Score,
        SortBy::Duration,
        SortBy::Model,
        SortBy::Issues,
    ];

    /// The name in an address.
    pub fn name(self) -> &'static str {
        match self {
            SortBy::Updated => "updated",
            SortBy::Started => "started",
            SortBy::Run => "run",
            SortBy::Status => "status",
            SortBy::Steps => "steps",
            SortBy::Events => "events",
            SortBy::Tokens => "tokens",
            SortBy::Score => "score",
            SortBy::Duration => "duration",
            SortBy::Model => "model",
            SortBy::Issues => "issues",
        }
    }

    /// Whether its own direction is from the largest down: newest, longest, most. Words go from A to Z.
    fn falls(self) -> bool {
        !matches!(self, SortBy::Run | SortBy::Status | SortBy::Model)
    }
}

/// A column and its direction; the default is the last change, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Sort {
    /// The column.
    pub by: SortBy,
    /// Whether against the column's own direction: times newest first, numbers largest first, words from A to Z.
    pub reversed: bool,
}

impl Sort {
    /// The order after a click on the head of column `by`: its own direction first, the other one second.
    #[must_use]
    pub fn clicked(self, by: SortBy) -> Sort {
        Sort { by, reversed: self.by == by && !self.reversed }
    }

    /// Whether the largest value comes first.
    pub fn is_descending(self) -> bool {
        self.by.falls() != self.reversed
    }

    /// Orders two values of the column; what is unknown or not a number comes last in either direction.
    pub fn order<T: PartialOrd>(self, a: Option<T>, b: Option<T>) -> Ordering {
        let comparable = |value: &T| value.partial_cmp(value).is_some();
        match (a.filter(comparable), b.filter(comparable)) {
            (Some(a), Some(b)) => {
                let order = a.partial_cmp(&b).unwrap_or(Ordering::Equal);
                if self.is_descending() { order.reverse() } else { order }
            }
            (a, b) => b.is_some().cmp(&a.is_some()),
        }
    }
}

/// Writes the column's name, after `-` where reversed.
impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.reversed { "-" } else { "" }, self.by.name())
    }
}

/// Reads what `Display` writes; the error is what was expected.
impl FromStr for Sort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (reversed, name) = text.strip_prefix('-').map_or((false, text), |name| (true, name));
        match SortBy::ALL.into_iter().find(|by| by.name() == name) {
            Some(by) => Ok(Sort { by, reversed }),
            None => {
                let names: Vec<_> = SortBy::ALL.iter().map(|by| by.name()).collect();
                Err(format!("sort takes one of {}, reversed with a - before it", names.join(", ")))
            }
        }
    }
}
