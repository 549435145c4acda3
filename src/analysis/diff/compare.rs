//! Compares two values key by key and item by item.

use std::hash::{DefaultHasher, Hash, Hasher};

use similar::DiffOp;

use super::text::{self, Budget, TextChange};
use crate::analysis::edits::{edits, numbered};
use crate::model::json::{Json, hash, members, same};

/// The difference of two values. Unchanged parts are counted, not kept.
#[derive(Debug, Clone, PartialEq)]
pub enum Change<'a> {
    /// The values are equal.
    Same,
    /// The value exists only afterwards.
    Added(&'a Json<'a>),
    /// The value exists only before.
    Removed(&'a Json<'a>),
    /// A number changed.
    Number {
        /// The number before, as written.
        before: &'a str,
        /// The number afterwards, as written.
        after: &'a str,
    },
    /// A text changed.
    Text(TextChange<'a>),
    /// Both values are objects.
    Object(ObjectChange<'a>),
    /// Both values are lists.
    Array(ArrayChange<'a>),
    /// The values have no common parts: the types differ, a boolean changed, or they are nested too
    /// deep to compare.
    Value {
        /// The value before.
        before: &'a Json<'a>,
        /// The value afterwards.
        after: &'a Json<'a>,
    },
}

/// The difference of two objects.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectChange<'a> {
    /// The members that differ, by key. Never [`Change::Same`].
    pub members: Vec<(&'a str, Change<'a>)>,
    /// The number of keys with the same value on both sides.
    pub same: usize,
    /// The number of keys afterwards.
    pub len_after: usize,
}

/// The difference of two lists.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrayChange<'a> {
    /// The items that differ, in list order. Never [`Change::Same`].
    pub items: Vec<Item<'a>>,
    /// The number of items that both lists have.
    pub same: usize,
    /// The number of items afterwards.
    pub len_after: usize,
    /// Whether both lists hold the same items in a different order.
    pub reordered: bool,
    /// Whether the lists were too large to align, so that items were compared by position.
    pub by_position: bool,
}

/// One item of a list that differs.
#[derive(Debug, Clone, PartialEq)]
pub struct Item<'a> {
    /// The 0-based position afterwards, or the position before if the item was removed.
    pub index: usize,
    /// The difference.
    pub change: Change<'a>,
}

/// Values nested deeper than this are compared as a whole.
const MAX_DEPTH: usize = 32;

/// Compares two values.
pub fn diff<'a>(before: &'a Json<'a>, after: &'a Json<'a>) -> Change<'a> {
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
