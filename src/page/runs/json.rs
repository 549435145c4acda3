//! Writes runs for programs, with one field per column, as JSON and as CSV.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::analysis::columns::{COLUMNS, Column, Kind, Value};
use crate::analysis::query::Ignored;
use crate::analysis::select::{self, Group, Sum};
use crate::analysis::summary::Summary;
use crate::live;
use crate::page::json::time;
use crate::page::part::csv;

/// A page of the run list.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub(crate) struct Runs<'a> {
    pub revision: u64,
    pub total: usize,
    /// The number of runs that the query matches.
    pub matched: usize,
    pub runs: Vec<RunRow<'a>>,
    /// The value of `after` for the next page.
    pub next: Option<String>,
    /// With `group`: a page of groups, in place of `runs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<GroupRow<'a>>>,
    /// The number of groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups_total: Option<usize>,
    /// The number of duplicates of listed runs: files with the same records. They aren't counted as
    /// runs.
    pub copies: usize,
    /// Terms of the query that weren't understood. They don't filter.
    pub ignored: Vec<Ignored>,
    /// The first skipped items: files that look like traces but aren't read, directories without a
    /// run, and objects that a store didn't deliver.
    pub skipped: Vec<Skipped>,
    /// The number of skipped items.
    pub skipped_total: usize,
    /// The number of skipped files, by reason.
    pub skipped_files: BTreeMap<String, usize>,
}

/// Runs that belong together.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct GroupRow<'a> {
    /// The value that they have in common.
    pub name: Option<&'a str>,
    /// The key of the run that all of them descend from, if they are grouped by that.
    pub key: Option<&'a str>,
    pub runs: usize,
    pub failed: usize,
    /// The number of runs that may still write.
    pub alive: usize,
    /// The number of duplicates of these runs: files with the same records. They aren't included in
    /// any sum.
    #[serde(rename = "twins")]
    pub duplicates: usize,
    /// The number of runs that begin with steps copied from another run. Copied steps count only in
    /// that run.
    pub branches: usize,
    pub updated_at: Option<String>,
    /// The total of each field.
    pub sums: BTreeMap<&'static str, Total>,
    /// The first runs of the group.
    pub rows: Vec<Member<'a>>,
}

/// A sum, and the number of runs with a known value.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Total {
    pub sum: Option<serde_json::Number>,
    pub runs: usize,
    /// Whether the sum includes estimates.
    pub estimated: bool,
}

/// A run in its group. `depth` is the number of its ancestors in the group.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Member<'a> {
    pub depth: usize,
    #[serde(flatten)]
    pub row: RunRow<'a>,
}

impl<'a> GroupRow<'a> {
    pub(crate) fn new<T: AsRef<Summary>>(group: &Group<'a, T>) -> Self {
        let total = |(column, sum): &(&'static Column, Sum)| {
            let number = match sum.value(column) {
                Some(Value::Count(number)) => Some(number.into()),
                Some(_) => serde_json::Number::from_f64(sum.amount),
                None => None,
            };
            Some((
                column.key?,
                Total {
                    sum: number,
                    runs: sum.known,
                    estimated: sum.is_estimate,
                },
            ))
        };
        let member = |member: &select::Member<'a, T>| Member {
            depth: member.depth,
            row: RunRow(member.run.as_ref()),
        };
        Self {
            name: Some(group.name).filter(|name| !name.is_empty()),
            key: group.head.map(|head| head.as_ref().key.as_str()),
            runs: group.runs,
            failed: group.failed,
            alive: group.alive,
            duplicates: group.copies,
            branches: group.branches,
            updated_at: group.newest.and_then(time),
            sums: group.sums.iter().filter_map(total).collect(),
            rows: group.rows.iter().map(member).collect(),
        }
    }
}

/// A file, a directory, or an object of a store that isn't shown as a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Skipped {
    /// The path below its root, or the key below its prefix.
    pub path: String,
    pub reason: String,
    /// `file`, `directory` or `object`.
    pub kind: &'static str,
}

impl From<&live::Skipped> for Skipped {
    fn from(skipped: &live::Skipped) -> Self {
        let kind = if skipped.is_file { "file" } else { "directory" };
        Self {
            path: skipped.path.clone(),
            reason: skipped.reason.clone(),
            kind,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct RunRow<'a>(pub(crate) &'a Summary);

impl Serialize for RunRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for column in COLUMNS {
            if let Some(key) = column.key {
                map.serialize_entry(key, &Json(column.value(self.0)))?;
            }
        }
        map.end()
    }
}

impl JsonSchema for RunRow<'_> {
    fn schema_name() -> Cow<'static, str> {
        "RunRow".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let fields = COLUMNS
            .iter()
            .filter_map(|column| Some((column.key?.to_owned(), schema_of(column).to_value())));
        let properties: serde_json::Map<_, _> = fields.collect();
        let required: Vec<_> = properties.keys().cloned().collect();
        schemars::json_schema!({
            "description": "A run as shown in lists. Unknown values are null.",
            "type": "object",
            "properties": properties,
            "required": required,
        })
    }
}

/// Returns the JSON schema of a column's value. Unknown values are `null`.
fn schema_of(column: &Column) -> Schema {
    let kind = match column.kind {
        Kind::Word(_) | Kind::Text(_) => json!({ "type": ["string", "null"] }),
        Kind::Time(_) => json!({ "type": ["string", "null"], "format": "date-time" }),
        Kind::List(_) => json!({ "type": ["array", "null"], "items": { "type": "string" } }),
        Kind::Count(_) => json!({ "type": ["integer", "null"] }),
        Kind::Score(_) | Kind::Millis(_) | Kind::Usd(_) => json!({ "type": ["number", "null"] }),
        Kind::Flag(_) => json!({ "type": ["boolean", "null"] }),
    };
    let mut schema = Schema::try_from(kind).unwrap_or_default();
    schema.insert("description".to_owned(), column.about().into());
    schema
}

struct Json<'a>(Option<Value<'a>>);

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            None => serializer.serialize_none(),
            Some(Value::Text(text)) => serializer.serialize_str(text),
            Some(Value::List(texts)) => texts.serialize(serializer),
            Some(Value::Count(number)) => serializer.serialize_i64(number),
            Some(Value::Score(number) | Value::Millis(number)) => serializer.serialize_f64(number),
            Some(Value::Usd(cost)) => serializer.serialize_f64(cost.usd()),
            Some(Value::Time(micros)) => time(micros).serialize(serializer),
            Some(Value::Flag(flag)) => serializer.serialize_bool(flag),
        }
    }
}

/// Returns the columns that programs receive.
pub(crate) fn fields() -> Vec<&'static Column> {
    COLUMNS
        .iter()
        .filter(|column| column.key.is_some())
        .collect()
}

/// Returns the valid sort orders. The empty one means newest first.
pub(crate) fn sorts() -> Vec<String> {
    let names = COLUMNS
        .iter()
        .filter(|column| column.is_sortable())
        .map(|column| column.name);
    let both = names.flat_map(|name| [name.to_owned(), format!("-{name}")]);
    both.chain([String::new()]).collect()
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
        Value::Time(micros) => Cow::Owned(time(micros).unwrap_or_default()),
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
