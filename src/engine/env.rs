//! What does an agent live in? An environment that it observes, that its steps change, and that may end the run.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use super::decision::Decision;
use super::erased::Boxed;
use super::task::Task;
use super::toolbox::ToolResult;

/// Something that an environment shares with tools.
pub type Shared = Arc<dyn Any + Send + Sync>;

/// An environment. Its failures end the run under `env_failed`.
pub trait Env: Send {
    /// Its name.
    fn name(&self) -> &str;

    /// What it offers, such as `files` or `shell`; tasks and tools that need more are refused before the first step.
    fn capabilities(&self) -> Vec<String> {
        Vec::new()
    }

    /// Prepares it for a task.
    fn reset(&mut self, task: &Task) -> impl Future<Output = Result<(), EnvError>> + Send;

    /// What tools may use of it, under [`ToolCx::env`](super::ToolCx::env); asked once, after [`Env::reset`].
    fn shared(&self) -> Option<Shared> {
        None
    }

    /// What can be seen now; asked before each decision.
    fn observe(&mut self) -> impl Future<Output = Result<Value, EnvError>> + Send;

    /// Takes in what was done.
    fn step(
        &mut self,
        decision: &Decision,
        results: &[ToolResult],
    ) -> impl Future<Output = Result<EnvStep, EnvError>> + Send;

    /// Whether this ends the run.
    fn is_terminal(&self, step: &EnvStep) -> bool {
        step.done
    }

    /// Frees what it holds: called once after [`Env::reset`], however the run ended, when its trace is closed. It is
    /// given ten seconds.
    fn close(&mut self) -> impl Future<Output = Result<(), EnvError>> + Send {
        async { Ok(()) }
    }
}

/// What an environment makes of a step.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct EnvStep {
    /// What can be seen afterwards, for [`super::Agent::reduce`] and the trace.
    pub observation: Value,
    /// Whether the episode is over.
    pub done: bool,
    /// What the step was worth, where the environment says so.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "finite_or_text"
    )]
    pub reward: Option<f64>,
    /// Anything else.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub info: Map<String, Value>,
}

/// NaN and the infinities are no JSON; as text they are told and end no run.
#[expect(clippy::ref_option, reason = "the signature is serde's")]
fn finite_or_text<S: serde::Serializer>(
    reward: &Option<f64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    super::value::to_value_lossy(reward).serialize(serializer)
}

/// Why an environment failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvError(pub String);

impl EnvError {
    /// A failure.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for EnvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// So that `?` works with any error. The type is itself none, as that would be two conversions for one.
impl<E: std::error::Error> From<E> for EnvError {
    fn from(error: E) -> Self {
        EnvError::new(super::value::told(&error))
    }
}

/// [`Env`] behind a pointer.
pub(super) trait DynEnv: Send {
    fn name(&self) -> &str;
    fn capabilities(&self) -> Vec<String>;
    fn reset<'a>(&'a mut self, task: &'a Task) -> Boxed<'a, Result<(), EnvError>>;
    fn shared(&self) -> Option<Shared>;
    fn observe(&mut self) -> Boxed<'_, Result<Value, EnvError>>;
    fn step<'a>(
        &'a mut self,
        decision: &'a Decision,
        results: &'a [ToolResult],
    ) -> Boxed<'a, Result<EnvStep, EnvError>>;
    fn is_terminal(&self, step: &EnvStep) -> bool;
    fn close(&mut self) -> Boxed<'_, Result<(), EnvError>>;
}

impl<E: Env> DynEnv for E {
    fn name(&self) -> &str {
        Env::name(self)
    }

    fn capabilities(&self) -> Vec<String> {
        Env::capabilities(self)
    }

    fn reset<'a>(&'a mut self, task: &'a Task) -> Boxed<'a, Result<(), EnvError>> {
        Box::pin(Env::reset(self, task))
    }

    fn shared(&self) -> Option<Shared> {
        Env::shared(self)
    }

    fn observe(&mut self) -> Boxed<'_, Result<Value, EnvError>> {
        Box::pin(Env::observe(self))
    }

    fn step<'a>(
        &'a mut self,
        decision: &'a Decision,
        results: &'a [ToolResult],
    ) -> Boxed<'a, Result<EnvStep, EnvError>> {
        Box::pin(Env::step(self, decision, results))
    }

    fn is_terminal(&self, step: &EnvStep) -> bool {
        Env::is_terminal(self, step)
    }

    fn close(&mut self) -> Boxed<'_, Result<(), EnvError>> {
        Box::pin(Env::close(self))
    }
}
