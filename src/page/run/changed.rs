//! What stands on the tab about the files that the calls changed? Each file with its edits; of one that is chosen, the edits
//! one below the other.

use std::sync::Arc;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::files::{Edited, File, Files, with_edit};
use crate::analysis::format::{count, counted};
use crate::model::TraceFile;
use crate::page::lens::Lens;
use crate::page::part::edit::FileEdit;
use crate::page::part::fold::{Fold, ValueLinks};
use crate::page::part::sign::{Link, Phrase};
use crate::page::part::{href, text};
use crate::page::run::steps::LEFT;

/// So many lists of files are made at a time, each of which reads all lines of a run: the other threads are left to other
/// pages.
pub(crate) const MAX_WALKS: usize = 2;
/// So many files are on one page.
const FILES: usize = 100;
/// So many edits of a file are on one page.
const EDITS: usize = 50;
/// So many steps are named beside a file.
const STEPS: usize = 12;
/// A longer path is no address.
const MAX_PATH: usize = 1_000;

/// The files that a run asked to change.
#[derive(Template)]
#[template(path = "run/changed.html")]
pub(crate) struct ChangedTab<'a> {
    lens: &'a Lens<'a>,
    all: Arc<Files>,
    /// The place of the first file or edit shown.
    first: usize,
    /// The file whose edits are shown; the name of one that there is not is kept to say so.
    chosen: Option<String>,
    /// Its edits on this page.
    edits: Vec<Shown>,
}

impl HtmlSafe for ChangedTab<'_> {}

/// An edit with the step it came from.
struct Shown {
    /// The step, the call and how it went.
    head: Phrase,
    /// The lines of the edit, or why they are not shown.
    edit: Result<FileEdit, &'static str>,
}

/// A file and how much changed in it.
struct Row {
    link: Link,
    lines: Phrase,
    edits: String,
    steps: Phrase,
}

impl<'a> ChangedTab<'a> {
    /// The files, or the edits of the file `path`, from place `first` on.
    pub(crate) fn new(lens: &'a Lens<'a>, all: Arc<Files>, path: &str, first: usize) -> Self {
        let chosen = Some(path.to_owned()).filter(|path| !path.is_empty());
        let mut out = Self {
            lens,
            all,
            first,
            chosen,
            edits: Vec::new(),
        };
        let fold = &mut Fold::new(ValueLinks::default());
        out.edits = out
            .of_chosen()
            .map(|file| shown(lens, file, first, fold))
            .unwrap_or_default();
        out
    }

    fn of_chosen(&self) -> Option<&File> {
        let path = self.chosen.as_deref()?;
        self.all.files.iter().find(|file| file.path == path)
    }

    /// How many files and edits there are, and what is not among them.
    fn summary(&self) -> String {
        let Files {
            files,
            edits,
            unread,
            left_out,
            pending,
        } = &*self.all;
        let mut words = match edits {
            0 if *pending > 0 => "No file edits found so far.".to_owned(),
            0 => "No call is known to ask for a change of a file.".to_owned(),
            _ => format!(
                "{} in {}.",
                counted(*edits, "edit"),
                counted(files.len(), "file")
            ),
        };
        if *pending > 0 {
            let (read, all) = (
                self.lens.index.steps().len().saturating_sub(*pending),
                self.lens.index.steps().len(),
            );
            let (read, all) = (count(read as u64), counted(all, "step"));
            words.push_str(&format!(
                " These are the edits of the first {read} of {all}: load the page again for more."
            ));
        }
        if *left_out > 0 {
            words.push_str(&format!(
                " {} besides, which are not listed.",
                counted(*left_out, "edit")
            ));
        }
        if *unread > 0 {
            words.push_str(&format!(
                " {} cannot be read; what they changed is not known.",
                counted(*unread, "step")
            ));
        }
        words.push_str(match edits {
            0 => " What commands do to files is not seen here.",
            _ => " What commands do to files is not seen here, and lines of failed edits are not added up.",
        });
        if self.lens.summary.partial {
            words.push_str(" The run is still being read: load the page again for all of it.");
        } else if self.lens.is_alive() {
            words.push_str(
                " The list does not grow by itself: load the page again for later steps.",
            );
        }
        words
    }

    fn rows(&self) -> Vec<Row> {
        self.all
            .files
            .iter()
            .skip(self.first)
            .take(FILES)
            .map(|file| self.row(file))
            .collect()
    }

    fn row(&self, file: &File) -> Row {
        let named = file.edits.iter().take(STEPS);
        let mut steps = Phrase::new();
        for (at, edit) in named.enumerate() {
            if at > 0 {
                steps = steps.text(", ");
            }
            steps = steps.link(self.lens.label(edit.step), self.lens.at_step(edit.step));
            if let Some(word) = told(edit) {
                steps = steps.dim(format!(" {word}"));
            }
        }
        let left = file.edits.len().saturating_sub(STEPS);
        if left > 0 {
            steps = steps.dim(format!(" and {} more", count(left as u64)));
        }
        Row {
            link: Link::new(file.path.as_str(), self.at(&file.path, 0)),
            lines: lines(file),
            edits: edits(file),
            steps,
        }
    }

    /// The edits of a file from place `first` on; of none, the list of files.
    fn at(&self, path: &str, first: usize) -> String {
        if path.len() > MAX_PATH {
            return String::new();
        }
        let first = if first == 0 {
            String::new()
        } else {
            first.to_string()
        };
        href::with_query(
            &href::run(self.lens.key()),
            &[("tab", "files"), ("file", path), ("after", &first)],
        )
    }

    fn back(&self) -> String {
        self.at("", 0)
    }

    /// How many there are of what is shown, and how many of them on a page.
    fn window(&self) -> (usize, usize) {
        match self.chosen {
            Some(_) => (self.of_chosen().map_or(0, |file| file.edits.len()), EDITS),
            None => (self.all.files.len(), FILES),
        }
    }

    fn earlier(&self) -> Option<Link> {
        let ((total, page), path) = (self.window(), self.chosen.as_deref().unwrap_or_default());
        let first = self.first.min(total);
        (first > 0).then(|| {
            Link::new(
                format!("earlier {}", page.min(first)),
                self.at(path, first.saturating_sub(page)),
            )
        })
    }

    fn later(&self) -> Option<Link> {
        let ((total, page), path) = (self.window(), self.chosen.as_deref().unwrap_or_default());
        let end = self.first.saturating_add(page);
        let left = total.saturating_sub(end);
        (left > 0).then(|| Link::new(format!("later {}", page.min(left)), self.at(path, end)))
    }
}

/// What is to know of an edit that did not simply go well.
fn told(edit: &Edited) -> Option<&'static str> {
    match edit.ok {
        Some(false) => Some("failed"),
        None => Some("not known whether done"),
        Some(true) if edit.is_left => Some(LEFT),
        Some(true) => None,
    }
}

/// `+3 −1`, of the edits that did not fail.
fn lines(file: &File) -> Phrase {
    if !file.is_counted() {
        return Phrase::new().dim("not counted");
    }
    let lines = Phrase::new()
        .classed("plus", format!("+{}", count(file.added as u64)))
        .text(" ");
    let lines = lines.classed("minus", format!("−{}", count(file.removed as u64)));
    match file.uncounted {
        0 => lines,
        more => lines.dim(format!(" and {} not counted", counted(more, "edit"))),
    }
}

fn edits(file: &File) -> String {
    let edits = count(file.edits.len() as u64);
    if file.failed > 0 {
        format!("{edits}, {} failed", count(file.failed as u64))
    } else {
        edits
    }
}

/// The edits of a file from place `first` on, as their steps tell them.
fn shown(lens: &Lens<'_>, file: &File, first: usize, fold: &mut Fold) -> Vec<Shown> {
    let mut shown = Vec::new();
    for (at, edit) in file.edits.iter().enumerate().skip(first).take(EDITS) {
        let head = Phrase::new().link(
            format!("step {}", lens.label(edit.step)),
            lens.at_step(edit.step),
        );
        let head = if edit.is_left {
            head.dim(format!(" {LEFT}"))
        } else {
            head
        };
        let told = |told: FileEdit| FileEdit {
            name: format!("Edit {} of the file", at + 1).into(),
            ..told
        };
        shown.push(Shown {
            head,
            edit: file_edit(lens, edit, fold)
                .map(told)
                .ok_or_else(|| not_shown(edit)),
        });
    }
    shown
}

/// Why the lines of an edit are not shown.
fn not_shown(edit: &Edited) -> &'static str {
    match (edit.lines, edit.call) {
        (Some(_), _) => "The step of this edit cannot be read any more.",
        (None, Some(_)) => "This edit is too large to be shown line by line; its step has it.",
        // What is recorded beside the calls may tell no more than that a file changed.
        (None, None) => {
            "Which lines changed is not recorded, or they are too many; the step has what is recorded."
        }
    }
}

fn file_edit(lens: &Lens<'_>, edit: &Edited, fold: &mut Fold) -> Option<FileEdit> {
    let span = lens.index.steps().get(edit.step)?.span;
    let record = lens.lines.record(TraceFile::Steps, span).ok()?;
    let step = crate::format::step(&record)?;
    with_edit(edit, &step, |found| FileEdit::new(found, edit.ok, fold))
}
