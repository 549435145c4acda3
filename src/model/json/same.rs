//! When do two JSON values say the same? Equality and a hash that agrees with it.
//!
//! Spelling does not count: keys may stand in any order, of a repeated key the last one counts, as Python reads it, and
//! `1` and `1.0` are equal.

use std::hash::{Hash, Hasher};

use super::Json;

/// A number with at most this many characters has a value of its own in `f64`, which holds 15 decimal digits.
const EXACT: usize = 15;

/// Whether two values are equal. Keys may stand in any order; of a repeated key the last counts, as Python reads it;
/// `1` and `1.0` are equal, and longer numbers only when written alike.
pub fn same(a: &Json<'_>, b: &Json<'_>) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => a == b || value_of(a).is_some_and(|value| value_of(b) == Some(value)),
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Json::Object(_), Json::Object(_)) => {
            let (a, b) = (members(a), members(b));
            a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| a.0 == b.0 && same(a.1, b.1))
        }
        _ => a == b,
    }
}

/// The bits of a short number's value; bits, so that `-0.0` is not `0.0`.
fn value_of(number: &str) -> Option<u64> {
    let value: f64 = if number.len() <= EXACT { number.parse().ok()? } else { return None };
    value.is_finite().then(|| value.to_bits())
}

/// The members of an object by key, without those that a later one of the same key replaces.
pub(crate) fn members<'a>(object: &'a Json<'a>) -> Vec<(&'a str, &'a Json<'a>)> {
    let members = object.as_object().unwrap_or_default();
    let mut members: Vec<_> = members.iter().rev().map(|(key, value)| (key.as_ref(), value)).collect();
    members.sort_by_key(|(key, _)| *key);
    members.dedup_by_key(|(key, _)| *key);
    members
}

/// Feeds what [`same`] looks at.
pub(crate) fn hash<H: Hasher>(value: &Json<'_>, state: &mut H) {
    std::mem::discriminant(value).hash(state);
    match value {
        Json::Null => {}
        Json::Bool(value) => value.hash(state),
        Json::Number(text) => match value_of(text) {
            Some(bits) => bits.hash(state),
            None => text.hash(state),
        },
        Json::String(text) => text.hash(state),
        Json::Deep(text) => text.hash(state),
        Json::Array(items) => {
            items.len().hash(state);
            items.iter().for_each(|item| hash(item, state));
        }
        Json::Object(_) => {
            for (key, value) in members(value) {
                key.hash(state);
                hash(value, state);
            }
        }
    }
}
