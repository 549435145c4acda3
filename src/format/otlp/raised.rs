//! Determines how a run ended: by the exception if one was raised, using the exception names of
//! known frameworks, otherwise by the last reply.

use crate::format::ends::End;
use crate::format::part::{Part, is_at_limit, is_refusal};
use crate::format::value::{cut, leading};
use crate::model::{Certainty, Ended, Outcome};

/// The limits in a message of `UsageLimitExceeded`, with their headlines and units.
const USAGE: [(&str, &str, &str); 3] = [
    ("request_limit", "Request limit reached", "requests"),
    ("tool_calls_limit", "Tool call limit reached", "tool calls"),
    ("tokens_limit", "Token limit reached", "tokens"),
];

/// Returns the end caused by an exception.
pub(super) fn raised(kind: &str, words: &str) -> Ended {
    let word = if kind.is_empty() { "error" } else { kind };
    let usage = USAGE.iter().find(|(name, ..)| words.contains(name));
    let end = match (kind, usage) {
        ("UsageLimitExceeded", usage) => {
            let headline = usage.map_or("Usage limit reached", |(_, headline, _)| headline);
            Ended::new(word, headline, Outcome::Truncated, Certainty::Recorded)
        }
        _ => End::raised(kind).unwrap_or_else(|| End::error(word)),
    };
    let end = end.word(word).detail(cut(words));
    // "would exceed the request_limit of 4"
    let limit = words.split("limit of ").nth(1).and_then(leading);
    // "Max turns (10) exceeded"
    let turns = || {
        words
            .split_once("turns (")
            .and_then(|(_, rest)| leading(rest))
    };
    match kind {
        "UsageLimitExceeded" => match usage {
            Some((.., unit)) => end.compare(None, limit, unit),
            None => end,
        },
        "GraphRecursionError" => end.compare(None, limit, "steps"),
        "MaxTurnsExceeded" => end.compare(None, limit.or_else(turns), "turns"),
        _ => end,
    }
}

/// Returns the end of a trace without an exception, by its last reply. `has_answer` is whether the
/// trace itself records an answer.
pub(super) fn quiet(last: Option<&Part>, has_answer: bool) -> Ended {
    let word = last
        .and_then(|part| part.finish.as_deref())
        .unwrap_or(Ended::NO_CALLS);
    match last.filter(|part| part.calls.is_empty()) {
        Some(_) if fills_window(word) => Ended::new(
            word,
            Ended::CONTEXT_FULL,
            Outcome::Failed,
            Certainty::Inferred,
        ),
        Some(_) if is_at_limit(word) => Ended::cut_reply(word),
        Some(_) if is_refusal(word) => Ended::refused(word),
        Some(part) if !part.text.is_empty() => Ended::answered(word),
        // Its text isn't recorded, but its finish reason is.
        Some(part) if part.is_text_unknown && is_over(word) => Ended::answered(word),
        _ if has_answer => Ended::answered("final_result"),
        _ => Ended::new(
            Ended::NO_ERROR,
            "Ended",
            Outcome::Unknown,
            Certainty::Inferred,
        ),
    }
}

/// Returns whether a finish reason means that the model was done.
fn is_over(word: &str) -> bool {
    ["stop", "end_turn", "completed"]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(word))
}

/// Returns whether a reply ended because the context window was full. That differs from reaching
/// the reply's own limit.
fn fills_window(word: &str) -> bool {
    ["model_length", "model_context_window_exceeded"]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(word))
}
