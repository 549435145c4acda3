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

#[derive(Debug, Clone, Template)]
#[template(path = "state/state_tab.html")]
pub(crate) struct StateTab {
    /// After which step, of how many.
    pub title: Phrase,
    pub prev: Option<Link>,
    pub next: Option<Link>,
    /// The address of the same step on the replay.
    pub replay: String,
    pub panel: StatePanel,
    /// What changed before this step without a step having done it: the key, and what became of its value.
    pub outside: Vec<(Line, Vec<Piece>)>,
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

#[derive(Debug, Clone)]
pub(crate) struct StateRow {
    pub key: Line,
    /// Where the key is selected.
    pub href: String,
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
    pub prev: Option<Link>,
    pub next: Option<Link>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct KeyHistory {
    pub key: Line,
    /// How many changes are shown, of how many.
    pub says: Line,
    /// The changes, in the order of the steps.
    pub rows: Vec<HistoryRow>,
}

#[derive(Debug, Clone)]
pub(crate) struct HistoryRow {
    pub step: Link,
    /// Whether it is the step that is shown.
    pub current: bool,
    pub change: Line,
    pub pieces: Vec<Piece>,
    /// Where the value was another than the change before left; empty where it was not.
    pub outside: Line,
}
