//! Compares three or more runs step by step.
//!
//! Runs are added one after the other. A step joins the row of an equal step; steps of different
//! runs that have no equal then share a row as far as their order allows, as for two
//! runs.

use schemars::JsonSchema;
use serde::Serialize;

use super::align::{keys, places};
use super::{Pair, Relation, relation};
use crate::model::Index;

/// Maximum number of runs whose steps are aligned.
pub(crate) const MAX_ALIGNED: usize = 6;
/// Maximum number of steps of all these runs together. Each row takes a few hundred bytes while it's aligned.
const MAX_STEPS: usize = 200_000;

/// A row: the steps of several runs that correspond.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct RowOfSeveral {
    /// The step of each run, counted from 0, in the order of the runs. Null if a run has no such step.
    pub steps: Vec<Option<usize>>,
    /// Whether every run has the step, and everything that is compared is the same.
    pub same: bool,
    /// The largest difference between the first run with a readable step and any other that has the
    /// step.
    #[serde(rename = "what")]
    pub relation: Relation,
}

impl RowOfSeveral {
    /// Returns whether at least one run lacks the step.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.steps.iter().any(Option::is_none)
    }

    /// Returns whether the runs do something different here.
    pub(crate) fn is_divergence(&self) -> bool {
        self.is_incomplete() || self.relation.is_divergence()
    }

    /// Returns whether the runs are known to differ here.
    pub(crate) fn differs(&self) -> bool {
        self.is_incomplete() || self.relation.differs()
    }
}

/// The comparison of several runs, step by step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ComparisonOfSeveral {
    /// Every step of all runs, aligned.
    pub rows: Vec<RowOfSeveral>,
    /// The row at which the runs diverge; `None` if no difference is known.
    pub first: Option<usize>,
    /// The number of rows at the start in which all runs do the same.
    pub common: usize,
    /// The number of steps, if there are too many to be compared.
    pub not_aligned: Option<usize>,
}

/// Compares several runs. If they have too many steps, none is compared.
pub(crate) fn compare_several(runs: &[&Index]) -> ComparisonOfSeveral {
    let steps: usize = runs.iter().map(|index| index.steps().len()).sum();
    if steps > MAX_STEPS {
        return ComparisonOfSeveral {
            not_aligned: Some(steps),
            ..ComparisonOfSeveral::default()
        };
    }
    let rows: Vec<RowOfSeveral> = align_several(runs)
        .into_iter()
        .map(|steps| row(runs, steps))
        .collect();
    let parts = rows.iter().position(RowOfSeveral::is_divergence);
    let differs = rows.iter().position(RowOfSeveral::differs);
    let common = rows
        .iter()
        .position(|row| row.is_divergence() || row.relation == Relation::Unreadable);
    ComparisonOfSeveral {
        first: parts.or(differs),
        common: common.unwrap_or(rows.len()),
        rows,
        not_aligned: None,
    }
}

fn row(runs: &[&Index], steps: Vec<Option<usize>>) -> RowOfSeveral {
    let present = || {
        let steps = runs.iter().zip(&steps);
        steps.filter_map(|(index, n)| Some((*index, (*n)?)))
    };
    let is_readable = |(index, n): &(&Index, usize)| {
        let step = index.steps().get(*n);
        step.is_some_and(|step| step.fate.is_readable())
    };
    // An unreadable step must not hide how the others differ.
    let first = present().find(is_readable).or_else(|| present().next());
    let asked = |index: &Index, n: usize| Some(index.steps().get(n)?.asked_hash);
    let with_first = |(index, n): (&Index, usize)| {
        let (one, m) = first?;
        let pair = Pair {
            a: Some(m),
            b: Some(n),
            asks_same: asked(one, m).is_some() && asked(one, m) == asked(index, n),
        };
        Some(relation(one, index, pair))
    };
    let relation = present().filter_map(with_first).min();
    let relation = relation.unwrap_or(Relation::Same);
    RowOfSeveral {
        same: relation == Relation::Same && steps.iter().all(Option::is_some),
        steps,
        relation,
    }
}

/// A row while runs are added: the key of its steps, and the place of the step in each run.
struct Merged {
    key: u64,
    places: Vec<Option<usize>>,
}

/// Returns every step of all runs by ordinal, aligned.
fn align_several(runs: &[&Index]) -> Vec<Vec<Option<usize>>> {
    let all: Vec<(Vec<usize>, Vec<u64>)> = runs.iter().map(|index| keys(index)).collect();
    let mut merged: Vec<Merged> = Vec::new();
    for (run, (_, keys)) in all.iter().enumerate() {
        let known: Vec<u64> = merged.iter().map(|row| row.key).collect();
        let mut rows = merged.into_iter();
        let mut next: Vec<Merged> = Vec::with_capacity(rows.len());
        for (old, new) in places(&known, keys) {
            let row = old.and_then(|_| rows.next());
            let own = new.and_then(|place| Some((place, *keys.get(place)?)));
            match (row, own) {
                (Some(mut row), Some((place, key))) if row.key == key => {
                    row.places.push(Some(place));
                    next.push(row);
                }
                (row, own) => {
                    next.extend(row.map(|mut row| {
                        row.places.push(None);
                        row
                    }));
                    next.extend(own.map(|(place, key)| {
                        let mut places = vec![None; run];
                        places.push(Some(place));
                        Merged { key, places }
                    }));
                }
            }
        }
        merged = next;
    }
    let ordinal = |run: usize, place: usize| all.get(run)?.0.get(place).copied();
    close_up(merged, runs.len())
        .into_iter()
        .map(|places| {
            let steps = places.into_iter().enumerate();
            steps.map(|(run, place)| ordinal(run, place?)).collect()
        })
        .collect()
}

/// Puts each row as early as the order of its runs allows, so that different steps at the same
/// position share a row.
fn close_up(merged: Vec<Merged>, runs: usize) -> Vec<Vec<Option<usize>>> {
    let mut rows: Vec<Vec<Option<usize>>> = Vec::new();
    let mut ends = vec![0; runs];
    for row in merged {
        let own = |place: &Option<usize>| place.is_some();
        let of_row = ends.iter().zip(&row.places).filter(|(_, place)| own(place));
        let at = of_row.map(|(end, _)| *end).max().unwrap_or_default();
        if rows.len() <= at {
            rows.resize_with(at + 1, || vec![None; runs]);
        }
        for (run, place) in row.places.iter().enumerate() {
            let cell = rows.get_mut(at).and_then(|cells| cells.get_mut(run));
            if let (Some(cell), Some(end), Some(place)) = (cell, ends.get_mut(run), place) {
                (*cell, *end) = (Some(*place), at + 1);
            }
        }
    }
    rows
}
