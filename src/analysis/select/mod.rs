//! Selects the runs that match a query, sorts them, and returns one window of them plus a survey of
//! all matches.
//!
//! Works on [`Summary`]s in memory, in one pass over all runs with a query that is parsed once. Ten
//! thousand runs take milliseconds. Pages, JSON and the terminal share it. It doesn't know
//! addresses or markup.

use std::cmp::Ordering;

use super::columns::StepSubject;
use super::query::{Query, Sort};
use super::summary::Summary;
use crate::model::Index;

mod cursor;
mod group;
mod no_status;
#[cfg(test)]
pub(crate) mod sample;
mod subject;
mod survey;
#[cfg(test)]
mod tests;

pub(crate) use group::Amount;
#[cfg(test)]
pub(crate) use group::Sum;
pub(crate) use group::{GROUPINGS, Group, Grouping, Groups, Member, Window, groups};
pub(crate) use no_status::no_such_status;
pub(crate) use survey::Adding;
pub(crate) use survey::{Survey, Total, survey};

use cursor::{Cursor, SortKey, place};

/// One window of the matching runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Selection<'a, T> {
    /// The number of runs.
    pub total: usize,
    /// The number of matching runs.
    pub matched: usize,
    /// The number of matching runs before the window.
    pub before: usize,
    /// The window.
    pub rows: Vec<&'a T>,
    /// The cursor of the next window, or `None` if this is the last one.
    ///
    /// It consists of the last row's key and its value in the sorted column, rather than a position
    /// in the list. If runs are added, removed or moved in the meantime, the next window still
    /// contains what sorts after that value. No unmoved run is skipped or repeated.
    pub next: Option<String>,
    /// Whether `after` wasn't a cursor for this order, so that the window is the first one.
    pub after_ignored: bool,
}

/// Selects the runs that match `query`, sorted by `sort` and then by key. Returns at most `limit`
/// runs (at least one) after the cursor `after`, which is [`Selection::next`] of the previous
/// window in the same order.
pub(crate) fn select<'a, T: AsRef<Summary>>(
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
    let limit = limit.max(1);
    let more = rows.len() > limit;
    // Sorts only the window, since it's small and the list may not be.
    if more {
        rows.select_nth_unstable_by(limit, in_order(sort));
        rows.truncate(limit);
    }
    rows.sort_unstable_by(in_order(sort));
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

/// Returns whether `after` is a cursor for a list in this order.
pub(crate) fn is_cursor(after: &str, sort: Sort) -> bool {
    Cursor::parse(after, sort.by).is_some()
}

/// Returns the ordinals of the steps that match `query`, ascending.
pub(crate) fn matching_steps<'a>(
    index: &'a Index,
    query: &'a Query,
) -> impl Iterator<Item = usize> + 'a {
    let step = |ordinal| StepSubject::new(index, ordinal);
    (0..index.steps().len())
        .filter(move |ordinal| step(*ordinal).is_some_and(|step| query.matches(&step)))
}

/// A run and its sort key.
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

/// Keys are unique, so no two runs are equal and the order doesn't depend on the input order.
fn order(sort: Sort, a: (Option<SortKey<'_>>, &str), b: (Option<SortKey<'_>>, &str)) -> Ordering {
    sort.order(a.0, b.0).then_with(|| a.1.cmp(b.1))
}

/// Returns the run at this position with its sort key.
fn ranked<'a, T: AsRef<Summary>>(all: &'a [T], at: usize, sort: Sort) -> Option<Ranked<'a, T>> {
    let run = all.get(at)?;
    let summary = run.as_ref();
    Some(Ranked {
        run,
        place: place(summary, sort.by),
        key: summary.key.as_str(),
    })
}

fn in_order<T: AsRef<Summary>>(sort: Sort) -> impl Fn(&Ranked<'_, T>, &Ranked<'_, T>) -> Ordering {
    move |a, b| order(sort, (a.place, a.key), (b.place, b.key))
}
