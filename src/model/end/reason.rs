//! Lists the known stop reasons. The set is open, and unknown words are kept unchanged in the
//! index.

/// A stop reason, as written in a trace. Sources: QitOS 0.1 to 0.6 (`StopReason` values and
/// literals) and the runs recorded before 0.1 (`final_result`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// `success`
    Success,
    /// `final`, and `final_result` of the oldest runs
    Final,
    /// `max_steps`
    MaxSteps,
    /// `budget_steps`
    BudgetSteps,
    /// `budget_time`
    BudgetTime,
    /// `budget_tokens`
    BudgetTokens,
    /// `agent_condition`
    AgentCondition,
    /// `critic_stop`
    CriticStop,
    /// `stagnation`
    Stagnation,
    /// `env_terminal`
    EnvTerminal,
    /// `task_validation_failed`
    TaskValidationFailed,
    /// `env_capability_mismatch`
    EnvCapabilityMismatch,
    /// `unrecoverable_error`
    UnrecoverableError,
    /// `context_overflow`
    ContextOverflow,
    /// `cancelled_immediate`
    CancelledImmediate,
    /// `cancelled_after_step`
    CancelledAfterStep,
    /// `interrupt`
    Interrupt,
    /// Any other word.
    Other,
}

impl StopReason {
    /// The reason of a run that was stopped with the code of an answer, but has none.
    pub(crate) const WITHOUT_ANSWER: &'static str = "agent_condition";

    /// Parses a recorded reason.
    pub fn parse(text: &str) -> Self {
        match text {
            "success" => Self::Success,
            "final" | "final_result" => Self::Final,
            "max_steps" => Self::MaxSteps,
            "budget_steps" => Self::BudgetSteps,
            "budget_time" => Self::BudgetTime,
            "budget_tokens" => Self::BudgetTokens,
            "agent_condition" => Self::AgentCondition,
            "critic_stop" => Self::CriticStop,
            "stagnation" => Self::Stagnation,
            "env_terminal" => Self::EnvTerminal,
            "task_validation_failed" => Self::TaskValidationFailed,
            "env_capability_mismatch" => Self::EnvCapabilityMismatch,
            "unrecoverable_error" => Self::UnrecoverableError,
            "context_overflow" => Self::ContextOverflow,
            "cancelled_immediate" => Self::CancelledImmediate,
            "cancelled_after_step" => Self::CancelledAfterStep,
            "interrupt" => Self::Interrupt,
            _ => Self::Other,
        }
    }

    /// Returns whether the run ended before its first step.
    pub fn is_preflight(self) -> bool {
        matches!(
            self,
            Self::TaskValidationFailed | Self::EnvCapabilityMismatch
        )
    }

    /// Returns whether the reason says that the run gave its answer.
    pub fn says_answered(self) -> bool {
        matches!(self, Self::Success | Self::Final)
    }

    /// Returns whether a step limit ended the run.
    pub fn is_step_limit(self) -> bool {
        matches!(self, Self::MaxSteps | Self::BudgetSteps)
    }
}
