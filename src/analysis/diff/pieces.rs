//! A difference as a flat list of pieces, short enough to show.

use std::fmt::{self, Write};

use super::Change;
use super::text::TextChange;
use crate::model::json::Json;

/// How much of an unchanged text is shown before and after a change, in characters.
const CONTEXT: usize = 40;

/// Whether a piece came, went or stayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Only afterwards.
    Ins,
    /// Only before.
    Del,
    /// On both sides: text around a change.
    Same,
}

/// One piece of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Where, from the compared value on: `[2].status`; empty for the value itself. Pieces of one text share it.
    pub path: String,
    /// Whether it came, went or stayed.
    pub kind: Kind,
    /// What to show. A string without its quotes, unless it would be taken for something else.
    pub text: String,
    /// How many bytes more there are, which are not in `text`.
    pub left_out: usize,
}

/// The pieces of a difference.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pieces {
    /// As many as were asked for, in the order of the value.
    pub pieces: Vec<Piece>,
    /// How many more there are.
    pub more: usize,
}

impl Change<'_> {
    /// At most `limit` pieces, each cut after `max_len` bytes of text.
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

/// The path of a member: `plan.cost`, or `plan["a key"]` where the key is no plain word.
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

/// The path of an item: `plan[2]`.
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
            // Only the quotes tell "1" from 1.
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

    /// Shows the ends of an unchanged text that touch a change.
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
        // Writing to a string cannot fail, and a failing Display would leave what it wrote so far.
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

/// Whether `text` without its quotes would be taken for a number, a list, an object, nothing or a quoted text.
fn reads_as_json(text: &str) -> bool {
    let trimmed = text.trim();
    trimmed.is_empty()
        || trimmed.starts_with(['"', '[', '{'])
        || matches!(trimmed, "null" | "true" | "false")
        || trimmed.parse::<f64>().is_ok()
}

/// Keeps the first bytes of what is written and counts the rest, so that a large value is never built.
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
        // What follows a cut is left out as well, however short it is.
        self.room = if rest.is_empty() {
            self.room - kept.len()
        } else {
            0
        };
        Ok(())
    }
}
