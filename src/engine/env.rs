//! Defines environments, which agents observe and change, and which may end a run.

use std::fmt;
use std::future::Future;

use serde::Serialize;
use serde_json::{Map, Value};

use super::decision::Decision;
use super::erased::Boxed;
use super::task::Task;
use super::tool::Shared;
use super::toolbox::ToolResult;

/// An environment. A failure ends the run with the code `env_failed`.
pub trait Env: Send {
    /// Returns the environment's name.
    fn name(&self) -> &str;

    /// Returns the capabilities, such as `files` or `shell`. If the task or a tool needs another
    /// one, the run ends before its first step.
    fn capabilities(&self) -> Vec<String> {
        Vec::new()
    }

    /// Prepares the environment for a task.
    fn reset(&mut self, task: &Task) -> impl Future<Output = Result<(), EnvError>> + Send;

    /// Returns data for tools, which they get as [`ToolCx::env`](super::ToolCx::env). Called once,
    /// after [`Env::reset`].
    fn shared(&self) -> Option<Shared> {
        None
    }

    /// Returns the current observation. Called before each decision.
    fn observe(&mut self) -> impl Future<Output = Result<Value, EnvError>> + Send;

    /// Applies a step's decision and results.
    fn step(
        &mut self,
        decision: &Decision,
        results: &[ToolResult],
    ) -> impl Future<Output = Result<EnvStep, EnvError>> + Send;

    /// Returns whether this step ends the run.
    fn is_terminal(&self, step: &EnvStep) -> bool {
        step.done
    }

    /// Releases resources. Called once after [`Env::reset`], regardless of how the run ended, when
    /// the trace is closed. Limited to ten seconds.
    fn close(&mut self) -> impl Future<Output = Result<(), EnvError>> + Send {
        async { Ok(()) }
    }
}

/// The environment's response to a step.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct EnvStep {
    /// The observation after the step, for [`super::Agent::reduce`] and the trace.
    pub observation: Value,
    /// Whether the episode is over.
    pub done: bool,
    /// The step's reward, if the environment gives one.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "finite_or_text"
    )]
    pub reward: Option<f64>,
    /// Additional data.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub info: Map<String, Value>,
}

/// Writes NaN and the infinities as text, because JSON has no such numbers and they shouldn't end
/// the run.
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
    /// Creates an error.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for EnvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Makes `?` work with any error. `EnvError` doesn't implement `Error` itself, since this
/// conversion would then conflict with the identity conversion.
impl<E: std::error::Error> From<E> for EnvError {
    fn from(error: E) -> Self {
        EnvError::new(super::value::told(&error))
    }
}

/// [`Env`] in a form that can be boxed.
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
