//! Defines what journals and saved states have in common.

use crate::format::value::spoken;

/// The error of a call that was running when the turn was interrupted.
pub(super) const ABANDONED: &str = "effect_recovery_failed";

/// How a message begins that replaces a reply at the output limit. The session's own totals lack such
/// replies.
pub(super) const DISCARDED: &str =
    "Your previous response was discarded because it reached the output token limit";

fields! {
    pub(super) struct Fault { code, message }
    pub(super) struct Shown {
        kind = "type", role, content, outcome, created = "createdAt", updated = "updatedAt", detail, state,
    }
    pub(super) struct Asked { content, role, name, outcome, call = "tool_call_id" }
    struct Fate { kind = "type", cause }
}

impl Shown<'_> {
    /// Returns whether the entry is a reply that was interrupted after its first words.
    pub(super) fn is_cut_off(&self) -> bool {
        let fate = self.outcome.map(Fate::of).unwrap_or_default();
        self.kind == Some("\"message\"")
            && self.role == Some("\"assistant\"")
            && (fate.kind, fate.cause) == (Some("\"discarded\""), Some("\"interrupt\""))
            && !spoken(self.content).trim().is_empty()
    }
}
