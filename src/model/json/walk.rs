//! Finds the parts of a JSON text whose syntax was already checked, skipping long strings and
//! decoding nothing. In any other text, the parts end where it stops being valid.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

use super::scan::{CHUNK, first_zero, special};

/// Returns the items of an array, and nothing for any other value.
pub(crate) fn items(array: &str) -> impl Iterator<Item = &str> {
    let mut cursor = Cursor::inside(array, b'[');
    std::iter::from_fn(move || cursor.value())
}

/// Returns the members of an object with their quoted keys, and nothing for any other value.
pub(crate) fn members(object: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut cursor = Cursor::inside(object, b'{');
    std::iter::from_fn(move || Some((cursor.value()?, cursor.value()?)))
}

/// The maximum number of objects read of one array. A record of 8 MiB has room for millions of empty ones,
/// each of which would take a hundred bytes.
const MAX_OBJECTS: usize = 1 << 18;

/// Passes the members of each object in an array to `read`, and none for another item. Reads at most
/// [`MAX_OBJECTS`]. Unlike with [`items`], an object isn't read twice, to find its end and then its
/// members.
pub(crate) fn objects<'a, T>(
    array: &'a str,
    mut read: impl FnMut(&mut dyn Iterator<Item = (&'a str, &'a str)>) -> T,
) -> Vec<T> {
    let mut cursor = Cursor::inside(array, b'[');
    let mut found = Vec::new();
    while let Some(opening) = cursor.next_byte().filter(|_| found.len() < MAX_OBJECTS) {
        if opening != b'{' {
            if cursor.value().is_none() {
                break;
            }
            found.push(read(&mut std::iter::empty()));
            continue;
        }
        cursor.at += 1;
        let mut members = std::iter::from_fn(|| Some((cursor.value()?, cursor.value()?)));
        let object = read(&mut members);
        members.for_each(drop);
        if cursor.next_byte() != Some(b'}') {
            break;
        }
        cursor.at += 1;
        found.push(object);
    }
    found
}

/// Returns the members of a truncated object. The last value may be incomplete.
pub(crate) fn begun(object: &str) -> Vec<(&str, &str)> {
    let mut cursor = Cursor::inside(object, b'{');
    let mut members = Vec::new();
    while let Some(key) = cursor.value() {
        let at = cursor.at;
        let Some(value) = cursor.value() else {
            let rest = cursor.text.get(at..).unwrap_or_default();
            let rest = rest.trim_start_matches([' ', '\t', '\n', '\r', ':']);
            members.extend(Some((key, rest)).filter(|(_, rest)| !rest.is_empty()));
            break;
        };
        members.push((key, value));
    }
    members
}

/// Returns the text of a JSON string, or `None` if the value isn't a string or contains half of a
/// surrogate pair.
pub(crate) fn string(value: &str) -> Option<Cow<'_, str>> {
    let inner = quoted(value)?;
    if !has_escape(inner) {
        return Some(Cow::Borrowed(inner));
    }
    unescaped(inner).map(Cow::Owned)
}

/// Returns what is between the quotes of a string, with its escapes replaced. `None` if strict JSON
/// doesn't allow it there.
fn unescaped(inner: &str) -> Option<String> {
    // The result is shorter, so it never has to grow.
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(found) = special(rest.as_bytes()) {
        let (before, escape) = rest.split_at_checked(found)?;
        out.push_str(before);
        let letter = match escape.as_bytes() {
            [b'\\', letter, ..] => *letter,
            _ => return None,
        };
        let (c, len) = match letter {
            b'"' | b'\\' | b'/' => (char::from(letter), 2),
            b'n' => ('\n', 2),
            b't' => ('\t', 2),
            b'r' => ('\r', 2),
            b'b' => ('\u{8}', 2),
            b'f' => ('\u{c}', 2),
            b'u' => code_point(escape)?,
            _ => return None,
        };
        out.push(c);
        rest = escape.get(len..)?;
    }
    out.push_str(rest);
    // Escapes take up to six times the bytes of their characters.
    if out.len() < inner.len() / 2 {
        out.shrink_to_fit();
    }
    Some(out)
}

/// Returns the character that begins with `\u`, and the length of its escape or pair of escapes.
fn code_point(escape: &str) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = escape.get(at..at + 6)?.strip_prefix("\\u")?;
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        u16::from_str_radix(digits, 16).ok().filter(|_| is_hex)
    };
    let first = unit(0)?;
    if !matches!(first, 0xD800..=0xDBFF) {
        return Some((char::from_u32(first.into())?, 6));
    }
    let pair = [first, unit(6)?];
    let c = char::decode_utf16(pair).next()?.ok()?;
    Some((c, 12))
}

/// Returns whether a JSON string is the text `word`. Decodes it only if it must.
pub(crate) fn is_word(value: &str, word: &str) -> bool {
    // An escape takes more bytes than its character, so a shorter text has none.
    quoted(value).is_some_and(|inner| match inner.len() <= word.len() {
        true => inner == word,
        false => has_escape(inner) && string(value).is_some_and(|text| text == word),
    })
}

fn has_escape(inner: &str) -> bool {
    match inner.len() {
        // For most keys, a call to `memchr` takes longer than the search.
        0..=16 => inner.bytes().any(|byte| byte == b'\\'),
        _ => memchr(b'\\', inner.as_bytes()).is_some(),
    }
}

/// Returns the text between the quotes of a value. The quotes are compared as bytes: a
/// one-character pattern costs a call to `memcmp`, and this runs for every key.
fn quoted(value: &str) -> Option<&str> {
    match value.as_bytes() {
        [b'"', .., b'"'] => value.get(1..value.len() - 1),
        _ => None,
    }
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn inside(text: &'a str, opening: u8) -> Self {
        let text = text.trim_ascii_start();
        Self {
            text: if text.as_bytes().first() == Some(&opening) {
                text
            } else {
                ""
            },
            at: 1,
        }
    }

    /// Returns the next value, after blanks, commas and colons.
    fn value(&mut self) -> Option<&'a str> {
        self.next_byte()?;
        let start = self.at;
        self.at = end_of(self.text.as_bytes(), start)?;
        self.text.get(start..self.at)
    }

    /// Moves to the first byte after blanks, commas and colons, and returns it.
    fn next_byte(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes().get(self.at..)?;
        let (gap, byte) = bytes
            .iter()
            .enumerate()
            .find(|(_, byte)| !is(**byte, GAP))?;
        self.at += gap;
        Some(*byte)
    }
}

/// Blanks, commas and colons, which are between values.
const GAP: u8 = 1;
/// The characters that end a number or a word.
const END: u8 = 2;
/// The characters that begin or end a string, an array or an object.
const MARK: u8 = 4;

/// The kinds of each byte. One look into a table is faster than five comparisons.
#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
const KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    let table: [(&[u8], u8); 4] = [
        (b" \t\n\r,", GAP | END),
        (b":", GAP),
        (b"]}", END | MARK),
        (b"\"[{", MARK),
    ];
    let mut row = 0;
    while row < table.len() {
        let (bytes, kind) = table[row];
        let mut at = 0;
        while at < bytes.len() {
            kinds[bytes[at] as usize] = kind;
            at += 1;
        }
        row += 1;
    }
    kinds
};

fn is(byte: u8, kind: u8) -> bool {
    KINDS
        .get(usize::from(byte))
        .is_some_and(|kinds| kinds & kind != 0)
}

/// Returns one past the last byte of the value at `start`, or `None` if no value begins there or it
/// has no end.
fn end_of(bytes: &[u8], start: usize) -> Option<usize> {
    match bytes.get(start)? {
        b'"' => end_of_string(bytes, start),
        b'{' | b'[' => end_of_nested(bytes, start),
        b'}' | b']' => None,
        _ => {
            let len = bytes.get(start..)?.iter().position(|byte| is(*byte, END));
            Some(len.map_or(bytes.len(), |len| start + len))
        }
    }
}

fn end_of_string(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        let found = at + quote_or_escape(bytes.get(at..)?)?;
        if bytes.get(found) == Some(&b'"') {
            return Some(found + 1);
        }
        at = found + 2;
    }
}

/// Returns the position of the first `"` or `\`.
fn quote_or_escape(bytes: &[u8]) -> Option<usize> {
    /// The chunks in which a call to `memchr` takes longer than the search. Most strings are short
    /// keys, or have an escape in each line.
    const CHUNKS: usize = 8;
    let mut at = 0;
    for chunk in bytes.as_chunks().0.iter().take(CHUNKS) {
        if let Some(found) = first_zero(chunk, |byte| (byte ^ b'"').min(byte ^ b'\\')) {
            return Some(at + found);
        }
        at += CHUNK;
    }
    Some(at + memchr2(b'"', b'\\', bytes.get(at..)?)?)
}

fn end_of_nested(bytes: &[u8], start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = start;
    loop {
        let found = at + bytes.get(at..)?.iter().position(|byte| is(*byte, MARK))?;
        at = found + 1;
        match bytes.get(found)? {
            b'"' => at = end_of_string(bytes, found)?,
            b'{' | b'[' => depth += 1,
            _ => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_behind_any_string() {
        let text = r#" { "a\"}" : [1, {"b": "]\\"}, "x,y"] ,"c":-1.5e3,"d":{},"e":null}"#;
        let found: Vec<_> = members(text).collect();
        assert_eq!(
            found,
            [
                (r#""a\"}""#, r#"[1, {"b": "]\\"}, "x,y"]"#),
                (r#""c""#, "-1.5e3"),
                (r#""d""#, "{}"),
                (r#""e""#, "null")
            ]
        );
        assert_eq!(
            items(found[0].1).collect::<Vec<_>>(),
            ["1", r#"{"b": "]\\"}"#, r#""x,y""#]
        );
        let keys = |text| {
            objects(text, |members| {
                members.map(|(key, _)| key).collect::<Vec<_>>()
            })
        };
        let found = keys(r#"[{"a" : {"b":[1]}, "c":"}"} , 2, [{"d":1}], {}, {"e":1} ]"#);
        assert_eq!(
            found,
            [
                vec![r#""a""#, r#""c""#],
                vec![],
                vec![],
                vec![],
                vec![r#""e""#]
            ]
        );
        assert_eq!(
            keys(r#"[{"a":1}, {"b":1"#).len() + keys("[1, {").len() + keys("{}").len(),
            2
        );
        let first = objects(r#"[{"a":1,"b":{}}, {"c":1}]"#, |members| members.next());
        assert_eq!(first, [Some((r#""a""#, "1")), Some((r#""c""#, "1"))]);
        assert_eq!(
            items("{}").count() + members("[]").count() + items("[]").count(),
            0
        );
    }

    #[test]
    fn a_key_is_compared_as_text() {
        for (value, word) in [(r#""a""#, "a"), (r#""\u0061b""#, "ab"), (r#""""#, "")] {
            assert!(is_word(value, word));
        }
        for (value, word) in [
            (r#""a""#, "b"),
            (r#""a\\b""#, "ab"),
            ("a", "a"),
            (r#""ab""#, "a"),
        ] {
            assert!(!is_word(value, word));
        }
    }

    #[test]
    fn strings_are_borrowed_where_they_can_be() {
        assert!(matches!(
            string(r#""plain é""#),
            Some(Cow::Borrowed("plain é"))
        ));
        assert_eq!(string(r#""a\n\u00e9""#).as_deref(), Some("a\né"));
        assert_eq!((string("1"), string(r#""\ud83d""#)), (None, None));
    }

    proptest::proptest! {
        #[test]
        fn escapes_are_those_of_strict_json(inner in "(\\PC|[\"\\\\/bfnrtu0aDd8Cc+\n\u{1f}é]|\\\\u[dD][89abcdAB][0-9a-f]{2}){0,30}") {
            let value = format!("\"{inner}\"");
            let strict = serde_json::from_str::<String>(&value).ok();
            proptest::prop_assert_eq!(unescaped(&inner), strict);
        }

        #[test]
        fn a_quote_or_escape_is_found_at_any_position(text in "[\"\\\\!#\\[\\]a\u{a2}\u{dc}é]{0,40}") {
            let bytes = text.as_bytes();
            proptest::prop_assert_eq!(quote_or_escape(bytes), memchr2(b'"', b'\\', bytes));
        }

        #[test]
        fn broken_texts_end_early(text in "[\\[\\]{}\",:\\\\ a1é]{0,40}") {
            let _ = (members(&text).count(), items(&text).count());
        }

        #[test]
        fn every_member_is_found(list in proptest::collection::vec((".*", ".*"), 0..5)) {
            let object: serde_json::Map<String, serde_json::Value> =
                list.into_iter().map(|(key, value)| (key, value.into())).collect();
            let text = serde_json::to_string(&object).unwrap();
            let found: serde_json::Map<String, serde_json::Value> = members(&text)
                .map(|(key, value)| (string(key).unwrap().into_owned(), string(value).unwrap().into_owned().into()))
                .collect();
            proptest::prop_assert_eq!(found, object);
        }
    }
}
