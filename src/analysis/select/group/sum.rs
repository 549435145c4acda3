//! Adds up one column over the runs of a group.

use crate::analysis::columns::{Column, Kind, Value};
use crate::analysis::summary::{Cost, Summary};

/// A sum over runs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sum {
    /// The sum of the known values.
    pub amount: f64,
    /// The number of runs with a known value.
    pub known: usize,
    /// The number of those values that are lower bounds.
    pub lower_bounds: usize,
    /// Whether the sum includes an estimate.
    pub is_estimate: bool,
}

impl Sum {
    pub(super) fn add(&mut self, column: &Column, run: &Summary) {
        let Some(number) = column.value(run) else {
            return;
        };
        let amount = match number {
            Value::Count(number) => number as f64,
            Value::Millis(ms) => ms,
            Value::Usd(cost) => {
                self.is_estimate |= matches!(cost, Cost::Estimated(_));
                cost.usd()
            }
            _ => return,
        };
        if amount.is_finite() {
            self.amount += amount;
            self.known += 1;
            self.lower_bounds += usize::from(column.is_lower_bound(run));
            self.is_estimate |= column.is_estimate(run);
        }
    }

    /// Returns how many values are exact rather than lower bounds.
    pub fn counted(&self) -> usize {
        self.known - self.lower_bounds
    }

    /// Returns the sum as a value of its column, or `None` if no run has a value.
    pub fn value(&self, column: &Column) -> Option<Value<'static>> {
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
