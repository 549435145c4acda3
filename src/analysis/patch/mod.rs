//! Which files does a call want to change, and how? Reads the arguments of editing tools as lines that go and come.
//!
//! Tools are known by their arguments, not by their names: a path with an old and a new text, a list of those, a path with
//! a whole text, numbers of lines with a text, a patch in a text. What is told is what the call asks for; whether it was done, its result says. Must not
//! know pages, and never reads the files themselves.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use similar::DiffTag;

use super::diff::{Kind, TextChange, words};
use super::edits::{edits, numbered};
use crate::model::json::Json;

/// A longer text is not compared line by line: nobody reads it so, and the time to align it grows with its square.
const MAX_BYTES: usize = 256 * 1024;
/// More lines than this of either text are not aligned, for the same reason.
const MAX_LINES: usize = 4_000;
/// So many lines that stay are shown on either side of a change.
const CONTEXT: usize = 3;

/// What a call asks of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit<'a> {
    /// The file, as the call names it.
    pub path: Cow<'a, str>,
    /// What becomes of it.
    pub kind: EditKind<'a>,
    /// How many lines come.
    pub added: usize,
    /// How many lines go.
    pub removed: usize,
    /// Where the call names lines by their numbers, which.
    place: Option<Row<'a>>,
    hunks: Vec<Hunk<'a>>,
}

/// What becomes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditKind<'a> {
    /// A part of it changes.
    Changed,
    /// The text is put in at a place that the call names, or at the end.
    Inserted,
    /// It is new, as a patch says.
    Added,
    /// All of it is written; what was there before the call does not say.
    Written,
    /// It goes.
    Deleted,
    /// It gets another name, and may change.
    Moved(&'a str),
}

/// A row of an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row<'a> {
    /// Where the next lines stand, as the patch words it.
    Place(&'a str),
    /// So many lines stay, which are not shown.
    Unchanged(usize),
    /// The call names the lines that go by their numbers, and holds the texts of so many of them.
    Numbered(RangeInclusive<u32>, usize),
    /// A line, in parts that stay or are what changed in it.
    Line(Sign, Vec<(bool, &'a str)>),
}

/// Whether a line stays, goes or comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// It stays.
    Same,
    /// It goes.
    Del,
    /// It comes.
    Ins,
}

/// What a call asks for, and the arguments that say so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallEdits<'a> {
    /// File by file, in the order of the call.
    pub edits: Vec<Edit<'a>>,
    /// The arguments whose whole text stands in the edits.
    pub arguments: Vec<&'a str>,
    /// The file of an edit that is too large to be told line by line; there are no edits then.
    pub too_large: Option<&'a str>,
}

const PATHS: [&str; 8] = [
    "file_path",
    "path",
    "filePath",
    "filename",
    "file",
    "target_file",
    "absolute_path",
    "notebook_path",
];
const PAIRS: [(&str, &str); 9] = [
    ("old_string", "new_string"),
    ("old_str", "new_str"),
    ("oldString", "newString"),
    ("old_text", "new_text"),
    ("oldText", "newText"),
    ("old", "new"),
    ("search", "replace"),
    ("find", "replace"),
    ("from_text", "to_text"),
];
const NUMBERED: [&str; 4] = ["text", "new_text", "new_str", "replacement_text"];
/// What a file is called that only the state of the tool tells: the one that it has open.
const OPEN_FILE: &str = "(the open file, which the call does not name)";
const WHOLE: [&str; 5] = ["content", "contents", "file_text", "new_content", "text"];

/// The edits that a call of the tool `name` asks for; nothing where it is no edit, or one too large to show line by line.
pub fn asked<'a>(name: &str, args: &'a Json<'a>) -> CallEdits<'a> {
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
            // The content of a file may be a patch, and is no change of what that patch names.
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

/// The file of a call whose old and new texts have to be aligned, and how many pairs of lines there are to look at.
pub fn to_align<'a>(args: &'a Json<'a>) -> Option<(&'a str, usize)> {
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
    let list = args
        .get("edits")
        .and_then(Json::as_array)
        .unwrap_or_default();
    let all = pairs(args)
        .into_iter()
        .chain(list.iter().filter_map(pairs))
        .fold(0, usize::saturating_add);
    (all > 0).then_some((path, all))
}

/// What a record tells of a file besides its calls, by its texts before and after, as far as they are recorded; nothing
/// where they tell no line, or are too large.
pub fn recorded<'a>(
    path: &'a str,
    before: Option<&'a str>,
    after: Option<&'a str>,
) -> Option<Edit<'a>> {
    let after = after?;
    if before.unwrap_or_default().len().max(after.len()) > MAX_BYTES {
        return None;
    }
    Some(match before {
        Some(before) => Edit::new(path, EditKind::Changed, compared(before, after)?),
        None => Edit::new(path, EditKind::Written, all(Sign::Ins, after)),
    })
}

/// The same, by a unified diff of the file.
pub fn recorded_diff<'a>(path: &'a str, diff: &'a str) -> Option<Edit<'a>> {
    if diff.len() > MAX_BYTES {
        return None;
    }
    let file = unified_after(vec![File::new(path, EditKind::Changed)], diff)
        .into_iter()
        .next()?;
    Some(Edit {
        path: Cow::Borrowed(path),
        ..file
    })
}

/// The patches that stand as strings in scripts among the arguments of a call, one below the other. A script that runs
/// other tools holds its patch so.
pub fn in_scripts(args: &Json<'_>) -> Option<Json<'static>> {
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

/// The strings of a script that hold a patch.
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
        let mut text = String::new();
        let mut letters = from.char_indices();
        let mut end = from.len();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\\' => match letters.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, 'r' | '\n')) | None => {}
                    Some((_, other)) => text.push(other),
                },
                letter if letter == quote => {
                    end = at;
                    break;
                }
                letter => text.push(letter),
            }
        }
        // Only a template has line ends; in a shell's quotes a backslash means something else.
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

/// An edit of a file that has an argument of its own.
fn at_path<'a>(name: &str, path: &'a str, args: &'a Json<'a>) -> CallEdits<'a> {
    if let Some((edit, arguments)) = replaced(path, args) {
        return CallEdits {
            edits: vec![edit],
            arguments,
            too_large: None,
        };
    }
    if let Some(list) = args.get("edits").and_then(Json::as_array) {
        let all: Option<Vec<_>> = list
            .iter()
            .map(|item| Some(replaced(path, item)?.0))
            .collect();
        let edits = all.unwrap_or_default();
        let arguments = if edits.is_empty() {
            Vec::new()
        } else {
            vec!["edits"]
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
    let command = text(args, "command").unwrap_or_default();
    if command == "insert" || args.get("insert_line").is_some() {
        let key = ["new_str", "insert_text", "text"]
            .into_iter()
            .find(|key| text(args, key).is_some());
        let edit = key.and_then(|key| {
            Some(Edit::new(
                path,
                EditKind::Inserted,
                all(Sign::Ins, text(args, key)?),
            ))
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
    let edit = key.and_then(|key| Some(Edit::new(path, kind, all(Sign::Ins, text(args, key)?))));
    CallEdits {
        edits: edit.into_iter().collect(),
        arguments: key.into_iter().collect(),
        too_large: None,
    }
}

/// Whether a call writes a whole text, by the name of its tool or its command.
fn writes(name: &str, args: &Json<'_>) -> bool {
    let lower = name.to_ascii_lowercase();
    text(args, "command") == Some("create")
        || lower.contains("write")
        || lower.contains("create")
        || appends(name)
}

/// Whether what a tool writes comes after what is there, by its name.
fn appends(name: &str) -> bool {
    name.to_ascii_lowercase().contains("append")
}

/// Whether a tool changes parts of a file, by its name.
fn replaces(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    lower.contains("edit") || lower.contains("replace")
}

/// Whether a call without a path changes the file that its tool has open.
fn edits_open_file(name: &str, args: &Json<'_>) -> bool {
    replaces(name) && (replaced(OPEN_FILE, args).is_some() || renumbered(OPEN_FILE, args).is_some())
}

/// Whether the arguments are those of an edit, however long their texts are.
fn is_edit(name: &str, args: &Json<'_>) -> bool {
    let has = |args: &Json<'_>, key: &str| args.get(key).and_then(Json::as_str).is_some();
    let has_pair = |args: &Json<'_>| {
        PAIRS
            .iter()
            .any(|(old, new)| has(args, old) && has(args, new))
    };
    let list = args
        .get("edits")
        .and_then(Json::as_array)
        .filter(|list| !list.is_empty());
    let inserts = args.get("insert_line").is_some() || text(args, "command") == Some("insert");
    has_pair(args)
        || list.is_some_and(|list| list.iter().all(has_pair))
        || inserts
            && ["new_str", "insert_text", "text"]
                .iter()
                .any(|key| has(args, key))
        || writes(name, args) && WHOLE.iter().any(|key| has(args, key))
}

/// What a patch is called that is too large to be read.
fn large_patch(text: &str) -> Option<&'static str> {
    let begins = |head| text.starts_with(head);
    let is_patch = || text.contains("*** Begin Patch\n") || begins("diff --git ") || begins("--- ");
    (text.len() > MAX_BYTES && is_patch()).then_some("(files of a patch)")
}

/// An old text and a new one.
fn replaced<'a>(path: &'a str, args: &'a Json<'a>) -> Option<(Edit<'a>, Vec<&'a str>)> {
    let (old_key, new_key) = PAIRS
        .into_iter()
        .find(|(old, new)| text(args, old).is_some() && text(args, new).is_some())?;
    let (old, new) = (text(args, old_key)?, text(args, new_key)?);
    Some((
        Edit::new(path, EditKind::Changed, compared(old, new)?),
        vec![old_key, new_key],
    ))
}

/// Lines that are named by their numbers, and the text that comes in their place. Of those that go, a call may hold the
/// first, so that the tool finds out whether they are still the same.
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
    Some((
        edit,
        old.map(|_| "expect").into_iter().chain([key]).collect(),
    ))
}

/// Lines that stand together, and where, as the patch words it.
type Hunk<'a> = (Option<&'a str>, Vec<(Sign, &'a str)>);

impl<'a> Edit<'a> {
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
            place: None,
            hunks,
        }
    }

    /// Its lines in reading order. Which words changed in them takes long to find: who only counts does not ask.
    pub fn rows(&self) -> Vec<Row<'a>> {
        let mut rows: Vec<_> = self.place.iter().cloned().collect();
        for (place, lines) in &self.hunks {
            rows.extend(place.map(Row::Place));
            shortened(lines, &mut rows);
        }
        rows
    }
}

/// Lines without the end of the last.
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

/// Two texts line by line; `None` where they have too many lines.
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

/// Leaves out lines that stay and are far from a change, and marks the words in those that replace each other.
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

/// Lines that go and those that come in their place. Words are marked where each line has a partner: one line by one.
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

/// The edits of a patch in a text, in either of the two forms in use; nothing where it holds none.
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

/// A file of a patch while its lines are read.
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

/// The patch of `apply_patch`: between `*** Begin Patch` and `*** End Patch`.
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

/// A unified diff: `--- old`, `+++ new`, then hunks that say how many lines they have.
fn unified(text: &str) -> Vec<Edit<'_>> {
    unified_after(Vec::new(), text)
        .into_iter()
        .filter(|edit| !edit.hunks.is_empty())
        .collect()
}

/// The same, where `files` are known already: hunks that no file is named for are of the last one.
fn unified_after<'a>(mut files: Vec<File<'a>>, text: &'a str) -> Vec<Edit<'a>> {
    let mut lines = text.lines().peekable();
    // How many lines of either side the hunk still has.
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
                // It is no hunk after all: what is not understood is not shown as an edit.
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

/// The path in a head line, without the `a/` and `b/` of git and a time behind it.
fn named(head: &str) -> &str {
    let path = head.split('\t').next().unwrap_or(head).trim_end();
    path.strip_prefix("a/")
        .or_else(|| path.strip_prefix("b/"))
        .unwrap_or(path)
}

/// How many lines a hunk has before and after: `@@ -1,4 +1,5 @@`.
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
