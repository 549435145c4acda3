//! Computes the net change of one file: from the first known version to the last, with the step
//! that wrote each added line.
//!
//! If a whole text of the file is recorded, the edits are replayed on it, forwards and backwards. If
//! only parts are recorded, edits are joined where one changes the text of another. An edit that
//! doesn't match the known text is never applied by guessing: it's listed apart, with the reason.
//! Must not know pages.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use similar::DiffTag;

use super::change::{Edited, FILE, File, Net, NetHunk, NetLine, NetStatus, Writer, with_edits};
use crate::analysis::edits::{edits, numbered};
use crate::analysis::patch::{Edit, EditKind, Request, Sign, hunk_start};
use crate::model::json::{Json, walk};
use crate::model::step::Step;
use crate::model::{Index, Lines, TraceFile};

/// Longer texts aren't replayed; bytes.
const MAX_TEXT: usize = 512 * 1024;
/// The texts of all edits that one request reads; bytes.
const MAX_TEXTS: usize = 32 * 1024 * 1024;
/// The records that one request reads for them; bytes. A step that edits several files is read for
/// each of them.
const MAX_RECORDS: usize = 256 * 1024 * 1024;
/// Maximum number of edits that one request replays.
const MAX_EVENTS: usize = 4_000;
/// The bytes that one request may rewrite or search, and the pairs of lines that it may compare.
const MAX_WORK: usize = 100_000_000;
/// The unchanged lines around a change.
const CONTEXT: usize = 3;
/// The results of reading tools that are searched for the text of an edit.
const MAX_READS: usize = 8;
/// Longer lines may be truncated in the result of a reading tool; bytes.
const MAX_READ_LINE: usize = 1_900;
/// A result with more lines may be truncated.
const MAX_READ_LINES: usize = 1_990;

/// What one request may still read and compute.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    /// The bytes of records.
    records: usize,
    texts: usize,
    events: usize,
    pairs: usize,
}

impl Default for Work {
    fn default() -> Self {
        Self {
            records: MAX_RECORDS,
            texts: MAX_TEXTS,
            events: MAX_EVENTS,
            pairs: MAX_WORK,
        }
    }
}

/// A hunk of a patch: its position, and its lines.
type Hunk = (Option<String>, Vec<(Sign, String)>);

/// What an edit does to the text.
#[derive(Debug)]
enum Op {
    Replace(String, String, bool),
    Write(String),
    Append(String),
    Insert(Option<usize>, String),
    Lines(usize, usize, Option<String>, String),
    Hunks(Vec<Hunk>),
    Delete,
    /// The request is too large or can't be read.
    Unknown(&'static str),
}

/// An edit that didn't fail.
#[derive(Debug)]
struct Event {
    /// The index of the edit in its file.
    edit: usize,
    step: usize,
    op: Op,
    /// The recorded text before. `Some(None)` means that there was no file.
    before: Option<Option<String>>,
    after: Option<String>,
}

/// A text that a tool read, with the number of its first line.
#[derive(Debug)]
struct Read {
    from: usize,
    lines: Vec<String>,
    is_whole: bool,
}

/// A text with the writer of each line. Lines include their line ends.
#[derive(Debug, Clone, Default)]
struct Text {
    lines: Vec<String>,
    by: Vec<Option<Writer>>,
}

fn split(text: &str) -> Vec<String> {
    text.split_inclusive('\n').map(str::to_owned).collect()
}

/// Returns the numbers of equal lines at the start and at the end of two texts.
fn common<T: PartialEq>(old: &[T], new: &[T]) -> (usize, usize) {
    let start = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let most = old.len().min(new.len()) - start;
    let end = old.iter().rev().zip(new.iter().rev());
    (start, end.take(most).take_while(|(a, b)| a == b).count())
}

/// Aligns the lines of two texts: ranges of equal, removed and added lines. Without enough work
/// left, everything between the equal ends counts as replaced.
fn aligned(old: &[String], new: &[String], work: &mut usize) -> Vec<(DiffTag, usize, usize)> {
    let (start, end) = common(old, new);
    let (a, b) = (
        old.get(start..old.len() - end).unwrap_or_default(),
        new.get(start..new.len() - end).unwrap_or_default(),
    );
    let mut out = vec![(DiffTag::Equal, start, start)];
    let cost = a.len().saturating_mul(b.len());
    if cost > *work {
        out.push((DiffTag::Replace, a.len(), b.len()));
    } else {
        *work -= cost;
        let (a, b) = numbered(a.iter(), b.iter());
        for op in edits(&a, &b) {
            let (tag, old, new) = op.as_tag_tuple();
            out.push((tag, old.len(), new.len()));
        }
    }
    out.push((DiffTag::Equal, end, end));
    out
}

impl Text {
    fn of(text: &str) -> Self {
        let lines = split(text);
        let by = vec![None; lines.len()];
        Self { lines, by }
    }

    fn text(&self) -> String {
        self.lines.concat()
    }

    fn len(&self) -> usize {
        self.lines.iter().map(String::len).sum()
    }

    /// Replaces the text. Lines that stay keep their writer.
    fn rewrite(&mut self, new: &str, by: impl Fn(&str) -> Option<Writer>, work: &mut usize) {
        let lines = split(new);
        let mut writers = Vec::with_capacity(lines.len());
        let (mut old_at, mut new_at) = (0, 0);
        for (tag, old, new) in aligned(&self.lines, &lines, work) {
            if tag == DiffTag::Equal {
                writers.extend(self.by.iter().skip(old_at).take(old));
            } else {
                let added = lines.iter().skip(new_at).take(new);
                writers.extend(added.map(|line| by(line)));
            }
            (old_at, new_at) = (old_at + old, new_at + new);
        }
        (self.lines, self.by) = (lines, writers);
    }
}

/// A known part of the file, or all of it.
#[derive(Debug, Clone)]
struct Piece {
    base: Vec<String>,
    now: Text,
    /// The number of its first line in the first version, if known.
    base_at: Option<usize>,
    /// Whether it consists of whole lines.
    is_lines: bool,
    /// It grows at the end of the file.
    is_end: bool,
}

impl Piece {
    fn of(text: &str, base_at: Option<usize>) -> Self {
        Self {
            base: split(text),
            now: Text::of(text),
            base_at,
            is_lines: true,
            is_end: false,
        }
    }

    fn is_changed(&self) -> bool {
        self.base != self.now.lines
    }

    /// Returns the length of its text in the first version.
    fn base_len(&self) -> usize {
        self.base.iter().map(String::len).sum()
    }

    /// Returns whether the part can lie in a text of these lines of the first version.
    fn can_lie_in(&self, at: Option<usize>, lines: usize) -> bool {
        let (Some(own), Some(at)) = (self.base_at, at) else {
            return true;
        };
        let moved = self.base.len().abs_diff(self.now.lines.len());
        let end = at.saturating_add(lines).saturating_add(moved);
        own.saturating_add(moved) >= at && own < end
    }

    /// Returns whether a text at this line of the first version can lie in the part. Lines in a
    /// changed part have no exact number there.
    fn can_have(&self, at: Option<usize>) -> bool {
        let (Some(own), Some(at)) = (self.base_at, at) else {
            return true;
        };
        let (old, new) = (self.base.len(), self.now.lines.len());
        at.saturating_add(old.abs_diff(new)) >= own && at < own.saturating_add(old.max(new))
    }
}

/// The known content of the file while its edits are replayed.
struct Replay {
    pieces: Vec<Piece>,
    /// The only piece is the whole file.
    is_whole: bool,
    existed: Option<bool>,
    exists: bool,
    /// Whether the end of the first version is exactly known.
    is_end_known: bool,
    apart: Vec<(usize, String)>,
    work: usize,
}

/// Returns the net change of a file.
pub(super) fn net(
    file: &File,
    reads: &[(usize, usize)],
    index: &Index,
    lines: &dyn Lines,
    left: &mut Work,
) -> Net {
    let (events, left_out) = events(file, index, lines, left);
    let first = events.first().map_or(usize::MAX, |event| event.step);
    let is_known = events.first().is_some_and(|event| event.before.is_some());
    let reads = if is_known {
        Vec::new()
    } else {
        read_before(reads, first, index, lines, left)
    };
    let mut net = replayed(&events, reads, &mut left.pairs);
    net.left_out = left_out;
    net.outcome_unknown = file.edits.iter().filter(|edit| edit.ok.is_none()).count();
    let made = file.edits.iter().filter(|edit| edit.ok != Some(false));
    net.moved_to = made.rev().find_map(|edit| edit.to.clone());
    net
}

/// Returns the change that a submitted patch makes to one file.
pub(super) fn of_patch(edit: &Edit<'_>, work: &mut usize) -> Net {
    let event = Event {
        edit: 0,
        step: 0,
        op: op(edit),
        before: (edit.kind == EditKind::Added).then_some(None),
        after: None,
    };
    let mut net = replayed(&[event], Vec::new(), work);
    if edit.kind == EditKind::Deleted {
        net.status = NetStatus::Deleted;
    }
    let lines = net.hunks.iter_mut().flat_map(|hunk| &mut hunk.lines);
    lines.for_each(|line| line.by = None);
    net
}

fn op(edit: &Edit<'_>) -> Op {
    match &edit.request {
        _ if edit.kind == EditKind::Deleted
            && edit.hunks().iter().all(|hunk| hunk.1.is_empty()) =>
        {
            Op::Delete
        }
        Request::Hunks => {
            let line = |(sign, line): &(Sign, &str)| (*sign, (*line).to_owned());
            let hunks = edit.hunks().iter().filter(|hunk| !hunk.1.is_empty());
            let hunk = |hunk: &(Option<&str>, Vec<(Sign, &str)>)| {
                (hunk.0.map(str::to_owned), hunk.1.iter().map(line).collect())
            };
            Op::Hunks(hunks.map(hunk).collect())
        }
        Request::Replace { old, new, all } => Op::Replace((*old).into(), (*new).into(), *all),
        Request::Write(text) | Request::Recorded(_, text) => Op::Write((*text).into()),
        Request::Append(text) => Op::Append((*text).into()),
        Request::Insert(at, text) => Op::Insert(at.filter(|at| is_number(*at)), (*text).into()),
        Request::Lines(range, old, new) => Op::Lines(
            *range.start() as usize,
            range.clone().count(),
            old.map(str::to_owned),
            (*new).into(),
        ),
    }
}

/// Reads the edits that didn't fail out of the lines of their steps. Also returns how many there
/// was no room for.
fn events(file: &File, index: &Index, lines: &dyn Lines, left: &mut Work) -> (Vec<Event>, usize) {
    let (mut events, mut left_out) = (Vec::new(), 0);
    let all: Vec<_> = file.edits.iter().enumerate().collect();
    for edits in all.chunk_by(|a, b| a.1.step == b.1.step) {
        let done: Vec<_> = edits
            .iter()
            .filter(|edit| edit.1.ok != Some(false))
            .collect();
        let is_spent = left.texts == 0 || left.records == 0;
        if done.len() > left.events || is_spent || left_out > 0 {
            left_out += done.len();
            continue;
        }
        let Some(first) = done.first() else { continue };
        let record = index
            .steps()
            .get(first.1.step)
            .and_then(|head| lines.record(TraceFile::Steps, head.span).ok());
        let len = record.as_ref().map_or(0, |record| record.text.len());
        left.records = left.records.saturating_sub(len);
        let Some(step) = record.as_ref().and_then(crate::format::step) else {
            left_out += done.len();
            continue;
        };
        let sides = sides(&file.path, &step);
        // One call may make several edits, and records the texts before the first and after the last.
        let calls: Vec<_> = done
            .chunk_by(|a, b| a.1.call.is_some() && a.1.call == b.1.call)
            .collect();
        let is_paired = sides.len() == calls.len();
        for (call, edits) in calls.iter().enumerate() {
            let (before, after) = sides
                .get(call)
                .filter(|_| is_paired)
                .cloned()
                .unwrap_or_default();
            let places = edits.iter().map(|(at, _)| *at);
            let edits: Vec<&Edited> = edits.iter().map(|(_, edit)| *edit).collect();
            let mut found = Vec::new();
            with_edits(&edits, &step, |edit, read| {
                found.push(event(edit, read, &step))
            });
            let mut own: Vec<_> = places
                .zip(found)
                .map(|(edit, event)| Event { edit, ..event })
                .collect();
            if let (Some(first), Some(before)) = (own.first_mut(), before) {
                first.before = Some(Some(before));
            }
            if let (Some(last), Some(after)) = (own.last_mut(), after) {
                last.after = Some(after);
            }
            let bytes = own.iter().map(Event::len).sum();
            left.texts = left.texts.saturating_sub(bytes);
            left.events = left.events.saturating_sub(own.len());
            events.extend(own);
        }
    }
    (events, left_out)
}

/// Returns the recorded texts of a file before and after each change in a step. The record may name
/// the file by the end of its path, unless that fits several of its files.
fn sides(path: &str, step: &Step<'_>) -> Vec<(Option<String>, Option<String>)> {
    let is_end = |short: &str| {
        path.strip_suffix(short)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    };
    let changes = || {
        let all = step.changes.into_iter().flat_map(|changes| changes.iter());
        all.filter_map(|change| Some((change.key.strip_prefix(FILE)?.to_owned(), change)))
    };
    let names: HashSet<String> = changes()
        .map(|(name, _)| name)
        .filter(|name| is_end(name))
        .collect();
    let is_own = |name: &str| match names.contains(path) {
        true => name == path,
        false => names.len() == 1 && names.contains(name),
    };
    let own = changes().filter(|(name, _)| is_own(name));
    let text = |side: Option<&str>| {
        let text = walk::string(side?)?.into_owned();
        (text.len() <= MAX_TEXT).then_some(text)
    };
    own.map(|(_, change)| (text(change.before()), text(change.after())))
        .collect()
}

/// Describes what an edit does. `found` is the edit, if it can be read.
fn event(edit: &Edited, found: Option<&Edit<'_>>, step: &Step<'_>) -> Event {
    let recorded = found.and_then(|found| match found.request {
        Request::Recorded(before, _) => before.map(|before| Some(before.to_owned())),
        _ => None,
    });
    let op = found.map_or(Op::Unknown("it's too large or can't be read"), op);
    let says_new = |path: &str| {
        let result = edit.call.and_then(|call| step.results.get(call)?.output);
        result.is_some_and(|output| says_created(&output.plain(), path))
    };
    let is_new = found.is_some_and(|found| {
        found.kind == EditKind::Added || matches!(op, Op::Write(_)) && says_new(&found.path)
    });
    Event {
        edit: 0,
        step: edit.step,
        op,
        before: recorded.or(is_new.then_some(None)),
        after: None,
    }
}

/// Returns whether the result of a writing tool says that the file is new.
fn says_created(said: &str, path: &str) -> bool {
    const CREATED: [&str; 6] = [
        "file created",
        "created file",
        "created successfully",
        "successfully created",
        "created new file",
        "created a new file",
    ];
    // The path may have the same words.
    let path = path.to_ascii_lowercase();
    let beginning = said.chars().take(200 + 2 * path.len());
    let mut said = beginning.collect::<String>().to_ascii_lowercase();
    let name = path.rsplit('/').next().unwrap_or_default();
    for part in [path.as_str(), name] {
        if !part.is_empty() {
            said = said.replace(part, "\0");
        }
    }
    let is_said = |words: &[&str]| words.iter().any(|words| said.contains(words));
    is_said(&CREATED) && !is_said(&["updated", "overw", "already exists"])
}

impl Event {
    fn len(&self) -> usize {
        let op = match &self.op {
            Op::Replace(old, new, _) => old.len() + new.len(),
            Op::Write(text) | Op::Append(text) | Op::Insert(_, text) => text.len(),
            Op::Lines(.., old, new) => old.as_deref().unwrap_or_default().len() + new.len(),
            Op::Hunks(hunks) => hunks
                .iter()
                .flat_map(|hunk| &hunk.1)
                .map(|line| line.1.len() + 32)
                .sum(),
            Op::Delete | Op::Unknown(_) => 0,
        };
        let before = self.before.iter().flatten().map(String::len).sum::<usize>();
        op + before + self.after.as_deref().unwrap_or_default().len()
    }
}

/// Returns the texts that tools read before the first edit, the latest first.
fn read_before(
    reads: &[(usize, usize)],
    first: usize,
    index: &Index,
    lines: &dyn Lines,
    left: &mut Work,
) -> Vec<Read> {
    let before = reads.iter().rev().filter(|(step, _)| *step < first);
    let mut found = Vec::new();
    for (step, call) in before.take(MAX_READS) {
        if left.records == 0 {
            break;
        }
        let head = index.steps().get(*step);
        let record = head.and_then(|head| lines.record(TraceFile::Steps, head.span).ok());
        let len = record.as_ref().map_or(0, |record| record.text.len());
        left.records = left.records.saturating_sub(len);
        let step = record.as_ref().and_then(crate::format::step);
        found.extend(step.and_then(|step| {
            let output = step.results.get(*call)?.output?.plain().into_owned();
            let args = step.calls.get(*call)?.args?.json();
            let parts = ["offset", "limit", "view_range", "start_line", "end_line"];
            let is_part = parts
                .iter()
                .any(|key| args.get(key).is_some_and(|value| !value.is_empty()));
            plain_lines(&output, is_part).or_else(|| numbered_lines(&output, is_part))
        }));
    }
    found
}

/// Reads the text in a result that is an object: `{"start_line": 4, "text": "…", "total_lines": 16}`,
/// or `{"content": "…", "chars": 77}`.
fn plain_lines(output: &str, is_part: bool) -> Option<Read> {
    if output.len() > MAX_TEXT || !output.starts_with('{') {
        return None;
    }
    let json = Json::parse(output)?;
    let number = |key: &str| {
        let number = json.get(key).and_then(Json::as_f64)?;
        u32::try_from(number as i64).ok().map(|n| n as usize)
    };
    if let Some(text) = json.get("content").and_then(Json::as_str) {
        let is_whole = !is_part && number("chars") == Some(text.chars().count());
        return is_whole.then(|| Read {
            from: 1,
            is_whole,
            lines: split(text),
        });
    }
    let text = json.get("text").and_then(Json::as_str)?;
    let from = number("start_line").filter(|from| *from > 0)?;
    let lines = split(text);
    // A part that ends without a line end may be cut in the middle of the line.
    let is_all = number("total_lines") == Some(lines.len()) && number("truncated_bytes") == Some(0);
    let is_whole = from == 1 && is_all;
    (is_whole || text.ends_with('\n')).then_some(Read {
        from,
        is_whole,
        lines,
    })
}

/// Reads the numbered lines in the result of a reading tool: `     1→text`, or `1<tab>text`.
fn numbered_lines(output: &str, is_part: bool) -> Option<Read> {
    let numbered = |line: &str| {
        let line = line.trim_start_matches(' ');
        let digits = line.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = line.split_at_checked(digits)?;
        let rest = rest.strip_prefix('→').or_else(|| rest.strip_prefix('\t'))?;
        Some((number.parse::<u32>().ok()? as usize, rest.to_owned()))
    };
    if output.len() > MAX_TEXT {
        return None;
    }
    let mut lines = output.lines().skip_while(|line| numbered(line).is_none());
    let (from, first) = numbered(lines.next()?)?;
    let mut found = vec![first];
    let mut lines = lines.peekable();
    while let Some((number, text)) = lines.peek().and_then(|line| numbered(line)) {
        if number != from + found.len() {
            break;
        }
        found.push(text);
        lines.next();
    }
    // Other words after the lines may say that there are more.
    let rest = lines.collect::<Vec<_>>().join("\n");
    if from == 0 || found.iter().any(|line| line.len() > MAX_READ_LINE) {
        return None;
    }
    Some(Read {
        from,
        is_whole: from == 1
            && !is_part
            && found.len() < MAX_READ_LINES
            && has_only_reminders(&rest),
        lines: found.into_iter().map(|line| line + "\n").collect(),
    })
}

/// Returns whether a text is blank apart from the reminders that a tool adds for the model.
fn has_only_reminders(mut text: &str) -> bool {
    loop {
        text = text.trim();
        let Some(reminder) = text.strip_prefix("<system-reminder>") else {
            return text.is_empty();
        };
        let Some((_, rest)) = reminder.split_once("</system-reminder>") else {
            return false;
        };
        text = rest;
    }
}

/// Returns the numbers of a hunk, if a file can have such lines.
fn start_of(place: &str) -> Option<(usize, usize)> {
    hunk_start(place).filter(|(old, new)| is_number(*old) && is_number(*new))
}

fn is_number(line: usize) -> bool {
    u32::try_from(line).is_ok()
}

/// Replays the edits.
fn replayed(events: &[Event], reads: Vec<Read>, work: &mut usize) -> Net {
    let mut replay = Replay {
        pieces: Vec::new(),
        is_whole: false,
        existed: None,
        exists: true,
        is_end_known: true,
        apart: Vec::new(),
        work: std::mem::take(work),
    };
    let first = replay.start(events, reads);
    for event in events.get(first..).unwrap_or_default() {
        let result = if replay.is_whole {
            replay.on_whole(event)
        } else {
            replay.on_pieces(event)
        };
        if let Err(why) = result {
            replay.apart.push((event.edit, why));
        }
    }
    let (net, left) = replay.net(events);
    *work = left;
    net
}

impl Replay {
    /// Finds the first whole text, and goes back from there to the text before the first edit.
    /// Returns the index of the first event to replay.
    fn start(&mut self, events: &[Event], reads: Vec<Read>) -> usize {
        if let Some(read) = reads.iter().find(|read| read.is_whole)
            && events.first().is_some_and(|event| event.before.is_none())
        {
            self.whole(&read.lines.concat(), Some(true));
            self.is_end_known = false;
            return 0;
        }
        let known = |event: &Event| event.before.is_some() || matches!(event.op, Op::Write(_));
        let Some(at) = events.iter().position(known) else {
            let mut seen: Vec<(usize, usize)> = Vec::new();
            for read in reads {
                let range = (read.from, read.from.saturating_add(read.lines.len()));
                if seen
                    .iter()
                    .all(|other| range.1 <= other.0 || other.1 <= range.0)
                {
                    seen.push(range);
                    self.pieces
                        .push(Piece::of(&read.lines.concat(), Some(read.from)));
                }
            }
            return 0;
        };
        let Some(event) = events.get(at) else {
            return 0;
        };
        let earlier = events.get(..at).unwrap_or_default();
        let Some(before) = &event.before else {
            let why = "a later edit writes the whole file, and the text before that isn't recorded";
            self.apart
                .extend(earlier.iter().map(|event| (event.edit, why.to_owned())));
            self.is_whole = true;
            self.pieces = vec![Piece::of("", Some(1))];
            return at;
        };
        let mut text = before.clone().unwrap_or_default();
        let mut first = at;
        while let Some(event) = first.checked_sub(1).and_then(|at| events.get(at)) {
            match undone(&text, &event.op, &mut self.work) {
                Some(before) => text = before,
                None => break,
            }
            first -= 1;
        }
        let why = "it was made before the first known text and doesn't match it";
        let before = events.get(..first).unwrap_or_default();
        self.apart
            .extend(before.iter().map(|event| (event.edit, why.to_owned())));
        let existed = first < at || event.before.as_ref().is_some_and(Option::is_some);
        // Earlier edits show that there was a file, whose text isn't known.
        let is_known = existed || first == 0;
        self.whole(&text, is_known.then_some(existed));
        first
    }

    fn whole(&mut self, text: &str, existed: Option<bool>) {
        self.existed = existed;
        self.exists = existed.unwrap_or(true);
        self.is_whole = true;
        self.pieces = vec![Piece::of(text, Some(1))];
    }

    fn on_whole(&mut self, event: &Event) -> Result<(), String> {
        let work = &mut self.work;
        let Some(piece) = self.pieces.first_mut() else {
            return Ok(());
        };
        if let Some(before) = &event.before {
            let before = before.as_deref().unwrap_or_default();
            if piece.now.lines.concat() != before {
                piece.now.rewrite(before, |_| Some(Writer::Outside), work);
            }
        }
        let after = match &event.after {
            Some(after) => after.clone(),
            None => applied(&piece.now.text(), &event.op, work)?,
        };
        if after.len() > MAX_TEXT {
            return Err("the text is too large".to_owned());
        }
        piece
            .now
            .rewrite(&after, |_| Some(Writer::Step(event.step)), work);
        self.exists = !matches!(event.op, Op::Delete);
        Ok(())
    }

    fn on_pieces(&mut self, event: &Event) -> Result<(), String> {
        match &event.op {
            Op::Replace(old, new, all) => {
                self.replace(old, new, *all, None, event, false)?;
                Ok(())
            }
            Op::Hunks(hunks) => {
                let size = |piece: &Piece| piece.now.len() + piece.base_len() + 1;
                take(&mut self.work, self.pieces.iter().map(size).sum())?;
                let before = self.pieces.clone();
                let result = self.patch(hunks, event);
                if result.is_err() {
                    self.pieces = before;
                }
                result
            }
            Op::Append(text) => {
                if !self.pieces.iter().any(|piece| piece.is_end) {
                    self.pieces.push(Piece {
                        is_end: true,
                        ..Piece::of("", None)
                    });
                }
                let work = &mut self.work;
                if let Some(piece) = self.pieces.iter_mut().find(|piece| piece.is_end) {
                    take(work, piece.now.len().saturating_add(text.len()))?;
                    let text = piece.now.text() + text;
                    piece
                        .now
                        .rewrite(&text, |_| Some(Writer::Step(event.step)), work);
                }
                Ok(())
            }
            Op::Insert(at, text) => {
                let base_at = match at {
                    Some(at) => self.in_base(at.saturating_add(1))?,
                    None => None,
                };
                self.add("", text, base_at, event, true);
                Ok(())
            }
            Op::Lines(from, 0, _, text) => {
                let base_at = self.in_base(*from)?;
                self.add("", text, base_at, event, true);
                Ok(())
            }
            Op::Lines(from, count, old, text) => {
                self.replace_lines(*from, *count, old.as_deref(), text, event)
            }
            Op::Delete => {
                self.exists = false;
                Ok(())
            }
            Op::Write(_) => Err("the text before it isn't known".to_owned()),
            Op::Unknown(why) => Err((*why).to_owned()),
        }
    }

    /// Replaces `count` lines from line `from` on, if the known parts or the edit record them. `old`
    /// is the first one of them.
    fn replace_lines(
        &mut self,
        from: usize,
        count: usize,
        old: Option<&str>,
        new: &str,
        event: &Event,
    ) -> Result<(), String> {
        let base_at = self.in_base(from)?;
        let moves = self.moves()?.unwrap_or_default();
        let shifts = shifts(&moves);
        let by = Some(Writer::Step(event.step));
        for piece in &mut self.pieces {
            // The number of its first line now. Parts of unknown position may be anywhere.
            let known_at = piece.base_at.filter(|_| base_at.is_some());
            let Some(now_at) = known_at.and_then(|at| now_at(&moves, &shifts, at)) else {
                continue;
            };
            let Some(at) = from.checked_sub(now_at) else {
                continue;
            };
            if at.saturating_add(count) > piece.now.lines.len() {
                continue;
            }
            let text = piece.now.text();
            take(&mut self.work, text.len().saturating_add(new.len()))?;
            let is_last = at + count == piece.now.lines.len();
            let text = lines_replaced(&text, at, count, old, &ended(new, is_last))?;
            piece.now.rewrite(&text, |_| by, &mut self.work);
            return Ok(());
        }
        match old.filter(|_| count == 1) {
            Some(old) => self.absorb(&format!("{old}\n"), &ended(new, true), base_at, event, true),
            None => Err("the text that it replaces isn't recorded".to_owned()),
        }
    }

    /// Applies the hunks of a patch to the known parts. After an error, only some are applied.
    fn patch(&mut self, hunks: &[Hunk], event: &Event) -> Result<(), String> {
        // The numbers of all hunks are those before the patch.
        let place = |place: &Option<String>| {
            let (at, _) = place.as_deref().and_then(start_of)?;
            Some(at)
        };
        let moves = self.moves()?;
        let moves = moves.as_deref();
        take(
            &mut self.work,
            hunks.len().saturating_mul(moves.unwrap_or_default().len()),
        )?;
        let hunks: Vec<_> = hunks
            .iter()
            .map(|(at, lines)| {
                let (old, new) = (side(lines, Sign::Del), side(lines, Sign::Ins));
                // A hunk without old lines follows the line that it names.
                let at = place(at).map(|at| at + usize::from(old.is_empty()));
                (
                    at.zip(moves).and_then(|(at, moves)| in_base(moves, at)),
                    old,
                    new,
                )
            })
            .collect();
        // No hunk changes a text that another hunk of the same patch added as a part.
        let mut made = Vec::new();
        for (at, old, new) in hunks {
            if self.replace(&old, &new, false, at, event, true)? {
                made.extend(self.pieces.pop());
            }
        }
        self.pieces.extend(made);
        Ok(())
    }

    /// Replaces a text in the known parts of the file. Adds a part at the end of the list if none
    /// has it, and returns whether it did. `at` is the number of its first line in the first
    /// version, if known.
    fn replace(
        &mut self,
        old: &str,
        new: &str,
        all: bool,
        at: Option<usize>,
        event: &Event,
        is_lines: bool,
    ) -> Result<bool, String> {
        let texts: Vec<String> = self.pieces.iter().map(|piece| piece.now.text()).collect();
        // Parts without text count too.
        take(
            &mut self.work,
            texts.iter().map(|text| text.len() + 1).sum(),
        )?;
        let found: Vec<(usize, usize)> = if old.is_empty() {
            Vec::new()
        } else {
            let here = self.pieces.iter().zip(&texts).enumerate();
            here.filter(|(_, (piece, _))| piece.can_have(at))
                .map(|(n, (_, text))| (n, text.matches(old).take(2).count()))
                .filter(|(_, count)| *count > 0)
                .collect()
        };
        let by = Some(Writer::Step(event.step));
        match found.as_slice() {
            [] => {
                self.absorb(old, new, at, event, is_lines)?;
                Ok(true)
            }
            [(_, 2..), ..] | [_, _, ..] if !all => {
                Err("its old text occurs more than once in the known text".to_owned())
            }
            places => {
                // All or none of the places change.
                let mut changed = Vec::new();
                for (place, _) in places {
                    let text = texts.get(*place).map_or("", String::as_str);
                    changed.push((*place, replaced(text, old, new, &mut self.work)?));
                }
                for (place, text) in changed {
                    if let Some(piece) = self.pieces.get_mut(place) {
                        piece.now.rewrite(&text, |_| by, &mut self.work);
                        piece.is_lines &= is_lines || piece.base_at.is_some();
                    }
                }
                Ok(false)
            }
        }
    }

    /// Adds a part, and joins it with the known parts that lie inside of it.
    fn absorb(
        &mut self,
        old: &str,
        new: &str,
        base_at: Option<usize>,
        event: &Event,
        is_lines: bool,
    ) -> Result<(), String> {
        // Each part that fits is searched for in the old text.
        let fits = |piece: &Piece| piece.now.len() <= old.len();
        let fitting = self.pieces.iter().filter(|piece| fits(piece)).count();
        take(&mut self.work, old.len().saturating_mul(fitting))?;
        let count = old.split_inclusive('\n').count();
        let is_inside = |piece: &Piece| {
            if !fits(piece) || !piece.can_lie_in(base_at, count) || !piece.is_changed() {
                return false;
            }
            let text = piece.now.text();
            !text.trim().is_empty() && old.matches(&*text).take(2).count() == 1
        };
        let is_inside: Vec<bool> = self.pieces.iter().map(is_inside).collect();
        let inside = || self.pieces.iter().zip(&is_inside).filter(|(_, is)| **is);
        // The text is written again for each of them, and may grow to all their first versions.
        let size: usize = inside().map(|(piece, _)| piece.base_len()).sum();
        let cost = size.saturating_add(old.len());
        take(&mut self.work, cost.saturating_mul(inside().count()))?;
        let mut is_inside = is_inside.into_iter();
        let inside: Vec<Piece> = self
            .pieces
            .extract_if(.., |_| is_inside.next().unwrap_or_default())
            .collect();
        if inside.is_empty() {
            self.add(old, new, base_at, event, is_lines);
            return Ok(());
        }
        let (mut base, mut writers) = (old.to_owned(), HashMap::new());
        let mut last = None;
        for piece in &inside {
            base = base.replacen(&piece.now.text(), &piece.base.concat(), 1);
            for (line, by) in piece.now.lines.iter().zip(&piece.now.by) {
                if by.is_some() {
                    writers.insert(line.trim().to_owned(), *by);
                    last = *by;
                }
            }
        }
        let mut now = Text::of(&base);
        let work = &mut self.work;
        now.rewrite(
            old,
            |line| writers.get(line.trim()).copied().unwrap_or(last),
            work,
        );
        now.rewrite(new, |_| Some(Writer::Step(event.step)), work);
        self.pieces.push(Piece {
            now,
            is_lines,
            ..Piece::of(&base, base_at)
        });
        Ok(())
    }

    fn add(&mut self, old: &str, new: &str, base_at: Option<usize>, event: &Event, is_lines: bool) {
        let mut piece = Piece::of(old, base_at);
        piece.is_lines = is_lines;
        let by = Some(Writer::Step(event.step));
        piece.now.rewrite(new, |_| by, &mut self.work);
        self.pieces.push(piece);
    }

    /// Returns the changed parts in order. `None` if the position of one isn't known.
    fn moves(&mut self) -> Result<Option<Vec<Move>>, String> {
        let lines = |piece: &Piece| piece.base.len() + piece.now.lines.len() + 1;
        take(&mut self.work, self.pieces.iter().map(lines).sum())?;
        let changed = self.pieces.iter().filter(|piece| piece.is_changed());
        let of_piece = |piece: &Piece| {
            Some(Move {
                at: piece.base_at?,
                old: piece.base.len(),
                new: piece.now.lines.len(),
            })
        };
        let mut moves: Option<Vec<Move>> = changed.map(of_piece).collect();
        if let Some(moves) = &mut moves {
            moves.sort_by_key(|one| one.at);
        }
        Ok(moves)
    }

    /// Converts a number of a line now into its number in the first version. Returns `None` if that
    /// depends on parts whose position isn't known.
    fn in_base(&mut self, now: usize) -> Result<Option<usize>, String> {
        let moves = self.moves()?;
        Ok(moves.and_then(|moves| in_base(&moves, now)))
    }

    fn net(mut self, events: &[Event]) -> (Net, usize) {
        let changed = self.pieces.iter().filter(|piece| piece.is_changed());
        let is_numbered = changed.clone().all(|piece| piece.base_at.is_some());
        let is_lines = changed.clone().all(|piece| piece.is_lines);
        self.pieces
            .sort_by_key(|piece| piece.base_at.unwrap_or(usize::MAX));
        let mut hunks = Vec::new();
        let mut delta = 0;
        let mut is_at_end = false;
        for piece in self.pieces.iter().filter(|piece| piece.is_changed()) {
            let numbers = piece.base_at.map(|at| {
                let new = is_numbered.then(|| at.saturating_add_signed(delta));
                (at, new)
            });
            is_at_end |= of_piece(piece, numbers, &mut self.work, &mut hunks);
            delta += piece.now.lines.len().cast_signed() - piece.base.len().cast_signed();
        }
        let count = |sign| {
            hunks
                .iter()
                .flat_map(|hunk: &NetHunk| &hunk.lines)
                .filter(|line| line.sign == sign)
                .count()
        };
        let status = match (self.existed, self.exists) {
            // A file that the run made and deleted was there neither before nor after.
            (Some(false), false) => NetStatus::Modified,
            (_, false) => NetStatus::Deleted,
            (Some(false), true) => NetStatus::Added,
            (None, true) if self.is_whole => NetStatus::Written,
            _ => NetStatus::Modified,
        };
        let is_outside = hunks
            .iter()
            .flat_map(|hunk| &hunk.lines)
            .any(|line| line.by == Some(Writer::Outside));
        let is_empty = events.is_empty();
        let net = Net {
            added: count(Sign::Ins),
            removed: count(Sign::Del),
            is_patch: is_numbered
                && is_lines
                && self.apart.is_empty()
                && !is_empty
                && status != NetStatus::Written
                && (status != NetStatus::Deleted || self.is_whole)
                && (self.is_end_known || !is_at_end),
            is_whole: self.is_whole,
            is_numbered,
            is_outside,
            apart: self.apart,
            status,
            hunks,
            ..Net::default()
        };
        (net, self.work)
    }
}

/// Adds the hunks of a part. `numbers` are those of its first line before and now, if known. Returns
/// whether a hunk has its last line.
fn of_piece(
    piece: &Piece,
    numbers: Option<(usize, Option<usize>)>,
    work: &mut usize,
    hunks: &mut Vec<NetHunk>,
) -> bool {
    let line = |sign, text: &str, by, old: Option<usize>, new: Option<usize>| NetLine {
        sign,
        text: text.strip_suffix('\n').unwrap_or(text).to_owned(),
        has_end: text.ends_with('\n'),
        by,
        old: old.and_then(|at| Some(numbers?.0.saturating_add(at))),
        new: new.and_then(|at| Some(numbers?.1?.saturating_add(at))),
    };
    let (mut old_at, mut new_at) = (0, 0);
    let mut all = Vec::new();
    let now = || piece.now.lines.iter().zip(&piece.now.by);
    for (tag, old, new) in aligned(&piece.base, &piece.now.lines, work) {
        let gone = piece.base.iter().enumerate().skip(old_at).take(old);
        if tag == DiffTag::Equal {
            all.extend(gone.map(|(at, text)| {
                line(Sign::Same, text, None, Some(at), Some(at - old_at + new_at))
            }));
        } else {
            all.extend(gone.map(|(at, text)| line(Sign::Del, text, None, Some(at), None)));
            let come = now().enumerate().skip(new_at).take(new);
            all.extend(come.map(|(at, (text, by))| line(Sign::Ins, text, *by, None, Some(at))));
        }
        (old_at, new_at) = (old_at + old, new_at + new);
    }
    let is_changed: Vec<bool> = all.iter().map(|line| line.sign != Sign::Same).collect();
    let is_shown = |at: usize| {
        let near =
            is_changed.get(at.saturating_sub(CONTEXT)..(at + CONTEXT + 1).min(is_changed.len()));
        near.unwrap_or_default().contains(&true)
    };
    let shown: Vec<bool> = (0..all.len()).map(is_shown).collect();
    let (mut lines, mut old, mut new) = (Vec::new(), 0, 0);
    let mut start = None;
    let mut push = |lines: &mut Vec<NetLine>, start: &mut Option<(usize, usize)>| {
        if let Some((old, new)) = start.take() {
            hunks.push(NetHunk {
                old: numbers.map(|(at, _)| at + old),
                new: numbers.and_then(|(_, at)| Some(at? + new)),
                lines: std::mem::take(lines),
            });
        }
    };
    let is_at_end = shown.last().copied().unwrap_or_default();
    for (line, is_shown) in all.into_iter().zip(shown) {
        let (is_old, is_new) = (line.sign != Sign::Ins, line.sign != Sign::Del);
        if is_shown {
            start = start.or(Some((old, new)));
            lines.push(line);
        } else {
            push(&mut lines, &mut start);
        }
        old += usize::from(is_old);
        new += usize::from(is_new);
    }
    push(&mut lines, &mut start);
    is_at_end
}

/// A changed part of a file: its first line and its number of lines in the first version, and its
/// number of lines now.
struct Move {
    at: usize,
    old: usize,
    new: usize,
}

/// Converts a number of a line now into its number in the first version.
fn in_base(moves: &[Move], now: usize) -> Option<usize> {
    moves.iter().try_fold(now, |base, one| match one.at < base {
        true => (base + one.old).checked_sub(one.new),
        false => Some(base),
    })
}

/// Returns the number of lines that the first changed parts add, and the minimum of these sums so far.
/// Begins without any part.
fn shifts(moves: &[Move]) -> Vec<(isize, isize)> {
    let (mut sum, mut least) = (0_isize, 0_isize);
    let shift = |one: &Move| {
        sum = sum
            .saturating_add_unsigned(one.new)
            .saturating_sub_unsigned(one.old);
        least = least.min(sum);
        (sum, least)
    };
    std::iter::once((0, 0))
        .chain(moves.iter().map(shift))
        .collect()
}

/// Converts a number of a line in the first version into its number now. Returns `None` if the changed
/// parts before it have more lines than there were.
fn now_at(moves: &[Move], shifts: &[(isize, isize)], at: usize) -> Option<usize> {
    let earlier = moves.partition_point(|one| one.at < at);
    let (sum, least) = *shifts.get(earlier)?;
    at.checked_add_signed(least)?;
    at.checked_add_signed(sum)
}

/// Returns the lines of a hunk that are on one side, as a text.
fn side(lines: &[(Sign, String)], own: Sign) -> String {
    let lines = lines
        .iter()
        .filter(|line| line.0 == Sign::Same || line.0 == own);
    lines.map(|line| format!("{}\n", line.1)).collect()
}

/// Takes work off what is left.
fn take(work: &mut usize, cost: usize) -> Result<(), String> {
    match work.checked_sub(cost) {
        Some(left) => *work = left,
        None => return Err("there are too many edits to replay in one request".to_owned()),
    }
    Ok(())
}

/// Returns a text after an edit, or why the edit doesn't apply to it.
fn applied(text: &str, op: &Op, work: &mut usize) -> Result<String, String> {
    take(work, text.len())?;
    match op {
        Op::Replace(old, new, _) if old.is_empty() => match text.is_empty() {
            true => Ok(new.clone()),
            false => Err("it has no old text, but the file isn't empty".to_owned()),
        },
        Op::Replace(old, new, all) => match (text.matches(&**old).take(2).count(), all) {
            // Tools that read a file with Windows line ends show it to the model without them.
            (0, _) if text.contains("\r\n") && old.contains('\n') && !old.contains('\r') => {
                let ends = |text: &str| text.replace('\n', "\r\n");
                applied(text, &Op::Replace(ends(old), ends(new), *all), work)
            }
            (0, _) => Err("its old text isn't in the known text".to_owned()),
            (1, _) | (_, true) => replaced(text, old, new, work),
            _ => Err("its old text occurs more than once in the known text".to_owned()),
        },
        Op::Write(new) => Ok(new.clone()),
        Op::Append(more) => Ok(format!("{text}{more}")),
        Op::Insert(None, _) => Err("its position isn't recorded".to_owned()),
        Op::Insert(Some(at), new) => lines_replaced(text, *at, 0, None, new),
        Op::Lines(from, count, old, new) => {
            lines_replaced(text, from.saturating_sub(1), *count, old.as_deref(), new)
        }
        Op::Hunks(hunks) => patched(text, hunks, work),
        Op::Delete => Ok(String::new()),
        Op::Unknown(why) => Err((*why).to_owned()),
    }
}

/// Replaces every occurrence of a text. Checks the size before it writes anything.
fn replaced(text: &str, old: &str, new: &str, work: &mut usize) -> Result<String, String> {
    let count = text.matches(old).count();
    let kept = text.len().saturating_sub(count.saturating_mul(old.len()));
    let size = kept.saturating_add(count.saturating_mul(new.len()));
    if size > MAX_TEXT {
        return Err("the text after it is too large".to_owned());
    }
    take(work, size)?;
    Ok(text.replace(old, new))
}

/// Replaces `count` lines after the first `at`, whose first one must be `expected`.
fn lines_replaced(
    text: &str,
    at: usize,
    count: usize,
    expected: Option<&str>,
    new: &str,
) -> Result<String, String> {
    let mut lines = split(text);
    let is_inside = at.saturating_add(count) <= lines.len();
    let is_expected =
        expected.is_none_or(|line| lines.get(at).is_some_and(|own| bare(own) == line));
    if !is_inside || !is_expected {
        return Err("its lines aren't those of the known text".to_owned());
    }
    let mut new = split(new);
    let is_last = at + count == lines.len();
    if let Some(last) = new
        .last_mut()
        .filter(|last| !last.ends_with('\n') && !is_last)
    {
        last.push('\n');
    }
    if let Some(last) = at.checked_sub(1).and_then(|at| lines.get_mut(at))
        && !last.ends_with('\n')
        && !new.is_empty()
    {
        last.push('\n');
    }
    lines.splice(at..at + count, new);
    Ok(lines.concat())
}

/// Returns lines with a line end after the last one, if other lines of the file may follow.
fn ended(lines: &str, is_last: bool) -> String {
    let end = match is_last && !lines.is_empty() && !lines.ends_with('\n') {
        true => "\n",
        false => "",
    };
    format!("{lines}{end}")
}

/// Returns a line without its line end.
fn bare(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line)
}

/// Applies the hunks of a patch in order. A hunk with numbers must be at its position; others are
/// at the first match after the one before, and after the line that they name.
fn patched(text: &str, hunks: &[Hunk], work: &mut usize) -> Result<String, String> {
    let mut lines = split(text);
    let mut cursor = 0;
    let ending = if text.contains("\r\n") { "\r\n" } else { "\n" };
    for (place, hunk) in hunks {
        let old: Vec<&str> = hunk
            .iter()
            .filter(|line| line.0 != Sign::Ins)
            .map(|line| bare(&line.1))
            .collect();
        take(work, lines.len())?;
        let left = Cell::new(*work);
        let is_at = |at: usize| {
            let own = lines.get(at..at + old.len()).unwrap_or_default();
            let pairs = own.iter().zip(&old);
            let same = pairs.take_while(|(own, line)| bare(own) == **line).count();
            left.set(left.get().saturating_sub(same));
            own.len() == old.len() && same == old.len()
        };
        let place = place.as_deref().unwrap_or_default();
        let named = place.trim_start_matches('@').trim();
        // After earlier hunks, the line is at its new number.
        let at = match start_of(place) {
            Some((old_at, new_at)) => {
                let from = |at: usize| {
                    if old.is_empty() {
                        at
                    } else {
                        at.saturating_sub(1)
                    }
                };
                let new_at = if old.is_empty() && new_at > 0 {
                    new_at - 1
                } else {
                    from(new_at)
                };
                let shifted = Some(new_at).filter(|at| is_at(*at) && *at <= lines.len());
                shifted.or_else(|| Some(from(old_at)).filter(|at| is_at(*at) && *at <= lines.len()))
            }
            None if old.is_empty() && named.is_empty() => Some(lines.len()),
            None => {
                let find = |line: &String| bare(line).trim() == named;
                let named_at = || {
                    lines
                        .iter()
                        .skip(cursor)
                        .position(find)
                        .map(|at| cursor + at + 1)
                };
                let from = if named.is_empty() {
                    Some(cursor)
                } else {
                    named_at()
                };
                from.and_then(|from| match old.is_empty() {
                    true => Some(from),
                    false => (from..lines.len())
                        .take_while(|_| left.get() > 0)
                        .find(|at| is_at(*at)),
                })
            }
        };
        *work = left.get();
        take(work, 1)?;
        let at = at.ok_or("the lines of its patch aren't in the known text")?;
        let mut own = lines
            .get(at..at + old.len())
            .unwrap_or_default()
            .to_vec()
            .into_iter();
        let mut new = Vec::new();
        for (sign, line) in hunk {
            match sign {
                Sign::Same => new.extend(own.next()),
                Sign::Del => {
                    own.next();
                }
                Sign::Ins => new.push(format!("{}{ending}", bare(line))),
            }
        }
        cursor = at + new.len();
        if let Some(last) = at.checked_sub(1).and_then(|at| lines.get_mut(at))
            && !last.ends_with('\n')
            && !new.is_empty()
        {
            last.push('\n');
        }
        lines.splice(at..at + old.len(), new);
    }
    Ok(lines.concat())
}

/// Returns the text before an edit, given the text after it. Returns `None` if the text doesn't show
/// where the edit was.
fn undone(text: &str, op: &Op, work: &mut usize) -> Option<String> {
    let mut once = |text: &str, new: &str, old: &str| {
        take(work, text.len()).ok()?;
        let is_once = !new.is_empty() && text.matches(new).take(2).count() == 1;
        is_once.then(|| text.replacen(new, old, 1))
    };
    match op {
        Op::Replace(old, new, false) => once(text, new, old),
        Op::Append(more) => text.strip_suffix(&**more).map(str::to_owned),
        Op::Hunks(hunks) => hunks
            .iter()
            .rev()
            .try_fold(text.to_owned(), |text, (_, lines)| {
                once(&text, &side(lines, Sign::Ins), &side(lines, Sign::Del))
            }),
        _ => None,
    }
}

impl Net {
    /// Returns a unified diff, as `git apply` and `patch` read it. `path` is relative. Returns `None` if
    /// the line numbers aren't known, or if the path needs quotes.
    pub(crate) fn patch(&self, path: &str) -> Option<String> {
        let is_plain = |c: char| match c {
            '"' | '\\' => false,
            ' '..='~' => true,
            c => c.is_alphanumeric(),
        };
        if !self.is_patch || !path.chars().all(is_plain) || self.hunks.is_empty() {
            return None;
        }
        let path = path.trim_start_matches('/');
        let mut out = format!("diff --git a/{path} b/{path}\n");
        let side = |is_there: bool, name: String| {
            if is_there {
                name
            } else {
                "/dev/null".to_owned()
            }
        };
        match self.status {
            NetStatus::Added => out.push_str("new file mode 100644\n"),
            NetStatus::Deleted => out.push_str("deleted file mode 100644\n"),
            NetStatus::Modified | NetStatus::Written => {}
        }
        let old = side(self.status != NetStatus::Added, format!("a/{path}"));
        let new = side(self.status != NetStatus::Deleted, format!("b/{path}"));
        out.push_str(&format!("--- {old}\n+++ {new}\n"));
        for hunk in &self.hunks {
            let count = |other: Sign| hunk.lines.iter().filter(|line| line.sign != other).count();
            let (old, new) = (count(Sign::Ins), count(Sign::Del));
            // An empty side is named by the line before it.
            let at = |at: Option<usize>, count: usize| {
                at.map(|at| at.saturating_sub(usize::from(count == 0)))
            };
            let (old_at, new_at) = (at(hunk.old, old)?, at(hunk.new, new)?);
            out.push_str(&format!("@@ -{old_at},{old} +{new_at},{new} @@\n"));
            for line in &hunk.lines {
                out.push(match line.sign {
                    Sign::Same => ' ',
                    Sign::Del => '-',
                    Sign::Ins => '+',
                });
                out.push_str(&line.text);
                out.push('\n');
                if !line.has_end {
                    out.push_str("\\ No newline at end of file\n");
                }
            }
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests;
