//! Tracks which runs contain the same records, as runs appear, grow and disappear.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::analysis::copies::{Relation, alike, keys, relate};
use crate::analysis::summary::Summary;
use crate::live::run::Run;
use crate::live::shared::Shared;

/// After a comparison, the next one waits at least this many times as long as it took. With many
/// runs, comparing takes a hundredth of the time.
const REST: u32 = 100;
/// The most that unread runs delay the comparison. They may be copies too, but a file that changes
/// all the time is never read to its end.
const PATIENCE: Duration = Duration::from_secs(5);

/// The state of the last comparison.
#[derive(Debug, Default)]
pub(super) struct Compared {
    /// When a change that may affect the result first occurred, if one did.
    due_since: Option<Instant>,
    /// Whether the status says that all runs are compared.
    was_reported: bool,
    not_before: Option<Instant>,
    /// The runs that were in a group, by address.
    grouped: HashMap<usize, Arc<Run>>,
}

/// Returns a value that identifies a run as long as it's held.
fn address(run: &Arc<Run>) -> usize {
    Arc::as_ptr(run).addr()
}

impl Compared {
    /// Schedules a comparison, because runs were added, removed or replaced.
    pub(super) fn outdate(&mut self) {
        self.due_since.get_or_insert_with(Instant::now);
        self.was_reported = false;
    }

    /// Schedules a comparison if the run differs from `before` in a way that matters.
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
        if !(is_same && is_like()) {
            self.due_since.get_or_insert_with(Instant::now);
        }
    }

    /// Returns when the next comparison is due, if one is. `unread` is the number of runs that
    /// can't be compared yet.
    pub(super) fn due(&self, unread: usize) -> Option<Instant> {
        let patience = if unread > 0 { PATIENCE } else { Duration::ZERO };
        let due = self.due_since? + patience;
        Some(
            self.not_before
                .map_or(due, |not_before| due.max(not_before)),
        )
    }

    /// Makes a scheduled comparison due now.
    #[cfg(test)]
    pub(super) fn hurry(&mut self) {
        self.not_before = None;
        self.due_since = self.due_since.and_then(|since| since.checked_sub(PATIENCE));
    }

    /// Compares those of `runs` that may contain the same records, if a comparison is due.
    /// `unread` is the number of runs that can't be compared yet.
    pub(super) fn compare<'a>(
        &mut self,
        runs: impl Iterator<Item = &'a Arc<Run>>,
        unread: usize,
        shared: &Shared,
    ) {
        let start = Instant::now();
        match self.due(unread) {
            Some(due) if due <= start => {}
            Some(_) => return,
            None => return self.tell_compared(unread, shared),
        }
        self.due_since = None;
        // A run that is still being read can't be compared.
        let (runs, summaries): (Vec<&Arc<Run>>, Vec<Arc<Summary>>) = runs
            .map(|run| (run, run.alone()))
            .filter(|(run, alone)| run.is_known() && !alone.partial)
            .unzip();
        let mut related: BTreeMap<usize, Relation> = BTreeMap::new();
        let mut grouped = HashMap::new();
        for group in alike(summaries.iter().map(|run| keys(run))) {
            shared.beat.beat("comparing runs");
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
        let before = std::mem::replace(&mut self.grouped, grouped);
        let mut changed: Vec<Arc<Run>> = Vec::new();
        for (at, relation) in related {
            let Some(run) = runs.get(at) else { continue };
            changed.extend(run.relate(relation).then(|| Arc::clone(run)));
        }
        let left = before
            .into_iter()
            .filter(|(address, _)| !self.grouped.contains_key(address));
        let left: Vec<Arc<Run>> = left.map(|(_, run)| run).collect();
        for run in left {
            changed.extend(run.relate(Relation::default()).then_some(run));
        }
        if !changed.is_empty() {
            shared.raise(|revision| changed.iter().for_each(|run| run.tell(revision)));
        }
        let took = start.elapsed();
        self.not_before = Some(Instant::now() + (took * REST).min(Duration::from_secs(60)));
        self.tell_compared(unread, shared);
    }

    /// Updates the status to say that all runs are compared, unless some are unread.
    fn tell_compared(&mut self, unread: usize, shared: &Shared) {
        if unread == 0 && !std::mem::replace(&mut self.was_reported, true) {
            shared.set_status(|status| status.uncompared = false);
        }
    }
}
