//! Custom rules: a trait, closures, and the interface for JSON Schema validators.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::check::Check;
use super::facts::{GateSet, StepFacts};
use super::stats::Stats;
use crate::model::{Code, Gate, Reading};

/// The inputs of a custom rule.
#[derive(Debug)]
#[non_exhaustive]
pub struct StopCx<'a, S> {
    /// The gate at which the rule is checked.
    pub gate: Gate,
    /// The run so far, including this step as far as it has run.
    pub stats: &'a Stats,
    /// The facts of this step so far.
    pub facts: &'a StepFacts,
    /// The agent's state.
    pub state: &'a S,
    /// The texts of the model's replies so far, oldest first, including this step's. Replies
    /// without text are skipped.
    pub texts: &'a [String],
}

/// A custom rule.
///
/// A rule can read the agent's state, which a trace doesn't record in full. For this reason its
/// results are recorded, and a replay uses the recorded results.
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
/// Pass it to an engine with `.rules(|rules| rules.policy_with(Purse { least: 1.0 }))`. Its state
/// `S` is then a [`State`](crate::engine::State) with the agent's data. `examples/custom_rule.rs`
/// is a complete program.
pub trait StopCriterion<S>: Send + Sync {
    /// Returns the rule's id, which must be unique in the set.
    fn id(&self) -> &str;

    /// Returns the gates at which the rule is checked. By default, only after the step. A
    /// completion rule is always checked after the step, and only for candidate answers; this
    /// setting doesn't affect it.
    fn gates(&self) -> GateSet {
        GateSet::only(Gate::AfterStep)
    }

    /// Checks the rule.
    ///
    /// # Errors
    /// An error or a panic ends the run with the code `criterion_error`.
    fn check(&self, cx: &StopCx<'_, S>) -> Result<Check, CriterionError>;
}

/// Why a custom rule failed.
#[derive(Debug)]
pub struct CriterionError {
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl CriterionError {
    /// Creates an error from one sentence.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            source: None,
        }
    }

    /// Sets the underlying cause.
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

/// A closure as a rule. If it returns true, the rule stops with its own id as the code.
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
        // Always a custom code, even if the id spells a known one: a closure called `final` is
        // still a closure.
        let reading = Reading::text("its condition is true");
        Ok(Check::Stop {
            code: Code::Custom(self.id.as_str().into()),
            reading,
        })
    }
}

/// A compiled JSON Schema.
pub trait SchemaCheck: Send + Sync {
    /// Validates a value.
    ///
    /// # Errors
    /// Returns the first mismatch.
    fn check(&self, value: &Value) -> Result<(), SchemaMiss>;
}

/// A mismatch between a value and its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaMiss {
    /// JSON pointer into the value.
    pub instance_path: String,
    /// What is wrong at that location.
    pub message: String,
}

/// Compiles a schema. Returns an error message if the schema is invalid or a reference can't be
/// resolved.
///
/// The feature `board` has a built-in validator, which is used by default. It's behind a feature
/// because it takes longer to build than all other rules together.
pub type SchemaCompiler<'a> = &'a dyn Fn(&Value) -> Result<Arc<dyn SchemaCheck>, String>;
