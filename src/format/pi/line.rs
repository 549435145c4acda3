//! Reads the members of a line of Pi, and tells session files from streams.

use crate::format::part::text;
use crate::format::value::{contains, is_text, member, objects};

fields! {
    pub(super) struct Line {
        kind = "type", id, parent = "parentId", timestamp, cwd, forked = "parentSession", message,
        model = "modelId", thinking_level = "thinkingLevel", name, usage, before = "tokensBefore",
    }
}

/// Returns whether one of the first lines is the header of a session. Some programs that are based
/// on Pi write a title before it.
pub(super) fn has_header(head: &[u8]) -> bool {
    let is_header = |line: Line<'_>| {
        line.kind == Some("\"session\"")
            && is_text(line.id)
            && is_text(line.timestamp)
            && is_text(line.cwd)
    };
    objects(head).take(2).map(Line::of).any(is_header)
}

/// Returns whether one of the first lines is an event. A session file has only lines with ids.
pub(super) fn is_stream(head: &[u8]) -> bool {
    const EVENTS: [&str; 4] = [
        "\"agent_start\"",
        "\"turn_start\"",
        "\"message_start\"",
        "\"message_end\"",
    ];
    let is_event = |line: Line<'_>| line.kind.is_some_and(|kind| EVENTS.contains(&kind));
    contains(head, &EVENTS) && objects(head).map(Line::of).any(is_event)
}

/// Returns the agent's working directory, if the record is a header.
pub(super) fn project_of(record: &str) -> Option<String> {
    (member(record, "type") == Some("\"session\"")).then(|| text(member(record, "cwd")))?
}
