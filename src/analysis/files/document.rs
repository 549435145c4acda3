//! Defines the JSON document of the files that a run tried to change.

use schemars::JsonSchema;
use serde::Serialize;

use super::{File, Files, Net, Work};
use crate::model::{Index, Lines};

/// Maximum number of lines of net changes in one response.
const MAX_LINES: usize = 10_000;
/// Maximum number of their bytes.
const MAX_BYTES: usize = 2 * 1024 * 1024;

/// A file, with its edits in order and its net change.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ChangedFile")]
pub(crate) struct FileWithNet<'a> {
    #[serde(flatten)]
    file: &'a File,
    /// The change from the first known version of the file to the last. `null` if it's too large
    /// for this response.
    net: Option<Net>,
}

/// A page of the files that tool calls tried to change.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Files")]
pub(crate) struct ChangedFiles<'a> {
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
    /// The steps with patches that are recorded without their text, so that the files are unknown. A
    /// step with several patches is listed several times.
    patches_without_text: &'a [usize],
    files: Vec<FileWithNet<'a>>,
    /// The value of `after` for the next page.
    next: Option<usize>,
}

/// Returns the files after index `after`, or from the first: at most `limit`, at least one.
pub(crate) fn document<'a>(
    all: &'a Files,
    (index, lines_of): (&Index, &dyn Lines),
    after: Option<usize>,
    limit: usize,
) -> ChangedFiles<'a> {
    let total = all.files.len();
    let start = after.map_or(0, |after| after.saturating_add(1)).min(total);
    let end = start.saturating_add(limit.max(1)).min(total);
    let (work, mut lines, mut bytes) = (&mut Work::default(), MAX_LINES, MAX_BYTES);
    let shown = all.files.get(start..end).unwrap_or_default().iter();
    let shown = shown.map(|file| {
        let net = all.net(file, index, lines_of, work);
        let own = || net.hunks.iter().flat_map(|hunk| &hunk.lines);
        let left = lines.checked_sub(own().count());
        let room = bytes.checked_sub(own().map(|line| line.text.len()).sum());
        let is_shown = left.is_some() && room.is_some() && net.left_out == 0;
        if is_shown {
            (lines, bytes) = (left.unwrap_or(lines), room.unwrap_or(bytes));
        }
        FileWithNet {
            file,
            net: is_shown.then_some(net),
        }
    });
    ChangedFiles {
        files: shown.collect(),
        total,
        edits: all.edits,
        edits_left_out: all.left_out,
        steps_unread: all.unread,
        steps_pending: all.pending,
        patches_without_text: &all.hidden,
        next: end.checked_sub(1).filter(|_| end < total),
    }
}
