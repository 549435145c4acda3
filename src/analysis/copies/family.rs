//! Relates parent runs to their child runs. A parent may name its children, and a child may name
//! its parent. Each child counts once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::relation::SeparateChildren;
use crate::analysis::related::nearest;
use crate::analysis::summary::Summary;
use crate::model::step::Usage;

/// The number of levels of children that are followed.
const MAX_DEPTH: usize = 20;
/// The tolerance when comparing times of a parent and a child, in microseconds. A child that began
/// more than this before its parent's first record or after its last belongs to another run.
const SLACK_MICROS: i64 = 2_000_000;

/// The parent-child relations among the runs of a group.
#[derive(Debug, Default)]
pub(super) struct Families {
    /// The children of each run.
    children: BTreeMap<usize, Vec<usize>>,
    /// The id of the parent run, for each run whose own records name a different one.
    nearer: BTreeMap<usize, String>,
    /// For each run, the ids of the runs that name it as their parent but were started by one of
    /// its children.
    moved: BTreeMap<usize, HashSet<String>>,
}

impl Families {
    /// Finds the relations among the runs for which `counts` is true.
    pub(super) fn of(runs: &[Arc<Summary>], counts: &dyn Fn(usize) -> bool) -> Self {
        let mut by_id: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut named_by: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, run) in runs.iter().enumerate().filter(|(at, _)| counts(*at)) {
            run.run_id
                .iter()
                .for_each(|id| by_id.entry(id).or_default().push(at));
            run.child_ids
                .iter()
                .for_each(|id| named_by.entry(id).or_default().push(at));
        }
        let mut found = Self::default();
        for (at, run) in runs
            .iter()
            .enumerate()
            .filter(|(at, run)| counts(*at) && run.branched_after.is_none())
        {
            let Some(parent) = run.parent.as_deref() else {
                continue;
            };
            let own = run.run_id.as_deref();
            // A child of the same parent that names this run is the nearer parent.
            let names = own
                .and_then(|id| named_by.get(id))
                .into_iter()
                .flatten()
                .copied();
            let is_nearer = |other: &usize| {
                let other = runs.get(*other).filter(|_| *other != at);
                other.is_some_and(|other| {
                    other.parent.as_deref() == Some(parent)
                        && other.run_id.is_some()
                        && !run
                            .child_ids
                            .iter()
                            .any(|id| Some(&**id) == other.run_id.as_deref())
                })
            };
            let nearer: Vec<usize> = names.filter(is_nearer).collect();
            let up = Self::nearest(runs, at, &nearer);
            if let Some(id) = up.and_then(|up| runs.get(up)?.run_id.clone()) {
                found.nearer.insert(at, id.into());
            }
            let duplicates = by_id.get(parent).map(Vec::as_slice).unwrap_or_default();
            let named = Self::nearest(runs, at, duplicates);
            if let Some((named, id)) = named.filter(|_| up.is_some()).zip(own) {
                found.moved.entry(named).or_default().insert(id.to_owned());
            }
            if let Some(parent) = up.or(named) {
                found.children.entry(parent).or_default().push(at);
            }
        }
        found
    }

    /// Returns the one of `others` that is nearest to the run at `at`.
    fn nearest(runs: &[Arc<Summary>], at: usize, others: &[usize]) -> Option<usize> {
        let others: Vec<usize> = others
            .iter()
            .copied()
            .filter(|other| *other != at)
            .collect();
        let keys = others
            .iter()
            .filter_map(|other| Some(runs.get(*other)?.key.as_str()));
        nearest(runs.get(at)?.key.as_str(), keys).and_then(|place| others.get(place).copied())
    }

    /// Returns the id of the parent of the run at `at`, if the run's own records name a more
    /// distant ancestor.
    pub(super) fn parent(&self, at: usize) -> Option<String> {
        self.nearer.get(&at).cloned()
    }

    /// Returns the number of child runs of the run at `at`: those that it names and those that name
    /// it.
    pub(super) fn count(&self, runs: &[Arc<Summary>], at: usize) -> Option<u64> {
        let run = runs.get(at)?;
        let children = self
            .children
            .get(&at)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let moved = self.moved.get(&at);
        if children.is_empty() && moved.is_none() {
            return run.children;
        }
        let mut ids: HashSet<&str> = run.child_ids.iter().map(String::as_str).collect();
        let mut unnamed = 0_u64;
        for child in children.iter().filter_map(|child| runs.get(*child)) {
            match child.run_id.as_deref() {
                Some(id) => _ = ids.insert(id),
                None => unnamed += 1,
            }
        }
        moved
            .into_iter()
            .flatten()
            .for_each(|id| _ = ids.insert(id));
        let known = (ids.len() as u64).saturating_add(unnamed);
        let moved = moved.map_or(0, |moved| moved.len() as u64);
        Some(
            run.children
                .unwrap_or_default()
                .max(known)
                .saturating_sub(moved),
        )
    }

    /// Returns all descendants of the run at `at`.
    fn below(&self, at: usize) -> Vec<usize> {
        let (mut found, mut seen, mut level) = (Vec::new(), HashSet::from([at]), vec![at]);
        for _ in 0..MAX_DEPTH {
            let next = level
                .iter()
                .filter_map(|at| self.children.get(at))
                .flatten()
                .copied();
            level = next.filter(|child| seen.insert(*child)).collect();
            found.extend(&level);
        }
        found
    }

    /// Returns each run whose cost is included in the recorded cost of an ancestor, with that
    /// ancestor, the nearest. `records` returns whether a run records such a cost.
    pub(super) fn paid(&self, records: &dyn Fn(usize) -> bool) -> Vec<(usize, usize)> {
        let mut up: HashMap<usize, usize> = HashMap::new();
        for (parent, children) in &self.children {
            up.extend(children.iter().map(|child| (*child, *parent)));
        }
        let mut found = Vec::new();
        for child in up.keys().copied() {
            let mut at = child;
            for _ in 0..MAX_DEPTH {
                let Some(parent) = up.get(&at).copied().filter(|parent| *parent != child) else {
                    break;
                };
                if records(parent) {
                    found.push((child, parent));
                    break;
                }
                at = parent;
            }
        }
        found
    }

    /// Returns the tokens of all descendants of the run at `at`; `None` if those of any are
    /// unknown.
    pub(super) fn tokens_below(&self, runs: &[Arc<Summary>], at: usize) -> Option<u64> {
        let run = runs.get(at)?;
        let below = self.below(at);
        // A child without a row used tokens too.
        let is_all = run.children.unwrap_or_default() <= below.len() as u64;
        sum(runs, &below).0.filter(|_| is_all)
    }

    /// Returns the part of the run at `at` that counts in its children's rows; `None` if there is
    /// none.
    pub(super) fn separate_children(
        &self,
        runs: &[Arc<Summary>],
        at: usize,
    ) -> Option<SeparateChildren> {
        let run = runs
            .get(at)
            .filter(|run| run.totals_with_children || run.steps_nested > 0)?;
        let is_own = |child: &usize| runs.get(*child).is_some_and(|child| is_within(run, child));
        let below: Vec<usize> = self.below(at).into_iter().filter(is_own).collect();
        if below.is_empty() {
            return None;
        }
        let ids = below
            .iter()
            .filter_map(|child| Some(runs.get(*child)?.run_id.as_deref()?.to_owned()))
            .collect();
        let (tokens, usage) = sum(runs, &below);
        Some(SeparateChildren { ids, tokens, usage })
    }
}

/// Returns whether a child belongs to the run in its parent's file. The parent may have run several
/// times, with a separate file for each run.
fn is_within(run: &Summary, child: &Summary) -> bool {
    if !run.child_ids.is_empty()
        && child
            .run_id
            .as_deref()
            .is_some_and(|id| run.child_ids.iter().any(|child| child == id))
    {
        return true;
    }
    match (run.started, run.updated, child.started) {
        (Some(from), Some(to), Some(began)) if run.duration_ms.is_some() => {
            (from.saturating_sub(SLACK_MICROS)..=to.saturating_add(SLACK_MICROS)).contains(&began)
        }
        _ => run.child_ids.is_empty(),
    }
}

/// Returns the tokens of several runs together; `None` if any run doesn't record them.
fn sum(runs: &[Arc<Summary>], members: &[usize]) -> (Option<u64>, Usage) {
    let members = || members.iter().filter_map(|at| runs.get(*at));
    let tokens = members()
        .map(|run| run.tokens.filter(|_| run.tokens_unknown == 0))
        .sum::<Option<u64>>();
    (
        tokens,
        members().fold(Usage::of_nothing(), |sum, run| sum.plus(*run.usage)),
    )
}
