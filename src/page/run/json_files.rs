//! Provides the JSON of the files that a run tried to change.

use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::files;
use crate::model::Index;

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
    files: Vec<File<'a>>,
    /// The value of `after` for the next page.
    next: Option<usize>,
}

/// A file, with its edits in order.
#[derive(Debug, Serialize, JsonSchema)]
struct File<'a> {
    path: &'a str,
    /// Lines added by successful edits that can be counted. `null` if there are none.
    added: Option<usize>,
    removed: Option<usize>,
    edits_failed: usize,
    /// Edits whose lines can't be counted.
    edits_uncounted: usize,
    edits: Vec<Edit<'a>>,
}

/// An edit of a file.
#[derive(Debug, Serialize, JsonSchema)]
struct Edit<'a> {
    /// The ordinal of the step.
    step: usize,
    step_id: Option<i64>,
    /// The index of the tool call in the step. `null` if the edit doesn't belong to a call.
    call: Option<usize>,
    kind: &'static str,
    /// The new path of a moved file.
    to: Option<&'a str>,
    added: Option<usize>,
    removed: Option<usize>,
    /// Whether the edit succeeded. `null` if that isn't recorded.
    ok: Option<bool>,
    /// Whether the run went back to a point before the edit.
    left: bool,
}

/// Returns the files after index `after`, or from the first: at most `limit`, at least one.
pub(crate) fn files<'a>(
    index: &Index,
    all: &'a files::Files,
    after: Option<usize>,
    limit: usize,
) -> Files<'a> {
    let total = all.files.len();
    let start = after.map_or(0, |after| after.saturating_add(1)).min(total);
    let end = start.saturating_add(limit.max(1)).min(total);
    let files: Vec<_> = all
        .files
        .iter()
        .take(end)
        .skip(start)
        .map(|file| of(index, file))
        .collect();
    Files {
        total,
        edits: all.edits,
        edits_left_out: all.left_out,
        steps_unread: all.unread,
        steps_pending: all.pending,
        files,
        next: end.checked_sub(1).filter(|_| end < total),
    }
}

fn of<'a>(index: &Index, file: &'a files::File) -> File<'a> {
    let edits: Vec<_> = file.edits.iter().map(|edit| of_edit(index, edit)).collect();
    File {
        path: file.path.as_str(),
        added: file.is_counted().then_some(file.added),
        removed: file.is_counted().then_some(file.removed),
        edits_failed: file.failed,
        edits_uncounted: file.uncounted,
        edits,
    }
}

fn of_edit<'a>(index: &Index, edit: &'a files::Edited) -> Edit<'a> {
    Edit {
        step: edit.step,
        step_id: index.steps().get(edit.step).and_then(|step| step.step_id),
        call: edit.call,
        kind: edit.kind,
        to: edit.to.as_deref(),
        added: edit.lines.map(|(added, _)| added),
        removed: edit.lines.map(|(_, removed)| removed),
        ok: edit.ok,
        left: edit.is_abandoned,
    }
}
