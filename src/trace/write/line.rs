//! Formats a record as one line: a JSON object without a line break for any kind of reader.

use std::io::Write as _;

use serde::Serialize;

use super::stamp::Stamper;
use crate::model::strict::{NonFinite, NotJson, write_json};

/// One line of `events.jsonl`.
#[derive(Debug, Clone, Copy)]
pub struct EventLine<'a, P> {
    /// The step that the event belongs to.
    pub step_id: u64,
    /// The phase, such as `DECIDE`.
    pub phase: &'a str,
    /// The stage of the phase, which is the first field of the payload. Empty for none.
    pub stage: &'a str,
    /// Whether the event reports success.
    pub ok: bool,
    /// Other fields of the payload: a struct or map without a field `stage`, or `()`.
    pub payload: P,
    /// The error message.
    pub error: Option<&'a str>,
    /// When it happened, in microseconds since the epoch. Not written if it isn't in the years 0 to
    /// 9999.
    pub ts: i64,
}

/// Appends an event as one JSON object, without its time if no RFC 3339 text can express it.
///
/// # Errors
/// Fails if the payload is neither a struct, a map nor `()`, or a value can't be JSON.
pub(super) fn event<P: Serialize>(
    event: &EventLine<'_, P>,
    stamper: &mut Stamper,
    out: &mut Vec<u8>,
) -> Result<(), NotJson> {
    out.extend_from_slice(br#"{"step_id":"#);
    number(event.step_id, out);
    out.extend_from_slice(br#","phase":"#);
    write_json(event.phase, NonFinite::Refuse, out)?;
    out.extend_from_slice(if event.ok {
        br#","ok":true,"payload":"#
    } else {
        br#","ok":false,"payload":"#
    });
    payload(event.stage, &event.payload, out).map_err(|fault| fault.inside("payload"))?;
    if let Some(error) = event.error {
        out.extend_from_slice(br#","error":"#);
        write_json(error, NonFinite::Refuse, out)?;
    }
    let end = out.len();
    out.extend_from_slice(br#","ts":""#);
    if stamper.write(event.ts, out) {
        out.push(b'"');
    } else {
        out.truncate(end);
    }
    out.push(b'}');
    Ok(())
}

/// Appends `{"stage": .., fields ..}`: first the stage, then the fields of `payload`.
fn payload<P: Serialize>(stage: &str, payload: &P, out: &mut Vec<u8>) -> Result<(), NotJson> {
    if !stage.is_empty() {
        out.extend_from_slice(br#"{"stage":"#);
        write_json(stage, NonFinite::Refuse, out)?;
    }
    let start = out.len();
    write_json(payload, NonFinite::Refuse, out)?;
    let written = out.get(start..).unwrap_or_default();
    let empty = match written.split_first() {
        Some((b'{', fields)) => fields.trim_ascii() == b"}",
        _ if written == b"null" => true,
        _ => {
            return Err(NotJson {
                path: String::new(),
                what: "has no fields".to_owned(),
            });
        }
    };
    if empty {
        out.truncate(start);
        out.extend_from_slice(if stage.is_empty() { b"{}" } else { b"}" });
    } else if let Some(brace) = out.get_mut(start).filter(|_| !stage.is_empty()) {
        *brace = b',';
    }
    Ok(())
}

fn number(value: u64, out: &mut Vec<u8>) {
    // Writing to memory can't fail.
    let _ = write!(out, "{value}");
}

/// Makes a JSON text a single line for every reader, and terminates it.
///
/// A line break can only occur between the values of raw JSON from elsewhere, where a space means
/// the same. U+0085, U+2028 and U+2029 can only occur inside strings, where an escape means the
/// same. Python's `splitlines`, which some readers use, would split the line there.
pub(super) fn end(line: &mut Vec<u8>) {
    if memchr::memchr2(b'\n', b'\r', line).is_some() {
        line.iter_mut()
            .filter(|letter| matches!(letter, b'\n' | b'\r'))
            .for_each(|letter| *letter = b' ');
    }
    // The first bytes of the three. Most lines contain neither.
    if memchr::memchr2(0xc2, 0xe2, line).is_some() {
        for (separator, escape) in [
            ("\u{85}", r"\u0085"),
            ("\u{2028}", r"\u2028"),
            ("\u{2029}", r"\u2029"),
        ] {
            if memchr::memmem::find(line, separator.as_bytes()).is_some() {
                *line = replaced(line, separator.as_bytes(), escape.as_bytes());
            }
        }
    }
    line.push(b'\n');
}

fn replaced(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 64);
    let mut rest = text;
    while let Some(at) = memchr::memmem::find(rest, from) {
        let (before, after) = rest.split_at(at);
        out.extend_from_slice(before);
        out.extend_from_slice(to);
        rest = after.get(from.len()..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out
}
