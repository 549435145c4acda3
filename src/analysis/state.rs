//! What was the state after a step? Put together from what the files record of it, and honest about the rest.
//!
//! Our own engine writes the whole state once, in INIT, and every change with its step. QitOS records with each step the
//! state as the step observed it, before its reduce, and the changes that reduce made; what changed outside of reduce
//! shows only in the observation of a later step ([`outside`]). Either way a key has the value that the last step wrote
//! since the newest whole state, so that any step costs as many lines as the state has keys, however long the run.

use std::collections::BTreeMap;

use crate::model::json::Json;
use crate::model::manifest::Layout;
use crate::model::{Index, Lines, StepHead, Symbol, TraceFile};

mod read;
#[cfg(test)]
mod tests;

use super::diff::{REDACTED, same};
use read::Line;

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
    /// Why the value is not known, or may be another; empty where it is certain.
    pub doubt: &'static str,
}

/// Where a whole state stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Base {
    /// Nowhere: only changes are recorded.
    #[default]
    Nowhere,
    /// In the INIT event.
    Init,
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
    let first = index.lap_starts().iter().copied().filter(|start| *start <= n).max().unwrap_or_default();
    let (base, whole) = whole(index, lines, first, n);
    let since = if let Base::Observed(step) = base { step } else { first };
    let changes = Changes::since(index, lines, since, n);
    let mut state = StateAt { keys: Vec::new(), base };
    let writers = writers(index, first, n);
    for (key, value) in whole {
        let value = Some(value);
        state.keys.push(KeyAt { key, value, ..KeyAt::default() });
    }
    for (key, (step, value)) in changes.last {
        let known = state.keys.iter_mut().find(|known| known.key == key);
        let slot = match known {
            Some(known) => known,
            None => {
                state.keys.push(KeyAt { key, ..KeyAt::default() });
                let Some(new) = state.keys.last_mut() else { continue };
                new
            }
        };
        (slot.value, slot.written) = (value, Some(step));
    }
    for known in &mut state.keys {
        known.written = known.written.or_else(|| writers.get(known.key.as_str()).copied());
        let at = if changes.broken.is_some() { known.written.filter(|step| *step >= since) } else { None };
        known.doubt = match (&known.value, changes.broken) {
            (None, _) => NOT_THERE,
            (Some(value), _) if value.trim_matches('"') == REDACTED => BLANKED,
            (_, Some(broken)) if at.is_none_or(|at| at < broken) => UNREADABLE,
            _ => "",
        };
    }
    Some(state)
}

/// What changed between step `n` and the step before it outside of reduce; nothing where it cannot be told.
pub fn outside(index: &Index, lines: &dyn Lines, n: usize) -> Vec<Outside> {
    let starts = index.lap_starts();
    let (Some(head), Some(before)) = (index.steps().get(n), n.checked_sub(1)) else { return Vec::new() };
    let ours = index.manifest().get().is_some_and(|manifest| manifest.layout == Layout::Board);
    if ours || starts.contains(&n) {
        return Vec::new();
    }
    let Some(line) = Line::read(lines, TraceFile::Steps, head.span) else { return Vec::new() };
    let Some(observed) = line.observed() else { return Vec::new() };
    let Some(state) = state_at(index, lines, before).filter(|state| state.base != Base::Nowhere) else {
        return Vec::new();
    };
    let differs = |before: &str, after: &str| match (Json::parse(before), Json::parse(after)) {
        (Some(before), Some(after)) => !same(&before, &after),
        _ => before != after,
    };
    let mut found = Vec::new();
    for (key, after) in &observed {
        let known = state.get(key);
        let before = known.and_then(|known| known.value.clone());
        let certain = known.is_none_or(|known| known.doubt.is_empty());
        if certain && before.as_deref().is_none_or(|before| differs(before, after)) {
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
    let ours = index.manifest().get().is_some_and(|manifest| manifest.layout == Layout::Board);
    if !ours {
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
    match line.as_ref().and_then(Line::initial) {
        Some(state) => (Base::Init, state),
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
    fn since(index: &Index, lines: &dyn Lines, since: usize, n: usize) -> Self {
        let steps = index.steps().get(since..=n).unwrap_or_default();
        let broken = steps.iter().rposition(|head| !head.fate.is_readable()).map(|at| since + at);
        // The last writer of each key, and so the lines worth reading.
        let mut writers: BTreeMap<Symbol, usize> = BTreeMap::new();
        let mut order: Vec<Symbol> = Vec::new();
        for (head, step) in steps.iter().zip(since..) {
            for key in &head.changed {
                if writers.insert(*key, step).is_none() {
                    order.push(*key);
                }
            }
        }
        let mut read: BTreeMap<usize, Option<Line>> = BTreeMap::new();
        let mut last = Vec::new();
        for key in order {
            let Some(step) = writers.get(&key).copied() else { continue };
            let span = index.steps().get(step).map(|head| head.span).unwrap_or_default();
            let line = read.entry(step).or_insert_with(|| Line::read(lines, TraceFile::Steps, span));
            let name = index.name(key).to_owned();
            let value = line.as_ref().and_then(|line| line.after(&name));
            last.push((name, (step, value)));
        }
        Self { last, broken }
    }
}

/// Per key the last step up to `n` that wrote it.
fn writers(index: &Index, first: usize, n: usize) -> BTreeMap<&str, usize> {
    let steps = index.steps().get(first..=n).unwrap_or_default();
    let wrote = |(head, step): (&StepHead, usize)| -> Vec<(Symbol, usize)> {
        head.changed.iter().map(|key| (*key, step)).collect()
    };
    let last: BTreeMap<Symbol, usize> = steps.iter().zip(first..).flat_map(wrote).collect();
    last.into_iter().map(|(key, step)| (index.name(key), step)).collect()
}
