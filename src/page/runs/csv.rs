//! Writes runs as CSV, with one field per column.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::analysis::columns::{COLUMNS, Column, Value};
use crate::analysis::summary::Summary;
use crate::model::time::utc;
use crate::page::part::csv;

/// Returns the columns that programs receive.
pub(crate) fn fields() -> Vec<&'static Column> {
    COLUMNS
        .iter()
        .filter(|column| column.key.is_some())
        .collect()
}

/// Writes `columns` of runs as CSV. The fields are spelled as in JSON. Unknown values are empty,
/// and several texts are joined with `; `. Hidden characters are made visible, as in all CSV output
/// for people.
///
/// # Errors
/// Returns the errors of `out`.
pub(crate) fn write_csv<'a>(
    out: &mut dyn Write,
    columns: &[&'static Column],
    runs: impl Iterator<Item = &'a Summary>,
) -> io::Result<()> {
    csv::write_row(out, columns.iter().map(|column| column.csv_head()))?;
    for run in runs {
        csv::write_row(
            out,
            columns
                .iter()
                .map(|column| column.value(run).map_or(Cow::Borrowed(""), field)),
        )?;
    }
    Ok(())
}

fn field(value: Value<'_>) -> Cow<'_, str> {
    match value {
        Value::Text(text) => Cow::Borrowed(text),
        Value::List(texts) => Cow::Owned(texts.join("; ")),
        Value::Count(number) => Cow::Owned(number.to_string()),
        Value::Score(number) | Value::Millis(number) => fraction(number),
        Value::Usd(cost) => fraction(cost.usd()),
        Value::Time(micros) => Cow::Owned(utc(micros).unwrap_or_default()),
        Value::Flag(flag) => Cow::Owned(flag.to_string()),
    }
}

fn fraction(number: f64) -> Cow<'static, str> {
    Cow::Owned(
        serde_json::Number::from_f64(number)
            .map(|number| number.to_string())
            .unwrap_or_default(),
    )
}
