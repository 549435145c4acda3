//! Defines the built-in rules: one file per rule, and one row per rule in [`RULES`].
//!
//! A row holds what all rules of one kind share: names, unit, how the short form is parsed, and
//! what a form or sweep can vary. The engine, agent files, what-if, the sweep, the verdict page,
//! `--rule`, `--help` and RULES.md all read the rows, so a new rule needs only a file and a row.
//! Independent of pages and the command line.

mod consecutive_errors;
mod content_match;
mod critic_below;
mod final_result;
mod group;
mod keyword;
mod loop_detection;
mod max_cost;
mod max_rounds;
mod max_runtime;
mod max_steps;
pub(super) mod measure;
mod stagnation;
mod stop_on_tool;
mod structured_output;
mod timeout;
mod token_budget;

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::args::{Args, SpecError};
use super::check::Check;
use super::custom::SchemaCompiler;
use super::facts::{GateSet, StepFacts};
use super::stats::Stats;
use crate::model::{Code, Evidence, Gate, Op, Outcome, Reading, Source};

/// Declares the rules, each by its module and type. Generates the enum of all rules and the table
/// of their rows.
macro_rules! rules {
    ($($module:ident::$rule:ident,)*) => {
        $(pub use $module::$rule;)*

        /// A built-in rule. awaken's seven JSON forms parse unchanged. Unknown types and keys are
        /// refused.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(tag = "type", rename_all = "snake_case")]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "each rule has its own documentation")]
        pub enum StopSpec {
            $($rule($rule),)*
        }

        /// Every rule: limits first, then guards, then rules that accept answers, then groups.
        pub(crate) static RULES: &[&Row] = &[$($rule::ROW),*];

        /// Deserializes the fields of each rule, in the order of [`RULES`].
        static READERS: &[fn(Value) -> serde_json::Result<StopSpec>] =
            &[$(|fields| $rule::deserialize(fields).map(StopSpec::$rule)),*];

        impl StopSpec {
            pub(crate) fn row(&self) -> &'static Row {
                match self {
                    $(StopSpec::$rule(_) => $rule::ROW,)*
                }
            }

            pub(super) fn rule(&self) -> &dyn Rule {
                match self {
                    $(StopSpec::$rule(rule) => rule,)*
                }
            }
        }

        $(
            impl From<$rule> for StopSpec {
                fn from(rule: $rule) -> Self {
                    StopSpec::$rule(rule)
                }
            }
        )*
    };
}

rules! {
    max_steps::MaxSteps,
    max_rounds::MaxRounds,
    token_budget::TokenBudget,
    max_cost::MaxCost,
    max_runtime::MaxRuntime,
    timeout::Timeout,
    stagnation::Stagnation,
    loop_detection::LoopDetection,
    consecutive_errors::ConsecutiveErrors,
    critic_below::CriticBelow,
    final_result::FinalResult,
    structured_output::StructuredOutput,
    keyword::Keyword,
    content_match::ContentMatch,
    stop_on_tool::StopOnTool,
    group::AnyOf,
    group::AllOf,
}

// Implemented by hand: the derived code for a tagged enum is the largest piece of this crate, and
// is compiled once per data format.
impl<'de> Deserialize<'de> for StopSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;

        let mut fields = match Value::deserialize(deserializer)? {
            Value::Object(fields) => fields,
            other => {
                return Err(D::Error::custom(format!(
                    "a rule in JSON must be an object, such as {}, not {other}",
                    r#"{"type":"max_steps","steps":8}"#
                )));
            }
        };
        let Some(name) = fields.remove("type") else {
            return Err(D::Error::missing_field("type"));
        };
        let Value::String(name) = name else {
            return Err(D::Error::custom("the type of a rule must be a string"));
        };
        match RULES
            .iter()
            .zip(READERS)
            .find(|(row, _)| row.is_called(&name))
        {
            Some((_, read)) => read(Value::Object(fields)).map_err(D::Error::custom),
            None => {
                let known: Vec<_> = RULES.iter().map(|row| row.name).collect();
                Err(D::Error::custom(format!(
                    "unknown rule `{name}`; use one of {}",
                    known.join(", ")
                )))
            }
        }
    }
}

/// Returns the rule with this name. JSON and the short form use the same names.
pub(crate) fn row(name: &str) -> Option<&'static Row> {
    RULES.iter().copied().find(|row| row.name == name)
}

/// Returns the outcome of a run that ends with this code, and the stop reason for older viewers.
pub(crate) fn ending(code: &Code, source: &Source) -> (Outcome, &'static str) {
    let known = row(code.as_str()).and_then(|row| row.ending);
    known.unwrap_or_else(|| (code.outcome(source), code.stop_reason(source)))
}

/// What all rules of one kind share.
#[derive(Debug)]
pub(crate) struct Row {
    /// The `type` in JSON, and the start of the short form.
    pub name: &'static str,
    /// Another name that is accepted when parsing.
    pub alias: Option<&'static str>,
    /// The display name.
    pub label: &'static str,
    /// Syntax of the short form. For rules that only have a JSON form, the JSON.
    pub usage: &'static str,
    /// A valid rule: in the short form, or in JSON if there isn't one.
    pub example: &'static str,
    /// The example to show next to an invalid rule, if `example` doesn't help.
    pub correction: Option<&'static str>,
    pub when: &'static str,
    /// The example, switched off.
    #[cfg_attr(not(test), allow(dead_code, reason = "only RULES.md lists it"))]
    pub off: Option<&'static str>,
    /// The unit of the compared numbers.
    pub unit: &'static str,
    pub counts: Counts,
    /// The outcome and the stop reason for older viewers, if `model` doesn't know the rule's code.
    pub ending: Option<(Outcome, &'static str)>,
    /// The start of the sentence about a run that this rule ended, such as `Step limit reached`.
    pub headline: Option<&'static str>,
    /// Whether the rule accepts answers. All other rules end a run without one.
    pub accepts: bool,
    pub reads: Reads,
    /// The rule's form field. A rule without one has to be typed.
    pub field: Option<Field>,
    /// The rule's number that a sweep can vary.
    pub scale: Option<Scale>,
    pub parse: fn(&mut Args<'_>) -> Result<StopSpec, SpecError>,
}

/// The total that a rule limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counts {
    Steps,
    Tokens,
    Time,
    Cost,
    /// The rule doesn't limit a total that grows with every step.
    Other,
}

/// How much of a recorded step a rule reads. Each level includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reads {
    Numbers,
    /// Whether texts are equal, and whether the step has an answer.
    Hashes,
    Texts,
}

/// A rule's form field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub group: FieldGroup,
    pub input: Input,
    /// The unit shown after the field.
    pub unit: &'static str,
}

/// Groups of form fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldGroup {
    Limits,
    Progress,
    Answer,
    Critics,
}

/// The kind of input of a form field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Input {
    /// A checkbox that switches the rule on or off.
    Check,
    /// A number.
    #[default]
    Number,
    /// Text.
    Text,
    /// A tool's name.
    Tool,
    /// For each critic, a score and a number of scores in a row.
    Score,
}

/// The number of a rule that a sweep can vary.
#[derive(Debug)]
pub(crate) struct Scale {
    /// What the number counts.
    pub counts: &'static str,
    /// The smallest value that doesn't switch the rule off. `None` if any number is allowed.
    pub least: Option<f64>,
    /// The step between values in a range that doesn't specify a count.
    pub grain: f64,
    /// Whether the number belongs to one critic.
    pub per_critic: bool,
    /// The first value, the last value and the number of values to try by default, if neither the
    /// user nor the runs' data determine them.
    pub usual: (f64, f64, usize),
    /// An example of valid limits.
    pub example: &'static str,
    /// Builds the rule with this number.
    pub at: fn(f64, &Critic) -> StopSpec,
}

/// The critic whose scores a rule compares.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Critic {
    pub name: String,
    /// Number of low scores in a row.
    pub steps: u64,
}

impl Row {
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.alias == Some(name)
    }

    /// The defaults: a policy that reads only the steps' numbers and has no form field. A row must
    /// set at least `name` and `parse`.
    const BASE: Row = Row {
        name: "",
        alias: None,
        label: "",
        usage: "",
        example: "",
        correction: None,
        when: "",
        off: None,
        unit: "",
        counts: Counts::Other,
        ending: None,
        headline: None,
        accepts: false,
        reads: Reads::Numbers,
        field: None,
        scale: None,
        parse: |args| Err(args.only_json()),
    };

    /// The code of the rule's stops.
    fn code(&self) -> Code {
        Code::from(self.name)
    }

    fn compare(&self, measured: u64, op: Op, limit: u64) -> Reading {
        Reading::compare(measured, op, limit, self.unit)
    }
}

impl Field {
    const fn new(group: FieldGroup, input: Input) -> Self {
        Self {
            group,
            input,
            unit: "",
        }
    }
}

impl Scale {
    /// A scale of whole numbers from 1 up.
    const fn whole(counts: &'static str, at: fn(f64, &Critic) -> StopSpec) -> Self {
        let usual = (1.0, 10.0, 10);
        Self {
            counts,
            least: Some(1.0),
            grain: 1.0,
            per_critic: false,
            usual,
            example: "2,5,10..40",
            at,
        }
    }
}

/// A rule's limit, to be formatted for display.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Amount<'a> {
    Count(u64),
    Seconds(u64),
    Text(Cow<'a, str>),
    AnyOf(&'a [StopSpec]),
    AllOf(&'a [StopSpec]),
}

/// A rule as written.
pub(super) trait Rule {
    /// Returns the text after `name=` in the short form. `None` if the name is enough, or if only
    /// JSON can express the rule.
    fn value(&self) -> Option<String>;

    fn limit(&self) -> Amount<'_>;

    /// Compiles the rule so that it can be checked.
    ///
    /// # Errors
    /// Fails if the rule can't be used.
    fn compile(&self, compiler: Compiler<'_>) -> Result<Box<dyn Condition>, SpecError>;

    /// Returns a warning about a rule that can be used but is probably a mistake.
    fn lint(&self) -> Option<String> {
        None
    }

    /// Returns the members, if the rule is a group.
    fn members(&self) -> Option<&[StopSpec]> {
        None
    }
}

/// The context for compiling rules.
#[derive(Clone, Copy)]
pub(super) struct Compiler<'a> {
    pub(super) schemas: Option<SchemaCompiler<'a>>,
    /// Number of groups that enclose the rule.
    pub(super) depth: usize,
}

/// A compiled rule, with patterns and schemas compiled and units converted. A pure function of the
/// totals and one step's facts.
pub(crate) trait Condition: Send + Sync {
    /// Returns the gates at which the rule is checked.
    fn gates(&self) -> GateSet;

    /// Checks the rule. A group checks only the members whose gate is `due`.
    fn check(&self, due: GateSet, stats: &Stats, facts: &StepFacts) -> Check;

    /// Updates totals that depend on the rule's own numbers, which [`Stats::fold`] can't compute.
    fn fold(&self, _: &mut Stats, _: &StepFacts) {}

    /// Returns whether this answer proves that the rule wasn't true at earlier steps at which it
    /// couldn't be evaluated.
    fn settles(&self, _: &Check, _: &Stats) -> bool {
        false
    }

    /// Returns the run time in milliseconds from which the rule is always true.
    fn ends_at_ms(&self) -> Option<u64> {
        None
    }

    /// Returns whether the rule stops the run at its first gate because it can't work.
    fn fails_closed(&self) -> bool {
        false
    }
}

const AFTER_DECIDE: GateSet = GateSet::only(Gate::AfterDecide);
const AFTER_STEP: GateSet = GateSet::only(Gate::AfterStep);

fn off_at_zero() -> Check {
    Check::Off("0".into())
}

fn span(facts: &StepFacts, start: usize, end: usize) -> Evidence {
    Evidence::Text {
        step: facts.step,
        start: start as u64,
        end: end as u64,
    }
}

/// Deserializes a finite number. JSON has no other numbers, but some formats allow non-finite ones,
/// which arrive as `null`.
fn finite_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let number = Option::<f64>::deserialize(deserializer)?.filter(|number| number.is_finite());
    number.ok_or_else(|| serde::de::Error::custom("the number must be finite, not NaN or infinite"))
}

/// 2^53. Above it, an `f64` may differ from the number that was written.
pub(crate) const EXACT: f64 = 9_007_199_254_740_992.0;

/// Formats a number. Very large and very small numbers use scientific notation instead of hundreds
/// of digits.
pub(crate) fn plain(number: f64) -> String {
    let is_usual = number == 0.0 || !number.is_finite() || (1e-16..1e16).contains(&number.abs());
    if is_usual {
        number.to_string()
    } else {
        format!("{number:e}")
    }
}
