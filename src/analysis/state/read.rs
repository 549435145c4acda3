//! Where does a line hold a state? The keys of a whole state, and the value a step left behind.

use crate::model::json::Json;
use crate::model::repair::repair;
use crate::model::{Lines, Span, TraceFile};

/// The text of a line as JSON.
pub(super) struct Line {
    text: String,
}

impl Line {
    /// Reads a line; `None` where it cannot be read or is no JSON even after a repair.
    pub(super) fn read(lines: &dyn Lines, file: TraceFile, span: Span) -> Option<Self> {
        let bytes = lines.line(file, span).ok()?;
        let text = match String::from_utf8(bytes) {
            Ok(text) if Json::parse(&text).is_some() => text,
            Ok(text) => repair(text.as_bytes()).0,
            Err(wrong) => repair(wrong.as_bytes()).0,
        };
        Json::parse(&text).is_some().then_some(Self { text })
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

    /// The value that the step left under `key`.
    pub(super) fn after(&self, key: &str) -> Option<String> {
        let whole = Json::parse(&self.text)?;
        let change = whole.get("state_diff")?.get(key)?;
        match change.get("after") {
            Some(after) => Some(after.to_string()),
            // Blanked as a whole.
            None => Some(change.to_string()).filter(|_| change.as_str().is_some()),
        }
    }
}
