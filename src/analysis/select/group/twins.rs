//! Which runs tell of a run that another file tells of, too? A program that keeps a session file and whose output was
//! captured beside it leaves both, under one id.

use std::collections::HashMap;

use crate::analysis::query::Query;
use crate::analysis::summary::Summary;

/// The session files among some runs, by the ids of their sessions.
pub(super) struct Twins<'a>(HashMap<&'a str, usize>);

impl<'a> Twins<'a> {
    /// Of the runs that match `query`: what is not in the list is in no sum.
    pub(super) fn of<T: AsRef<Summary>>(all: &'a [T], query: &Query) -> Self {
        let runs = all.iter().map(AsRef::as_ref).enumerate();
        let sessions = runs.filter(|(_, run)| run.is_session && query.matches(*run));
        Self(sessions.filter_map(|(at, run)| Some((run.run_id.as_deref()?, at))).collect())
    }

    /// The session file of a run that is none itself, and its place.
    pub(super) fn session<T: AsRef<Summary>>(
        &self,
        at: usize,
        run: &Summary,
        all: &'a [T],
    ) -> Option<(usize, &'a Summary)> {
        let session =
            self.0.get(run.run_id.as_deref()?).copied().filter(|session| *session != at && !run.is_session)?;
        Some((session, all.get(session)?.as_ref()))
    }
}
