//! Where does a line hold a state? The keys of a whole state, and the value a step left behind.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::model::head::MAX_CHANGED;
use crate::model::json::Json;
use crate::model::names::OVERFLOW;
use crate::model::repair::repair;
use crate::model::{Index, Lines, Span, TraceFile};

/// A name as long as this, in bytes, may have been cut by the index.
const CUT_NAME: usize = 250;

/// The keys that step `n` is recorded to have changed. The index knows them; the line is read where it left some out.
pub(super) fn keys_of<'i>(index: &'i Index, lines: &dyn Lines, n: usize) -> Vec<Cow<'i, str>> {
    let Some(head) = index.steps().get(n) else { return Vec::new() };
    let names: Vec<Cow<'_, str>> = head.changed.iter().map(|key| index.name(*key).into()).collect();
    if names.len() < MAX_CHANGED && names.iter().all(|name| name.len() < CUT_NAME && name != OVERFLOW) {
        return names;
    }
    let line = Line::read(lines, TraceFile::Steps, head.span);
    line.map(|line| line.changed().into_iter().map(Cow::Owned).collect()).unwrap_or_default()
}

/// The text of a line as JSON.
pub(super) struct Line {
    text: String,
}

impl Line {
    /// Reads a line; `None` where it cannot be read, is longer than the board parses, or is no JSON even after a repair.
    pub(super) fn read(lines: &dyn Lines, file: TraceFile, span: Span) -> Option<Self> {
        let bytes = lines.short_line(file, span).ok()?;
        let text = match String::from_utf8(bytes) {
            Ok(text) if Json::is_json(&text) => text,
            Ok(text) => repair(text.as_bytes()).0,
            Err(wrong) => repair(wrong.as_bytes()).0,
        };
        Json::is_json(&text).then_some(Self { text })
    }

    fn members(&self, path: &[&str]) -> Option<Vec<(String, String)>> {
        let whole = Json::parse(&self.text)?;
        let state = path.iter().try_fold(&whole, |value, key| value.get(key))?;
        let members = state.as_object()?;
        Some(members.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect())
    }

    /// The whole state that a step observed before its reduce.
    pub(super) fn observed(&self) -> Option<Vec<(String, String)>> {
        self.members(&["observation", "state"])
    }

    /// The whole state that an INIT event holds.
    pub(super) fn initial(&self) -> Option<Vec<(String, String)>> {
        self.members(&["payload", "state"])
    }

    /// The whole state that a `state_ready` event holds.
    pub(super) fn ready(&self) -> Option<Vec<(String, String)>> {
        self.members(&["payload", "observation", "state"])
    }

    /// The value that the step left under each key that it changed.
    pub(super) fn afters(&self) -> HashMap<String, String> {
        let whole = Json::parse(&self.text);
        let changes = whole.as_ref().and_then(|whole| whole.get("state_diff")?.as_object()).unwrap_or_default();
        changes.iter().filter_map(|(key, change)| Some((key.to_string(), side_of(change, "after")?))).collect()
    }

    /// The keys of its state diff.
    fn changed(&self) -> Vec<String> {
        let keys = |members: Vec<(String, String)>| members.into_iter().map(|(key, _)| key).collect();
        self.members(&["state_diff"]).map(keys).unwrap_or_default()
    }

    /// One side of the change of `key`: `before` or `after`.
    pub(super) fn side(&self, key: &str, side: &str) -> Option<String> {
        let whole = Json::parse(&self.text)?;
        side_of(whole.get("state_diff")?.get(key)?, side)
    }
}

fn side_of(change: &Json<'_>, side: &str) -> Option<String> {
    match change.get(side) {
        Some(value) => Some(value.to_string()),
        // Blanked as a whole.
        None => Some(change.to_string()).filter(|_| change.as_str().is_some()),
    }
}
