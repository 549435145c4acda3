//! Turns a difference into a flat list of pieces, short enough to show.

use std::fmt::{self, Write};

use super::compare::Change;
use super::text::{Kind, TextChange};
use crate::model::json::Json;

/// The length of unchanged text shown before and after a change; characters.
const CONTEXT: usize = 40;

/// One piece of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The path from the compared value: `[2].status`; empty for the value itself. All pieces of
    /// one text have the same path.
    pub path: String,
    /// Whether the piece was added, removed or unchanged.
    pub kind: Kind,
    /// The text to show. A string has no quotes, unless it would be mistaken for another type
    /// without them.
    pub text: String,
    /// The number of bytes that `text` leaves out.
    pub left_out: usize,
}

/// The pieces of a difference.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pieces {
    /// The requested number of pieces, in the order of the value.
    pub pieces: Vec<Piece>,
    /// The number of further pieces.
    pub more: usize,
}

impl Change<'_> {
    /// Returns at most `limit` pieces, each with at most `max_len` bytes of text.
    pub fn pieces(&self, limit: usize, max_len: usize) -> Pieces {
        let mut list = List {
            out: Pieces::default(),
            limit,
            max_len,
        };
        list.change("", self);
        list.out
    }
}

/// Returns the path of a member: `plan.cost`, or `plan["a key"]` if the key isn't a plain word.
pub(super) fn member(path: &str, key: &str) -> String {
    let plain = !key.is_empty()
        && key
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    match (plain, path.is_empty()) {
        (_, true) => key.to_owned(),
        (true, false) => format!("{path}.{key}"),
        (false, false) => format!("{path}[{}]", Json::String(key.into())),
    }
}

/// Returns the path of an item: `plan[2]`.
pub(super) fn item(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}

struct List {
    out: Pieces,
    limit: usize,
    max_len: usize,
}

impl List {
    fn change(&mut self, path: &str, change: &Change<'_>) {
        match change {
            Change::Same => {}
            Change::Added(value) => self.value(path, Kind::Ins, value, false),
            Change::Removed(value) => self.value(path, Kind::Del, value, false),
            Change::Number { before, after } => {
                self.push(path, Kind::Del, before);
                self.push(path, Kind::Ins, after);
            }
            // Only the quotes distinguish "1" from 1.
            Change::Value { before, after } => {
                self.value(path, Kind::Del, before, true);
                self.value(path, Kind::Ins, after, true);
            }
            Change::Text(TextChange::Replaced { before, after, .. }) => {
                self.text(path, Kind::Del, before);
                self.text(path, Kind::Ins, after);
            }
            Change::Text(TextChange::Edited(parts)) => {
                for (index, (kind, text)) in parts.iter().enumerate() {
                    match kind {
                        Kind::Same => {
                            self.context(path, text, index == 0, index + 1 == parts.len())
                        }
                        kind => self.push(path, *kind, text),
                    }
                }
            }
            Change::Object(object) => {
                for (key, change) in &object.members {
                    self.change(&member(path, key), change);
                }
            }
            Change::Array(array) => {
                for part in &array.items {
                    self.change(&item(path, part.index), &part.change);
                }
            }
        }
    }

    fn value(&mut self, path: &str, kind: Kind, value: &Json<'_>, as_json: bool) {
        match value {
            Json::String(text) if !as_json => self.text(path, kind, text),
            value => self.push(path, kind, value),
        }
    }

    fn text(&mut self, path: &str, kind: Kind, text: &str) {
        if reads_as_json(text) {
            self.push(path, kind, &Json::String(text.into()));
        } else {
            self.push(path, kind, text);
        }
    }

    /// Adds the ends of an unchanged text that are next to a change.
    fn context(&mut self, path: &str, text: &str, first: bool, last: bool) {
        let from_start = |count: usize| text.char_indices().nth(count).map(|(at, _)| at);
        let from_end = |count: usize| text.char_indices().rev().nth(count - 1).map(|(at, _)| at);
        let head = if first { Some(0) } else { from_start(CONTEXT) };
        let tail = if last {
            Some(text.len())
        } else {
            from_end(CONTEXT)
        };
        match (head, tail) {
            (Some(head), Some(tail)) if head < tail => {
                let (start, end) = (
                    text.get(..head).unwrap_or_default(),
                    text.get(tail..).unwrap_or_default(),
                );
                self.cut(
                    path,
                    Kind::Same,
                    &format_args!("{start}…{end}"),
                    tail - head,
                );
            }
            _ => self.push(path, Kind::Same, text),
        }
    }

    fn push(&mut self, path: &str, kind: Kind, shown: &(impl fmt::Display + ?Sized)) {
        self.cut(path, kind, shown, 0);
    }

    fn cut(
        &mut self,
        path: &str,
        kind: Kind,
        shown: &(impl fmt::Display + ?Sized),
        left_out: usize,
    ) {
        if self.out.pieces.len() >= self.limit {
            self.out.more += 1;
            return;
        }
        let mut capped = Capped {
            text: String::new(),
            room: self.max_len,
            left_out,
        };
        // Writing to a string can't fail. A failing `Display` would leave the text written so far.
        let _ = write!(capped, "{shown}");
        let Capped { text, left_out, .. } = capped;
        self.out.pieces.push(Piece {
            path: path.to_owned(),
            kind,
            text,
            left_out,
        });
    }
}

/// Returns whether `text` without quotes would be mistaken for a number, a list, an object, `null`,
/// a boolean, an empty value or a quoted text.
fn reads_as_json(text: &str) -> bool {
    let trimmed = text.trim();
    trimmed.is_empty()
        || trimmed.starts_with(['"', '[', '{'])
        || matches!(trimmed, "null" | "true" | "false")
        || trimmed.parse::<f64>().is_ok()
}

/// Keeps the first bytes of the written text and counts the rest, so that a large value is never
/// built.
struct Capped {
    text: String,
    room: usize,
    left_out: usize,
}

impl Write for Capped {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let (kept, rest) = part
            .split_at_checked(part.floor_char_boundary(self.room))
            .unwrap_or((part, ""));
        self.text.push_str(kept);
        self.left_out += rest.len();
        // Everything after a cut is left out too, however short it is.
        self.room = if rest.is_empty() {
            self.room - kept.len()
        } else {
            0
        };
        Ok(())
    }
}
