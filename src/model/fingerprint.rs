//! Do two steps ask for the same, get the same and change the state alike? Hashes of the whole of it, where the index keeps only its
//! beginning.
//!
//! What differs from run to run without anybody having decided it stays out: of an action only its name and its
//! arguments count, not its id, time limit or number of tries; of a result what the tool gave, without what a writer wraps
//! it in and what it says of its own duration. Nothing else is left out of arguments and outputs.
//!
//! The hashes hold within one process and are never written down.

use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::quality::{FixedState, FoldHasher};

use super::json::{self, Json, walk};
use super::step::{Outcome, Value};

/// Members of an output that say how long it took.
const TIMES: [&str; 6] = ["elapsed_ms", "elapsed", "elapsed_s", "latency_ms", "duration_ms", "duration"];

/// What a hash is made of.
pub(super) struct Print(FoldHasher<'static>);

impl Default for Print {
    fn default() -> Self {
        Self(FixedState::default().build_hasher())
    }
}

impl Print {
    /// Takes a word in.
    pub(super) fn word(&mut self, word: &str) {
        word.hash(&mut self.0);
    }

    /// Takes a value in; spelling and the order of keys do not count.
    pub(super) fn value(&mut self, value: Option<Value<'_>>) {
        json::hash(&value.map_or(Json::Null, Value::json), &mut self.0);
    }

    /// Takes in what a tool gave: its output, or the error where there is nothing else. How long it took is no part of
    /// what it says.
    pub(super) fn result(&mut self, result: &Outcome<'_>) {
        // Writers that do not wrap write a failed call as its error alone.
        let only_error = |text: &str| {
            let mut members = walk::members(text);
            text.starts_with('{')
                && members.next().is_some_and(|(key, _)| key == "\"error\"")
                && members.next().is_none()
        };
        let output = result.output.map(|output| output.text).filter(|text| *text != "null");
        let output = output.filter(|text| result.error.is_none() || !only_error(text));
        let text = output.or(result.error.map(|error| error.text)).unwrap_or("null");
        self.0.write_u64(json::hash_of_text(text, |key| TIMES.contains(&key)));
    }

    /// The hash.
    pub(super) fn done(self) -> u64 {
        self.0.finish()
    }
}

/// The hash of a value, such as what a step changed in the state: each key with what it was and became. Order and
/// spelling do not count; nothing at all is one hash, whether it is written as `{}`, as `null` or not at all.
pub(super) fn hash_of(value: Option<Value<'_>>) -> u64 {
    let mut print = Print::default();
    if let Some(value) = value.filter(|value| !value.is_empty()) {
        print.value(Some(value));
    }
    print.done()
}

/// The hash of bytes as they are.
pub(super) fn of_line(line: &[u8]) -> u64 {
    let mut print = Print::default();
    line.hash(&mut print.0);
    print.done()
}
