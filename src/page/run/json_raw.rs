//! Writes the three files of a run as one JSON document. Lines are streamed as strings, so that no
//! file is held in memory.

use std::borrow::Cow;
use std::io::{self, Write};

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// The schema of the output of [`write_raw`].
#[derive(Debug)]
pub(crate) enum Raw {}

impl JsonSchema for Raw {
    fn schema_name() -> Cow<'static, str> {
        "Raw".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let text = serde_json::json!({ "oneOf": [
            { "type": "string", "description": "The exact text." },
            { "type": "object", "required": ["base64"], "properties": { "base64": { "type": "string" } },
              "description": "Bytes that aren't valid UTF-8." },
            { "type": "object", "required": ["too_long"], "properties": { "too_long": { "type": "integer" } },
              "description": "The length in bytes of a line that is too long to return." },
        ] });
        let lines = serde_json::json!({ "type": ["array", "null"], "items": text });
        schemars::json_schema!({
            "description": "The files of a run. A missing or unreadable file is null.",
            "type": "object",
            "required": ["manifest", "steps", "events"],
            "properties": { "manifest": { "anyOf": [text, { "type": "null" }] }, "steps": lines, "events": lines },
        })
    }
}

/// Writes `{"manifest": text, "steps": [line, ...], "events": [line, ...]}`. A missing or
/// unreadable file is `null`. The run's issues tell which.
///
/// Lines have no line ends, like those of [`io::BufRead::split`], and are exact strings. A line
/// that isn't UTF-8 becomes `{"base64": text}`, and one that is too long to be held becomes
/// `{"too_long": bytes}`.
///
/// # Errors
/// Returns errors of reading a line or writing to `out`. The document is then truncated.
pub(crate) fn write_raw<W: Write, L: AsRef<[u8]>>(
    out: &mut W,
    manifest: Option<Result<Vec<u8>, u64>>,
    steps: Option<impl Iterator<Item = io::Result<Result<L, u64>>>>,
    events: Option<impl Iterator<Item = io::Result<Result<L, u64>>>>,
) -> io::Result<()> {
    out.write_all(b"{\"manifest\":")?;
    match manifest {
        Some(text) => write_bytes(out, &text)?,
        None => out.write_all(b"null")?,
    }
    out.write_all(b",\"steps\":")?;
    write_lines(out, steps)?;
    out.write_all(b",\"events\":")?;
    write_lines(out, events)?;
    out.write_all(b"}")
}

fn write_lines<W: Write, L: AsRef<[u8]>>(
    out: &mut W,
    lines: Option<impl Iterator<Item = io::Result<Result<L, u64>>>>,
) -> io::Result<()> {
    let Some(lines) = lines else {
        return out.write_all(b"null");
    };
    let mut before: &[u8] = b"[";
    for line in lines {
        out.write_all(before)?;
        write_bytes(out, &line?)?;
        before = b",";
    }
    out.write_all(if before == b"[" { b"[]" } else { b"]" })
}

fn write_bytes<W: Write, L: AsRef<[u8]>>(out: &mut W, bytes: &Result<L, u64>) -> io::Result<()> {
    let bytes = match bytes {
        Ok(bytes) => bytes.as_ref(),
        Err(len) => return write!(out, "{{\"too_long\":{len}}}"),
    };
    match std::str::from_utf8(bytes) {
        Ok(text) => serde_json::to_writer(out, text).map_err(io::Error::from),
        Err(_) => write!(
            out,
            "{{\"base64\":\"{}\"}}",
            Base64Display::new(bytes, &STANDARD)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_keeps_every_byte() {
        let lines = |lines: &[&'static [u8]]| {
            Some(
                lines
                    .iter()
                    .map(|line| Ok(Ok(*line)))
                    .collect::<Vec<_>>()
                    .into_iter(),
            )
        };
        let mut out = Vec::new();
        write_raw(
            &mut out,
            Some(Ok(b"{ }\n".to_vec())),
            lines(&[b"{\"a\": \"\xc3\xa9\"}\r", b"\xff"]),
            lines(&[]),
        )
        .unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"{"manifest":"{ }\n","steps":["{\"a\": \"é\"}\r",{"base64":"/w=="}],"events":[]}"#
        );
        let mut out = Vec::new();
        let long = || Some(std::iter::once(Ok(Err::<Vec<u8>, _>(9))));
        write_raw(&mut out, Some(Err(7)), long(), long()).unwrap();
        assert_eq!(
            out,
            br#"{"manifest":{"too_long":7},"steps":[{"too_long":9}],"events":[{"too_long":9}]}"#
        );
        let mut out = Vec::new();
        let none = None::<std::iter::Empty<io::Result<Result<Vec<u8>, u64>>>>;
        write_raw(&mut out, None, none.clone(), none).unwrap();
        assert_eq!(out, br#"{"manifest":null,"steps":null,"events":null}"#);
    }
}
