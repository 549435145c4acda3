//! Reconstructs the state after a step from what the trace records, and marks what isn't certain.
//!
//! Some formats record the whole state once, at the start of the run, and every change with its
//! step. Others record with each step the changes made by its reduce, and the state before it. That
//! state is in the step's own observation or in an event of the next step. Changes outside of
//! reduce then show only in the state before a later step ([`outside`]). Either way, the value of a
//! key is the one that the last step wrote since the newest whole state.

use std::collections::HashMap;
use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::json_line::{Line, embed};
use crate::model::{EventKind, Index, Lines, StateRecord};

mod document;
mod history;
mod read;
#[cfg(test)]
mod tests;
mod walk;

use super::diff::REDACTED;
pub use document::{State, document, its_keys};
pub use history::{History, KeyChange, KeyPath, change_of, history, path_of};
use read::{afters, held, keys_of, observed};
pub use read::{changed_by, changes_of, equal};
pub use walk::walk;

/// The maximum number of steps to search backwards for a whole state. Waits and failed steps record
/// none.
const MAX_BACK: usize = 64;

/// The state after a step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StateAt {
    /// The keys, in the order in which they're recorded.
    pub keys: Vec<KeyAt>,
    /// The whole state that the reconstruction starts from.
    pub base: Base,
}

impl StateAt {
    /// Returns the key with this name.
    pub fn get(&self, key: &str) -> Option<&KeyAt> {
        self.keys.iter().find(|known| known.key == key)
    }
}

/// A key of a state.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KeyAt {
    /// Its name.
    pub key: String,
    /// The value as JSON text; `None` if it isn't recorded.
    pub value: Option<String>,
    /// The ordinal of the last step recorded as writing the key.
    pub written: Option<usize>,
    /// Whether the value comes from the change by that step, rather than from the whole state at
    /// the start.
    pub in_change: bool,
    /// The number of steps recorded as changing the key, up to this one.
    pub changes: usize,
    /// The ordinal of the last step that observed a different value than the previous steps left.
    /// `None` if there's no such step, or a later step wrote the key.
    pub outside: Option<usize>,
    /// The reason why the value is unknown or may be wrong; empty if it's certain.
    pub doubt: &'static str,
}

/// The source of a whole state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Base {
    /// None: only changes are recorded.
    #[default]
    Nowhere,
    /// This event: the INIT of the run.
    Init(usize),
    /// The observation of this step, by ordinal: the state before its reduce.
    Observed(usize),
    /// The state before a step's reduce, recorded by an event of the next step.
    Found {
        /// The step whose reduce followed the state.
        step: usize,
        /// The event that contains the state.
        event: usize,
    },
}

impl Base {
    /// Returns the word used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Base::Nowhere => "none",
            Base::Init(_) => "init",
            Base::Observed(_) => "observation",
            Base::Found { .. } => "event",
        }
    }

    /// Returns the step whose reduce followed the whole state.
    fn step(self) -> Option<usize> {
        match self {
            Base::Observed(step) | Base::Found { step, .. } => Some(step),
            Base::Nowhere | Base::Init(_) => None,
        }
    }
}

/// A key that changed although no step changed it.
// It changed between two steps and was written by neither step's reduce.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Outside {
    pub(crate) key: String,
    // The value after the previous step, as JSON text.
    #[serde(serialize_with = "embed")]
    #[schemars(with = "Line<'_>")]
    pub(crate) before: Option<String>,
    // The value that the step observed, as JSON text.
    #[serde(serialize_with = "embed")]
    #[schemars(with = "Line<'_>")]
    pub(crate) after: Option<String>,
}

/// The maximum size of the lines to search backwards for a whole state, in bytes.
const MAX_BACK_BYTES: u64 = 16 << 20;

const UNREADABLE: &str = "a step since then can't be read";
const BLANKED: &str = "blanked by the writer";
const NOT_THERE: &str = "value not recorded";
const OLDER: &str = "as observed by an earlier step";
/// The reason for doubt about a value that the current step observed differently.
pub const BETWEEN: &str =
    "had a different value when the step's reduce began; when it changed isn't recorded";

/// Returns the state after step `n`, by ordinal. `None` if there's no such step.
pub fn state_at(index: &Index, lines: &dyn Lines, n: usize) -> Option<StateAt> {
    index.steps().get(n)?;
    let first = run_range(index, n).start;
    let whole = whole(index, lines, first, n);
    let since = whole.0.step().unwrap_or(first);
    Some(fold(index, lines, whole, first, since..n + 1))
}

/// Returns the state during step `n`, before its reduce: the state after the previous step. A key
/// that the step observed with a different value is uncertain. `None` if there's no such step.
pub fn state_before(index: &Index, lines: &dyn Lines, n: usize) -> Option<StateAt> {
    index.steps().get(n)?;
    let first = run_range(index, n).start;
    let Some(mut observed) =
        before_reduce(index, lines, n).filter(|_| index.format().state == StateRecord::Observed)
    else {
        return match n.checked_sub(1).filter(|_| n > first) {
            Some(before) => state_at(index, lines, before),
            None => Some(fold(
                index,
                lines,
                whole(index, lines, first, n),
                first,
                first..first,
            )),
        };
    };
    let counters = index.format().counters;
    let changes = changed_to(&observed.1, index, lines, n);
    let changes = changes
        .into_iter()
        .filter(|change| !counters.contains(&change.key.as_str()));
    let changes: Vec<Outside> = changes.collect();
    for change in &changes {
        match observed.1.iter_mut().find(|(key, _)| *key == change.key) {
            Some((_, value)) => *value = change.before.clone().unwrap_or_default(),
            None => observed.1.push((
                change.key.clone(),
                change.before.clone().unwrap_or_default(),
            )),
        }
    }
    let mut state = fold(index, lines, observed, first, n..n);
    for known in &mut state.keys {
        if let Some(change) = changes.iter().find(|change| change.key == known.key) {
            (known.value, known.doubt) = (change.before.clone(), BETWEEN);
        }
    }
    Some(state)
}

/// Returns the steps of the run that contains step `n`, if a directory contains several runs.
pub fn run_range(index: &Index, n: usize) -> Range<usize> {
    let starts = index.lap_starts();
    let start = starts
        .iter()
        .copied()
        .filter(|start| *start <= n)
        .max()
        .unwrap_or_default();
    let end = starts
        .iter()
        .copied()
        .filter(|start| *start > n)
        .min()
        .unwrap_or(index.steps().len());
    start..end
}

type Whole = (Base, Vec<(String, String)>);

/// Applies the changes of the steps in `range` to a whole state. `first` is the first step of the
/// run.
fn fold(
    index: &Index,
    lines: &dyn Lines,
    (base, whole): Whole,
    first: usize,
    range: Range<usize>,
) -> StateAt {
    let changes = Changes::of(index, lines, range.clone());
    let mut known = Keys::default();
    for (key, value) in whole {
        known.set(KeyAt {
            key,
            value: Some(value),
            ..KeyAt::default()
        });
    }
    for (key, (step, value)) in changes.last {
        known.set(KeyAt {
            key,
            value,
            written: Some(step),
            in_change: true,
            ..KeyAt::default()
        });
    }
    let mut keys = known.list;
    let older = base.step().is_some_and(|step| step + 1 < range.end);
    let writers = changed_by(index, lines, first..range.end);
    let seen = range.end.max(base.step().map_or(0, |step| step + 1));
    let outside = changed_outside(index, first..seen);
    for known in &mut keys {
        let steps = writers.get(&known.key).map_or(&[][..], Vec::as_slice);
        (known.written, known.changes) = (steps.last().copied(), steps.len());
        known.outside = outside
            .get(known.key.as_str())
            .copied()
            .filter(|at| known.written.is_none_or(|step| step < *at));
        known.doubt = doubt_of(known, changes.broken, older);
    }
    StateAt { keys, base }
}

/// Returns, for each key, the last step of `range` that found it changed since the previous step.
fn changed_outside(index: &Index, range: Range<usize>) -> HashMap<&str, usize> {
    let steps = range.clone().zip(index.steps().range(range));
    steps
        .flat_map(|(n, step)| step.outside.iter().map(move |key| (index.name(*key), n)))
        .collect()
}

/// The keys of a state without duplicates, in order of first appearance.
#[derive(Debug, Default)]
struct Keys {
    list: Vec<KeyAt>,
    places: HashMap<String, usize>,
}

impl Keys {
    /// Adds or replaces a key.
    fn set(&mut self, fresh: KeyAt) {
        match self
            .places
            .get(&fresh.key)
            .and_then(|at| self.list.get_mut(*at))
        {
            Some(known) => *known = fresh,
            None => {
                self.places.insert(fresh.key.clone(), self.list.len());
                self.list.push(fresh);
            }
        }
    }
}

/// Returns why a value is uncertain. `broken` is the newest unreadable step since the whole state.
/// `older` is true if the whole state is from an earlier step.
fn doubt_of(known: &KeyAt, broken: Option<usize>, older: bool) -> &'static str {
    let at = known.written.filter(|_| known.in_change);
    match (&known.value, broken) {
        (None, _) => NOT_THERE,
        (Some(value), _) if value.trim_matches('"') == REDACTED => BLANKED,
        (_, Some(broken)) if at.is_none_or(|at| at < broken) => UNREADABLE,
        _ if older && at.is_none() => OLDER,
        _ => "",
    }
}

/// Returns the changes outside of reduce between step `n` and the previous step (or the start of
/// the run). Empty if that can't be determined.
pub fn outside(index: &Index, lines: &dyn Lines, n: usize) -> Vec<Outside> {
    if index.steps().get(n).is_none() || index.format().state == StateRecord::Initial {
        return Vec::new();
    }
    let observed = before_reduce(index, lines, n);
    observed.map_or_else(Vec::new, |(_, observed)| {
        changed_to(&observed, index, lines, n)
    })
}

/// Computes [`outside`] for a step `n` that `observed` this state.
fn changed_to(
    observed: &[(String, String)],
    index: &Index,
    lines: &dyn Lines,
    n: usize,
) -> Vec<Outside> {
    let first = run_range(index, n).start;
    let before = match n.checked_sub(1).filter(|_| n > first) {
        Some(before) => state_at(index, lines, before),
        None => found(index, lines, n).map(|(event, state)| {
            let base = Base::Found { step: n, event };
            fold(index, lines, (base, state), first, first..first)
        }),
    };
    let Some(state) = before.filter(|state| state.base != Base::Nowhere) else {
        return Vec::new();
    };
    let left: HashMap<&str, &KeyAt> = state
        .keys
        .iter()
        .map(|known| (known.key.as_str(), known))
        .collect();
    let mut found = Vec::new();
    for (key, after) in observed {
        let known = left.get(key.as_str());
        let before = known.and_then(|known| known.value.clone());
        let certain = known.is_none_or(|known| known.doubt.is_empty());
        if certain && before.as_deref().is_none_or(|before| !equal(before, after)) {
            found.push(Outside {
                key: key.clone(),
                before,
                after: Some(after.clone()),
            });
        }
    }
    let seen: std::collections::HashSet<&str> =
        observed.iter().map(|(key, _)| key.as_str()).collect();
    for known in state
        .keys
        .iter()
        .filter(|known| !seen.contains(known.key.as_str()))
    {
        // A key that reduce removed has the value null.
        if known.value.as_deref().is_some_and(|value| value != "null") {
            found.push(Outside {
                key: known.key.clone(),
                before: known.value.clone(),
                after: None,
            });
        }
    }
    found
}

/// Returns the state before the reduce of step `n`, if recorded. It's in the step's own
/// observation, or in the event that begins the next step: that event contains the state observed
/// last, which is this one. The event that begins the first step of a run contains the state at the
/// start of the run.
fn before_reduce(index: &Index, lines: &dyn Lines, n: usize) -> Option<Whole> {
    if let Some(state) = observed(lines, index.steps().get(n)?.span) {
        return Some((Base::Observed(n), state));
    }
    let steps = run_range(index, n);
    let found = |asked: usize| -> Option<Whole> {
        let (event, state) = found(index, lines, asked)?;
        Some((Base::Found { step: n, event }, state))
    };
    // Only the very next round contains it. A line without a round wasn't a step.
    let own = index.group_of(n);
    let follows = |next: &usize| {
        steps.contains(next) && own.is_some_and(|own| index.group_of(*next) == Some(own + 1))
    };
    let next = Some(n + 1).filter(follows).and_then(found);
    next.or_else(|| if n == steps.start { found(n) } else { None })
}

/// Returns the observed state at the start of step `n`'s round, and the event that contains it.
fn found(index: &Index, lines: &dyn Lines, n: usize) -> Option<(usize, Vec<(String, String)>)> {
    let group = index.round_of(n)?;
    let ready = |event: &usize| {
        index
            .events()
            .get(*event)
            .is_some_and(|event| event.kind == EventKind::StateBefore)
    };
    let event = (group.first..group.end).find(ready)?;
    Some((event, held(lines, index.events().get(event)?.span)?))
}

/// Returns the newest whole state at or before step `n`, and its source.
fn whole(index: &Index, lines: &dyn Lines, first: usize, n: usize) -> Whole {
    if index.format().state == StateRecord::Observed {
        let back = (first.max(n.saturating_sub(MAX_BACK))..=n).rev();
        let mut bytes = 0;
        let near = back.take_while(|step| {
            let before = bytes;
            bytes += index.line_bytes(*step);
            before < MAX_BACK_BYTES
        });
        let mut found = near.filter_map(|step| before_reduce(index, lines, step));
        return found.next().unwrap_or_default();
    }
    // If the directory contains several runs, each has its own INIT.
    let run_range = index
        .lap_starts()
        .iter()
        .filter(|start| **start <= first)
        .count()
        .saturating_sub(1);
    let as_many = index.segments().len() == index.lap_starts().len().max(1);
    // A resumed run has several segments. The steps of the first one come first.
    let of_first = || {
        index
            .group_of(first)
            .and_then(|group| index.segment_of(group))
    };
    let at = if as_many { Some(run_range) } else { of_first() };
    let segment = at.and_then(|at| index.segments().get(at));
    let event = segment
        .or(index.segment())
        .and_then(|segment| segment.init.as_ref())
        .map(|(event, _)| *event);
    let span = event
        .and_then(|event| index.events().get(event))
        .map(|event| event.span);
    match span.and_then(|span| held(lines, span)).zip(event) {
        Some((state, event)) => (Base::Init(event), state),
        None => (Base::Nowhere, Vec::new()),
    }
}

/// The changes by the steps since a whole state.
#[derive(Debug, Default)]
struct Changes {
    /// The last step that wrote each key, and the value, in order of first appearance.
    last: Vec<(String, (usize, Option<String>))>,
    /// The newest unreadable step.
    broken: Option<usize>,
}

impl Changes {
    fn of(index: &Index, lines: &dyn Lines, range: Range<usize>) -> Self {
        let steps = index.steps().range(range.clone());
        let broken = steps
            .clone()
            .rposition(|head| !head.fate.is_readable())
            .map(|at| range.start + at);
        // The last writer of each key. Only these lines need to be read.
        let mut writers: HashMap<String, usize> = HashMap::new();
        let mut order = Vec::new();
        for step in range {
            for key in keys_of(index, lines, step) {
                if writers.insert(key.clone().into_owned(), step).is_none() {
                    order.push(key.into_owned());
                }
            }
        }
        let mut read: HashMap<usize, HashMap<String, String>> = HashMap::new();
        let mut last = Vec::new();
        for key in order {
            let Some(step) = writers.get(&key).copied() else {
                continue;
            };
            let after = read.entry(step).or_insert_with(|| {
                index
                    .steps()
                    .get(step)
                    .map(|head| afters(lines, head.span))
                    .unwrap_or_default()
            });
            let value = after.remove(&key);
            last.push((key, (step, value)));
        }
        Self { last, broken }
    }
}
