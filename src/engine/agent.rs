//! What does a user implement? An agent: how a run begins, what is decided, and what a step makes of the state.

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

/// An agent. Only its state is needed; by default the engine's model decides and the state stays as it is.
pub trait Agent: Send {
    /// The agent's own part of the state; `()` for none. It is written and read back as JSON where a failed step is
    /// undone or a critic sets a field, so a part that serde skips is lost there.
    type Data: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Its name, for the trace.
    fn name(&self) -> &str;

    /// The state before the first step; it may be that of an earlier run, whose end and answer are then taken out.
    ///
    /// # Errors
    /// Why the task cannot be begun; the run ends before its first step.
    fn init_state(&mut self, task: &Task) -> Result<State<Self::Data>, AgentError>;

    /// Hears that the run goes on from an earlier time, with the state that it had; [`Agent::init_state`] is not asked then.
    /// What an agent keeps outside its state is put together again here.
    ///
    /// # Errors
    /// Why it cannot go on; nothing is recorded.
    fn resume(&mut self, task: &Task, state: &State<Self::Data>) -> Result<(), AgentError> {
        let _ = (task, state);
        Ok(())
    }

    /// What a model is to be asked with; asked only where [`Agent::decide`] decides nothing.
    ///
    /// By default the task's objective the first time, and whatever the environment shows. Results of tools, and what
    /// critics, refused answers and failed steps ask to mind, are added by the engine.
    ///
    /// # Errors
    /// Why there is no prompt; the step fails.
    fn prepare(
        &mut self,
        state: &State<Self::Data>,
        cx: &StepCx<'_>,
    ) -> Result<Prompt, AgentError> {
        let task = (!cx.prompted).then(|| state.task.clone());
        let seen = (!cx.observation.is_null())
            .then(|| format!("The environment shows: {}", cx.observation));
        let user: Vec<_> = task.into_iter().chain(seen).collect();
        Ok(Prompt {
            system: None,
            user: Some(user.join("\n\n")).filter(|user| !user.is_empty()),
        })
    }

    /// Decides, or leaves it to the model with `None`, as it does by default. Without a model the step then fails.
    fn decide(
        &mut self,
        state: &State<Self::Data>,
        cx: &StepCx<'_>,
    ) -> impl Future<Output = Result<Option<Decision>, AgentError>> + Send {
        let _ = (state, cx);
        async { Ok(None) }
    }

    /// Takes a step into the state.
    ///
    /// # Errors
    /// Why it cannot; the step fails and the state is put back.
    fn reduce(&mut self, state: &mut State<Self::Data>, step: &Done<'_>) -> Result<(), AgentError> {
        let _ = (state, step);
        Ok(())
    }

    /// Whether the agent has had enough.
    fn should_stop(&self, state: &State<Self::Data>) -> bool {
        let _ = state;
        false
    }
}

/// What an agent knows when it decides.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct StepCx<'a> {
    /// The step's ordinal.
    pub step: u64,
    /// The task.
    pub task: &'a Task,
    /// What the environment shows; null without one.
    pub observation: &'a Value,
    /// What the last step's actions gave.
    pub last: &'a [ToolResult],
    /// What critics, refused answers and failed decisions ask to mind.
    pub feedback: &'a [String],
    /// Whether a model was asked before in this run.
    pub prompted: bool,
    /// A random number for this step: the same for the same seed.
    pub seed: u64,
    /// Time since the run began.
    pub elapsed: Duration,
    /// The directory of the task's files.
    pub workspace: Option<&'a Path>,
}

/// What a model is asked with in a step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompt {
    /// The instructions, at the top of every request. The engine adds how to write a decision.
    pub system: Option<String>,
    /// What is new.
    pub user: Option<String>,
}

/// What happened in a step, for its state.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Done<'a> {
    /// The step's ordinal.
    pub step: u64,
    /// What was decided.
    pub decision: &'a Decision,
    /// What the actions gave, in order.
    pub results: &'a [ToolResult],
    /// What the environment made of it.
    pub env: Option<&'a EnvStep>,
}

/// Why an agent could not do its part of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentError {
    /// What happened.
    pub message: String,
    /// Whether the run may go on with the next step.
    pub recoverable: bool,
}

impl AgentError {
    /// A failure that the next step may make good.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            recoverable: true,
        }
    }

    /// A failure that ends the run.
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

/// So that `?` works with any error. The type is itself none, as that would be two conversions for one.
impl<E: std::error::Error> From<E> for AgentError {
    fn from(error: E) -> Self {
        AgentError::new(super::value::told(&error))
    }
}
