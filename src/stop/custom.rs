//! How does a program add a rule of its own? A trait, closures, and the seam for JSON Schema.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::check::Check;
use super::facts::{GateSet, StepFacts};
use super::stats::Stats;
use crate::model::{Code, Gate, Reading};

/// What a rule in code may look at.
#[derive(Debug)]
#[non_exhaustive]
pub struct StopCx<'a, S> {
    /// Where in the step it is asked.
    pub gate: Gate,
    /// The run so far, this step included as far as it got.
    pub stats: &'a Stats,
    /// This step so far.
    pub facts: &'a StepFacts,
    /// The agent's state.
    pub state: &'a S,
    /// What the model said in the run so far, oldest first, this step's text included; replies without text are left out.
    pub texts: &'a [String],
}

/// A rule of a user's own.
///
/// It may look at the state, which no record keeps whole; so its answers are recorded, and a replay quotes them.
///
/// ```
/// use trace_board::stop::{Check, CriterionError, Op, Reading, StopCriterion, StopCx};
///
/// /// Ends the run once a step leaves fewer than `least` coins.
/// struct Purse { least: f64 }
///
/// impl StopCriterion<f64> for Purse {
///     fn id(&self) -> &str { "purse" }
///     fn check(&self, cx: &StopCx<'_, f64>) -> Result<Check, CriterionError> {
///         let reading = Reading::compare(*cx.state, Op::Below, self.least, "coins");
///         if *cx.state >= self.least {
///             return Ok(Check::Pass(reading));
///         }
///         Ok(Check::stop("purse", reading.detail("the purse is nearly empty")))
///     }
/// }
/// # assert!(Purse { least: 1.0 }.gates().meets(trace_board::stop::GateSet::only(trace_board::stop::Gate::AfterStep)));
/// ```
///
/// An engine takes it with `.rules(|rules| rules.policy_with(Purse { least: 1.0 }))`; its state `S` is then a
/// [`State`](crate::engine::State) with the agent's data. `examples/custom_rule.rs` is a whole program.
pub trait StopCriterion<S>: Send + Sync {
    /// Its id; unlike every other in the set.
    fn id(&self) -> &str;

    /// Where it wants to be asked: by default after the step alone. A completion rule is asked about candidate answers
    /// after the step, whatever it says.
    fn gates(&self) -> GateSet {
        GateSet::only(Gate::AfterStep)
    }

    /// Answers.
    ///
    /// # Errors
    /// A failure ends the run under `criterion_error`; so does a panic.
    fn check(&self, cx: &StopCx<'_, S>) -> Result<Check, CriterionError>;
}

/// Why a rule could not answer.
#[derive(Debug)]
pub struct CriterionError {
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl CriterionError {
    /// A failure in one sentence.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            source: None,
        }
    }

    /// Adds the underlying cause.
    #[must_use]
    pub fn because(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }
}

impl fmt::Display for CriterionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CriterionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// A closure as a rule: true stops under the rule's own id.
pub(super) struct When<F> {
    pub(super) id: String,
    pub(super) gate: Gate,
    pub(super) holds: F,
}

impl<S, F> StopCriterion<S> for When<F>
where
    F: Fn(&StopCx<'_, S>) -> bool + Send + Sync,
{
    fn id(&self) -> &str {
        &self.id
    }

    fn gates(&self) -> GateSet {
        GateSet::only(self.gate)
    }

    fn check(&self, cx: &StopCx<'_, S>) -> Result<Check, CriterionError> {
        if !(self.holds)(cx) {
            return Ok(Check::pass());
        }
        // The code is the user's word even where it spells a known one: a closure called `final` is still a closure.
        let reading = Reading::text(format!("the condition {} holds", self.id));
        Ok(Check::Stop {
            code: Code::Custom(self.id.as_str().into()),
            reading,
        })
    }
}

/// A compiled JSON Schema.
pub trait SchemaCheck: Send + Sync {
    /// Judges a value.
    ///
    /// # Errors
    /// The first place that does not fit.
    fn check(&self, value: &Value) -> Result<(), SchemaMiss>;
}

/// Where a value does not fit its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaMiss {
    /// A JSON pointer into the value.
    pub instance_path: String,
    /// What is wrong there.
    pub message: String,
}

/// Turns a schema into its check, once; an invalid schema or a reference that cannot be resolved is an error in words.
///
/// The feature `schema` brings one, which is used where none is handed in. It takes longer to build than all other
/// rules together, hence the feature.
pub type SchemaCompiler<'a> = &'a dyn Fn(&Value) -> Result<Arc<dyn SchemaCheck>, String>;
