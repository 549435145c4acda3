//! Maps exceptions to ends of a run. Tools call the same libraries and record the same exceptions,
//! so each exception has one meaning for all tools.

use crate::model::{Ended, Outcome};

/// Returns the headline and the outcome of a run that ended with this exception, or `None` if its
/// name is inconclusive. The name may include a module.
pub(super) fn what_raised(name: &str) -> Option<(&'static str, Outcome)> {
    let name = name.rsplit('.').next().unwrap_or(name);
    Some(match name {
        "KeyboardInterrupt" | "UserInterruption" => ("Interrupted by the user", Outcome::Cancelled),
        "BudgetExceededError" => ("Cost budget used up", Outcome::Truncated),
        "MaxTurnsExceeded" => ("Turn limit reached", Outcome::Truncated),
        "GraphRecursionError" => ("Step limit reached", Outcome::Truncated),
        "AgentStuckInLoopError" => (Ended::LOOPED, Outcome::Halted),
        _ if name.ends_with("CancelledError") => ("Cancelled", Outcome::Cancelled),
        _ if is_context_full(name) => (Ended::CONTEXT_FULL, Outcome::Failed),
        _ => return None,
    })
}

/// Returns whether the name is one of `ContextWindowExceededError`, `ContextLengthExceededError`
/// and `LLMContextWindowExceedError`.
fn is_context_full(name: &str) -> bool {
    let rest = name.split_once("Context").map(|(_, rest)| rest);
    rest.is_some_and(|rest| {
        ["WindowExceed", "LengthExceed"]
            .iter()
            .any(|begin| rest.starts_with(begin))
    })
}

/// Returns the exception name at the start of a message, such as `KeyboardInterrupt()` or
/// `litellm.BudgetExceededError: ...`.
pub(super) fn name_in(message: &str) -> &str {
    let end = message.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_')));
    message
        .get(..end.unwrap_or(message.len()))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_means_the_same_whoever_records_it() {
        let outcome = |message: &str| what_raised(name_in(message)).map(|(_, outcome)| outcome);
        assert_eq!(outcome("KeyboardInterrupt()"), Some(Outcome::Cancelled));
        assert_eq!(
            outcome("asyncio.exceptions.CancelledError: x"),
            Some(Outcome::Cancelled)
        );
        assert_eq!(
            outcome("litellm.BudgetExceededError: over 5"),
            Some(Outcome::Truncated)
        );
        assert_eq!(
            outcome("LLMContextWindowExceedError"),
            Some(Outcome::Failed)
        );
        assert_eq!(outcome("ContextWindowTooSmall"), None);
        assert_eq!(outcome("boom"), None);
    }
}
