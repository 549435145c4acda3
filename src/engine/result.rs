//! What is left when a run is over? Its verdict, state, steps and events.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use super::chat::ToolCall;
use super::decision::Decision;
use super::parse::Diagnostics;
use super::state::{State, StateDiff};
use super::task::Task;
use super::toolbox::ToolResult;
use crate::error::{Error, Kind};
use crate::stop::{Code, CriticWish, Evidence, Outcome, Stats, StepFacts, StopVerdict, Usage};

/// A finished run.
#[derive(Debug)]
#[non_exhaustive]
pub struct RunResult<D> {
    /// Why it stopped.
    pub verdict: StopVerdict,
    /// The state at the end; `None` where the agent could not begin.
    pub state: Option<State<D>>,
    /// Its steps in order.
    pub steps: Vec<StepRecord>,
    /// Its phase events in order.
    pub events: Vec<EventRecord>,
    /// Completed steps.
    pub step_count: u64,
    /// How the task went.
    pub task: TaskResult,
    /// The last text that a model said, or an answer that was not accepted.
    pub last_text: Option<String>,
    /// The counters at the end; a later run may go on from them.
    pub stats: Stats,
    /// Where the trace lies.
    pub trace: Option<PathBuf>,
    /// Why the trace is not whole.
    pub trace_error: Option<String>,
}

impl<D> RunResult<D> {
    /// The accepted answer.
    pub fn answer(&self) -> Option<&str> {
        self.state.as_ref()?.final_result.as_deref()
    }

    /// The accepted answer, for callers that cannot do without.
    ///
    /// # Errors
    /// Why there is none, with the last text that might have been one.
    pub fn require_answer(&self) -> Result<&str, NoAnswer> {
        match self.answer() {
            Some(answer) if self.verdict.outcome == Outcome::Completed => Ok(answer),
            _ => Err(NoAnswer {
                verdict: Box::new(self.verdict.clone()),
                last_text: self.last_text.clone(),
            }),
        }
    }
}

/// A run without an accepted answer.
#[derive(Debug, Clone, PartialEq)]
pub struct NoAnswer {
    /// Why the run stopped.
    pub verdict: Box<StopVerdict>,
    /// The last text of the run.
    pub last_text: Option<String>,
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A step that failed is told by its own words; the recovery that was refused is the engine's business.
        let failure = self
            .verdict
            .reading
            .evidence
            .iter()
            .find_map(|evidence| match evidence {
                Evidence::Failure {
                    step,
                    phase,
                    message,
                } => Some((step, phase, message)),
                _ => None,
            });
        match failure.filter(|_| self.verdict.code == Code::RecoveryExhausted) {
            Some((step, phase, message)) => {
                write!(
                    f,
                    "the run ended without an answer: step {step} failed ({}): {message}",
                    phase.as_str()
                )
            }
            None => {
                write!(
                    f,
                    "the run ended without an answer ({}): {}",
                    self.verdict.code, self.verdict.reading.detail
                )
            }
        }
    }
}

impl std::error::Error for NoAnswer {}

/// So that a function of [`crate::Result`] takes [`RunResult::require_answer`] with `?`; the verdict is not kept.
impl From<NoAnswer> for Error {
    fn from(none: NoAnswer) -> Self {
        Error::new(Kind::NotFound, none.to_string())
    }
}

/// One step.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StepRecord {
    /// Its ordinal.
    pub step: u64,
    /// What the environment showed before it; null without one.
    pub observation: Value,
    /// What was decided; `None` where deciding failed.
    pub decision: Option<Decision>,
    /// What the actions gave.
    pub results: Vec<ToolResult>,
    /// What the critics said, in order.
    pub critics: Vec<CriticOutput>,
    /// What changed in the state since the step before.
    pub state_diff: StateDiff,
    /// What a model said, where one was asked.
    pub model: Option<ModelTurn>,
    /// What was odd about its text.
    pub diagnostics: Option<Diagnostics>,
    /// What the stop rules looked at.
    pub facts: StepFacts,
    /// The tokens of the run up to and with this step, those of judges too.
    pub tokens_total: u64,
}

/// What one critic said about a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CriticOutput {
    /// The critic.
    pub critic_name: String,
    /// What it wants.
    pub action: CriticWish,
    /// Why, or how it failed; empty where it says nothing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Its score: a number, text where it was not finite, absent where there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<Value>,
    /// Anything else.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
    /// The sentence added to the next prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instruction_patch: Option<String>,
    /// The prompt that replaces the next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified_prompt: Option<String>,
    /// The fields of the state that were set.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub state_patch: Map<String, Value>,
}

/// What a model said in a step, its last words where it was asked more than once.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ModelTurn {
    /// The text.
    pub text: String,
    /// The calls.
    pub tool_calls: Vec<ToolCall>,
    /// What its message had besides, such as its thought; see [`Reply::fields`](super::Reply::fields).
    pub fields: Map<String, Value>,
    /// Why it ended, in the provider's word.
    pub finish_reason: Option<String>,
    /// The model that answered.
    pub model: String,
    /// The tokens of every request of the step.
    pub usage: Usage,
}

/// One phase event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventRecord {
    /// The step.
    pub step: u64,
    /// The phase, as written.
    pub phase: &'static str,
    /// The stage, as written; empty for none.
    pub stage: &'static str,
    /// Whether it went well.
    pub ok: bool,
}

/// How the task went.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TaskResult {
    /// The task's id; empty for a task of words alone.
    pub task_id: String,
    /// Whether the run completed. It is the outcome that decides, not the coarse stop reason.
    pub success: bool,
    /// The coarse stop reason.
    pub stop_reason: String,
    /// The answer.
    pub final_result: Option<String>,
    /// The task's success criteria, with what the agent or a critic said of them; see [`State::set_criterion`].
    pub criteria: Vec<Criterion>,
    /// What the run took.
    pub metrics: Metrics,
}

/// A success criterion of the task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Criterion {
    /// In words.
    pub criterion: String,
    /// Whether it holds; `None` where nobody said.
    pub passed: Option<bool>,
    /// What shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
}

/// What a run took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Metrics {
    /// Completed steps.
    pub steps: u64,
    /// Seconds.
    pub elapsed_seconds: f64,
    /// Tokens sent and received.
    pub token_usage: u64,
    /// US dollars, those of a step that was decided and not done too; `None` where no model was asked, or one does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Whether any of that was estimated from tokens and prices.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cost_estimated: bool,
}

impl TaskResult {
    pub(super) fn new(
        task: &Task,
        verdict: &StopVerdict,
        answer: Option<&str>,
        told: impl Fn(&str) -> (Option<bool>, Option<String>),
        took: Duration,
        stats: &Stats,
    ) -> Self {
        let criterion = |words: &String| {
            let (passed, evidence) = told(words);
            Criterion {
                criterion: words.clone(),
                passed,
                evidence,
            }
        };
        Self {
            task_id: task.id.clone().unwrap_or_default(),
            success: verdict.outcome == Outcome::Completed,
            stop_reason: verdict.stop_reason.clone(),
            final_result: answer.map(str::to_owned),
            criteria: task.success_criteria.iter().map(criterion).collect(),
            metrics: Metrics {
                steps: stats.steps,
                elapsed_seconds: took.as_secs_f64(),
                token_usage: stats.tokens.total(),
                cost_usd: stats
                    .cost_of_all()
                    .filter(|_| stats.tokens != Usage::default()),
                cost_estimated: stats.is_cost_estimated(),
            },
        }
    }
}
