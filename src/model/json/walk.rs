//! Finds the parts of a JSON text whose syntax was already checked, skipping long strings and
//! decoding nothing. In any other text, the parts end where it stops being valid.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

use super::text::Text;

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
    if memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str::<Text<'_>>(value)
        .ok()
        .map(|Text(text)| text)
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
        let bytes = self.text.as_bytes();
        let blank = |byte: &u8| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b',' | b':');
        let start = self.at + bytes.get(self.at..)?.iter().position(blank)?;
        let end = end_of(bytes, start)?;
        self.at = end;
        self.text.get(start..end)
    }
}

/// Returns one past the last byte of the value at `start`, or `None` if no value begins there or it
/// has no end.
fn end_of(bytes: &[u8], start: usize) -> Option<usize> {
    match bytes.get(start)? {
        b'"' => end_of_string(bytes, start),
        b'{' | b'[' => end_of_nested(bytes, start),
        b'}' | b']' => None,
        _ => {
            let ends =
                |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
            let len = bytes.get(start..)?.iter().position(ends);
            Some(len.map_or(bytes.len(), |len| start + len))
        }
    }
}

fn end_of_string(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        let found = at + memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes.get(found) == Some(&b'"') {
            return Some(found + 1);
        }
        at = found + 2;
    }
}

fn end_of_nested(bytes: &[u8], start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = start;
    loop {
        let mark = |byte: &u8| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']');
        let found = at + bytes.get(at..)?.iter().position(mark)?;
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
        assert_eq!(
            items("{}").count() + members("[]").count() + items("[]").count(),
            0
        );
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
