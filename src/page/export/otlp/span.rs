//! Builds spans in OTLP JSON: hexadecimal ids, times and integers as strings, and typed values.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The ids of a run's spans. They're the same for the same run, regardless of who exports it and
/// when.
pub(super) struct Ids {
    trace: String,
}

/// The times of a step, in microseconds since the epoch.
pub(super) struct Time {
    pub(super) began: i64,
    /// When the step's decision was made.
    pub(super) decided: i64,
    /// When its tools started.
    pub(super) acted: i64,
    pub(super) ended: i64,
    /// Whether the start isn't the recorded one.
    pub(super) is_inferred: bool,
}

/// A span being built.
pub(super) struct Span {
    json: serde_json::Map<String, Value>,
    attributes: Vec<Value>,
    events: Vec<Value>,
}

impl Ids {
    /// Derives the ids of the run with this name and start time.
    pub(super) fn of(name: &str, began: i64) -> Self {
        Self {
            trace: digits::<16>(&format!("{name}\n{began}")),
        }
    }

    /// Returns the id of the trace.
    pub(super) fn trace(&self) -> &str {
        &self.trace
    }

    fn span(&self, of: &str) -> String {
        digits::<8>(&format!("{}\n{of}", self.trace))
    }

    pub(super) fn root(&self) -> String {
        self.span("run")
    }

    pub(super) fn step(&self, n: usize) -> String {
        self.span(&format!("step {n}"))
    }

    pub(super) fn tool(&self, n: usize, place: usize) -> String {
        self.span(&format!("step {n} tool {place}"))
    }

    /// Returns the id of a call. Recorded ids may repeat, so they aren't used.
    pub(super) fn call(&self, n: usize, place: usize) -> String {
        format!("call_{n}_{place}")
    }
}

/// Returns the first `N` bytes of a hash in hexadecimal. Practically never all zeros, which would
/// be an invalid id.
fn digits<const N: usize>(text: &str) -> String {
    Sha256::digest(text.as_bytes())
        .iter()
        .take(N)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

impl Span {
    pub(super) fn new(
        id: String,
        parent: Option<String>,
        name: &str,
        began: i64,
        ended: i64,
    ) -> Self {
        let mut json = serde_json::Map::new();
        json.insert("spanId".to_owned(), id.into());
        if let Some(parent) = parent {
            json.insert("parentSpanId".to_owned(), parent.into());
        }
        json.insert("name".to_owned(), name.into());
        // SPAN_KIND_INTERNAL: board saw no outgoing request.
        json.insert("kind".to_owned(), 1.into());
        json.insert("startTimeUnixNano".to_owned(), nanos(began).into());
        json.insert("endTimeUnixNano".to_owned(), nanos(ended).into());
        Self {
            json,
            attributes: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Sets the id of the trace.
    pub(super) fn ids(&mut self, ids: &Ids) {
        self.json.insert("traceId".to_owned(), ids.trace().into());
    }

    pub(super) fn attribute(&mut self, attribute: Value) {
        self.attributes.push(attribute);
    }

    pub(super) fn says_all(&mut self, attributes: impl IntoIterator<Item = Option<Value>>) {
        self.attributes.extend(attributes.into_iter().flatten());
    }

    /// Marks the span as failed, with a message.
    pub(super) fn fails(&mut self, kind: &str, words: &str) {
        self.attribute(text("error.type", kind));
        self.json
            .insert("status".to_owned(), json!({"code": 2, "message": words}));
    }

    /// Adds an evaluation event.
    pub(super) fn judged(&mut self, at: i64, attribute: impl IntoIterator<Item = Option<Value>>) {
        let attributes: Vec<Value> = attribute.into_iter().flatten().collect();
        let event = json!({"name": "gen_ai.evaluation.result", "timeUnixNano": nanos(at), "attributes": attributes});
        self.events.push(event);
    }

    pub(super) fn json(mut self) -> String {
        self.json
            .insert("attributes".to_owned(), self.attributes.into());
        if !self.events.is_empty() {
            self.json.insert("events".to_owned(), self.events.into());
        }
        Value::Object(self.json).to_string()
    }
}

/// Formats a time in nanoseconds. Times before the epoch become 0.
fn nanos(micros: i64) -> String {
    (i128::from(micros.max(0)) * 1_000).to_string()
}

pub(super) fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// Returns `None` for a number that doesn't fit into 63 bits.
pub(super) fn whole(key: &str, value: u64) -> Option<Value> {
    let value = i64::try_from(value).ok()?;
    Some(json!({"key": key, "value": {"intValue": value.to_string()}}))
}

/// Returns `None` for a number that JSON can't represent.
pub(super) fn number(key: &str, value: f64) -> Option<Value> {
    value
        .is_finite()
        .then(|| json!({"key": key, "value": {"doubleValue": value}}))
}

pub(super) fn flag(key: &str, value: bool) -> Value {
    json!({"key": key, "value": {"boolValue": value}})
}
