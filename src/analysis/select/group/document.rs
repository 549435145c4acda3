//! Serializes a group of runs: its sums by field, and its first runs as rows.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::sum::Sum;
use crate::analysis::columns::{Column, RunRow, Value};
use crate::analysis::summary::Summary;
use crate::model::time::utc;

/// A sum, and the number of runs with a known value.
#[derive(Serialize, JsonSchema)]
pub(super) struct Total {
    sum: Option<serde_json::Number>,
    runs: usize,
    /// Whether the sum includes estimates.
    estimated: bool,
    /// The number of values that are lower bounds, so that the sum is one too.
    lower_bounds: usize,
}

impl Total {
    fn new(column: &Column, sum: &Sum) -> Self {
        let number = match sum.value(column) {
            Some(Value::Count(number)) => Some(number.into()),
            Some(_) => serde_json::Number::from_f64(sum.amount),
            None => None,
        };
        Self {
            sum: number,
            runs: sum.known,
            estimated: sum.is_estimate,
            lower_bounds: sum.lower_bounds,
        }
    }
}

pub(super) fn name<S: Serializer>(name: &str, serializer: S) -> Result<S::Ok, S::Error> {
    Some(name)
        .filter(|name| !name.is_empty())
        .serialize(serializer)
}

pub(super) fn key<T: AsRef<Summary>, S: Serializer>(
    run: &Option<&T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    run.map(|run| run.as_ref().key.as_str())
        .serialize(serializer)
}

pub(super) fn row<T: AsRef<Summary>, S: Serializer>(
    run: &&T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    RunRow(run.as_ref()).serialize(serializer)
}

pub(super) fn time<S: Serializer>(micros: &Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
    micros.and_then(utc).serialize(serializer)
}

pub(super) fn totals<S: Serializer>(
    sums: &[(&'static Column, Sum)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let totals = sums
        .iter()
        .filter_map(|(column, sum)| Some((column.key?, Total::new(column, sum))));
    totals.collect::<BTreeMap<_, _>>().serialize(serializer)
}
