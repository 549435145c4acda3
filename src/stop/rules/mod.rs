//! Which rules are there, and what is known of each? One file a rule, and one row of [`RULES`].
//!
//! A row holds what is the same for all rules of a kind: names, unit, how the short form is read, what a form and a sweep
//! may vary. Engine, agent files, what-if, sweep, the verdict page, `--rule`, `--help` and RULES.md take it from there, so
//! that a new rule is a file and a row. Knows no page and no command line.

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

use super::check::Check;
use super::custom::SchemaCompiler;
use super::facts::{GateSet, StepFacts};
use super::record::RuleEntry;
use super::spec::{Args, SpecError};
use super::stats::Stats;
use crate::model::{Code, Evidence, Gate, Op, Outcome, Reading, Source};

/// Declares the rules, each by its type in its module: the enum of all of them, and the table of their rows.
macro_rules! rules {
    ($($module:ident::$rule:ident,)*) => {
        $(pub use $module::$rule;)*

        /// A rule as written. The seven forms of awaken parse unchanged; an unknown type or key is refused.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(tag = "type", rename_all = "snake_case")]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "each rule says what it is")]
        pub enum StopSpec {
            $($rule($rule),)*
        }

        /// Every rule: limits first, then guards, then those that accept answers, then groups.
        pub(crate) static RULES: &[&Row] = &[$($rule::ROW),*];

        /// How the fields of each rule are read, in the order of [`RULES`].
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

            impl From<$rule> for RuleEntry {
                fn from(rule: $rule) -> Self {
                    StopSpec::from(rule).into()
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

// By hand: the derived code for a tagged enum is the largest piece of this crate, once for each source it is read from.
impl<'de> Deserialize<'de> for StopSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;

        let mut fields = serde_json::Map::deserialize(deserializer)?;
        let Some(name) = fields.remove("type") else {
            return Err(D::Error::missing_field("type"));
        };
        let Value::String(name) = name else {
            return Err(D::Error::custom("the type of a rule is its name, a text"));
        };
        match RULES
            .iter()
            .zip(READERS)
            .find(|(row, _)| row.is_called(&name))
        {
            Some((_, read)) => read(Value::Object(fields)).map_err(D::Error::custom),
            None => {
                let known: Vec<_> = RULES.iter().map(|row| format!("`{}`", row.name)).collect();
                Err(D::Error::custom(format!(
                    "unknown variant `{name}`, expected one of {}",
                    known.join(", ")
                )))
            }
        }
    }
}

/// The rule called `name` in JSON and in the short form.
pub(crate) fn row(name: &str) -> Option<&'static Row> {
    RULES.iter().copied().find(|row| row.name == name)
}

/// How a run ends under a code, and the reason older viewers read.
pub(super) fn ending(code: &Code, source: &Source) -> (Outcome, &'static str) {
    let known = row(code.as_str()).and_then(|row| row.ending);
    known.unwrap_or_else(|| (code.outcome(source), code.stop_reason(source)))
}

/// What is the same for all rules of a kind.
#[derive(Debug)]
pub(crate) struct Row {
    /// The `type` in JSON, and what the short form begins with.
    pub name: &'static str,
    /// Another name under which it is read.
    pub alias: Option<&'static str>,
    /// What people call it.
    pub label: &'static str,
    /// How the short form is written; the name where only JSON says the rule.
    pub usage: &'static str,
    /// A rule that is well written: the short form, or JSON where there is none.
    pub example: &'static str,
    /// What to show beside one that is not, where the example is no help.
    pub correction: Option<&'static str>,
    pub when: &'static str,
    /// The example, switched off.
    pub off: Option<&'static str>,
    /// Of the numbers that are compared.
    pub unit: &'static str,
    pub counts: Counts,
    /// How a run ends by it and the reason older viewers read, where the model does not know its code.
    pub ending: Option<(Outcome, &'static str)>,
    /// The start of the sentence about a run that it ended: `Step limit reached`.
    pub headline: Option<&'static str>,
    /// Whether it accepts answers; all others end a run without one.
    pub accepts: bool,
    pub reads: Reads,
    /// Its field in a form; without one it is typed.
    pub field: Option<Field>,
    /// Its number that a sweep can vary.
    pub scale: Option<Scale>,
    pub parse: fn(&mut Args<'_>) -> Result<StopSpec, SpecError>,
}

/// Of which sum of a run a rule measures how much is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counts {
    Steps,
    Tokens,
    Time,
    Cost,
    /// No sum that grows with every step.
    Other,
}

/// How much of a recorded step a rule looks at; each holds all before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reads {
    Numbers,
    /// Whether texts are equal, and whether there is an answer.
    Hashes,
    Texts,
}

/// A rule's field in a form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub group: FieldGroup,
    pub input: Input,
    /// What stands after the field.
    pub unit: &'static str,
}

/// Fields that stand together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldGroup {
    Limits,
    Progress,
    Answer,
    Critics,
}

/// What a field takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Input {
    /// Nothing: the rule is on or off.
    Check,
    /// A number.
    #[default]
    Number,
    /// Words.
    Text,
    /// The name of a tool.
    Tool,
    /// For each critic a score, and for how many in a row.
    Score,
}

/// The number of a rule that a sweep can vary.
#[derive(Debug)]
pub(crate) struct Scale {
    /// What it counts.
    pub counts: &'static str,
    /// The smallest that does not switch the rule off; `None` where any number may stand.
    pub least: Option<f64>,
    /// The distance of two numbers in a range that does not say how many.
    pub grain: f64,
    /// Whether a larger number stops more runs.
    pub stricter_upwards: bool,
    /// Whether it is one critic's.
    pub per_critic: bool,
    /// The first, the last and how many to try where neither a person nor what the runs took says which.
    pub usual: (f64, f64, usize),
    /// Well written limits.
    pub example: &'static str,
    /// The rule with this number.
    pub at: fn(f64, &Critic) -> StopSpec,
}

/// The critic whose scores a rule compares.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Critic {
    pub name: String,
    /// How many low scores in a row.
    pub steps: u64,
}

impl Row {
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.alias == Some(name)
    }

    /// A policy over the numbers of steps, without a field; `name` and `parse` are to be replaced.
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

    /// The code of its stops.
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
    /// Whole numbers from 1 on.
    const fn whole(counts: &'static str, at: fn(f64, &Critic) -> StopSpec) -> Self {
        let usual = (1.0, 10.0, 10);
        Self {
            counts,
            least: Some(1.0),
            grain: 1.0,
            stricter_upwards: false,
            per_critic: false,
            usual,
            example: "2,5,10..40",
            at,
        }
    }
}

/// The limit of a rule, to be written by whoever shows it.
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
    /// What stands behind `name=` in the short form; `None` where the name is enough, or JSON alone says the whole.
    fn value(&self) -> Option<String>;

    fn limit(&self) -> Amount<'_>;

    /// Makes the rule ready to be asked.
    ///
    /// # Errors
    /// Why it cannot be used.
    fn compile(&self, compiler: Compiler<'_>) -> Result<Box<dyn Condition>, SpecError>;

    /// What is doubtful about the rule though it can be used.
    fn lint(&self) -> Option<String> {
        None
    }

    /// The members of a group.
    fn members(&self) -> Option<&[StopSpec]> {
        None
    }
}

/// What rules are compiled with.
#[derive(Clone, Copy)]
pub(super) struct Compiler<'a> {
    pub(super) schemas: Option<SchemaCompiler<'a>>,
    /// Groups around the rule.
    pub(super) depth: usize,
}

/// A rule ready to be asked: patterns and schemas compiled, units converted. A pure function over the fold and one step's
/// facts.
pub(super) trait Condition: Send + Sync {
    /// Where the rule is asked.
    fn gates(&self) -> GateSet;

    /// Asks the rule; of a group, those members whose gate is `due`.
    fn check(&self, due: GateSet, stats: &Stats, facts: &StepFacts) -> Check;

    /// Takes in what the general fold cannot know: it depends on the rule's own numbers.
    fn fold(&self, _: &mut Stats, _: &StepFacts) {}

    /// Whether this answer settles that the rule was not true at earlier steps at which it could not be told.
    fn settles(&self, _: &Check, _: &Stats) -> bool {
        false
    }

    /// The time of a run in milliseconds from which on this is true whatever else happens.
    fn ends_at_ms(&self) -> Option<u64> {
        None
    }

    /// Whether it stops at the first gate because it cannot do its work.
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

/// A number in JSON, which has no others; those of other formats that are not finite come as `null`.
fn finite_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let number = Option::<f64>::deserialize(deserializer)?.filter(|number| number.is_finite());
    number.ok_or_else(|| {
        serde::de::Error::custom("a finite number is needed, not NaN or an infinite one")
    })
}

/// From here on, 2^53, a number in memory need not be the one that was written.
pub(crate) const EXACT: f64 = 9_007_199_254_740_992.0;

/// A number as it is written, and a very large or small one without its hundreds of digits.
pub(crate) fn plain(number: f64) -> String {
    let is_usual = number == 0.0 || !number.is_finite() || (1e-16..1e16).contains(&number.abs());
    if is_usual {
        number.to_string()
    } else {
        format!("{number:e}")
    }
}
