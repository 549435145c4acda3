//! Explains why a run stopped: the verdict with its evidence, and the source of each piece.

use schemars::JsonSchema;
use serde::Serialize;

use super::chain;
use super::copies::CopyDifferences;
use super::summary::Summary;
use super::verdict::says_no_end;
use crate::model::{Certainty, Index, Lines, Outcome, Reading, StepHead};

mod commands;
mod evidence;
mod pace;
mod phase;
pub(crate) mod rules;
#[cfg(test)]
pub(super) mod tests;
mod trouble;

pub(crate) use commands::FailedCommands;
pub use evidence::Evidence;
pub(crate) use evidence::Kind;
pub use rules::{RuleStatus, Standing};
pub use trouble::Trouble;

/// Why a run stopped.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Why {
    /// The answer in a sentence, without a full stop.
    pub headline: String,
    /// Another fact in one full sentence. May be empty.
    pub second: String,
    #[schemars(with = "String")]
    pub(crate) outcome: Outcome,
    /// The recorded stop reason.
    pub stop_reason: Option<String>,
    /// `recorded`, `inferred` from the last records, or `unknown`.
    #[schemars(with = "String")]
    pub certainty: Certainty,
    /// Why the answer isn't recorded, as a clause. Empty if it is, or if the run continues.
    #[serde(skip)]
    pub doubt: &'static str,
    /// The last step that really ran, counted from 0.
    pub step: Option<usize>,
    // Most important first.
    pub(crate) evidence: Vec<Evidence>,
    /// The result of every rule that could have ended the run.
    // The one that ended it comes first.
    pub rules: Vec<RuleStatus>,
    /// How close a live run is to its limits.
    // An estimate in one sentence without a full stop.
    pub pace: Option<String>,
    /// Contradictions between the files, one sentence each.
    pub contradictions: Vec<String>,
    /// Duplicates of the run whose records differ.
    pub copies: Vec<CopyDifferences>,
    // Where something first went wrong, and what.
    pub(crate) first_trouble: Option<Trouble>,
    /// The shell commands that failed; null if there are none, or if not all calls are known.
    pub failed_commands: Option<FailedCommands>,
    pub(crate) liveness: &'static str,
}

/// Returns the comparison with a limit that ended a run. Has no numbers if none are recorded.
pub(crate) fn ended_by(summary: &Summary, index: &Index) -> Option<Reading> {
    rules::ended_by(summary, index)
}

/// Returns the first sign of trouble in the newest run.
pub(crate) fn first_trouble(index: &Index) -> Option<Trouble> {
    trouble::first_trouble(index)
}

/// Returns `exited with code 1` for a step with a failed command, with the line that tells most
/// about the failure.
pub(crate) fn exited(step: &StepHead) -> Option<String> {
    chain::exited(step)
}

/// Explains a run.
pub(crate) fn why(summary: &Summary, index: &Index, lines: &dyn Lines) -> Why {
    let verdict = &summary.verdict;
    let rules = rules::rules(summary, index, lines);
    Why {
        headline: verdict.sentence.as_str().to_owned(),
        second: verdict.second.as_str().to_owned(),
        outcome: verdict.outcome,
        stop_reason: verdict.stop_reason.as_deref().map(str::to_owned),
        certainty: verdict.certainty,
        doubt: doubt(summary, index),
        step: verdict.step,
        evidence: evidence::evidence(summary, index, lines),
        pace: pace::pace(summary, index, &rules),
        rules,
        contradictions: verdict.contradictions.to_vec(),
        copies: summary.relation.differences.clone(),
        first_trouble: trouble::first_trouble(index),
        failed_commands: commands::failed_commands(index),
        liveness: summary.life.liveness.word(),
    }
}

/// Returns whether the user may continue a session after its last answer.
fn is_open(summary: &Summary, index: &Index) -> bool {
    index.format().is_session && summary.verdict.outcome == Outcome::Completed
}

/// Returns why a verdict isn't recorded, as a clause. Empty if it is, or if the run continues.
fn doubt(summary: &Summary, index: &Index) -> &'static str {
    let mut copies = summary.relation.differences.iter();
    match summary.verdict.certainty {
        Certainty::Recorded => "",
        Certainty::Inferred if summary.life.liveness.may_grow() => "",
        _ if summary.verdict.is_denied() => "the records conflict",
        _ if copies.any(|copy| copy.records_end(summary)) => {
            "a duplicate records an end, but this file doesn't"
        }
        Certainty::Inferred if is_open(summary, index) => "no end marker; the session may continue",
        Certainty::Inferred if index.format().is_one_file() => "no end marker",
        Certainty::Inferred => "no file records how the run ended",
        Certainty::Unknown if says_no_end(index, &summary.life) => "",
        Certainty::Unknown => "the trace doesn't record why it ended",
    }
}
