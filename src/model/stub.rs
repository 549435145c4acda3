//! Finds the complete record behind a torn one on the same line.
//!
//! A writer that is killed leaves a line without an end; whoever writes next puts its record behind it. The torn record
//! ends inside a string or at a place where no value can begin, so that an object there is a record of its own. A nested
//! object stands where a value is expected, and is never taken for one.

use super::json::Json;

/// So many places are tried in one line: each costs a look at the rest of it.
const MAX_TRIES: usize = 32;

/// Returns the complete object at the end of `line`, a line that isn't JSON as a whole, and the number of bytes before it.
pub(super) fn behind_stub(line: &str) -> Option<(&str, usize)> {
    let mut tries = 0;
    // Whether a value may begin here, and what is open: objects and lists, innermost last.
    let (mut is_value_next, mut open) = (true, Vec::new());
    let (mut in_string, mut is_escaped) = (false, false);
    let bytes = line.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        let begins_object = *byte == b'{' && bytes.get(at + 1) == Some(&b'"');
        if begins_object && !is_escaped && (in_string || !is_value_next) {
            let rest = line.get(at..)?;
            if Json::is_json(rest) {
                return Some((rest, at));
            }
            tries += 1;
            if tries == MAX_TRIES {
                return None;
            }
        }
        if in_string {
            (in_string, is_escaped) = match byte {
                _ if is_escaped => (true, false),
                b'\\' => (true, true),
                b'"' => (false, false),
                _ => (true, false),
            };
            continue;
        }
        match byte {
            b'{' | b'[' => {
                open.push(*byte);
                is_value_next = *byte == b'[';
            }
            b'}' | b']' => {
                open.pop();
                is_value_next = false;
            }
            b'"' => (in_string, is_value_next) = (true, false),
            b':' => is_value_next = true,
            b',' => is_value_next = open.last() == Some(&b'['),
            byte if byte.is_ascii_whitespace() => {}
            _ => is_value_next = false,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_complete_record_is_found_wherever_the_one_before_it_is_torn() {
        let whole = r#"{"type":"assistant","message":{"content":[{"text":"a {\"b\":1}"}]}}"#;
        let stubs = [
            r#"{"type":"assi"#,
            r#"{"type":"pr-link","sessionId":"x","prNu"#,
            r#"{"type":"user","n":12"#,
            r#"{"type":"user","message":{"content":[{"text":"x"}"#,
            r#"{"type""#,
            r#"{"a":"b \\"#,
            r#"{"a":"b","c":tru"#,
            r#"{"one":"tor{"two":"tor"#,
        ];
        for stub in stubs {
            assert_eq!(behind_stub(&format!("{stub}{whole}")), Some((whole, stub.len())), "{stub}");
        }
    }

    #[test]
    fn a_nested_object_of_a_torn_record_is_no_record() {
        let torn = [
            r#"{"type":"user","message":{"role":"user","content":"x"}"#,
            r#"{"type":"user","list":[{"a":1},{"b":2}"#,
            r#"{"type":"user","message":{"text":"braces {"},"b":{"c":1}"#,
            r#"{"type":"assi"#,
            "",
            "{",
        ];
        for line in torn {
            assert_eq!(behind_stub(line), None, "{line}");
        }
    }
}
