//! What is a critic? It looks at a finished step and says: continue, stop, or do it again.

use std::fmt;
use std::future::Future;

use serde::Serialize;
use serde_json::{Map, Value};

use super::decision::Decision;
use super::erased::Boxed;
use super::state::State;
use super::toolbox::ToolResult;
use crate::stop::{CriticWish, Usage};

/// Judges steps of agents whose state holds a `D`.
///
/// ```
/// use trace_board::engine::{Critic, CriticCx, CriticError, Opinion};
///
/// /// Sends an answer back that shows no number.
/// struct Numbers;
/// impl<D: Sync> Critic<D> for Numbers {
///     fn name(&self) -> &str { "numbers" }
///     async fn judge(&self, step: CriticCx<'_, D>) -> Result<Opinion, CriticError> {
///         Ok(match &step.decision.final_answer {
///             Some(answer) if !answer.contains(char::is_numeric) => Opinion::retry("no number").instruction("Give a number."),
///             _ => Opinion::proceed("").score(1.0),
///         })
///     }
/// }
/// ```
pub trait Critic<D>: Send + Sync {
    /// The name under which its opinions are recorded.
    fn name(&self) -> &str;

    /// Judges a step after its state was reduced.
    fn judge(
        &self,
        step: CriticCx<'_, D>,
    ) -> impl Future<Output = Result<Opinion, CriticError>> + Send;
}

/// [`Critic`] behind a pointer.
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

/// What a critic may look at.
#[derive(Debug)]
#[non_exhaustive]
pub struct CriticCx<'a, D> {
    /// The step's ordinal.
    pub step: u64,
    /// The state after the step.
    pub state: &'a State<D>,
    /// What was decided.
    pub decision: &'a Decision,
    /// What the actions gave.
    pub results: &'a [ToolResult],
}

impl<D> Clone for CriticCx<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for CriticCx<'_, D> {}

impl<'a, D> CriticCx<'a, D> {
    /// The same step, seen with another state.
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

/// What a critic says.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Opinion {
    /// What it wants.
    pub wish: CriticWish,
    /// Why.
    pub reason: String,
    /// How good the step is; any finite number, 0 to 1 by custom.
    pub score: Option<f64>,
    /// Anything else worth recording.
    pub details: Map<String, Value>,
    /// With a retry: the prompt that replaces the next one.
    pub prompt: Option<String>,
    /// With a retry: a sentence added to the next prompt; the reason, where none is given.
    pub instruction: Option<String>,
    /// With a retry: fields of the state to set. A field that the state does not have is refused.
    pub state_patch: Map<String, Value>,
    /// The tokens its own model calls took.
    pub usage: Usage,
    /// What they cost in US dollars, where that is known.
    pub cost_usd: Option<f64>,
    /// Whether that was estimated from tokens and prices.
    pub cost_estimated: bool,
    /// What it says of success criteria of the task: the criterion, whether it holds, and what shows it.
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

    /// Go on.
    pub fn proceed(reason: impl Into<String>) -> Self {
        Self::new(CriticWish::Continue, reason)
    }

    /// End the run.
    pub fn stop(reason: impl Into<String>) -> Self {
        Self::new(CriticWish::Stop, reason)
    }

    /// Do not accept this step's answer; try again.
    pub fn retry(reason: impl Into<String>) -> Self {
        Self::new(CriticWish::Retry, reason)
    }

    /// Gives a score.
    #[must_use]
    pub fn score(mut self, score: f64) -> Self {
        self.score = Some(score);
        self
    }

    /// Adds something worth recording.
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

    /// Adds to the next prompt.
    #[must_use]
    pub fn instruction(mut self, instruction: impl Into<String>) -> Self {
        self.instruction = Some(instruction.into());
        self
    }

    /// Says whether a success criterion of the task holds, and what shows it.
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

    /// Counts the tokens of its own model calls.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Says what they cost in US dollars.
    #[must_use]
    pub fn cost(mut self, usd: f64) -> Self {
        self.cost_usd = Some(usd);
        self
    }
}

/// Why a critic could not judge; it ends the run under `criterion_error`, as a panic does.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CriticError {
    /// What happened.
    pub message: String,
    /// The tokens its own model calls took until then.
    pub usage: Usage,
    /// What they cost in US dollars, where that is known.
    pub cost_usd: Option<f64>,
    /// Whether that was estimated from tokens and prices.
    pub cost_estimated: bool,
}

impl CriticError {
    /// A failure without model calls.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            usage: Usage::default(),
            cost_usd: None,
            cost_estimated: false,
        }
    }

    /// Counts the tokens of its own model calls.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Says what they cost in US dollars.
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

/// So that `?` works with any error. The type is itself none, as that would be two conversions for one.
impl<E: std::error::Error> From<E> for CriticError {
    fn from(error: E) -> Self {
        CriticError::new(super::value::told(&error))
    }
}
