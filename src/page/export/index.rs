//! The list of the steps of a file for readers.

use std::ops::Range;

use crate::analysis::timing::began;
use crate::page::part::text::{Line, one_line};
use crate::page::run_view::RunView;

/// Limits the characters of a step in the index.
pub(super) const INDEX_CHARS: usize = 100;
/// A step in the index of the file.
pub(crate) struct IndexRow {
    pub n: usize,
    pub label: Line,
    /// The local time of its start, with the time in UTC, and the same in RFC 3339. Empty if not
    /// recorded.
    pub time: Line,
    pub iso: String,
    pub call: Line,
}

/// Lists the steps of a file.
pub(super) fn index_rows(view: &RunView<'_>, steps: Range<usize>) -> Vec<IndexRow> {
    let row = |n: usize| {
        let at = view
            .index
            .round_of(n)
            .and_then(|group| began(view.index, group));
        let call = view.index.steps().get(n).map(|step| &*step.call);
        IndexRow {
            n,
            label: view.label(n).into(),
            time: at.map(|at| view.with_utc(at)).unwrap_or_default().into(),
            iso: at.map(|at| view.iso(at)).unwrap_or_default(),
            call: one_line(call.unwrap_or_default(), INDEX_CHARS).0.into(),
        }
    };
    steps.map(row).collect()
}
