//! Defines the columns of the tables for other engines: one row per run and one row per step.
//!
//! Facts that the run table also shows come from its columns. Limit counters come from the rules'
//! own fold. Knows neither files nor table formats.

use std::borrow::Cow;

use super::columns::{self, Kind};
use super::summary::Summary;

mod run;
mod step;
#[cfg(test)]
mod tests;

pub(crate) use run::{RUNS, Run, RunSource};
pub(crate) use step::{STEPS, steps};

/// A column of a table with rows of type `T`.
pub(crate) struct Field<T> {
    /// The column's name.
    pub name: &'static str,
    /// The type of its values.
    #[cfg_attr(
        not(feature = "parquet"),
        allow(dead_code, reason = "only Parquet declares types")
    )]
    pub holds: Holds,
    read: Read<T>,
}

/// The type of a column's values. Any value may be unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    /// A text.
    Text,
    /// Several texts.
    Texts,
    /// A whole number.
    Whole,
    /// A number.
    Number,
    /// A time, in microseconds since the epoch.
    Time,
    /// A boolean.
    Flag,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell<'a> {
    /// A text.
    Text(Cow<'a, str>),
    /// Several texts.
    Texts(Vec<&'a str>),
    /// A whole number.
    Whole(i64),
    /// A number.
    Number(f64),
    /// A time, in microseconds since the epoch.
    Time(i64),
    /// A boolean.
    Flag(bool),
}

/// Reads a value from a row.
enum Read<T> {
    Text(for<'a> fn(&'a T) -> Option<Cow<'a, str>>),
    Texts(for<'a> fn(&'a T) -> Option<Vec<&'a str>>),
    Whole(fn(&T) -> Option<i64>),
    Number(fn(&T) -> Option<f64>),
    Time(fn(&T) -> Option<i64>),
    Flag(fn(&T) -> Option<bool>),
    /// The value of a column in the run table.
    Column(&'static columns::Column, for<'a> fn(&'a T) -> &'a Summary),
}

impl<T> Field<T> {
    const fn new(name: &'static str, read: Read<T>) -> Self {
        let holds = match &read {
            Read::Text(_) => Holds::Text,
            Read::Texts(_) => Holds::Texts,
            Read::Whole(_) => Holds::Whole,
            Read::Number(_) => Holds::Number,
            Read::Time(_) => Holds::Time,
            Read::Flag(_) => Holds::Flag,
            Read::Column(column, _) => match column.kind {
                Kind::Word(_) | Kind::Text(_) => Holds::Text,
                Kind::List(_) => Holds::Texts,
                Kind::Count(_) => Holds::Whole,
                Kind::Score(_) | Kind::Millis(_) | Kind::Usd(_) => Holds::Number,
                Kind::Time(_) => Holds::Time,
                Kind::Flag(_) => Holds::Flag,
            },
        };
        Self { name, holds, read }
    }

    /// Returns the value of `row` in this column, or `None` if it's unknown.
    pub(crate) fn cell<'a>(&self, row: &'a T) -> Option<Cell<'a>> {
        match &self.read {
            Read::Text(read) => read(row).map(Cell::Text),
            Read::Texts(read) => read(row).map(Cell::Texts),
            Read::Whole(read) => read(row).map(Cell::Whole),
            Read::Number(read) => read(row)
                .filter(|number| number.is_finite())
                .map(Cell::Number),
            Read::Time(read) => read(row).map(Cell::Time),
            Read::Flag(read) => read(row).map(Cell::Flag),
            Read::Column(column, summary) => column.value(summary(row)).map(Cell::from),
        }
    }
}

impl<T> std::fmt::Debug for Field<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl<'a> From<columns::Value<'a>> for Cell<'a> {
    fn from(value: columns::Value<'a>) -> Self {
        match value {
            columns::Value::Text(text) => Cell::Text(text.into()),
            columns::Value::List(texts) => Cell::Texts(texts.iter().map(String::as_str).collect()),
            columns::Value::Count(number) => Cell::Whole(number),
            columns::Value::Score(number) | columns::Value::Millis(number) => Cell::Number(number),
            columns::Value::Usd(cost) => Cell::Number(cost.usd()),
            columns::Value::Time(micros) => Cell::Time(micros),
            columns::Value::Flag(flag) => Cell::Flag(flag),
        }
    }
}

/// Returns a whole number if it fits.
fn whole(number: impl TryInto<i64>) -> Option<i64> {
    number.try_into().ok()
}
