//! Compares two texts word by word, within the budget of a whole comparison.

use similar::{DiffOp, DiffTag};

use crate::analysis::edits::{edits, numbered};
use crate::analysis::number::{counted, grouped};

/// Longer texts aren't split into words; bytes.
const MAX_LEN: usize = 256 * 1024;

/// Whether a piece was added, removed or unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Exists only afterwards.
    Ins,
    /// Exists only before.
    Del,
    /// Exists on both sides: text around a change.
    Same,
}

/// The cost that one comparison may spend on alignments. Aligning n with m parts costs up to (n +
/// m)², so about 4,000 differing parts can be aligned. Equal beginnings and ends are free. The
/// budget is a count rather than a time, so that the same input always gives the same words.
const BUDGET: usize = 16_000_000;

/// The remaining budget.
pub(super) struct Budget(usize);

impl Budget {
    pub(super) fn new() -> Self {
        Self(BUDGET)
    }

    /// Takes the cost of aligning `parts` parts if enough is left. Returns whether it was.
    pub(super) fn take(&mut self, parts: usize) -> bool {
        let left = parts
            .checked_mul(parts)
            .and_then(|cost| self.0.checked_sub(cost));
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// The difference of two texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextChange<'a> {
    /// The texts share parts. Lists the parts in reading order, deleted ones before the ones that
    /// replace them.
    Edited(Vec<(Kind, &'a str)>),
    /// The whole text was replaced.
    Replaced {
        /// The text before.
        before: &'a str,
        /// The text afterwards.
        after: &'a str,
        /// Whether the texts were too long to search for shared parts.
        too_large: bool,
    },
}

impl TextChange<'_> {
    /// Returns `text, 2 words`: the larger of the numbers of added and removed words.
    pub(super) fn words(&self) -> String {
        match self {
            TextChange::Replaced {
                before,
                after,
                too_large: true,
            } => {
                let (before, after) = (grouped(before.len() as u64), grouped(after.len() as u64));
                format!("text replaced, {before} → {after} bytes")
            }
            TextChange::Replaced { .. } => "text".to_owned(),
            TextChange::Edited(parts) => {
                let count = |wanted: Kind| -> usize {
                    let parts = parts.iter().filter(|(kind, _)| *kind == wanted);
                    parts.map(|(_, text)| text.split_whitespace().count()).sum()
                };
                match count(Kind::Del).max(count(Kind::Ins)) {
                    0 => "text, only whitespace changed".to_owned(),
                    words => format!("text, {} changed", counted(words, "word")),
                }
            }
        }
    }
}

pub(super) fn change<'a>(before: &'a str, after: &'a str, budget: &mut Budget) -> TextChange<'a> {
    let replaced = |too_large| TextChange::Replaced {
        before,
        after,
        too_large,
    };
    if before.is_empty() || after.is_empty() {
        return replaced(false);
    }
    if before.len() > MAX_LEN || after.len() > MAX_LEN {
        return replaced(true);
    }
    let (old, new) = (tokens(before), tokens(after));
    let start = old
        .iter()
        .zip(&new)
        .take_while(|(old, new)| old == new)
        .count();
    let most = old.len().min(new.len()) - start;
    let end = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take(most)
        .take_while(|(old, new)| old == new)
        .count();
    let old_middle = old.get(start..old.len() - end).unwrap_or_default();
    let new_middle = new.get(start..new.len() - end).unwrap_or_default();
    let one_sided = old_middle.is_empty() || new_middle.is_empty();
    if !one_sided && !budget.take(old_middle.len() + new_middle.len()) {
        return replaced(true);
    }
    let mut runs = vec![Run {
        old: start,
        new: start,
        same: true,
    }];
    let (old_middle, new_middle) = numbered(old_middle.iter(), new_middle.iter());
    runs.extend(edits(&old_middle, &new_middle).into_iter().map(Run::of));
    runs.push(Run {
        old: end,
        new: end,
        same: true,
    });
    let parts = parts(before, after, &old, &new, &joined(&runs, &old));
    let kept: usize = parts
        .iter()
        .filter(|(kind, _)| *kind == Kind::Same)
        .map(|(_, text)| text.len())
        .sum();
    // If the texts share very little, a mixture of both is unreadable.
    if kept * 4 < before.len().min(after.len()) {
        replaced(false)
    } else {
        TextChange::Edited(parts)
    }
}

/// A series of tokens that are equal on both sides, or that replace each other. Holds the number of
/// tokens on each side.
#[derive(Clone, Copy)]
struct Run {
    old: usize,
    new: usize,
    same: bool,
}

impl Run {
    fn of(op: DiffOp) -> Self {
        let (tag, old, new) = op.as_tag_tuple();
        Self {
            old: old.len(),
            new: new.len(),
            same: tag == DiffTag::Equal,
        }
    }
}

/// Joins changes that are separated only by white space or punctuation, because they read as one.
fn joined(runs: &[Run], old: &[&str]) -> Vec<Run> {
    let mut out: Vec<Run> = Vec::with_capacity(runs.len());
    let mut at = 0;
    for (index, run) in runs.iter().enumerate() {
        let tokens = old.get(at..at + run.old).unwrap_or_default();
        at += run.old;
        let wordless = tokens.iter().all(|token| !token.contains(is_word));
        let joins = !run.same || (wordless && runs.get(index + 1).is_some_and(|next| !next.same));
        match out.last_mut() {
            Some(last) if !last.same && joins => {
                last.old += run.old;
                last.new += run.new;
            }
            _ => out.push(*run),
        }
    }
    out
}

fn parts<'a>(
    before: &'a str,
    after: &'a str,
    old: &[&str],
    new: &[&str],
    runs: &[Run],
) -> Vec<(Kind, &'a str)> {
    let mut parts = Vec::new();
    let (mut old, mut new) = (
        Source {
            text: before,
            tokens: old.iter(),
        },
        Source {
            text: after,
            tokens: new.iter(),
        },
    );
    for run in runs {
        let (gone, come) = (old.take(run.old), new.take(run.new));
        let sides = if run.same {
            [(Kind::Same, gone), (Kind::Ins, "")]
        } else {
            [(Kind::Del, gone), (Kind::Ins, come)]
        };
        parts.extend(sides.into_iter().filter(|(_, text)| !text.is_empty()));
    }
    parts
}

/// A text and its remaining tokens.
struct Source<'a, 't> {
    text: &'a str,
    tokens: std::slice::Iter<'t, &'t str>,
}

impl<'a> Source<'a, '_> {
    /// Takes the text of the next `count` tokens.
    fn take(&mut self, count: usize) -> &'a str {
        let len = self
            .tokens
            .by_ref()
            .take(count)
            .map(|token| token.len())
            .sum();
        let (taken, rest) = self.text.split_at_checked(len).unwrap_or((self.text, ""));
        self.text = rest;
        taken
    }
}

/// Returns whether `c` is part of a word: letters, digits, `_` and everything outside ASCII except
/// white space. An emoji of several characters must stay whole.
fn is_word(c: char) -> bool {
    (c.is_alphanumeric() || c == '_' || !c.is_ascii()) && !c.is_whitespace()
}

/// Splits a text into words, white space and single punctuation characters.
fn tokens(text: &str) -> Vec<&str> {
    let class = |c: char| match c {
        c if c.is_whitespace() => 0,
        c if is_word(c) => 1,
        _ => 2,
    };
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let kind = class(first);
        let len = match kind {
            2 => first.len_utf8(),
            _ => rest.find(|c| class(c) != kind).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at_checked(len).unwrap_or((rest, ""));
        out.push(token);
        rest = after;
    }
    out
}
