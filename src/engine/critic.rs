//! Defines critics, which judge a completed step: continue, stop, or retry.

use std::fmt;
use std::future::Future;

use serde::Serialize;
use serde_json::{Map, Value};

use super::decision::Decision;
use super::erased::Boxed;
use super::state::State;
use super::toolbox::ToolResult;
use crate::stop::{CriticWish, Usage};

/// Judges the steps of agents whose state has data of type `D`. A critic that doesn't wait for
/// anything can be a closure; see [`Builder::critic_fn`](super::Builder::critic_fn).
///
/// ```
/// use trace_board::engine::{Critic, CriticCx, CriticError, Opinion};
///
/// /// Rejects an answer without a number.
/// struct Numbers;
/// impl<D: Sync> Critic<D> for Numbers {
///     fn name(&self) -> &str { "numbers" }
///     async fn judge(&self, step: CriticCx<'_, D>) -> Result<Opinion, CriticError> {
///         Ok(match step.answer() {
///             Some(answer) if !answer.contains(char::is_numeric) => Opinion::retry("no number").instruction("Give a number."),
///             _ => Opinion::proceed("").score(1.0),
///         })
///     }
/// }
/// ```
pub trait Critic<D>: Send + Sync {
    /// Returns the name under which opinions are recorded.
    fn name(&self) -> &str;

    /// Judges a step after [`Agent::reduce`](super::Agent::reduce).
    fn judge(
        &self,
        step: CriticCx<'_, D>,
    ) -> impl Future<Output = Result<Opinion, CriticError>> + Send;
}

/// A critic made from a closure.
pub(super) struct FnCritic<F> {
    pub(super) name: String,
    pub(super) judge: F,
}

impl<D, F> Critic<D> for FnCritic<F>
where
    D: Sync,
    F: Fn(CriticCx<'_, D>) -> Result<Opinion, CriticError> + Send + Sync,
{
    fn name(&self) -> &str {
        &self.name
    }

    async fn judge(&self, step: CriticCx<'_, D>) -> Result<Opinion, CriticError> {
        (self.judge)(step)
    }
}

/// [`Critic`] in a form that can be boxed.
pub(super) trait DynCritic<D>: Send + Sync {
    fn name(&self) -> &str;
    fn judge<'a>(&'a self, step: CriticCx<'a, D>) -> Boxed<'a, Result<Opinion, CriticError>>;
}

impl<D: Sync, C: Critic<D>> DynCritic<D> for C {
    fn name(&self) -> &str {
        Critic::name(self)
    }

    fn judge<'a>(&'a self, step: CriticCx<'a, D>) -> Boxed<'a, Result<Opinion, CriticError>> {
        Box::pin(Critic::judge(self, step))
    }
}

/// The inputs of a critic.
#[derive(Debug)]
#[non_exhaustive]
pub struct CriticCx<'a, D> {
    /// The step's number, counted from 0.
    pub step: u64,
    /// The state after the step.
    pub state: &'a State<D>,
    /// The decision.
    pub decision: &'a Decision,
    /// The results of the actions.
    pub results: &'a [ToolResult],
}

impl<D> Clone for CriticCx<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for CriticCx<'_, D> {}

impl<'a, D> CriticCx<'a, D> {
    /// Returns the answer, if the step gives one.
    pub fn answer(&self) -> Option<&'a str> {
        self.decision.final_answer.as_deref()
    }

    /// Returns the same step with another state.
    #[must_use]
    pub fn with<E>(self, state: &'a State<E>) -> CriticCx<'a, E> {
        CriticCx {
            step: self.step,
            state,
            decision: self.decision,
            results: self.results,
        }
    }
}

/// A critic's opinion on a step.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Opinion {
    /// What the critic asks for.
    pub wish: CriticWish,
    /// The reason.
    pub reason: String,
    /// The score: any finite number, by convention from 0 to 1.
    pub score: Option<f64>,
    /// Additional data to record.
    pub details: Map<String, Value>,
    /// For a retry: replaces the next prompt.
    pub prompt: Option<String>,
    /// For a retry: a sentence to add to the next prompt. Defaults to the reason.
    pub instruction: Option<String>,
    /// For a retry: fields of the state to set. Fields that the state doesn't have are refused.
    pub state_patch: Map<String, Value>,
    /// Tokens of the critic's own model calls.
    pub usage: Usage,
    /// Cost of these calls in US dollars, if known.
    pub cost_usd: Option<f64>,
    /// Whether the cost was estimated from tokens and prices.
    pub cost_estimated: bool,
    /// Judgments on the task's success criteria: the criterion, whether it holds, and the evidence.
    pub criteria: Vec<(String, bool, String)>,
}

impl Opinion {
    fn new(wish: CriticWish, reason: impl Into<String>) -> Self {
        Self {
            wish,
            reason: reason.into(),
            score: None,
            details: Map::new(),
            prompt: None,
            instruction: None,
            state_patch: Map::new(),
            usage: Usage::default(),
            cost_usd: None,
            cost_estimated: false,
            criteria: Vec::new(),
        }
    }

    /// Returns an opinion to continue the run.
    pub fn proceed(reason: impl Into<String>) -> Self {
        Self::new(CriticWish::Continue, reason)
    }

    /// Returns an opinion to end the run.
    pub fn stop(reason: impl Into<String>) -> Self {
        Self::new(CriticWish::Stop, reason)
    }

    /// Returns an opinion to reject this step's answer and try again.
    pub fn retry(reason: impl Into<String>) -> Self {
        Self::new(CriticWish::Retry, reason)
    }

    /// Sets the score.
    #[must_use]
    pub fn score(mut self, score: f64) -> Self {
        self.score = Some(score);
        self
    }

    /// Adds data to record.
    #[must_use]
    pub fn detail(mut self, key: impl Into<String>, value: impl Serialize) -> Self {
        self.details
            .insert(key.into(), super::value::to_value_lossy(&value));
        self
    }

    /// Replaces the next prompt.
    #[must_use]
    pub fn prompt(mut self, prompt: impl Into<String>) -> Self {
        self.prompt = Some(prompt.into());
        self
    }

    /// Sets an instruction to add to the next prompt.
    #[must_use]
    pub fn instruction(mut self, instruction: impl Into<String>) -> Self {
        self.instruction = Some(instruction.into());
        self
    }

    /// Adds a judgment on a success criterion of the task: whether it holds, and the evidence.
    #[must_use]
    pub fn criterion(
        mut self,
        criterion: impl Into<String>,
        passed: bool,
        evidence: impl Into<String>,
    ) -> Self {
        self.criteria
            .push((criterion.into(), passed, evidence.into()));
        self
    }

    /// Sets a field of the state.
    #[must_use]
    pub fn set(mut self, field: impl Into<String>, value: impl Into<Value>) -> Self {
        self.state_patch.insert(field.into(), value.into());
        self
    }

    /// Sets the tokens of the critic's own model calls.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Sets the cost of these calls in US dollars.
    #[must_use]
    pub fn cost(mut self, usd: f64) -> Self {
        self.cost_usd = Some(usd);
        self
    }
}

/// Why a critic couldn't judge. An error or a panic ends the run with the code `criterion_error`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CriticError {
    /// The error message.
    pub message: String,
    /// Tokens of the critic's own model calls before the error.
    pub usage: Usage,
    /// Cost of these calls in US dollars, if known.
    pub cost_usd: Option<f64>,
    /// Whether the cost was estimated from tokens and prices.
    pub cost_estimated: bool,
}

impl CriticError {
    /// Creates an error without model calls.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            usage: Usage::default(),
            cost_usd: None,
            cost_estimated: false,
        }
    }

    /// Sets the tokens of the critic's own model calls.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Sets the cost of these calls in US dollars.
    #[must_use]
    pub fn cost(mut self, usd: f64) -> Self {
        self.cost_usd = Some(usd);
        self
    }
}

impl fmt::Display for CriticError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Makes `?` work with any error. `CriticError` doesn't implement `Error` itself, since this
/// conversion would then conflict with the identity conversion.
impl<E: std::error::Error> From<E> for CriticError {
    fn from(error: E) -> Self {
        CriticError::new(super::value::told(&error))
    }
}
