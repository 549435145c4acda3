//! How do two runs look beside each other? Outcomes, the step at which they part, all steps aligned, settings and numbers.
//!
//! All values are ready. Everything below the title is one part, `#compare`, which a live run changes.

pub(crate) mod fill;
pub(crate) mod handler;
pub(crate) mod json;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::page::part::sign::{Fact, Link, Phrase};
use crate::page::part::state_diff::Piece;
use crate::page::part::text::Line;
use crate::page::scores::overlay::Overlay;
use crate::page::shell::{Pulse, Shell, Status};

/// The page of a comparison.
#[derive(Debug, Clone, Template)]
#[template(path = "compare/page.html")]
pub(crate) struct ComparePage {
    /// What is around it.
    pub shell: Shell,
    /// What fetches the news, while a run goes on.
    pub pulse: Option<Pulse>,
    /// Runs to choose from, where one is not chosen yet.
    pub choice: Option<Choice>,
    /// What is compared.
    pub body: Option<CompareBody>,
}

/// The fields in which two runs are chosen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Choice {
    /// Run A as typed.
    pub a: String,
    /// Run B as typed.
    pub b: String,
    /// Keys to choose from.
    pub keys: Vec<String>,
    /// What the links below are: runs of the same task.
    pub about: Line,
    /// Comparisons that are likely meant, each with the verdict of the other run.
    pub likely: Vec<(Link, Line)>,
}

/// What is compared, `#compare`.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "compare/compare_body.html")]
pub(crate) struct CompareBody {
    /// Where they part, in a sentence or two.
    pub says: Line,
    /// Other views of the same runs.
    pub acts: Vec<Link>,
    /// What to know first: a run that goes on, one run twice.
    pub notes: Vec<Line>,
    /// The outcomes.
    pub sides: Vec<Side>,
    /// Steps beside each other; `None` where more than two runs are compared.
    pub steps: Option<Steps>,
    /// The scores of the runs over each other, where critics gave any.
    pub overlay: Option<Overlay>,
    /// The runs' numbers.
    pub metrics: Metrics,
    /// Settings; `None` where more than two runs are compared.
    pub config: Option<ConfigTable>,
}

impl HtmlSafe for CompareBody {}

/// One run of a comparison.
#[derive(Debug, Clone)]
pub(crate) struct Side {
    /// `A`, `B` and so on.
    pub letter: String,
    /// The class of the letter.
    pub class: &'static str,
    /// The run.
    pub run: Link,
    /// Its verdict as a sentence.
    pub says: Line,
    /// How it stands.
    pub status: Status,
    /// Steps, duration, answer.
    pub facts: Vec<Fact>,
}

/// All steps of two runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Steps {
    /// `First difference: step 5`, or what there is instead.
    pub title: Line,
    /// What goes with it.
    pub about: Line,
    /// What stands on the fold of the rows before: `5 equal steps`, and which tools they call.
    pub fold: Line,
    /// As `fold`, dimmer.
    pub fold_about: Line,
    /// The rows before the first difference.
    pub before: Vec<AlignedRow>,
    /// The first difference.
    pub opened: Option<Opened>,
    /// The rows after it, or the rows of a window that was asked for.
    pub after: Vec<AlignedRow>,
    /// Earlier rows, the window with the difference, later rows.
    pub pages: Vec<Link>,
}

/// Two steps side by side in one line.
#[derive(Debug, Clone, Default)]
pub(crate) struct AlignedRow {
    /// Both numbers: `5`, or `5 · 7`.
    pub label: Line,
    /// The row opened, in lockstep.
    pub href: String,
    /// The step of run A.
    pub a: Option<Cell>,
    /// The step of run B.
    pub b: Option<Cell>,
    /// How they relate.
    pub relation: &'static str,
    /// Whether anything differs.
    pub differs: bool,
}

/// One step in a line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    /// What it does.
    pub call: Line,
    /// Its lowest score, and what a critic asked for.
    pub score: Phrase,
}

/// Two steps side by side with all that is told of them.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "compare/diverge.html")]
pub(crate) struct Opened {
    /// The steps.
    pub sides: Vec<Moment>,
}

impl HtmlSafe for Opened {}

/// A step of one side.
#[derive(Debug, Clone, Default)]
pub(crate) struct Moment {
    /// `A` or `B`.
    pub letter: &'static str,
    /// The class of the letter.
    pub class: &'static str,
    /// `Step 5`, and where it leads; no address where this run has no such step.
    pub title: Link,
    /// The mode.
    pub(crate) mode: Line,
    /// What is told of it.
    pub told: Vec<Told>,
}

/// One thing told of a step.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told {
    /// What it is.
    pub term: &'static str,
    /// What is told, in words.
    pub says: Phrase,
    /// What is told, as text with what differs marked.
    pub pieces: Vec<Piece>,
}

/// Numbers of runs, a column for each, or a row for each where there are many.
#[derive(Debug, Clone, Default)]
pub(crate) struct Metrics {
    /// The head cells after the first.
    pub head: Vec<Line>,
    /// One for each number, or for each run.
    pub rows: Vec<MetricRow>,
}

/// One row of numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct MetricRow {
    /// What it is.
    pub name: Link,
    /// The numbers, and whether each is dim.
    pub cells: Vec<(Line, bool)>,
}

/// Settings that differ.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConfigTable {
    /// `2 settings differ, 19 equal`.
    pub about: Line,
    /// The settings.
    pub rows: Vec<ConfigRow>,
    /// What is said of settings that differ and have no row; empty for nothing.
    pub more: Line,
    /// `19 equal settings`.
    pub equal: Line,
    /// Their names.
    pub equal_names: Line,
}

/// One setting that differs.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConfigRow {
    /// Where it stands.
    pub path: Line,
    /// In run A; `None` where it is not recorded.
    pub a: Option<Line>,
    /// In run B.
    pub b: Option<Line>,
    /// What it bears on.
    pub affects: &'static str,
}

/// The answer to the pulse of a comparison.
#[derive(Debug, Clone, Template)]
#[template(path = "compare/compare_pulse.html")]
pub(crate) struct ComparePulse {
    /// The next pulse.
    pub pulse: Pulse,
    /// What is compared, as it is now.
    pub body: CompareBody,
}

/// One of the two runs of a lockstep.
#[derive(Debug, Clone)]
pub(crate) struct Walked {
    /// The letter it is shown under.
    pub letter: &'static str,
    /// The run.
    pub run: Link,
    /// How it ended.
    pub verdict: Line,
}

/// Two runs row by row.
#[derive(Debug, Clone, Template)]
#[template(path = "compare/lockstep.html")]
pub(crate) struct LockstepPage {
    /// What is around it.
    pub shell: Shell,
    /// The comparison.
    pub back: Link,
    /// `Row 6 of 8`.
    pub title: Line,
    /// How the two steps relate.
    pub relation: &'static str,
    /// The keys of the runs.
    pub keys: (String, String),
    /// Which runs they are.
    pub sides: [Walked; 2],
    /// The row shown, counted from 0, and the last one.
    pub at: (usize, usize),
    /// The row before.
    pub previous: Option<String>,
    /// The row after.
    pub next: Option<String>,
    /// First, last, and rows that differ.
    pub jumps: Vec<Link>,
    /// The row.
    pub row: Opened,
}
