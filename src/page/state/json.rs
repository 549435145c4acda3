//! What was the state after a step? Values as recorded, and what of them is not certain.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

use crate::analysis::state::{self, Base, KeyAt, KeyChange, StateAt, outside, state_at};
use crate::model::{Index, Lines};
use crate::page::step::json_line::Line;

/// At most this many keys are named where one is asked for that the state does not have.
const MAX_NAMED: usize = 20;

/// The text of a JSON value as that value; `null` where there is none.
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

/// The recorded values by key, in the order of the files.
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
    /// By which step each key was written last.
    last_changed: BTreeMap<String, usize>,
    /// Which step last observed a key with another value than the steps before it left, where none wrote it since.
    last_outside: BTreeMap<String, usize>,
    /// How often each key was written until then.
    changes: BTreeMap<String, usize>,
    /// The keys whose value is not certain.
    unknown: Vec<String>,
    /// Why not.
    doubts: BTreeMap<String, &'static str>,
    /// Where the whole state stands that this begins with: `none`, `init`, `observation` or `event`.
    base: &'static str,
    /// What changed before this step without a step having done it.
    outside: Vec<Outside>,
}

/// A key that changed without a step having done it.
#[derive(Debug, Serialize, JsonSchema)]
struct Outside {
    key: String,
    before: Value,
    after: Value,
}

/// The state after step `n`; `None` where there is no such step.
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

/// How one value came to be.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct History {
    key: String,
    /// The members that lead to the value below the key.
    path: Vec<String>,
    changes: Vec<Change>,
    value: Value,
}

/// What a step made of it.
#[derive(Debug, Serialize, JsonSchema)]
struct Change {
    n: usize,
    before: Value,
    after: Value,
}

/// How one value came to be.
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

/// The keys that a state has, in words.
pub(crate) fn its_keys(keys: &[String]) -> String {
    let named: Vec<&str> = keys.iter().take(MAX_NAMED).map(String::as_str).collect();
    match keys.len() - named.len() {
        _ if named.is_empty() => "it has no keys".to_owned(),
        0 => format!("its keys are {}", named.join(", ")),
        more => format!("its keys are {} and {more} more", named.join(", ")),
    }
}
