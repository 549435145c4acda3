//! Which runs belong together, and what do they add up to? Groups in the order of the list, a window of them at a time, each
//! with its first runs.
//!
//! Two passes over all runs: one finds the groups and their order, one adds up those that are shown. Where runs are put
//! together by their parents, a group is a run with all that it started, directly or not.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::cursor::{self, Cursor, SortKey, place};
use super::{Ranked, Selection, order};
use crate::analysis::columns::{COLUMNS, Column, Kind, PARENT, Value};
use crate::analysis::query::{Query, Sort};
use crate::analysis::summary::{Cost, Summary};
use crate::model::Outcome;

mod family;
#[cfg(test)]
mod tests;

use family::Family;

/// One window of groups.
#[derive(Debug, Clone, PartialEq)]
pub struct Groups<'a, T> {
    /// How many runs there are.
    pub total: usize,
    /// How many match.
    pub matched: usize,
    /// How many groups these are in.
    pub count: usize,
    /// How many groups come before the window.
    pub before: usize,
    /// The window.
    pub groups: Vec<Group<'a, T>>,
    /// Where the next window begins; `None` where this is the last one.
    pub next: Option<String>,
    /// Whether `after` was no cursor of this order, so that the window is the first one.
    pub after_ignored: bool,
}

/// Runs that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct Group<'a, T> {
    /// What they have in common; empty where they do not record it.
    pub name: &'a str,
    /// The run that all of them descend from, where they are put together so and it is on the board.
    pub head: Option<&'a T>,
    /// Whether it is one run that no other run started or is started by, so that nothing is to be said of it as a group.
    pub is_alone: bool,
    /// How many match.
    pub runs: usize,
    /// How many of them failed.
    pub failed: usize,
    /// How many of them may still write.
    pub alive: usize,
    /// How many files hold copies of these runs: they are in no sum, and no runs of the group.
    pub copies: usize,
    /// How many begin with steps that are copied from another run: these count in that one.
    pub branches: usize,
    /// The newest change.
    pub newest: Option<i64>,
    /// What they add up to, by column.
    pub sums: Vec<(&'static Column, Sum)>,
    /// The first of them.
    pub rows: Vec<Member<'a, T>>,
}

/// A run in its group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Member<'a, T> {
    /// The run.
    pub run: &'a T,
    /// How far it stands below a run of the group that started it.
    pub depth: usize,
}

/// What runs add up to.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sum {
    /// The sum of what is known.
    pub amount: f64,
    /// Of how many runs.
    pub known: usize,
    /// Of how many it is known that they took more than they say.
    pub least: usize,
    /// Whether an estimate is among them.
    pub is_estimate: bool,
}

/// Which groups are wanted, and how many runs of each.
#[derive(Debug, Clone, Copy)]
pub struct Window<'a> {
    /// At most so many groups.
    pub limit: usize,
    /// The cursor behind which they stand.
    pub after: Option<&'a str>,
    /// At most so many runs of each.
    pub rows: usize,
}

impl<'a, T> Groups<'a, T> {
    /// The runs that are shown, as a list of their own.
    pub fn selection(&self) -> Selection<'a, T> {
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

impl Sum {
    fn add(&mut self, column: &Column, run: &Summary) {
        let Some(number) = column.value(run) else {
            return;
        };
        let amount = match number {
            Value::Count(number) => number as f64,
            Value::Millis(ms) => ms,
            Value::Usd(cost) => {
                self.is_estimate |= matches!(cost, Cost::Estimated(_));
                cost.usd()
            }
            _ => return,
        };
        if amount.is_finite() {
            self.amount += amount;
            self.known += 1;
            self.least += usize::from(column.is_least(run));
            self.is_estimate |= column.is_estimate(run);
        }
    }

    /// Of how many of its group's runs it holds all that they took.
    pub fn counted(&self) -> usize {
        self.known - self.least
    }

    /// The sum as a value of its column; `None` where no run has one.
    pub fn value(&self, column: &Column) -> Option<Value<'static>> {
        match column.kind {
            _ if self.known == 0 => None,
            Kind::Count(_) => Some(Value::Count(self.amount as i64)),
            Kind::Millis(_) => Some(Value::Millis(self.amount)),
            Kind::Usd(_) if self.is_estimate => Some(Value::Usd(Cost::Estimated(self.amount))),
            Kind::Usd(_) => Some(Value::Usd(Cost::Recorded(self.amount))),
            _ => None,
        }
    }
}

/// Puts the runs that match `query` together by the column `by`. Groups are in the order of `sort`: where its column adds
/// up by what the runs of each come to, else by the run that comes first.
pub fn groups<'a, T: AsRef<Summary>>(
    all: &'a [T],
    query: &Query,
    by: &'static Column,
    sort: Sort,
    window: Window<'_>,
) -> Groups<'a, T> {
    let family = (*by == *PARENT).then(|| Family::of(all));
    let name_of = |at: usize, run: &'a Summary| match &family {
        Some(family) => family.top(at, all),
        None => text(by, run),
    };
    let mut found: Vec<GroupKey<'a>> = Vec::new();
    let mut by_name: HashMap<&'a str, usize> = HashMap::new();
    let mut group_of: Vec<Option<usize>> = Vec::with_capacity(all.len());
    for (at, run) in all.iter().enumerate() {
        let run = run.as_ref();
        if !query.matches(run) {
            group_of.push(None);
            continue;
        }
        let name = name_of(at, run);
        let group = *by_name.entry(name).or_insert_with(|| {
            found.push(GroupKey {
                name,
                ..GroupKey::default()
            });
            found.len() - 1
        });
        if let Some(found) = found.get_mut(group) {
            found.add(run, sort);
        }
        group_of.push(Some(group));
    }
    let matched = group_of.iter().flatten().count();
    let count = found.len();
    let mut ranked: Vec<(Option<SortKey<'a>>, &'a str, usize)> = found
        .iter()
        .enumerate()
        .map(|(at, found)| (found.place(sort), found.name, at))
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
        .map(|(_, name, _)| (Group::new(name), Vec::new()))
        .collect();
    for (at, (run, group)) in all.iter().zip(&group_of).enumerate() {
        let place = group.and_then(|group| shown.get(group).copied().flatten());
        let Some((group, members)) = place.and_then(|place| groups.get_mut(place)) else {
            continue;
        };
        group.add(run.as_ref());
        members.push(at);
    }
    let finish = |(mut group, members): (Group<'a, T>, Vec<usize>)| {
        group.rows = match &family {
            Some(family) => {
                group.head = family.run(group.name).and_then(|at| all.get(at));
                let rows = family.rows(all, &members, sort, window.rows);
                let is_named = rows
                    .first()
                    .is_some_and(|row| row.run.as_ref().key.as_str() == group.name);
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

/// What a run has in a column of texts.
fn text<'a>(by: &Column, run: &'a Summary) -> &'a str {
    match by.value(run) {
        Some(Value::Text(text)) => text,
        _ => "",
    }
}

/// A group as far as its place in the list needs it.
#[derive(Debug, Clone, Copy, Default)]
struct GroupKey<'a> {
    name: &'a str,
    sum: Sum,
    first: Option<SortKey<'a>>,
}

impl<'a> GroupKey<'a> {
    fn add(&mut self, run: &'a Summary, sort: Sort) {
        if sort.by.sums {
            self.sum.add(sort.by, run);
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
        } else {
            self.first
        }
    }
}

impl<'a, T> Group<'a, T> {
    fn new(name: &'a str) -> Self {
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
            alive: 0,
            copies: 0,
            branches: 0,
            newest: None,
            sums,
            rows,
        }
    }

    fn add(&mut self, run: &Summary) {
        self.runs += 1;
        self.copies += run.relation.copies;
        self.branches += usize::from(run.copied_steps() > 0);
        self.failed += usize::from(run.verdict.outcome == Outcome::Failed && !run.partial);
        self.alive += usize::from(run.life.liveness.may_grow());
        self.newest = self.newest.max(run.updated);
        self.sums
            .iter_mut()
            .for_each(|(column, sum)| sum.add(column, run));
    }

    /// What is said of runs that are stored several times: `2 more files hold the same records`.
    pub fn copies_in_words(&self) -> String {
        match self.copies {
            1 => "1 more file holds the same records".to_owned(),
            copies => format!("{copies} more files hold the same records"),
        }
    }

    /// What is said of runs that begin with steps of another: `1 run begins with steps of another run, which count there`.
    pub fn branches_in_words(&self) -> String {
        match self.branches {
            1 => "1 run begins with steps of another run, which count there".to_owned(),
            runs => format!("{runs} runs begin with steps of other runs, which count there"),
        }
    }

    /// What its runs add up to in a column.
    pub fn sum(&self, column: &Column) -> Option<&Sum> {
        self.sums
            .iter()
            .find(|(of, _)| *of == column)
            .map(|(_, sum)| sum)
    }
}

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

/// The first `limit` of some runs.
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
