//! Writes a JSON value for a terminal: indented, exact and complete.
//!
//! A string is quoted if that needs no escapes. Otherwise it's a block of indented lines below `|`.
//! Small containers are written on one line. All text from a trace passes through `visible_line`,
//! so that it can't control the terminal.

use std::io::{self, Write};

use super::look::{Ink, Look};
use crate::analysis::format::visible_line;
use crate::model::json::Json;

/// The maximum length of a container that is written on one line, in bytes.
const INLINE: usize = 80;
/// A longer string is written as a block even without line breaks.
const LONG_STRING: usize = 100;

/// Writes `name: value` at `depth` levels of indentation.
pub(super) fn write(
    out: &mut dyn Write,
    depth: usize,
    name: &str,
    value: &Json<'_>,
    look: &Look,
) -> io::Result<()> {
    let indent = "  ".repeat(depth);
    let name = look.paint(Ink::Dim, &format!("{}:", visible_line(name)));
    match value {
        Json::String(text) if is_block(text) => {
            writeln!(out, "{indent}{name} |")?;
            block(out, depth + 1, text)
        }
        Json::Array(items) if !fits(value) => {
            writeln!(out, "{indent}{name}")?;
            items
                .iter()
                .enumerate()
                .try_for_each(|(at, item)| write(out, depth + 1, &format!("[{at}]"), item, look))
        }
        Json::Object(members) if !fits(value) => {
            writeln!(out, "{indent}{name}")?;
            members
                .iter()
                .try_for_each(|(key, value)| write(out, depth + 1, key, value, look))
        }
        _ => writeln!(out, "{indent}{name} {}", visible_line(&value.to_string())),
    }
}

/// Writes the lines of a text at `depth` levels of indentation.
pub(super) fn block(out: &mut dyn Write, depth: usize, text: &str) -> io::Result<()> {
    let indent = "  ".repeat(depth);
    text.split('\n').try_for_each(|line| {
        let line = visible_line(line);
        if line.is_empty() {
            writeln!(out)
        } else {
            writeln!(out, "{indent}{line}")
        }
    })
}

fn is_block(text: &str) -> bool {
    text.len() > LONG_STRING || text.contains(|c: char| c.is_control() || matches!(c, '"' | '\\'))
}

/// Returns whether a container fits on one line: it's short, and no string in it needs a block.
fn fits(value: &Json<'_>) -> bool {
    !holds_block(value) && value.to_string().len() <= INLINE
}

fn holds_block(value: &Json<'_>) -> bool {
    match value {
        Json::String(text) => is_block(text),
        Json::Array(items) => items.iter().any(holds_block),
        Json::Object(members) => members.iter().any(|(_, value)| holds_block(value)),
        _ => false,
    }
}
