//! How does a state look? Each key with its value, who wrote it last, and the way to its other changes.
//!
//! The panel stands on the State tab and beside a replayed step; both give it the addresses its links lead to.

pub(crate) mod fill;
pub(crate) mod handler;
pub(crate) mod json;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::page::part::json_tree::JsonView;
use crate::page::part::sign::{Link, Phrase};
use crate::page::part::state_diff::Piece;
use crate::page::part::text::Line;

/// The State tab of a run.
#[derive(Debug, Clone, Template)]
#[template(path = "state/state_tab.html")]
pub(crate) struct StateTab {
    /// After which step, of how many.
    pub title: Phrase,
    /// The step before.
    pub prev: Option<Link>,
    /// The step after.
    pub next: Option<Link>,
    /// The same step on the replay.
    pub replay: Link,
    /// The state.
    pub panel: StatePanel,
    /// What changed before this step without a step having done it.
    pub outside: Vec<OutsideRow>,
    /// How the selected value came to be.
    pub history: Option<KeyHistory>,
}

impl HtmlSafe for StateTab {}

/// The state at one moment, `#state`.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "state/state_panel.html")]
pub(crate) struct StatePanel {
    /// What it is put together from, and what of it is not certain.
    pub note: Phrase,
    /// Its keys, in the order in which they are recorded.
    pub rows: Vec<StateRow>,
}

impl HtmlSafe for StatePanel {}

/// One key of a state.
#[derive(Debug, Clone)]
pub(crate) struct StateRow {
    /// Its name.
    pub key: Line,
    /// Where the key is selected.
    pub href: String,
    /// Whether it is the selected one.
    pub selected: bool,
    /// Whether the step that is shown changed it.
    pub changed: bool,
    /// What became of it, where the step changed it.
    pub pieces: Vec<Piece>,
    /// The value; `None` where it is not known.
    pub value: Option<JsonView>,
    /// Why the value is not known or not certain; empty where it is.
    pub doubt: Line,
    /// Which step wrote it last.
    pub by: Phrase,
    /// The change before and after the shown moment, on the selected key.
    pub walk: Option<Walk>,
}

/// The way from one change of a key to the others.
#[derive(Debug, Clone, Default)]
pub(crate) struct Walk {
    /// How many changes there are up to here, of how many.
    pub says: Line,
    /// The change before.
    pub prev: Option<Link>,
    /// The change after.
    pub next: Option<Link>,
}

/// A value that changed between two steps.
#[derive(Debug, Clone)]
pub(crate) struct OutsideRow {
    /// The key.
    pub key: Line,
    /// What became of it.
    pub pieces: Vec<Piece>,
}

/// The changes of one key.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyHistory {
    /// The key.
    pub key: Line,
    /// How many changes are shown, of how many.
    pub says: Line,
    /// The changes, in the order of the steps.
    pub rows: Vec<HistoryRow>,
}

/// One change of one key.
#[derive(Debug, Clone)]
pub(crate) struct HistoryRow {
    /// The step.
    pub step: Link,
    /// Whether it is the step that is shown.
    pub current: bool,
    /// What kind of change it is.
    pub change: Line,
    /// The detail in pieces.
    pub pieces: Vec<Piece>,
    /// Where the value was another than the change before left; empty where it was not.
    pub outside: Line,
}
