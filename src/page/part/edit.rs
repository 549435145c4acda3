//! Shows an edit of a file: its path, the numbers of added and removed lines, and the lines with their changes marked.
//!
//! [`crate::analysis::patch`] reads the edit from the call. This module only formats it.

use std::ops::{Range, RangeInclusive};

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format;
use crate::analysis::patch::{Edit, EditKind, Row, Sign};
use crate::model::names::cut_at;
use crate::page::part::fold::Fold;
use crate::page::part::highlight::Highlighter;
use crate::page::part::text::Line;

/// Longer lines are truncated; bytes.
const MAX_LINE: usize = 2_000;

/// A change to one file that a call requests.
#[derive(Debug, Clone, Template)]
#[template(path = "part/edit.html")]
pub(crate) struct FileEdit {
    pub path: Line,
    /// The name of the lines as a region of the page.
    pub name: Line,
    /// The number of added lines.
    pub added: usize,
    /// The number of removed lines.
    pub removed: usize,
    /// Further facts: a new file, written as a whole, not done.
    pub note: Line,
    pub rows: Vec<EditRow>,
    /// How many more lines there are, and where to find them.
    pub more: Line,
}

impl HtmlSafe for FileEdit {}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EditRow {
    /// A text between lines: their position, or how many are unchanged.
    Between(Line),
    /// A line, and whether it is removed, added or unchanged.
    Line(Sign, Vec<EditPart>),
}

/// A part of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EditPart {
    /// This part of the line changed.
    pub changed: bool,
    /// The class in the style sheet; empty for plain text.
    pub class: &'static str,
    pub text: String,
}

/// Highlights the lines before and after an edit as two separate texts.
pub(crate) struct Sides {
    before: Option<Highlighter>,
    after: Option<Highlighter>,
}

impl Sides {
    pub(crate) fn of(path: &str) -> Self {
        Self {
            before: Highlighter::of_file(path),
            after: Highlighter::of_file(path),
        }
    }

    /// Forgets the last lines. The next line may be anywhere in the file.
    pub(crate) fn skip(&mut self) {
        let sides = self.before.iter_mut().chain(&mut self.after);
        sides.for_each(Highlighter::restart);
    }

    fn line(&mut self, sign: Sign, line: &str) -> Vec<(&'static str, Range<usize>)> {
        let plain = || vec![("", 0..line.len())];
        let read = |side: &mut Option<Highlighter>| {
            side.as_mut().map_or_else(plain, |side| side.line(line))
        };
        match sign {
            Sign::Del => read(&mut self.before),
            Sign::Ins => read(&mut self.after),
            Sign::Same => {
                read(&mut self.before);
                read(&mut self.after)
            }
        }
    }
}

impl FileEdit {
    /// Returns the number of lines shown.
    pub(crate) fn lines(&self) -> usize {
        self.rows.len()
    }

    /// Formats an edit. `done` is whether the call succeeded; `None` if no result is recorded.
    pub(crate) fn new(edit: &Edit<'_>, done: Option<bool>, fold: &mut Fold) -> Self {
        let path = fold.relative(&edit.path).to_owned();
        // Nothing has happened to the file if the call failed.
        let is_done = done == Some(true);
        let either = |done: &str, requested: &str| match is_done {
            true => done.to_owned(),
            false => requested.to_owned(),
        };
        let kind = match edit.kind {
            EditKind::Changed => String::new(),
            EditKind::Inserted => either("inserted", "insertion"),
            EditKind::Added => "new file".to_owned(),
            EditKind::Written => {
                let words = either("whole file written", "whole file");
                format!("{words} (the call doesn't include the previous content)")
            }
            EditKind::Deleted => either("deleted", "deletion"),
            EditKind::Moved(to) => {
                let words = either("moved", "move");
                format!("{words} to {}", fold.relative(to))
            }
        };
        let came = match done {
            Some(true) => None,
            Some(false) => Some("requested, but the call failed".to_owned()),
            None => Some("requested; outcome not recorded".to_owned()),
        };
        let note = [came, Some(kind).filter(|kind| !kind.is_empty())];
        let note: Vec<String> = note.into_iter().flatten().collect();
        let mut rows = Vec::new();
        let all = edit.rows();
        let mut sides = Sides::of(&edit.path);
        for row in &all {
            if rows.len() >= fold.edit_lines() {
                break;
            }
            rows.push(EditRow::new(row, &mut sides, fold));
        }
        let more = match all.len() - rows.len() {
            0 => Line::default(),
            left => format!(
                "and {} (see the raw record)",
                format::counted(left, "more line")
            )
            .into(),
        };
        Self {
            name: format!("Edit of {path}").into(),
            path: path.into(),
            added: edit.added,
            removed: edit.removed,
            note: note.join(" · ").into(),
            rows,
            more,
        }
    }
}

/// Describes which lines are removed. The call holds the texts of the first `replaced` of them.
fn numbered(lines: &RangeInclusive<u32>, replaced: usize) -> String {
    let (first, last) = (lines.start(), lines.end());
    let gone = lines.clone().count();
    match (gone, replaced) {
        (0, _) => format!("before line {first}"),
        (1, 0) => format!("line {first} removed (text not in the call)"),
        (1, _) => format!("line {first}"),
        (_, 0) => format!("lines {first} to {last} removed (text not in the call)"),
        _ => format!("lines {first} to {last} removed (only the first ones are in the call)"),
    }
}

impl EditRow {
    /// Formats a row of an edit.
    pub(crate) fn new(row: &Row<'_>, sides: &mut Sides, fold: &mut Fold) -> Self {
        if !matches!(row, Row::Line(..)) {
            sides.skip();
        }
        match row {
            Row::Place(place) => Self::Between((*place).into()),
            Row::Unchanged(count) => {
                Self::Between(format!("{} unchanged", format::counted(*count, "line")).into())
            }
            Row::Numbered(lines, replaced) => Self::Between(numbered(lines, *replaced).into()),
            Row::Line(sign, parts) => {
                let line: String = parts.iter().map(|(_, text)| *text).chain(["\n"]).collect();
                let spans = sides.line(*sign, &line);
                let coloured = spans.iter().filter(|(class, _)| !class.is_empty()).count();
                let spans = match fold.takes_spans(coloured) {
                    true => spans,
                    false => vec![("", 0..line.len())],
                };
                let (mut at, mut left) = (0, MAX_LINE);
                let mut out = Vec::new();
                for (changed, text) in parts {
                    let head = cut_at(text, left);
                    left -= head.len();
                    let shown = at..at + head.len();
                    for (class, range) in &spans {
                        let range = range.start.max(shown.start)..range.end.min(shown.end);
                        let text = line.get(range).filter(|text| !text.is_empty());
                        let text = text.map(|text| format::visible(text).into_owned());
                        fold.spend(text.as_deref().unwrap_or_default());
                        out.extend(text.map(|text| EditPart {
                            changed: *changed,
                            class,
                            text,
                        }));
                    }
                    at += text.len();
                    if head.len() < text.len() {
                        out.push(EditPart {
                            changed: *changed,
                            class: "",
                            text: "…".into(),
                        });
                        break;
                    }
                }
                Self::Line(*sign, out)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::patch::requested_edits;
    use crate::model::json::Json;
    use crate::page::part::fold::ValueLinks;

    fn html(args: &str) -> String {
        let json = Json::parse(args).unwrap();
        let requested = requested_edits("Edit", &json);
        let fold = &mut Fold::new(ValueLinks::default());
        requested
            .edits
            .iter()
            .map(|edit| FileEdit::new(edit, Some(true), fold).render().unwrap())
            .collect()
    }

    #[test]
    fn an_edit_marks_lines_and_words() {
        let html = html(r#"{"path": "a.py", "old": "x = 1\nsame", "new": "x = 2\nsame"}"#);
        assert!(
            html.contains("a.py") && html.contains("+1") && html.contains("−1"),
            "{html}"
        );
        assert!(
            html.contains("<del")
                && html.contains("<ins")
                && html.contains("<b><span class=\"c-n\">1</span></b>")
                && html.contains("<b><span class=\"c-n\">2</span></b>")
        );
    }

    #[test]
    fn a_huge_edit_is_bound_and_says_so() {
        let new: String = (0..2000).map(|n| format!("line {n}\n")).collect();
        let html = html(&serde_json::json!({"path": "a", "old": "", "new": new}).to_string());
        assert!(
            html.contains("more lines (see the raw record)"),
            "{}",
            html.len()
        );
        let long = "x".repeat(50_000);
        let html =
            self::html(&serde_json::json!({"path": "a", "old": "y", "new": long}).to_string());
        assert!(html.len() < 4_000 && html.contains("x…"), "{}", html.len());
    }

    #[test]
    fn hostile_edits_are_text() {
        let evil = "<script>\"'</textarea></pre>\u{202e}\u{0}";
        let html = html(
            &serde_json::json!({"path": evil, "old": evil, "new": format!("{evil}{evil}")})
                .to_string(),
        );
        assert!(
            !html.contains("<script") && !html.contains("</textarea") && !html.contains('\u{202e}'),
            "{html}"
        );
        assert!(
            !html.contains('\u{0}') && html.contains("&#60;script&#62;"),
            "{html}"
        );
    }
}
