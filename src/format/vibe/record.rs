//! Defines what journals and saved states have in common.

/// The error of a call that was running when the turn was interrupted.
pub(super) const ABANDONED: &str = "effect_recovery_failed";

/// How a message begins that replaces a reply at the output limit. The session's own totals lack such
/// replies.
pub(super) const DISCARDED: &str =
    "Your previous response was discarded because it reached the output token limit";

fields! {
    pub(super) struct Fault { code, message }
    pub(super) struct Asked { content, role, name, outcome, call = "tool_call_id" }
}
