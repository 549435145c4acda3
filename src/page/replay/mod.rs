//! How does a replay look? The state beside the step, the step's events up to the cursor, and where in the run that is.
//!
//! All values are ready, every place is a link: the page works without scripts, and `replay.js` only asks for the same
//! part, `#replay`, at another cursor. Only the step at the cursor is in the page, however long the run.

pub(crate) mod fill;
pub(crate) mod handler;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::page::part::action::Actions;
use crate::page::part::critic::Critic;
use crate::page::part::decision::Decision;
use crate::page::part::fold::Folded;
use crate::page::part::sign::{Link, Phrase};
use crate::page::part::state_diff::StateDiff;
use crate::page::part::text::Line;
use crate::page::run::PhaseState;
use crate::page::shell::{Pulse, Shell, Status};
use crate::page::state::StatePanel;

/// The page of a replay.
#[derive(Debug, Clone, Template)]
#[template(path = "replay/page.html")]
pub(crate) struct ReplayPage {
    /// What is around it.
    pub shell: Shell,
    /// The way back, outermost first; the run is its last link.
    pub crumb: Vec<Link>,
    /// What fetches the news.
    pub pulse: Pulse,
    /// All that depends on the cursor.
    pub replay: Replay,
}

/// A replay at another cursor, or what changed in the run since.
#[derive(Debug, Clone, Template)]
#[template(path = "replay/replay_part.html")]
pub(crate) struct ReplayPart {
    /// The next pulse, where this answers one.
    pub pulse: Option<Pulse>,
    /// The title of the document.
    pub title: Line,
    /// All that depends on the cursor.
    pub replay: Replay,
}

/// All that depends on the cursor, `#replay`.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "replay/replay.html")]
pub(crate) struct Replay {
    /// How the run stands.
    pub status: Option<Status>,
    /// The verdict in a sentence.
    pub verdict: Line,
    /// The cursor as it stands in the address.
    pub cursor: Line,
    /// The address of this place.
    pub here: String,
    /// The step on its run's page.
    pub open: Option<Link>,
    /// What a script needs to know.
    pub drive: Drive,
    /// What is said where the run has nothing to go through.
    pub nothing: Line,
    /// Of which moment the state is.
    pub state_when: Line,
    /// The state so far.
    pub state: StatePanel,
    /// `Step 4`, `Start`, `End`.
    pub title: Line,
    /// `event 3 of 13 · +17.442 s`.
    pub place: Line,
    /// Which breakpoint is here; empty for none.
    pub hit: Phrase,
    /// What is odd about the step: no line, no events; empty for nothing.
    pub note: Phrase,
    /// Its phases.
    pub phases: Vec<Phase>,
    /// What can be stopped at.
    pub stops: Stops,
    /// The picture of the whole run.
    pub scrub: Scrub,
    /// The ways to other places.
    pub transport: Transport,
}

impl HtmlSafe for Replay {}

/// What a script needs to know to walk and to play.
#[derive(Debug, Clone, Default)]
pub(crate) struct Drive {
    /// The position, counted over the whole run from 0.
    pub at: usize,
    /// The last position.
    pub last: usize,
    /// The address of this part without its position.
    pub part: String,
    /// How many positions playing goes on, and after how many milliseconds; `None` at the end.
    pub tick: Option<(usize, i64)>,
    /// Whether playing stops here.
    pub stop: bool,
    /// Whether the run may go on.
    pub alive: bool,
}

/// One phase of the step.
#[derive(Debug, Clone, Default)]
pub(crate) struct Phase {
    /// The class of its colour.
    pub class: &'static str,
    /// Its name.
    pub name: Line,
    /// When it began and how long it took.
    pub when: Line,
    /// Whether the cursor is past it, in it or before it.
    pub state: PhaseState,
    /// Its events.
    pub events: Vec<Event>,
    /// Its lines in the table of events.
    pub lines: Option<Link>,
    /// What its events say, a line each.
    pub says: Vec<Phrase>,
    /// The reasoning.
    pub thought: Option<Folded>,
    /// The decision.
    pub decision: Option<Decision>,
    /// Calls and results.
    pub actions: Option<Actions>,
    /// What changed in the state.
    pub diff: Option<StateDiff>,
    /// What the critics said.
    pub critics: Vec<Critic>,
}

/// One event of a phase.
#[derive(Debug, Clone, Default)]
pub(crate) struct Event {
    /// Its stage, or its phase where it has none.
    pub name: Line,
    /// Whether the cursor is past it, on it or before it.
    pub state: PhaseState,
    /// The address of the cursor on it.
    pub href: String,
}

/// The breakpoints.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stops {
    /// Where the form leads.
    pub action: String,
    /// What goes along with it: names and values.
    pub hidden: Vec<(&'static str, String)>,
    /// How many are on.
    pub on: usize,
    /// The breakpoints that are on, and those that would find something.
    pub rows: Vec<Stop>,
}

/// One breakpoint.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop {
    /// The query.
    pub text: Line,
    /// Whether playing stops at it.
    pub on: bool,
    /// How many steps it finds.
    pub count: Line,
    /// What of it is not understood; empty for nothing.
    pub wrong: Line,
}

/// The picture of the whole run: a unit wide per position, scaled to the width of the page.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scrub {
    /// What it shows.
    pub title: Line,
    /// The same in numbers.
    pub desc: Line,
    /// The lines through the lowest scores; more than one where steps have none.
    pub lines: Vec<String>,
    /// The scores as points, where there is room.
    pub dots: Vec<(String, String)>,
    /// The phases, where there is room.
    pub bars: Vec<Bar>,
    /// Errors, retries, stops.
    pub marks: Vec<MarkAt>,
    /// Where breakpoints are.
    pub hits: Vec<String>,
    /// The steps' names.
    pub labels: Vec<LabelAt>,
    /// The cursor.
    pub cur: String,
    /// What is still to come: left edge and width.
    pub later: (String, String),
}

/// A stretch of a phase in the picture.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    /// The class of its colour.
    pub class: &'static str,
    /// Left edge.
    pub x: String,
    /// Width.
    pub width: String,
}

/// A mark in the picture.
#[derive(Debug, Clone)]
pub(crate) struct MarkAt {
    /// Its place.
    pub x: String,
    /// What it is.
    pub kind: MarkKind,
}

/// What a mark in the picture stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MarkKind {
    /// An error.
    Error,
    /// A critic's stop.
    Stop,
    /// A critic's retry.
    Retry,
    /// A command that failed.
    Code,
    /// The end of the run, with the class that fills it.
    End(&'static str),
}

/// A step's name below the picture.
#[derive(Debug, Clone)]
pub(crate) struct LabelAt {
    /// Its place.
    pub x: String,
    /// The name.
    pub text: Line,
    /// Whether it is the step at the cursor.
    pub current: bool,
}

/// The ways to other places; at an end the ways beyond it lead nowhere new.
#[derive(Debug, Clone, Default)]
pub(crate) struct Transport {
    /// Whether this is the first position.
    pub at_start: bool,
    /// Whether this is the last position.
    pub at_end: bool,
    /// The start of the run.
    pub first: String,
    /// The step before.
    pub step_back: String,
    /// The event before.
    pub event_back: String,
    /// The event after.
    pub event_on: String,
    /// The step after.
    pub step_on: String,
    /// The end of the run.
    pub last: String,
    /// Other places that matter: with their keys.
    pub jumps: Vec<Jump>,
    /// The position in words: `4 · event 3 / 13`.
    pub pos: Line,
    /// The same for a reader that hears it: `step 4, event 3 of 13`.
    pub said: Line,
    /// The time on the chosen clock: `+17.4 s of 50.2 s`.
    pub time: Line,
    /// The speeds.
    pub speeds: Vec<Choice>,
    /// The clocks.
    pub clocks: Vec<Choice>,
}

/// A place that matters: the next breakpoint, the next mark, the next change of a key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Jump {
    /// The key that goes there.
    pub key: &'static str,
    /// What it is.
    pub label: Line,
    /// Where it is; `None` where there is none.
    pub href: Option<String>,
}

/// One of several speeds or clocks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Choice {
    /// Its name.
    pub label: &'static str,
    /// What it means; empty where the name says it.
    pub title: Line,
    /// This place with it.
    pub href: String,
    /// Whether it is the one chosen.
    pub current: bool,
    /// The key that chooses it from here; empty for none.
    pub key: &'static str,
}
