//! What was the state after a step? Values as recorded, and what of them is not certain.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::analysis::state::{Base, KeyAt, StateAt, outside, state_at};
use crate::model::{Index, Lines};
use crate::page::json::object;
use crate::page::step::json_line::Line;

/// The text of a JSON value as that value; `null` where there is none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Value(pub(crate) Option<String>);

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(text) => Line::of(text.as_bytes()).serialize(serializer),
            None => serializer.serialize_none(),
        }
    }
}

/// The recorded values by key, in the order of the files.
struct Values(Vec<(String, Value)>);

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// The state after step `n`; `None` where there is no such step.
///
/// `changed` are the keys that this step wrote, `last_changed` and `changes` by which step and how often each was written
/// until then; `base` is where the whole state stands that this begins with, and `outside` what changed before this step
/// without a step having done it.
pub(crate) fn state(index: &Index, lines: &dyn Lines, n: usize) -> Option<impl Serialize> {
    let StateAt { keys, base, .. } = state_at(index, lines, n)?;
    fn by_key<V>(keys: &[KeyAt], value: impl Fn(&KeyAt) -> Option<V>) -> BTreeMap<String, V> {
        keys.iter().filter_map(|known| Some((known.key.clone(), value(known)?))).collect()
    }
    let names = |holds: &dyn Fn(&KeyAt) -> bool| {
        let names = keys.iter().filter(|known| holds(known)).map(|known| known.key.clone());
        names.collect::<Vec<_>>()
    };
    let outside = outside(index, lines, n).into_iter();
    Some(object!({
        n: n,
        state: Values(keys.iter().filter_map(|known| Some((known.key.clone(), Value(Some(known.value.clone()?))))).collect()),
        changed: names(&|known| known.written == Some(n)),
        last_changed: by_key(&keys, |known| known.written),
        changes: by_key(&keys, |known| known.written.map(|_| known.changes)),
        unknown: names(&|known| !known.doubt.is_empty()),
        doubts: by_key(&keys, |known| Some(known.doubt).filter(|doubt| !doubt.is_empty())),
        base: match base {
            Base::Nowhere => "none",
            Base::Init(_) => "init",
            Base::Observed(_) => "observation",
            Base::Found { .. } => "event",
        },
        outside: outside
            .map(|found| object!({ key: found.key, before: Value(found.before), after: Value(found.after) }))
            .collect::<Vec<_>>(),
    }))
}
