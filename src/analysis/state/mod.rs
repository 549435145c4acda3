//! What was the state after a step? Put together from what the files record of it, and honest about the rest.
//!
//! Some formats hold the whole state once, where the run begins, and every change with its step. Others hold with each step the
//! state before its reduce, as the step observed it or as the next step found it recorded, and the changes that reduce
//! made; what changed outside of reduce shows only in the state before a later step ([`outside`]). Either way a key has
//! the value that the last step wrote since the newest whole state.

use std::collections::HashMap;
use std::ops::Range;

use crate::model::{EventKind, Index, Lines, StateRecord};

mod history;
mod read;
#[cfg(test)]
mod tests;
mod walk;

use super::diff::{REDACTED, same};
pub use history::{
    History, KeyChange, KeyPath, change_of, changed_by, changes_of, equal, history, path_of,
};
use read::{afters, held, keys_of, observed};
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
    /// The step that last observed another value than the steps before it left, an ordinal; `None` where a step wrote it
    /// since, or none did.
    pub outside: Option<usize>,
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
    /// In the observation of this step, an ordinal: the state before its reduce.
    Observed(usize),
    /// The same, in an event of the step after, which found it recorded.
    Found {
        /// The step before whose reduce the state was so.
        step: usize,
        /// The event that holds it.
        event: usize,
    },
}

impl Base {
    /// The step before whose reduce the whole state was so.
    fn step(self) -> Option<usize> {
        match self {
            Base::Observed(step) | Base::Found { step, .. } => Some(step),
            Base::Nowhere | Base::Init(_) => None,
        }
    }
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

/// The same, in bytes of their lines.
const MAX_BACK_BYTES: u64 = 16 << 20;

const UNREADABLE: &str = "a step since cannot be read";
const BLANKED: &str = "blanked by the writer";
const NOT_THERE: &str = "not recorded";
const OLDER: &str = "as an earlier step observed it";
/// Why a value is not certain that the step under way observed as another one.
pub const BETWEEN: &str =
    "another value when the step's reduce began; when it changed is not recorded";

/// The state after step `n`, by ordinal; `None` where there is no such step.
pub fn state_at(index: &Index, lines: &dyn Lines, n: usize) -> Option<StateAt> {
    index.steps().get(n)?;
    let first = lap(index, n).start;
    let whole = whole(index, lines, first, n);
    let since = whole.0.step().unwrap_or(first);
    Some(fold(index, lines, whole, first, since..n + 1))
}

/// The state while step `n` is under way, before its reduce: the state after the step before it. A key that the step
/// observed with another value is not known for certain. `None` where there is no such step.
pub fn state_before(index: &Index, lines: &dyn Lines, n: usize) -> Option<StateAt> {
    index.steps().get(n)?;
    let first = lap(index, n).start;
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

/// The steps of the run that step `n` belongs to, where a directory holds several.
pub fn lap(index: &Index, n: usize) -> Range<usize> {
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

/// A whole state and what the steps in `range` made of it; `first` is where its run begins.
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

/// The last step of `range` that found each key changed since the step before it.
fn changed_outside(index: &Index, range: Range<usize>) -> HashMap<&str, usize> {
    let steps = range.clone().zip(index.steps().range(range));
    steps
        .flat_map(|(n, step)| step.outside.iter().map(move |key| (index.name(*key), n)))
        .collect()
}

/// The keys of a state, each once, in the order in which they came.
#[derive(Debug, Default)]
struct Keys {
    list: Vec<KeyAt>,
    places: HashMap<String, usize>,
}

impl Keys {
    /// Takes a key in, or anew.
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

/// Why a value is not certain: `broken` is the newest step since the whole state that cannot be read, and `older` tells
/// that the whole state is that of an earlier step.
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

/// What changed between step `n` and the step before it, or the beginning of the run, outside of reduce; nothing where it
/// cannot be told.
pub fn outside(index: &Index, lines: &dyn Lines, n: usize) -> Vec<Outside> {
    if index.steps().get(n).is_none() || index.format().state == StateRecord::Initial {
        return Vec::new();
    }
    let observed = before_reduce(index, lines, n);
    observed.map_or_else(Vec::new, |(_, observed)| {
        changed_to(&observed, index, lines, n)
    })
}

/// [`outside`], where step `n` is known to have `observed` this state.
fn changed_to(
    observed: &[(String, String)],
    index: &Index,
    lines: &dyn Lines,
    n: usize,
) -> Vec<Outside> {
    let first = lap(index, n).start;
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
        // A key that reduce removed has null for its value.
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

/// The state before the reduce of step `n`, where it is recorded: in the step's observation, else in the event that begins
/// the step after. That event holds what was observed last, which is this very state; in the
/// first step of a run it holds the state that the run began with.
fn before_reduce(index: &Index, lines: &dyn Lines, n: usize) -> Option<Whole> {
    if let Some(state) = observed(lines, index.steps().get(n)?.span) {
        return Some((Base::Observed(n), state));
    }
    let steps = lap(index, n);
    let found = |asked: usize| -> Option<Whole> {
        let (event, state) = found(index, lines, asked)?;
        Some((Base::Found { step: n, event }, state))
    };
    // Only the very next round holds it: a line that no round belongs to was no step.
    let own = index.group_of(n);
    let follows = |next: &usize| {
        steps.contains(next) && own.is_some_and(|own| index.group_of(*next) == Some(own + 1))
    };
    let next = Some(n + 1).filter(follows).and_then(found);
    next.or_else(|| if n == steps.start { found(n) } else { None })
}

/// The state that the round of step `n` began with as far as it was observed, and the event that holds it.
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

/// The newest whole state at or before step `n`, and where it stands.
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
    // The directory may hold several runs; the one of this lap has the INIT.
    let lap = index
        .lap_starts()
        .iter()
        .filter(|start| **start <= first)
        .count()
        .saturating_sub(1);
    let as_many = index.segments().len() == index.lap_starts().len().max(1);
    // A run that somebody went on with has several, and the steps of the first part come before the others.
    let of_first = || {
        index
            .group_of(first)
            .and_then(|group| index.segment_of(group))
    };
    let at = if as_many { Some(lap) } else { of_first() };
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

/// What the steps since a whole state wrote.
#[derive(Debug, Default)]
struct Changes {
    /// Per key the last step that wrote it, and the value; in the order of first appearance.
    last: Vec<(String, (usize, Option<String>))>,
    /// The newest step that cannot be read.
    broken: Option<usize>,
}

impl Changes {
    fn of(index: &Index, lines: &dyn Lines, range: Range<usize>) -> Self {
        let steps = index.steps().range(range.clone());
        let broken = steps
            .clone()
            .rposition(|head| !head.fate.is_readable())
            .map(|at| range.start + at);
        // The last writer of each key, and so the lines worth reading.
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
