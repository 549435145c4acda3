//! Where does a line hold a state? The keys of a whole state, and the value a step left behind.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::format;
use crate::model::head::MAX_CHANGED;
use crate::model::json::Json;
use crate::model::names::OVERFLOW;
use crate::model::step::{Change, Value};
use crate::model::{Index, Lines, Record, Span, Step, TraceFile};

/// A name as long as this, in bytes, may have been cut by the index.
const CUT_NAME: usize = 250;

/// The keys that step `n` is recorded to have changed. The index knows them; the line is read where it left some out.
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

fn changes<'a>(step: &Step<'a>) -> impl Iterator<Item = Change<'a>> + use<'a> {
    step.changes.into_iter().flat_map(|changes| changes.iter())
}

/// The keys and values of a whole state, as JSON text.
fn members(state: Value<'_>) -> Vec<(String, String)> {
    let state = state.json();
    state
        .as_object()
        .unwrap_or_default()
        .iter()
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect()
}

/// The whole state that a step observed before its reduce.
pub(super) fn observed(lines: &dyn Lines, step: Span) -> Option<Vec<(String, String)>> {
    let record = lines.record(TraceFile::Steps, step).ok()?;
    format::step(&record)?.state.map(members)
}

/// The whole state that an event holds.
pub(super) fn held(lines: &dyn Lines, event: Span) -> Option<Vec<(String, String)>> {
    let record: Record<'_> = lines.record(TraceFile::Events, event).ok()?;
    format::event(&record).state.map(members)
}

/// The value that a step left under each key that it changed.
pub(super) fn afters(lines: &dyn Lines, step: Span) -> HashMap<String, String> {
    let record = lines.record(TraceFile::Steps, step).ok();
    let step = record.as_ref().and_then(format::step);
    step.iter()
        .flat_map(changes)
        .filter_map(|change| Some((change.key.to_string(), text(&change, change.after())?)))
        .collect()
}

/// What a step found and left under `key`; `None` where it cannot be read.
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
    // A word in place of both sides: blanked as a whole.
    let text = side.or(Some(change.text).filter(|text| text.starts_with('"')))?;
    Some(Json::checked(text).to_string())
}
