//! Reads states from lines of a trace: the keys of a whole state, and the values that a step left.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use crate::format;
use crate::model::head::MAX_CHANGED;
use crate::model::json::{Json, same};
use crate::model::names::OVERFLOW;
use crate::model::step::{Change, Value};
use crate::model::{Index, Lines, Record, Span, Step, TraceFile};

/// Names of this length in bytes may have been truncated by the index.
const CUT_NAME: usize = 250;

/// Returns the keys that step `n` is recorded as changing. The index contains them, unless there
/// were too many or a name was too long. Then the line is read.
pub(super) fn keys_of<'i>(index: &'i Index, lines: &dyn Lines, n: usize) -> Vec<Cow<'i, str>> {
    let Some(head) = index.steps().get(n) else {
        return Vec::new();
    };
    let names: Vec<Cow<'_, str>> = head
        .changed
        .iter()
        .map(|key| index.name(*key).into())
        .collect();
    if names.len() < MAX_CHANGED
        && names
            .iter()
            .all(|name| name.len() < CUT_NAME && name != OVERFLOW)
    {
        return names;
    }
    let record = lines.record(TraceFile::Steps, head.span).ok();
    let step = record.as_ref().and_then(format::step);
    step.iter()
        .flat_map(changes)
        .map(|change| change.key.into_owned().into())
        .collect()
}

/// Returns the steps of `range` that changed the key, as ordinals in order. Doesn't read the
/// values.
pub fn changes_of(index: &Index, lines: &dyn Lines, key: &str, range: Range<usize>) -> Vec<usize> {
    range
        .filter(|step| keys_of(index, lines, *step).iter().any(|name| name == key))
        .collect()
}

/// Returns the same for all keys at once.
pub fn changed_by(
    index: &Index,
    lines: &dyn Lines,
    range: Range<usize>,
) -> HashMap<String, Vec<usize>> {
    let mut steps: HashMap<String, Vec<usize>> = HashMap::new();
    for step in range {
        for key in keys_of(index, lines, step) {
            match steps.get_mut(key.as_ref()) {
                // A line that names a key twice counts as one change.
                Some(known) if known.last() == Some(&step) => {}
                Some(known) => known.push(step),
                None => {
                    steps.insert(key.into_owned(), vec![step]);
                }
            }
        }
    }
    steps
}

/// Returns whether two JSON texts represent the same value.
pub fn equal(a: &str, b: &str) -> bool {
    a == b
        || Json::parse(a)
            .zip(Json::parse(b))
            .is_some_and(|(a, b)| same(&a, &b))
}

fn changes<'a>(step: &Step<'a>) -> impl Iterator<Item = Change<'a>> + use<'a> {
    step.changes.into_iter().flat_map(|changes| changes.iter())
}

/// Returns the keys and values of a whole state, as JSON text.
fn members(state: Value<'_>) -> Vec<(String, String)> {
    let state = state.json();
    state
        .as_object()
        .unwrap_or_default()
        .iter()
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect()
}

/// Returns the whole state that a step observed before its reduce.
pub(super) fn observed(lines: &dyn Lines, step: Span) -> Option<Vec<(String, String)>> {
    let record = lines.record(TraceFile::Steps, step).ok()?;
    format::step(&record)?.state.map(members)
}

/// Returns the whole state in an event.
pub(super) fn held(lines: &dyn Lines, event: Span) -> Option<Vec<(String, String)>> {
    let record: Record<'_> = lines.record(TraceFile::Events, event).ok()?;
    format::event(&record).state.map(members)
}

/// Returns the value that a step left in each key it changed.
pub(super) fn afters(lines: &dyn Lines, step: Span) -> HashMap<String, String> {
    let record = lines.record(TraceFile::Steps, step).ok();
    let step = record.as_ref().and_then(format::step);
    step.iter()
        .flat_map(changes)
        .filter_map(|change| Some((change.key.to_string(), text(&change, change.after())?)))
        .collect()
}

/// Returns the values of `key` before and after a step. `None` if the line can't be read.
pub(super) fn sides(
    lines: &dyn Lines,
    step: Span,
    key: &str,
) -> Option<(Option<String>, Option<String>)> {
    let record = lines.record(TraceFile::Steps, step).ok()?;
    let step = format::step(&record)?;
    let change = changes(&step).filter(|change| change.key == key).last();
    Some(change.map_or((None, None), |change| {
        (
            text(&change, change.before()),
            text(&change, change.after()),
        )
    }))
}

fn text(change: &Change<'_>, side: Option<&str>) -> Option<String> {
    // A single string instead of both sides means that the whole change was blanked.
    let text = side.or(Some(change.text).filter(|text| text.starts_with('"')))?;
    Some(Json::checked(text).to_string())
}
