//! Defines the policy that decides whether a run continues after a failed step, and counts the
//! failed steps for it.

use serde::Serialize;

use crate::stop::Phase;

/// Decides whether a run continues after a failed step.
pub trait Recovery: Send {
    /// Returns whether the run continues.
    fn may_continue(&mut self, failure: &Failure<'_>) -> bool;
}

/// A failed step.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Failure<'a> {
    /// The step's number, counted from 0.
    pub step: u64,
    /// The phase that failed.
    pub phase: Phase,
    /// The error message.
    pub message: &'a str,
    /// Whether the part that failed expects that the next step may succeed.
    pub recoverable: bool,
    /// Number of failed steps in a row, including this one.
    pub consecutive: u64,
    /// Number of failed steps of the run, including this one.
    pub total: u64,
}

/// Continues after recoverable failures, up to a number in a row and a total number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoverySteps {
    /// Maximum number of failed steps in a row.
    pub consecutive: u64,
    /// Maximum number of failed steps in total.
    pub total: u64,
}

impl Default for RecoverySteps {
    /// Allows three failed steps in a row and a hundred in total.
    fn default() -> Self {
        Self {
            consecutive: 3,
            total: 100,
        }
    }
}

impl Recovery for RecoverySteps {
    fn may_continue(&mut self, failure: &Failure<'_>) -> bool {
        failure.recoverable
            && failure.consecutive <= self.consecutive
            && failure.total <= self.total
    }
}

impl<F: FnMut(&Failure<'_>) -> bool + Send> Recovery for F {
    fn may_continue(&mut self, failure: &Failure<'_>) -> bool {
        self(failure)
    }
}

/// Failed steps, as counted by the recovery policy.
#[derive(Debug, Default)]
pub(super) struct Failures {
    pub(super) consecutive: u64,
    pub(super) total: u64,
    pub(super) report: Vec<FailureLine>,
}

/// One entry of the failure report.
#[derive(Debug, Clone, Serialize)]
pub(super) struct FailureLine {
    pub(super) step_id: u64,
    pub(super) phase: String,
    pub(super) category: String,
    pub(super) message: String,
    pub(super) recoverable: bool,
    pub(super) decision: &'static str,
}
