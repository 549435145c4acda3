//! Defines the trait for agents, which users implement.

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::decision::Decision;
use super::env::EnvStep;
use super::state::State;
use super::task::Task;
use super::toolbox::ToolResult;

/// An agent. Only its name and the type of its state are required. By default, the engine's model
/// makes every decision and the state doesn't change. A [`ModelAgent`](super::ModelAgent) needs no
/// implementation at all.
pub trait Agent: Send {
    /// The agent's own part of the state; `()` for none.
    ///
    /// It is serialized to JSON and read back when a failed step is undone or a critic sets a
    /// field. Fields that serde skips are lost then.
    type Data: AgentData;

    /// Returns the agent's name, for the trace.
    fn name(&self) -> &str;

    /// Returns the state before the first step. It may be the state of an earlier run, whose stop
    /// reason and answer are then removed. By default, the data is that of [`AgentData::initial`].
    ///
    /// # Errors
    /// If the task can't be started, the run ends before its first step.
    fn init_state(&mut self, task: &Task) -> Result<State<Self::Data>, AgentError> {
        let data = Self::Data::initial().ok_or_else(|| {
            AgentError::fatal(format!(
                "{} has no default, so the agent must implement init_state",
                std::any::type_name::<Self::Data>()
            ))
        })?;
        Ok(State::new(&*task.objective, data))
    }

    /// Called instead of [`Agent::init_state`] when a run is resumed, with its earlier state.
    /// Rebuild here what the agent keeps outside its state.
    ///
    /// # Errors
    /// An error prevents the run from being resumed. In this case, the trace isn't changed.
    fn resume(&mut self, task: &Task, state: &State<Self::Data>) -> Result<(), AgentError> {
        let _ = (task, state);
        Ok(())
    }

    /// Returns the prompt for the model. Called only if [`Agent::decide`] returns `None`. By default,
    /// returns [`Prompt::new`].
    ///
    /// # Errors
    /// The step fails.
    fn prepare(
        &mut self,
        state: &State<Self::Data>,
        cx: &StepCx<'_>,
    ) -> Result<Prompt, AgentError> {
        Ok(Prompt::new(state, cx))
    }

    /// Makes the decision, or returns `None` to let the model decide. Returns `None` by default. If
    /// there is no model, the step then fails.
    fn decide(
        &mut self,
        state: &State<Self::Data>,
        cx: &StepCx<'_>,
    ) -> impl Future<Output = Result<Option<Decision>, AgentError>> + Send {
        let _ = (state, cx);
        async { Ok(None) }
    }

    /// Updates the state after a step.
    ///
    /// # Errors
    /// The step fails and the state is restored.
    fn reduce(&mut self, state: &mut State<Self::Data>, step: &Done<'_>) -> Result<(), AgentError> {
        let _ = (state, step);
        Ok(())
    }

    /// Returns whether the agent wants to stop.
    fn should_stop(&self, state: &State<Self::Data>) -> bool {
        let _ = state;
        false
    }
}

/// The data of an agent's state. Every type with a default that serde can write and read is one.
///
/// A type without a default needs an empty implementation, and its agent an
/// [`Agent::init_state`]:
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use trace_board::engine::{Agent, AgentData, AgentError, State, Task};
///
/// #[derive(Serialize, Deserialize)]
/// struct Search { since: std::time::SystemTime }
/// impl AgentData for Search {}
///
/// struct Searcher;
/// impl Agent for Searcher {
///     type Data = Search;
///     fn name(&self) -> &str { "searcher" }
///     fn init_state(&mut self, task: &Task) -> Result<State<Search>, AgentError> {
///         Ok(State::new(&*task.objective, Search { since: std::time::SystemTime::now() }))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the data of an agent",
    note = "derive `Default`, `serde::Serialize` and `serde::Deserialize` for it",
    note = "without a default, write `impl AgentData for {Self} {{}}` and `Agent::init_state`"
)]
pub trait AgentData: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Returns the data before the first step: the type's default, if it has one.
    fn initial() -> Option<Self> {
        None
    }
}

impl<T: Default + Serialize + DeserializeOwned + Send + Sync + 'static> AgentData for T {
    fn initial() -> Option<Self> {
        Some(T::default())
    }
}

/// The context of an agent's decision.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct StepCx<'a> {
    /// The step's number, counted from 0.
    pub step: u64,
    /// The task.
    pub task: &'a Task,
    /// The environment's observation; null without an environment.
    pub observation: &'a Value,
    /// The results of the previous step's actions.
    pub last: &'a [ToolResult],
    /// Feedback from critics, refused answers and failed decisions.
    pub feedback: &'a [String],
    /// Whether a model was called earlier in this run.
    pub prompted: bool,
    /// A random number for this step. Determined by the engine's seed.
    pub seed: u64,
    /// Time since the run began.
    pub elapsed: Duration,
    /// The directory with the task's files.
    pub workspace: Option<&'a Path>,
}

/// The prompt of a step. The engine adds tool results, and feedback from critics, refused answers
/// and failed steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompt {
    /// The system prompt, at the start of every request. The engine appends instructions on how to
    /// write a decision.
    pub system: Option<String>,
    /// The new user message.
    pub user: Option<String>,
}

impl Prompt {
    /// Returns the default prompt: the task until the model has replied once, and the environment's
    /// observation.
    pub fn new<D>(state: &State<D>, cx: &StepCx<'_>) -> Self {
        let task = (!cx.prompted).then(|| state.task.clone());
        let seen = (!cx.observation.is_null())
            .then(|| format!("The environment shows: {}", cx.observation));
        let user: Vec<_> = task.into_iter().chain(seen).collect();
        Self {
            system: None,
            user: Some(user.join("\n\n")).filter(|user| !user.is_empty()),
        }
    }

    /// Sets the system prompt.
    #[must_use]
    pub fn system(mut self, system: impl Into<String>) -> Self {
        self.system = Some(system.into());
        self
    }
}

/// The result of a step, for updating the state.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Done<'a> {
    /// The step's number, counted from 0.
    pub step: u64,
    /// The decision.
    pub decision: &'a Decision,
    /// The results of the actions, in order.
    pub results: &'a [ToolResult],
    /// The environment's response to the step.
    pub env: Option<&'a EnvStep>,
}

/// Why an agent failed in a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentError {
    /// The error message.
    pub message: String,
    /// Whether the run may continue with the next step.
    pub recoverable: bool,
}

impl AgentError {
    /// Creates an error from which the next step may recover.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            recoverable: true,
        }
    }

    /// Creates an error that ends the run.
    pub fn fatal(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            recoverable: false,
        }
    }
}

impl fmt::Display for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Makes `?` work with any error. `AgentError` doesn't implement `Error` itself, since this
/// conversion would then conflict with the identity conversion.
impl<E: std::error::Error> From<E> for AgentError {
    fn from(error: E) -> Self {
        AgentError::new(super::value::told(&error))
    }
}
