//! Shows the Files tab: the files that tool calls changed, or all edits of one chosen file.

use std::sync::Arc;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::files::{Edited, File, Files, with_edit};
use crate::analysis::format::{count, counted};
use crate::model::TraceFile;
use crate::page::part::edit::FileEdit;
use crate::page::part::fold::{Fold, ValueLinks};
use crate::page::part::sign::{Link, Phrase};
use crate::page::part::{href, text};
use crate::page::run_view::RunView;
use crate::page::step::fill::LEFT;

/// Files per page.
const FILES: usize = 100;
/// Edits of a file per page.
const EDITS: usize = 50;
/// Steps listed for a file, at most.
const STEPS: usize = 12;
/// Longer paths aren't linked; bytes.
const MAX_PATH: usize = 1_000;

/// The files that a run tried to change.
#[derive(Template)]
#[template(path = "run/changed.html")]
pub(crate) struct ChangedTab<'a> {
    view: &'a RunView<'a>,
    all: Arc<Files>,
    /// The index of the first file or edit shown.
    first: usize,
    /// The path of the file whose edits are shown. Unknown paths are kept for the error message.
    chosen: Option<String>,
    /// The edits on this page.
    edits: Vec<Shown>,
}

impl HtmlSafe for ChangedTab<'_> {}

/// An edit and its step.
struct Shown {
    /// Describes the step, the call and the outcome.
    head: Phrase,
    /// The lines of the edit, or the reason why they aren't shown.
    edit: Result<FileEdit, &'static str>,
}

/// A file, with the size of its changes.
struct Row {
    link: Link,
    lines: Phrase,
    edits: String,
    steps: Phrase,
}

impl<'a> ChangedTab<'a> {
    /// Shows the files, or the edits of the file `path`, from index `first`.
    pub(crate) fn new(view: &'a RunView<'a>, all: Arc<Files>, path: &str, first: usize) -> Self {
        let chosen = Some(path.to_owned()).filter(|path| !path.is_empty());
        let mut out = Self {
            view,
            all,
            first,
            chosen,
            edits: Vec::new(),
        };
        let fold = &mut Fold::new(ValueLinks::default());
        out.edits = out
            .of_chosen()
            .map(|file| shown(view, file, first, fold))
            .unwrap_or_default();
        out
    }

    fn of_chosen(&self) -> Option<&File> {
        let path = self.chosen.as_deref()?;
        self.all.files.iter().find(|file| file.path == path)
    }

    /// States the numbers of files and edits, and what they don't include.
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
            0 => "No file edits found.".to_owned(),
            _ => format!(
                "{} in {}.",
                counted(*edits, "edit"),
                counted(files.len(), "file")
            ),
        };
        if *pending > 0 {
            let (read, all) = (
                self.view.index.steps().len().saturating_sub(*pending),
                self.view.index.steps().len(),
            );
            let (read, all) = (count(read as u64), counted(all, "step"));
            words.push_str(&format!(
                " This covers the first {read} of {all}. Reload the page for more."
            ));
        }
        if *left_out > 0 {
            words.push_str(&format!(
                " {} {} listed.",
                counted(*left_out, "more edit"),
                if *left_out == 1 { "isn't" } else { "aren't" }
            ));
        }
        if *unread > 0 {
            words.push_str(&format!(
                " {} couldn't be read, so {} edits are unknown.",
                counted(*unread, "step"),
                if *unread == 1 { "its" } else { "their" }
            ));
        }
        words.push_str(match edits {
            0 => " Changes made by shell commands aren't tracked.",
            _ => " Changes made by shell commands aren't tracked. Failed edits aren't counted.",
        });
        if self.view.summary.partial {
            words.push_str(" The run is still being indexed. Reload the page for the rest.");
        } else if self.view.is_alive() {
            words.push_str(" This list doesn't update by itself. Reload the page for later steps.");
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
            steps = steps.link(self.view.label(edit.step), self.view.at_step(edit.step));
            if let Some(word) = note(edit) {
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

    /// Returns the address of a file's edits from index `first`. With an empty path, that of the
    /// list of files.
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
            &href::run(self.view.key()),
            &[("tab", "files"), ("file", path), ("after", &first)],
        )
    }

    fn back(&self) -> String {
        self.at("", 0)
    }

    /// Returns the number of files or edits, and how many a page shows.
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
                format!("{} earlier", page.min(first)),
                self.at(path, first.saturating_sub(page)),
            )
        })
    }

    fn later(&self) -> Option<Link> {
        let ((total, page), path) = (self.window(), self.chosen.as_deref().unwrap_or_default());
        let end = self.first.saturating_add(page);
        let left = total.saturating_sub(end);
        (left > 0).then(|| Link::new(format!("{} later", page.min(left)), self.at(path, end)))
    }
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

/// Formats the added and removed lines of successful edits: `+3 −1`.
fn lines(file: &File) -> Phrase {
    let Some((added, removed)) = file.added.zip(file.removed) else {
        return Phrase::new().dim("not counted");
    };
    let lines = Phrase::new()
        .classed("plus", format!("+{}", count(added as u64)))
        .text(" ");
    let lines = lines.classed("minus", format!("−{}", count(removed as u64)));
    match file.uncounted {
        0 => lines,
        more => lines.dim(format!(" ({} not counted)", counted(more, "edit"))),
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

/// Reads the edits of a file from index `first`, out of the lines of their steps.
fn shown(view: &RunView<'_>, file: &File, first: usize, fold: &mut Fold) -> Vec<Shown> {
    let mut shown = Vec::new();
    for (at, edit) in file.edits.iter().enumerate().skip(first).take(EDITS) {
        let head = Phrase::new().link(
            format!("step {}", view.label(edit.step)),
            view.at_step(edit.step),
        );
        let head = if edit.is_abandoned {
            head.dim(format!(" {LEFT}"))
        } else {
            head
        };
        let note = |note: FileEdit| FileEdit {
            name: format!("Edit {} of this file", at + 1).into(),
            ..note
        };
        shown.push(Shown {
            head,
            edit: file_edit(view, edit, fold)
                .map(note)
                .ok_or_else(|| not_shown(edit)),
        });
    }
    shown
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
