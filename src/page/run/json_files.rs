//! What do programs read of the files that a run asked to change?

use serde::Serialize;

use crate::analysis::files::{Edited, File, Files};
use crate::model::Index;
use crate::page::json::object;

/// The files after place `after`, or from the first one on; at most `limit`, at least one.
pub(crate) fn files(index: &Index, all: &Files, after: Option<usize>, limit: usize) -> impl Serialize {
    let total = all.files.len();
    let start = after.map_or(0, |after| after.saturating_add(1)).min(total);
    let end = start.saturating_add(limit.max(1)).min(total);
    let files: Vec<_> = all.files.iter().take(end).skip(start).map(|file| of(index, file)).collect();
    object!({
        total: total,
        edits: all.edits,
        edits_left_out: all.left_out,
        steps_unread: all.unread,
        files: files,
        next: end.checked_sub(1).filter(|_| end < total),
    })
}

fn of<'a>(index: &Index, file: &'a File) -> impl Serialize + use<'a> {
    let edits: Vec<_> = file.edits.iter().map(|edit| of_edit(index, edit)).collect();
    object!({
        path: file.path.as_str(),
        added: file.added,
        removed: file.removed,
        edits_failed: file.failed,
        edits_uncounted: file.uncounted,
        edits: edits,
    })
}

fn of_edit<'a>(index: &Index, edit: &'a Edited) -> impl Serialize + use<'a> {
    object!({
        step: edit.step,
        step_id: index.steps().get(edit.step).and_then(|step| step.step_id),
        call: edit.call,
        kind: edit.kind,
        to: edit.to.as_deref(),
        added: edit.lines.map(|(added, _)| added),
        removed: edit.lines.map(|(_, removed)| removed),
        ok: edit.ok,
        left: edit.is_left,
    })
}
