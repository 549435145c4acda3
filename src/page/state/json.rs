//! What was the state after a step? Values as recorded, and what of them is not certain.

use std::collections::BTreeMap;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::analysis::state::{Base, StateAt, outside, state_at};
use crate::model::{Index, Lines};
use crate::page::step::json_line::Line;

/// The state after a step.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct State {
    /// The step's ordinal.
    pub n: usize,
    /// Every key whose value is recorded, in the order of the files.
    pub state: Values,
    /// The keys that this step changed.
    pub changed: Vec<String>,
    /// The last step that wrote each key; keys that no step wrote are left out.
    pub last_changed: BTreeMap<String, usize>,
    /// How many steps up to this one wrote each key.
    pub changes: BTreeMap<String, usize>,
    /// The keys whose value is not known for certain; `doubts` says why.
    pub unknown: Vec<String>,
    /// Why a value is not known, by key.
    pub doubts: BTreeMap<String, &'static str>,
    /// Where the whole state stands that this begins with: `init`, `observation`, `event` (the `state_ready` of the next step) or `none`.
    pub base: &'static str,
    /// What changed between the step before and this one without a step having done it.
    pub outside: Vec<Outside>,
}

/// A change that no step made.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Outside {
    /// The key.
    pub key: String,
    /// The value before.
    pub before: Value,
    /// The value as this step observed it.
    pub after: Value,
}

/// A JSON text as a JSON value; `null` where there is none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Value(Option<String>);

impl Value {
    /// Takes the text of a value.
    pub(crate) fn of(text: Option<&str>) -> Self {
        Self(text.map(str::to_owned))
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(text) => Line::of(text.as_bytes()).serialize(serializer),
            None => serializer.serialize_none(),
        }
    }
}

/// Values by key, in their order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Values(Vec<(String, Value)>);

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// The state after step `n`; `None` where there is no such step.
pub(crate) fn state(index: &Index, lines: &dyn Lines, n: usize) -> Option<State> {
    let state = state_at(index, lines, n)?;
    let outside = outside(index, lines, n).into_iter().map(|found| Outside {
        key: found.key,
        before: Value(found.before),
        after: Value(found.after),
    });
    Some(State { outside: outside.collect(), ..of(n, state) })
}

fn of(n: usize, state: StateAt) -> State {
    let base = match state.base {
        Base::Nowhere => "none",
        Base::Init(_) => "init",
        Base::Observed(_) => "observation",
        Base::Found { .. } => "event",
    };
    let mut shown = State {
        n,
        state: Values::default(),
        changed: Vec::new(),
        last_changed: BTreeMap::new(),
        changes: BTreeMap::new(),
        unknown: Vec::new(),
        doubts: BTreeMap::new(),
        base,
        outside: Vec::new(),
    };
    for known in state.keys {
        if let Some(step) = known.written {
            shown.last_changed.insert(known.key.clone(), step);
            shown.changes.insert(known.key.clone(), known.changes);
            if step == n {
                shown.changed.push(known.key.clone());
            }
        }
        if !known.doubt.is_empty() {
            shown.unknown.push(known.key.clone());
            shown.doubts.insert(known.key.clone(), known.doubt);
        }
        if let Some(value) = known.value {
            shown.state.0.push((known.key, Value(Some(value))));
        }
    }
    shown
}
