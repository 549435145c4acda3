//! Which status does a run get in the run table?

use crate::model::Outcome;
use crate::model::words::words;

words! {
    /// What ended the run, or how alive it is.
    pub enum RunStatus {
        /// May still write, and did lately.
        Running = "running",
        /// May still write, silent for a while.
        Quiet = "quiet",
        /// May still write, silent for long.
        Stalled = "stalled",
        /// Gave an answer.
        Answered = "answered",
        /// A limit ended it.
        Limit = "limit",
        /// The agent's or the environment's own rule ended it.
        OwnRule = "own rule",
        /// A critic ended it.
        Critic = "critic stop",
        /// Ended from outside.
        Cancelled = "cancelled",
        /// An error ended it, or it was not started.
        Error = "error",
        /// Ended without saying so.
        Died = "died",
        /// Ended with a word the board does not know, or none.
        Unknown = "unknown",
    }
}

impl RunStatus {
    /// The status of a run that ended and of which no more is known than how it came out.
    pub(super) fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Completed => RunStatus::Answered,
            Outcome::Truncated => RunStatus::Limit,
            Outcome::Halted => RunStatus::OwnRule,
            Outcome::Failed => RunStatus::Error,
            Outcome::Cancelled => RunStatus::Cancelled,
            Outcome::Running | Outcome::Unknown => RunStatus::Unknown,
        }
    }

    /// The status as written.
    pub fn word(self) -> &'static str {
        self.as_str()
    }
}
