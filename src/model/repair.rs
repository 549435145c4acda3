//! Reads lines that strict JSON rejects, in steps of decreasing strictness, and reports each step
//! to the caller.
//!
//! Python writes bare `NaN` and `Infinity`. Killed writers and editors leave invalid UTF-8, raw
//! control characters and half surrogate pairs. `serde_json` rejects the whole line for any of
//! them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::fate::Fate;
use super::issue::{IssueKind, Remark};
use super::json::Members;
use super::loose::Maybe;

/// The result for a line that strict parsing rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retreat {
    /// A copy of the line that parses, and the changes made to it.
    Repaired {
        /// The repaired JSON text.
        text: String,
        /// One phrase for each kind of repair.
        repairs: Vec<&'static str>,
    },
    /// An object with some unreadable fields. `text` contains the others.
    Salvaged {
        /// JSON text without the unreadable fields.
        text: String,
        /// The names of the lost fields.
        lost: Vec<String>,
    },
    /// JSON, but not an object, with its type in words.
    Foreign(&'static str),
    /// Not JSON.
    NotJson {
        /// The parser's reason.
        why: String,
        /// Whether the text ends inside a value.
        is_truncated: bool,
    },
}

/// Every record is searched for it, so the finder is built once.
static UNICODE_ESCAPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\\u"));

/// Returns whether an escape in `text` is half of a surrogate pair, which strict parsers reject.
pub(crate) fn has_half_pair(text: &str) -> bool {
    let bytes = text.as_bytes();
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut at = 0;
    while let Some(found) = bytes
        .get(at..)
        .and_then(|rest| UNICODE_ESCAPE.find(rest))
        .map(|found| at + found)
    {
        at = found + 2;
        // After an odd number of backslashes, it's text.
        let before = bytes
            .get(..found)
            .unwrap_or_default()
            .iter()
            .rev()
            .take_while(|byte| **byte == b'\\')
            .count();
        if before % 2 == 1 {
            continue;
        }
        match unit(found) {
            Some(0xD800..=0xDBFF) if matches!(unit(found + 6), Some(0xDC00..=0xDFFF)) => {
                at = found + 12
            }
            Some(0xD800..=0xDFFF) => return true,
            _ => {}
        }
    }
    false
}

/// An object that was read with repairs if necessary.
pub(crate) struct Object<T> {
    /// The result, or `None` if no part of the object is usable.
    pub(crate) read: Option<T>,
    pub(crate) fate: Fate,
    /// What was done.
    pub(crate) remarks: Vec<Remark>,
    /// Whether it isn't usable because its text ends inside it.
    pub(crate) is_truncated: bool,
}

/// Reads one object with `parse`, strictly first and then with repairs. Never fails.
pub(crate) fn read_object<T>(line: &[u8], mut parse: impl FnMut(&str) -> Option<T>) -> Object<T> {
    if let Some(read) = std::str::from_utf8(line).ok().and_then(&mut parse) {
        return Object {
            read: Some(read),
            fate: Fate::Good,
            remarks: Vec::new(),
            is_truncated: false,
        };
    }
    let unread = |fate, remark, is_truncated| Object {
        read: None,
        fate,
        remarks: vec![remark],
        is_truncated,
    };
    let (text, remarks): (String, Vec<Remark>) = match retreat(line, |text| parse(text).is_some()) {
        Retreat::Repaired { text, repairs } => (
            text,
            repairs
                .iter()
                .map(|what| (IssueKind::Repaired, (*what).to_owned()))
                .collect(),
        ),
        Retreat::Salvaged { text, lost } => (
            text,
            lost.iter()
                .map(|name| (IssueKind::Field, format!("field {name} can't be read")))
                .collect(),
        ),
        Retreat::Foreign(what) => {
            let remark = format!("expected an object, found {what}");
            return unread(Fate::Foreign, (IssueKind::Foreign, remark), false);
        }
        Retreat::NotJson { why, is_truncated } => {
            let remark = (IssueKind::NotJson, format!("not JSON: {why}"));
            return unread(Fate::Unreadable, remark, is_truncated);
        }
    };
    Object {
        read: parse(&text),
        fate: Fate::Repaired,
        remarks,
        is_truncated: false,
    }
}

/// Parses one JSON object. A derived struct alone would also accept an array with its fields in
/// order.
pub(crate) fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    match serde_json::from_str(text) {
        Ok(Maybe::Value(value)) => Some(value),
        _ => None,
    }
}

/// Finds out what can be read of `line`. `accepts` returns whether the caller can use a JSON text.
pub fn retreat(line: &[u8], mut accepts: impl FnMut(&str) -> bool) -> Retreat {
    let (text, repairs) = repair(line);
    if !repairs.is_empty() && accepts(&text) {
        return Retreat::Repaired { text, repairs };
    }
    let raw: &RawValue = match serde_json::from_str(&text) {
        Ok(raw) => raw,
        Err(error) => {
            return Retreat::NotJson {
                why: reason(&error),
                is_truncated: error.is_eof(),
            };
        }
    };
    match raw.get().bytes().next() {
        Some(b'{') => salvage(raw.get(), accepts),
        Some(b'[') => Retreat::Foreign("an array"),
        Some(b'"') => Retreat::Foreign("a string"),
        Some(b'n') => Retreat::Foreign("null"),
        Some(b't' | b'f') => Retreat::Foreign("a boolean"),
        _ => Retreat::Foreign("a number"),
    }
}

/// Returns the parser's message without the position that ends it. Callers name the position in
/// their own words, or none if the text isn't in a file.
pub(crate) fn without_place(error: &serde_json::Error) -> String {
    let mut message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    if message.ends_with(&place) {
        message.truncate(message.len() - place.len());
    }
    message
}

/// Returns the parser's message, with the position inside the text instead of the line number if
/// the text is a single line.
fn reason(error: &serde_json::Error) -> String {
    let words = without_place(error)
        .replace("expected ident", "unexpected text")
        .replace("EOF while parsing", "the text ends inside");
    match error.line() {
        0 | 1 => format!("{words} at byte {} of the line", error.column()),
        line => format!("{words} at line {line}, byte {}", error.column()),
    }
}

/// Keeps the fields that can be read one by one. The last of a repeated key counts, as in Python.
fn salvage(text: &str, mut accepts: impl FnMut(&str) -> bool) -> Retreat {
    let Ok(Members(members)) = serde_json::from_str::<Members<'_>>(text) else {
        return Retreat::NotJson {
            why: "an object key can't be decoded".to_owned(),
            is_truncated: false,
        };
    };
    // A map, because a hostile line may have a million fields.
    let mut kept: BTreeMap<String, &str> = BTreeMap::new();
    let mut lost = Vec::new();
    for (key, value) in members {
        let Ok(name) = serde_json::to_string(&key.0) else {
            continue;
        };
        if !accepts(&format!("{{{name}:{}}}", value.get())) {
            lost.push(key.0.into_owned());
            continue;
        }
        if kept.insert(name, value.get()).is_some() {
            lost.push(format!("{} (repeated; the last one counts)", key.0));
        }
    }
    let body: Vec<String> = kept
        .iter()
        .map(|(name, value)| format!("{name}:{value}"))
        .collect();
    Retreat::Salvaged {
        text: format!("{{{}}}", body.join(",")),
        lost,
    }
}

/// Returns a copy of `line` in which the leftovers of Python and of accidents are valid JSON.
///
/// Bare `NaN`, `Infinity` and `-Infinity` become strings of those words, so that they stay visible
/// without being numbers.
pub fn repair(line: &[u8]) -> (String, Vec<&'static str>) {
    let mut repairs = Vec::new();
    let text = String::from_utf8_lossy(line);
    if matches!(text, std::borrow::Cow::Owned(_)) {
        repairs.push("invalid UTF-8 shown as U+FFFD");
    }
    let text = text
        .strip_prefix('\u{feff}')
        .inspect(|_| repairs.push("byte order mark removed"))
        .unwrap_or(&text);
    let mut note = |what| {
        if !repairs.contains(&what) {
            repairs.push(what);
        }
    };
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    let mut in_string = false;
    while let Some(at) = rest.find(|c: char| {
        if in_string {
            c == '"' || c == '\\' || c < ' '
        } else {
            matches!(c, '"' | 'N' | 'I' | '-')
        }
    }) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let taken = if in_string {
            inside(from, &mut out, &mut note)
        } else {
            outside(from, &mut out, &mut note)
        };
        if from.starts_with('"') {
            in_string = !in_string;
        }
        rest = from.get(taken..).unwrap_or_default();
    }
    out.push_str(rest);
    (out, repairs)
}

/// Copies the start of `from`, outside of a string. Returns the number of bytes taken.
fn outside(from: &str, out: &mut String, note: &mut impl FnMut(&'static str)) -> usize {
    for word in ["NaN", "Infinity", "-Infinity"] {
        if from.starts_with(word) {
            note("NaN or Infinity isn't valid JSON; shown as text");
            out.push('"');
            out.push_str(word);
            out.push('"');
            return word.len();
        }
    }
    copy_one(from, out)
}

/// Copies the start of `from`, inside a string. Returns the number of bytes taken.
fn inside(from: &str, out: &mut String, note: &mut impl FnMut(&'static str)) -> usize {
    match from.bytes().next() {
        Some(b'"') | None => copy_one(from, out),
        Some(b'\\') => escape(from, out, note),
        Some(control) => {
            note("raw control character escaped");
            out.push_str(&format!("\\u{control:04x}"));
            1
        }
    }
}

/// Copies one escape. Half of a surrogate pair becomes U+FFFD. Returns the number of bytes taken.
fn escape(from: &str, out: &mut String, note: &mut impl FnMut(&'static str)) -> usize {
    let unit = |at: usize| {
        let text = from.get(at..at + 6)?;
        u16::from_str_radix(text.strip_prefix("\\u")?, 16).ok()
    };
    match unit(0) {
        Some(0xD800..=0xDBFF) if matches!(unit(6), Some(0xDC00..=0xDFFF)) => {
            out.push_str(from.get(..12).unwrap_or_default());
            12
        }
        Some(0xD800..=0xDFFF) => {
            note("lone surrogate shown as U+FFFD");
            out.push_str("\\ufffd");
            6
        }
        Some(_) => {
            out.push_str(from.get(..6).unwrap_or_default());
            6
        }
        None => {
            // The backslash and the next character, so that an escaped quote doesn't end the
            // string.
            let taken = copy_one(from, out);
            taken + copy_one(from.get(taken..).unwrap_or_default(), out)
        }
    }
}

fn copy_one(from: &str, out: &mut String) -> usize {
    from.chars().next().map_or(0, |c| {
        out.push(c);
        c.len_utf8()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn valid(text: &str) -> bool {
        serde_json::from_str::<serde_json::Value>(text).is_ok()
    }

    #[test]
    fn python_numbers_become_text_and_strings_stay() {
        let (text, repairs) =
            repair(br#"{"a": NaN, "b": [-Infinity, Infinity, -1], "NaN": "NaN \" Infinity"}"#);
        assert_eq!(
            text,
            r#"{"a": "NaN", "b": ["-Infinity", "Infinity", -1], "NaN": "NaN \" Infinity"}"#
        );
        assert_eq!(repairs.len(), 1);
    }

    #[test]
    fn half_pairs_controls_and_bad_bytes() {
        let (text, repairs) = repair(b"{\"a\": \"\\ud83d x \\ud83d\\ude00 \t \xff\"}");
        assert_eq!(
            text,
            "{\"a\": \"\\ufffd x \\ud83d\\ude00 \\u0009 \u{fffd}\"}"
        );
        assert_eq!(repairs.len(), 3);
        assert!(valid(&text));
    }

    #[test]
    fn the_position_is_removed_from_the_end_of_a_message() {
        let wrong = serde_json::from_str::<u8>("\"a at line 1 column 2\"").unwrap_err();
        assert_eq!(
            without_place(&wrong),
            "invalid type: string \"a at line 1 column 2\", expected u8"
        );
        let wrong = <serde_json::Error as serde::de::Error>::custom("no position");
        assert_eq!(without_place(&wrong), "no position");
    }

    #[test]
    fn each_retreat_is_named() {
        assert_eq!(retreat(b"[1, 2]", valid), Retreat::Foreign("an array"));
        for (line, cut) in [(&b"{\"a\": "[..], true), (b"{\"a\": }", false)] {
            let Retreat::NotJson { is_truncated, .. } = retreat(line, valid) else {
                panic!("JSON")
            };
            assert_eq!(is_truncated, cut);
        }
        assert!(matches!(
            retreat(b"{\"a\": NaN}", valid),
            Retreat::Repaired { .. }
        ));
        let out_of_range = retreat(b"{\"a\": 1e999, \"b\": 2}", valid);
        assert_eq!(
            out_of_range,
            Retreat::Salvaged {
                text: "{\"b\":2}".to_owned(),
                lost: vec!["a".to_owned()]
            }
        );
    }

    #[test]
    fn the_last_of_any_number_of_repeated_fields_counts() {
        let many: String = (0..100_000).map(|n| format!("\"k{n}\":0,")).collect();
        let line = format!("{{{many}\"a\":1e999,\"b\":1,\"b\":2}}");
        let Retreat::Salvaged { text, lost } = retreat(line.as_bytes(), valid) else {
            panic!("not salvaged")
        };
        assert!(text.contains("\"b\":2") && !text.contains("\"b\":1"));
        assert_eq!(lost, ["a", "b (repeated; the last one counts)"]);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic_and_valid_lines_stay(bytes: Vec<u8>, text in "[ -~]{0,40}") {
            let _ = retreat(&bytes, valid);
            let line = serde_json::to_string(&[&text]).unwrap();
            proptest::prop_assert_eq!(repair(line.as_bytes()), (line.clone(), Vec::new()));
        }
    }
}
