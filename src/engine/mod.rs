//! Runs agents and records their traces. The loop asks an agent for decisions, runs its tools and
//! critics, and checks the stop rules.
//!
//! [`Engine::builder`] begins with an [`Agent`]. Tools, critics, guards and stop rules are added to
//! the [`Builder`]. [`Engine::run`] runs a task, and [`Engine::resume`] resumes a recorded run or
//! runs a branch of it. The engine uses no network: clients of models implement
//! [`ChatModel`]. [`llm::Client`](crate::llm::Client) is one, and [`ModelAgent`] is an agent that
//! needs nothing else.
//!
//! | to | use |
//! |---|---|
//! | let a model follow instructions | [`ModelAgent`] |
//! | keep a state, or decide in code | [`Agent`], [`State`], [`Decision`] |
//! | add a tool | [`Builder::tool_fn`], [`FnTool`], [`Tool`], [`SubAgent`] |
//! | judge answers | [`Builder::critic_fn`], [`Critic`], [`Opinion`] |
//! | refuse calls, change them or ask a person | [`Builder::guard_fn`], [`Guard`], [`Person`] |
//! | observe the run | [`Builder::hook_fn`], [`Hook`], [`Moment`] |
//! | stop it | [`Builder::stop`], [`Builder::rules`], the limits below |
//! | give it a world to act in | [`Env`] |
//! | connect another model | [`ChatModel`], and [`parse`] for models that write calls as text |
//! | test without a model or a clock | [`Scripted`], [`Stepping`] |
//! | resume a run | [`Earlier`], [`Engine::resume`] |
//! | run many tasks | [`run_all`] |
//!
//! # One step
//!
//! | phase | what happens | on failure |
//! |---|---|---|
//! | gate `before_step` | cancellation, budget | |
//! | DECIDE | the environment is observed; the agent decides, or the model does and a parser reads its reply | the step fails, and the recovery policy decides whether to continue |
//! | gate `after_decide` | cancellation, policies on the decision | |
//! | ACT | the guards allow, deny or change each call; the tools run in order; the environment processes the step | a tool's error becomes its result; a failed environment ends the run |
//! | REDUCE | the agent updates its state | the step fails and the state is restored |
//! | CRITIC | the critics judge in order; the first that doesn't say continue decides | the run ends |
//! | gate `after_step` | critics, completion, agent, environment, policies | |
//! | CHECK_STOP | the step's line is written | the run ends |
//!
//! If all calls of a step fail, the rules count the step as failed, unless the run ends with it.
//! The agent gets the errors, so the recovery policy isn't asked. Unless the process is killed,
//! every run ends with a verdict in a final manifest, even after a panic in user code or if its
//! future is dropped.
//!
//! # Limits
//!
//! | what | limit | without it |
//! |---|---|---|
//! | steps | [`Builder::max_steps`] | ten; [`Builder::no_step_limit`] removes that |
//! | time | [`Builder::max_runtime`] | none |
//! | input and output tokens | [`Builder::max_tokens`] | none |
//! | cost | [`Builder::max_cost`] | none |
//! | the first three, for one task | [`Task::max_steps`], [`Task::max_runtime`], [`Task::max_tokens`]; they override the engine's | the engine's |
//! | steps, if the agent sets a lower limit than that | [`State::max_steps`] | none |
//! | one tool call | [`ToolLimits::timeout`] | one minute |
//! | one critic | fixed | half an hour |
//! | one guard | only that of the run's time | none |
//! | one reply of a model | [`Endpoint::timeouts`](crate::llm::Endpoint::timeouts) and [`retry`](crate::llm::Endpoint::retry), within the run's remaining time | five minutes an attempt, or ten if replies are streamed |
//!
//! Limits count all parts of a resumed run. A critic's tokens count as the run's. A [`SubAgent`]
//! has its own run, so its tokens and their cost count toward its own limits only. The rules
//! `max_steps`, `max_rounds`, `max_runtime`, `timeout`, `token_budget` and `max_cost` count the same
//! at other points of a step. They are for agent files, for what-if, and for lists of rules from
//! other engines.
//!
//! [`sources`] maps the names of three other engines (QitOS, awaken and potato_agent) to this
//! module's.
//!
//! A run needs a tokio runtime with the timer enabled, for the timeouts of tools.

// Depends on `model`, `stop` and the writing half of `trace`. Reads no traces, except that of a run
// it resumes, and the events of a run for its result.

mod admit;
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
mod fn_tool;
mod guard;
mod history;
mod hook;
mod judge;
mod log;
mod model_agent;
mod off_limits;
pub mod parse;
mod recorder;
mod recovery;
mod result;
mod run;
mod session;
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

pub use agent::{Agent, AgentData, AgentError, Done, Prompt, StepCx};
pub use builder::{Builder, Engine};
pub use cancel::Cancel;
pub use chat::{
    ChatModel, Message, ModelError, ModelErrorKind, Reply, Request, Role, Scripted, ToolCall,
    ToolSpec,
};
#[cfg(feature = "board")]
pub(crate) use clock::SystemClock;
pub(crate) use clock::splitmix64;
pub use clock::{Clock, Stepping};
pub use critic::{Critic, CriticCx, CriticError, Opinion};
pub use decision::{Action, Candidate, Choice, Decision, Mode, Selector};
pub use earlier::Earlier;
pub use env::{Env, EnvError, EnvStep};
pub use fn_tool::FnTool;
pub use guard::{Consent, Guard, GuardCx, Pass, Person, Question};
pub use history::{HistoryPolicy, Keep};
pub use hook::{Hook, Moment};
pub use model_agent::{LastCalls, ModelAgent};
#[cfg(feature = "board")]
pub(crate) use off_limits::OffLimits;
pub use recovery::{Failure, Recovery, RecoverySteps};
pub use result::{
    Criterion, CriticOutput, EventRecord, Metrics, ModelTurn, NoAnswer, RunResult, StepRecord,
    TaskResult,
};
pub use state::{State, StateDiff, StateError};
pub use sub_agent::{SubAgent, run_all};
pub use task::{EnvSpec, Resource, ResourceKind, Task, TaskBudget};
pub use tool::{Tool, ToolCx, ToolError, ToolLimits};
pub use toolbox::{Status, ToolResult};
