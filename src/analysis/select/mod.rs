//! Which runs does a query leave, and in which order? One window of them, and what all of them have in common.
//!
//! Everything works on [`Summary`]s in memory, in one pass over all runs with a query that is parsed once: ten thousand
//! runs take milliseconds. Pages, JSON and the terminal share it. It knows nothing of addresses or markup.

use std::cmp::Ordering;

use super::columns::StepSubject;
use super::query::{Query, Sort};
use super::summary::Summary;
use crate::model::Index;

mod cursor;
mod group;
#[cfg(test)]
pub(crate) mod sample;
mod subject;
mod survey;
#[cfg(test)]
mod tests;

pub use group::{Group, Groups, Member, Sum, Window, groups};
pub use survey::{End, Facets, Medians, Strip, Survey, survey};

use cursor::{Cursor, SortKey, place};

/// One window of the runs that match.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection<'a, T> {
    /// How many runs there are.
    pub total: usize,
    /// How many match.
    pub matched: usize,
    /// How many of those that match come before the window.
    pub before: usize,
    /// The window.
    pub rows: Vec<&'a T>,
    /// Where the next window begins; `None` where this is the last one.
    ///
    /// It names the last row's key and its value in the sorted column, not a position in the list. When runs come,
    /// go or move meanwhile, the next window still holds what is sorted behind that value: no run that stayed where
    /// it was is left out or shown twice.
    pub next: Option<String>,
    /// Whether `after` was no cursor of this order, so that the window is the first one.
    pub after_ignored: bool,
}

/// Takes the runs that match `query` in the order of `sort`, ties by key, and of these at most `limit` (at least one)
/// behind the cursor `after`, which is [`Selection::next`] of the window before in the same order.
pub fn select<'a, T: AsRef<Summary>>(
    all: &'a [T],
    query: &Query,
    sort: Sort,
    limit: usize,
    after: Option<&str>,
) -> Selection<'a, T> {
    let mut rows: Vec<Ranked<'a, T>> = all
        .iter()
        .filter_map(|run| Ranked::new(run, query, sort))
        .collect();
    let matched = rows.len();
    let cursor = after.map(|text| Cursor::parse(text, sort.by));
    if let Some(Some(cursor)) = &cursor {
        let at = (cursor.place(), cursor.key.as_str());
        rows.retain(|row| order(sort, (row.place, row.key), at) == Ordering::Greater);
    }
    let before = matched - rows.len();
    // Only the window is put into order: it is small, and the list may not be.
    let in_order =
        |a: &Ranked<'a, T>, b: &Ranked<'a, T>| order(sort, (a.place, a.key), (b.place, b.key));
    let limit = limit.max(1);
    let more = rows.len() > limit;
    if more {
        rows.select_nth_unstable_by(limit, in_order);
        rows.truncate(limit);
    }
    rows.sort_unstable_by(in_order);
    Selection {
        total: all.len(),
        matched,
        before,
        rows: rows.iter().map(|row| row.run).collect(),
        next: rows
            .last()
            .filter(|_| more)
            .map(|row| cursor::write(row.place, row.key)),
        after_ignored: cursor == Some(None),
    }
}

/// Whether `after` is a cursor of a list in this order.
pub fn is_cursor(after: &str, sort: Sort) -> bool {
    Cursor::parse(after, sort.by).is_some()
}

/// The ordinals of the steps that match `query`, rising.
pub fn matching_steps<'a>(index: &'a Index, query: &'a Query) -> impl Iterator<Item = usize> + 'a {
    let step = |ordinal| StepSubject::new(index, ordinal);
    (0..index.steps().len())
        .filter(move |ordinal| step(*ordinal).is_some_and(|step| query.matches(&step)))
}

/// A run and what it is sorted by.
struct Ranked<'a, T> {
    run: &'a T,
    place: Option<SortKey<'a>>,
    key: &'a str,
}

impl<'a, T: AsRef<Summary>> Ranked<'a, T> {
    fn new(run: &'a T, query: &Query, sort: Sort) -> Option<Self> {
        let summary = run.as_ref();
        query.matches(summary).then(|| Self {
            run,
            place: place(summary, sort.by),
            key: summary.key.as_str(),
        })
    }
}

/// Keys are distinct, so no two runs are equal and the order is the same however the runs came.
fn order(sort: Sort, a: (Option<SortKey<'_>>, &str), b: (Option<SortKey<'_>>, &str)) -> Ordering {
    sort.order(a.0, b.0).then_with(|| a.1.cmp(b.1))
}
