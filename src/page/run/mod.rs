//! How does a run look? Header, verdict, tabs, and the list of its steps beside the step that is read.
//!
//! All values are ready: which facts are worth showing, which sentence leads and what is trouble is decided elsewhere.
//! Every part has an id of its own and is rendered by one template, on the page and in [`RunPulse`].

pub(crate) mod api;
pub(crate) mod events;
pub(crate) mod files;
pub(crate) mod handler;
pub(crate) mod head;
pub(crate) mod json;
pub(crate) mod json_raw;
pub(crate) mod json_why;
pub(crate) mod marks;
pub(crate) mod pending;
pub(crate) mod says;
pub(crate) mod steps;
pub(crate) mod tabs;
pub(crate) mod verdict;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::page::part::fold::Folded;
use crate::page::part::sign::{Fact, Link, Phrase, Sign};
use crate::page::part::svg::Axis;
use crate::page::part::text::Line;
use crate::page::run::marks::Marks;
use crate::page::run::steps::Window;
use crate::page::run::tabs::{EventsTab, IssuesTab, ManifestTab};
use crate::page::shell::{Pulse, Shell, Status};
use crate::page::state::StateTab;
use crate::page::step::StepView;
use crate::page::whatif::RulesAnswer;

/// The page of a run, on any of its tabs.
#[derive(Debug, Clone, Template)]
#[template(path = "run/page.html")]
pub(crate) struct RunPage {
    /// What is around it.
    pub shell: Shell,
    /// The way back, outermost first; the run itself follows it.
    pub crumb: Vec<Link>,
    /// What fetches the news; `None` where nothing will come.
    pub pulse: Option<Pulse>,
    /// The header.
    pub head: RunHead,
    /// The verdict panel.
    pub verdict: Verdict,
    /// The tabs.
    pub tabs: Tabs,
    /// The content of the tab that is open.
    pub content: Content,
}

/// The content of a tab. A new tab is a new variant here and one more line in `run.html`.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// The steps and the step that is read.
    Steps(Box<StepsTab>),
    /// The state after a step; `None` where there is no step.
    State(Option<Box<StateTab>>),
    /// The events of the run.
    Events(EventsTab),
    /// The manifest.
    Manifest(ManifestTab),
    /// What is wrong with the files.
    Issues(IssuesTab),
}

/// What changed on a run page since its last pulse. Parts that did not change are left out.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "run/run_pulse.html")]
pub(crate) struct RunPulse {
    /// The next pulse.
    pub pulse: Pulse,
    /// The title of the document.
    pub title: Option<Line>,
    /// The header.
    pub head: Option<RunHead>,
    /// The verdict panel.
    pub verdict: Option<Verdict>,
    /// The tabs.
    pub tabs: Option<Tabs>,
    /// The end slot, on the steps tab.
    pub end: Option<EndSlot>,
    /// The step that is being written, on the steps tab.
    pub pending: Option<PendingSlot>,
    /// The rows of the list that the page holds, with those that are new, on the steps tab.
    pub rows: Option<StepRows>,
    /// The step that is read, where it changed or the reader follows the run.
    pub selected: Option<StepView>,
    /// The last events, on their tab.
    pub events: Option<EventsTab>,
    /// The state after the last step, on its tab.
    pub state: Option<Box<StateTab>>,
    /// What other rules would have done, on their page.
    pub whatif: Option<RulesAnswer>,
}

/// The header of a run, `#runhead`.
#[derive(Debug, Clone, Template)]
#[template(path = "run/run_head.html")]
pub(crate) struct RunHead {
    /// The run, as its directory or its manifest names it.
    pub name: Line,
    /// The task as one line.
    pub task: Line,
    /// The whole task, where the line does not hold it.
    pub whole_task: Option<Folded>,
    /// How it stands.
    pub status: Status,
    /// Model, agent, start, duration, tokens, and what else is known.
    pub facts: Vec<Fact>,
    /// What can be done with the run.
    pub acts: Vec<Link>,
}

impl HtmlSafe for RunHead {}

/// The verdict panel, `#verdict-panel`: the answer in a sentence, then the evidence.
#[derive(Debug, Clone, Template)]
#[template(path = "run/verdict.html")]
pub(crate) struct Verdict {
    /// How the run stands; only the shape is shown, the sentence has the words.
    pub status: Status,
    /// The sentence.
    pub headline: Phrase,
    /// What the run did instead, or what came of it; empty for nothing.
    pub second: Phrase,
    /// How certain the sentence is, where it is not simply recorded; empty for nothing.
    pub certainty: Phrase,
    /// Which limit would end the run at this pace; empty where it ended or none is known.
    pub pace: Phrase,
    /// At most six lines, the weightiest first.
    pub evidence: Vec<Evidence>,
    /// The first thing that went wrong.
    pub first_trouble: Phrase,
    /// Where the files contradict each other.
    pub contradictions: Vec<Phrase>,
    /// What liveness rests on, while the run is not finished.
    pub liveness: Phrase,
    /// Clean, or counts of problems and notes.
    pub health: Phrase,
    /// How every rule stood, or what room is left.
    pub rules: RulesTable,
    /// What the trace itself says.
    pub says: TraceSays,
}

impl HtmlSafe for Verdict {}

/// The rules that could end the run, and how near each was.
#[derive(Debug, Clone, Default)]
pub(crate) struct RulesTable {
    /// *Stop rules*, or *Room left* while the run goes on.
    pub title: &'static str,
    /// How many fired, held, are off or unknown.
    pub tally: Line,
    /// The one that ended the run first.
    pub rows: Vec<RuleLine>,
}

/// One rule.
#[derive(Debug, Clone, Default)]
pub(crate) struct RuleLine {
    /// The class of the row: `hit` for a limit that ended the run, `ends` for another rule that did, `off`, or empty.
    pub class: &'static str,
    /// What a person calls it.
    pub name: Line,
    /// Its id, where the name does not say which one it is; empty for none.
    pub id: Line,
    /// The number measured.
    pub measured: Line,
    /// The limit.
    pub limit: Line,
    /// The share of the limit that is used; `None` without two numbers.
    pub bar: Option<RuleBar>,
    /// How it stood, or what is left.
    pub state: Sign,
    /// A few words besides; empty for none.
    pub note: Line,
    /// Who set the limit.
    pub by: Line,
}

/// The share of a limit that is used.
#[derive(Debug, Clone, Default)]
pub(crate) struct RuleBar {
    /// The class of the filled part.
    pub class: &'static str,
    /// Its width in hundredths.
    pub width: String,
}

/// One line of evidence and where it comes from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Evidence {
    /// The symbol in the sprite, without `i-`.
    pub icon: &'static str,
    /// The class that colours it: `err`, `lim`, `crit` or empty.
    pub class: &'static str,
    /// The line.
    pub text: Phrase,
    /// Where it comes from.
    pub link: Option<Link>,
}

/// What the trace itself says about its end, beside the verdict.
#[derive(Debug, Clone, Default)]
pub(crate) struct TraceSays {
    /// Stop reason, stop detail, final result, error, as recorded.
    pub facts: Vec<Fact>,
    /// The last verdict of each critic.
    pub critics: Vec<LastWord>,
    /// The step of those verdicts.
    pub critics_of: Option<Link>,
    /// The rows of the failure report.
    pub failures: Vec<Failure>,
    /// What is said where nothing of this is recorded.
    pub nothing: Line,
}

/// The last verdict of a critic.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastWord {
    /// Its name.
    pub name: Line,
    /// What it asked for.
    pub asked: Sign,
    /// The bar; `None` where the score is not on the scale.
    pub axis: Option<Axis>,
    /// The score.
    pub score: Line,
    /// Its reason, as one line.
    pub reason: Line,
}

/// One row of the failure report.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failure {
    /// The step.
    pub step: Link,
    /// The phase.
    pub phase: Line,
    /// The category.
    pub category: Line,
    /// The message, as one line.
    pub message: Line,
    /// What the engine did: continue or stop, recoverable or not.
    pub outcome: Line,
}

/// The tabs of a run, `#tabs`.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "run/tabs.html")]
pub(crate) struct Tabs {
    /// The tabs that exist, in order.
    pub tabs: Vec<Tab>,
}

impl HtmlSafe for Tabs {}

/// One tab.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tab {
    /// Its name.
    pub name: &'static str,
    /// How much is in it; empty for no count.
    pub count: Line,
    /// Its address.
    pub href: String,
    /// Whether it is the one shown.
    pub current: bool,
}

/// The steps of a run and the step that is read.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "run/steps.html")]
pub(crate) struct StepsTab {
    /// The names of the critics in the order of the bars.
    pub critics: Line,
    /// The rows before these.
    pub earlier: Option<Link>,
    /// The rows after these; `None` at the end of the run.
    pub later: Option<Link>,
    /// The rows around the step that is read.
    pub rows: StepRows,
    /// What comes after the last step.
    pub end: EndSlot,
    /// The step that is being written.
    pub pending: PendingSlot,
    /// The step that is read.
    pub selected: Option<StepView>,
    /// What is said where there is no step to read.
    pub nothing: Phrase,
    /// Whether new steps may come; `Some(true)` where the list follows them from the start.
    pub follow: Option<bool>,
}

impl HtmlSafe for StepsTab {}

/// Some rows of the step list, `#steprows`, with room above and below for the others, so that the scroll bar is true.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "run/step_rows.html")]
pub(crate) struct StepRows {
    /// The steps that have a row.
    pub window: Window,
    /// Lines of the list above the rows.
    pub above: usize,
    /// Lines of the list below the rows.
    pub below: usize,
    /// Steps of the run.
    pub steps: usize,
    /// The rows.
    pub rows: Vec<Row>,
    /// Their drawings.
    pub marks: Marks,
}

impl HtmlSafe for StepRows {}

/// One line of the step list.
#[derive(Debug, Clone)]
pub(crate) enum Row {
    /// A step, whole or not.
    Step(Box<StepRow>),
    /// Where another run begins in the same directory.
    Segment(Line),
}

/// A row of the step list, `#step-{n}`.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "run/step_row.html")]
pub(crate) struct StepRow {
    /// Its ordinal, the identity of the step.
    pub n: usize,
    /// The recorded step id.
    pub label: Line,
    /// The run page with this step selected.
    pub href: String,
    /// Whether it has an error, a retry or a stop.
    pub marked: bool,
    /// Whether it is the step that is read.
    pub current: bool,
    /// Whether the step is not written yet, or never was.
    pub pending: bool,
    /// The sign before the call: a failed command, an error.
    pub sign: Option<Sign>,
    /// What the step did.
    pub did: Did,
    /// The whole of it, for those who point at it.
    pub title: Line,
    /// The names of the critics with their scores, which are drawn beside the row, or why there are none.
    pub scores: Line,
    /// Retry or stop, where a critic asked for it.
    pub asked: Option<Sign>,
    /// How long it took, as is: `2.9 s`, `no end`, `–`.
    pub took: Phrase,
    /// Tokens, or `–`.
    pub tokens: Line,
}

impl HtmlSafe for StepRow {}

/// What a step did, in one line.
#[derive(Debug, Clone, Default)]
pub(crate) enum Did {
    /// Called a tool.
    Call {
        /// The name of the tool.
        name: Line,
        /// The arguments.
        args: Line,
        /// `+2` where there were more calls; else empty.
        more: Line,
    },
    /// Gave the final answer.
    Answer(Line),
    /// Something else: waited, handed over.
    Words(Line),
    /// Came to nothing: no decision, an unreadable line.
    Nil(Line),
    /// Not known.
    #[default]
    Unknown,
}

/// What comes after the last step, `#endslot`.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "run/end_slot.html")]
pub(crate) struct EndSlot {
    /// The END event, and events that name a step without a line.
    pub lines: Vec<EndLine>,
}

impl HtmlSafe for EndSlot {}

/// One line of the end slot.
#[derive(Debug, Clone)]
pub(crate) struct EndLine {
    /// How the run stands; decides colour and shape.
    pub status: Status,
    /// What it says.
    pub text: Phrase,
    /// Where it leads.
    pub href: String,
}

/// Room for the step that is being written, `#pending`.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "run/pending.html")]
pub(crate) struct PendingSlot {
    /// The step; `None` where none is being written.
    pub step: Option<PendingStep>,
}

impl HtmlSafe for PendingSlot {}

/// A step known from its events only.
#[derive(Debug, Clone, Default)]
pub(crate) struct PendingStep {
    /// `Step 9`.
    pub title: Line,
    /// In progress, or never finished.
    pub status: Sign,
    /// From how many events it is built, and when the last one came.
    pub note: Phrase,
    /// How long so far; empty where that is not known.
    pub so_far: Phrase,
    /// Its phases in order.
    pub phases: Vec<PendingPhase>,
}

/// One phase of a [`PendingStep`].
#[derive(Debug, Clone, Default)]
pub(crate) struct PendingPhase {
    /// The class of its colour; empty for phases that are not reached.
    pub class: &'static str,
    /// Its name.
    pub name: Line,
    /// How it stands.
    pub state: PhaseState,
    /// How long it took or takes.
    pub when: Phrase,
    /// What is known of it, a line each.
    pub says: Vec<Phrase>,
}

/// How a phase of an unfinished step stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum PhaseState {
    /// Done.
    #[default]
    Done,
    /// Under way.
    Now,
    /// Not reached.
    Later,
}

#[cfg(test)]
mod tests;
