//! How is a trace made? A loop that asks an agent, runs its tools, hears its critics and obeys its stop rules.
//!
//! Knows the model, the stop rules and the writing half of `trace`. It reads no trace but of a run that it goes on with,
//! serves no page and talks to no network: whoever has a client implements [`ChatModel`].
//!
//! # One step
//!
//! | phase | what happens | who may fail it |
//! |---|---|---|
//! | gate `before_step` | cancellation, budget | |
//! | DECIDE | the environment is observed; the agent decides, or the model through a parser | agent, model, parser: the step fails and the recovery policy is asked |
//! | gate `after_decide` | cancellation, policies that look at the decision | |
//! | ACT | the guards let each call pass, refuse or change it; the tools run in order; the environment takes the step in | tools: their errors are results; the environment: the run ends |
//! | REDUCE | the agent takes the step into its state | agent: the step fails, the state is put back |
//! | CRITIC | the critics judge in order; the first that does not say continue decides | a critic: the run ends |
//! | gate `after_step` | critics, completion, agent, environment, policies | |
//! | CHECK_STOP | the step's line is written | the disk: the run ends |
//!
//! A step all of whose calls failed counts as failed to the rules, unless the run ends with it; the agent sees the
//! errors, so the recovery policy is not asked. Every end, also a panic in code of the user's, or a future that is
//! dropped, is a verdict in a closed manifest.
//!
//! Who comes from QitOS, awaken or potato_agent finds their names in [`sources`].
//!
//! A run needs a tokio runtime with its timer enabled: the timeouts of tools wait for it.

mod agent;
mod ask;
mod back;
mod builder;
mod cancel;
mod chat;
mod clock;
mod critic;
mod decision;
mod earlier;
mod env;
mod erased;
mod fault;
mod guard;
mod history;
mod hook;
mod judge;
mod log;
mod off_limits;
mod parse;
mod recorder;
mod recovery;
mod result;
mod run;
mod staging;
mod state;
mod step;
mod sub_agent;
mod talk;
mod task;
mod tool;
mod toolbox;
mod value;

#[cfg(test)]
mod tests;

#[doc = include_str!("SOURCES.md")]
pub mod sources {}

pub use agent::{Agent, AgentError, Done, Prompt, StepCx};
pub use builder::{Builder, DEFAULT_STEPS, Engine, Process};
pub use cancel::Cancel;
pub use chat::{
    ChatModel, Message, ModelError, ModelErrorKind, Reply, Request, Role, Scripted, ToolCall,
    ToolSpec,
};
#[cfg(feature = "board")]
pub(crate) use clock::splitmix64;
pub use clock::{Clock, Stepping, SystemClock};
pub use critic::{Critic, CriticCx, CriticError, Opinion};
pub use decision::{Action, Candidate, Choice, Decision, First, HighestScore, Mode, Selector};
pub use earlier::{Earlier, Unfinished};
pub use env::{Env, EnvError, EnvStep, Shared};
pub use guard::{Consent, Guard, GuardCx, Pass, Person, Question};
pub use history::{HistoryPolicy, Keep};
pub use hook::{Hook, Moment};
pub use off_limits::OffLimits;
pub use parse::{
    Diagnostics, Extraction, JsonText, Parsed, Parser, ReAct, Severity, Trouble, XmlText, native,
};
pub use recovery::{Failure, Recovery, RecoverySteps};
pub use result::{
    Criterion, CriticOutput, EventRecord, Metrics, ModelTurn, NoAnswer, RunResult, StepRecord,
    TaskResult,
};
pub use state::{State, StateDiff, StateError};
pub use sub_agent::{Delegated, Delegation, SubAgent, run_all};
pub use task::{EnvSpec, Resource, ResourceKind, Task, TaskBudget, TaskIssue};
pub use tool::{Tool, ToolCx, ToolError, ToolLimits};
pub use toolbox::{MAX_RESULT_BYTES, Status, ToolResult, Toolbox};
