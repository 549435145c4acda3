//! What do programs read of the files that a run asked to change?

use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::files;
use crate::model::Index;

/// A window of the files that calls asked to change.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Files<'a> {
    /// How many files there are.
    total: usize,
    /// How many edits were asked for in all of them.
    edits: usize,
    /// How many of those are in no list, because there are too many.
    edits_left_out: usize,
    /// Steps whose lines could not be read.
    steps_unread: usize,
    /// Steps at the end of a long run that no request has read yet; the next request reads more of them.
    steps_pending: usize,
    files: Vec<File<'a>>,
    /// What to pass as `after` for the next window.
    next: Option<usize>,
}

/// A file, with its edits in order.
#[derive(Debug, Serialize, JsonSchema)]
struct File<'a> {
    path: &'a str,
    /// Lines that come with the edits that went well and can be counted; `null` where none can.
    added: Option<usize>,
    removed: Option<usize>,
    edits_failed: usize,
    /// Edits whose lines cannot be counted.
    edits_uncounted: usize,
    edits: Vec<Edit<'a>>,
}

/// One call that asked to change a file.
#[derive(Debug, Serialize, JsonSchema)]
struct Edit<'a> {
    /// The ordinal of its step.
    step: usize,
    step_id: Option<i64>,
    /// Its place among the calls of the step; `null` for what no call asked for.
    call: Option<usize>,
    kind: &'static str,
    /// Where the file was moved to.
    to: Option<&'a str>,
    added: Option<usize>,
    removed: Option<usize>,
    /// Whether it went well; `null` where that is not recorded.
    ok: Option<bool>,
    /// The run went back to before it.
    left: bool,
}

/// The files after place `after`, or from the first one on; at most `limit`, at least one.
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
        left: edit.is_left,
    }
}
