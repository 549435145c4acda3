//! Groups runs and sums up each group. Returns one window of groups in list order, each with its
//! first runs.
//!
//! Makes two passes over all runs: one finds the groups and their order, and one sums up the groups
//! shown. When grouping by parent, a group is a run with all its descendants.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::Serialize;

use super::cursor::{self, Cursor, SortKey, place};
use super::{Selection, in_order, order, ranked};
use crate::analysis::calendar::Calendar;
use crate::analysis::columns::{COLUMNS, Column, Kind};
use crate::analysis::cost_shares::CostShares;
use crate::analysis::query::{Clock, Query, Sort};
use crate::analysis::run_result::{RunResult, ShownStatus};
use crate::analysis::summary::Summary;
use crate::analysis::task_text::TaskText;
use crate::model::Outcome;

mod by;
mod document;
mod family;
mod sum;
#[cfg(test)]
mod tests;

pub(crate) use by::{GROUPINGS, Grouping};
use document::Total;
use family::Family;
pub(crate) use family::Member;
pub(crate) use sum::Amount;
pub(crate) use sum::Sum;

/// One window of groups.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Groups<'a, T> {
    /// The number of runs.
    pub total: usize,
    /// The number of matching runs.
    pub matched: usize,
    /// The number of groups.
    pub count: usize,
    /// The number of groups before the window.
    pub before: usize,
    /// The window.
    pub groups: Vec<Group<'a, T>>,
    /// The cursor of the next window, or `None` if this is the last one.
    pub next: Option<String>,
    /// Whether `after` wasn't a cursor for this order, so that the window is the first one.
    pub after_ignored: bool,
}

/// Runs that belong together.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(bound = "T: AsRef<Summary>")]
#[schemars(rename = "GroupRow", bound = "T: AsRef<Summary>")]
pub(crate) struct Group<'a, T> {
    /// The value that they have in common.
    // Empty if they don't record one.
    #[serde(serialize_with = "document::name")]
    #[schemars(with = "Option<String>")]
    pub name: Cow<'a, str>,
    /// The key of the run that all of them descend from, if they are grouped by that.
    // `None` if that run isn't known.
    #[serde(rename = "key", serialize_with = "document::key")]
    #[schemars(with = "Option<String>")]
    pub head: Option<&'a T>,
    /// Whether the group is a single run without parent or children, so that it isn't presented as
    /// a group.
    #[serde(skip)]
    pub is_alone: bool,
    // The number of matching ones.
    pub(crate) runs: usize,
    pub(crate) failed: usize,
    /// The number of runs by result. A run that may still be running has none.
    pub results: BTreeMap<RunResult, usize>,
    /// The number of runs by status, as shown. Excludes runs that are still being read.
    #[serde(skip)]
    pub statuses: BTreeMap<ShownStatus, usize>,
    /// The number of runs that may still be running.
    pub alive: usize,
    /// The number of duplicates of these runs: files with the same records. They aren't included in
    /// any sum.
    #[serde(rename = "twins")]
    pub copies: usize,
    /// The number of runs that begin with steps copied from another run. Copied steps count only in
    /// that run.
    pub branches: usize,
    // In microseconds since the epoch.
    #[serde(rename = "updated_at", serialize_with = "document::time")]
    #[schemars(with = "Option<String>")]
    pub(crate) newest: Option<i64>,
    /// The total of each field.
    #[serde(serialize_with = "document::totals")]
    #[schemars(with = "BTreeMap<&str, Total>")]
    pub sums: Vec<(&'static Column, Sum)>,
    /// The first runs of the group.
    pub rows: Vec<Member<'a, T>>,
}

/// Selects a window of groups, and how many runs of each to return.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window<'a> {
    /// The maximum number of groups.
    pub limit: usize,
    /// The cursor after which the window starts.
    pub after: Option<&'a str>,
    /// The maximum number of runs per group.
    pub rows: usize,
}

impl<'a, T> Groups<'a, T> {
    /// Returns the runs shown as a flat list.
    pub(crate) fn selection(&self) -> Selection<'a, T> {
        Selection {
            total: self.total,
            matched: self.matched,
            before: self.before,
            rows: self
                .groups
                .iter()
                .flat_map(|group| group.rows.iter().map(|member| member.run))
                .collect(),
            next: self.next.clone(),
            after_ignored: self.after_ignored,
        }
    }
}

/// Groups the runs that match `query`. Groups are sorted by `sort`: by their sums if its column adds
/// up, periods by their time if it's one, otherwise by their first run.
pub(crate) fn groups<'a, T: AsRef<Summary>>(
    all: &'a [T],
    query: &Query,
    by: &Grouping,
    sort: Sort,
    window: Window<'_>,
    clock: &Clock,
) -> Groups<'a, T> {
    let family = by.is_parent().then(|| Family::of(all));
    let mut calendar = Calendar::new(clock.zone());
    let mut name_of = |at: usize, run: &'a Summary| match &family {
        Some(family) => Cow::Borrowed(family.top(at, all)),
        None => by.of(run, &mut calendar),
    };
    let runs = all.iter().map(AsRef::as_ref);
    let shares = CostShares::among(runs, |run| query.matches(run));
    let mut found: Vec<GroupKey<'a>> = Vec::new();
    let mut by_name: HashMap<Cow<'a, str>, usize> = HashMap::new();
    // The groups whose names ignore letter case.
    let mut by_text: HashMap<TaskText<'a>, usize> = HashMap::new();
    let mut group_of: Vec<Option<usize>> = Vec::with_capacity(all.len());
    for (at, run) in all.iter().enumerate() {
        let run = run.as_ref();
        if !query.matches(run) {
            group_of.push(None);
            continue;
        }
        let name = name_of(at, run);
        let group = match by_name.get(&name) {
            Some(group) => *group,
            None => {
                let text = match name {
                    Cow::Borrowed(name) if by.ignores_case() => Some(TaskText(name)),
                    _ => None,
                };
                let same = text.and_then(|text| by_text.get(&text).copied());
                let group = same.unwrap_or(found.len());
                match found.get_mut(group) {
                    // Of several spellings, the least one is shown, in any order of the runs.
                    Some(known) if name < known.name => known.name = name.clone(),
                    Some(_) => {}
                    None => found.push(GroupKey {
                        micros: by.micros(&name, clock),
                        name: name.clone(),
                        ..GroupKey::default()
                    }),
                }
                by_text.extend(text.map(|text| (text, group)));
                by_name.insert(name, group);
                group
            }
        };
        if let Some(found) = found.get_mut(group) {
            found.add(run, sort, &shares);
        }
        group_of.push(Some(group));
    }
    let matched = group_of.iter().flatten().count();
    let count = found.len();
    let mut ranked: Vec<(Option<SortKey<'a>>, &str, usize)> = found
        .iter()
        .enumerate()
        .map(|(at, found)| (found.place(sort), &*found.name, at))
        .collect();
    let cursor = window.after.map(|text| Cursor::parse(text, sort.by));
    if let Some(Some(cursor)) = &cursor {
        let end = (cursor.place(), cursor.key.as_str());
        ranked.retain(|(place, name, _)| order(sort, (*place, name), end) == Ordering::Greater);
    }
    let before = count - ranked.len();
    let more = ranked.len() > window.limit.max(1);
    ranked.sort_unstable_by(|a, b| order(sort, (a.0, a.1), (b.0, b.1)));
    ranked.truncate(window.limit.max(1));
    let next = ranked
        .last()
        .filter(|_| more)
        .map(|(place, name, _)| cursor::write(*place, name));

    let mut shown: Vec<Option<usize>> = vec![None; count];
    for (place, (.., group)) in ranked.iter().enumerate() {
        if let Some(shown) = shown.get_mut(*group) {
            *shown = Some(place);
        }
    }
    let mut groups: Vec<(Group<'a, T>, Vec<usize>)> = ranked
        .iter()
        .filter_map(|(.., at)| found.get(*at))
        .map(|found| (Group::new(found.name.clone()), Vec::new()))
        .collect();
    for (at, (run, group)) in all.iter().zip(&group_of).enumerate() {
        let place = group.and_then(|group| shown.get(group).copied().flatten());
        let Some((group, members)) = place.and_then(|place| groups.get_mut(place)) else {
            continue;
        };
        group.add(run.as_ref(), &shares);
        members.push(at);
    }
    let finish = |(mut group, members): (Group<'a, T>, Vec<usize>)| {
        group.rows = match &family {
            Some(family) => {
                group.head = family.run(&group.name).and_then(|at| all.get(at));
                let rows = family.rows(all, &members, sort, window.rows);
                let is_named = rows
                    .first()
                    .is_some_and(|row| group.name == row.run.as_ref().key.as_str());
                group.is_alone = group.runs == 1 && is_named;
                rows
            }
            None => first(all, &members, sort, window.rows),
        };
        group
    };
    let groups = groups.into_iter().map(finish).collect();
    Groups {
        total: all.len(),
        matched,
        count,
        before,
        groups,
        next,
        after_ignored: cursor == Some(None),
    }
}

/// A group with just the data that sorting needs.
#[derive(Debug, Clone, Default)]
struct GroupKey<'a> {
    name: Cow<'a, str>,
    /// The start of a period.
    micros: Option<f64>,
    sum: Sum,
    first: Option<SortKey<'a>>,
}

impl<'a> GroupKey<'a> {
    fn add(&mut self, run: &'a Summary, sort: Sort, shares: &CostShares<'_>) {
        if sort.by.sums {
            if !run.partial {
                self.sum.add(sort.by, run, shares);
            }
            return;
        }
        let place = place(run, sort.by);
        if sort.order(place, self.first) == Ordering::Less {
            self.first = place;
        }
    }

    fn place(&self, sort: Sort) -> Option<SortKey<'a>> {
        if sort.by.sums {
            (self.sum.known > 0).then_some(SortKey::Number(self.sum.amount))
        } else if matches!(sort.by.kind, Kind::Time(_)) {
            self.micros.map(SortKey::Number).or(self.first)
        } else {
            self.first
        }
    }
}

impl<'a, T> Group<'a, T> {
    fn new(name: Cow<'a, str>) -> Self {
        let sums = COLUMNS
            .iter()
            .filter(|column| column.sums)
            .map(|column| (column, Sum::default()))
            .collect();
        let (head, rows) = (None, Vec::new());
        Self {
            name,
            head,
            is_alone: false,
            runs: 0,
            failed: 0,
            results: BTreeMap::new(),
            statuses: BTreeMap::new(),
            alive: 0,
            copies: 0,
            branches: 0,
            newest: None,
            sums,
            rows,
        }
    }

    fn add(&mut self, run: &Summary, shares: &CostShares<'_>) {
        self.runs += 1;
        self.copies += run.relation.copies;
        self.branches += usize::from(run.copied_steps() > 0);
        self.failed += usize::from(run.verdict.outcome == Outcome::Failed && !run.partial);
        self.alive += usize::from(run.life.liveness.may_grow());
        self.newest = self.newest.max(run.updated);
        if let Some(result) = run.result() {
            *self.results.entry(result).or_default() += 1;
        }
        // The numbers of a run that is still being read aren't final. Totals of all runs leave them
        // out too.
        if run.partial {
            return;
        }
        *self.statuses.entry(run.shown_status()).or_default() += 1;
        self.sums
            .iter_mut()
            .for_each(|(column, sum)| sum.add(column, run, shares));
    }

    /// Describes runs that are stored several times: `+2 duplicates`. They aren't counted.
    pub(crate) fn copies_in_words(&self) -> String {
        match self.copies {
            1 => "+1 duplicate".to_owned(),
            copies => format!("+{copies} duplicates"),
        }
    }

    /// Describes runs that begin with steps of another run: `1 run begins with steps counted in
    /// another run`.
    pub(crate) fn branches_in_words(&self) -> String {
        match self.branches {
            1 => "1 run begins with steps counted in another run".to_owned(),
            runs => format!("{runs} runs begin with steps counted in other runs"),
        }
    }

    /// Returns the sum of its runs in a column.
    pub(crate) fn sum(&self, column: &Column) -> Option<&Sum> {
        self.sums
            .iter()
            .find(|(of, _)| *of == column)
            .map(|(_, sum)| sum)
    }
}

/// Returns the first `limit` of `members`.
fn first<'a, T: AsRef<Summary>>(
    all: &'a [T],
    members: &[usize],
    sort: Sort,
    limit: usize,
) -> Vec<Member<'a, T>> {
    let mut rows: Vec<_> = members
        .iter()
        .filter_map(|at| ranked(all, *at, sort))
        .collect();
    if rows.len() > limit {
        rows.select_nth_unstable_by(limit, in_order(sort));
        rows.truncate(limit);
    }
    rows.sort_unstable_by(in_order(sort));
    rows.iter()
        .map(|row| Member {
            run: row.run,
            depth: 0,
        })
        .collect()
}
