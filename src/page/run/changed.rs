//! Shows the Files tab: a tree of the files that a run changed or read, and next to it the net change of one file, then
//! its edits by step.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::files::{
    Edited, File, Files, Net, NetHunk, NetStatus, Submitted, Work, Writer, submitted, with_edit,
};
use crate::analysis::format::{count, counted};
use crate::analysis::patch::{Sign, marked};
use crate::live::EditorFile;
use crate::model::TraceFile;
use crate::model::path::relative;
use crate::page::part::edit::{EditPart, EditRow, FileEdit, Sides};
use crate::page::part::fold::{Fold, ValueLinks};
use crate::page::part::sign::{Link, Phrase};
use crate::page::part::text::Line;
use crate::page::part::{href, text};
use crate::page::run_view::RunView;
use crate::page::step::fill::LEFT;

/// Files in the tree.
const FILES: usize = 60;
/// Files that were only read in the tree.
const READS: usize = 30;
/// Commands in the tree.
const REPORTED: usize = 10;
/// Steps with patches without their text in the tree.
const HIDDEN: usize = 20;
/// Edits of a file per page.
const EDITS: usize = 30;
/// Lines of a net change per page.
const LINES: usize = 240;
/// Elements inside the lines of a net change: colors and changed words.
const SPANS: usize = 400;
/// Elements of the edits by step.
const EDIT_ELEMENTS: usize = 250;
/// Longer paths aren't linked; bytes.
const MAX_PATH: usize = 1_000;
/// Longer patches have no button, since the page would have to hold them; bytes.
const MAX_PATCH: usize = 64 * 1024;

/// The files that a run tried to change.
#[derive(Template)]
#[template(path = "run/changed.html")]
pub(crate) struct ChangedTab<'a> {
    view: &'a RunView<'a>,
    all: Arc<Files>,
    dirs: Vec<Dir>,
    /// How many files the tree has, how many of them have only failed edits, and the index of the first
    /// one shown.
    total: usize,
    failed: usize,
    first: usize,
    /// The index of the chosen file.
    at: Option<usize>,
    chosen: Option<Chosen>,
    /// The requested file, if there is no such file.
    unknown: Option<String>,
}

impl HtmlSafe for ChangedTab<'_> {}

/// A directory of the tree.
struct Dir {
    name: Line,
    files: Vec<Leaf>,
}

/// A file in the tree.
struct Leaf {
    name: Line,
    href: String,
    letter: &'static str,
    meaning: &'static str,
    lines: Phrase,
    is_current: bool,
    /// `prev` or `next` for the file before or after the current one.
    rel: &'static str,
}

/// A file with edits or in a submitted patch.
struct Entry<'a> {
    /// The path relative to the project.
    path: &'a str,
    file: Option<&'a File>,
    submitted: Option<&'a Submitted>,
}

impl Entry<'_> {
    /// Returns whether every edit of the file failed, so that it isn't changed.
    fn is_failed(&self) -> bool {
        let all_failed = |file: &File| !file.edits.is_empty() && file.failed == file.edits.len();
        self.submitted.is_none() && self.file.is_some_and(all_failed)
    }
}

/// The file on the right.
struct Chosen {
    path: Line,
    /// The address that opens it in the editor.
    editor: Option<String>,
    lines: Phrase,
    /// The numbers of edits and steps.
    words: Line,
    /// What to know about the net change.
    notes: Vec<Phrase>,
    rows: Vec<NetRow>,
    patch: Option<Attribute>,
    earlier: Option<Link>,
    later: Option<Link>,
    /// The edits by step.
    edits: Vec<Shown>,
    count: Line,
    earlier_edits: Option<Link>,
    later_edits: Option<Link>,
}

/// A row of a net change.
enum NetRow {
    /// The position of the next lines, and the address that opens the first changed one in the
    /// editor.
    Hunk(Line, Option<String>),
    Line {
        sign: Sign,
        numbers: String,
        parts: Vec<EditPart>,
        by: Option<Link>,
    },
}

/// An edit and its step.
struct Shown {
    /// Describes the step, the lines and the outcome.
    head: Phrase,
    step: Link,
    /// Why the edit isn't part of the net change.
    apart: Option<Line>,
    /// The lines of the edit, or the reason why they aren't shown.
    edit: Result<FileEdit, &'static str>,
}

/// A text that a browser reads from an attribute exactly as it is. Hidden characters are written as numbers.
struct Attribute(String);

impl HtmlSafe for Attribute {}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '\n' => f.write_str("&#10;")?,
                ' '..='~' if !matches!(c, '&' | '<' | '>' | '"' | '\'') => write!(f, "{c}")?,
                c if c.is_alphanumeric() => write!(f, "{c}")?,
                c => write!(f, "&#{};", u32::from(c))?,
            }
        }
        Ok(())
    }
}

/// The places in the address of the tab.
#[derive(Default)]
pub(crate) struct Place<'a> {
    /// The chosen file; may be empty.
    pub file: &'a str,
    /// The index of the first file of the tree, or of the first edit of the chosen file.
    pub after: usize,
    /// The index of the first line of the net change.
    pub line: usize,
}

impl<'a> ChangedTab<'a> {
    /// Shows the files, and the chosen one.
    pub(crate) fn new(view: &'a RunView<'a>, all: Arc<Files>, place: &Place<'_>) -> Self {
        let project = project(view);
        let answer = view.summary.answer.as_deref().unwrap_or_default();
        let patches = submitted(answer, view.index, view.lines);
        let entries = entries(&all, &patches, project);
        let is_chosen = |entry: &Entry<'_>| {
            entry.file.is_some_and(|file| file.path == place.file)
                || entry
                    .submitted
                    .is_some_and(|found| found.path == place.file)
        };
        let at = entries.iter().position(is_chosen);
        let has_file = !place.file.is_empty();
        let unknown = (has_file && at.is_none()).then(|| place.file.to_owned());
        // The tree shows the chosen file.
        let first = match at {
            Some(at) => at / FILES * FILES,
            None if has_file => 0,
            None => place.after.min(entries.len()),
        };
        let shown = || entries.iter().enumerate().skip(first).take(FILES);
        let changed = || shown().find(|(_, entry)| !entry.is_failed());
        let at = at.or_else(|| match has_file {
            true => None,
            false => Some(changed().or_else(|| shown().next())?.0),
        });
        let tab = Base { view, project };
        let work = &mut Work::default();
        let chosen = at.and_then(|at| entries.get(at));
        // The chosen file comes first, so that it's the last to be left out.
        let net = chosen.map(|entry| tab.net(entry, &all, work));
        let mut dirs: Vec<Dir> = Vec::new();
        for (n, entry) in entries.iter().enumerate().skip(first).take(FILES) {
            let (dir, name) = entry.path.rsplit_once('/').unwrap_or(("", entry.path));
            let is_current = Some(n) == at;
            let own = if is_current {
                net.clone()
            } else {
                Some(tab.net(entry, &all, work))
            };
            let mut leaf = tab.leaf(entry, name, own.as_ref(), is_current);
            leaf.rel = match at {
                Some(at) if n + 1 == at => "prev",
                Some(at) if n == at + 1 => "next",
                _ => "",
            };
            let dir = Line::from(if dir.is_empty() {
                String::new()
            } else {
                format!("{dir}/")
            });
            match dirs.last_mut().filter(|last| last.name == dir) {
                Some(last) => last.files.push(leaf),
                None => dirs.push(Dir {
                    name: dir,
                    files: vec![leaf],
                }),
            }
        }
        let after = if has_file { place.after } else { 0 };
        let chosen = chosen.zip(net);
        let chosen = chosen.map(|(entry, net)| tab.chosen(entry, &net, after, place.line));
        let total = entries.len();
        Self {
            view,
            dirs,
            total,
            failed: entries.iter().filter(|entry| entry.is_failed()).count(),
            first,
            at,
            chosen,
            unknown,
            all,
        }
    }

    /// Counts the files, and states what the counts don't include.
    fn summary(&self) -> String {
        let (edited, read) = (self.total - self.failed, self.only_read().len());
        let mut words = match edited {
            0 if self.failed > 0 => "No files edited".to_owned(),
            0 if self.all.pending > 0 => "No file edits found so far".to_owned(),
            0 if !self.all.hidden.is_empty() => "Edits of unknown files".to_owned(),
            0 => "No file edits found".to_owned(),
            _ => format!("{} edited", counted(edited, "file")),
        };
        if self.failed > 0 {
            let files = counted(self.failed, "file");
            words.push_str(&format!("; {files} with only failed edits"));
        }
        if read > 0 {
            words.push_str(&format!("; {} read", counted(read, "file")));
        }
        words
    }

    /// States what the list doesn't have.
    fn notes(&self) -> Vec<String> {
        let Files {
            unread,
            left_out,
            pending,
            ..
        } = &*self.all;
        let mut notes = Vec::new();
        if *pending > 0 {
            let all = self.view.index.steps().len();
            let read = count(all.saturating_sub(*pending) as u64);
            let all = counted(all, "step");
            notes.push(format!(
                "This covers the first {read} of {all}. Reload the page for more."
            ));
        }
        if *left_out > 0 {
            let verb = if *left_out == 1 { "isn't" } else { "aren't" };
            notes.push(format!(
                "{} {verb} listed.",
                counted(*left_out, "more edit")
            ));
        }
        if *unread > 0 {
            let whose = if *unread == 1 { "its" } else { "their" };
            let steps = counted(*unread, "step");
            notes.push(format!(
                "{steps} couldn't be read, so {whose} edits are unknown."
            ));
        }
        if self.view.summary.partial {
            notes.push("The run is still being indexed. Reload the page for the rest.".to_owned());
        } else if self.view.is_alive() {
            notes.push(
                "This list doesn't update by itself. Reload the page for later steps.".to_owned(),
            );
        }
        notes
    }

    /// Returns the files that were read and not edited, each with the step of the first read.
    fn only_read(&self) -> Vec<(&str, usize)> {
        let edited: HashSet<&str> = self
            .all
            .files
            .iter()
            .map(|file| file.path.as_str())
            .collect();
        let mut seen = HashSet::new();
        let reads = self.all.reads.iter();
        let reads = reads.filter(|read| !edited.contains(read.path.as_str()));
        reads
            .filter(|read| seen.insert(read.path.as_str()))
            .map(|read| (read.path.as_str(), read.step))
            .collect()
    }

    /// Returns the first of these files, relative to the project, and how many more there are.
    fn reads(&self) -> (Vec<(Line, Link)>, usize) {
        let all = self.only_read();
        let more = all.len().saturating_sub(READS);
        let shown = all.into_iter().take(READS).map(|(path, step)| {
            let label = format!("step {}", self.view.label(step));
            let path = relative(path, project(self.view));
            (path.into(), Link::new(label, self.view.at_step(step)))
        });
        (shown.collect(), more)
    }

    /// Names the steps with patches whose text isn't recorded.
    fn hidden(&self) -> Option<Phrase> {
        let all = &self.all.hidden;
        let verb = if all.len() == 1 { "was" } else { "were" };
        let text = match all.len() {
            0 => return None,
            1 => "its text",
            _ => "their text",
        };
        let patches = match all.len() {
            1 => "1 patch".to_owned(),
            n => format!("{} patches", count(n as u64)),
        };
        let mut words = Phrase::new().text(format!("{patches} {verb} recorded without {text}: "));
        let mut steps = all.clone();
        steps.dedup();
        for (n, step) in steps.iter().take(HIDDEN).enumerate() {
            let label = format!("step {}", self.view.label(*step));
            let comma = if n > 0 { ", " } else { "" };
            words = words.text(comma).link(label, self.view.at_step(*step));
        }
        let more = steps.len().saturating_sub(HIDDEN);
        Some(match more {
            0 => words.text("."),
            more => words.text(format!(", and {}.", counted(more, "more step"))),
        })
    }

    /// Names the commands whose output reports changed files.
    fn reported(&self) -> Vec<Phrase> {
        let all = self.all.reported.iter().take(REPORTED);
        let command = |reported: &crate::analysis::files::Reported| {
            let label = format!("step {}", self.view.label(reported.step));
            Phrase::new()
                .code(reported.command.as_str())
                .text(" (")
                .link(label, self.view.at_step(reported.step))
                .text(format!(") reported “{}”.", reported.words))
        };
        all.map(command).collect()
    }

    fn more_reported(&self) -> usize {
        self.all.reported.len().saturating_sub(REPORTED)
    }

    fn tree(&self, first: usize) -> String {
        let first = if first == 0 {
            String::new()
        } else {
            first.to_string()
        };
        let query = [("tab", "files"), ("after", first.as_str())];
        href::with_query(&href::run(self.view.key()), &query)
    }

    /// Returns whether the chosen file is the first or the last one of the tree, whose neighbor is
    /// behind a link.
    fn is_at_edge(&self) -> (bool, bool) {
        let last = (self.first + FILES).min(self.total).checked_sub(1);
        let is_first = self.at == Some(self.first);
        (is_first, self.at.is_some() && self.at == last)
    }

    fn earlier(&self) -> Option<Link> {
        let label = format!("{} earlier files", FILES.min(self.first));
        (self.first > 0).then(|| Link::new(label, self.tree(self.first.saturating_sub(FILES))))
    }

    fn later(&self) -> Option<Link> {
        let end = self.first + FILES;
        let left = self.total.saturating_sub(end);
        let label = format!("{} more files", FILES.min(left));
        (left > 0).then(|| Link::new(label, self.tree(end)))
    }
}

fn project<'a>(view: &RunView<'a>) -> &'a str {
    let manifest = view.index.manifest().get();
    manifest
        .and_then(|manifest| manifest.project.as_deref())
        .unwrap_or_default()
}

/// Counts the changed files that the tab lists.
pub(crate) fn listed(view: &RunView<'_>, all: &Files, patches: &[Submitted]) -> u64 {
    let entries = entries(all, patches, project(view));
    entries.iter().filter(|entry| !entry.is_failed()).count() as u64
}

/// Joins the edited files with those of the submitted patch, in the order of the tree.
fn entries<'a>(all: &'a Files, patches: &'a [Submitted], project: &str) -> Vec<Entry<'a>> {
    let mut entries: Vec<Entry<'a>> = all
        .files
        .iter()
        .map(|file| Entry {
            path: relative(&file.path, project),
            file: Some(file),
            submitted: None,
        })
        .collect();
    // The edits may name a file by a longer path than the patch.
    let is_end = |entry: &Entry<'_>, found: &Submitted| {
        let rest = entry.path.strip_suffix(found.path.as_str());
        rest.is_some_and(|rest| rest.ends_with('/'))
    };
    let (mut left, files) = (Vec::new(), entries.len());
    for found in patches {
        let own = entries.iter_mut().find(|entry| entry.path == found.path);
        match own.filter(|entry| entry.submitted.is_none()) {
            Some(entry) => entry.submitted = Some(found),
            None => left.push(found),
        }
    }
    for found in left {
        let mut own = entries
            .iter_mut()
            .take(files)
            .filter(|entry| is_end(entry, found));
        match (own.next(), own.next()) {
            (Some(entry), None) if entry.submitted.is_none() => entry.submitted = Some(found),
            _ => entries.push(Entry {
                path: &found.path,
                file: None,
                submitted: Some(found),
            }),
        }
    }
    let key = |entry: &Entry<'a>| entry.path.rsplit_once('/').unwrap_or(("", entry.path));
    entries.sort_by_key(key);
    entries
}

/// What the parts of the tab share.
struct Base<'a> {
    view: &'a RunView<'a>,
    project: &'a str,
}

impl Base<'_> {
    /// Returns the net change of a file: that of the submitted patch, or else that of its edits.
    fn net(&self, entry: &Entry<'_>, all: &Files, work: &mut Work) -> Net {
        match (entry.submitted, entry.file) {
            (Some(found), _) => found.net.clone(),
            (None, Some(file)) => all.net(file, self.view.index, self.view.lines, work),
            (None, None) => Net::default(),
        }
    }

    /// Returns the address of a file.
    fn at(&self, path: &str, after: usize, line: usize) -> String {
        if path.len() > MAX_PATH {
            return String::new();
        }
        let number = |n: usize| if n == 0 { String::new() } else { n.to_string() };
        let (after, line) = (number(after), number(line));
        let query = [
            ("tab", "files"),
            ("file", path),
            ("after", &after),
            ("line", &line),
        ];
        href::with_query(&href::run(self.view.key()), &query)
    }

    fn leaf(&self, entry: &Entry<'_>, name: &str, net: Option<&Net>, is_current: bool) -> Leaf {
        let (letter, meaning) = match net.map(|net| net.status) {
            _ if entry.is_failed() => ("–", "not changed: every edit failed"),
            Some(NetStatus::Added) => ("A", "added"),
            Some(NetStatus::Deleted) => ("D", "deleted"),
            Some(NetStatus::Written) => ("W", "written; may have existed before"),
            Some(NetStatus::Modified) | None => ("M", "modified"),
        };
        Leaf {
            name: name.into(),
            href: self.at(address(entry), 0, 0),
            letter,
            meaning,
            lines: counts(entry, net),
            is_current,
            rel: "",
        }
    }

    fn chosen(&self, entry: &Entry<'_>, net: &Net, after: usize, line: usize) -> Chosen {
        let fold = &mut Fold::brief(ValueLinks::default());
        fold.set_project(self.project);
        let path = address(entry);
        let editor = self.view.in_editor(path);
        let (rows, shown, total) = self.rows(net, entry.path, editor.as_ref(), line);
        let earlier = line.min(total);
        let link = |label: String, line: usize| Link::new(label, self.at(path, after, line));
        let left = total.saturating_sub(earlier + shown);
        let edits = entry.file.map_or(0, |file| file.edits.len());
        let first = after.min(edits);
        let end = (first + EDITS).min(edits);
        let edits_link = |label: String, after: usize| {
            let href = self.at(path, after, line);
            Link::new(
                label,
                if href.is_empty() {
                    href
                } else {
                    format!("{href}#edits")
                },
            )
        };
        Chosen {
            path: entry.path.into(),
            editor: editor.map(|file| file.at(None)),
            lines: counts(entry, Some(net)),
            words: entry
                .file
                .map_or_else(Line::default, |file| self.words(file)),
            notes: self.notes(entry, net),
            rows,
            patch: net
                .patch(entry.path)
                .filter(|patch| patch.len() <= MAX_PATCH)
                .map(Attribute),
            earlier: (earlier > 0).then(|| {
                let back = LINES.min(earlier);
                link(format!("{} earlier", counted(back, "line")), earlier - back)
            }),
            later: (left > 0)
                .then(|| link(format!("{} more", counted(left, "line")), earlier + shown)),
            edits: entry
                .file
                .map(|file| {
                    // What a submitted patch lacks isn't an edit of the run.
                    let apart = entry.submitted.map_or(net.apart.as_slice(), |_| &[]);
                    self.edits(file, apart, first, fold)
                })
                .unwrap_or_default(),
            count: entry
                .file
                .map_or_else(Line::default, |file| edit_count(file).into()),
            earlier_edits: (first > 0).then(|| {
                let back = EDITS.min(first);
                edits_link(format!("{} earlier", counted(back, "edit")), first - back)
            }),
            later_edits: (end < edits)
                .then(|| edits_link(format!("{} more", counted(edits - end, "edit")), end)),
        }
    }

    /// Counts the edits and names the first and last step: `7 edits, steps 20–30`.
    fn words(&self, file: &File) -> Line {
        let edits = counted(file.edits.len(), "edit");
        let label = |edit: Option<&Edited>| edit.map(|edit| self.view.label(edit.step));
        let (first, last) = (label(file.edits.first()), label(file.edits.last()));
        match (first, last) {
            (Some(first), Some(last)) if first != last => {
                let mut steps: Vec<usize> = file.edits.iter().map(|edit| edit.step).collect();
                steps.dedup();
                let between = if steps.len() == 2 { " and " } else { "–" };
                format!("{edits}, steps {first}{between}{last}")
            }
            (Some(step), _) => format!("{edits}, step {step}"),
            _ => edits,
        }
        .into()
    }

    /// States how many edits the net change lacks, and leads to the first of them.
    fn left_out(&self, entry: &Entry<'_>, net: &Net) -> Option<Phrase> {
        let edits = &entry.file?.edits;
        let made = || {
            let all = edits.iter().enumerate();
            all.filter(|(_, edit)| edit.ok != Some(false))
        };
        let all = made().count();
        // The edits are replayed in order until the work for one page is used up.
        let (at, first) = made().nth(all.checked_sub(net.left_out)?)?;
        let lacks = format!(
            "This change lacks {} of {}, from ",
            count(net.left_out as u64),
            counted(all, "edit")
        );
        let step = format!("step {}", self.view.label(first.step));
        let why = " on. They're too many or too large for one page, or can't be read.";
        Some(
            Phrase::from(lacks)
                .link(step, self.at_edit(entry, at))
                .text(why),
        )
    }

    /// Returns the address of the edits by step, with edit `at` among them.
    fn at_edit(&self, entry: &Entry<'_>, at: usize) -> String {
        match self.at(address(entry), at / EDITS * EDITS, 0) {
            href if href.is_empty() => "#edits".to_owned(),
            href => format!("{href}#edits"),
        }
    }

    fn notes(&self, entry: &Entry<'_>, net: &Net) -> Vec<Phrase> {
        let mut notes = Vec::new();
        let mut add = |words: &str| notes.push(Phrase::from(words));
        if let Some(found) = entry.submitted {
            add(match found.is_cut {
                true => "From the submitted patch. The trace has only its beginning.",
                false => "From the submitted patch.",
            });
            let why = net.apart.first();
            notes.extend(why.map(|(_, why)| format!("The patch isn't shown: {why}.").into()));
            return notes;
        }
        let made = entry.file.map_or(0, |file| file.edits.len() - file.failed);
        if made == 0 {
            add("All edits of this file failed, so there is no change to show.");
            return notes;
        }
        if net.status == NetStatus::Written {
            add("The whole file was written. The trace doesn't record the previous text.");
        } else if !net.is_whole && !net.hunks.is_empty() {
            add(match net.is_numbered {
                true => "Only parts of this file are recorded.",
                false => {
                    "Only parts of this file are recorded, without line numbers. The parts may overlap."
                }
            });
        }
        if net.is_outside {
            add(
                "Lines marked “not an edit” changed between two edits: by a shell command, a tool or a person.",
            );
        }
        if let Some(to) = &net.moved_to {
            notes.push(
                Phrase::from("Moved to ")
                    .code(relative(to, self.project))
                    .text("."),
            );
        }
        if let Some((first, _)) = net.apart.first() {
            let words = match net.apart.len() {
                1 => "1 edit isn't part of this change; ".to_owned(),
                n => format!("{} edits aren't part of this change; ", count(n as u64)),
            };
            let to = self.at_edit(entry, *first);
            notes.push(
                Phrase::from(words)
                    .link("the edits by step", to)
                    .text(" explain why."),
            );
        }
        notes.extend(self.left_out(entry, net));
        let mut add = |words: String| notes.push(Phrase::from(words));
        if net.outcome_unknown > 0 {
            let edits = counted(net.outcome_unknown, "edit");
            add(format!("The outcome of {edits} isn't recorded."));
        }
        if net.hunks.is_empty() && net.apart.is_empty() && net.left_out == 0 {
            add(match net.status {
                NetStatus::Deleted => "The file was deleted. Its text isn't recorded.".to_owned(),
                _ => "No difference remains: the last known text equals the first.".to_owned(),
            });
        }
        notes
    }

    /// Formats the lines of a net change from index `from`. Also returns how many are shown, and how many there are.
    fn rows(
        &self,
        net: &Net,
        path: &str,
        editor: Option<&EditorFile<'_>>,
        from: usize,
    ) -> (Vec<NetRow>, usize, usize) {
        let total = net.hunks.iter().map(|hunk| hunk.lines.len()).sum();
        let (mut rows, mut skip, mut left, mut spans) = (Vec::new(), from, LINES, SPANS);
        let mut sides = Sides::of(path);
        for hunk in &net.hunks {
            let skipped = skip.min(hunk.lines.len());
            skip -= skipped;
            if skipped == hunk.lines.len() || left == 0 {
                continue;
            }
            sides.skip();
            rows.push(NetRow::Hunk(
                position(hunk),
                editor.and_then(|file| line_in_editor(file, hunk)),
            ));
            let lines: Vec<(Sign, &str)> = hunk
                .lines
                .iter()
                .map(|line| (line.sign, line.text.as_str()))
                .collect();
            let all = marked(&lines);
            let mut last = None;
            for (line, row) in hunk.lines.iter().zip(&all).skip(skipped) {
                if left == 0 {
                    break;
                }
                left -= 1;
                let fold = &mut Fold::brief(ValueLinks::default());
                let EditRow::Line(sign, mut parts) = EditRow::new(row, &mut sides, fold) else {
                    continue;
                };
                let elements = |part: &EditPart| {
                    usize::from(part.changed) + usize::from(!part.class.is_empty())
                };
                let cost: usize = parts.iter().map(elements).sum();
                match spans.checked_sub(cost) {
                    Some(rest) => spans = rest,
                    None => parts.iter_mut().for_each(|part| part.class = ""),
                }
                if !line.has_end {
                    parts.push(EditPart {
                        changed: false,
                        class: "",
                        text: " (no newline at the end)".to_owned(),
                    });
                }
                let by = match line.by.filter(|by| Some(*by) != last) {
                    Some(Writer::Step(n)) => {
                        let label = format!("step {}", self.view.label(n));
                        Some(Link::new(label, self.view.at_step(n)))
                    }
                    Some(Writer::Outside) => Some(Link::new("not an edit", "")),
                    None => None,
                };
                last = line.by;
                rows.push(NetRow::Line {
                    sign,
                    numbers: numbers(line.old, line.new),
                    parts,
                    by,
                });
            }
        }
        let shown = LINES - left;
        (rows, shown, total)
    }

    /// Reads the edits of a file from index `first`, out of the lines of their steps.
    fn edits(
        &self,
        file: &File,
        apart: &[(usize, String)],
        first: usize,
        fold: &mut Fold,
    ) -> Vec<Shown> {
        let (mut shown, mut left) = (Vec::new(), EDIT_ELEMENTS);
        for (at, edit) in file.edits.iter().enumerate().skip(first).take(EDITS) {
            let label = self.view.label(edit.step);
            let mut head = Phrase::new().strong(format!("step {label}"));
            if let Some((added, removed)) = edit.added.zip(edit.removed) {
                head = signed(head.text(" "), added, removed);
            }
            if let Some(word) = note(edit) {
                head = head.dim(format!(" {word}"));
            }
            let apart = apart.iter().find(|(apart, _)| *apart == at);
            if apart.is_some() {
                head = head.dim(" not in the net change");
            }
            let found = match left {
                0 => Err("The page has no room for this edit. Its step shows it."),
                _ => file_edit(self.view, edit, fold).ok_or_else(|| not_shown(edit)),
            };
            let found = found.map(|found| FileEdit {
                name: format!("Edit {} of this file", at + 1).into(),
                ..found
            });
            let cost = |edit: &FileEdit| edit.rows.iter().map(elements).sum::<usize>() + 8;
            left = left.saturating_sub(found.as_ref().map_or(0, cost));
            shown.push(Shown {
                head,
                step: Link::new(format!("Open step {label}"), self.view.at_step(edit.step)),
                apart: apart.map(|(_, why)| format!("Not part of the net change: {why}.").into()),
                edit: found,
            });
        }
        shown
    }
}

fn elements(row: &EditRow) -> usize {
    match row {
        EditRow::Between(_) => 1,
        EditRow::Line(_, parts) => {
            let elements =
                |part: &EditPart| usize::from(part.changed) + usize::from(!part.class.is_empty());
            1 + parts.iter().map(elements).sum::<usize>()
        }
    }
}

/// Returns the address that opens the first changed line of a hunk in the editor. A line that is gone
/// has the number of the one after it.
fn line_in_editor(file: &EditorFile<'_>, hunk: &NetHunk) -> Option<String> {
    let before = hunk.lines.iter().take_while(|line| line.sign == Sign::Same);
    Some(file.at(Some(hunk.new?.saturating_add(before.count()))))
}

/// Returns the path that an address names a file by.
fn address<'a>(entry: &Entry<'a>) -> &'a str {
    entry.file.map_or(entry.path, |file| file.path.as_str())
}

/// Formats the added and removed lines of a net change. Without one, those of all edits.
fn counts(entry: &Entry<'_>, net: Option<&Net>) -> Phrase {
    if entry.is_failed() {
        return Phrase::new().dim("failed");
    }
    let net = net.filter(|net| !net.hunks.is_empty() || net.apart.is_empty() && net.left_out == 0);
    let sums = || entry.file.and_then(|file| file.added.zip(file.removed));
    match net.map(|net| (net.added, net.removed)).or_else(sums) {
        Some((added, removed)) => signed(Phrase::new(), added, removed),
        None => Phrase::new().dim("not counted"),
    }
}

fn signed(words: Phrase, added: usize, removed: usize) -> Phrase {
    let words = match added {
        0 => words,
        _ => words.classed("plus", format!("+{}", count(added as u64))),
    };
    let words = if added > 0 && removed > 0 {
        words.text(" ")
    } else {
        words
    };
    match removed {
        0 if added == 0 => words.dim("±0"),
        0 => words,
        _ => words.classed("minus", format!("−{}", count(removed as u64))),
    }
}

fn edit_count(file: &File) -> String {
    let edits = counted(file.edits.len(), "edit");
    match file.failed {
        0 => edits,
        failed => format!("{edits}, {} failed", count(failed as u64)),
    }
}

/// Formats the position of a hunk: `line 179`.
fn position(hunk: &NetHunk) -> Line {
    match hunk.new.or(hunk.old) {
        Some(line) => format!("line {}", line.max(1)).into(),
        None => "line numbers unknown".into(),
    }
}

fn numbers(old: Option<usize>, new: Option<usize>) -> String {
    let number = |n: Option<usize>| n.map_or_else(String::new, |n| n.to_string());
    format!("{:>5} {:>5} ", number(old), number(new))
}

/// Returns a note for an edit that wasn't simply successful.
fn note(edit: &Edited) -> Option<&'static str> {
    match edit.ok {
        Some(false) => Some("failed"),
        None => Some("outcome unknown"),
        Some(true) if edit.is_abandoned => Some(LEFT),
        Some(true) => None,
    }
}

/// Explains why the lines of an edit aren't shown.
fn not_shown(edit: &Edited) -> &'static str {
    match (edit.added, edit.call) {
        (Some(_), _) => "The step of this edit can no longer be read.",
        (None, Some(_)) => {
            "This edit is too large to show line by line. Its step has the whole edit."
        }
        // Records outside the calls may state only that a file changed.
        (None, None) => {
            "Changed lines not recorded, or too many to show. The step has the full record."
        }
    }
}

fn file_edit(view: &RunView<'_>, edit: &Edited, fold: &mut Fold) -> Option<FileEdit> {
    let span = view.index.steps().get(edit.step)?.span;
    let record = view.lines.record(TraceFile::Steps, span).ok()?;
    let step = crate::format::step(&record)?;
    with_edit(edit, &step, |found| FileEdit::new(found, edit.ok, fold))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> File {
        File {
            path: path.to_owned(),
            added: None,
            removed: None,
            failed: 0,
            uncounted: 0,
            edits: Vec::new(),
        }
    }

    fn patch(path: &str) -> Submitted {
        Submitted {
            path: path.to_owned(),
            net: Net::default(),
            is_cut: false,
        }
    }

    #[test]
    fn every_file_of_a_submitted_patch_is_in_the_tree() {
        let joined = |files: &[&str], patches: &[&str]| -> Vec<String> {
            let all = Files {
                files: files.iter().map(|path| file(path)).collect(),
                ..Files::default()
            };
            let patches: Vec<_> = patches.iter().map(|path| patch(path)).collect();
            let entries = entries(&all, &patches, "/p");
            let words = entries.iter().map(|entry| {
                let submitted = entry.submitted.map_or("-", |found| &found.path);
                let is_edited = if entry.file.is_some() {
                    "edited"
                } else {
                    "not edited"
                };
                format!("{} {is_edited} {submitted}", entry.path)
            });
            words.collect()
        };
        assert_eq!(
            joined(&["/p/a/x.py"], &["x.py", "a/x.py"]),
            ["x.py not edited x.py", "a/x.py edited a/x.py"]
        );
        assert_eq!(
            joined(&["/q/a/x.py", "/q/b/x.py"], &["a/x.py", "x.py"]),
            [
                "x.py not edited x.py",
                "/q/a/x.py edited a/x.py",
                "/q/b/x.py edited -"
            ]
        );
    }

    #[test]
    fn a_change_that_lacks_edits_says_how_many_and_leads_to_the_first() {
        let run =
            crate::page::tests::Recorded::steps((0..3).map(|n| format!("{{\"step_id\": {n}}}")));
        let view = run.view();
        let edit = |step: usize, ok: bool| Edited {
            step,
            step_id: None,
            call: None,
            at: 0,
            recorded: None,
            kind: "changed",
            to: None,
            added: None,
            removed: None,
            ok: Some(ok),
            is_abandoned: false,
        };
        let mut file = file("/p/x.py");
        file.edits = vec![edit(0, true), edit(1, false), edit(1, true), edit(2, true)];
        let entry = Entry {
            path: "x.py",
            file: Some(&file),
            submitted: None,
        };
        let base = Base {
            view: &view,
            project: "/p",
        };
        let said = |left_out: usize| {
            let net = Net {
                left_out,
                ..Net::default()
            };
            base.left_out(&entry, &net).map(|words| words.to_string())
        };
        let words = said(2).unwrap();
        assert!(
            words.contains("This change lacks 2 of 3 edits, from "),
            "{words}"
        );
        assert!(
            words.contains("step 1") && words.contains("#edits"),
            "{words}"
        );
        assert_eq!(said(0), None);
    }
}
