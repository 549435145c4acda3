//! The form that saves a run, with what will be redacted.

use std::ops::Range;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format;
use crate::analysis::turns::turn_steps;
use crate::live::RedactionPreview;
use crate::model::redact::{Kind, Sample};
use crate::model::{Index, MAX_LINE_BYTES};
use crate::page::part::href;
use crate::page::part::text::Line;
use crate::page::run_view::RunView;

/// Maximum number of values in the preview.
const PREVIEW: usize = 8;

/// The form that saves a run (`#sheet`).
#[derive(Template)]
#[template(path = "export/share_form.html")]
pub(crate) struct ShareForm {
    run: String,
    /// The current step, and its turn if the run has several.
    step: Option<(usize, Line)>,
    turn: Option<usize>,
    /// What will be redacted. `None` if it wasn't looked for yet.
    check: Option<Check>,
    sizes: Sizes,
    /// The number of child runs.
    children: usize,
}

/// The size of the file in each format, or empty.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    pub html: Line,
    pub markdown: Line,
    pub atif: Line,
    pub otlp: Line,
}

impl HtmlSafe for ShareForm {}

/// What will be redacted.
pub(crate) struct Check {
    rows: Vec<CheckRow>,
    total: String,
    preview: Vec<Change>,
}

struct CheckRow {
    kind: &'static str,
    to: &'static str,
    count: usize,
}

/// A value in the preview.
struct Change {
    value: Line,
    to: &'static str,
}

impl ShareForm {
    pub(crate) fn new(view: &RunView<'_>, step: Option<usize>) -> Self {
        let step = step.filter(|n| *n < view.index.steps().len());
        let turn = step.and_then(|n| turn_of(view.index, n)).map(|(k, _)| k);
        Self {
            run: href::run(view.key()),
            step: step.map(|n| (n, view.label(n).into())),
            turn,
            check: None,
            sizes: Sizes::default(),
            children: view.child_count(),
        }
    }

    /// Returns the form with the sizes of the files.
    pub(crate) fn sized(self, sizes: Sizes) -> Self {
        Self { sizes, ..self }
    }

    /// Names the child runs: `With 3 child runs`.
    fn child_runs(&self) -> String {
        format!("With {}", format::counted(self.children, "child run"))
    }

    /// Returns the form with what will be redacted.
    pub(crate) fn checked(self, check: Check) -> Self {
        Self {
            check: Some(check),
            ..self
        }
    }

    /// Returns the address of the page that says what will be redacted.
    fn more(&self) -> String {
        let step = self.step.as_ref().map(|(n, _)| n.to_string());
        href::with_query(
            &format!("{}/share", self.run),
            &[("step", &step.unwrap_or_default())],
        )
    }
}

/// Returns the turn of a step, counted from 1, and its steps. `None` if the run has only one turn.
pub(crate) fn turn_of(index: &Index, n: usize) -> Option<(usize, Range<usize>)> {
    let turns = turn_steps(index);
    if turns.len() < 2 {
        return None;
    }
    let at = turns.iter().rposition(|turn| turn.start <= n)?;
    Some((at + 1, turns.get(at)?.clone()))
}

impl Check {
    /// Describes the matches in the first bytes of a run, about `max`.
    pub(crate) fn new(found: &RedactionPreview, max: u64) -> Self {
        let samples = found.samples.as_slice();
        let row = |(kind, count): (Kind, usize)| CheckRow {
            kind: kind.name(),
            to: kind.replacement(),
            count,
        };
        let mut preview: Vec<&Sample> = samples.iter().collect();
        // One of each kind comes first.
        preview.sort_by_key(|sample| {
            let same = samples.iter().filter(|other| other.kind == sample.kind);
            (
                same.take_while(|other| *other != *sample).count(),
                sample.kind,
            )
        });
        let change = |sample: &Sample| Change {
            value: masked(sample).into(),
            to: sample.kind.replacement(),
        };
        Self {
            rows: found.blanked.each().map(row).collect(),
            total: {
                let mut total = format::counted(found.blanked.found(), "value");
                if found.runs > 1 {
                    total += &format!(" with {}", format::counted(found.runs - 1, "child run"));
                }
                if !found.is_whole {
                    total += &format!(" in the first {}", format::bytes(max));
                }
                if found.too_long > 0 {
                    let documents = format::counted(found.too_long, "document");
                    let limit = format::bytes(MAX_LINE_BYTES);
                    total += &format!("; {documents} over {limit} skipped");
                }
                total
            },
            preview: preview.into_iter().take(PREVIEW).map(change).collect(),
        }
    }
}

/// Returns the value for the preview. Of a secret, only the ends are shown.
fn masked(sample: &Sample) -> String {
    const ENDS: usize = 4;
    let is_secret = sample.kind.replacement() == Kind::Named.replacement();
    let letters: Vec<char> = sample.value.chars().collect();
    match letters.as_slice() {
        _ if !is_secret => sample.value.clone(),
        [first @ .., a, b, c, d] if first.len() >= 3 * ENDS => {
            let start: String = first.iter().take(ENDS).collect();
            format!("{start}…{a}{b}{c}{d}")
        }
        [first, ..] => format!("{first}…"),
        [] => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::redact::Blanked;

    fn sample(kind: Kind, value: &str) -> Sample {
        Sample {
            kind,
            value: value.to_owned(),
        }
    }

    #[test]
    fn a_preview_doesnt_show_secrets() {
        assert_eq!(
            masked(&sample(Kind::Token, "ghp_0123456789abcdef")),
            "ghp_…cdef"
        );
        assert_eq!(masked(&sample(Kind::Named, "swordfish")), "s…");
        assert_eq!(masked(&sample(Kind::Named, "")), "");
        assert_eq!(masked(&sample(Kind::Home, "/home/ann")), "/home/ann");
    }

    #[test]
    fn a_preview_begins_with_one_of_each_kind() {
        let samples = [
            sample(Kind::Home, "/home/a"),
            sample(Kind::Home, "/home/b"),
            sample(Kind::Email, "a@b.org"),
        ];
        let preview = RedactionPreview {
            blanked: Blanked::default(),
            samples: samples.to_vec(),
            is_whole: true,
            too_long: 0,
            runs: 1,
        };
        let check = Check::new(&preview, 0);
        assert_eq!(check.total, "0 values");
        let shown: Vec<&str> = check.preview.iter().map(|one| one.value.as_str()).collect();
        assert_eq!(shown, ["/home/a", "a@b.org", "/home/b"]);
        let preview = RedactionPreview {
            is_whole: false,
            runs: 3,
            ..preview
        };
        let total = Check::new(&preview, 1 << 20).total;
        assert!(total.starts_with("0 values with 2 child runs in the first "));
        let preview = RedactionPreview {
            is_whole: true,
            too_long: 1,
            runs: 1,
            ..preview
        };
        let total = Check::new(&preview, 1 << 20).total;
        assert_eq!(total, "0 values; 1 document over 8.4 MB skipped");
    }
}
