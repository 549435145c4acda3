//! Hashes what steps ask for, what they get and how they change the state, so that steps can be
//! compared in full where the index keeps only the beginning of each text.
//!
//! Hashes exclude whatever varies between runs without a decision. Of an action, only its name and
//! arguments count, not its id, time limit or number of tries. Of a result, only the tool's output
//! counts, not the writer's wrapper or the recorded duration. Nothing else in arguments and outputs
//! is excluded.
//!
//! The hash of what a step asks for is the same on every machine and in every version of board,
//! because tables of many runs are combined and compared. The other hashes are valid within one
//! process and are never stored.

use std::hash::{Hash, Hasher};

use super::json::{self, Json, walk};
use super::step::{Outcome, Value};

/// The members of an output that record its duration.
const TIMES: [&str; 6] = [
    "elapsed_ms",
    "elapsed",
    "elapsed_s",
    "latency_ms",
    "duration_ms",
    "duration",
];

/// The state of a hash.
#[derive(Default)]
pub(super) struct Print(Stable);

/// A hasher whose result doesn't depend on the machine's word size or byte order. It takes 16 bytes
/// at a time and folds them into the state by a widening multiplication.
#[derive(Default)]
struct Stable(u64);

/// Two odd constants from the hexadecimal digits of pi.
const MIX: [u64; 2] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7345];

impl Stable {
    fn fold(&mut self, a: u64, b: u64) {
        let [one, other] = MIX;
        let product = u128::from(self.0 ^ a ^ one) * u128::from(b ^ other);
        self.0 = (product as u64 ^ (product >> 64) as u64).rotate_left(23);
    }
}

impl Hasher for Stable {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        let (pairs, last) = words.as_chunks::<2>();
        for [a, b] in pairs {
            self.fold(u64::from_le_bytes(*a), u64::from_le_bytes(*b));
        }
        let mut tail = [0; 8];
        tail.iter_mut().zip(rest).for_each(|(to, byte)| *to = *byte);
        let tail = u64::from_le_bytes(tail);
        match last {
            [] if rest.is_empty() => {}
            [] => self.fold(tail, 0),
            [a, ..] => self.fold(u64::from_le_bytes(*a), tail),
        }
        self.fold(bytes.len() as u64, 0);
    }

    fn write_u8(&mut self, number: u8) {
        self.fold(u64::from(number), 1);
    }

    fn write_u32(&mut self, number: u32) {
        self.fold(u64::from(number), 2);
    }

    fn write_u64(&mut self, number: u64) {
        self.fold(number, 3);
    }

    fn write_usize(&mut self, number: usize) {
        self.fold(number as u64, 4);
    }

    fn write_isize(&mut self, number: isize) {
        self.fold(number as u64, 5);
    }

    fn finish(&self) -> u64 {
        let mut last = Self(self.0);
        last.fold(self.0.rotate_left(32), self.0);
        last.0
    }
}

impl Print {
    /// Feeds a word.
    pub(super) fn word(&mut self, word: &str) {
        word.hash(&mut self.0);
    }

    /// Feeds a value. Spelling and the order of keys don't count.
    pub(super) fn value(&mut self, value: Option<Value<'_>>) {
        json::hash(&value.map_or(Json::Null, Value::json), &mut self.0);
    }

    /// Feeds a tool's output, or its error if there is no output. Members that record a duration
    /// don't count.
    pub(super) fn result(&mut self, result: &Outcome<'_>) {
        // Writers without a wrapper record a failed call as its error alone.
        let only_error = |text: &str| {
            let mut members = walk::members(text);
            text.starts_with('{')
                && members.next().is_some_and(|(key, _)| key == "\"error\"")
                && members.next().is_none()
        };
        let output = result
            .output
            .map(|output| output.text)
            .filter(|text| *text != "null");
        let output = output.filter(|text| result.error.is_none() || !only_error(text));
        let text = output
            .or(result.error.map(|error| error.text))
            .unwrap_or("null");
        self.0
            .write_u64(json::hash_of_text(text, |key| TIMES.contains(&key)));
    }

    /// Returns the hash.
    pub(super) fn done(self) -> u64 {
        self.0.finish()
    }
}

/// Returns the hash of a value, such as a step's state changes: each key with its values before and
/// after. Order and spelling don't count. An empty value has the same hash whether it's written as
/// `{}`, as `null`, or not at all.
pub(super) fn hash_of(value: Option<Value<'_>>) -> u64 {
    let mut print = Print::default();
    if let Some(value) = value.filter(|value| !value.is_empty()) {
        print.value(Some(value));
    }
    print.done()
}

/// Returns the hash of the unmodified bytes.
pub(super) fn of_line(line: &[u8]) -> u64 {
    let mut print = Print::default();
    line.hash(&mut print.0);
    print.done()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn of(word: &str, args: &str) -> u64 {
        let mut print = Print::default();
        print.word(word);
        print.value(Some(Value {
            text: args,
            ..Value::default()
        }));
        print.done()
    }

    /// Stored tables are compared with this hash.
    #[test]
    fn hashes_of_calls_never_change() {
        let hash = of(
            "read_file",
            r#"{"path": "src/main.rs", "lines": [1, 20.5, null, true]}"#,
        );
        assert_eq!(format!("{hash:016x}"), "cd6261da964afde6");
        assert_eq!(
            hash,
            of(
                "read_file",
                r#"{"lines":[1,20.50,null,true],"path":"src/\u006dain.rs"}"#
            ),
            "spelling"
        );
    }

    #[test]
    fn like_calls_and_no_others_have_one_hash() {
        let words = [
            "",
            "a",
            "b",
            "ab",
            "read_file",
            "0123456789abcdef",
            "0123456789abcdef0",
            "0123456789abcdee",
        ];
        let args = [
            "{}",
            "[]",
            "null",
            "0",
            "1",
            "[0]",
            "[[0]]",
            "[0,0]",
            r#"{"a":0}"#,
            r#"{"a":1}"#,
            r#"{"b":0}"#,
            r#""a""#,
        ];
        let hashes: HashSet<u64> = words
            .iter()
            .flat_map(|word| args.iter().map(|args| of(word, args)))
            .collect();
        assert_eq!(hashes.len(), words.len() * args.len());
        // Every bit matters: consecutive numbers spread over any subset of the bits.
        let low: HashSet<u64> = (0..4096)
            .map(|n| of("read", &n.to_string()) & 0xffff)
            .collect();
        let high: HashSet<u64> = (0..4096)
            .map(|n| of("read", &n.to_string()) >> 48)
            .collect();
        assert!(
            low.len() > 3_800 && high.len() > 3_800,
            "{} {}",
            low.len(),
            high.len()
        );
    }
}
