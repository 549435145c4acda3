//! Selects the runs for a question, and detects later changes to them.

use std::sync::Arc;

use crate::analysis::query::Query;
use crate::live::{Library, Run};

/// The runs that a question covers.
#[derive(Debug)]
pub(crate) struct Over {
    /// The runs that matched when the question started.
    pub(crate) runs: Vec<Arc<Run>>,
    /// How many duplicates of runs matched too. They aren't covered.
    pub(crate) duplicates: usize,
    pub(crate) query: Query,
    /// The library's revision when the runs were selected.
    pub(crate) revision: u64,
}

impl Over {
    /// Selects the runs of a library that match `query`.
    pub(crate) fn of(library: &Library, query: Query) -> Self {
        // Read the revision first, so that changes made while the runs are selected count as
        // changes.
        let revision = *library.revision().borrow();
        let (mut runs, mut duplicates) = (library.runs(), 0);
        runs.retain(|run| {
            let summary = run.summary();
            let (is_match, counts) = (query.matches(&*summary), summary.counts());
            duplicates += usize::from(is_match && !counts);
            is_match && counts
        });
        Self {
            duplicates,
            runs,
            query,
            revision,
        }
    }

    /// Counts the runs that changed, appeared or disappeared since.
    pub(crate) fn changed(&self, library: &Library) -> usize {
        if *library.revision().borrow() == self.revision {
            return 0;
        }
        let gone = self.runs.iter().filter(|run| run.is_gone()).count();
        let is_news = |run: &&Arc<Run>| run.revision_now() > self.revision;
        let changed = self
            .runs
            .iter()
            .filter(|run| !run.is_gone())
            .filter(is_news)
            .count();
        let came = library.runs();
        let is_counted = |run: &&Arc<Run>| {
            let summary = run.summary();
            summary.counts() && self.query.matches(&*summary)
        };
        let came = came.iter().filter(|run| run.born() > self.revision);
        gone + changed + came.filter(is_counted).count()
    }
}
