//! Keeps account of which runs hold the same records, as they come, grow and go.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Scanner;
use crate::analysis::copies::{Relation, alike, keys, relate};
use crate::analysis::summary::Summary;
use crate::live::run::Run;

/// Runs are compared again at the earliest after this many times as long as that took: of many runs, in a hundredth of the
/// time.
const REST: u32 = 100;

/// What was known when runs were compared last.
#[derive(Debug, Default)]
pub(super) struct Compared {
    /// Something came since that may make a difference.
    due: bool,
    /// The status says that nothing is due.
    told: bool,
    not_before: Option<Instant>,
    /// The runs that were in a group, by their addresses.
    grouped: HashMap<usize, Arc<Run>>,
}

/// What tells a run from all others as long as it is held.
fn address(run: &Arc<Run>) -> usize {
    Arc::as_ptr(run).addr()
}

impl Compared {
    /// Runs came or went, or one of them is another than it was.
    pub(super) fn outdate(&mut self) {
        (self.due, self.told) = (true, false);
    }

    /// The same, where the run was `before`.
    pub(super) fn note(&mut self, run: &Arc<Run>, before: &Summary) {
        let now = run.alone();
        let is_same = (keys(&now), now.partial) == (keys(before), before.partial);
        let is_like = || {
            let row = |run: &Summary| {
                let ends = (run.verdict.outcome, run.verdict.contradictions.len());
                let sums = (run.tokens, run.cost_usd.map(f64::to_bits), run.children);
                (run.fingerprint, run.events, ends, sums)
            };
            row(&now) == row(before) || !self.grouped.contains_key(&address(run))
        };
        self.due |= !(is_same && is_like());
    }

    /// When runs are to be compared, if they are.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
            .then(|| self.not_before.unwrap_or_else(Instant::now))
    }
}

impl Scanner {
    /// Compares runs without waiting.
    #[cfg(test)]
    pub(in crate::live) fn compare_now(&mut self) {
        self.compared.not_before = None;
        self.compare_copies();
    }

    /// Compares runs that may hold the same records, if anything came that makes a difference.
    pub(super) fn compare_copies(&mut self) {
        let start = Instant::now();
        if !self.compared.due || self.compared.not_before.is_some_and(|due| due > start) {
            if !self.compared.due && !std::mem::replace(&mut self.compared.told, true) {
                self.shared.set_status(|status| status.uncompared = false);
            }
            return;
        }
        self.compared.due = false;
        // Of a run that is being read nobody knows what it is the same as.
        let runs: Vec<&Arc<Run>> = self.by_dir.values().collect();
        let (runs, summaries): (Vec<&Arc<Run>>, Vec<Arc<Summary>>) = runs
            .into_iter()
            .map(|run| (run, run.alone()))
            .filter(|(run, alone)| run.is_known() && !alone.partial)
            .unzip();
        let mut related: BTreeMap<usize, Relation> = BTreeMap::new();
        let mut grouped = HashMap::new();
        for group in alike(summaries.iter().map(|run| keys(run))) {
            self.shared.beat.beat("comparing runs");
            let members: Vec<Arc<Summary>> = group
                .iter()
                .filter_map(|at| summaries.get(*at).cloned())
                .collect();
            let mut marks = |member: usize| {
                let run = group.get(member).and_then(|at| runs.get(*at));
                run.map_or_else(|| Arc::from([]), |run| run.marks())
            };
            related.extend(group.iter().copied().zip(relate(&members, &mut marks)));
            grouped.extend(
                group
                    .iter()
                    .filter_map(|at| runs.get(*at))
                    .map(|run| (address(run), Arc::clone(run))),
            );
        }
        let before = std::mem::replace(&mut self.compared.grouped, grouped);
        let mut changed: Vec<Arc<Run>> = Vec::new();
        for (at, relation) in related {
            let Some(run) = runs.get(at) else { continue };
            changed.extend(run.relate(relation).then(|| Arc::clone(run)));
        }
        let left = before
            .into_iter()
            .filter(|(address, _)| !self.compared.grouped.contains_key(address));
        let left: Vec<Arc<Run>> = left.map(|(_, run)| run).collect();
        for run in left {
            changed.extend(run.relate(Relation::default()).then_some(run));
        }
        if !changed.is_empty() {
            self.shared
                .raise(|revision| changed.iter().for_each(|run| run.tell(revision)));
        }
        let took = start.elapsed();
        self.compared.not_before =
            Some(Instant::now() + (took * REST).min(Duration::from_secs(60)));
        self.shared.set_status(|status| status.uncompared = false);
        self.compared.told = true;
    }
}
