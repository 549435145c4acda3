//! Adds up one column over the runs of a group.

use crate::analysis::columns::{COST, Column, Kind, Value};
use crate::analysis::cost_shares::CostShares;
use crate::analysis::summary::{Cost, Summary};

/// A sum over runs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Sum {
    /// The sum of the known values.
    pub amount: f64,
    /// The number of runs with a known value.
    pub known: usize,
    /// The number of those values that are lower bounds.
    pub lower_bounds: usize,
    /// Whether the sum includes an estimate.
    pub is_estimate: bool,
}

/// The value of one run in a column that can be added up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Amount {
    /// The number.
    pub number: f64,
    /// Whether the true number may be higher.
    pub is_lower_bound: bool,
    /// Whether it's an estimate, or includes one.
    pub is_estimate: bool,
}

impl Amount {
    /// Returns the value of `run`, if it's a known number. Of a divided cost, it's the run's share.
    pub(crate) fn of(column: &Column, run: &Summary, shares: &CostShares<'_>) -> Option<Self> {
        let share = shares.share(run).filter(|_| *column == *COST);
        if let Some(number) = share {
            return Some(Self {
                number,
                is_lower_bound: false,
                is_estimate: false,
            });
        }
        let value = column.shown(run)?;
        let number = match value {
            Value::Count(number) => number as f64,
            Value::Millis(ms) => ms,
            Value::Usd(cost) => cost.usd(),
            _ => return None,
        };
        number.is_finite().then(|| Self {
            number,
            is_lower_bound: column.is_lower_bound(run),
            is_estimate: matches!(value, Value::Usd(Cost::Estimated(_))) || column.is_estimate(run),
        })
    }
}

impl Sum {
    pub(super) fn add(&mut self, column: &Column, run: &Summary, shares: &CostShares<'_>) {
        if let Some(amount) = Amount::of(column, run, shares) {
            self.include(amount);
        }
    }

    /// Adds the value of one run.
    pub(crate) fn include(&mut self, amount: Amount) {
        self.amount += amount.number;
        self.known += 1;
        self.lower_bounds += usize::from(amount.is_lower_bound);
        self.is_estimate |= amount.is_estimate;
    }

    /// Returns whether the true sum over `runs` runs may be higher: a value is a lower bound or unknown.
    pub(crate) fn is_lower_bound(&self, runs: usize) -> bool {
        self.lower_bounds > 0 || self.known < runs
    }

    /// Returns how many values are exact rather than lower bounds.
    pub(crate) fn counted(&self) -> usize {
        self.known - self.lower_bounds
    }

    /// Returns the sum as a value of its column, or `None` if no run has a value.
    pub(crate) fn value(&self, column: &Column) -> Option<Value<'static>> {
        match column.kind {
            _ if self.known == 0 => None,
            Kind::Count(_) => Some(Value::Count(self.amount as i64)),
            Kind::Millis(_) => Some(Value::Millis(self.amount)),
            Kind::Usd(_) if self.is_estimate => Some(Value::Usd(Cost::Estimated(self.amount))),
            Kind::Usd(_) => Some(Value::Usd(Cost::Recorded(self.amount))),
            _ => None,
        }
    }
}
