//! Shows a state: each key with its value, the step that last wrote it, and links to its other
//! changes.
//!
//! The panel appears on the State tab and next to a replayed step. Both supply the addresses of its
//! links.

pub(crate) mod fill;
pub(crate) mod handler;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::page::part::json_tree::JsonView;
use crate::page::part::sign::{Link, Phrase};
use crate::page::part::state_diff::Piece;
use crate::page::part::text::Line;

#[derive(Debug, Clone, Template)]
#[template(path = "state/state_tab.html")]
pub(crate) struct StateTab {
    /// The step whose state is shown, and the number of keys.
    pub title: Phrase,
    pub prev: Option<Link>,
    pub next: Option<Link>,
    /// The address of the same step in the replay.
    pub replay: String,
    pub panel: StatePanel,
    /// Changes before this step that no step made: the key and the change of its value.
    pub outside: Vec<(Line, Vec<Piece>)>,
    /// The history of the selected value.
    pub history: Option<KeyHistory>,
}

impl HtmlSafe for StateTab {}

/// The state at one moment, `#state`.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "state/state_panel.html")]
pub(crate) struct StatePanel {
    /// The sources of the state, and what is uncertain about it.
    pub note: Phrase,
    /// The keys in recorded order.
    pub rows: Vec<StateRow>,
}

impl HtmlSafe for StatePanel {}

#[derive(Debug, Clone)]
pub(crate) struct StateRow {
    pub key: Line,
    /// The address that selects the key.
    pub href: String,
    pub selected: bool,
    /// Whether the displayed step changed it.
    pub changed: bool,
    /// The change, if the step changed it.
    pub pieces: Vec<Piece>,
    /// The value, or `None` if it is unknown.
    pub value: Option<JsonView>,
    /// Why the value is unknown or uncertain. Empty if it is certain.
    pub doubt: Line,
    /// The step that last wrote it.
    pub by: Phrase,
    /// For the selected key, the changes before and after the displayed moment.
    pub walk: Option<Walk>,
}

/// Links from one change of a key to the others.
#[derive(Debug, Clone, Default)]
pub(crate) struct Walk {
    /// The number of changes so far, and in total.
    pub description: Line,
    pub prev: Option<Link>,
    pub next: Option<Link>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct KeyHistory {
    pub key: Line,
    /// The number of changes shown, and in total.
    pub description: Line,
    /// The changes in step order.
    pub rows: Vec<HistoryRow>,
}

#[derive(Debug, Clone)]
pub(crate) struct HistoryRow {
    pub step: Link,
    /// Whether this is the displayed step.
    pub current: bool,
    pub change: Line,
    pub pieces: Vec<Piece>,
    /// A note if the value differs from what the previous change left. Empty otherwise.
    pub outside: Line,
}
