//! A queue of runs that contains each run at most once.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use super::run::Run;

/// Runs in order of arrival. A run that is added again keeps its position.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// May still contain runs that were removed.
    order: VecDeque<Arc<Run>>,
    /// The addresses of the queued runs.
    members: HashSet<usize>,
}

fn address(run: &Arc<Run>) -> usize {
    Arc::as_ptr(run) as usize
}

impl Queue {
    pub(super) fn push(&mut self, run: Arc<Run>) {
        if self.members.insert(address(&run)) {
            self.order.push_back(run);
        }
    }

    /// Adds a run before all others.
    pub(super) fn push_front(&mut self, run: Arc<Run>) {
        if self.members.insert(address(&run)) {
            self.order.push_front(run);
        }
    }

    pub(super) fn pop(&mut self) -> Option<Arc<Run>> {
        while let Some(run) = self.order.pop_front() {
            if self.members.remove(&address(&run)) {
                return Some(run);
            }
        }
        None
    }

    /// Returns the first `most` runs without removing them.
    pub(super) fn first(&self, most: usize) -> Vec<Arc<Run>> {
        self.order
            .iter()
            .filter(|run| self.members.contains(&address(run)))
            .take(most)
            .cloned()
            .collect()
    }

    /// Sorts the runs, those with the smallest keys first.
    pub(super) fn sort_by_key<K: Ord>(&mut self, key: impl Fn(&Arc<Run>) -> K) {
        self.order
            .make_contiguous()
            .sort_by_cached_key(|run| key(run));
    }

    /// Removes a run from any position.
    pub(super) fn remove(&mut self, run: &Arc<Run>) {
        if !self.members.remove(&address(run)) {
            return;
        }
        while self
            .order
            .front()
            .is_some_and(|first| !self.members.contains(&address(first)))
        {
            self.order.pop_front();
        }
        if self.order.len() > 2 * self.members.len() + 64 {
            let mut kept = HashSet::new();
            self.order
                .retain(|run| self.members.contains(&address(run)) && kept.insert(address(run)));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::RunKey;
    use crate::trace::RunDir;

    #[test]
    fn a_run_has_one_turn_however_often_it_comes() {
        let run = |key: &str| {
            Arc::new(Run::new(
                &RunKey::new(key),
                key,
                RunDir::alone(std::path::Path::new(key)),
                Duration::ZERO,
            ))
        };
        let (a, b) = (run("a"), run("b"));
        let mut queue = Queue::default();
        for run in [&a, &b, &a] {
            queue.push(Arc::clone(run));
        }
        let keys = |runs: Vec<Arc<Run>>| {
            runs.iter()
                .map(|run| run.key().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (queue.len(), keys(queue.first(8))),
            (2, vec!["a".to_owned(), "b".to_owned()])
        );
        queue.remove(&a);
        assert_eq!(
            (queue.len(), keys(queue.first(8))),
            (1, vec!["b".to_owned()])
        );
        queue.push(Arc::clone(&a));
        queue.sort_by_key(|run| run.key().clone());
        for key in ["a", "b"] {
            assert_eq!(
                queue.pop().map(|run| run.key().to_string()).as_deref(),
                Some(key)
            );
        }
        assert!(queue.is_empty() && queue.pop().is_none());
    }
}
