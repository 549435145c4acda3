//! Compares two values: equality, alignment, and the budget that both share.

use std::hash::{DefaultHasher, Hash, Hasher};

use similar::DiffOp;

use super::text;
use super::{ArrayChange, Change, Item, ObjectChange};
use crate::analysis::edits::{edits, numbered};
use crate::model::json::{Json, hash, members, same};

/// Values nested deeper than this are compared as a whole.
const MAX_DEPTH: usize = 32;

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

pub(super) fn change<'a>(before: &'a Json<'a>, after: &'a Json<'a>) -> Change<'a> {
    at_depth(before, after, 0, &mut Budget::new())
}

fn at_depth<'a>(
    before: &'a Json<'a>,
    after: &'a Json<'a>,
    depth: usize,
    budget: &mut Budget,
) -> Change<'a> {
    match (before, after) {
        (Json::String(before), Json::String(after)) if before != after => {
            Change::Text(text::change(before, after, budget))
        }
        (Json::Array(before), Json::Array(after)) if depth < MAX_DEPTH => {
            array(before, after, depth, budget)
        }
        (Json::Object(_), Json::Object(_)) if depth < MAX_DEPTH => {
            object(before, after, depth, budget)
        }
        _ if same(before, after) => Change::Same,
        (Json::Number(before), Json::Number(after)) => Change::Number { before, after },
        _ => Change::Value { before, after },
    }
}

fn object<'a>(
    before: &'a Json<'a>,
    after: &'a Json<'a>,
    depth: usize,
    budget: &mut Budget,
) -> Change<'a> {
    let (before, after) = (members(before), members(after));
    let len_after = after.len();
    let (mut out, mut same) = (Vec::new(), 0);
    let (mut old, mut new) = (before.into_iter().peekable(), after.into_iter().peekable());
    loop {
        let order = match (old.peek(), new.peek()) {
            (Some((old, _)), Some((new, _))) => old.cmp(new),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => break,
        };
        let gone = if order.is_le() { old.next() } else { None };
        let come = if order.is_ge() { new.next() } else { None };
        match (gone, come) {
            (Some((key, before)), Some((_, after))) => {
                match at_depth(before, after, depth + 1, budget) {
                    Change::Same => same += 1,
                    change => out.push((key, change)),
                }
            }
            (Some((key, before)), None) => out.push((key, Change::Removed(before))),
            (None, Some((key, after))) => out.push((key, Change::Added(after))),
            (None, None) => {}
        }
    }
    if out.is_empty() {
        Change::Same
    } else {
        Change::Object(ObjectChange {
            members: out,
            same,
            len_after,
        })
    }
}

fn array<'a>(
    before: &'a [Json<'a>],
    after: &'a [Json<'a>],
    depth: usize,
    budget: &mut Budget,
) -> Change<'a> {
    let (old, new) = numbered(before.iter().map(Hashed::of), after.iter().map(Hashed::of));
    let start = old
        .iter()
        .zip(&new)
        .take_while(|(old, new)| old == new)
        .count();
    let (old, new) = (
        old.get(start..).unwrap_or_default(),
        new.get(start..).unwrap_or_default(),
    );
    let end = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take_while(|(old, new)| old == new)
        .count();
    let (old, new) = (
        old.get(..old.len() - end).unwrap_or_default(),
        new.get(..new.len() - end).unwrap_or_default(),
    );
    if old.is_empty() && new.is_empty() {
        return Change::Same;
    }
    let reordered = sorted(old) == sorted(new);
    let mut by_position = false;
    let ops = if old.is_empty() || new.is_empty() || budget.take(old.len() + new.len()) {
        edits(old, new)
    } else {
        by_position = true;
        vec![DiffOp::Replace {
            old_index: 0,
            old_len: old.len(),
            new_index: 0,
            new_len: new.len(),
        }]
    };
    let mut walk = Walk {
        before,
        after,
        start,
        depth,
        items: Vec::new(),
        same: start + end,
    };
    for op in ops {
        walk.op(op, reordered && !by_position, budget);
    }
    let Walk { items, same, .. } = walk;
    Change::Array(ArrayChange {
        items,
        same,
        len_after: after.len(),
        reordered,
        by_position,
    })
}

/// Turns the operations of an alignment into changes of items.
struct Walk<'a> {
    before: &'a [Json<'a>],
    after: &'a [Json<'a>],
    start: usize,
    depth: usize,
    items: Vec<Item<'a>>,
    same: usize,
}

impl<'a> Walk<'a> {
    fn op(&mut self, op: DiffOp, moved: bool, budget: &mut Budget) {
        let (tag, old, new) = op.as_tag_tuple();
        if tag == similar::DiffTag::Equal {
            self.same += old.len();
            return;
        }
        // An item that moved isn't a change of the item whose position it took.
        let pairs = if moved { 0 } else { old.len().min(new.len()) };
        let (before, after) = (self.before, self.after);
        let old = (old.start + self.start)..(old.end + self.start);
        let new = (new.start + self.start)..(new.end + self.start);
        for (from, to) in old.clone().zip(new.clone()).take(pairs) {
            if let (Some(before), Some(after)) = (before.get(from), after.get(to)) {
                match at_depth(before, after, self.depth + 1, budget) {
                    Change::Same => self.same += 1,
                    change => self.items.push(Item { index: to, change }),
                }
            }
        }
        let gone = old
            .skip(pairs)
            .filter_map(|index| Some((index, Change::Removed(before.get(index)?))));
        let come = new
            .skip(pairs)
            .filter_map(|index| Some((index, Change::Added(after.get(index)?))));
        self.items.extend(
            gone.chain(come)
                .map(|(index, change)| Item { index, change }),
        );
    }
}

fn sorted(numbers: &[u64]) -> Vec<u64> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers
}

/// A value with its precomputed hash.
struct Hashed<'a> {
    hash: u64,
    value: &'a Json<'a>,
}

impl<'a> Hashed<'a> {
    fn of(value: &'a Json<'a>) -> Self {
        let mut hasher = DefaultHasher::new();
        hash(value, &mut hasher);
        Self {
            hash: hasher.finish(),
            value,
        }
    }
}

impl Hash for Hashed<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

impl PartialEq for Hashed<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && same(self.value, other.value)
    }
}

impl Eq for Hashed<'_> {}
