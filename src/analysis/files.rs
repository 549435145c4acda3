//! Which files did a run ask to change, and in which steps? Reads the calls of all its steps, when somebody asks.
//!
//! What the calls ask for is read by [`patch`](super::patch); how they went is what the index keeps of them. Where no call
//! of a step asks for an edit, what other tools' records tell of files counts. What commands do to files is not seen here.
//! Must not know pages.

use std::collections::HashMap;

use crate::analysis::patch::{Edit, EditKind, asked, recorded, to_align};
use crate::model::json::{Json, walk};
use crate::model::step::{Call, Step};
use crate::model::{Index, Lines, StepHead, TraceFile};

/// More edits of one run are counted and not listed.
pub const MAX_EDITS: usize = 50_000;

/// So many pairs of lines are looked at in all to align texts; edits beyond are listed and not counted in lines.
const MAX_PAIRS: usize = 50_000_000;

/// The files of a run, in the order in which they were first asked to change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
    /// File by file.
    pub files: Vec<File>,
    /// How many edits are listed.
    pub edits: usize,
    /// How many steps could not be read, so that their edits are not known.
    pub unread: usize,
    /// How many edits are not listed, since there are too many.
    pub left_out: usize,
}

/// A file that calls ask to change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct File {
    /// As the calls name it.
    pub path: String,
    /// Lines that come, in all edits that did not fail.
    pub added: usize,
    /// Lines that go, likewise.
    pub removed: usize,
    /// How many edits failed.
    pub failed: usize,
    /// How many did not, and are not counted in lines: too large, too many, or their lines are not recorded.
    pub uncounted: usize,
    /// In the order of the run.
    pub edits: Vec<Edited>,
}

/// One edit of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// The step whose call asks for it.
    pub step: usize,
    /// The place of the call among those of the step; `None` where no call asks for it and the records tell of it.
    pub call: Option<usize>,
    /// The place of the edit among those of the call, or of the change among those of the step.
    pub at: usize,
    /// What becomes of the file: `changed`, `inserted`, `added`, `written`, `deleted`, `moved`.
    pub kind: &'static str,
    /// The name it gets.
    pub to: Option<String>,
    /// How many lines come and go; `None` where they are not counted.
    pub lines: Option<(usize, usize)>,
    /// Whether the call went well; `None` where that is not known.
    pub ok: Option<bool>,
    /// Whether the run went back to before the step, and on from there.
    pub is_left: bool,
}

/// The edits that the calls of a run ask for.
pub fn files(index: &Index, lines: &dyn Lines) -> Files {
    let mut out = Files::default();
    let mut places: HashMap<String, usize> = HashMap::new();
    let of_tool = index.format().is_one_file();
    let mut pairs = MAX_PAIRS;
    for (n, head) in index.steps().iter().enumerate() {
        if !head.fate.is_readable() {
            out.unread += 1;
            continue;
        }
        if head.actions == 0 && !(of_tool && head.changed.iter().any(|key| index.name(*key).starts_with(FILE))) {
            continue;
        }
        let record = lines.record(TraceFile::Steps, head.span).ok();
        let Some(step) = record.as_ref().and_then(crate::format::step) else {
            out.unread += 1;
            continue;
        };
        for (path, edit) in of_step(n, head, &step, of_tool, &mut pairs) {
            if out.edits >= MAX_EDITS {
                out.left_out += 1;
                continue;
            }
            out.edits += 1;
            let at = *places.entry(path).or_insert_with_key(|path| {
                out.files.push(File { path: path.clone(), ..File::default() });
                out.files.len() - 1
            });
            if let Some(file) = out.files.get_mut(at) {
                file.add(edit);
            }
        }
    }
    out
}

impl File {
    fn add(&mut self, edit: Edited) {
        match (edit.ok, edit.lines) {
            (Some(false), _) => self.failed += 1,
            (_, Some((added, removed))) => {
                self.added += added;
                self.removed += removed;
            }
            (_, None) => self.uncounted += 1,
        }
        self.edits.push(edit);
    }
}

/// What the records of other tools tell of a file is the value of a key that begins so.
const FILE: &str = "files.";

/// The edits of a step, each with the path of its file; of those that need more than the `pairs` of lines that are left,
/// one that is not counted.
fn of_step(n: usize, head: &StepHead, step: &Step<'_>, of_tool: bool, pairs: &mut usize) -> Vec<(String, Edited)> {
    let mut found = Vec::new();
    let edited = |call: Option<usize>, at, edit: Option<&Edit<'_>>, ok| {
        let (kind, to) = edit.map_or(("changed", None), |edit| words(edit.kind));
        let (to, lines) = (to.map(str::to_owned), edit.map(|edit| (edit.added, edit.removed)));
        Edited { step: n, call, at, kind, to, lines, ok, is_left: head.is_left }
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
        let asked = asked(wanted.name.as_deref().unwrap_or_default(), &args);
        found.extend(asked.too_large.map(|path| (path.to_owned(), edited(Some(call), 0, None, ok))));
        let edits = asked.edits.iter().enumerate();
        found.extend(edits.map(|(at, edit)| (edit.path.clone().into_owned(), edited(Some(call), at, Some(edit), ok))));
    }
    if found.is_empty() && of_tool {
        for (at, change) in step.changes.into_iter().flat_map(|changes| changes.iter()).enumerate() {
            let Some(path) = change.key.strip_prefix(FILE) else { continue };
            let [before, after] = [change.before(), change.after()].map(|side| side.and_then(walk::string));
            let edit = recorded(path, before.as_deref(), after.as_deref());
            found.push((path.to_owned(), edited(None, at, edit.as_ref(), Some(true))));
        }
    }
    found
}

fn args<'a>(call: &Call<'a>) -> Json<'a> {
    call.args.map_or(Json::Null, |args| args.json())
}

/// Tells `read` what this edit of its step is, line by line; `None` where it is too large or not there any more.
pub fn with_edit<T>(edit: &Edited, step: &Step<'_>, read: impl FnOnce(&Edit<'_>) -> T) -> Option<T> {
    match edit.call {
        Some(call) => {
            let call = step.calls.get(call)?;
            let args = args(call);
            asked(call.name.as_deref().unwrap_or_default(), &args).edits.get(edit.at).map(read)
        }
        None => {
            let change = step.changes?.iter().nth(edit.at)?;
            let [before, after] = [change.before(), change.after()].map(|side| side.and_then(walk::string));
            recorded(change.key.strip_prefix(FILE)?, before.as_deref(), after.as_deref()).as_ref().map(read)
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
