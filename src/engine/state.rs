//! Defines the state that an agent carries from step to step: the fields that every run has, and
//! the agent's own data.
//!
//! The trace has the complete state once, then only differences of its top-level fields. For this
//! reason, each field is kept as JSON text, and equal text means no change.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::back;
use crate::model::json::walk;
use crate::model::repair::without_place;
use crate::model::strict::{NonFinite, NotJson, write_json};
use crate::model::{Code, Source, StopReason};
use crate::stop::text_hash;

/// The key of the metadata that holds judgments on success criteria.
const CRITERIA: &str = "criteria";
/// The version of the built-in fields.
const SCHEMA_VERSION: u32 = 1;

/// The state of a run: the built-in fields, and the agent's own data `D`.
///
/// `D` is a struct or map whose field names differ from the built-in ones, or `()` if the agent
/// needs no data.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct State<D> {
    /// The version of the built-in fields: 1.
    pub schema_version: u32,
    /// The task in words. The engine sets it before the first step.
    pub task: String,
    /// Number of completed steps.
    pub current_step: u64,
    /// The agent's own step limit, which the engine reads when the run starts. The lower of it and
    /// the budget counts. `None` if only the budget limits the steps.
    pub max_steps: Option<u64>,
    /// The final answer, once there is one.
    pub final_result: Option<String>,
    /// Why the run stopped. An agent sets it to request the end.
    pub stop_reason: Option<String>,
    /// Additional data.
    pub metadata: Map<String, Value>,
    /// Metrics. Changes to them don't count for the stagnation rule.
    pub metrics: Map<String, Value>,
    /// The agent's own data.
    #[serde(flatten)]
    pub data: D,
}

// Implemented by hand: the built-in fields are read one by one, and the agent's data from its own
// text. serde's `flatten` loses numeric map keys and numbers above 64 bits.
impl<'de, D: DeserializeOwned> Deserialize<'de> for State<D> {
    fn deserialize<T: Deserializer<'de>>(deserializer: T) -> Result<Self, T::Error> {
        let fields = BTreeMap::<String, Box<RawValue>>::deserialize(deserializer)?;
        Self::read(fields.iter().map(|(key, text)| (key.as_str(), text.get())))
            .map_err(serde::de::Error::custom)
    }
}

impl<D: DeserializeOwned> State<D> {
    /// Reads a state from its fields, each with its JSON text.
    pub(super) fn read<'a>(
        fields: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, StateError> {
        let (mut built_in, mut data) = (BTreeMap::new(), String::from("{"));
        for (key, text) in fields {
            if BUILT_IN.contains(&key) {
                built_in.insert(key, text);
                continue;
            }
            if data.len() > 1 {
                data.push(',');
            }
            data.push_str(&format!("{}:{text}", Value::from(key)));
        }
        data.push('}');
        fn of<T: DeserializeOwned>(
            built_in: &BTreeMap<&str, &str>,
            key: &str,
        ) -> Result<T, StateError> {
            // Only fields that may be null may be missing.
            let text = built_in.get(key).copied().unwrap_or("null");
            serde_json::from_str(text)
                .map_err(|wrong| StateError(format!("state.{key}: {}", without_place(&wrong))))
        }
        let of_data =
            |wrong: serde_json::Error| StateError(format!("{OF_DATA}{}", without_place(&wrong)));
        let read = match (back::from_text(&data), &*data) {
            // An agent without data uses `()`, which is null in JSON.
            (Err(wrong), "{}") => back::from_text("null").map_err(|_| wrong),
            (read, _) => read,
        };
        Ok(Self {
            schema_version: of(&built_in, "schema_version")?,
            task: of(&built_in, "task")?,
            current_step: of(&built_in, "current_step")?,
            max_steps: of(&built_in, "max_steps")?,
            final_result: of(&built_in, "final_result")?,
            stop_reason: of(&built_in, "stop_reason")?,
            metadata: of::<Option<_>>(&built_in, "metadata")?.unwrap_or_default(),
            metrics: of::<Option<_>>(&built_in, "metrics")?.unwrap_or_default(),
            data: read.map_err(of_data)?,
        })
    }
}

/// How an error about the agent's own data begins.
pub(super) const OF_DATA: &str = "the agent's data: ";

/// Names of the built-in fields.
const BUILT_IN: [&str; 8] = [
    "schema_version",
    "task",
    "current_step",
    "max_steps",
    "final_result",
    "stop_reason",
    "metadata",
    "metrics",
];

/// Why a state is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateError(pub(super) String);

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StateError {}

impl From<NotJson> for StateError {
    fn from(wrong: NotJson) -> Self {
        Self(format!("the state can't be written as JSON: {wrong}"))
    }
}

impl<D> State<D> {
    /// Creates the state before the first step.
    pub fn new(task: impl Into<String>, data: D) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            task: task.into(),
            current_step: 0,
            max_steps: None,
            final_result: None,
            stop_reason: None,
            metadata: Map::new(),
            metrics: Map::new(),
            data,
        }
    }

    /// Returns the same state with other data.
    #[must_use]
    pub fn with<E>(self, data: E) -> State<E> {
        let State {
            schema_version,
            task,
            current_step,
            max_steps,
            final_result,
            stop_reason,
            metadata,
            metrics,
            ..
        } = self;
        State {
            schema_version,
            task,
            current_step,
            max_steps,
            final_result,
            stop_reason,
            metadata,
            metrics,
            data,
        }
    }

    /// Requests the end of the run. `reason` is a [`Code`], its name, or a stop reason of the trace
    /// format, also in the capitals of QitOS: `MAX_STEPS_REACHED` is `budget_steps`. The answer is
    /// kept for every reason. With `final` and `success`, it is judged like any other answer.
    ///
    /// # Errors
    /// Fails if the reason is unknown, or if it is `final` or `success` and there is no answer.
    pub fn set_stop(
        &mut self,
        reason: impl Into<Code>,
        final_result: Option<String>,
    ) -> Result<(), StateError> {
        let code = known_name(reason.into());
        let reason = match StopReason::parse(code.as_str()) {
            // The code of a rule is replaced with its stop reason.
            StopReason::Other if !matches!(code, Code::Custom(_)) => {
                code.stop_reason(&Source::Agent)
            }
            _ => code.as_str(),
        };
        let answer = final_result.as_deref().or(self.final_result.as_deref());
        check_stop(reason, answer)?;
        self.stop_reason = Some(reason.to_owned());
        if final_result.is_some() {
            self.final_result = final_result;
        }
        Ok(())
    }

    /// Records whether a success criterion of the task holds, with the evidence. It is stored in
    /// the state's metadata under `criteria`, and becomes part of the task's result.
    pub fn set_criterion(
        &mut self,
        criterion: impl Into<String>,
        passed: bool,
        evidence: impl Into<String>,
    ) {
        let criteria = self
            .metadata
            .entry(CRITERIA)
            .or_insert_with(|| Map::new().into());
        if !criteria.is_object() {
            *criteria = Map::new().into();
        }
        if let Some(criteria) = criteria.as_object_mut() {
            let told = serde_json::json!({"passed": passed, "evidence": evidence.into()});
            criteria.insert(criterion.into(), told);
        }
    }

    /// Returns the judgment on a success criterion: whether it holds, and the evidence.
    pub(super) fn criterion(&self, criterion: &str) -> (Option<bool>, Option<String>) {
        let told = self
            .metadata
            .get(CRITERIA)
            .and_then(|criteria| criteria.get(criterion));
        let passed = told
            .and_then(|told| told.get("passed"))
            .and_then(Value::as_bool);
        let evidence = told
            .and_then(|told| told.get("evidence"))
            .and_then(Value::as_str);
        (
            passed,
            evidence
                .filter(|words| !words.is_empty())
                .map(str::to_owned),
        )
    }

    /// Checks that the built-in fields are consistent.
    ///
    /// # Errors
    /// Describes the first inconsistent field.
    pub fn validate(&self) -> Result<(), StateError> {
        let wrong = |what: String| Err(StateError(what));
        if self.schema_version != SCHEMA_VERSION {
            return wrong(format!(
                "state.schema_version is {}, not {SCHEMA_VERSION}",
                self.schema_version
            ));
        }
        match self.max_steps {
            Some(0) => {
                return wrong("state.max_steps is 0; omit it to use the budget".to_owned());
            }
            Some(max) if self.current_step > max => {
                return wrong(format!(
                    "state.current_step {} is above state.max_steps {max}",
                    self.current_step
                ));
            }
            _ => {}
        }
        match &self.stop_reason {
            Some(reason) => check_stop(reason, self.final_result.as_deref()),
            None => Ok(()),
        }
    }
}

/// Returns the code for the name of a QitOS `StopReason`, such as `ENV_TERMINAL`. Returns any other
/// code unchanged.
fn known_name(code: Code) -> Code {
    let Code::Custom(name) = &code else {
        return code;
    };
    let lower = name.to_ascii_lowercase();
    match &*lower {
        "max_steps_reached" => Code::BudgetSteps,
        lower if StopReason::parse(lower) != StopReason::Other => Code::from(lower),
        _ => code,
    }
}

fn check_stop(reason: &str, answer: Option<&str>) -> Result<(), StateError> {
    match StopReason::parse(reason) {
        StopReason::Other => Err(StateError(format!(
            "state.stop_reason {reason:?} is not a stop reason"
        ))),
        StopReason::Final | StopReason::Success if answer.is_none_or(|it| it.trim().is_empty()) => {
            Err(StateError(format!(
                "state.stop_reason {reason} needs a final_result"
            )))
        }
        _ => Ok(()),
    }
}

/// The state at one moment, as the text of a JSON object. Each step takes one, so it has a single
/// allocation.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot(String);

/// A state of this many bytes is serialized without growing the buffer.
const TYPICAL_BYTES: usize = 1 << 9;

impl Snapshot {
    /// Takes a snapshot of the state. Numbers that JSON doesn't support become text.
    pub(super) fn of<D: Serialize>(state: &State<D>) -> Result<Self, StateError> {
        let mut text = Vec::with_capacity(TYPICAL_BYTES);
        let written = write_json(state, NonFinite::AsText, &mut text);
        let text = written.and_then(|()| {
            let text = String::from_utf8(text).ok();
            text.filter(|text| text.starts_with('{'))
                .ok_or_else(|| NotJson {
                    path: String::new(),
                    what: "has no fields".to_owned(),
                })
        });
        let text = text.map_err(|wrong| {
            // All built-in fields have a path.
            if wrong.path.is_empty() {
                wrong.inside("the agent's data")
            } else {
                wrong
            }
        })?;
        Ok(Self(text))
    }

    /// Iterates over the names of the fields, as JSON, and their values.
    fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        walk::members(&self.0)
    }

    /// Checks that all field names are unique. A field of the agent's data with the name of a
    /// built-in one would hide it.
    pub(super) fn check_names(&self) -> Result<(), StateError> {
        for name in BUILT_IN {
            let is_it = |(key, _): &(&str, &str)| walk::is_word(key, name);
            if self.fields().filter(is_it).count() > 1 {
                return Err(StateError(format!(
                    "the agent's data has a field {name:?}, which every state has"
                )));
            }
        }
        Ok(())
    }

    /// Returns a hash of the state without its step counter and metrics.
    pub(super) fn signature(&self) -> u64 {
        let counted = |key: &str| !matches!(key, "current_step" | "metrics");
        let fields = self.fields().map(|(key, text)| (name(key), text));
        let counted = fields.filter(|(key, _)| counted(key));
        counted.fold(0, |hash, (key, text)| {
            hash.rotate_left(5) ^ text_hash(&key) ^ text_hash(text).rotate_left(17)
        })
    }

    /// Replaces this snapshot with `next` and returns the changes.
    pub(super) fn advance(&mut self, next: Snapshot) -> StateDiff {
        let before = std::mem::replace(self, next);
        let mut old: Vec<_> = before.fields().collect();
        let new: Vec<_> = self.fields().collect();
        let same_shape = old.len() == new.len() && old.iter().zip(&new).all(|(a, b)| a.0 == b.0);
        if same_shape {
            let both = old
                .iter()
                .zip(&new)
                .filter(|(before, after)| before.1 != after.1);
            let changes = both.map(|((key, before), (_, after))| Change::of(key, before, after));
            return StateDiff(changes.collect());
        }
        // A missing field is recorded as null, as in QitOS.
        let mut changes = Vec::new();
        for (key, after) in new {
            match old.iter().position(|(name, _)| *name == key) {
                Some(at) => {
                    let (_, before) = old.swap_remove(at);
                    if before != after {
                        changes.push(Change::of(key, before, after));
                    }
                }
                None => changes.push(Change::of(key, "null", after)),
            }
        }
        let gone = old
            .into_iter()
            .map(|(key, before)| Change::of(key, before, "null"));
        changes.extend(gone);
        StateDiff(changes)
    }

    /// Returns a field's JSON text.
    pub(super) fn get(&self, field: &str) -> Option<&str> {
        self.fields()
            .find(|(key, _)| walk::is_word(key, field))
            .map(|(_, text)| text)
    }

    /// Sets a field. Returns false if there is no such field.
    pub(super) fn set(&mut self, field: &str, value: &Value) -> bool {
        let (mut text, mut is_set) = (String::from("{"), false);
        for (at, (key, before)) in self.fields().enumerate() {
            let is_it = !is_set && walk::is_word(key, field);
            is_set |= is_it;
            let comma = if at == 0 { "" } else { "," };
            text.extend([comma, key, ":"]);
            match is_it {
                true => text.push_str(&value.to_string()),
                false => text.push_str(before),
            }
        }
        text.push('}');
        self.0 = text;
        is_set
    }

    /// Restores the state from which the snapshot was taken, as far as it can be serialized.
    pub(super) fn state<D: DeserializeOwned>(&self) -> Result<State<D>, StateError> {
        let fields: Vec<_> = self.fields().map(|(key, text)| (name(key), text)).collect();
        State::read(fields.iter().map(|(key, text)| (&**key, *text)))
    }
}

/// Returns the name of a field.
fn name(key: &str) -> Cow<'_, str> {
    walk::string(key).unwrap_or_default()
}

/// Returns the value with this JSON text.
fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap_or_else(|_| Box::<RawValue>::default())
}

impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.fields().map(|(key, text)| (name(key), raw(text))))
    }
}

/// The changes of a step: top-level fields, each with its value before and after.
#[derive(Debug, Clone, Default)]
pub struct StateDiff(Vec<Change>);

#[derive(Debug, Clone)]
struct Change {
    key: String,
    before: Box<RawValue>,
    after: Box<RawValue>,
}

impl Change {
    /// Returns the change of the field with this name, which is JSON, as are the values.
    fn of(key: &str, before: &str, after: &str) -> Self {
        Self {
            key: name(key).into_owned(),
            before: raw(before),
            after: raw(after),
        }
    }
}

static NOTHING: StateDiff = StateDiff(Vec::new());

impl StateDiff {
    /// Returns an empty diff.
    pub(super) fn nothing() -> &'static Self {
        &NOTHING
    }

    /// Returns the names of the changed fields.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|change| change.key.as_str())
    }

    /// Returns a field's JSON text before and after.
    pub fn get(&self, key: &str) -> Option<(&str, &str)> {
        let change = self.0.iter().find(|change| change.key == key)?;
        Some((change.before.get(), change.after.get()))
    }
}

impl Serialize for StateDiff {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Pair<'a> {
            before: &'a RawValue,
            after: &'a RawValue,
        }
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for change in &self.0 {
            map.serialize_entry(
                &change.key,
                &Pair {
                    before: &change.before,
                    after: &change.after,
                },
            )?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    type Data = BTreeMap<String, Value>;

    fn snapshot(data: &Data) -> Snapshot {
        Snapshot::of(&State::new("t", data.clone())).unwrap()
    }

    fn own(snapshot: &Snapshot) -> Vec<(String, String)> {
        let fields = snapshot.fields().skip(BUILT_IN.len());
        fields
            .map(|(key, text)| (name(key).into_owned(), text.to_owned()))
            .collect()
    }

    #[test]
    fn the_fields_come_in_the_order_of_the_struct() {
        #[derive(Serialize)]
        struct Own {
            raw: Box<RawValue>,
            number: f64,
        }
        let raw = RawValue::from_string("[1,  2]".to_owned()).unwrap();
        let number = f64::NAN;
        let state = State::new("t", Own { raw, number });
        let all = Snapshot::of(&state).unwrap();
        let keys: Vec<_> = all.fields().map(|(key, _)| name(key)).collect();
        assert_eq!(
            keys.get(..BUILT_IN.len()),
            Some(&BUILT_IN.map(Cow::from)[..])
        );
        let wanted = [("raw", "[1,  2]"), ("number", "\"NaN\"")];
        assert_eq!(
            own(&all),
            wanted.map(|(key, text)| (key.to_owned(), text.to_owned()))
        );
    }

    #[test]
    fn a_field_is_replaced_where_it_is() {
        let data = Data::from([
            ("a\"".to_owned(), json!(1)),
            ("b".to_owned(), json!({"c": 2})),
        ]);
        let mut all = snapshot(&data);
        assert!(all.set("a\"", &json!([true])));
        assert_eq!(
            (all.get("a\""), all.get("b")),
            (Some("[true]"), Some("{\"c\":2}"))
        );
        assert_eq!(all.get("task"), Some("\"t\""));
        assert!(!all.set("c", &json!(0)));
        assert_eq!(own(&all).len(), 2);
    }

    fn data() -> impl Strategy<Value = Data> {
        let value = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            any::<[bool; 2]>().prop_map(|list| json!({"list": list})),
        ];
        // Built-in fields have lower-case names.
        prop::collection::btree_map("[A-C\"\\\\é]{1,2}", value, 0..6)
    }

    proptest! {
        #[test]
        fn a_snapshot_has_all_fields_and_their_changes(before in data(), after in data()) {
            let (mut old, new) = (snapshot(&before), snapshot(&after));
            let wanted: Vec<_> = before.iter().map(|(key, value)| (key.clone(), value.to_string())).collect();
            prop_assert_eq!(own(&old), wanted);
            let diff = old.advance(new);
            let keys: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
            for key in keys {
                let text = |data: &Data| data.get(key).unwrap_or(&Value::Null).to_string();
                let (from, to) = (text(&before), text(&after));
                // A field that is null and one that is missing differ in nothing that is recorded.
                let changed = diff.get(key).map(|(from, to)| (from.to_owned(), to.to_owned()));
                let is_listed = before.get(key) != after.get(key) && (from != to || changed.is_some());
                prop_assert_eq!(changed, is_listed.then_some((from, to)));
            }
            let restored: State<Data> = old.state().unwrap();
            prop_assert_eq!(restored.data, after);
        }
    }
}
