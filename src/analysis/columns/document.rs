//! Provides the JSON of a run as one row: a field for each column that has a key.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::json;

use super::{COLUMNS, Column, Kind, Value};
use crate::analysis::summary::Summary;
use crate::model::time::utc;

/// A run as a row of the run table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunRow<'a>(pub &'a Summary);

impl Serialize for RunRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for column in COLUMNS {
            if let Some(key) = column.key {
                map.serialize_entry(key, &column.value(self.0))?;
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
    let about = match column.key {
        Some(key) if key != column.name => {
            format!("{}. In queries: `{}`.", column.about, column.name)
        }
        _ => format!("{}.", column.about),
    };
    schema.insert("description".to_owned(), about.into());
    schema
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Value::Text(text) => serializer.serialize_str(text),
            Value::List(texts) => texts.serialize(serializer),
            Value::Count(number) => serializer.serialize_i64(number),
            Value::Score(number) | Value::Millis(number) => serializer.serialize_f64(number),
            Value::Usd(cost) => serializer.serialize_f64(cost.usd()),
            Value::Time(micros) => utc(micros).serialize(serializer),
            Value::Flag(flag) => serializer.serialize_bool(flag),
        }
    }
}
