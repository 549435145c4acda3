//! Provides the JSON of the files that a run tried to change.

use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::files::{self, File};

/// A page of the files that tool calls tried to change.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Files<'a> {
    /// The number of files.
    total: usize,
    /// The number of edits in all files.
    edits: usize,
    /// Edits that aren't listed because there are too many.
    edits_left_out: usize,
    /// Steps whose lines couldn't be read.
    steps_unread: usize,
    /// Steps at the end of a long run that haven't been read yet. The next request reads more of
    /// them.
    steps_pending: usize,
    files: &'a [File],
    /// The value of `after` for the next page.
    next: Option<usize>,
}

/// Returns the files after index `after`, or from the first: at most `limit`, at least one.
pub(crate) fn files<'a>(all: &'a files::Files, after: Option<usize>, limit: usize) -> Files<'a> {
    let total = all.files.len();
    let start = after.map_or(0, |after| after.saturating_add(1)).min(total);
    let end = start.saturating_add(limit.max(1)).min(total);
    Files {
        total,
        edits: all.edits,
        edits_left_out: all.left_out,
        steps_unread: all.unread,
        steps_pending: all.pending,
        files: all.files.get(start..end).unwrap_or_default(),
        next: end.checked_sub(1).filter(|_| end < total),
    }
}
