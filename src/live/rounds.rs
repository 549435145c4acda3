//! Whose turn is it? Runs that may change are looked at every second, the others one after the other.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use super::run::Run;
use crate::model::RunKey;

/// All runs, in the order in which they are looked at.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// Those that may grow, or of which something is not settled.
    lively: BTreeMap<RunKey, Arc<Run>>,
    /// The lively run that had the last turn.
    last: Option<RunKey>,
    /// All, the one that waited longest first.
    ring: VecDeque<Arc<Run>>,
    /// So many of them are to be looked at at once.
    owed: usize,
}

impl Rounds {
    /// Adds a run that was not known.
    pub(super) fn add(&mut self, run: Arc<Run>) {
        self.ring.push_back(run);
    }

    /// Notes how lively a run is after a look at it.
    pub(super) fn note(&mut self, run: &Arc<Run>) {
        if run.is_lively() && !run.is_gone() {
            // In place of one of the same name that is gone.
            self.lively.insert(run.key().clone(), Arc::clone(run));
        } else if self
            .lively
            .get(run.key())
            .is_some_and(|known| Arc::ptr_eq(known, run))
        {
            self.lively.remove(run.key());
        }
    }

    /// The runs that may change. Those follow first that come after the one that had the last turn.
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

    /// Notes that a lively run had its turn.
    pub(super) fn had_turn(&mut self, run: &Arc<Run>) {
        self.last = Some(run.key().clone());
    }

    /// How many runs there are, gone ones that had no turn since among them.
    pub(super) fn len(&self) -> usize {
        self.ring.len()
    }

    /// Any run may have changed: all are to be looked at at once.
    pub(super) fn owe_all(&mut self) {
        self.owed = self.ring.len();
    }

    /// The next of the runs that are to be looked at at once.
    pub(super) fn next_owed(&mut self) -> Option<Arc<Run>> {
        self.owed = self.owed.checked_sub(1)?;
        self.next()
    }

    pub(super) fn is_owed(&self) -> bool {
        self.owed > 0
    }

    /// The run that waited longest; gone ones leave here.
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
