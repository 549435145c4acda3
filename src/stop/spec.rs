//! How is a rule written down? As JSON (`{"type": "max_steps", "steps": 8}`) or short (`max_steps=8`).

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use regex::RegexBuilder;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::custom::{SchemaCheck, SchemaCompiler};
use super::rules::Rule;

/// A compiled pattern may take this many bytes. Patterns come from users; matching is linear, compiling need not be.
pub(super) const MAX_REGEX_BYTES: usize = 1 << 20;
/// Groups may lie this deep in each other.
const MAX_NESTING: usize = 16;

/// A rule as written. The seven forms of awaken parse unchanged; an unknown type or key is refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum StopSpec {
    /// Ends after so many decisions; the actions of the last one are not done.
    MaxRounds {
        /// Decisions; 0 is off.
        rounds: u64,
    },
    /// Ends after so many completed steps. Also read as potato's `max_iterations`.
    #[serde(alias = "max_iterations")]
    MaxSteps {
        /// Steps; 0 is off.
        #[serde(alias = "max")]
        steps: u64,
    },
    /// Ends when a decision comes later than this.
    Timeout {
        /// Seconds since the run began; 0 is off.
        seconds: u64,
    },
    /// Ends when a step is over at this time or later.
    MaxRuntime {
        /// Seconds since the run began; 0 is off.
        seconds: u64,
    },
    /// Ends when more tokens were used.
    TokenBudget {
        /// Tokens sent and received; 0 is off.
        max_total: u64,
    },
    /// Ends after so many failed steps in a row.
    ConsecutiveErrors {
        /// Failed steps; 0 is off.
        max: u64,
    },
    /// Ends when a tool is asked for, before it runs.
    StopOnTool {
        /// Its exact name; empty is off.
        tool_name: String,
    },
    /// Ends when the model's text matches, before its actions run.
    ContentMatch {
        /// A regular expression, found anywhere; empty is off.
        pattern: String,
    },
    /// Ends when the model says the same again and again; steps without text are skipped.
    LoopDetection {
        /// Equal texts in a row; below 2 is off.
        window: u64,
    },
    /// Ends when the state does not change.
    Stagnation {
        /// Steps in a row that changed nothing; 0 is off.
        steps: u64,
    },
    /// Ends when a critic's scores stay low.
    CriticBelow {
        /// The critic's name.
        critic: String,
        /// The score that is still good enough.
        score: f64,
        /// Scores in a row; 0 is off.
        #[serde(default = "one")]
        steps: u64,
    },
    /// Accepts any final result that is not empty.
    FinalResult {},
    /// Accepts an answer that holds a word.
    Keyword {
        /// The word, as it is spelled; empty is off.
        keyword: String,
    },
    /// Accepts an answer that is JSON.
    StructuredOutput {
        /// The JSON Schema it must fit; draft 2020-12 unless its `$schema` names another. Needs the feature `schema`,
        /// or a validator of one's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        schema: Option<Value>,
        /// Whether a fenced block of the answer will do.
        #[serde(default)]
        fenced: bool,
    },
    /// True where one member is.
    AnyOf {
        /// The members.
        of: Vec<StopSpec>,
    },
    /// True where every member that is not off is.
    AllOf {
        /// The members.
        of: Vec<StopSpec>,
    },
}

fn one() -> u64 {
    1
}

/// Why a rule cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError(String);

impl SpecError {
    /// An error that says `message`.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SpecError {}

impl StopSpec {
    /// Whether the rule accepts answers; all others end a run without one. A group does where every member does.
    pub fn is_completion(&self) -> bool {
        match self {
            StopSpec::FinalResult {} | StopSpec::Keyword { .. } | StopSpec::StructuredOutput { .. } => true,
            StopSpec::AnyOf { of } | StopSpec::AllOf { of } => !of.is_empty() && of.iter().all(Self::is_completion),
            _ => false,
        }
    }

    /// What is doubtful about the rule though it can be used: a pattern that does not compile fails closed.
    pub fn lint(&self) -> Vec<String> {
        match self {
            StopSpec::ContentMatch { pattern } => match regex(pattern) {
                Rule::InvalidRegex { error, .. } => {
                    // Of a syntax error the last line says what is wrong; those before draw where.
                    let why = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
                    vec![format!("the pattern {pattern:?} does not compile: {why}")]
                }
                _ => Vec::new(),
            },
            StopSpec::AnyOf { of } | StopSpec::AllOf { of } => of.iter().flat_map(Self::lint).collect(),
            _ => Vec::new(),
        }
    }

    /// The rule's name, its `type` in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            StopSpec::MaxRounds { .. } => "max_rounds",
            StopSpec::MaxSteps { .. } => "max_steps",
            StopSpec::Timeout { .. } => "timeout",
            StopSpec::MaxRuntime { .. } => "max_runtime",
            StopSpec::TokenBudget { .. } => "token_budget",
            StopSpec::ConsecutiveErrors { .. } => "consecutive_errors",
            StopSpec::StopOnTool { .. } => "stop_on_tool",
            StopSpec::ContentMatch { .. } => "content_match",
            StopSpec::LoopDetection { .. } => "loop_detection",
            StopSpec::Stagnation { .. } => "stagnation",
            StopSpec::CriticBelow { .. } => "critic_below",
            StopSpec::FinalResult {} => "final_result",
            StopSpec::Keyword { .. } => "keyword",
            StopSpec::StructuredOutput { .. } => "structured_output",
            StopSpec::AnyOf { .. } => "any_of",
            StopSpec::AllOf { .. } => "all_of",
        }
    }

    /// Whether the rule can be used at all.
    ///
    /// # Errors
    /// An empty group, groups nested deeper than 16, a score that is not finite, a schema that does not compile,
    /// or one for which there is neither `schemas` nor the feature `schema`.
    pub fn validate(&self, schemas: Option<SchemaCompiler<'_>>) -> Result<(), SpecError> {
        self.compile(schemas).map(|_| ())
    }

    /// Makes the rule ready to be asked.
    pub(super) fn compile(&self, schemas: Option<SchemaCompiler<'_>>) -> Result<Rule, SpecError> {
        self.compile_at(schemas, 0)
    }

    fn compile_at(&self, schemas: Option<SchemaCompiler<'_>>, depth: usize) -> Result<Rule, SpecError> {
        Ok(match self {
            StopSpec::MaxRounds { rounds } => Rule::MaxRounds(*rounds),
            StopSpec::MaxSteps { steps } => Rule::MaxSteps(*steps),
            StopSpec::Timeout { seconds } => Rule::Timeout { limit_ms: seconds.saturating_mul(1000) },
            StopSpec::MaxRuntime { seconds } => Rule::MaxRuntime { limit_ms: seconds.saturating_mul(1000) },
            StopSpec::TokenBudget { max_total } => Rule::TokenBudget(*max_total),
            StopSpec::ConsecutiveErrors { max } => Rule::ConsecutiveErrors(*max),
            StopSpec::StopOnTool { tool_name } => Rule::StopOnTool(tool_name.clone()),
            StopSpec::ContentMatch { pattern } => regex(pattern),
            StopSpec::LoopDetection { window } => Rule::LoopDetection(*window),
            StopSpec::Stagnation { steps } => Rule::Stagnation(*steps),
            StopSpec::CriticBelow { critic, score, steps } if score.is_finite() => Rule::CriticBelow {
                critic: critic.clone(),
                score: *score,
                steps: *steps,
                key: format!("{critic} < {score}"),
            },
            StopSpec::CriticBelow { score, .. } => {
                return Err(SpecError::new(format!("critic_below needs a finite score, not {score}")));
            }
            StopSpec::FinalResult {} => Rule::FinalResult,
            StopSpec::Keyword { keyword } => Rule::Keyword(keyword.clone()),
            StopSpec::StructuredOutput { schema, fenced } => {
                let compile = schemas.unwrap_or(&built_in);
                let schema = schema.as_ref().map(compile).transpose().map_err(|wrong| {
                    SpecError::new(format!("the schema of structured_output does not compile: {wrong}"))
                })?;
                Rule::StructuredOutput { schema, fenced: *fenced }
            }
            StopSpec::AnyOf { of } => group("any_of", of, schemas, depth, Rule::AnyOf)?,
            StopSpec::AllOf { of } => group("all_of", of, schemas, depth, Rule::AllOf)?,
        })
    }

    /// Reads the short form or JSON; a schema is named by its file, which `load` reads.
    ///
    /// # Errors
    /// What is wrong with the text, naming the forms that exist.
    pub fn parse_with(text: &str, load: impl FnOnce(&str) -> Result<Value, String>) -> Result<Self, SpecError> {
        let text = text.trim();
        if text.starts_with('{') {
            return serde_json::from_str(text).map_err(|wrong| SpecError::new(format!("the rule {text}: {wrong}")));
        }
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value)),
            None => (text, None),
        };
        let number = || match value.map(|value| value.trim().parse()) {
            Some(Ok(number)) => Ok(number),
            _ => Err(SpecError::new(format!("{name} needs a whole number, as in {name}=8, not {text:?}"))),
        };
        let words = || match value {
            Some(value) => Ok(value.to_owned()),
            None => Err(SpecError::new(format!("{name} needs a value, as in {name}=TEXT"))),
        };
        Ok(match name {
            "max_rounds" => StopSpec::MaxRounds { rounds: number()? },
            "max_steps" | "max_iterations" => StopSpec::MaxSteps { steps: number()? },
            "timeout" => StopSpec::Timeout { seconds: number()? },
            "max_runtime" => StopSpec::MaxRuntime { seconds: number()? },
            "token_budget" => StopSpec::TokenBudget { max_total: number()? },
            "consecutive_errors" => StopSpec::ConsecutiveErrors { max: number()? },
            "loop_detection" => StopSpec::LoopDetection { window: number()? },
            "stagnation" => StopSpec::Stagnation { steps: number()? },
            "stop_on_tool" => StopSpec::StopOnTool { tool_name: words()? },
            "content_match" => StopSpec::ContentMatch { pattern: words()? },
            "keyword" => StopSpec::Keyword { keyword: words()? },
            "critic_below" => critic_below(&words()?)?,
            "structured_output" => {
                let file = value.map(str::trim).filter(|file| !file.is_empty());
                let schema = file.map(load).transpose().map_err(SpecError::new)?;
                StopSpec::StructuredOutput { schema, fenced: false }
            }
            "final_result" if value.is_none() => StopSpec::FinalResult {},
            "final_result" => return Err(SpecError::new("final_result takes no value")),
            _ => return Err(SpecError::new(format!("no rule is called {name:?}; there are {}", names().join(", ")))),
        })
    }
}

/// The short form, or JSON where there is none.
impl fmt::Display for StopSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let json = || serde_json::to_string(self).map_err(|_| fmt::Error);
        // A blank at the end of a text, or a name that looks like a score, would be read as something else.
        let exact = |short: String| match short.parse::<Self>() {
            Ok(read) if read != *self => json(),
            _ => Ok(short),
        };
        match self {
            StopSpec::MaxRounds { rounds } => write!(f, "max_rounds={rounds}"),
            StopSpec::MaxSteps { steps } => write!(f, "max_steps={steps}"),
            StopSpec::Timeout { seconds } => write!(f, "timeout={seconds}"),
            StopSpec::MaxRuntime { seconds } => write!(f, "max_runtime={seconds}"),
            StopSpec::TokenBudget { max_total } => write!(f, "token_budget={max_total}"),
            StopSpec::ConsecutiveErrors { max } => write!(f, "consecutive_errors={max}"),
            StopSpec::StopOnTool { tool_name } => f.write_str(&exact(format!("stop_on_tool={tool_name}"))?),
            StopSpec::ContentMatch { pattern } => f.write_str(&exact(format!("content_match={pattern}"))?),
            StopSpec::LoopDetection { window } => write!(f, "loop_detection={window}"),
            StopSpec::Stagnation { steps } => write!(f, "stagnation={steps}"),
            StopSpec::CriticBelow { critic, score, steps: 1 } => {
                f.write_str(&exact(format!("critic_below={critic}:{score}"))?)
            }
            StopSpec::CriticBelow { critic, score, steps } => {
                f.write_str(&exact(format!("critic_below={critic}:{score}:{steps}"))?)
            }
            StopSpec::FinalResult {} => f.write_str("final_result"),
            StopSpec::Keyword { keyword } => f.write_str(&exact(format!("keyword={keyword}"))?),
            StopSpec::StructuredOutput { schema: None, fenced: false } => f.write_str("structured_output"),
            StopSpec::StructuredOutput { .. } | StopSpec::AnyOf { .. } | StopSpec::AllOf { .. } => {
                f.write_str(&json()?)
            }
        }
    }
}

impl FromStr for StopSpec {
    type Err = SpecError;

    /// [`StopSpec::parse_with`] for callers that read no files.
    fn from_str(text: &str) -> Result<Self, SpecError> {
        Self::parse_with(text, |file| Err(format!("the schema file {file:?} cannot be read here")))
    }
}

/// The names of the short form.
pub(super) fn names() -> Vec<&'static str> {
    super::table::DOCS.iter().filter(|doc| !doc.name.ends_with("_of")).map(|doc| doc.name).collect()
}

/// `NAME:SCORE` or `NAME:SCORE:STEPS`; a name may hold colons itself.
fn critic_below(text: &str) -> Result<StopSpec, SpecError> {
    let wrong = || SpecError::new(format!("critic_below is written NAME:SCORE or NAME:SCORE:STEPS, not {text:?}"));
    let make = |critic: &str, score: &str, steps: u64| {
        let score: f64 = score.trim().parse().ok().filter(|score: &f64| score.is_finite())?;
        (!critic.is_empty()).then(|| StopSpec::CriticBelow { critic: critic.to_owned(), score, steps })
    };
    let (rest, last) = text.rsplit_once(':').ok_or_else(wrong)?;
    let with_steps = rest.rsplit_once(':').and_then(|(critic, score)| make(critic, score, last.trim().parse().ok()?));
    with_steps.or_else(|| make(rest, last, 1)).ok_or_else(wrong)
}

#[cfg(feature = "schema")]
fn built_in(schema: &Value) -> Result<Arc<dyn SchemaCheck>, String> {
    super::schema::compile(schema)
}

#[cfg(not(feature = "schema"))]
fn built_in(_: &Value) -> Result<Arc<dyn SchemaCheck>, String> {
    Err("it needs the feature `schema`, which this build is without; without a schema any JSON is accepted".into())
}

fn regex(pattern: &str) -> Rule {
    let pattern = pattern.to_owned();
    if pattern.is_empty() {
        return Rule::ContentMatch { pattern, regex: None };
    }
    match RegexBuilder::new(&pattern).size_limit(MAX_REGEX_BYTES).build() {
        Ok(regex) => Rule::ContentMatch { pattern, regex: Some(regex) },
        Err(error) => Rule::InvalidRegex { pattern, error: error.to_string() },
    }
}

/// A member that fails closed makes its whole group fail closed; in an `all_of` it would else be outvoted.
fn group(
    name: &str,
    of: &[StopSpec],
    schemas: Option<SchemaCompiler<'_>>,
    depth: usize,
    make: impl FnOnce(Vec<Rule>) -> Rule,
) -> Result<Rule, SpecError> {
    if of.is_empty() {
        return Err(SpecError::new(format!("{name} needs at least one member")));
    }
    if depth >= MAX_NESTING {
        return Err(SpecError::new(format!("{name} is nested deeper than {MAX_NESTING} groups")));
    }
    let mut members =
        of.iter().map(|spec| spec.compile_at(schemas, depth + 1)).collect::<Result<Vec<_>, SpecError>>()?;
    match members.iter().position(|rule| matches!(rule, Rule::InvalidRegex { .. })) {
        Some(broken) => Ok(members.swap_remove(broken)),
        None => Ok(make(members)),
    }
}
