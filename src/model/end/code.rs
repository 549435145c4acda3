//! Defines the codes under which a rule or the engine stops a run, and their meaning.

use super::kinds::{Outcome, Source};
use super::reason::StopReason;
use crate::model::words::open_words;

/// Declares the known codes with their text, the stop reason that older viewers read, and the
/// outcome.
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident, $text:literal, $reason:literal, $outcome:ident;)*) => {
        open_words! {
            /// The name under which a rule or the engine ended a run. Custom rules provide their
            /// own.
            pub enum Code, else Custom {
                $($(#[$doc])* $name = $text,)*
            }
        }

        impl Code {
            fn meaning(&self) -> Option<(&'static str, Outcome)> {
                match self {
                    $(Code::$name => Some(($reason, Outcome::$outcome)),)*
                    Code::Custom(_) => None,
                }
            }
        }
    };
}

codes! {
    /// An answer was accepted, by no rule or by the rule `final_result`.
    Final, "final", "final", Completed;
    /// The agent set an answer and reported success.
    Success, "success", "success", Completed;
    /// The agent itself asked to stop. Completed only if it also set an answer.
    AgentCondition, "agent_condition", "agent_condition", Completed;
    /// The environment ended the episode. Completed only if there is an answer.
    EnvTerminal, "env_terminal", "env_terminal", Completed;
    /// A reply contains the keyword.
    Keyword, "keyword", "success", Completed;
    /// A reply is JSON that matches the requested schema.
    StructuredOutput, "structured_output", "success", Completed;
    /// The run has a final result. Only in older traces: it's `final` now.
    FinalResult, "final_result", "success", Completed;
    /// The limit on model rounds was reached.
    MaxRounds, "max_rounds", "budget_steps", Truncated;
    /// The limit on completed steps was reached.
    MaxSteps, "max_steps", "budget_steps", Truncated;
    /// The step budget is spent.
    BudgetSteps, "budget_steps", "budget_steps", Truncated;
    /// Time ran out between a decision and its action.
    Timeout, "timeout", "budget_time", Truncated;
    /// Time ran out after a step.
    MaxRuntime, "max_runtime", "budget_time", Truncated;
    /// The time budget is spent.
    BudgetTime, "budget_time", "budget_time", Truncated;
    /// More tokens were used than allowed.
    TokenBudget, "token_budget", "budget_tokens", Truncated;
    /// The token budget is spent.
    BudgetTokens, "budget_tokens", "budget_tokens", Truncated;
    /// The model repeats itself.
    LoopDetection, "loop_detection", "stagnation", Halted;
    /// The state no longer changes.
    Stagnation, "stagnation", "stagnation", Halted;
    /// The model called a tool that ends the run.
    StopOnTool, "stop_on_tool", "agent_condition", Halted;
    /// The model's text matches a pattern.
    ContentMatch, "content_match", "agent_condition", Halted;
    /// A critic requested a stop.
    CriticStop, "critic_stop", "critic_stop", Halted;
    /// A critic's score stayed too low.
    CriticBelow, "critic_below", "critic_stop", Halted;
    /// Too many consecutive steps failed.
    ConsecutiveErrors, "consecutive_errors", "unrecoverable_error", Failed;
    /// A pattern from a loaded file doesn't compile.
    InvalidRegex, "content_match_invalid_regex", "unrecoverable_error", Failed;
    /// A rule or a critic failed.
    CriterionError, "criterion_error", "unrecoverable_error", Failed;
    /// A step failed, and the run ended at once, without a recovered failure before it or for a
    /// failure that can't be recovered from.
    StepFailed, "step_failed", "unrecoverable_error", Failed;
    /// Steps failed until the recovery policy gave up.
    RecoveryExhausted, "recovery_exhausted", "unrecoverable_error", Failed;
    /// The agent's own code failed outside a step.
    AgentFailed, "agent_failed", "unrecoverable_error", Failed;
    /// The environment failed.
    EnvFailed, "env_failed", "unrecoverable_error", Failed;
    /// A hook failed.
    HookFailed, "hook_failed", "unrecoverable_error", Failed;
    /// The trace couldn't be written.
    TraceWriteFailed, "trace_write_failed", "unrecoverable_error", Failed;
    /// The prompt no longer fits the model's context window.
    ContextOverflow, "context_overflow", "context_overflow", Failed;
    /// The task was rejected before the first step.
    TaskValidationFailed, "task_validation_failed", "task_validation_failed", Failed;
    /// The environment can't do what the task needs.
    EnvCapabilityMismatch, "env_capability_mismatch", "env_capability_mismatch", Failed;
    /// Cancelled before a step was complete.
    CancelledImmediate, "cancelled_immediate", "cancelled_immediate", Cancelled;
    /// Cancelled after a complete step.
    CancelledAfterStep, "cancelled_after_step", "cancelled_after_step", Cancelled;
}

impl Code {
    /// Returns the coarse reason that other viewers of the format read in `summary.stop_reason`.
    ///
    /// A custom code is `success` if it accepted an answer, and `agent_condition` otherwise.
    pub fn stop_reason(&self, source: &Source) -> &'static str {
        match (self.meaning(), source) {
            (Some((reason, _)), _) => reason,
            (None, Source::Completion) => "success",
            (None, _) => "agent_condition",
        }
    }

    /// Returns [`Code::stop_reason`] as a [`StopReason`].
    pub fn known_reason(&self, source: &Source) -> StopReason {
        StopReason::parse(self.stop_reason(source))
    }

    /// Returns the outcome of a run that ended under this code. A run that has no answer is halted
    /// where this says completed.
    pub fn outcome(&self, source: &Source) -> Outcome {
        match (self.meaning(), source) {
            (Some((_, outcome)), _) => outcome,
            (None, Source::Completion) => Outcome::Completed,
            (None, _) => Outcome::Halted,
        }
    }
}
