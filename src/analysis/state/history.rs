//! Traces how a value of the state came to be: the steps that changed it, with the values before
//! and after.

use schemars::JsonSchema;
use serde::Serialize;

use super::read::{changes_of, equal, sides};
use super::{run_range, state_at};
use crate::model::json::Json;
use crate::model::json_line::{Line, embed};
use crate::model::{Index, Lines};

/// The path of a value: a key of the state and the path below it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KeyPath {
    /// The key of the state.
    #[schemars(description = "")]
    pub key: String,
    /// The path from the key to the value.
    #[serde(rename = "path")]
    pub below: Vec<String>,
}

/// A step's change of the value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Change")]
pub struct KeyChange {
    #[serde(rename = "n")]
    pub(crate) step: usize,
    // Values are JSON text; `None` if there was none.
    #[serde(serialize_with = "embed")]
    #[schemars(with = "Line<'_>")]
    pub(crate) before: Option<String>,
    #[serde(serialize_with = "embed")]
    #[schemars(with = "Line<'_>")]
    pub(crate) after: Option<String>,
}

/// The history of one value.
// Up to a step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct History {
    #[serde(flatten)]
    pub(crate) path: KeyPath,
    pub(crate) changes: Vec<KeyChange>,
    // The value after the step as JSON text; `None` if it's unknown or missing.
    #[serde(serialize_with = "embed")]
    #[schemars(with = "Line<'_>")]
    pub(crate) value: Option<String>,
}

/// Returns the history of the value at path `text`, from the first step of the same run to step
/// `n`.
///
/// # Errors
/// If the state never had such a key, returns the keys that it has after the step.
pub fn history(
    index: &Index,
    lines: &dyn Lines,
    n: usize,
    text: &str,
) -> Result<History, Vec<String>> {
    let state = state_at(index, lines, n).unwrap_or_default();
    let path = path_of(text, |key| state.get(key).is_some());
    let run_range = run_range(index, n);
    let steps = changes_of(index, lines, &path.key, run_range.clone());
    if state.get(&path.key).is_none() && steps.is_empty() {
        return Err(state.keys.into_iter().map(|known| known.key).collect());
    }
    let until = steps.into_iter().filter(|step| *step <= n);
    let changes = until
        .filter_map(|step| change_of(index, lines, &path, step))
        .collect();
    let value = state
        .get(&path.key)
        .and_then(|known| path.find(known.value.as_deref()?));
    Ok(History {
        path,
        changes,
        value,
    })
}

/// Parses the path of a value: a literal key of the state if `known` accepts it, a JSON pointer
/// (`/plan/0/status`), or names and indices joined by dots and brackets (`plan[0].status`).
pub fn path_of(text: &str, known: impl Fn(&str) -> bool) -> KeyPath {
    if known(text) {
        return KeyPath {
            key: text.to_owned(),
            below: Vec::new(),
        };
    }
    let mut parts: Vec<String> = match text.strip_prefix('/') {
        Some(pointer) => pointer
            .split('/')
            .map(|part| part.replace("~1", "/").replace("~0", "~"))
            .collect(),
        None => text
            .split(['.', '[', ']'])
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect(),
    };
    if parts.is_empty() {
        return KeyPath {
            key: text.to_owned(),
            below: Vec::new(),
        };
    }
    let key = parts.remove(0);
    KeyPath { key, below: parts }
}

impl KeyPath {
    /// Returns the value at this path within `text`, the JSON text of its key's value. `None` if
    /// the path doesn't exist.
    pub fn find(&self, text: &str) -> Option<String> {
        if self.below.is_empty() {
            return Some(text.to_owned());
        }
        let whole = Json::parse(text)?;
        self.below
            .iter()
            .try_fold(&whole, |value, name| member(value, name))
            .map(Json::to_string)
    }
}

fn member<'v, 'j>(value: &'v Json<'j>, name: &str) -> Option<&'v Json<'j>> {
    match value.as_array() {
        Some(items) => items.get(name.parse::<usize>().ok()?),
        None => value.get(name),
    }
}

/// Returns the change of the value by step `n`, or `None` if the step didn't change it or its line
/// can't be read.
pub fn change_of(index: &Index, lines: &dyn Lines, path: &KeyPath, n: usize) -> Option<KeyChange> {
    let (before, after) = sides(lines, index.steps().get(n)?.span, &path.key)?;
    let (before, after) = (
        before.and_then(|value| path.find(&value)),
        after.and_then(|value| path.find(&value)),
    );
    let same = match (&before, &after) {
        (Some(before), Some(after)) => equal(before, after),
        (before, after) => before.is_none() && after.is_none(),
    };
    // If a key changed, a value below it may still be the same.
    (!same || path.below.is_empty()).then_some(KeyChange {
        step: n,
        before,
        after,
    })
}
