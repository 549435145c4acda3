//! Do two steps ask for the same, get the same and change the state alike? Hashes of the whole of it, where the index keeps only its
//! beginning.
//!
//! What differs from run to run without anybody having decided it stays out: of an action only its name and its
//! arguments count, not its id, time limit or number of tries; of a result everything but its `metadata` and what it says
//! of its own duration. Nothing else is left out of arguments and outputs.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde::de::{Deserialize, Deserializer, Error as _};
use serde_json::value::RawValue;

use super::json::{self, Json, Members};

/// Members of an output that say how long it took.
const TIMES: [&str; 6] = ["elapsed_ms", "elapsed", "elapsed_s", "latency_ms", "duration_ms", "duration"];

/// A value as it is read, and its text.
#[derive(Debug, Default)]
pub(super) struct Kept<'a, T> {
    pub(super) value: T,
    raw: Option<&'a RawValue>,
}

impl<'de: 'a, 'a, T: Deserialize<'de>> Deserialize<'de> for Kept<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'de RawValue>::deserialize(deserializer)?;
        // What cannot be decoded costs its field, as it does without the text.
        let value = serde_json::from_str(raw.get()).map_err(D::Error::custom)?;
        Ok(Self { value, raw: Some(raw) })
    }
}

/// What a hash is made of.
#[derive(Default)]
pub(super) struct Print(DefaultHasher);

impl Print {
    /// Takes a word in.
    pub(super) fn word(&mut self, word: &str) {
        word.hash(&mut self.0);
    }

    /// Takes a value in; spelling and the order of keys do not count.
    pub(super) fn value<T>(&mut self, kept: &Kept<'_, T>) {
        match kept.raw {
            Some(raw) => json::hash(&Json::from_raw(raw), &mut self.0),
            None => json::hash(&Json::Null, &mut self.0),
        }
    }

    /// Takes the result of an action in, as it is written.
    pub(super) fn result<T>(&mut self, kept: &Kept<'_, T>) {
        let Some(raw) = kept.raw else { return };
        match serde_json::from_str(raw.get()) {
            Ok(Members(members)) => {
                for (key, value) in members.iter().filter(|(key, _)| key.0 != "metadata") {
                    self.word(&key.0);
                    self.output(value.get());
                }
            }
            Err(_) => self.word(raw.get()),
        }
    }

    /// Takes what a tool returned; how long it took is no part of what it says.
    fn output(&mut self, text: &str) {
        // Nearly all outputs say nothing of the kind, and are not parsed for it.
        if !has_any(text, &["elapsed", "latency", "duration"]) {
            return self.word(text);
        }
        match serde_json::from_str(text) {
            Ok(Members(members)) => {
                for (key, value) in members.iter().filter(|(key, _)| !TIMES.contains(&key.0.as_ref())) {
                    self.word(&key.0);
                    self.word(value.get());
                }
            }
            Err(_) => self.word(text),
        }
    }

    /// The hash.
    pub(super) fn done(self) -> u64 {
        self.0.finish()
    }
}

fn has_any(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| memchr::memmem::find(text.as_bytes(), word.as_bytes()).is_some())
}

/// The hash of what a step changed in the state: each key with what it was and became. Order and spelling do not count;
/// no change at all is one hash, whether it is written as `{}`, as `null` or not at all.
pub(super) fn of_state<T>(diff: &Kept<'_, T>) -> u64 {
    let mut hasher = DefaultHasher::new();
    if let Some(changes) = diff.raw.map(Json::from_raw).filter(|changes| !changes.is_empty()) {
        json::hash(&changes, &mut hasher);
    }
    hasher.finish()
}

/// The hash of a line that nothing can be read of.
pub(super) fn of_line(line: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    line.hash(&mut hasher);
    hasher.finish()
}
