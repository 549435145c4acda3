//! Schedules checks of runs: those that may change every second, and the others in turn.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use super::run::Run;
use crate::model::RunKey;

/// All runs, in the order of their next checks.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// The runs that may grow, or whose state isn't settled.
    lively: BTreeMap<RunKey, Arc<Run>>,
    /// The lively run that was checked last.
    last: Option<RunKey>,
    /// All runs. The one that waited longest is first.
    ring: VecDeque<Arc<Run>>,
    /// How many of them have to be checked immediately.
    urgent: usize,
}

impl Rounds {
    /// Adds a new run.
    pub(super) fn add(&mut self, run: Arc<Run>) {
        self.ring.push_back(run);
    }

    /// Updates whether a run is lively, after checking it.
    pub(super) fn note(&mut self, run: &Arc<Run>) {
        if run.is_lively() && !run.is_gone() {
            // May replace a removed run of the same name.
            self.lively.insert(run.key().clone(), Arc::clone(run));
        } else if self
            .lively
            .get(run.key())
            .is_some_and(|known| Arc::ptr_eq(known, run))
        {
            self.lively.remove(run.key());
        }
    }

    /// Returns the lively runs, starting after the one that was checked last.
    pub(super) fn lively(&self) -> Vec<Arc<Run>> {
        let Some(last) = &self.last else {
            return self.lively.values().cloned().collect();
        };
        let behind = (Bound::Excluded(last), Bound::Unbounded);
        let first = (Bound::Unbounded, Bound::Included(last));
        let of = |range| {
            self.lively
                .range::<RunKey, _>(range)
                .map(|(_, run)| Arc::clone(run))
        };
        of(behind).chain(of(first)).collect()
    }

    /// Records that a lively run was checked.
    pub(super) fn had_turn(&mut self, run: &Arc<Run>) {
        self.last = Some(run.key().clone());
    }

    /// Returns the number of runs. Removed ones count until their next turn.
    pub(super) fn len(&self) -> usize {
        self.ring.len()
    }

    /// Schedules an immediate check of all runs, because any may have changed.
    pub(super) fn mark_all_urgent(&mut self) {
        self.urgent = self.ring.len();
    }

    /// Returns the next run to check immediately.
    pub(super) fn next_urgent(&mut self) -> Option<Arc<Run>> {
        self.urgent = self.urgent.checked_sub(1)?;
        self.next()
    }

    pub(super) fn has_urgent(&self) -> bool {
        self.urgent > 0
    }

    /// Returns the run that waited longest. Removes the runs that are gone.
    pub(super) fn next(&mut self) -> Option<Arc<Run>> {
        while let Some(run) = self.ring.pop_front() {
            if !run.is_gone() {
                self.ring.push_back(Arc::clone(&run));
                return Some(run);
            }
            self.note(&run);
        }
        None
    }
}
