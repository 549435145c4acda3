//! Describes how a file changed: its edits, and their net change.

use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::patch::{
    Edit, Sign, deleted, in_scripts, recorded, recorded_diff, requested_edits,
};
use crate::model::json::{Json, walk};
use crate::model::step::{Call, Change, Step};

/// The net change of a file: from its first known version to the last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "NetChange")]
pub(crate) struct Net {
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
pub(crate) enum NetStatus {
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
pub(crate) struct NetHunk {
    /// The number of its first line in the first version, if known.
    pub old: Option<usize>,
    /// The number of its first line in the last version, if known.
    pub new: Option<usize>,
    /// The lines.
    pub lines: Vec<NetLine>,
}

/// A line of a net change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct NetLine {
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
pub(crate) enum Writer {
    /// An edit of this step.
    Step(usize),
    /// Something other than an edit changed the file between two steps.
    Outside,
}

/// A file, with its edits in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct File {
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
pub(crate) struct Edited {
    /// The step, counted from 0.
    pub step: usize,
    pub(crate) step_id: Option<i64>,
    /// The tool call in the step, counted from 0. `null` if the edit doesn't belong to a call.
    pub call: Option<usize>,
    /// The position of the edit in the call, or of the change in the step.
    #[serde(skip)]
    pub at: usize,
    /// The change of the step that records the lines, if the call holds only a part of them.
    #[serde(skip)]
    pub recorded: Option<usize>,
    // `changed`, `inserted`, `added`, `written`, `deleted`, `moved`.
    pub(crate) kind: &'static str,
    /// The new path of a moved file.
    pub to: Option<String>,
    // `None` if the lines aren't counted.
    pub(crate) added: Option<usize>,
    pub(crate) removed: Option<usize>,
    /// Whether the edit succeeded. `null` if that isn't recorded.
    pub ok: Option<bool>,
    /// Whether the edit was abandoned: the run went back to a point before it.
    #[serde(rename = "left")]
    pub is_abandoned: bool,
}

impl File {
    pub(super) fn of(path: String, edits: Vec<Edited>) -> Self {
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

    pub(super) fn add(&mut self, edit: Edited) {
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
pub(super) const FILE: &str = "files.";

/// Passes the edit that the records hold for a file, apart from calls, to `read`.
pub(super) fn with_recorded<T>(
    path: &str,
    change: &Change<'_>,
    read: impl FnOnce(Option<&Edit<'_>>) -> T,
) -> T {
    if let Some(diff) = change.diff() {
        return read(recorded_diff(path, &diff).as_ref());
    }
    let [before, after] = [change.before(), change.after()].map(|side| side.and_then(walk::string));
    if change.after() == Some("null") {
        return read(
            before
                .as_deref()
                .and_then(|text| deleted(path, text))
                .as_ref(),
        );
    }
    read(recorded(path, before.as_deref(), after.as_deref()).as_ref())
}

pub(super) fn args<'a>(call: &Call<'a>) -> Json<'a> {
    call.args.map_or(Json::Null, |args| args.json())
}

/// Passes this edit of its step to `read`, line by line. Returns `None` if the edit is too large or
/// doesn't exist any more.
pub(crate) fn with_edit<T>(
    edit: &Edited,
    step: &Step<'_>,
    read: impl FnOnce(&Edit<'_>) -> T,
) -> Option<T> {
    let mut read = Some(read);
    let mut found = None;
    if let Some(at) = edit.recorded {
        let change = step.changes.and_then(|changes| changes.iter().nth(at))?;
        let path = change.key.strip_prefix(FILE)?;
        return with_recorded(path, &change, |edit| {
            edit.zip(read).map(|(edit, read)| read(edit))
        });
    }
    with_edits(&[edit], step, |_, edit| {
        found = edit.zip(read.take()).map(|(edit, read)| read(edit));
    });
    found
}

/// Passes the edits of one call of a step to `read`, in order, each line by line. `None` is passed
/// for an edit that is too large or doesn't exist any more. Reads the call once, because reading it
/// aligns the texts of all its edits.
pub(super) fn with_edits(
    edits: &[&Edited],
    step: &Step<'_>,
    mut read: impl FnMut(&Edited, Option<&Edit<'_>>),
) {
    let Some(call) = edits.first().and_then(|edit| edit.call) else {
        for edit in edits {
            let change = step.changes.and_then(|changes| changes.iter().nth(edit.at));
            let path = change.as_ref().and_then(|it| it.key.strip_prefix(FILE));
            match change.as_ref().zip(path) {
                Some((change, path)) => with_recorded(path, change, |found| read(edit, found)),
                None => read(edit, None),
            }
        }
        return;
    };
    let call = step.calls.get(call);
    let args = call.map_or(Json::Null, args);
    let name = call.and_then(|call| call.name.as_deref());
    let direct = requested_edits(name.unwrap_or_default(), &args).edits;
    let scripts = in_scripts(&args).filter(|_| direct.is_empty());
    let in_scripts = scripts
        .as_ref()
        .map(|patches| requested_edits("", patches).edits);
    let all = in_scripts.unwrap_or(direct);
    for edit in edits {
        read(edit, all.get(edit.at));
    }
}
