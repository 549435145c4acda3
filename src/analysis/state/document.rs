//! Defines the JSON document of the state after a step: the recorded values, and which of them are
//! uncertain.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::{KeyAt, Outside, StateAt, outside, state_at};
use crate::model::json_line::Line;
use crate::model::{Index, Lines};

/// Limits the keys listed in the error for a key that the state doesn't have.
const MAX_NAMED: usize = 20;

/// The recorded values by key, in file order.
#[derive(Debug)]
struct Values(Vec<(String, String)>);

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values = self.0.iter();
        serializer.collect_map(values.map(|(key, value)| (key, Line::of(value.as_bytes()))))
    }
}

/// The state after a step.
#[derive(Debug, Serialize, JsonSchema)]
pub struct State {
    n: usize,
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    state: Values,
    /// The keys that this step wrote.
    changed: Vec<String>,
    /// The step that last wrote each key.
    last_changed: BTreeMap<String, usize>,
    /// The last step that observed a key with a different value than the previous steps left, if no
    /// step has written it since.
    last_outside: BTreeMap<String, usize>,
    /// How often each key was written up to this step.
    changes: BTreeMap<String, usize>,
    /// The keys whose value is uncertain.
    unknown: Vec<String>,
    /// The reason for each uncertain key.
    doubts: BTreeMap<String, &'static str>,
    /// The source of the complete state that this state is based on: `none`, `init`, `observation`
    /// or `event`.
    base: &'static str,
    /// Changes before this step that no step made.
    outside: Vec<Outside>,
}

/// Returns the state after step `n`, or `None` if there is no such step.
pub fn document(index: &Index, lines: &dyn Lines, n: usize) -> Option<State> {
    let StateAt { keys, base, .. } = state_at(index, lines, n)?;
    fn by_key<V>(keys: &[KeyAt], value: impl Fn(&KeyAt) -> Option<V>) -> BTreeMap<String, V> {
        keys.iter()
            .filter_map(|known| Some((known.key.clone(), value(known)?)))
            .collect()
    }
    let names = |holds: &dyn Fn(&KeyAt) -> bool| {
        let names = keys
            .iter()
            .filter(|known| holds(known))
            .map(|known| known.key.clone());
        names.collect::<Vec<_>>()
    };
    Some(State {
        n,
        state: Values(
            keys.iter()
                .filter_map(|known| Some((known.key.clone(), known.value.clone()?)))
                .collect(),
        ),
        changed: names(&|known| known.written == Some(n)),
        last_changed: by_key(&keys, |known| known.written),
        last_outside: by_key(&keys, |known| known.outside),
        changes: by_key(&keys, |known| known.written.map(|_| known.changes)),
        unknown: names(&|known| !known.doubt.is_empty()),
        doubts: by_key(&keys, |known| {
            Some(known.doubt).filter(|doubt| !doubt.is_empty())
        }),
        base: base.as_str(),
        outside: outside(index, lines, n),
    })
}

/// Lists the keys of a state in words.
pub fn its_keys(keys: &[String]) -> String {
    let named: Vec<&str> = keys.iter().take(MAX_NAMED).map(String::as_str).collect();
    match keys.len() - named.len() {
        _ if named.is_empty() => "it has no keys".to_owned(),
        0 => format!("its keys are {}", named.join(", ")),
        more => format!("its keys are {} and {more} more", named.join(", ")),
    }
}
