//! What was the state after a step? Put together from what the files record of it, and honest about the rest.
//!
//! Our own engine writes the whole state once, in INIT, and every change with its step. QitOS records with each step the
//! state as the step observed it, before its reduce, and the changes that reduce made; what changed outside of reduce
//! shows only in the observation of a later step ([`outside`]). Either way a key has the value that the last step wrote
//! since the newest whole state, so that any step costs as many lines as the state has keys, however long the run.

use std::collections::BTreeMap;

use crate::model::manifest::Layout;
use crate::model::{Index, Lines, TraceFile};

mod history;
mod read;
#[cfg(test)]
mod tests;
mod walk;

use super::diff::{REDACTED, same};
pub use history::{KeyChange, KeyPath, change_of, changes_of, equal, path_of};
use read::{Line, keys_of};
pub use walk::walk;

/// How far back a whole state is looked for, in steps: waits and failed steps record none.
const MAX_BACK: usize = 64;

/// The state after a step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StateAt {
    /// Its keys, in the order in which they are recorded.
    pub keys: Vec<KeyAt>,
    /// Where the whole state stands that this begins with.
    pub base: Base,
}

impl StateAt {
    /// The key of this name.
    pub fn get(&self, key: &str) -> Option<&KeyAt> {
        self.keys.iter().find(|known| known.key == key)
    }
}

/// One key of a state.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KeyAt {
    /// Its name.
    pub key: String,
    /// Its value as JSON text; `None` where no file tells it.
    pub value: Option<String>,
    /// The last step that is recorded to have written it, as an ordinal.
    pub written: Option<usize>,
    /// Whether the value stands in the change of that step, and not in the whole state that this begins with.
    pub in_change: bool,
    /// How many steps are recorded to have changed it, up to this one.
    pub changes: usize,
    /// Why the value is not known, or may be another; empty where it is certain.
    pub doubt: &'static str,
}

/// Where a whole state stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Base {
    /// Nowhere: only changes are recorded.
    #[default]
    Nowhere,
    /// In this event, the INIT of the run.
    Init(usize),
    /// In the observation of this step, an ordinal.
    Observed(usize),
}

/// A value that changed between two steps without either's reduce having written it.
#[derive(Debug, Clone, PartialEq)]
pub struct Outside {
    /// The key.
    pub key: String,
    /// Its value after the step before, as JSON text.
    pub before: Option<String>,
    /// Its value as the step observed it.
    pub after: Option<String>,
}

const UNREADABLE: &str = "a step since cannot be read";
const BLANKED: &str = "blanked by the writer";
const NOT_THERE: &str = "not recorded";

/// The state after step `n`, by ordinal; `None` where there is no such step.
pub fn state_at(index: &Index, lines: &dyn Lines, n: usize) -> Option<StateAt> {
    index.steps().get(n)?;
    let first = lap_of(index, n);
    let (base, whole) = whole(index, lines, first, n);
    let since = if let Base::Observed(step) = base { step } else { first };
    Some(fold(index, lines, (base, whole), first, since..n + 1))
}

/// The state before the reduce of step `n`: what the step itself observed where that is recorded, else the state after
/// the step before it. `None` where there is no such step.
pub fn state_before(index: &Index, lines: &dyn Lines, n: usize) -> Option<StateAt> {
    let head = index.steps().get(n)?;
    let first = lap_of(index, n);
    let observed = || Line::read(lines, TraceFile::Steps, head.span)?.observed();
    if !is_ours(index)
        && let Some(state) = observed()
    {
        return Some(fold(index, lines, (Base::Observed(n), state), first, n..n));
    }
    match n.checked_sub(1).filter(|_| n > first) {
        Some(before) => state_at(index, lines, before),
        None => Some(fold(index, lines, whole(index, lines, first, n), first, first..first)),
    }
}

/// The first step of the run that step `n` belongs to, where a directory holds several.
fn lap_of(index: &Index, n: usize) -> usize {
    index.lap_starts().iter().copied().filter(|start| *start <= n).max().unwrap_or_default()
}

fn is_ours(index: &Index) -> bool {
    index.manifest().get().is_some_and(|manifest| manifest.layout == Layout::Board)
}

/// A whole state and what the steps in `range` made of it; `first` is where its run begins.
fn fold(
    index: &Index,
    lines: &dyn Lines,
    (base, whole): (Base, Vec<(String, String)>),
    first: usize,
    range: std::ops::Range<usize>,
) -> StateAt {
    let changes = Changes::of(index, lines, range.clone());
    let mut state = StateAt { keys: Vec::new(), base };
    for (key, value) in whole {
        state.keys.push(KeyAt { key, value: Some(value), ..KeyAt::default() });
    }
    for (key, (step, value)) in changes.last {
        let at = state.keys.iter().position(|known| known.key == key).unwrap_or_else(|| {
            state.keys.push(KeyAt { key, ..KeyAt::default() });
            state.keys.len() - 1
        });
        if let Some(slot) = state.keys.get_mut(at) {
            (slot.value, slot.written, slot.in_change) = (value, Some(step), true);
        }
    }
    let writers = writers(index, lines, first..range.end);
    for known in &mut state.keys {
        if let Some((last, count)) = writers.get(&known.key) {
            (known.written, known.changes) = (Some(*last), *count);
        }
        known.doubt = doubt_of(known, changes.broken);
    }
    state
}

/// Why a value is not certain; `broken` is the newest step since the whole state that cannot be read.
fn doubt_of(known: &KeyAt, broken: Option<usize>) -> &'static str {
    let at = known.written.filter(|_| known.in_change);
    match (&known.value, broken) {
        (None, _) => NOT_THERE,
        (Some(value), _) if value.trim_matches('"') == REDACTED => BLANKED,
        (_, Some(broken)) if at.is_none_or(|at| at < broken) => UNREADABLE,
        _ => "",
    }
}

/// What changed between step `n` and the step before it outside of reduce; nothing where it cannot be told.
pub fn outside(index: &Index, lines: &dyn Lines, n: usize) -> Vec<Outside> {
    let starts = index.lap_starts();
    let (Some(head), Some(before)) = (index.steps().get(n), n.checked_sub(1)) else { return Vec::new() };
    if is_ours(index) || starts.contains(&n) {
        return Vec::new();
    }
    let Some(line) = Line::read(lines, TraceFile::Steps, head.span) else { return Vec::new() };
    let Some(observed) = line.observed() else { return Vec::new() };
    let Some(state) = state_at(index, lines, before).filter(|state| state.base != Base::Nowhere) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (key, after) in &observed {
        let known = state.get(key);
        let before = known.and_then(|known| known.value.clone());
        let certain = known.is_none_or(|known| known.doubt.is_empty());
        if certain && before.as_deref().is_none_or(|before| !equal(before, after)) {
            found.push(Outside { key: key.clone(), before, after: Some(after.clone()) });
        }
    }
    for known in state.keys.iter().filter(|known| observed.iter().all(|(key, _)| *key != known.key)) {
        // A key that reduce removed has null for its value.
        if known.value.as_deref().is_some_and(|value| value != "null") {
            found.push(Outside { key: known.key.clone(), before: known.value.clone(), after: None });
        }
    }
    found
}

/// The newest whole state at or before step `n`, and where it stands.
fn whole(index: &Index, lines: &dyn Lines, first: usize, n: usize) -> (Base, Vec<(String, String)>) {
    if !is_ours(index) {
        for step in (first.max(n.saturating_sub(MAX_BACK))..=n).rev() {
            let span = index.steps().get(step).map(|head| head.span).unwrap_or_default();
            let line = Line::read(lines, TraceFile::Steps, span);
            if let Some(state) = line.as_ref().and_then(Line::observed) {
                return (Base::Observed(step), state);
            }
        }
        return (Base::Nowhere, Vec::new());
    }
    // The directory may hold several runs; the one of this lap has the INIT.
    let lap = index.lap_starts().iter().filter(|start| **start <= first).count().saturating_sub(1);
    let segment =
        if index.segments().len() == index.lap_starts().len().max(1) { index.segments().get(lap) } else { None };
    let event = segment.or(index.segment()).and_then(|segment| segment.init.as_ref()).map(|(event, _)| *event);
    let span = event.and_then(|event| index.events().get(event)).map(|event| event.span);
    let line = span.and_then(|span| Line::read(lines, TraceFile::Events, span));
    match line.as_ref().and_then(Line::initial).zip(event) {
        Some((state, event)) => (Base::Init(event), state),
        None => (Base::Nowhere, Vec::new()),
    }
}

/// What the steps since a whole state wrote.
#[derive(Debug, Default)]
struct Changes {
    /// Per key the last step that wrote it, and the value; in the order of first appearance.
    last: Vec<(String, (usize, Option<String>))>,
    /// The newest step that cannot be read.
    broken: Option<usize>,
}

impl Changes {
    fn of(index: &Index, lines: &dyn Lines, range: std::ops::Range<usize>) -> Self {
        let steps = index.steps().get(range.clone()).unwrap_or_default();
        let broken = steps.iter().rposition(|head| !head.fate.is_readable()).map(|at| range.start + at);
        // The last writer of each key, and so the lines worth reading.
        let mut writers: BTreeMap<String, usize> = BTreeMap::new();
        let mut order = Vec::new();
        for step in range {
            for key in keys_of(index, lines, step) {
                if writers.insert(key.clone().into_owned(), step).is_none() {
                    order.push(key.into_owned());
                }
            }
        }
        let mut read: BTreeMap<usize, Option<Line>> = BTreeMap::new();
        let mut last = Vec::new();
        for key in order {
            let Some(step) = writers.get(&key).copied() else { continue };
            let span = index.steps().get(step).map(|head| head.span).unwrap_or_default();
            let line = read.entry(step).or_insert_with(|| Line::read(lines, TraceFile::Steps, span));
            let value = line.as_ref().and_then(|line| line.side(&key, "after"));
            last.push((key, (step, value)));
        }
        Self { last, broken }
    }
}

/// Per key the last step of `range` that wrote it, and how many did.
fn writers(index: &Index, lines: &dyn Lines, range: std::ops::Range<usize>) -> BTreeMap<String, (usize, usize)> {
    let mut last: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for step in range {
        for key in keys_of(index, lines, step) {
            match last.get_mut(key.as_ref()) {
                Some(known) => *known = (step, known.1 + 1),
                None => {
                    last.insert(key.into_owned(), (step, 1));
                }
            }
        }
    }
    last
}
