//! Writes rows as lines of JSON or CSV, or as part of a Parquet file.

use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::sync::Arc;

use crate::analysis::table::{Cell, Field, RUNS, Run, STEPS, steps};
use crate::model::time::rfc3339;
use crate::page::part::csv;

/// The kind of table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Table {
    Runs,
    Steps,
}

impl Table {
    pub(super) fn name(self) -> &'static str {
        match self {
            Table::Runs => "runs",
            Table::Steps => "steps",
        }
    }

    /// Returns the names and types of its columns.
    #[cfg(feature = "parquet")]
    pub(super) fn fields(self) -> Vec<(&'static str, crate::analysis::table::Holds)> {
        match self {
            Table::Runs => RUNS.iter().map(|field| (field.name, field.holds)).collect(),
            Table::Steps => STEPS
                .iter()
                .map(|field| (field.name, field.holds))
                .collect(),
        }
    }
}

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// One JSON object per line
    Jsonl,
    /// Comma-separated values with a header row (RFC 4180)
    Csv,
    /// Typed columns; requires a build with the `parquet` feature
    Parquet,
}

impl Format {
    /// Returns the file name extension.
    pub(super) fn extension(self) -> &'static str {
        match self {
            Format::Jsonl => "jsonl",
            Format::Csv => "csv",
            Format::Parquet => "parquet",
        }
    }
}

/// Combines the rows of runs into a file.
pub(super) enum Sheet {
    /// Rows are concatenated.
    Lines,
    /// Rows are encoded by column.
    #[cfg(feature = "parquet")]
    Columns(Box<super::parquet::Writer>),
}

impl Sheet {
    /// Begins a file.
    ///
    /// # Errors
    /// The file can't be written, or this board doesn't support the format.
    pub(super) fn begin(table: Table, format: Format, out: &mut dyn Write) -> io::Result<Self> {
        match format {
            Format::Jsonl | Format::Csv => {
                out.write_all(&head(table, format)).map(|()| Sheet::Lines)
            }
            #[cfg(feature = "parquet")]
            Format::Parquet => super::parquet::Writer::new(table.name(), &table.fields())
                .map(|writer| Sheet::Columns(Box::new(writer))),
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Adds the rows of a run, as written by [`write`].
    ///
    /// # Errors
    /// The rows can't be read or written.
    pub(super) fn push(&mut self, rows: &mut dyn Read, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Sheet::Lines => io::copy(rows, out).map(drop),
            #[cfg(feature = "parquet")]
            Sheet::Columns(writer) => writer.push(io::BufReader::new(rows), out),
        }
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The file can't be written.
    pub(super) fn end(self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Sheet::Lines => out.flush(),
            #[cfg(feature = "parquet")]
            Sheet::Columns(writer) => writer.end(out),
        }
    }
}

/// Returns the header of a file.
fn head(table: Table, format: Format) -> Vec<u8> {
    let mut out = Vec::new();
    let mut write = |names: &mut dyn Iterator<Item = &str>| {
        // Writing to memory can't fail.
        let _ = csv::write_row_verbatim(&mut out, names);
    };
    match (format, table) {
        (Format::Jsonl | Format::Parquet, _) => {}
        (Format::Csv, Table::Runs) => write(&mut RUNS.iter().map(|field| field.name)),
        (Format::Csv, Table::Steps) => write(&mut STEPS.iter().map(|field| field.name)),
    }
    out
}

/// The size in bytes at which rows are sent.
const PIECE_BYTES: usize = 1 << 20;

/// Writes the rows of a run and sends them in pieces of whole rows. Returns the number of rows.
pub(super) fn write(
    table: Table,
    format: Format,
    run: &Arc<Run>,
    send: &mut dyn FnMut(Vec<u8>),
) -> u64 {
    let (mut rows, mut count) = (Vec::new(), 0);
    match table {
        Table::Runs => {
            row(RUNS, &**run, format, &mut rows);
            count = 1;
        }
        Table::Steps => steps(run).for_each(|step| {
            row(STEPS, &step, format, &mut rows);
            count += 1;
            if rows.len() >= PIECE_BYTES {
                send(std::mem::take(&mut rows));
            }
        }),
    }
    if !rows.is_empty() {
        send(rows);
    }
    count
}

fn row<T>(fields: &[Field<T>], row: &T, format: Format, out: &mut Vec<u8>) {
    match format {
        Format::Jsonl => json(fields, row, out),
        // Writing to memory can't fail.
        Format::Csv => drop(csv::write_row_verbatim(
            out,
            fields.iter().map(|field| text(field.cell(row))),
        )),
        Format::Parquet => array(fields, row, out),
    }
}

/// Writes the values as a JSON array on one line, with times as numbers, for the column writer.
fn array<T>(fields: &[Field<T>], row: &T, out: &mut Vec<u8>) {
    let mut before = b'[';
    for field in fields {
        out.push(before);
        match field.cell(row) {
            Some(Cell::Time(micros)) => value(Some(Cell::Whole(micros)), out),
            cell => value(cell, out),
        }
        before = b',';
    }
    out.extend_from_slice(b"]\n");
}

/// Writes a JSON object on one line.
fn json<T>(fields: &[Field<T>], row: &T, out: &mut Vec<u8>) {
    let mut before = b'{';
    for field in fields {
        out.push(before);
        out.push(b'"');
        out.extend_from_slice(field.name.as_bytes());
        out.extend_from_slice(b"\":");
        value(field.cell(row), out);
        before = b',';
    }
    out.extend_from_slice(b"}\n");
}

/// Writes a value as JSON.
fn value(cell: Option<Cell<'_>>, out: &mut Vec<u8>) {
    // Neither serializing these values nor writing to memory can fail.
    let _ = match cell {
        Some(Cell::Text(text)) => serde_json::to_writer(out, &*text),
        Some(Cell::Texts(texts)) => serde_json::to_writer(out, &texts),
        Some(Cell::Whole(number)) => serde_json::to_writer(out, &number),
        Some(Cell::Number(number)) => serde_json::to_writer(out, &number),
        Some(Cell::Time(micros)) => serde_json::to_writer(out, &rfc3339(micros)),
        Some(Cell::Flag(flag)) => serde_json::to_writer(out, &flag),
        None => serde_json::to_writer(out, &()),
    };
}

/// Formats a CSV field; empty if the value is unknown.
fn text(cell: Option<Cell<'_>>) -> Cow<'_, str> {
    match cell {
        Some(Cell::Text(text)) => text,
        Some(Cell::Texts(texts)) => Cow::Owned(texts.join("; ")),
        Some(Cell::Whole(number)) => Cow::Owned(number.to_string()),
        Some(Cell::Number(number)) => Cow::Owned(
            serde_json::Number::from_f64(number)
                .map(|number| number.to_string())
                .unwrap_or_default(),
        ),
        Some(Cell::Time(micros)) => Cow::Owned(rfc3339(micros).unwrap_or_default()),
        Some(Cell::Flag(flag)) => Cow::Borrowed(if flag { "true" } else { "false" }),
        None => Cow::Borrowed(""),
    }
}
