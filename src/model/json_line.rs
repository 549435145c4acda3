//! Embeds a trace line in a JSON document, unchanged if the line is valid JSON.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::repair::{has_half_pair, repair};

/// A line or a manifest as a JSON value.
#[derive(Debug, Clone)]
pub(crate) enum Line<'a> {
    /// The line, byte for byte.
    Written(&'a RawValue),
    /// A copy with bare `NaN`, invalid UTF-8 and similar errors turned into valid JSON.
    Repaired(Box<RawValue>),
    /// Text that isn't JSON, as a string. Bytes that aren't UTF-8 become U+FFFD.
    Text(Cow<'a, str>),
}

impl<'a> Line<'a> {
    /// Converts a line without its line end.
    pub(crate) fn of(line: &'a [u8]) -> Self {
        let written = std::str::from_utf8(line)
            .ok()
            .and_then(|text| serde_json::from_str::<&RawValue>(text).ok());
        // serde_json accepts half a surrogate pair here, but a strict reader would reject the whole
        // document.
        if let Some(written) = written.filter(|raw| !has_half_pair(raw.get())) {
            return Line::Written(written);
        }
        match RawValue::from_string(repair(line).0) {
            Ok(repaired) => Line::Repaired(repaired),
            Err(_) => Line::Text(String::from_utf8_lossy(line)),
        }
    }

    /// Whether it differs from the line as written.
    pub(crate) fn is_changed(&self) -> bool {
        !matches!(self, Line::Written(_))
    }
}

impl JsonSchema for Line<'_> {
    fn schema_name() -> Cow<'static, str> {
        "Any".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!(true)
    }
}

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Line::Written(raw) => raw.serialize(serializer),
            Line::Repaired(raw) => raw.serialize(serializer),
            Line::Text(text) => text.serialize(serializer),
        }
    }
}

/// Serializes JSON text as a value, or null if there is no text.
pub(crate) fn embed<S: Serializer>(
    text: &Option<String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match text {
        Some(text) => Line::of(text.as_bytes()).serialize(serializer),
        None => serializer.serialize_none(),
    }
}
