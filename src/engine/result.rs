//! Defines the result of a run: its verdict, state, steps and events.

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
use crate::model::TraceFile;
use crate::stop::{Code, CriticWish, Evidence, Outcome, Stats, StepFacts, StopVerdict, Usage};
use crate::trace::WholeLines;

/// A finished run.
#[derive(Debug)]
#[non_exhaustive]
pub struct RunResult<D> {
    /// Why the run stopped.
    pub verdict: StopVerdict,
    /// The final state, with the stop reason. `None` if the agent couldn't create one.
    pub state: Option<State<D>>,
    /// The steps in order.
    pub steps: Vec<StepRecord>,
    /// The phase events in order, without their payloads, so that a long run doesn't keep them in
    /// memory. [`RunResult::recorded_events`] reads them from the trace.
    pub events: Vec<EventRecord>,
    /// Number of recorded steps, including one that was cut short, and the steps before the run was
    /// resumed.
    pub step_count: u64,
    /// The result of the task.
    pub task: TaskResult,
    /// The model's last text, or an answer that wasn't accepted.
    pub last_text: Option<String>,
    /// The final counters. A later run can continue from them.
    pub stats: Stats,
    /// The directory of the trace.
    pub trace: Option<PathBuf>,
    /// Why the trace is incomplete.
    pub trace_error: Option<String>,
}

impl<D> RunResult<D> {
    /// Returns the accepted answer.
    pub fn answer(&self) -> Option<&str> {
        self.state.as_ref()?.final_result.as_deref()
    }

    /// Reads the events of the run's trace with their payloads, one at a time. Each is an object as
    /// the trace format describes it. A resumed run has the events of its earlier part, too.
    ///
    /// # Errors
    /// Fails if the run wasn't recorded, or its file can't be opened. An item is an error if its
    /// line isn't JSON. If the file can't be read on, the error is the last item.
    pub fn recorded_events(
        &self,
    ) -> crate::Result<impl Iterator<Item = crate::Result<Value>> + fmt::Debug + use<D>> {
        let Some(dir) = &self.trace else {
            let error = Error::new(Kind::NotFound, "the run has no trace");
            return Err(error.hint("record the run with `Builder::record`"));
        };
        let path = dir.join(TraceFile::Events.name());
        let lines = WholeLines::open(&path).map_err(|error| {
            let what = format!("can't read {}", path.display());
            Error::new(Kind::Unreadable, what).because(error)
        })?;
        Ok(RecordedEvents(Some((path, lines))))
    }

    /// Returns the accepted answer, for callers that need one.
    ///
    /// # Errors
    /// Returns why there is no answer, with the last text that may have been one.
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
        // If a step failed, shows its message instead of the recovery policy's refusal.
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
        let is_step = matches!(
            self.verdict.code,
            Code::StepFailed | Code::RecoveryExhausted
        );
        match failure.filter(|_| is_step) {
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

/// Makes `?` work with [`RunResult::require_answer`] in a function that returns [`crate::Result`].
/// The verdict is lost.
impl From<NoAnswer> for Error {
    fn from(none: NoAnswer) -> Self {
        Error::new(Kind::NotFound, none.to_string())
    }
}

/// One step of a run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StepRecord {
    /// The step's number, counted from 0.
    pub step: u64,
    /// The environment's observation before the step; null without an environment.
    pub observation: Value,
    /// The decision. `None` if there was none because deciding failed.
    pub decision: Option<Decision>,
    /// The results of the actions.
    pub results: Vec<ToolResult>,
    /// The critics' outputs, in order.
    pub critics: Vec<CriticOutput>,
    /// The changes of the state since the previous step.
    pub state_diff: StateDiff,
    /// The model's reply, if a model was called.
    pub model: Option<ModelTurn>,
    /// Problems with the text of the reply.
    pub diagnostics: Option<Diagnostics>,
    /// The facts that the stop rules use.
    pub facts: StepFacts,
    /// Tokens of the run up to and including this step, including those of judges.
    pub tokens_total: u64,
}

/// One critic's output for a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CriticOutput {
    /// The critic's name.
    pub critic_name: String,
    /// What the critic asks for.
    pub action: CriticWish,
    /// The reason, or the error message. Empty if there isn't one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The score: a number, or text if not finite. Missing if there isn't one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<Value>,
    /// Additional data.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
    /// The sentence to add to the next prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instruction_patch: Option<String>,
    /// The replacement for the next prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified_prompt: Option<String>,
    /// The state fields that were set.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub state_patch: Map<String, Value>,
}

/// A model's reply in a step. If the model was called several times, the last reply.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ModelTurn {
    /// The text.
    pub text: String,
    /// The tool calls.
    pub tool_calls: Vec<ToolCall>,
    /// Additional fields of the message, such as the reasoning; see
    /// [`Reply::fields`](super::Reply::fields).
    pub fields: Map<String, Value>,
    /// Why the reply ended, in the provider's term.
    pub finish_reason: Option<String>,
    /// The model that replied.
    pub model: String,
    /// Tokens of all requests of the step.
    pub usage: Usage,
}

/// One phase event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventRecord {
    /// The step's number, counted from 0.
    pub step: u64,
    /// The phase, as written in the trace.
    pub phase: &'static str,
    /// The stage, as written in the trace. Empty if there isn't one.
    pub stage: &'static str,
    /// Whether the event reports a success.
    pub ok: bool,
    /// When it happened, in microseconds since the Unix epoch.
    pub ts: i64,
    /// The error message, truncated to 1 KiB.
    pub error: Option<String>,
}

/// The events of a trace, read one at a time.
#[derive(Debug)]
struct RecordedEvents(Option<(PathBuf, WholeLines)>);

impl Iterator for RecordedEvents {
    type Item = crate::Result<Value>;

    fn next(&mut self) -> Option<Self::Item> {
        let (path, lines) = self.0.as_mut()?;
        let number = lines.so_far().lines + 1;
        let line = lines.next_line().transpose()?;
        let is_unreadable = line.is_err();
        let read = line.and_then(|line| Ok(serde_json::from_slice(line)?));
        let read = read.map_err(|wrong| {
            let what = format!("can't read line {number} of {}", path.display());
            Error::new(Kind::Unreadable, what).because(wrong)
        });
        // After a failed read, nothing more can be read. A line that isn't JSON hides no other.
        if is_unreadable {
            self.0 = None;
        }
        Some(read)
    }
}

/// The result of a task.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TaskResult {
    /// The task's id. Empty if the task has none.
    pub task_id: String,
    /// Whether the run completed. Determined by the outcome, not by the stop reason.
    pub success: bool,
    /// The stop reason, which is less specific than the verdict.
    pub stop_reason: String,
    /// The answer.
    pub final_result: Option<String>,
    /// The task's success criteria, with the judgments of the agent and critics; see
    /// [`State::set_criterion`].
    pub criteria: Vec<Criterion>,
    /// The resources that the run used.
    pub metrics: Metrics,
}

/// A success criterion of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Criterion {
    /// The criterion in words.
    pub criterion: String,
    /// Whether the criterion holds. `None` if it wasn't judged.
    pub passed: Option<bool>,
    /// The evidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
}

/// The resources that a run used.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Metrics {
    /// Number of recorded steps, as [`RunResult::step_count`].
    pub steps: u64,
    /// Run time in seconds.
    pub elapsed_seconds: f64,
    /// Input and output tokens.
    pub token_usage: u64,
    /// Cost in US dollars, including a step that was decided but not executed. `None` if no model
    /// was called or a cost is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Whether part of the cost was estimated from tokens and prices.
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
        steps: u64,
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
                steps,
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
