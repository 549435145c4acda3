//! Compares two JSON values: the state diff of a step, in words and in pieces.
//!
//! A trace records the whole value before and after. One new line in a list of 800 must read as one
//! new line. Objects are compared key by key, lists by aligning equal items, texts word by word.
//! All comparisons have limits. The result shows when a limit was reached instead of guessing.
//!
//! Must not know pages. The terminal shows the same words.

use super::number::{counted, grouped};
use crate::model::json::Json;

mod compare;
mod pieces;
#[cfg(test)]
mod tests;
mod text;

pub use compare::{ArrayChange, Change, Item, ObjectChange, diff};
pub use pieces::{Piece, Pieces};
pub use text::{Kind, TextChange};

pub use crate::model::json::same;

pub use crate::model::redact::BLANK as REDACTED;

/// Compares two texts word by word.
pub(super) fn words<'a>(before: &'a str, after: &'a str) -> TextChange<'a> {
    text::change(before, after, &mut text::Budget::new())
}

/// One entry of a step's state diff.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyChange<'a> {
    /// The key of the state; empty if the state diff itself isn't an object.
    pub key: &'a str,
    /// What is recorded for the key.
    pub what: What<'a>,
}

/// The content of an entry of a state diff.
#[derive(Debug, Clone, PartialEq)]
pub enum What<'a> {
    /// A value before and after.
    Changed {
        /// The difference.
        change: Change<'a>,
        /// Whether the missing side was written as `null`. The writer does that both for a key that
        /// didn't exist and for a value that was `null`, so the two can't be distinguished.
        or_null: bool,
    },
    /// The writer redacted the entry. The value changed, and nothing else is known.
    Redacted,
    /// Something other than a value before and after.
    Odd(&'a Json<'a>),
}

/// Reads the `state_diff` of a step. The keys are in alphabetical order, because their order in the
/// file is random.
pub fn changes_of_step<'a>(state_diff: &'a Json<'a>) -> Vec<KeyChange<'a>> {
    match state_diff {
        Json::Null => Vec::new(),
        Json::Object(_) => {
            let entry = |(key, entry)| KeyChange {
                key,
                what: what(entry),
            };
            crate::model::json::members(state_diff)
                .into_iter()
                .map(entry)
                .collect()
        }
        odd => vec![KeyChange {
            key: "",
            what: what(odd),
        }],
    }
}

fn what<'a>(entry: &'a Json<'a>) -> What<'a> {
    if entry.as_str() == Some(REDACTED) {
        return What::Redacted;
    }
    let changed = |change, or_null| What::Changed { change, or_null };
    match (entry.get("before"), entry.get("after")) {
        (None, None) => What::Odd(entry),
        (Some(before), Some(after))
            if [before, after]
                .iter()
                .all(|side| side.as_str() == Some(REDACTED)) =>
        {
            What::Redacted
        }
        (Some(Json::Null), Some(Json::Null)) => changed(Change::Same, false),
        (Some(Json::Null), Some(after)) => changed(Change::Added(after), true),
        (Some(before), Some(Json::Null)) => changed(Change::Removed(before), true),
        (Some(before), Some(after)) => changed(diff(before, after), false),
        (None, Some(after)) => changed(Change::Added(after), false),
        (Some(before), None) => changed(Change::Removed(before), false),
    }
}

impl KeyChange<'_> {
    /// Returns the path and the words of a row: `plan_steps[2]` and `1 of 3 fields changed`.
    ///
    /// If only one item of a list changed inside, the path continues into it, because the words
    /// then say more.
    pub fn row(&self) -> (String, String) {
        let path = pieces::member("", self.key);
        match &self.what {
            What::Redacted => (path, "changed, redacted".to_owned()),
            What::Odd(_) => (
                path,
                "the values before and after aren't recorded".to_owned(),
            ),
            What::Changed {
                change: Change::Added(_),
                or_null: true,
            } => (path, "set".to_owned()),
            What::Changed {
                change: Change::Removed(_),
                or_null: true,
            } => (path, "cleared".to_owned()),
            What::Changed { change, .. } => {
                let (path, change) = change.narrowed(path);
                (path, change.words())
            }
        }
    }

    /// Returns at most `limit` pieces of the difference, each with at most `max_len` bytes of text.
    pub fn pieces(&self, limit: usize, max_len: usize) -> Pieces {
        match &self.what {
            What::Redacted => Pieces::default(),
            What::Odd(value) => Change::Added(value).pieces(limit, max_len),
            What::Changed { change, .. } => change.narrowed(String::new()).1.pieces(limit, max_len),
        }
    }
}

impl<'a> Change<'a> {
    /// Descends into lists as long as the only difference is inside one item.
    fn narrowed(&self, mut path: String) -> (String, &Change<'a>) {
        let mut change = self;
        while let Change::Array(array) = change
            && let [item] = array.items.as_slice()
            && !matches!(item.change, Change::Added(_) | Change::Removed(_))
        {
            path = pieces::item(&path, item.index);
            change = &item.change;
        }
        (path, change)
    }

    /// Describes the difference in a few words: `list, +2 items → 10`, `number, +1`, `text, 2
    /// words`.
    pub fn words(&self) -> String {
        match self {
            Change::Same => "no visible change".to_owned(),
            Change::Added(_) => "new".to_owned(),
            Change::Removed(_) => "removed".to_owned(),
            Change::Number { before, after } => match delta(before, after) {
                Some(delta) => format!("number, {delta}"),
                None => "number".to_owned(),
            },
            Change::Text(text) => text.words(),
            Change::Object(object) => object.words(),
            Change::Array(array) => array.words(),
            Change::Value { before, after } => match (kind(before), kind(after)) {
                (a, b) if a != b => format!("type {a} → {b}"),
                ("boolean", _) => format!("{before} → {after}"),
                (a, _) => format!("{a}, too deeply nested to compare"),
            },
        }
    }
}

/// The numbers of parts that were added, removed or changed inside a container.
struct Counts {
    added: usize,
    removed: usize,
    changed: usize,
}

impl Counts {
    fn of<'c, 'a: 'c>(changes: impl Iterator<Item = &'c Change<'a>>) -> Self {
        let mut counts = Counts {
            added: 0,
            removed: 0,
            changed: 0,
        };
        for change in changes {
            match change {
                Change::Added(_) => counts.added += 1,
                Change::Removed(_) => counts.removed += 1,
                _ => counts.changed += 1,
            }
        }
        counts
    }

    fn words(&self, kind: &str, noun: &str, same: usize, len_after: usize) -> String {
        let mut parts = Vec::new();
        if self.changed > 0 {
            parts.push(format!(
                "{} of {} changed",
                grouped(self.changed as u64),
                counted(self.changed + same, noun)
            ));
        }
        if self.added + self.removed > 0 {
            let signed = |sign: &str, n: usize| {
                if n > 0 {
                    format!("{sign}{} ", grouped(n as u64))
                } else {
                    String::new()
                }
            };
            let noun = if self.added + self.removed == 1 {
                noun.to_owned()
            } else {
                format!("{noun}s")
            };
            let (plus, minus) = (signed("+", self.added), signed("−", self.removed));
            parts.push(format!(
                "{plus}{minus}{noun} → {}",
                grouped(len_after as u64)
            ));
        }
        match (kind, self.added + self.removed) {
            // "1 of 3 fields changed" can only refer to an object.
            ("object", 0) => parts.join(", "),
            _ => format!("{kind}, {}", parts.join(", ")),
        }
    }
}

impl ObjectChange<'_> {
    fn words(&self) -> String {
        let counts = Counts::of(self.members.iter().map(|(_, change)| change));
        counts.words("object", "field", self.same, self.len_after)
    }
}

impl ArrayChange<'_> {
    fn words(&self) -> String {
        if self.reordered {
            return format!("list, same {}, reordered", counted(self.len_after, "item"));
        }
        let counts = Counts::of(self.items.iter().map(|item| &item.change));
        let words = counts.words("list", "item", self.same, self.len_after);
        let honest = if self.by_position {
            ", too large to align: compared by position"
        } else {
            ""
        };
        format!("{words}{honest}")
    }
}

/// Returns the common name of a value's type.
fn kind(value: &Json<'_>) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "text",
        Json::Array(_) => "list",
        Json::Object(_) => "object",
        Json::Deep(raw) if raw.starts_with('[') => "list",
        Json::Deep(raw) if raw.starts_with('{') => "object",
        Json::Deep(_) => "text",
    }
}

/// Returns the signed difference of two decimal numbers: exact, or rounded to six places and marked
/// with `≈`. Returns `None` if either number has an exponent or too many digits, or if they are
/// equal.
fn delta(before: &str, after: &str) -> Option<String> {
    let (a, b) = (Decimal::parse(before)?, Decimal::parse(after)?);
    let scale = a.scale.max(b.scale);
    let mut digits = b.scaled(scale)?.checked_sub(a.scaled(scale)?)?;
    let mut scale = scale;
    while scale > 0 && digits % 10 == 0 {
        digits /= 10;
        scale -= 1;
    }
    let mut about = "";
    if scale > PLACES {
        let unit = 10_i128.checked_pow(scale - PLACES)?;
        digits = (digits + digits.signum() * unit / 2) / unit;
        scale = PLACES;
        about = "≈ ";
        while scale > 0 && digits % 10 == 0 {
            digits /= 10;
            scale -= 1;
        }
    }
    if digits == 0 {
        return None;
    }
    let one = 10_u128.checked_pow(scale)?;
    let (whole, rest) = (digits.unsigned_abs() / one, digits.unsigned_abs() % one);
    let whole = u64::try_from(whole).map_or_else(|_| whole.to_string(), grouped);
    let fraction = if scale > 0 {
        format!(".{rest:0width$}", width = scale as usize)
    } else {
        String::new()
    };
    let sign = if digits < 0 { '−' } else { '+' };
    Some(format!("{about}{sign}{whole}{fraction}"))
}

/// The maximum number of decimals in a difference.
const PLACES: u32 = 6;

/// A decimal number: `digits` divided by ten to the power of `scale`.
struct Decimal {
    digits: i128,
    scale: u32,
}

impl Decimal {
    fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = format!("{whole}{fraction}").parse().ok()?;
        Some(Self {
            digits,
            scale: u32::try_from(fraction.len()).ok()?,
        })
    }

    fn scaled(&self, scale: u32) -> Option<i128> {
        self.digits
            .checked_mul(10_i128.checked_pow(scale - self.scale)?)
    }
}
