//! What is in the files besides the steps? The events in file order, the manifest, and what is wrong with either.

use askama::Template;
use askama::filters::HtmlSafe;

use crate::model::json::Json;
use crate::page::part::fold::Fold;
use crate::page::part::json_tree::{JsonView, token};
use crate::page::part::sign::{Link, Phrase, Sign};
use crate::page::part::text::Line;

/// The events of a run, 200 at a time.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "run/events_table.html")]
pub(crate) struct EventsTab {
    /// Which events these are, of how many.
    pub summary: Line,
    /// Where the filter form leads.
    pub action: String,
    /// The phases that occur.
    pub phases: Vec<PhaseChoice>,
    /// The rows before these.
    pub earlier: Option<Link>,
    /// The rows after these.
    pub later: Option<Link>,
    /// The rows, in file order.
    pub rows: Vec<EventRow>,
}

impl HtmlSafe for EventsTab {}

/// A phase one can filter by.
#[derive(Debug, Clone, Default)]
pub(crate) struct PhaseChoice {
    /// The value of the field; empty for all phases.
    pub value: Line,
    /// Its name and how many events it has.
    pub label: Line,
    /// Whether it is chosen.
    pub chosen: bool,
}

/// One event, `#event-{n}`.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventRow {
    /// Its ordinal: its place among the lines of the file.
    pub n: usize,
    /// The class of the phase's colour.
    pub class: &'static str,
    /// The phase as recorded.
    pub phase: Line,
    /// The stage.
    pub stage: Line,
    /// The step it belongs to, or why it belongs to none.
    pub step: Phrase,
    /// When, from the start of the run.
    pub at: Line,
    /// The recorded time.
    pub datetime: Line,
    /// Whether it went well.
    pub ok: Sign,
    /// The size of its line.
    pub size: Line,
    /// An error, a reason, what else is worth a look.
    pub note: Phrase,
    /// The line alone.
    pub raw: String,
}

/// The manifest of a run.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "run/manifest.html")]
pub(crate) struct ManifestTab {
    /// What is to be known before: missing, torn, the last good one shown. Empty for nothing.
    pub note: Phrase,
    /// Its counts beside those of the files.
    pub checks: Vec<CountCheck>,
    /// The stop rules, where they are recorded.
    pub rules: Vec<RuleRow>,
    /// Its keys in file order.
    pub entries: Vec<(Line, JsonView)>,
    /// The file as it is.
    pub raw: Option<Link>,
}

impl HtmlSafe for ManifestTab {}

/// A count in the manifest beside what the file holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct CountCheck {
    /// What is counted.
    pub what: Line,
    /// What the manifest says.
    pub manifest: Line,
    /// What the file holds.
    pub file: Line,
    /// Whether they agree, and why they may not.
    pub verdict: Phrase,
}

/// One stop rule as it was set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RuleRow {
    /// Its id.
    pub id: Line,
    /// The rule in short: `max_steps · steps 8`.
    pub rule: Line,
    /// Who set it.
    pub from: Line,
    /// Whether it ended the run, or was true at that moment too; empty for neither.
    pub verdict: Line,
}

impl ManifestTab {
    /// The entries of a manifest; a manifest that is no object is one entry without a name.
    pub(crate) fn entries_of(manifest: &Json<'_>, fold: &mut Fold) -> Vec<(Line, JsonView)> {
        match manifest {
            Json::Object(members) => members
                .iter()
                .map(|(key, value)| (key.as_ref().into(), fold.json(value, &format!("/{}", token(key)))))
                .collect(),
            other => vec![(Line::default(), fold.json(other, ""))],
        }
    }
}

/// What is wrong with the files of a run.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "run/issues.html")]
pub(crate) struct IssuesTab {
    /// What is said where nothing is wrong.
    pub clean: Phrase,
    /// How many of each kind.
    pub counts: Vec<(Sign, Line)>,
    /// The rows before these.
    pub earlier: Option<Link>,
    /// The rows after these.
    pub later: Option<Link>,
    /// One row per issue.
    pub rows: Vec<IssueRow>,
}

impl HtmlSafe for IssuesTab {}

/// One issue.
#[derive(Debug, Clone, Default)]
pub(crate) struct IssueRow {
    /// Problem or note.
    pub level: Sign,
    /// The file.
    pub file: Line,
    /// The line, from 1; empty for the whole file.
    pub line: Line,
    /// Where the line begins, in bytes from the start of the file.
    pub offset: Line,
    /// What is wrong.
    pub reason: Phrase,
    /// Where it can be seen.
    pub link: Option<Link>,
}
