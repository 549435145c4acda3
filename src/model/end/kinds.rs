//! Defines the words of a verdict: who ended a run, with which outcome, where and how certainly.

use crate::model::words::{open_words, words};

open_words! {
    /// Who ended the run.
    pub enum Source, else Other {
        /// A final decision, in a run that declares no completion rule.
        Decision = "decision",
        /// The agent's own condition.
        Agent = "agent",
        /// The environment.
        Env = "env",
        /// A critic.
        Critic = "critic",
        /// A completion rule.
        Completion = "completion",
        /// A policy.
        Policy = "policy",
        /// The budget.
        Budget = "budget",
        /// The engine gave up recovering from failed steps.
        Recovery = "recovery",
        /// A check before the first step.
        Preflight = "preflight",
        /// Someone outside the run.
        Cancel = "cancel",
        /// A failure around the engine, such as in a hook or the recorder.
        Error = "error",
    }
}

words! {
    /// The outcome of a run, independent of the words its writer uses.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum Outcome {
        /// The run reached its goal, by its own rules.
        Completed = "completed",
        /// A limit stopped the run.
        Truncated = "truncated",
        /// A critic, a guard, the agent or the environment stopped the run without an answer.
        Halted = "halted",
        /// The run failed.
        Failed = "failed",
        /// Someone stopped the run from outside.
        Cancelled = "cancelled",
        /// The run may still be active.
        Running = "running",
        /// The run ended, but the files don't say how.
        #[default]
        Unknown = "unknown",
    }
}

words! {
    /// Who set a limit.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum Origin {
        /// A default of the engine.
        Default = "default",
        /// The program that embeds the engine, or its agent file.
        #[default]
        Engine = "engine",
        /// The task.
        Task = "task",
        /// The command line.
        Cli = "cli",
        /// The agent, in its state.
        State = "state",
    }
}

words! {
    /// The point in a step at which a rule is evaluated.
    #[non_exhaustive]
    pub enum Gate {
        /// Before the step begins.
        BeforeStep = "before_step",
        /// After the decision, before its actions.
        AfterDecide = "after_decide",
        /// After the actions, the reduction and the critics.
        AfterStep = "after_step",
    }
}

words! {
    /// The part of a step that failed.
    #[non_exhaustive]
    pub enum Phase {
        /// Observation and prompt.
        Prepare = "prepare",
        /// The decision, including the model request.
        Decide = "decide",
        /// The actions.
        Act = "act",
        /// The new state.
        Reduce = "reduce",
        /// The critics.
        Critic = "critic",
    }
}

words! {
    /// The basis of a statement about the end of a run.
    pub enum Certainty {
        /// Stated in the files.
        Recorded = "recorded",
        /// Inferred from what the files contain or lack.
        Inferred = "inferred",
        /// Not in the files.
        Unknown = "unknown",
    }
}
