//! Checks the syntax of a JSON text. Accepts what `serde_json` accepts, in half the time: every record
//! is checked, and that is a large part of the work on it.

/// Returns whether a text is one JSON value.
pub(super) fn is_json(text: &str) -> bool {
    end_of_text(text.as_bytes()).is_some()
}

fn end_of_text(bytes: &[u8]) -> Option<usize> {
    // The brackets that must still close.
    let mut open = Vec::new();
    let mut at = 0;
    loop {
        at = after_blanks(bytes, at);
        match *bytes.get(at)? {
            b'"' => at = end_of_string(bytes, at + 1)?,
            opening @ (b'{' | b'[') => {
                // In ASCII, each closes with the character after the next.
                let closing = opening + 2;
                at = after_blanks(bytes, at + 1);
                if *bytes.get(at)? != closing {
                    open.push(closing);
                    if closing == b'}' {
                        at = after_key(bytes, at)?;
                    }
                    continue;
                }
                at += 1;
            }
            b'-' | b'0'..=b'9' => at = end_of_number(bytes, at)?,
            b't' => at = end_of_word(bytes, at, b"true")?,
            b'f' => at = end_of_word(bytes, at, b"false")?,
            b'n' => at = end_of_word(bytes, at, b"null")?,
            _ => return None,
        }
        loop {
            at = after_blanks(bytes, at);
            let Some(closing) = open.last() else {
                return (at == bytes.len()).then_some(at);
            };
            match *bytes.get(at)? {
                b',' if *closing == b'}' => {
                    at = after_key(bytes, after_blanks(bytes, at + 1))?;
                    break;
                }
                b',' => {
                    at += 1;
                    break;
                }
                byte if byte == *closing => {
                    open.pop();
                    at += 1;
                }
                _ => return None,
            }
        }
    }
}

fn after_blanks(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(at) {
        at += 1;
    }
    at
}

/// Returns the position after the key at `at` and its colon.
fn after_key(bytes: &[u8], at: usize) -> Option<usize> {
    let at = match bytes.get(at)? {
        b'"' => after_blanks(bytes, end_of_string(bytes, at + 1)?),
        _ => return None,
    };
    (*bytes.get(at)? == b':').then_some(at + 1)
}

/// Returns the end of the string whose text begins at `at`.
fn end_of_string(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += special(bytes.get(at..)?)?;
        let len = match (bytes.get(at)?, bytes.get(at + 1)) {
            (b'"', _) => return Some(at + 1),
            (b'\\', Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')) => 2,
            (b'\\', Some(b'u')) => {
                let digits = bytes.get(at + 2..at + 6)?;
                digits.iter().all(u8::is_ascii_hexdigit).then_some(6)?
            }
            _ => return None,
        };
        at += len;
    }
}

/// Returns the position of the first byte that doesn't stand for itself in a string: a quote, a
/// backslash, or a control character, which is an error.
pub(super) fn special(bytes: &[u8]) -> Option<usize> {
    let (chunks, rest) = bytes.as_chunks();
    let of = |byte: u8| (byte ^ b'"').min(byte ^ b'\\').min(byte & 0xe0);
    for (n, chunk) in chunks.iter().enumerate() {
        if let Some(found) = first_zero(chunk, of) {
            return Some(n * CHUNK + found);
        }
    }
    let found = rest.iter().position(|byte| of(*byte) == 0)?;
    Some(chunks.len() * CHUNK + found)
}

/// As many bytes as any processor compares at once.
pub(super) const CHUNK: usize = 16;

/// Returns the position of the first byte of a chunk for which `of` is zero. The compiler computes it for
/// all of them at once, as long as `of` doesn't compare or branch. An iterator would hide that from it.
#[inline]
#[expect(clippy::indexing_slicing, reason = "`n` is below the length of both")]
pub(super) fn first_zero(chunk: &[u8; CHUNK], of: impl Fn(u8) -> u8) -> Option<usize> {
    let mut zeros = [0; CHUNK];
    let mut n = 0;
    while n < CHUNK {
        zeros[n] = 1_u8.saturating_sub(of(chunk[n]));
        n += 1;
    }
    match u128::from_le_bytes(zeros) {
        0 => None,
        zeros => Some(zeros.trailing_zeros() as usize / 8),
    }
}

fn end_of_number(bytes: &[u8], at: usize) -> Option<usize> {
    let digits = |at: usize| {
        let rest = bytes.get(at..)?.iter();
        let count = rest.take_while(|byte| byte.is_ascii_digit()).count();
        (count > 0).then_some(at + count)
    };
    let start = at + usize::from(bytes.get(at) == Some(&b'-'));
    let mut end = digits(start)?;
    if bytes.get(start) == Some(&b'0') && end > start + 1 {
        return None;
    }
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1)?;
    }
    if let Some(b'e' | b'E') = bytes.get(end) {
        let is_signed = matches!(bytes.get(end + 1), Some(b'+' | b'-'));
        end = digits(end + 1 + usize::from(is_signed))?;
    }
    Some(end)
}

fn end_of_word(bytes: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    let is_word = bytes.get(at..)?.starts_with(word);
    is_word.then_some(at + word.len())
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn is_strict(text: &str) -> bool {
        serde_json::from_str::<&RawValue>(text).is_ok()
    }

    #[test]
    fn it_accepts_what_serde_json_accepts() {
        let numbers = [
            "0", "-0", "01", "-", "1.", "1.5e+7", "1e", "1E-", "-1.0E05", ".5", "+1", "1e5.0",
        ];
        let words = ["true", "tru", "nulll", "nan", "False", ""];
        let strings = [
            r#""\u00e9\n\/""#,
            r#""\u00g9""#,
            r#""\x""#,
            r#"""#,
            "\"\t\"",
            "\"\u{1f}\"",
            "\"\u{7f}\"",
            r#""\""#,
        ];
        let nested = [
            "[]",
            "[1,]",
            "[,1]",
            "[1 2]",
            "{}",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{a:1}"#,
            "[}",
            "{]",
            r#" {"a" : [1, {"b":"]}"}] , "c":null } "#,
            "[1] 2",
            "[[]",
            "\u{a0}1",
        ];
        for text in numbers
            .into_iter()
            .chain(words)
            .chain(strings)
            .chain(nested)
        {
            assert_eq!(is_json(text), is_strict(text), "{text}");
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(is_json(&deep) && is_strict(&deep));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_judged_as_by_serde_json(text in r#"([\[\]{}",:\\ntu1e.\- a]|true|null|"[a-z\\"u0-9é]{0,20}"|\PC){0,40}"#) {
            proptest::prop_assert_eq!(is_json(&text), is_strict(&text));
        }

        #[test]
        fn a_change_to_a_valid_text_is_judged_as_by_serde_json(
            keys in proptest::collection::vec((".{0,40}", proptest::num::f64::ANY, ".{0,40}"), 0..4),
            at in 0_usize..200,
            by in "[\\[\\]{}\",:\\\\ntu1e. \n-]{0,2}",
        ) {
            let value = serde_json::json!(keys);
            let mut text = value.to_string();
            proptest::prop_assert!(is_json(&text));
            let at = text.floor_char_boundary(at.min(text.len()));
            let end = text.ceil_char_boundary((at + 1).min(text.len()));
            text.replace_range(at..end, &by);
            proptest::prop_assert_eq!(is_json(&text), is_strict(&text));
        }
    }
}
