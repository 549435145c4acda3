//! Do two steps ask for the same, get the same and change the state alike? Hashes of the whole of it, where the index keeps only its
//! beginning.
//!
//! What differs from run to run without anybody having decided it stays out: of an action only its name and its
//! arguments count, not its id, time limit or number of tries; of a result what the tool gave, without what a writer wraps
//! it in and what it says of its own duration. Nothing else is left out of arguments and outputs.
//!
//! What a step asks for has the same hash on every machine and in every version of the board, since tables of many runs are
//! put together and compared. The other hashes hold within one process and are never written down.

use std::hash::{Hash, Hasher};

use super::json::{self, Json, walk};
use super::step::{Outcome, Value};

/// Members of an output that say how long it took.
const TIMES: [&str; 6] = [
    "elapsed_ms",
    "elapsed",
    "elapsed_s",
    "latency_ms",
    "duration_ms",
    "duration",
];

/// What a hash is made of.
#[derive(Default)]
pub(super) struct Print(Stable);

/// A hash of what it is fed, whatever the machine's width and order of bytes: sixteen bytes at a time, folded into the state by
/// a multiplication to twice the width.
#[derive(Default)]
struct Stable(u64);

/// Two odd numbers with as many ones as zeros, the binary digits of pi.
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
        let (pairs, rest) = bytes.as_chunks::<16>();
        let word = |half: &[u8]| {
            half.iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u64::from(*byte))
        };
        for pair in pairs {
            let (a, b) = pair.split_at(8);
            self.fold(word(a), word(b));
        }
        if !rest.is_empty() {
            let (a, b) = rest.split_at(rest.len().min(8));
            self.fold(word(a), word(b));
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

    /// Tables that were written before are compared with it.
    #[test]
    fn a_call_has_the_same_hash_for_ever() {
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
        // All bits tell: numbers that count up spread over any few of them.
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
