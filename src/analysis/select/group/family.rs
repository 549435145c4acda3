//! Finds which run started which, and groups each run with all its descendants.

use std::collections::{HashMap, HashSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::columns::RunRow;
use crate::analysis::query::Sort;
use crate::analysis::related::nearest;
use crate::analysis::select::{in_order, ranked};
use crate::analysis::summary::Summary;

/// The maximum depth of a run below the head of its group. A longer chain is a cycle, or as good as
/// one.
const MAX_DEPTH: usize = 32;

/// A run in its group. `depth` is the number of its ancestors in the group.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[serde(bound = "T: AsRef<Summary>")]
#[schemars(rename = "Member", bound = "T: AsRef<Summary>")]
pub(crate) struct Member<'a, T> {
    pub(crate) depth: usize,
    #[serde(flatten, serialize_with = "super::document::row")]
    #[schemars(with = "RunRow<'a>")]
    pub(crate) run: &'a T,
}

/// The parent and child relations of all runs.
pub(super) struct Family<'a> {
    /// Runs that are named as parents, by run id and by key.
    known: HashMap<&'a str, Vec<usize>>,
    /// For each run, its parent if that is known.
    parents: Vec<Option<usize>>,
    /// The indices of the parents, by key.
    tops: HashMap<&'a str, usize>,
}

/// Returns the name of a run's parent, or of the run whose thread it continues.
fn above(run: &Summary) -> Option<&str> {
    run.parent.as_deref().or(run.continues.as_deref())
}

impl<'a> Family<'a> {
    pub(super) fn of<T: AsRef<Summary>>(all: &'a [T]) -> Self {
        let summaries = || all.iter().map(AsRef::as_ref).enumerate();
        let wanted: HashSet<&str> = summaries().filter_map(|(_, run)| above(run)).collect();
        let mut known: HashMap<&'a str, Vec<usize>> = HashMap::new();
        for (at, run) in summaries() {
            let names = [run.run_id.as_deref(), Some(run.key.as_str())]
                .into_iter()
                .flatten();
            for name in names.filter(|name| wanted.contains(name)) {
                known.entry(name).or_default().push(at);
            }
        }
        let parent = |(at, run): (usize, &Summary)| {
            let mut others = known
                .get(above(run)?)?
                .iter()
                .copied()
                .filter(|parent| *parent != at);
            let keys = others
                .clone()
                .filter_map(|parent| Some(all.get(parent)?.as_ref().key.as_str()));
            others.nth(nearest(run.key.as_str(), keys)?)
        };
        let parents = summaries().map(parent).collect();
        let tops = known
            .values()
            .flatten()
            .filter_map(|at| Some((all.get(*at)?.as_ref().key.as_str(), *at)))
            .collect();
        Self {
            known,
            parents,
            tops,
        }
    }

    /// Returns the group of run `at`: the key of its topmost ancestor, or an id that no run on the
    /// board has.
    pub(super) fn top<T: AsRef<Summary>>(&self, at: usize, all: &'a [T]) -> &'a str {
        let mut top = at;
        for _ in 0..MAX_DEPTH {
            let Some(parent) = self.parents.get(top).copied().flatten() else {
                break;
            };
            top = parent;
        }
        let Some(run) = all.get(top).map(AsRef::as_ref) else {
            return "";
        };
        let elsewhere = above(run).filter(|parent| !self.known.contains_key(parent));
        elsewhere.unwrap_or(run.key.as_str())
    }

    /// Returns the run with this key, if it's a parent.
    pub(super) fn run(&self, key: &str) -> Option<usize> {
        self.tops.get(key).copied()
    }

    /// Returns the first runs of a group, with each run's children below it.
    pub(super) fn rows<T: AsRef<Summary>>(
        &self,
        all: &'a [T],
        members: &[usize],
        sort: Sort,
        limit: usize,
    ) -> Vec<Member<'a, T>> {
        let mut rows: Vec<_> = members
            .iter()
            .filter_map(|at| Some((*at, ranked(all, *at, sort)?)))
            .collect();
        let by_order = in_order(sort);
        // In reverse, since runs are popped from the end.
        rows.sort_unstable_by(|(_, a), (_, b)| by_order(b, a));
        let here: HashSet<usize> = members.iter().copied().collect();
        let mut below: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
        for (at, _) in &rows {
            let parent = self
                .parents
                .get(*at)
                .copied()
                .flatten()
                .filter(|parent| here.contains(parent));
            below.entry(parent).or_default().push(*at);
        }
        let mut open: Vec<(usize, usize)> = below
            .remove(&None)
            .unwrap_or_default()
            .into_iter()
            .map(|at| (at, 0))
            .collect();
        let mut shown = Vec::new();
        while let Some((at, depth)) = open.pop() {
            if shown.len() >= limit {
                break;
            }
            shown.extend(all.get(at).map(|run| Member { run, depth }));
            open.extend(
                below
                    .remove(&Some(at))
                    .unwrap_or_default()
                    .into_iter()
                    .map(|at| (at, depth + 1)),
            );
        }
        shown
    }
}
