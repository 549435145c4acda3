//! Handles failures within a step: records them, counts them and asks the recovery policy whether
//! to continue.

use serde::Serialize;

use super::agent::{Agent, AgentError};
use super::cancel::{Lost, caught_now};
use super::log::Event;
use super::recovery::{Failure, FailureLine};
use super::result::StepRecord;
use super::session::Session;
use super::toolbox::clip;
use crate::stop::{Phase, StepError};

/// Maximum length of a failure's message on the step's line, in bytes.
const MAX_MESSAGE_BYTES: usize = 16 << 10;
/// Maximum length of a message in the manifest, in bytes, and number of failures there.
const MAX_REPORTED_BYTES: usize = 2 << 10;
const MAX_REPORTED: usize = 100;

/// Why a step has no decision.
pub(super) enum NoDecision {
    /// The step failed.
    Failed(Fault),
    /// The run ends, because it was cancelled or a part of it failed. The next gate gives the
    /// reason.
    Ended,
    /// The request exceeds the model's context window even after shortening.
    Overflow(String),
}

/// A failure within a step.
pub(super) struct Fault {
    pub(super) category: &'static str,
    pub(super) message: String,
    pub(super) recoverable: bool,
    /// Feedback for the next prompt. Defaults to the message.
    pub(super) advice: Option<String>,
}

impl Fault {
    pub(super) fn new(category: &'static str, message: impl Into<String>) -> Self {
        Self {
            category,
            message: message.into(),
            recoverable: true,
            advice: None,
        }
    }

    pub(super) fn fatal(mut self) -> Self {
        self.recoverable = false;
        self
    }
}

impl From<AgentError> for Fault {
    fn from(error: AgentError) -> Self {
        Fault {
            category: "agent_error",
            message: error.message,
            recoverable: error.recoverable,
            advice: None,
        }
    }
}

impl From<Lost> for NoDecision {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::Cancelled => NoDecision::Ended,
            Lost::Panicked(text) => NoDecision::Failed(Fault::new("panic", text).fatal()),
        }
    }
}

impl From<Fault> for NoDecision {
    fn from(fault: Fault) -> Self {
        NoDecision::Failed(fault)
    }
}

impl<A: Agent> Session<A> {
    /// Records a failure and asks the recovery policy whether the run may continue.
    pub(super) fn fail(&mut self, record: &mut StepRecord, phase: Phase, mut fault: Fault) {
        let step = record.step;
        clip(&mut fault.message, MAX_MESSAGE_BYTES);
        let failures = &mut self.run.failures;
        failures.consecutive += 1;
        failures.total += 1;
        let (consecutive, total) = (failures.consecutive, failures.total);
        let failure = Failure {
            step,
            phase,
            message: &fault.message,
            recoverable: fault.recoverable,
            consecutive,
            total,
        };
        let recovery = &mut self.parts.recovery;
        let recovered = caught_now(|| recovery.may_continue(&failure)).unwrap_or(false);
        #[derive(Serialize)]
        struct Failed<'a> {
            category: &'a str,
            recoverable: bool,
        }
        #[derive(Serialize)]
        struct Recover {
            recovered: bool,
            consecutive: u64,
            total: u64,
        }
        let name = match phase {
            Phase::Act => "ACT_ERROR",
            Phase::Reduce => "REDUCE_ERROR",
            _ => "DECIDE_ERROR",
        };
        let payload = Failed {
            category: fault.category,
            recoverable: fault.recoverable,
        };
        let error = fault.message.as_str();
        self.emit_with(Event::new(step, name, "", payload).failed(error));
        self.emit_with(
            Event::new(
                step,
                "RECOVER",
                "",
                Recover {
                    recovered,
                    consecutive,
                    total,
                },
            )
            .failed(error),
        );
        if self.run.failures.report.len() < MAX_REPORTED {
            let mut message = fault.message.clone();
            clip(&mut message, MAX_REPORTED_BYTES);
            self.run.failures.report.push(FailureLine {
                step_id: step,
                phase: phase.as_str().to_uppercase(),
                category: fault.category.to_owned(),
                message,
                recoverable: fault.recoverable,
                decision: if recovered { "continue" } else { "stop" },
            });
        }
        let advice = fault
            .advice
            .unwrap_or_else(|| format!("The last step failed: {}", fault.message));
        self.advise(advice);
        record.facts.untried = !recovered && (!fault.recoverable || total == 1);
        record.facts.error = Some(StepError {
            phase,
            message: fault.message,
            recovered,
        });
    }
}
