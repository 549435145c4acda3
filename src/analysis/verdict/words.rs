//! In which words is a run's end classed? Fixed ones, for columns, queries and JSON.

use serde::{Deserialize, Serialize};

/// How a run came out, independent of the words its writer uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Outcome {
    /// It did what it set out to do, as far as its own rules tell.
    Completed,
    /// A limit cut it.
    Truncated,
    /// A critic or a guard ended it.
    Halted,
    /// It broke.
    Failed,
    /// Somebody ended it from outside.
    Cancelled,
    /// It may still be going.
    Running,
    /// It ended, and the files do not say how.
    Unknown,
}

impl Outcome {
    /// The outcome that a verdict records; `None` for a word that no engine of ours writes.
    pub(super) fn parse(word: &str) -> Option<Self> {
        use Outcome as O;
        let ends = [O::Completed, O::Truncated, O::Halted, O::Failed, O::Cancelled];
        ends.into_iter().find(|outcome| outcome.word() == word)
    }

    /// The word used in JSON and queries.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Completed => "completed",
            Outcome::Truncated => "truncated",
            Outcome::Halted => "halted",
            Outcome::Failed => "failed",
            Outcome::Cancelled => "cancelled",
            Outcome::Running => "running",
            Outcome::Unknown => "unknown",
        }
    }
}

/// The mark in the status column: what ended the run, or how alive it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Mark {
    /// May still write, and did lately.
    Running,
    /// May still write, silent for a while.
    Quiet,
    /// May still write, silent for long.
    Stalled,
    /// Gave an answer.
    Answered,
    /// A limit ended it.
    Limit,
    /// The agent's or the environment's own rule ended it.
    OwnRule,
    /// A critic ended it.
    Critic,
    /// Ended from outside.
    Cancelled,
    /// An error ended it, or it was not started.
    Error,
    /// Ended without saying so.
    Died,
    /// Ended with a word the board does not know, or none.
    Unknown,
}

impl Mark {
    /// Every mark, in the order of the facet.
    pub const ALL: [Mark; 11] = [
        Mark::Running,
        Mark::Quiet,
        Mark::Stalled,
        Mark::Answered,
        Mark::Limit,
        Mark::OwnRule,
        Mark::Critic,
        Mark::Cancelled,
        Mark::Error,
        Mark::Died,
        Mark::Unknown,
    ];

    /// The word in the status column.
    pub fn word(self) -> &'static str {
        match self {
            Mark::Running => "running",
            Mark::Quiet => "quiet",
            Mark::Stalled => "stalled",
            Mark::Answered => "answered",
            Mark::Limit => "limit",
            Mark::OwnRule => "own rule",
            Mark::Critic => "critic stop",
            Mark::Cancelled => "cancelled",
            Mark::Error => "error",
            Mark::Died => "died",
            Mark::Unknown => "unknown",
        }
    }
}

/// What a sentence rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Certainty {
    /// The files say it.
    Recorded,
    /// Concluded from what the files hold or lack.
    Inferred,
    /// The files do not tell.
    Unknown,
}

impl Certainty {
    /// The word used in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Certainty::Recorded => "recorded",
            Certainty::Inferred => "inferred",
            Certainty::Unknown => "unknown",
        }
    }
}
