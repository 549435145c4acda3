//! Reads the file edits that a call requests, from the arguments of editing tools, as removed and
//! added lines.
//!
//! Tools are recognized by their arguments rather than their names: a path with an old and a new
//! text, a list of those, a path with a whole text, line numbers with a text, or a patch in a text.
//! The edits are what the call requests. Its result shows whether they were made. Must not know
//! pages, and never reads the edited files.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use similar::DiffTag;

use super::diff::{Kind, TextChange, words};
use super::edits::{edits, numbered};
use crate::model::edit_call::{self, INSERTED, NUMBERED, PAIRS, PATHS, WHOLE, appends, replaces};
use crate::model::json::Json;

/// Longer texts aren't compared line by line; bytes. The time to align them grows with the square
/// of their length, and the result would be too long to read.
const MAX_BYTES: usize = 256 * 1024;
/// Longer texts aren't aligned, for the same reason; lines.
const MAX_LINES: usize = 4_000;
/// The number of unchanged lines shown before and after a change.
const CONTEXT: usize = 3;

/// The changes to one file that a call requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit<'a> {
    /// The file, as the call names it.
    pub path: Cow<'a, str>,
    /// The kind of edit.
    pub kind: EditKind<'a>,
    /// The number of added lines.
    pub added: usize,
    /// The number of removed lines.
    pub removed: usize,
    /// What the call asks the tool to do with the text of the file.
    pub request: Request<'a>,
    /// The line numbers, if the call gives any.
    place: Option<Row<'a>>,
    hunks: Vec<Hunk<'a>>,
}

/// What a call asks a tool to do with the text of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request<'a> {
    /// Apply the hunks of a patch ([`Edit::hunks`]).
    Hunks,
    /// Replace a text. `all` is whether every occurrence is replaced.
    Replace {
        /// The text before.
        old: &'a str,
        /// The text afterwards.
        new: &'a str,
        /// Whether every occurrence is replaced.
        all: bool,
    },
    /// Write the whole text.
    Write(&'a str),
    /// Add a text at the end.
    Append(&'a str),
    /// Insert a text after this line, or at an unknown position.
    Insert(Option<usize>, &'a str),
    /// Replace the lines with these numbers. The call may hold the first of them.
    Lines(RangeInclusive<u32>, Option<&'a str>, &'a str),
    /// The whole texts before and after are recorded instead of a request.
    Recorded(Option<&'a str>, &'a str),
}

/// The kind of edit of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EditKind<'a> {
    /// A part of the file changes.
    Changed,
    /// A text is inserted at a position that the call gives, or at the end.
    Inserted,
    /// The file is new, according to a patch.
    Added,
    /// The whole file is written. The call doesn't show whether it existed.
    Written,
    /// The file is deleted.
    Deleted,
    /// The file gets another name, and may change.
    Moved(&'a str),
}

/// A row of an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Row<'a> {
    /// The position of the next lines, as the patch words it.
    Place(&'a str),
    /// The number of unchanged lines that aren't shown.
    Unchanged(usize),
    /// The numbers of the removed lines, which the call gives instead of their texts, and how many
    /// of these texts it holds nevertheless.
    Numbered(RangeInclusive<u32>, usize),
    /// A line, in parts. A part is `true` if it changed.
    Line(Sign, Vec<(bool, &'a str)>),
}

/// Whether a line is unchanged, removed or added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    /// The line is unchanged.
    Same,
    /// The line is removed.
    Del,
    /// The line is added.
    Ins,
}

/// The edits that a call requests, and the arguments that contain them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CallEdits<'a> {
    /// The edits of each file, in the order of the call.
    pub edits: Vec<Edit<'a>>,
    /// The arguments whose whole text is in the edits.
    pub arguments: Vec<&'a str>,
    /// The file of an edit that is too large to show line by line. Then there are no edits.
    pub too_large: Option<&'a str>,
}

/// The placeholder for the path of a file that the tool has open and the call doesn't name.
const OPEN_FILE: &str = "(file not recorded)";

/// Returns the edits that a call of the tool `name` requests. Empty if the call isn't an edit, or
/// if it's too large to show line by line.
pub(crate) fn requested_edits<'a>(name: &str, args: &'a Json<'a>) -> CallEdits<'a> {
    match args {
        Json::String(text) => CallEdits {
            edits: patch(text),
            too_large: large_patch(text),
            ..CallEdits::default()
        },
        Json::Object(members) => {
            let path = PATHS
                .iter()
                .find_map(|key| text(args, key))
                .filter(|path| !path.is_empty());
            let path = path.or_else(|| edits_open_file(name, args).then_some(OPEN_FILE));
            let found = path.map_or_else(CallEdits::default, |path| at_path(name, path, args));
            if !found.edits.is_empty() {
                return found;
            }
            if let Some(path) = path.filter(|_| is_edit(name, args)) {
                return CallEdits {
                    too_large: Some(path),
                    ..CallEdits::default()
                };
            }
            // The content of a file may be a patch, which isn't applied to the files that it names.
            let texts = members
                .iter()
                .filter(|(key, _)| path.is_none() || !WHOLE.contains(&&**key));
            for (key, value) in texts {
                let text = value
                    .as_str()
                    .filter(|text| text.len() > MAX_BYTES || literals(text).is_empty());
                let edits = text.map(patch).unwrap_or_default();
                if !edits.is_empty() {
                    return CallEdits {
                        edits,
                        arguments: vec![key],
                        too_large: None,
                    };
                }
            }
            let too_large = members
                .iter()
                .find_map(|(_, value)| large_patch(value.as_str()?));
            CallEdits {
                too_large,
                ..CallEdits::default()
            }
        }
        _ => CallEdits::default(),
    }
}

/// Returns the path of the file that a call names.
pub(crate) fn path_of<'a>(args: &'a Json<'a>) -> Option<&'a str> {
    PATHS
        .iter()
        .find_map(|key| text(args, key))
        .filter(|path| !path.is_empty())
}

/// Returns the file of a call with old and new texts to align, and the number of pairs of lines to
/// compare.
pub(crate) fn to_align<'a>(args: &'a Json<'a>) -> Option<(&'a str, usize)> {
    let lines = |text: &str| memchr::memchr_iter(b'\n', text.as_bytes()).count() + 1;
    let pairs = |args: &'a Json<'a>| {
        PAIRS.iter().find_map(|(old, new)| {
            Some(lines(text(args, old)?).saturating_mul(lines(text(args, new)?)))
        })
    };
    let path = PATHS
        .iter()
        .find_map(|key| text(args, key))
        .filter(|path| !path.is_empty())?;
    let list = listed(args).map_or(&[][..], |(_, list)| list);
    let all = pairs(args)
        .into_iter()
        .chain(list.iter().filter_map(pairs))
        .fold(0, usize::saturating_add);
    (all > 0).then_some((path, all))
}

/// Returns the edit of a file whose texts before and after are recorded outside of calls, as far as
/// they are. Returns `None` if no text after it is recorded or the texts are too large.
pub(crate) fn recorded<'a>(
    path: &'a str,
    before: Option<&'a str>,
    after: Option<&'a str>,
) -> Option<Edit<'a>> {
    let after = after?;
    if before.unwrap_or_default().len().max(after.len()) > MAX_BYTES {
        return None;
    }
    let edit = match before {
        Some(before) => Edit::new(path, EditKind::Changed, compared(before, after)?),
        None => Edit::new(path, EditKind::Written, all(Sign::Ins, after)),
    };
    Some(edit.with(Request::Recorded(before, after)))
}

/// Returns the deletion of a file with this text. `None` if the text is too large.
pub(crate) fn deleted<'a>(path: &'a str, text: &'a str) -> Option<Edit<'a>> {
    let is_small = text.len() <= MAX_BYTES;
    is_small.then(|| Edit::new(path, EditKind::Deleted, all(Sign::Del, text)))
}

/// Returns the same as [`recorded`], from a unified diff of the file.
pub(crate) fn recorded_diff<'a>(path: &'a str, diff: &'a str) -> Option<Edit<'a>> {
    if diff.len() > MAX_BYTES {
        return None;
    }
    // A header in the diff begins the file again.
    let mut files = unified_after(vec![File::new(path, EditKind::Changed)], diff).into_iter();
    let file = files.find(|file| !file.hunks.is_empty())?;
    Some(Edit {
        path: Cow::Borrowed(path),
        ..file
    })
}

/// Returns the patches in string literals of scripts among the arguments of a call, joined by line
/// feeds. A script that runs other tools may hold its patch this way.
pub(crate) fn in_scripts(args: &Json<'_>) -> Option<Json<'static>> {
    let Json::Object(members) = args else {
        return None;
    };
    let scripts = members
        .iter()
        .filter_map(|(_, value)| value.as_str())
        .filter(|text| text.len() <= MAX_BYTES);
    let patches: Vec<String> = scripts.flat_map(literals).collect();
    (!patches.is_empty()).then(|| Json::String(Cow::Owned(patches.join("\n"))))
}

/// How the scripts of Codex and of Pi run a command, with the name of the argument in each notation.
const SHELLS: [(&str, [&str; 3]); 2] = [
    ("exec_command(", ["cmd:", "cmd\":", "'cmd':"]),
    ("tools.bash(", ["command:", "command\":", "'command':"]),
];

/// Returns the commands that scripts among the arguments of a call run: `exec_command({cmd: "ls"})`.
pub(crate) fn commands_in_scripts(args: &Json<'_>) -> Vec<String> {
    let Json::Object(members) = args else {
        return Vec::new();
    };
    let scripts = members
        .iter()
        .filter_map(|(_, value)| value.as_str())
        .filter(|text| text.len() <= MAX_BYTES);
    let mut found = Vec::new();
    for script in scripts {
        let calls = SHELLS.iter().flat_map(|(shell, keys)| {
            let all = script.match_indices(shell);
            all.map(move |(at, _)| (at, keys))
        });
        for (at, keys) in calls {
            let call = script.get(at..).unwrap_or_default();
            let argument = keys.iter().find_map(|key| {
                let (before, value) = call.split_once(key)?;
                // The key belongs to this call.
                (!before.contains([')', ';'])).then_some(value.trim_start())
            });
            let Some(value) = argument else { continue };
            let quote = value.chars().next();
            if let Some(quote) = quote.filter(|quote| matches!(quote, '"' | '\'' | '`')) {
                let (text, _) = literal(value.get(1..).unwrap_or_default(), quote);
                found.push(text);
            }
        }
    }
    found
}

/// Reads a string literal of a script up to its closing quote. Returns its text and its length.
fn literal(from: &str, quote: char) -> (String, usize) {
    let mut text = String::new();
    let mut letters = from.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some((_, 'n')) => text.push('\n'),
                Some((_, 't')) => text.push('\t'),
                Some((_, 'r' | '\n')) | None => {}
                Some((_, other)) => text.push(other),
            },
            letter if letter == quote => return (text, at),
            letter => text.push(letter),
        }
    }
    (text, from.len())
}

/// Returns the string literals of a script that hold a patch.
fn literals(script: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = script;
    while let Some(at) = rest.find("*** Begin Patch") {
        let (before, from) = rest.split_at(at);
        let Some(quote) = before
            .chars()
            .next_back()
            .filter(|quote| matches!(quote, '"' | '\'' | '`'))
        else {
            rest = from.get(1..).unwrap_or_default();
            continue;
        };
        let (text, end) = literal(from, quote);
        // Only template literals span lines. In a shell's quotes, a backslash has another meaning.
        if quote == '`'
            || !from
                .get(..end)
                .is_some_and(|literal| literal.contains('\n'))
        {
            found.push(text);
        }
        rest = from.get(end..).unwrap_or_default();
    }
    found
}

fn text<'a>(args: &'a Json<'a>, key: &str) -> Option<&'a str> {
    args.get(key)
        .and_then(Json::as_str)
        .filter(|text| text.len() <= MAX_BYTES)
}

/// Returns the edits of a call that names a file in an argument.
fn at_path<'a>(name: &str, path: &'a str, args: &'a Json<'a>) -> CallEdits<'a> {
    if let Some((edit, arguments)) = replaced(path, args) {
        return CallEdits {
            edits: vec![edit],
            arguments,
            too_large: None,
        };
    }
    if let Some((name, list)) = listed(args) {
        let all: Option<Vec<_>> = list
            .iter()
            .map(|item| Some(replaced(path, item)?.0))
            .collect();
        let edits = all.unwrap_or_default();
        let arguments = if edits.is_empty() {
            Vec::new()
        } else {
            vec![name]
        };
        return CallEdits {
            edits,
            arguments,
            too_large: None,
        };
    }
    if let Some((edit, arguments)) = renumbered(path, args).filter(|_| replaces(name)) {
        return CallEdits {
            edits: vec![edit],
            arguments,
            too_large: None,
        };
    }
    if let Some(edit) = text(args, "patch").and_then(|patch| in_markers(path, patch)) {
        return CallEdits {
            edits: vec![edit],
            arguments: vec!["patch"],
            too_large: None,
        };
    }
    let command = text(args, "command").unwrap_or_default();
    if command == "insert" || args.get("insert_line").is_some() {
        let key = INSERTED.into_iter().find(|key| text(args, key).is_some());
        let edit = key.and_then(|key| {
            let new = text(args, key)?;
            let edit = Edit::new(path, EditKind::Inserted, all(Sign::Ins, new));
            Some(edit.with(Request::Insert(line_after(args), new)))
        });
        return CallEdits {
            edits: edit.into_iter().collect(),
            arguments: key.into_iter().collect(),
            too_large: None,
        };
    }
    let key = WHOLE
        .into_iter()
        .find(|key| text(args, key).is_some())
        .filter(|_| writes(name, args));
    let kind = if appends(name) {
        EditKind::Inserted
    } else {
        EditKind::Written
    };
    let edit = key.and_then(|key| {
        let new = text(args, key)?;
        let edit = Edit::new(path, kind, all(Sign::Ins, new));
        Some(edit.with(match kind {
            EditKind::Inserted => Request::Append(new),
            _ => Request::Write(new),
        }))
    });
    CallEdits {
        edits: edit.into_iter().collect(),
        arguments: key.into_iter().collect(),
        too_large: None,
    }
}

/// Returns the number of the line after which a call inserts its text.
fn line_after(args: &Json<'_>) -> Option<usize> {
    match args.get("insert_line")? {
        Json::Number(digits) => digits.parse().ok(),
        _ => None,
    }
}

/// Returns whether a call replaces every occurrence of its old text.
fn replaces_all(args: &Json<'_>) -> bool {
    ["replace_all", "replaceAll", "allow_multiple"]
        .iter()
        .any(|key| args.get(key) == Some(&Json::Bool(true)))
}

/// Returns whether a call writes a whole text, judged by the name or command of its tool.
fn writes(name: &str, args: &Json<'_>) -> bool {
    text(args, "command") == Some("create") || edit_call::writes(name)
}

/// Returns whether a call without a path changes the file that its tool has open.
fn edits_open_file(name: &str, args: &Json<'_>) -> bool {
    replaces(name) && (replaced(OPEN_FILE, args).is_some() || renumbered(OPEN_FILE, args).is_some())
}

/// Returns whether the arguments are those of an edit, regardless of the length of their texts.
fn is_edit(name: &str, args: &Json<'_>) -> bool {
    let has = |args: &Json<'_>, key: &str| args.get(key).and_then(Json::as_str).is_some();
    let has_pair = |args: &Json<'_>| {
        PAIRS
            .iter()
            .any(|(old, new)| has(args, old) && has(args, new))
    };
    let list = listed(args)
        .map(|(_, list)| list)
        .filter(|list| !list.is_empty());
    let inserts = args.get("insert_line").is_some() || text(args, "command") == Some("insert");
    has_pair(args)
        || list.is_some_and(|list| list.iter().all(has_pair))
        || inserts && INSERTED.iter().any(|key| has(args, key))
        || writes(name, args) && WHOLE.iter().any(|key| has(args, key))
}

/// Returns the edits in an argument of their own, and its name. A single one may be without a list.
fn listed<'v, 'a>(args: &'v Json<'a>) -> Option<(&'static str, &'v [Json<'a>])> {
    let edits = || Some(("edits", args.get("edits")?.as_array()?));
    let edit = || {
        let edit = args.get("edit")?;
        match edit {
            Json::Object(_) => Some(("edit", std::slice::from_ref(edit))),
            _ => Some(("edit", edit.as_array()?)),
        }
    };
    edits().or_else(edit)
}

/// Returns the label for the files of a patch that is too large to read.
fn large_patch(text: &str) -> Option<&'static str> {
    let begins = |head| text.starts_with(head);
    let is_patch = || text.contains("*** Begin Patch\n") || begins("diff --git ") || begins("--- ");
    (text.len() > MAX_BYTES && is_patch()).then_some("(files in a patch)")
}

/// Returns the edit of a call with an old and a new text.
fn replaced<'a>(path: &'a str, args: &'a Json<'a>) -> Option<(Edit<'a>, Vec<&'a str>)> {
    let (old_key, new_key) = PAIRS
        .into_iter()
        .find(|(old, new)| text(args, old).is_some() && text(args, new).is_some())?;
    let (old, new) = (text(args, old_key)?, text(args, new_key)?);
    let all = replaces_all(args);
    let edit = Edit::new(path, EditKind::Changed, compared(old, new)?);
    Some((
        edit.with(Request::Replace { old, new, all }),
        vec![old_key, new_key],
    ))
}

/// Returns the edit of a file by blocks between conflict markers: `<<<<<<< ORIGINAL`, the old lines,
/// `=======`, the new lines, `>>>>>>> UPDATED`. Any word may follow the markers.
fn in_markers<'a>(path: &'a str, patch: &'a str) -> Option<Edit<'a>> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    let (mut old, mut new) = (None, None);
    let mut at = 0;
    for line in patch.split_inclusive('\n') {
        let (start, bare) = (at, line.trim_end());
        at += line.len();
        if bare.starts_with("<<<<<<< ") {
            (old, new) = (Some(at), None);
        } else if bare == "=======" && new.is_none() {
            new = old.map(|from| (patch.get(from..start).unwrap_or_default(), at));
        } else if bare.starts_with(">>>>>>> ") {
            let ended = new.take().map(|(before, from)| {
                let after = patch.get(from..start).unwrap_or_default();
                (before, after)
            });
            pairs.extend(ended);
            old = None;
        }
    }
    let &(old, new) = pairs.first()?;
    let compared: Option<Vec<_>> = pairs
        .iter()
        .map(|(old, new)| Some((None, compared(old, new)?)))
        .collect();
    let edit = Edit::of(path, EditKind::Changed, compared?);
    Some(if pairs.len() == 1 {
        edit.with(Request::Replace {
            old,
            new,
            all: false,
        })
    } else {
        edit
    })
}

/// Returns the edit of a call that gives line numbers and a replacement text. The call may hold the
/// text of the first replaced line, so that the tool can check that the file hasn't changed.
fn renumbered<'a>(path: &'a str, args: &'a Json<'a>) -> Option<(Edit<'a>, Vec<&'a str>)> {
    let number = |key| match args.get(key)? {
        Json::Number(digits) => digits.parse::<u32>().ok(),
        _ => None,
    };
    let (first, last) = (number("start_line")?, number("end_line")?);
    let key = NUMBERED.into_iter().find(|key| text(args, key).is_some())?;
    let gone = last.checked_add(1)?.checked_sub(first)? as usize;
    let old = text(args, "expect").filter(|old| gone > 0 && !old.contains('\n'));
    let lines = old
        .map(|old| (Sign::Del, old))
        .into_iter()
        .chain(all(Sign::Ins, text(args, key)?));
    let kind = if gone == 0 {
        EditKind::Inserted
    } else {
        EditKind::Changed
    };
    let mut edit = Edit::new(path, kind, lines.collect());
    edit.place = Some(Row::Numbered(first..=last, usize::from(old.is_some())));
    edit.removed = gone;
    edit.request = Request::Lines(first..=last, old, text(args, key)?);
    Some((
        edit,
        old.map(|_| "expect").into_iter().chain([key]).collect(),
    ))
}

/// Consecutive lines, and their position as the patch words it.
pub(crate) type Hunk<'a> = (Option<&'a str>, Vec<(Sign, &'a str)>);

impl<'a> Edit<'a> {
    /// Returns whether the call may hold only a part of the lines that change: not those of a deleted
    /// or overwritten file, and one of many replaced occurrences.
    pub(crate) fn is_partial(&self) -> bool {
        let is_deletion = self.kind == EditKind::Deleted && self.removed == 0;
        is_deletion
            || matches!(
                self.request,
                Request::Write(_) | Request::Replace { all: true, .. }
            )
    }

    fn new(path: &'a str, kind: EditKind<'a>, lines: Vec<(Sign, &'a str)>) -> Self {
        Self::of(path, kind, vec![(None, lines)])
    }

    fn of(path: &'a str, kind: EditKind<'a>, hunks: Vec<Hunk<'a>>) -> Self {
        let count = |wanted| {
            hunks
                .iter()
                .flat_map(|(_, lines)| lines)
                .filter(|(sign, _)| *sign == wanted)
                .count()
        };
        let (added, removed) = (count(Sign::Ins), count(Sign::Del));
        Self {
            path: Cow::Borrowed(path),
            kind,
            added,
            removed,
            request: Request::Hunks,
            place: None,
            hunks,
        }
    }

    fn with(self, request: Request<'a>) -> Self {
        Self { request, ..self }
    }

    /// Returns the groups of consecutive lines, each with its position as the patch words it.
    pub(crate) fn hunks(&self) -> &[Hunk<'a>] {
        &self.hunks
    }

    /// Returns the lines in reading order. Callers that only count lines shouldn't use this,
    /// because finding the changed words takes long.
    pub(crate) fn rows(&self) -> Vec<Row<'a>> {
        let mut rows: Vec<_> = self.place.iter().cloned().collect();
        for (place, lines) in &self.hunks {
            rows.extend(place.map(Row::Place));
            shortened(lines, &mut rows);
        }
        rows
    }
}

/// Splits a text into lines. A line feed at its end doesn't start another line.
fn lines(text: &str) -> Vec<&str> {
    text.strip_suffix('\n')
        .unwrap_or(text)
        .split('\n')
        .collect()
}

fn all(sign: Sign, text: &str) -> Vec<(Sign, &str)> {
    if text.is_empty() {
        Vec::new()
    } else {
        lines(text).into_iter().map(|line| (sign, line)).collect()
    }
}

/// Compares two texts line by line. Returns `None` if either has too many lines.
fn compared<'a>(old: &'a str, new: &'a str) -> Option<Vec<(Sign, &'a str)>> {
    if old.is_empty() || new.is_empty() {
        return Some(
            all(Sign::Del, old)
                .into_iter()
                .chain(all(Sign::Ins, new))
                .collect(),
        );
    }
    let (before, after) = (lines(old), lines(new));
    if before.len().max(after.len()) > MAX_LINES {
        return None;
    }
    let (a, b) = numbered(before.iter(), after.iter());
    let mut out = Vec::new();
    for op in edits(&a, &b) {
        let (tag, from, to) = op.as_tag_tuple();
        let side =
            |sign, lines: &[&'a str]| lines.iter().map(|line| (sign, *line)).collect::<Vec<_>>();
        let gone = before.get(from).unwrap_or_default();
        if tag == DiffTag::Equal {
            out.extend(side(Sign::Same, gone));
        } else {
            out.extend(side(Sign::Del, gone));
            out.extend(side(Sign::Ins, after.get(to).unwrap_or_default()));
        }
    }
    Some(out)
}

/// Leaves out unchanged lines that are far from a change, and marks the changed words in lines that
/// replace each other.
fn shortened<'a>(lines: &[(Sign, &'a str)], rows: &mut Vec<Row<'a>>) {
    let mut at = 0;
    let run = |from: usize, sign: Sign| {
        lines
            .iter()
            .skip(from)
            .take_while(|line| line.0 == sign)
            .count()
    };
    while at < lines.len() {
        let same = run(at, Sign::Same);
        let plain = |from: usize, to: usize| {
            let lines = lines.get(from..to).unwrap_or_default();
            lines
                .iter()
                .map(|(sign, line)| Row::Line(*sign, vec![(false, *line)]))
                .collect::<Vec<_>>()
        };
        let (first, last) = (at == 0, at + same == lines.len());
        let head = if first { 0 } else { CONTEXT };
        let tail = if last { 0 } else { CONTEXT };
        if same > head + tail + 1 && !(first && last) {
            rows.extend(plain(at, at + head));
            rows.push(Row::Unchanged(same - head - tail));
            rows.extend(plain(at + same - tail, at + same));
        } else {
            rows.extend(plain(at, at + same));
        }
        at += same;
        let gone = run(at, Sign::Del);
        let come = run(at + gone, Sign::Ins);
        let text = |from: usize, count: usize| lines.get(from..from + count).unwrap_or_default();
        replaced_lines(text(at, gone), text(at + gone, come), rows);
        at += gone + come;
    }
}

/// Returns the lines of a hunk in reading order, with the changed words marked.
pub(crate) fn marked<'a>(lines: &[(Sign, &'a str)]) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    shortened(lines, &mut rows);
    rows
}

/// Returns the numbers of the first lines of a hunk before and after, if its position has any.
pub(crate) fn hunk_start(place: &str) -> Option<(usize, usize)> {
    hunk(place)?;
    let (old, rest) = place.strip_prefix("@@ -")?.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let start = |range: &str| range.split(',').next()?.parse().ok();
    Some((start(old)?, start(new)?))
}

/// Returns the edits of a unified diff in a text. Empty if the text holds none or is too large.
pub(crate) fn unified_diff(text: &str) -> Vec<Edit<'_>> {
    if text.len() > MAX_BYTES {
        return Vec::new();
    }
    unified(text)
}

/// Adds removed lines and the ones that replace them. Marks the changed words if each removed line
/// has exactly one replacement.
fn replaced_lines<'a>(gone: &[(Sign, &'a str)], come: &[(Sign, &'a str)], rows: &mut Vec<Row<'a>>) {
    let whole = |(sign, line): &(Sign, &'a str)| Row::Line(*sign, vec![(false, *line)]);
    if gone.len() != come.len() {
        rows.extend(gone.iter().chain(come).map(whole));
        return;
    }
    let (mut old, mut new) = (Vec::new(), Vec::new());
    for (before, after) in gone.iter().zip(come) {
        let TextChange::Edited(parts) = words(before.1, after.1) else {
            old.push(whole(before));
            new.push(whole(after));
            continue;
        };
        let side = |own: Kind| {
            let parts = parts
                .iter()
                .filter(|(kind, _)| *kind == Kind::Same || *kind == own);
            parts
                .map(|(kind, text)| (*kind == own, *text))
                .collect::<Vec<_>>()
        };
        old.push(Row::Line(Sign::Del, side(Kind::Del)));
        new.push(Row::Line(Sign::Ins, side(Kind::Ins)));
    }
    rows.extend(old);
    rows.extend(new);
}

/// Returns the edits of a patch in a text, in either of the two common formats. Empty if the text
/// holds no patch.
fn patch(text: &str) -> Vec<Edit<'_>> {
    if text.len() > MAX_BYTES {
        return Vec::new();
    }
    let found = enveloped(text);
    if found.is_empty() {
        unified(text)
    } else {
        found
    }
}

/// A file of a patch whose lines are being read.
struct File<'a> {
    path: &'a str,
    kind: EditKind<'a>,
    hunks: Vec<Hunk<'a>>,
}

impl<'a> File<'a> {
    fn new(path: &'a str, kind: EditKind<'a>) -> Self {
        Self {
            path,
            kind,
            hunks: Vec::new(),
        }
    }

    fn push(&mut self, sign: Sign, line: &'a str) {
        if self.hunks.is_empty() {
            self.hunks.push((None, Vec::new()));
        }
        if let Some((_, lines)) = self.hunks.last_mut() {
            lines.push((sign, line));
        }
    }

    fn edit(self) -> Edit<'a> {
        Edit::of(self.path, self.kind, self.hunks)
    }
}

/// Reads a patch of `apply_patch`: between `*** Begin Patch` and `*** End Patch`.
fn enveloped(text: &str) -> Vec<Edit<'_>> {
    let mut files: Vec<File<'_>> = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        let is_begin = !is_inside && line.contains("*** Begin Patch");
        if is_begin || line.trim_end() == "*** End Patch" {
            is_inside = is_begin;
            continue;
        }
        if !is_inside {
            continue;
        }
        let file = |head| line.strip_prefix(head).map(str::trim_end);
        if let Some(path) = file("*** Update File: ") {
            files.push(File::new(path, EditKind::Changed));
        } else if let Some(path) = file("*** Add File: ") {
            files.push(File::new(path, EditKind::Added));
        } else if let Some(path) = file("*** Delete File: ") {
            files.push(File::new(path, EditKind::Deleted));
        } else if let Some(last) = files.last_mut() {
            match (file("*** Move to: "), line.split_at_checked(1)) {
                (Some(path), _) => last.kind = EditKind::Moved(path),
                _ if line.starts_with("*** ") => {}
                (_, Some(("@", _))) => last.hunks.push((Some(line), Vec::new())),
                (_, Some(("+", rest))) => last.push(Sign::Ins, rest),
                (_, Some(("-", rest))) => last.push(Sign::Del, rest),
                (_, Some((" ", rest))) => last.push(Sign::Same, rest),
                _ => last.push(Sign::Same, line),
            }
        }
    }
    files.into_iter().map(File::edit).collect()
}

/// Reads a unified diff: `--- old`, `+++ new`, then hunks with the numbers of their lines.
fn unified(text: &str) -> Vec<Edit<'_>> {
    unified_after(Vec::new(), text)
        .into_iter()
        .filter(|edit| !edit.hunks.is_empty())
        .collect()
}

/// Reads a unified diff with some files already known. Hunks without a file belong to the last one.
fn unified_after<'a>(mut files: Vec<File<'a>>, text: &'a str) -> Vec<Edit<'a>> {
    let mut lines = text.lines().peekable();
    // The remaining lines of the hunk before and after.
    let mut left = (0, 0);
    while let Some(line) = lines.next() {
        if left != (0, 0) {
            let Some(file) = files.last_mut() else { break };
            let (sign, rest, (old, new)) = match line.split_at_checked(1) {
                Some(("+", rest)) => (Sign::Ins, rest, (0, 1)),
                Some(("-", rest)) => (Sign::Del, rest, (1, 0)),
                Some((" ", rest)) => (Sign::Same, rest, (1, 1)),
                Some(("\\", _)) => continue,
                _ if line.is_empty() => (Sign::Same, line, (1, 1)),
                // Not a hunk after all. A text that can't be parsed isn't shown as an edit.
                _ => return Vec::new(),
            };
            file.push(sign, rest);
            left = (
                usize::saturating_sub(left.0, old),
                usize::saturating_sub(left.1, new),
            );
        } else if let (Some(old), Some(new)) = (
            line.strip_prefix("--- "),
            lines.peek().and_then(|next| next.strip_prefix("+++ ")),
        ) {
            lines.next();
            files.push(match (named(old), named(new)) {
                ("/dev/null", path) => File::new(path, EditKind::Added),
                (path, "/dev/null") => File::new(path, EditKind::Deleted),
                (_, path) => File::new(path, EditKind::Changed),
            });
        } else if let (Some(counts), Some(file)) = (hunk(line), files.last_mut()) {
            file.hunks.push((Some(line), Vec::new()));
            left = counts;
        }
    }
    files.into_iter().map(File::edit).collect()
}

/// Returns the path in a header line, without the prefixes `a/` and `b/` of git and without a
/// timestamp.
fn named(head: &str) -> &str {
    let path = head.split('\t').next().unwrap_or(head).trim_end();
    path.strip_prefix("a/")
        .or_else(|| path.strip_prefix("b/"))
        .unwrap_or(path)
}

/// Returns the numbers of lines of a hunk before and after: `@@ -1,4 +1,5 @@`.
fn hunk(line: &str) -> Option<(usize, usize)> {
    let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let count = |range: &str| {
        range
            .split_once(',')
            .map_or(Some(1), |(_, count)| count.parse().ok())
    };
    Some((count(old)?, count(new)?))
}

#[cfg(test)]
mod tests;
