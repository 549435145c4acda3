//! Lists the files that a run's calls requested to change, and the steps that did so. Reads the calls
//! of all steps on request.
//!
//! [`patch`](super::patch) reads what the calls ask for. The index records whether the calls
//! succeeded. If no call of a step asks for an edit, the file changes that other tools record count
//! instead. Changes made by shell commands aren't tracked. Must not know pages.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::patch::{
    Edit, EditKind, Sign, in_scripts, recorded, recorded_diff, requested_edits, to_align,
};
use crate::model::json::{Json, walk};
use crate::model::step::{Call, Change, Step};
use crate::model::{Index, Lines, StepHead, TraceFile};

/// The maximum number of edits of one run that are listed. Further ones are only counted.
pub const MAX_EDITS: usize = 50_000;

/// The maximum number of lines of a run that one request reads, which takes about 1.5 seconds. The
/// next request continues there.
const MAX_READ: usize = 50_000;

/// The maximum number of pairs of lines that are compared to align the texts of a run. Further
/// edits are listed, but their lines aren't counted.
const MAX_PAIRS: usize = 50_000_000;

mod net;
mod seen;
mod submitted;

pub use net::Work;
pub use seen::{FileRead, Reported};
pub use submitted::{Submitted, submitted};

/// The net change of a file: from its first known version to the last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "NetChange")]
pub struct Net {
    /// What became of the file.
    pub status: NetStatus,
    /// Added lines.
    pub added: usize,
    /// Removed lines.
    pub removed: usize,
    /// Whether the whole text of the first version is known.
    pub is_whole: bool,
    /// Whether the line numbers are known.
    pub is_numbered: bool,
    /// Whether it can be written as a patch that applies to the first version.
    #[serde(skip)]
    pub is_patch: bool,
    /// Whether some lines were written by something other than an edit, such as a shell command.
    pub is_outside: bool,
    /// Edits that aren't part of the net change, as their index in `edits`, and the reason.
    pub apart: Vec<(usize, String)>,
    /// Edits that aren't part of the net change because there are too many, or because their step
    /// can't be read.
    pub left_out: usize,
    /// Edits whose outcome isn't recorded. They count as made.
    pub outcome_unknown: usize,
    /// The last new path of a moved file.
    pub moved_to: Option<String>,
    /// The changed lines with the lines around them.
    pub hunks: Vec<NetHunk>,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NetStatus {
    /// The file is new.
    Added,
    /// The file changed.
    #[default]
    Modified,
    /// The file is gone.
    Deleted,
    /// The whole file was written. Whether it existed before isn't recorded.
    Written,
}

/// Consecutive lines of a net change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NetHunk {
    /// The number of its first line in the first version, if known.
    pub old: Option<usize>,
    /// The number of its first line in the last version, if known.
    pub new: Option<usize>,
    /// The lines.
    pub lines: Vec<NetLine>,
}

/// A line of a net change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NetLine {
    /// `same`, `del` or `ins`.
    #[serde(serialize_with = "sign_word")]
    #[schemars(with = "String")]
    pub sign: Sign,
    /// The line without its line feed.
    pub text: String,
    // Whether it ends with a line feed.
    #[serde(skip)]
    pub has_end: bool,
    /// What wrote an added line, if known.
    pub by: Option<Writer>,
    /// Its number in the first version.
    pub old: Option<usize>,
    /// Its number in the last version.
    pub new: Option<usize>,
}

fn sign_word<S: serde::Serializer>(sign: &Sign, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(match sign {
        Sign::Same => "same",
        Sign::Del => "del",
        Sign::Ins => "ins",
    })
}

/// What wrote a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Writer {
    /// An edit of this step.
    Step(usize),
    /// Something other than an edit changed the file between two steps.
    Outside,
}

impl Net {
    /// Returns a unified diff that applies to the first version, if the line numbers are known.
    /// `path` is relative to the project.
    pub fn patch(&self, path: &str) -> Option<String> {
        net::patch(self, path)
    }
}

/// The files of a run, in the order of their first edits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
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
}

impl Files {
    /// Returns the net change of a file. Reads the lines of the steps that edit it, within the work
    /// that is `left`.
    pub fn net(&self, file: &File, index: &Index, lines: &dyn Lines, left: &mut Work) -> Net {
        let reads: Vec<_> = self
            .reads
            .iter()
            .filter(|read| read.path == file.path)
            .map(|read| (read.step, read.call))
            .collect();
        net::net(file, &reads, index, lines, left)
    }
}

/// A file, with its edits in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct File {
    // As the calls name it.
    pub(crate) path: String,
    /// Lines added by successful edits that can be counted. `null` if there are none.
    // 0 if no lines had to be counted.
    pub added: Option<usize>,
    pub(crate) removed: Option<usize>,
    #[serde(rename = "edits_failed")]
    pub(crate) failed: usize,
    /// Edits whose lines can't be counted.
    // They didn't fail, but they are too large or too many, or aren't recorded.
    #[serde(rename = "edits_uncounted")]
    pub uncounted: usize,
    pub(crate) edits: Vec<Edited>,
}

/// An edit of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Edit")]
pub struct Edited {
    /// The ordinal of the step.
    pub step: usize,
    pub(crate) step_id: Option<i64>,
    /// The index of the tool call in the step. `null` if the edit doesn't belong to a call.
    pub call: Option<usize>,
    /// The position of the edit in the call, or of the change in the step.
    #[serde(skip)]
    pub at: usize,
    // `changed`, `inserted`, `added`, `written`, `deleted`, `moved`.
    pub(crate) kind: &'static str,
    /// The new path of a moved file.
    pub to: Option<String>,
    // `None` if the lines aren't counted.
    pub(crate) added: Option<usize>,
    pub(crate) removed: Option<usize>,
    /// Whether the edit succeeded. `null` if that isn't recorded.
    pub ok: Option<bool>,
    /// Whether the run went back to a point before the edit.
    #[serde(rename = "left")]
    pub is_abandoned: bool,
}

/// The list of a run as far as it has been read. An update reads only the steps that are new or
/// changed, and the steps after them.
#[derive(Debug, Clone, Default)]
pub struct Followed {
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
    pub fn files(&mut self, index: &Index, lines: &dyn Lines) -> Arc<Files> {
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
    pub fn size(&self) -> usize {
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
                of_step(n, head, &step, of_tool, &mut pairs)
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

impl File {
    fn of(path: String, edits: Vec<Edited>) -> Self {
        let mut file = Self {
            path,
            added: Some(0),
            removed: Some(0),
            failed: 0,
            uncounted: 0,
            edits: Vec::new(),
        };
        edits.into_iter().for_each(|edit| file.add(edit));
        file
    }

    fn add(&mut self, edit: Edited) {
        let (mut added, mut removed) = (
            self.added.unwrap_or_default(),
            self.removed.unwrap_or_default(),
        );
        match (edit.ok, edit.added.zip(edit.removed)) {
            (Some(false), _) => self.failed += 1,
            (_, Some((more, fewer))) => {
                added += more;
                removed += fewer;
            }
            (_, None) => self.uncounted += 1,
        }
        self.edits.push(edit);
        let is_counted = self.uncounted == 0 || self.uncounted + self.failed < self.edits.len();
        (self.added, self.removed) = (is_counted.then_some(added), is_counted.then_some(removed));
    }
}

/// The prefix of the keys under which other tools' records hold the changes of a file.
const FILE: &str = "files.";

/// Returns the edits of a step, each with the path of its file. `pairs` is the remaining number of
/// pairs of lines. The lines of an edit that needs more aren't counted.
fn of_step(
    n: usize,
    head: &StepHead,
    step: &Step<'_>,
    of_tool: bool,
    pairs: &mut usize,
) -> Vec<(String, Edited)> {
    let mut found = Vec::new();
    let edited = |call: Option<usize>, at, edit: Option<&Edit<'_>>, ok| {
        let (kind, to) = edit.map_or(("changed", None), |edit| words(edit.kind));
        Edited {
            step: n,
            step_id: head.step_id,
            call,
            at,
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
        found.extend(
            requested
                .too_large
                .map(|path| (path.to_owned(), edited(Some(call), 0, None, ok))),
        );
        let edits = requested.edits.iter().enumerate();
        found.extend(edits.map(|(at, edit)| {
            (
                edit.path.clone().into_owned(),
                edited(Some(call), at, Some(edit), ok),
            )
        }));
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
    found
}

/// Passes the edit that the records hold for a file, apart from calls, to `read`.
fn with_recorded<T>(
    path: &str,
    change: &Change<'_>,
    read: impl FnOnce(Option<&Edit<'_>>) -> T,
) -> T {
    if let Some(diff) = change.diff() {
        return read(recorded_diff(path, &diff).as_ref());
    }
    let [before, after] = [change.before(), change.after()].map(|side| side.and_then(walk::string));
    read(recorded(path, before.as_deref(), after.as_deref()).as_ref())
}

fn args<'a>(call: &Call<'a>) -> Json<'a> {
    call.args.map_or(Json::Null, |args| args.json())
}

/// Passes this edit of its step to `read`, line by line. Returns `None` if the edit is too large or
/// doesn't exist any more.
pub fn with_edit<T>(
    edit: &Edited,
    step: &Step<'_>,
    read: impl FnOnce(&Edit<'_>) -> T,
) -> Option<T> {
    match edit.call {
        Some(call) => {
            let call = step.calls.get(call)?;
            let args = args(call);
            let direct = requested_edits(call.name.as_deref().unwrap_or_default(), &args);
            match in_scripts(&args).filter(|_| direct.edits.is_empty()) {
                Some(patches) => requested_edits("", &patches).edits.get(edit.at).map(read),
                None => direct.edits.get(edit.at).map(read),
            }
        }
        None => {
            let change = step.changes?.iter().nth(edit.at)?;
            with_recorded(change.key.strip_prefix(FILE)?, &change, |edit| {
                edit.map(read)
            })
        }
    }
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
