//! The status of a run, as the run table shows it.

use crate::model::Outcome;
use crate::model::words::words;

words! {
    /// What ended the run, or how recently it wrote if it may still be running.
    pub enum RunStatus {
        /// May still write, and wrote recently.
        Running = "running",
        /// May still write, but has been silent for a while.
        Quiet = "quiet",
        /// May still write, but has been silent for a long time.
        Stalled = "stalled",
        /// Returned an answer.
        Answered = "answered",
        /// Ended by a limit.
        Limit = "limit",
        /// Stopped by another rule: the agent's, the environment's or a custom one.
        Stopped = "stopped",
        /// Ended by a critic.
        Critic = "critic stop",
        /// Ended from outside.
        Cancelled = "cancelled",
        /// Failed with an error, or not started.
        Error = "error",
        /// Ended without recording an end.
        Died = "died",
        /// Ended with a word unknown to board, or without any.
        Unknown = "unknown",
    }
}

impl RunStatus {
    /// Returns the status of a run that ended and for which only the outcome is known.
    pub(super) fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Completed => RunStatus::Answered,
            Outcome::Truncated => RunStatus::Limit,
            Outcome::Halted => RunStatus::Stopped,
            Outcome::Failed => RunStatus::Error,
            Outcome::Cancelled => RunStatus::Cancelled,
            Outcome::Running | Outcome::Unknown => RunStatus::Unknown,
        }
    }

    /// Returns the status as written.
    pub fn word(self) -> &'static str {
        self.as_str()
    }
}
