//! Lists the files that a run's calls requested to change, and the steps that did so. Reads the calls
//! of all steps on request.
//!
//! [`patch`](super::patch) reads what the calls ask for. The index records whether the calls
//! succeeded. If no call of a step asks for an edit, the file changes that other tools record count
//! instead. Changes made by shell commands aren't tracked. Must not know pages.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use crate::analysis::patch::{Edit, EditKind, in_scripts, requested_edits, to_align};
use crate::model::json::Json;
use crate::model::step::{Call, Step};
use crate::model::{Index, Lines, StepHead, TraceFile};

/// The maximum number of edits of one run that are listed. Further ones are only counted.
pub(crate) const MAX_EDITS: usize = 50_000;

/// The maximum number of lines of a run that one request reads, which takes about 1.5 seconds. The
/// next request continues there.
const MAX_READ: usize = 50_000;

/// The maximum number of pairs of lines that are compared to align the texts of a run. Further
/// edits are listed, but their lines aren't counted.
const MAX_PAIRS: usize = 50_000_000;

/// The maximum number of patches without their text that are listed.
const MAX_HIDDEN: usize = 1_000;

/// How deep the text of a patch may be in the arguments of its call.
const MAX_PATCH_DEPTH: usize = 8;

mod change;
mod document;
mod net;
mod seen;
mod submitted;

pub(crate) use change::{Edited, File, Net, NetHunk, NetStatus, Writer, with_edit};
use change::{FILE, args, with_recorded};
pub(crate) use document::{ChangedFiles, document};
pub(crate) use net::Work;
pub(crate) use seen::{FileRead, Reported};
pub(crate) use submitted::{Submitted, submitted};

/// The files of a run, in the order of their first edits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Files {
    /// The files.
    pub files: Vec<File>,
    /// The number of listed edits.
    pub edits: usize,
    /// The number of unreadable steps, whose edits are unknown.
    pub unread: usize,
    /// The number of edits that aren't listed because there are too many.
    pub left_out: usize,
    /// The number of steps at the end that are left for the next request.
    pub pending: usize,
    /// Files that tools read, in the order of the run.
    pub reads: Vec<FileRead>,
    /// Shell commands whose output reports changed files.
    pub reported: Vec<Reported>,
    /// The steps with patches that are recorded without their text, one for each patch.
    pub hidden: Vec<usize>,
}

impl Files {
    /// Returns whether the run is known to have edited, read and reported no file so far.
    pub(crate) fn is_empty(&self) -> bool {
        let is_read = self.unread == 0 && self.pending == 0;
        is_read
            && self.files.is_empty()
            && self.reads.is_empty()
            && self.reported.is_empty()
            && self.hidden.is_empty()
    }

    /// Returns the net change of a file. Reads the lines of the steps that edit it, within the work
    /// that is `left`.
    pub(crate) fn net(
        &self,
        file: &File,
        index: &Index,
        lines: &dyn Lines,
        left: &mut Work,
    ) -> Net {
        let reads: Vec<_> = self
            .reads
            .iter()
            .filter(|read| read.path == file.path)
            .map(|read| (read.step, read.call))
            .collect();
        net::net(file, &reads, index, lines, left)
    }
}

/// The list of a run as far as it has been read. An update reads only the steps that are new or
/// changed, and the steps after them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Followed {
    list: Arc<Files>,
    /// The position of each file in the list.
    places: HashMap<String, usize>,
    steps: Vec<Seen>,
}

/// The remains of a step that was read.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// A hash of the step's requests, results and location; 0 if the step must be read again.
    print: u64,
    /// The number of pairs of lines that were left for the steps after this one.
    pairs: usize,
    /// The number of edits that weren't listed, up to and including this step.
    left_out: usize,
    /// The number of unreadable steps, up to and including this one.
    unread: usize,
}

impl Followed {
    /// Returns the edits that the calls of a run ask for. Updates the list first. A long run takes
    /// several calls, and `pending` steps are left.
    pub(crate) fn files(&mut self, index: &Index, lines: &dyn Lines) -> Arc<Files> {
        self.read(index, lines, MAX_READ)
    }

    fn read(&mut self, index: &Index, lines: &dyn Lines, mut max: usize) -> Arc<Files> {
        let same = self
            .steps
            .iter()
            .zip(index.steps())
            .take_while(|(seen, head)| seen.print == print(head))
            .count();
        if same < self.steps.len() {
            self.go_back(same);
        }
        let of_tool = index.format().is_one_file();
        for (n, head) in index.steps().iter().enumerate().skip(same) {
            if max == 0 {
                break;
            }
            max -= usize::from(self.take(n, head, index, lines, of_tool));
        }
        let pending = index.steps().len().saturating_sub(self.steps.len());
        if self.list.pending != pending {
            Arc::make_mut(&mut self.list).pending = pending;
        }
        Arc::clone(&self.list)
    }

    /// Returns the number of remembered steps and edits.
    pub(crate) fn size(&self) -> usize {
        self.steps.len() + self.list.edits + self.list.reads.len()
    }

    /// Forgets step `n` and all later steps.
    fn go_back(&mut self, n: usize) {
        self.steps.truncate(n);
        let list = Arc::make_mut(&mut self.list);
        let last = self.steps.last();
        (list.unread, list.left_out) = last.map_or((0, 0), |last| (last.unread, last.left_out));
        for file in &mut list.files {
            let kept = file.edits.partition_point(|edit| edit.step < n);
            if kept < file.edits.len() {
                let edits = file.edits.drain(..kept).collect();
                *file = File::of(std::mem::take(&mut file.path), edits);
            }
        }
        // The files are in the order of their first edits, so those without edits are at the end.
        list.files.retain(|file| !file.edits.is_empty());
        list.reads.retain(|read| read.step < n);
        list.reported.retain(|reported| reported.step < n);
        list.hidden.retain(|step| *step < n);
        list.edits = list.files.iter().map(|file| file.edits.len()).sum();
        self.places.retain(|_, place| *place < list.files.len());
    }

    /// Adds step `n`. Returns whether its line was read.
    fn take(
        &mut self,
        n: usize,
        head: &StepHead,
        index: &Index,
        lines: &dyn Lines,
        of_tool: bool,
    ) -> bool {
        let mut is_read = false;
        let mut pairs = self.steps.last().map_or(MAX_PAIRS, |last| last.pairs);
        let found = if !head.fate.is_readable() {
            None
        } else if head.actions == 0
            && !(of_tool
                && head
                    .changed
                    .iter()
                    .any(|key| index.name(*key).starts_with(FILE)))
        {
            Some(Vec::new())
        } else {
            is_read = true;
            let record = lines.record(TraceFile::Steps, head.span).ok();
            let step = record.as_ref().and_then(crate::format::step);
            step.map(|step| {
                let list = Arc::make_mut(&mut self.list);
                seen::add(n, head, &step, &mut list.reads, &mut list.reported);
                let (found, hidden) = of_step(n, head, &step, of_tool, &mut pairs);
                let left = MAX_HIDDEN.saturating_sub(list.hidden.len());
                list.hidden.extend(std::iter::repeat_n(n, hidden.min(left)));
                found
            })
        };
        let is_known = found.is_some() || !head.fate.is_readable();
        if found.as_ref().is_none_or(|found| !found.is_empty()) {
            self.add(found);
        }
        let (left_out, unread) = (self.list.left_out, self.list.unread);
        self.steps.push(Seen {
            print: if is_known { print(head) } else { 0 },
            pairs,
            left_out,
            unread,
        });
        is_read
    }

    /// Adds the edits of a step to the list. `None` means that the step is unreadable.
    fn add(&mut self, found: Option<Vec<(String, Edited)>>) {
        let list = Arc::make_mut(&mut self.list);
        let Some(found) = found else {
            list.unread += 1;
            return;
        };
        for (path, edit) in found {
            if list.edits >= MAX_EDITS {
                list.left_out += 1;
                continue;
            }
            list.edits += 1;
            let at = *self.places.entry(path).or_insert_with_key(|path| {
                list.files.push(File::of(path.clone(), Vec::new()));
                list.files.len() - 1
            });
            if let Some(file) = list.files.get_mut(at) {
                file.add(edit);
            }
        }
    }
}

/// Returns whether a call applies a patch whose text isn't recorded.
fn is_hidden_patch(call: &Call<'_>, args: &Json<'_>) -> bool {
    let name = call.name.as_deref().unwrap_or_default();
    name.rsplit('.').next() == Some("apply_patch") && !has_lines(args, MAX_PATCH_DEPTH)
}

/// Returns whether a value contains a text of several lines, as every patch is. What replaces the
/// text of a patch is one line.
fn has_lines(value: &Json<'_>, depth: usize) -> bool {
    match value {
        Json::String(text) => text.trim().contains('\n'),
        _ if depth == 0 => false,
        Json::Array(items) => items.iter().any(|item| has_lines(item, depth - 1)),
        Json::Object(members) => members
            .iter()
            .any(|(_, member)| has_lines(member, depth - 1)),
        _ => false,
    }
}

/// Returns a hash that distinguishes a step from another one at the same position. Never 0.
fn print(head: &StepHead) -> u64 {
    let mut hash = DefaultHasher::new();
    (
        head.step_id,
        head.span.offset,
        head.span.len,
        head.asked_hash,
        head.result_hash,
        head.state_hash,
    )
        .hash(&mut hash);
    (
        &head.parts,
        head.is_abandoned,
        head.fate.is_readable(),
        head.actions,
        head.failed_calls,
    )
        .hash(&mut hash);
    head.calls
        .iter()
        .for_each(|call| call.is_ok().hash(&mut hash));
    hash.finish().max(1)
}

/// Returns the edits of a step, each with the path of its file, and the number of patches that are
/// recorded without their text. `pairs` is the remaining number of pairs of lines. The lines of an
/// edit that needs more aren't counted.
fn of_step(
    n: usize,
    head: &StepHead,
    step: &Step<'_>,
    of_tool: bool,
    pairs: &mut usize,
) -> (Vec<(String, Edited)>, usize) {
    let (mut found, mut hidden) = (Vec::new(), 0);
    let mut partial = Vec::new();
    let edited = |call: Option<usize>, at, edit: Option<&Edit<'_>>, ok| {
        let (kind, to) = edit.map_or(("changed", None), |edit| words(edit.kind));
        Edited {
            step: n,
            step_id: head.step_id,
            call,
            at,
            recorded: None,
            kind,
            to: to.map(str::to_owned),
            added: edit.map(|edit| edit.added),
            removed: edit.map(|edit| edit.removed),
            ok,
            is_abandoned: head.is_abandoned,
        }
    };
    for (call, wanted) in step.calls.iter().enumerate() {
        let ok = head.calls.get(call).and_then(|mark| mark.is_ok());
        let args = args(wanted);
        if let Some((path, needed)) = to_align(&args) {
            if needed > *pairs {
                found.push((path.to_owned(), edited(Some(call), 0, None, ok)));
                continue;
            }
            *pairs -= needed;
        }
        let requested = requested_edits(wanted.name.as_deref().unwrap_or_default(), &args);
        if requested.edits.is_empty() && requested.too_large.is_none() {
            hidden += usize::from(is_hidden_patch(wanted, &args));
        }
        found.extend(
            requested
                .too_large
                .map(|path| (path.to_owned(), edited(Some(call), 0, None, ok))),
        );
        for (at, edit) in requested.edits.iter().enumerate() {
            if edit.is_partial() {
                partial.push(found.len());
            }
            found.push((
                edit.path.clone().into_owned(),
                edited(Some(call), at, Some(edit), ok),
            ));
        }
    }
    if of_tool {
        for at in partial {
            count_recorded(&mut found, at, step);
        }
    }
    if found.is_empty() && of_tool {
        for (at, change) in step
            .changes
            .into_iter()
            .flat_map(|changes| changes.iter())
            .enumerate()
        {
            let Some(path) = change.key.strip_prefix(FILE) else {
                continue;
            };
            let edit = |edit: Option<&Edit<'_>>| edited(None, at, edit, Some(true));
            found.push((
                path.to_owned(),
                with_recorded(path, &change, |recorded_edit| edit(recorded_edit)),
            ));
        }
        // The recorded changes show what the patches did.
        if !found.is_empty() {
            hidden = 0;
        }
    }
    if found.is_empty() {
        // Patches in scripts count only if nothing else shows what the script did.
        for (call, wanted) in step.calls.iter().enumerate() {
            let Some(patches) = in_scripts(&args(wanted)) else {
                continue;
            };
            let ok = head.calls.get(call).and_then(|mark| mark.is_ok());
            let all = requested_edits("", &patches).edits;
            let edits = all.iter().enumerate();
            found.extend(edits.map(|(at, edit)| {
                (
                    edit.path.clone().into_owned(),
                    edited(Some(call), at, Some(edit), ok),
                )
            }));
        }
    }
    (found, hidden)
}

/// Counts the lines of an edit as the records hold them, if they hold one change of its file and no
/// other edit may have made that.
fn count_recorded(found: &mut [(String, Edited)], at: usize, step: &Step<'_>) {
    let may_be_done = |(_, edit): &&(String, Edited)| edit.ok != Some(false);
    let Some((path, _)) = found.get(at).filter(may_be_done) else {
        return;
    };
    if found
        .iter()
        .filter(may_be_done)
        .filter(|other| other.0 == *path)
        .count()
        != 1
    {
        return;
    }
    let changes = step.changes.into_iter().flat_map(|all| all.iter());
    let mut of_file = changes.enumerate().filter(|(_, change)| {
        let short = change.key.strip_prefix(FILE);
        short.is_some_and(|short| is_path_of(path, short))
    });
    let (Some((n, change)), None) = (of_file.next(), of_file.next()) else {
        return;
    };
    let has_before = change.before().is_some_and(|text| text != "null");
    if !has_before && change.diff().is_none() {
        return;
    }
    let lines = with_recorded("", &change, |edit| {
        edit.map(|edit| (edit.added, edit.removed))
    });
    if let Some((added, removed)) = lines
        && let Some((_, edit)) = found.get_mut(at)
    {
        (edit.added, edit.removed) = (Some(added), Some(removed));
        edit.recorded = Some(n);
    }
}

/// Returns whether `short` is the same path, or that path below the project.
fn is_path_of(path: &str, short: &str) -> bool {
    let above = path.strip_suffix(short);
    above.is_some_and(|above| above.is_empty() || above.ends_with(['/', '\\']))
}

fn words<'a>(kind: EditKind<'a>) -> (&'static str, Option<&'a str>) {
    match kind {
        EditKind::Changed => ("changed", None),
        EditKind::Inserted => ("inserted", None),
        EditKind::Added => ("added", None),
        EditKind::Written => ("written", None),
        EditKind::Deleted => ("deleted", None),
        EditKind::Moved(to) => ("moved", Some(to)),
    }
}

#[cfg(test)]
mod tests;
