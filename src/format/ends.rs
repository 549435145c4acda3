//! Maps the words that tools record for the end of a run to headlines and outcomes, by tables.
//!
//! A format may have its own table of words. Tools call the same libraries and record the same exceptions, so
//! an exception has one meaning for all of them.

use crate::model::{Certainty, Ended, Outcome};

/// A row of a table of ends.
#[derive(Debug)]
pub(super) struct End {
    pub(super) words: &'static [&'static str],
    pub(super) headline: &'static str,
    pub(super) outcome: Outcome,
    /// The limits that may have ended the run, each with the subject of a headline.
    pub(super) limits: &'static [(&'static str, &'static str)],
}

/// Defines a table of ends. A row has the tool's words, the outcome, the headline, and any limits
/// that may have ended the run. A `*` at the start or the end of a word matches any text. The first
/// row that matches counts.
macro_rules! ends {
    ($($($word:literal)|+ => $outcome:ident, $headline:expr $(, $subject:literal: $limit:expr)*;)*) => {
        &[$($crate::format::ends::End {
            words: &[$($word),+],
            outcome: $crate::model::Outcome::$outcome,
            headline: $headline,
            limits: &[$(($subject, $limit)),*],
        }),*]
    };
}
pub(super) use ends;

impl End {
    /// Returns the end that a trace records with this word, or `None` if the table lacks it.
    pub(super) fn of(table: &[Self], word: &str) -> Option<Ended> {
        let is_own = |row: &&Self| row.words.iter().any(|known| is_match(known, word));
        let row = table.iter().find(is_own)?;
        let end = Ended::new(word, row.headline, row.outcome, Certainty::Recorded);
        Some(end.at(row.limits))
    }

    /// Returns the end that a trace records as an error with this word.
    pub(super) fn error(word: &str) -> Ended {
        let headline = "Failed with an error";
        Ended::new(word, headline, Outcome::Failed, Certainty::Recorded)
    }

    /// Returns the end of a run that ended with this exception, or `None` if its name is
    /// inconclusive. The name may include a module.
    pub(super) fn raised(name: &str) -> Option<Ended> {
        let class = name.rsplit('.').next().unwrap_or(name);
        Some(Self::of(RAISED, class)?.word(name))
    }
}

/// The exceptions that several tools record.
const RAISED: &[End] = ends! {
    "KeyboardInterrupt" | "UserInterruption" => Cancelled, "Interrupted by the user";
    "BudgetExceededError" => Truncated, "Cost limit reached";
    "MaxTurnsExceeded" => Truncated, "Turn limit reached";
    "GraphRecursionError" => Truncated, "Step limit reached";
    "AgentStuckInLoopError" => Halted, Ended::LOOPED;
    "*CancelledError" => Cancelled, "Cancelled";
    "*ContextWindowExceed*" | "*ContextLengthExceed*" => Failed, Ended::CONTEXT_FULL;
};

/// Returns whether a word matches one of a table.
fn is_match(known: &str, word: &str) -> bool {
    match (known.strip_prefix('*'), known.strip_suffix('*')) {
        (None, None) => word == known,
        (Some(end), None) => word.ends_with(end),
        (None, Some(start)) => word.starts_with(start),
        (Some(_), Some(_)) => word.contains(known.trim_matches('*')),
    }
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
        let outcome = |message: &str| End::raised(name_in(message)).map(|end| end.outcome);
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

    #[test]
    fn the_first_row_with_a_matching_word_counts() {
        const ENDS: &[End] = ends! {
            "limit" | "budget" => Truncated, "Limit reached", "Step": "max_steps", "Cost": "max_cost";
            "api_*" => Failed, "API error";
            "*_error" => Failed, "Failed with an error";
            "*user*" => Cancelled, "Interrupted by the user";
        };
        let headline = |word: &str| End::of(ENDS, word).map(|end| end.headline.to_string());
        assert_eq!(headline("api_error").as_deref(), Some("API error"));
        assert_eq!(
            headline("my_error").as_deref(),
            Some("Failed with an error")
        );
        assert_eq!(
            headline("by_user_2").as_deref(),
            Some("Interrupted by the user")
        );
        assert_eq!(headline("limits"), None);
        let budget = End::of(ENDS, "budget").unwrap();
        assert_eq!(&*budget.word, "budget");
        assert_eq!(budget.certainty, Certainty::Recorded);
        let limits = budget.candidates.iter().map(|limit| limit.limit);
        assert_eq!(limits.collect::<Vec<_>>(), ["max_steps", "max_cost"]);
    }
}
