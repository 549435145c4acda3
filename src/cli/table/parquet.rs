//! Writes rows as a Parquet file. Rows are collected by column and written as a row group once
//! there are enough.
//!
//! Rows arrive as [`super::rows`] writes them for this format: a JSON array on one line, with
//! values in column order. Only one row group is in memory, however long the table is.

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde_json::Value;

use crate::analysis::table::Holds;

/// The approximate size of a row group in bytes, before encoding.
const GROUP_BYTES: usize = 16 << 20;

/// Collects rows for a file.
pub(super) struct Writer {
    /// Buffers its output in memory until it's copied to the file.
    file: SerializedFileWriter<Vec<u8>>,
    columns: Vec<Column>,
    /// The size of the collected rows in bytes.
    waiting: usize,
}

/// The collected values of a column. Non-null values are contiguous, and `defined` shows the
/// positions of the nulls.
struct Column {
    values: Values,
    defined: Vec<i16>,
    /// For a list: 0 at the start of a row.
    repeated: Vec<i16>,
}

enum Values {
    Texts(Vec<ByteArray>),
    Lists(Vec<ByteArray>),
    Whole(Vec<i64>),
    Numbers(Vec<f64>),
    Flags(Vec<bool>),
}

impl Writer {
    /// Begins a file of the table `name` with these columns.
    ///
    /// # Errors
    /// The names make no valid schema.
    pub(super) fn new(name: &str, fields: &[(&str, Holds)]) -> io::Result<Self> {
        let mut schema = format!("message {name} {{");
        for (name, holds) in fields {
            schema.push_str(&declared(name, *holds));
        }
        schema.push('}');
        let schema = parse_message_type(&schema).map_err(io_error)?;
        let writer = format!("board version {}", env!("CARGO_PKG_VERSION"));
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(writer)
            .build();
        let file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))
            .map_err(io_error)?;
        let columns = fields
            .iter()
            .map(|(_, holds)| Column::new(*holds))
            .collect();
        Ok(Self {
            file,
            columns,
            waiting: 0,
        })
    }

    /// Adds rows, and writes finished row groups to `out`.
    ///
    /// # Errors
    /// The rows can't be written, or don't belong to this table.
    pub(super) fn push(&mut self, mut rows: impl BufRead, out: &mut dyn Write) -> io::Result<()> {
        let mut line = Vec::new();
        loop {
            line.clear();
            if rows.read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            let row: Vec<Value> = serde_json::from_slice(&line)?;
            if row.len() != self.columns.len() {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "a row has a different number of values than columns",
                ));
            }
            self.columns
                .iter_mut()
                .zip(row)
                .for_each(|(column, value)| column.push(value));
            self.waiting += line.len();
            if self.waiting >= GROUP_BYTES {
                self.write_group(out)?;
            }
        }
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The file can't be written.
    pub(super) fn end(mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.waiting > 0 {
            self.write_group(out)?;
        }
        self.file.finish().map_err(io_error)?;
        out.write_all(self.file.inner())
    }

    fn write_group(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.waiting = 0;
        let mut group = self.file.next_row_group().map_err(io_error)?;
        for column in &mut self.columns {
            let mut writer = group
                .next_column()
                .map_err(io_error)?
                .ok_or_else(|| io_error(general("a column is missing")))?;
            column.write(writer.untyped()).map_err(io_error)?;
            writer.close().map_err(io_error)?;
        }
        group.close().map_err(io_error)?;
        self.file.flush()?;
        let written = self.file.inner_mut();
        out.write_all(written)?;
        written.clear();
        Ok(())
    }
}

/// Returns a column's declaration in the schema.
fn declared(name: &str, holds: Holds) -> String {
    match holds {
        Holds::Text => format!("optional binary {name} (STRING);"),
        Holds::Texts => {
            format!(
                "optional group {name} (LIST) {{ repeated group list {{ required binary element (STRING); }} }}"
            )
        }
        Holds::Whole => format!("optional int64 {name};"),
        Holds::Number => format!("optional double {name};"),
        Holds::Time => format!("optional int64 {name} (TIMESTAMP(MICROS,true));"),
        Holds::Flag => format!("optional boolean {name};"),
    }
}

fn io_error(error: ParquetError) -> io::Error {
    io::Error::other(error)
}

fn general(what: &str) -> ParquetError {
    ParquetError::General(what.to_owned())
}

impl Column {
    fn new(holds: Holds) -> Self {
        let values = match holds {
            Holds::Text => Values::Texts(Vec::new()),
            Holds::Texts => Values::Lists(Vec::new()),
            Holds::Whole | Holds::Time => Values::Whole(Vec::new()),
            Holds::Number => Values::Numbers(Vec::new()),
            Holds::Flag => Values::Flags(Vec::new()),
        };
        Self {
            values,
            defined: Vec::new(),
            repeated: Vec::new(),
        }
    }

    /// Adds the value of a row. A value of a different type than the column's becomes null.
    fn push(&mut self, value: Value) {
        fn keep<T>(values: &mut Vec<T>, value: Option<T>) -> bool {
            let is_there = value.is_some();
            values.extend(value);
            is_there
        }
        let text = |value: Value| match value {
            Value::String(text) => Some(ByteArray::from(text.into_bytes())),
            _ => None,
        };
        let is_there = match &mut self.values {
            Values::Texts(values) => keep(values, text(value)),
            Values::Whole(values) => keep(values, value.as_i64()),
            Values::Numbers(values) => keep(values, value.as_f64()),
            Values::Flags(values) => keep(values, value.as_bool()),
            Values::Lists(values) => {
                let Value::Array(items) = value else {
                    return self.mark(0, 0);
                };
                if items.is_empty() {
                    return self.mark(1, 0);
                }
                for (at, item) in items.into_iter().enumerate() {
                    values.push(text(item).unwrap_or_default());
                    self.defined.push(2);
                    self.repeated.push(i16::from(at > 0));
                }
                return;
            }
        };
        self.defined.push(i16::from(is_there));
    }

    /// Marks a null or empty list.
    fn mark(&mut self, defined: i16, repeated: i16) {
        self.defined.push(defined);
        self.repeated.push(repeated);
    }

    /// Writes the collected values, and keeps the memory for reuse.
    fn write(&mut self, out: &mut ColumnWriter<'_>) -> Result<(), ParquetError> {
        let (defined, repeated) = (Some(&*self.defined), Some(&*self.repeated));
        match (&mut self.values, out) {
            (Values::Texts(values), ColumnWriter::ByteArrayColumnWriter(out)) => {
                out.write_batch(values, defined, None)?;
                values.clear();
            }
            (Values::Lists(values), ColumnWriter::ByteArrayColumnWriter(out)) => {
                out.write_batch(values, defined, repeated)?;
                values.clear();
            }
            (Values::Whole(values), ColumnWriter::Int64ColumnWriter(out)) => {
                out.write_batch(values, defined, None)?;
                values.clear();
            }
            (Values::Numbers(values), ColumnWriter::DoubleColumnWriter(out)) => {
                out.write_batch(values, defined, None)?;
                values.clear();
            }
            (Values::Flags(values), ColumnWriter::BoolColumnWriter(out)) => {
                out.write_batch(values, defined, None)?;
                values.clear();
            }
            _ => {
                return Err(general(
                    "a column is not of the type that the schema gives it",
                ));
            }
        }
        self.defined.clear();
        self.repeated.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::{Field, Row};

    use super::super::rows::Table;
    use super::*;
    use crate::analysis::table::STEPS;

    /// A row of the steps table in which only these columns are known.
    fn line(known: &[(&str, Value)]) -> Vec<u8> {
        let value = |name: &str| {
            known
                .iter()
                .find(|(known, _)| *known == name)
                .map_or(Value::Null, |(_, v)| v.clone())
        };
        let values: Vec<Value> = STEPS.iter().map(|field| value(field.name)).collect();
        let mut line = serde_json::to_vec(&values).unwrap();
        line.push(b'\n');
        line
    }

    fn field<'a>(row: &'a Row, name: &str) -> &'a Field {
        row.get_column_iter()
            .find(|(known, _)| *known == name)
            .unwrap()
            .1
    }

    #[test]
    fn what_goes_in_comes_out_whatever_the_number_of_row_groups() {
        let mut writer = Writer::new(Table::Steps.name(), &Table::Steps.fields()).unwrap();
        let mut out = Vec::new();
        let long = "x".repeat(GROUP_BYTES / 20);
        let tools = |n: i64| {
            (0..n % 3)
                .map(|at| format!("tool {at} of {n}").into())
                .collect::<Vec<Value>>()
        };
        let mut most = 0;
        for n in 0..50_i64 {
            let mut known = vec![
                ("step", n.into()),
                ("call", long.clone().into()),
                ("at", (n * 1_000_001).into()),
            ];
            if n % 2 == 0 {
                known.extend([
                    ("score", (n as f64 / 8.0).into()),
                    ("tools", tools(n).into()),
                    ("asked_before_end", true.into()),
                ]);
            }
            writer.push(&*line(&known), &mut out).unwrap();
            most = most.max(writer.waiting);
        }
        assert!(
            most < GROUP_BYTES + GROUP_BYTES / 10,
            "no more than a row group waits: {most}"
        );
        writer.end(&mut out).unwrap();

        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&out).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        assert_eq!(reader.num_row_groups(), 3);
        let rows: Vec<Row> = reader
            .get_row_iter(None)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(rows.len(), 50);
        for (n, row) in rows.iter().enumerate() {
            assert_eq!(field(row, "step"), &Field::Long(n as i64));
            assert_eq!(field(row, "call"), &Field::Str(long.clone()));
            assert_eq!(
                field(row, "at"),
                &Field::TimestampMicros(n as i64 * 1_000_001)
            );
            assert_eq!(field(row, "transcript_id"), &Field::Null);
            let list = |field: &Field| match field {
                Field::ListInternal(list) => Some(
                    list.elements()
                        .iter()
                        .map(ToString::to_string)
                        .collect::<Vec<_>>(),
                ),
                _ => None,
            };
            let named = tools(n as i64)
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>();
            let (score, flag, tools) = (
                field(row, "score"),
                field(row, "asked_before_end"),
                list(field(row, "tools")),
            );
            match n % 2 {
                0 => {
                    assert_eq!(
                        (score, flag, tools),
                        (
                            &Field::Double(n as f64 / 8.0),
                            &Field::Bool(true),
                            Some(named)
                        )
                    )
                }
                _ => assert_eq!((score, flag, tools), (&Field::Null, &Field::Null, None)),
            }
        }
    }

    #[test]
    fn what_is_no_row_is_an_error() {
        let mut writer = Writer::new(Table::Runs.name(), &Table::Runs.fields()).unwrap();
        assert!(writer.push(&b"[1]\n"[..], &mut Vec::new()).is_err());
        assert!(writer.push(&b"{}\n"[..], &mut Vec::new()).is_err());
    }
}
