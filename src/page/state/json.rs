//! Defines the JSON document of the state after a step: the recorded values, and which of them are
//! uncertain.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

use crate::analysis::state::{self, Base, KeyAt, KeyChange, StateAt, outside, state_at};
use crate::model::{Index, Lines};
use crate::page::step::json_line::Line;

/// Limits the keys listed in the error for a key that the state doesn't have.
const MAX_NAMED: usize = 20;

/// A JSON value stored as text; null if there is none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Value(Option<String>);

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(text) => Line::of(text.as_bytes()).serialize(serializer),
            None => serializer.serialize_none(),
        }
    }
}

impl JsonSchema for Value {
    fn schema_name() -> Cow<'static, str> {
        Line::schema_name()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Line::json_schema(generator)
    }
}

/// The recorded values by key, in file order.
#[derive(Debug)]
struct Values(Vec<(String, Value)>);

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// The state after a step.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct State {
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

/// A key that changed although no step changed it.
#[derive(Debug, Serialize, JsonSchema)]
struct Outside {
    key: String,
    before: Value,
    after: Value,
}

/// Returns the state after step `n`, or `None` if there is no such step.
pub(crate) fn state(index: &Index, lines: &dyn Lines, n: usize) -> Option<State> {
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
    let outside = outside(index, lines, n).into_iter();
    Some(State {
        n,
        state: Values(
            keys.iter()
                .filter_map(|known| Some((known.key.clone(), Value(Some(known.value.clone()?)))))
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
        base: match base {
            Base::Nowhere => "none",
            Base::Init(_) => "init",
            Base::Observed(_) => "observation",
            Base::Found { .. } => "event",
        },
        outside: outside
            .map(|found| Outside {
                key: found.key,
                before: Value(found.before),
                after: Value(found.after),
            })
            .collect(),
    })
}

/// The history of one value.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct History {
    key: String,
    /// The path from the key to the value.
    path: Vec<String>,
    changes: Vec<Change>,
    value: Value,
}

/// A step's change of the value.
#[derive(Debug, Serialize, JsonSchema)]
struct Change {
    n: usize,
    before: Value,
    after: Value,
}

/// Builds the document of a value's history.
pub(crate) fn history(history: state::History) -> History {
    let state::History {
        path,
        changes,
        value,
    } = history;
    let changes = changes.into_iter();
    let changes = changes.map(
        |KeyChange {
             step,
             before,
             after,
         }| Change {
            n: step,
            before: Value(before),
            after: Value(after),
        },
    );
    History {
        key: path.key,
        path: path.below,
        changes: changes.collect(),
        value: Value(value),
    }
}

/// Lists the keys of a state in words.
pub(crate) fn its_keys(keys: &[String]) -> String {
    let named: Vec<&str> = keys.iter().take(MAX_NAMED).map(String::as_str).collect();
    match keys.len() - named.len() {
        _ if named.is_empty() => "it has no keys".to_owned(),
        0 => format!("its keys are {}", named.join(", ")),
        more => format!("its keys are {} and {more} more", named.join(", ")),
    }
}
