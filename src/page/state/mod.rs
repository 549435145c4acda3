//! Shows a state: each key with its value, the step that last wrote it, and links to its other
//! changes.
//!
//! The panel appears on the State tab of a run and next to a replayed step. Both supply the addresses
//! of its links.

pub(crate) mod api;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::diff::{self, KeyChange};
use crate::analysis::format;
use crate::analysis::state::{
    BETWEEN, Base, KeyAt, KeyPath, Outside, StateAt, change_of, changed_by, changes_of, equal,
    outside, run_range, state_at, state_before,
};
use crate::model::json::Json;
use crate::model::{Record, TraceFile};
use crate::page::part::fold::{Fold, ValueLinks};
use crate::page::part::href;
use crate::page::part::json_tree::{JsonView, Kind, token};
use crate::page::part::sign::{Link, Phrase};
use crate::page::part::state_diff::{Piece, pieces};
use crate::page::part::text::Line;
use crate::page::run_view::RunView;

/// Limits the changes of a key in its history to those nearest to the displayed step.
const MAX_CHANGES: usize = 50;

/// Limits the keys shown. The step's own line and the API have all of them.
const MAX_KEYS: usize = 500;

#[derive(Debug, Clone, Template)]
#[template(path = "state/state_tab.html")]
pub(crate) struct StateTab {
    /// The step whose state is shown, and the number of keys.
    title: Phrase,
    prev: Option<Link>,
    next: Option<Link>,
    /// The address of the same step in the replay.
    replay: String,
    panel: StatePanel,
    /// Changes before this step that no step made: the key and the change of its value.
    outside: Vec<(Line, Vec<Piece>)>,
    /// The history of the selected value.
    history: Option<KeyHistory>,
}

impl HtmlSafe for StateTab {}

/// The state at one moment, `#state`.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "state/state_panel.html")]
pub(super) struct StatePanel {
    /// The sources of the state, and what is uncertain about it.
    note: Phrase,
    /// The keys in recorded order.
    rows: Vec<StateRow>,
}

impl HtmlSafe for StatePanel {}

#[derive(Debug, Clone)]
struct StateRow {
    key: Line,
    /// The address that selects the key.
    href: String,
    selected: bool,
    /// Whether the displayed step changed it.
    changed: bool,
    /// The change, if the step changed it.
    pieces: Vec<Piece>,
    /// The value, or `None` if it is unknown.
    value: Option<JsonView>,
    /// Why the value is unknown or uncertain. Empty if it is certain.
    doubt: Line,
    /// The step that last wrote it.
    by: Phrase,
    /// For the selected key, the changes before and after the displayed moment.
    walk: Option<Walk>,
}

/// Links from one change of a key to the others.
#[derive(Debug, Clone, Default)]
struct Walk {
    /// The number of changes so far, and in total.
    description: Line,
    prev: Option<Link>,
    next: Option<Link>,
}

#[derive(Debug, Clone, Default)]
struct KeyHistory {
    key: Line,
    /// The number of changes shown, and in total.
    description: Line,
    /// The changes in step order.
    rows: Vec<HistoryRow>,
}

#[derive(Debug, Clone)]
struct HistoryRow {
    step: Link,
    /// Whether this is the displayed step.
    current: bool,
    change: Line,
    pieces: Vec<Piece>,
    /// A note if the value differs from what the previous change left. Empty otherwise.
    outside: Line,
}

/// A moment to show the state at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// Before the reduce phase of this step, an ordinal.
    Before(usize),
    /// After this step, with its changes marked.
    After(usize),
    /// After this step, without marking its changes, because the content next to the state happened
    /// later.
    Since(usize),
}

/// Returns the address of the page at a step with a key selected.
type StateLink<'a> = &'a dyn Fn(usize, &str) -> String;

/// Builds the State tab: the state after step `n` and the history of a key, by default one that the
/// step changed. Returns `None` if there is no such step.
pub(super) fn state_tab(view: &RunView<'_>, n: usize, key: &str) -> Option<StateTab> {
    let state = state_at(view.index, view.lines, n)?;
    let name = view.key().to_owned();
    let at = move |n: usize, key: &str| {
        href::with_query(
            &href::run(&name),
            &[("tab", "state"), ("step", &n.to_string()), ("key", key)],
        )
    };
    let changed = |known: &&KeyAt| known.in_change && known.written == Some(n);
    // A rarely changed key is more informative than one that every step increments.
    let seldom = state
        .keys
        .iter()
        .filter(changed)
        .min_by_key(|known| known.changes);
    let first = seldom.or(state.keys.first()).map_or("", |known| &known.key);
    let key = if key.is_empty() { first } else { key }.to_owned();
    let is_key = state.keys.iter().any(|known| *known.key == *key);
    let total = view.index.steps().len();
    let last = if n + 1 == total { " (last step)" } else { "" };
    let link = |n: usize, words: &str| Link::new(format!("{words} step"), at(n, &key));
    Some(StateTab {
        title: Phrase::new()
            .text("after ")
            .link(format!("step {}", view.label(n)), view.at_step(n))
            .text(format!(
                "{last} · {}",
                format::counted(state.keys.len(), "key")
            )),
        replay: href::replay_at(view.key(), n),
        prev: n.checked_sub(1).map(|before| link(before, "previous")),
        next: (n + 1 < total).then(|| link(n + 1, "next")),
        outside: outside(view.index, view.lines, n)
            .iter()
            .map(outside_row)
            .collect(),
        history: Some(history(view, &key, n, is_key, &at)).filter(|_| !key.is_empty()),
        panel: panel(view, &state, Moment::After(n), &key, &at),
    })
}

/// Builds the state at a moment, with `key` selected. Returns `None` if there is no such step.
pub(super) fn state_panel(
    view: &RunView<'_>,
    moment: Moment,
    key: &str,
    at: StateLink<'_>,
) -> Option<StatePanel> {
    let state = match moment {
        Moment::Before(n) => state_before(view.index, view.lines, n)?,
        Moment::After(n) | Moment::Since(n) => state_at(view.index, view.lines, n)?,
    };
    Some(panel(view, &state, moment, key, at))
}

fn panel(
    view: &RunView<'_>,
    state: &StateAt,
    moment: Moment,
    key: &str,
    at: StateLink<'_>,
) -> StatePanel {
    let (n, after) = match moment {
        Moment::Before(n) | Moment::Since(n) => (n, false),
        Moment::After(n) => (n, true),
    };
    let record = if after { line_of(view, n) } else { None };
    let line = record
        .as_ref()
        .and_then(|record| Some(crate::format::step(record)?.changes?.0.json()));
    let changes = line.as_ref().map(diff::changes_of_step);
    let changes = changes.unwrap_or_default();
    let mut fold = Fold::new(ValueLinks::default());
    let writers = changed_by(view.index, view.lines, run_range(view.index, n));
    let steps_of = |key: &str| writers.get(key).map_or(&[][..], Vec::as_slice);
    let row = |known: &KeyAt| {
        let change = changes.iter().find(|change| change.key == known.key);
        let selected = known.key == key;
        let (pieces, cut) = change.map(pieces).unwrap_or_default();
        let mut value = value(view, state.base, known, &mut fold);
        if let Some(Kind::Tree { open, .. }) = value.as_mut().map(|value| &mut value.kind) {
            *open = selected;
        }
        let whole = |value: &JsonView| cut || !matches!(value.kind, Kind::Token(_) | Kind::Text(_));
        StateRow {
            key: known.key.as_str().into(),
            href: at(n, &known.key),
            selected,
            changed: change.is_some(),
            value: value.filter(|value| pieces.is_empty() || whole(value)),
            pieces,
            doubt: known.doubt.into(),
            by: writer(view, known, n, steps_of(&known.key), at),
            walk: selected.then(|| walk(view, known, n, steps_of(&known.key), at)),
        }
    };
    let left_out = state.keys.len().saturating_sub(MAX_KEYS);
    // Changed and selected keys are shown even if there are too many keys.
    let is_requested = |known: &&KeyAt| {
        left_out == 0 || known.key == key || changes.iter().any(|change| change.key == known.key)
    };
    let (first, rest) = state.keys.split_at(state.keys.len().min(MAX_KEYS));
    let rows = first
        .iter()
        .chain(rest.iter().filter(is_requested).take(MAX_KEYS))
        .map(row)
        .collect();
    let mut note = note(view, state, n);
    if left_out > 0 {
        note = note.text(format!(" {} not shown.", format::counted(left_out, "key")));
    }
    StatePanel { rows, note }
}

/// Returns the line of step `n`, or `None` if it can't be read.
fn line_of(view: &RunView<'_>, n: usize) -> Option<Record<'static>> {
    view.lines
        .record(TraceFile::Steps, view.index.steps().get(n)?.span)
        .ok()
}

/// Describes the sources of the state.
fn note(view: &RunView<'_>, state: &StateAt, n: usize) -> Phrase {
    match state.base {
        Base::Nowhere if state.keys.is_empty() => Phrase::from("No state is recorded for this step."),
        Base::Nowhere => {
            Phrase::from("No complete state is recorded. Only the keys that steps changed are shown.")
        }
        Base::Observed(step) | Base::Found { step, .. } if step != n => Phrase::new()
            .text("Reconstructed from what ")
            .link(format!("step {}", view.label(step)), view.at_step(step))
            .text(" observed and the changes that steps recorded since. Other changes aren't recorded."),
        Base::Init(_) | Base::Observed(_) | Base::Found { .. } => Phrase::new(),
    }
}

/// Renders a value. Shortened parts link to the value's location in the files.
fn value(view: &RunView<'_>, base: Base, known: &KeyAt, fold: &mut Fold) -> Option<JsonView> {
    let json = Json::parse(known.value.as_deref()?)?;
    let (run, key) = (view.key(), token(&known.key));
    let (line, pointer) = match (known.in_change, known.written, base) {
        // The step observed a different value.
        _ if known.doubt == BETWEEN => return Some(fold.json(&json, "")),
        (true, Some(step), _) => (href::step(run, step), format!("/state_diff/{key}/after")),
        (_, _, Base::Observed(step)) => {
            (href::step(run, step), format!("/observation/state/{key}"))
        }
        (_, _, Base::Found { event, .. }) => (
            href::event(run, event),
            format!("/payload/observation/state/{key}"),
        ),
        (_, _, Base::Init(event)) => (href::event(run, event), format!("/payload/state/{key}")),
        _ => return Some(fold.json(&json, "")),
    };
    fold.elsewhere(ValueLinks::below(&line));
    Some(fold.json(&json, &pointer))
}

/// Returns the step that last wrote the value. If the displayed step changed it, returns the writer
/// before that.
fn writer(
    view: &RunView<'_>,
    known: &KeyAt,
    n: usize,
    steps: &[usize],
    at: StateLink<'_>,
) -> Phrase {
    let link = |words: &str, step: usize| {
        Phrase::new().link(
            format!("{words} {}", view.label(step)),
            at(step, &known.key),
        )
    };
    if let Some(step) = known.outside {
        return link("between steps, seen at step", step);
    }
    match known.written {
        Some(step) if step == n => match steps.iter().rev().find(|step| **step < n) {
            Some(before) => link("previous change: step", *before),
            None => Phrase::new().dim("first set here"),
        },
        Some(step) => link("at step", step),
        None => Phrase::new().dim("initial value"),
    }
}

/// Links the changes of the selected key around step `n`.
fn walk(view: &RunView<'_>, known: &KeyAt, n: usize, all: &[usize], at: StateLink<'_>) -> Walk {
    let prev = all.iter().rev().find(|step| **step < n).copied();
    let next = all.iter().find(|step| **step > n).copied();
    let link = |step: usize| Link::new(format!("step {}", view.label(step)), at(step, &known.key));
    Walk {
        description: match all.len() {
            0 => "no changes".into(),
            all if known.changes == 0 => {
                format!("before the first of {}", format::counted(all, "change")).into()
            }
            all => format!(
                "change {} of {}",
                format::count(known.changes as u64),
                format::count(all as u64)
            )
            .into(),
        },
        prev: prev.map(link),
        next: next.map(link),
    }
}

fn history(view: &RunView<'_>, key: &str, n: usize, is_key: bool, at: StateLink<'_>) -> KeyHistory {
    let all = changes_of(view.index, view.lines, key, run_range(view.index, n));
    let here = all.partition_point(|step| *step <= n);
    let start = here
        .saturating_sub(MAX_CHANGES / 2)
        .min(all.len().saturating_sub(MAX_CHANGES));
    let shown = all
        .get(start..all.len().min(start + MAX_CHANGES))
        .unwrap_or_default();
    let path = KeyPath {
        key: key.to_owned(),
        below: Vec::new(),
    };
    let mut left: Option<String> = None;
    let mut rows = Vec::new();
    for step in shown {
        let change = change_of(view.index, view.lines, &path, *step).unwrap_or_default();
        let before = change.before.clone().unwrap_or_else(|| "null".to_owned());
        let differs = left.as_deref().is_some_and(|left| !equal(left, &before));
        let (words, pieces) = value_diff(change.before.as_deref(), change.after.as_deref());
        rows.push(HistoryRow {
            step: Link::new(view.label(*step), at(*step, key)),
            current: *step == n,
            change: words.into(),
            pieces,
            outside: if differs {
                "changed between steps since the change above".into()
            } else {
                "".into()
            },
        });
        left = Some(change.after.unwrap_or_else(|| "null".to_owned()));
    }
    let description = match all.len() {
        0 if !is_key => "not in the state after this step".to_owned(),
        0 => "never changed by a step".to_owned(),
        total if total > rows.len() => {
            format!(
                "{} of {} changes, nearest to this step",
                rows.len(),
                format::count(total as u64)
            )
        }
        total => format::counted(total, "change"),
    };
    KeyHistory {
        key: key.into(),
        description: description.into(),
        rows,
    }
}

fn outside_row(found: &Outside) -> (Line, Vec<Piece>) {
    (
        found.key.as_str().into(),
        value_diff(found.before.as_deref(), found.after.as_deref()).1,
    )
}

/// Returns the description and the pieces of a change between two JSON texts.
fn value_diff(before: Option<&str>, after: Option<&str>) -> (String, Vec<Piece>) {
    let sides = [("before", before), ("after", after)].into_iter();
    let sides = sides.filter_map(|(name, text)| Some(format!("\"{name}\":{}", text?)));
    let text = format!("{{\"k\":{{{}}}}}", sides.collect::<Vec<_>>().join(","));
    let parsed = Json::parse(&text);
    let changes: Vec<KeyChange<'_>> = parsed
        .as_ref()
        .map(diff::changes_of_step)
        .unwrap_or_default();
    changes
        .first()
        .map(|change| (change.row().1, pieces(change).0))
        .unwrap_or_default()
}
