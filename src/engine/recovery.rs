//! May a run go on after a failed step? A policy over failures.

use crate::stop::Phase;

/// Decides whether a run goes on after a failed step.
pub trait Recovery: Send {
    /// Whether it does.
    fn may_continue(&mut self, failure: &Failure<'_>) -> bool;
}

/// A failed step.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Failure<'a> {
    /// The step's ordinal.
    pub step: u64,
    /// The phase that failed.
    pub phase: Phase,
    /// What it said.
    pub message: &'a str,
    /// Whether the failing part itself holds that the next step may go better.
    pub recoverable: bool,
    /// Failed steps in a row, this one included.
    pub consecutive: u64,
    /// Failed steps of the run, this one included.
    pub total: u64,
}

/// Goes on after failures that can be made good, up to a number in a row and a number in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoverySteps {
    /// Failed steps in a row after which the run may still go on.
    pub consecutive: u64,
    /// Failed steps in all after which it may.
    pub total: u64,
}

impl Default for RecoverySteps {
    /// Three in a row, a hundred in all.
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
