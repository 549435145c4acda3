//! Which runs is a question over, and are they still what they were?

use std::sync::Arc;

use crate::analysis::query::Query;
use crate::live::{Library, Run};

/// The runs that a question is over.
#[derive(Debug)]
pub(crate) struct Over {
    /// The runs that matched when it began.
    pub(crate) runs: Vec<Arc<Run>>,
    pub(crate) query: Query,
    /// The library's revision when the runs were taken.
    pub(crate) revision: u64,
}

impl Over {
    /// The runs of a library that `query` selects.
    pub(crate) fn of(library: &Library, query: Query) -> Self {
        // The revision comes before the runs: what changes in between is then told as a change.
        let revision = *library.revision().borrow();
        let mut runs = library.counted();
        runs.retain(|run| query.matches(&*run.summary()));
        Self {
            runs,
            query,
            revision,
        }
    }

    /// How many of the runs changed, came or went since.
    pub(crate) fn changed(&self, library: &Library) -> usize {
        let gone = self.runs.iter().filter(|run| run.is_gone()).count();
        let is_news = |run: &&Arc<Run>| run.revision_now() > self.revision;
        let changed = self
            .runs
            .iter()
            .filter(|run| !run.is_gone())
            .filter(is_news)
            .count();
        let came = library.counted();
        let came = came
            .iter()
            .filter(|run| run.born() > self.revision && self.query.matches(&*run.summary()));
        gone + changed + came.count()
    }
}
