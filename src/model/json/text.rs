//! Reads a JSON string without copying it, if it contains no escapes, and writes one.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use serde::de::{Deserialize, Deserializer, Visitor};

use super::check::special;

/// Returns a text as a JSON string, as `serde_json` writes it.
pub(crate) fn quoted(text: &str) -> String {
    // Most texts have an escape in each line.
    let mut out = String::with_capacity(text.len() + text.len() / 16 + 2);
    out.push('"');
    let mut rest = text;
    while let Some((plain, more)) =
        special(rest.as_bytes()).and_then(|found| rest.split_at_checked(found))
    {
        out.push_str(plain);
        match more.bytes().next().unwrap_or_default() {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'\x08' => out.push_str("\\b"),
            b'\x0c' => out.push_str("\\f"),
            control => _ = write!(out, "\\u{control:04x}"),
        }
        rest = more.get(1..).unwrap_or_default();
    }
    out.push_str(rest);
    out.push('"');
    out
}

/// A string, borrowed from the input if it contains no escapes.
#[derive(Debug)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

#[cfg(test)]
mod tests {
    proptest::proptest! {
        #[test]
        fn a_text_is_quoted_as_by_serde_json(text in "(\\PC|[\"\\\\\u{0}-\u{20}\u{7f}]){0,60}") {
            proptest::prop_assert_eq!(super::quoted(&text), serde_json::to_string(&text).unwrap());
        }
    }
}
