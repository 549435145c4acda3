//! Replaces lone surrogates in JSON text with U+FFFD.
//!
//! `"\ud83d"` alone is valid JSON grammar but not text. Servers that split replies between UTF-16
//! units send it.

/// Returns the text with every lone surrogate escape replaced. `None` if there aren't any.
pub(super) fn mended(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    let mut changed = false;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        // The length of a backslash plus the character it escapes.
        let second = escape.chars().nth(1).map_or(0, char::len_utf8);
        let taken = match unit(escape) {
            Some(0xd800..=0xdbff)
                if matches!(escape.get(6..).and_then(unit), Some(0xdc00..=0xdfff)) =>
            {
                12
            }
            Some(0xd800..=0xdfff) => {
                out.push_str("\\ufffd");
                changed = true;
                rest = escape.get(6..).unwrap_or_default();
                continue;
            }
            Some(_) => 6,
            None => 1 + second,
        };
        out.push_str(escape.get(..taken).unwrap_or(escape));
        rest = escape.get(taken..).unwrap_or_default();
    }
    out.push_str(rest);
    changed.then_some(out)
}

/// Returns the UTF-16 unit of the escape at the start of `text`.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16)
        .ok()
        .filter(|_| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_halves_are_replaced() {
        for whole in [
            r#"{"a": "\ud83d\ude00 \\ud83d \n é"}"#,
            "",
            r"\",
            r#""\u00e9""#,
            r#""\ud8""#,
        ] {
            assert_eq!(mended(whole), None, "{whole}");
        }
        assert_eq!(
            mended(r#"["\ud83d", "x\udE00y\ud83d\ud83d\ude00"]"#).unwrap(),
            r#"["\ufffd", "x\ufffdy\ufffd\ud83d\ude00"]"#
        );
    }
}
