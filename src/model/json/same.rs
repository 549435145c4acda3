//! Compares JSON values, and hashes them consistently with that comparison.
//!
//! Spelling doesn't count: the order of keys is free, the last of a repeated key counts, as in
//! Python, and `1` equals `1.0`.

use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::quality::FixedState;

use super::{Json, MAX_DEPTH, NESTING_BYTES, walk};

/// Numbers of at most this many characters have distinct values in `f64`, which represents 15
/// decimal digits.
const EXACT: usize = 15;

/// Returns whether two values are equal. The order of keys is free, and the last of a repeated key
/// counts, as in Python. `1` equals `1.0`, but longer numbers are only equal if spelled the same.
pub fn same(a: &Json<'_>, b: &Json<'_>) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => {
            a == b || value_of(a).is_some_and(|value| value_of(b) == Some(value))
        }
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Json::Object(_), Json::Object(_)) => {
            let (a, b) = (members(a), members(b));
            a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| a.0 == b.0 && same(a.1, b.1))
        }
        _ => a == b,
    }
}

/// Returns the bits of a short number's value. Bits distinguish `-0.0` from `0.0`.
fn value_of(number: &str) -> Option<u64> {
    let value: f64 = if number.len() <= EXACT {
        number.parse().ok()?
    } else {
        return None;
    };
    value.is_finite().then(|| value.to_bits())
}

/// Returns the members of an object sorted by key, without those that a later one of the same key
/// replaces.
pub(crate) fn members<'a>(object: &'a Json<'a>) -> Vec<(&'a str, &'a Json<'a>)> {
    let members = object.as_object().unwrap_or_default();
    let mut members: Vec<_> = members
        .iter()
        .rev()
        .map(|(key, value)| (key.as_ref(), value))
        .collect();
    members.sort_by_key(|(key, _)| *key);
    members.dedup_by_key(|(key, _)| *key);
    members
}

/// Hashes a value by its checked text, without the members of the outermost object that `left_out`
/// selects.
///
/// It reads the text in place. An output may be most of a line of many megabytes, which shouldn't
/// become a tree in memory just to be hashed.
pub(crate) fn hash_of_text(text: &str, left_out: impl Fn(&str) -> bool) -> u64 {
    let mut budget = NESTING_BYTES.saturating_add(text.len().saturating_mul(8));
    hash_at(text, 0, &mut budget, &|depth, key| {
        depth == 0 && left_out(key)
    })
}

fn hash_at(
    text: &str,
    depth: usize,
    budget: &mut usize,
    left_out: &dyn Fn(usize, &str) -> bool,
) -> u64 {
    let mut state = FixedState::default().build_hasher();
    let spent = budget.checked_sub(text.len());
    *budget = spent.unwrap_or_default();
    let is_deep = depth >= MAX_DEPTH || spent.is_none();
    match text.as_bytes().first() {
        Some(b'[') if !is_deep => {
            b'['.hash(&mut state);
            walk::items(text)
                .for_each(|item| hash_at(item, depth + 1, budget, left_out).hash(&mut state));
        }
        // A sum, so that the order of keys doesn't count. All values of a repeated key do.
        Some(b'{') if !is_deep => {
            let member = |(name, value): (&str, &str)| {
                let key = walk::string(name);
                if key.as_deref().is_some_and(|key| left_out(depth, key)) {
                    return 0;
                }
                let value = hash_at(value, depth + 1, budget, left_out);
                FixedState::default().hash_one((key.as_deref().unwrap_or(name), value))
            };
            b'{'.hash(&mut state);
            walk::members(text)
                .map(member)
                .fold(0_u64, u64::wrapping_add)
                .hash(&mut state);
        }
        Some(b'"') => match walk::string(text) {
            Some(string) => string.hash(&mut state),
            None => text.hash(&mut state),
        },
        Some(b'-' | b'0'..=b'9') if let Some(bits) = value_of(text) => bits.hash(&mut state),
        _ => text.hash(&mut state),
    }
    state.finish()
}

/// Feeds everything that [`same`] compares.
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
