//! Represents a JSON value as written: number spelling, key order and repeated keys survive.
//!
//! `serde_json::Value` rounds long integers, keeps only the last of two equal keys, and rejects
//! what it can't represent. A viewer must show the data exactly, so numbers stay text here.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

mod same;
mod scan;
mod text;
pub(crate) mod walk;

pub(crate) use same::members;
pub use same::same;
pub(crate) use same::{hash, hash_of_text};
pub(crate) use text::{Text, quoted};

/// Arrays and objects nested deeper than this stay raw text ([`Json::Deep`]), so that no input can
/// exhaust the stack.
pub const MAX_DEPTH: usize = 96;

/// Each nested value is read once more than the value around it. This bounds the bytes read for
/// nesting, in addition to a few times the text. Values nested in large ones beyond that stay raw
/// text too.
const NESTING_BYTES: usize = 4 << 20;

/// A JSON value that borrows from the line it was read from.
#[derive(Debug, Clone, PartialEq)]
pub enum Json<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, spelled as in the file.
    Number(&'a str),
    /// A string, with escapes resolved.
    String(Cow<'a, str>),
    /// An array.
    Array(Vec<Json<'a>>),
    /// An object in file order. A key may occur twice.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
    /// The raw text of a value that is nested deeper than [`MAX_DEPTH`], is nested deep in a large
    /// one, or can't be decoded.
    Deep(&'a str),
}

impl<'a> Json<'a> {
    /// Returns whether [`Json::parse`] accepts a text, at a lower cost than parsing it.
    pub fn is_json(text: &str) -> bool {
        serde_json::from_str::<&RawValue>(text).is_ok()
    }

    /// Parses a JSON text. Returns `None` if it isn't JSON at all.
    pub fn parse(text: &'a str) -> Option<Self> {
        let raw: &'a RawValue = serde_json::from_str(text).ok()?;
        Some(Self::from_raw(raw))
    }

    /// Parses a value whose syntax was already checked.
    pub fn from_raw(raw: &'a RawValue) -> Self {
        Self::checked(raw.get())
    }

    /// Parses a part of a text whose syntax was already checked.
    pub(crate) fn checked(text: &'a str) -> Self {
        let mut budget = NESTING_BYTES.saturating_add(text.len().saturating_mul(8));
        Self::at_depth(text, 0, &mut budget)
    }

    fn at_depth(text: &'a str, depth: usize, budget: &mut usize) -> Self {
        let text = text.trim_ascii();
        let spent = budget.checked_sub(text.len());
        *budget = spent.unwrap_or_default();
        let parsed = match text.as_bytes().first() {
            Some(b'n') => Some(Json::Null),
            Some(b't') => Some(Json::Bool(true)),
            Some(b'f') => Some(Json::Bool(false)),
            Some(b'"') => walk::string(text).map(Json::String),
            Some(b'[' | b'{') if depth >= MAX_DEPTH || spent.is_none() => None,
            Some(b'[') => Some(Json::Array(
                walk::items(text)
                    .map(|item| Self::at_depth(item, depth + 1, budget))
                    .collect(),
            )),
            Some(b'{') => walk::members(text)
                .map(|(key, value)| {
                    Some((walk::string(key)?, Self::at_depth(value, depth + 1, budget)))
                })
                .collect::<Option<_>>()
                .map(Json::Object),
            Some(_) => Some(Json::Number(text)),
            None => None,
        };
        parsed.unwrap_or(Json::Deep(text))
    }

    /// Returns the value of `key` in an object. If the key repeats, the last one counts, as in
    /// Python.
    pub fn get(&self, key: &str) -> Option<&Json<'a>> {
        match self {
            Json::Object(members) => members
                .iter()
                .rev()
                .find(|(name, _)| name == key)
                .map(|(_, value)| value),
            _ => None,
        }
    }

    /// Returns the text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the value of a number, rounded to the nearest `f64`.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Json::Number(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// Returns the items of an array.
    pub fn as_array(&self) -> Option<&[Json<'a>]> {
        match self {
            Json::Array(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the members of an object, in file order.
    pub fn as_object(&self) -> Option<&[(Cow<'a, str>, Json<'a>)]> {
        match self {
            Json::Object(members) => Some(members),
            _ => None,
        }
    }

    /// Returns whether the value is empty: `null`, or an empty string, array or object.
    pub fn is_empty(&self) -> bool {
        match self {
            Json::Null => true,
            Json::String(text) => text.is_empty(),
            Json::Array(items) => items.is_empty(),
            Json::Object(members) => members.is_empty(),
            _ => false,
        }
    }
}

/// Writes compact JSON.
impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(value) => write!(f, "{value}"),
            Json::Number(text) | Json::Deep(text) => f.write_str(text),
            Json::String(text) => quote(text, f),
            Json::Array(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Json::Object(members) => {
                f.write_str("{")?;
                for (index, (key, value)) in members.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { ", " })?;
                    quote(key, f)?;
                    write!(f, ": {value}")?;
                }
                f.write_str("}")
            }
        }
    }
}

fn quote(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(&quoted(text))
}

/// The members of an object in file order, with unparsed values.
#[derive(Debug)]
pub(crate) struct Members<'a>(pub(crate) Vec<(Text<'a>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keys_and_order_survive() {
        let text = r#"{"b": 1.10, "a": 12345678901234567890123, "b": [1, "x\ny"], "n": null}"#;
        let json = Json::parse(text).unwrap();
        assert_eq!(json.to_string(), text);
        assert_eq!(json.get("b").unwrap().as_array().unwrap().len(), 2);
    }

    #[test]
    fn deep_nesting_stays_text() {
        let text = format!("{}1{}", "[".repeat(500), "]".repeat(500));
        let json = Json::parse(&text).unwrap();
        assert_eq!(json.to_string(), text);
    }

    #[test]
    fn a_large_value_is_not_read_once_for_each_level() {
        let text = format!(
            "{}{}{}",
            "[".repeat(90),
            "1, ".repeat(300_000) + "1",
            "]".repeat(90)
        );
        let mut json = &Json::parse(&text).unwrap();
        let mut depth = 0;
        while let Json::Array(items) = json {
            (json, depth) = (&items[0], depth + 1);
        }
        assert!(
            matches!(json, Json::Deep(raw) if raw.len() > 900_000) && depth > 8 && depth < 40,
            "{depth}"
        );
    }

    #[test]
    fn a_lone_surrogate_costs_only_itself() {
        let json = Json::parse(r#"{"good": "x", "bad": "\ud83d"}"#).unwrap();
        assert_eq!(json.get("good").unwrap().as_str(), Some("x"));
        assert_eq!(json.get("bad"), Some(&Json::Deep(r#""\ud83d""#)));
    }
}
