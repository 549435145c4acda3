//! Reads the lines of completed steps, to restore what the engine knew when it wrote them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::decision::{Action, Decision};
use super::super::tool::ToolError;
use super::super::toolbox::{Status, ToolResult};
use crate::model::{Record, TraceFile};
use crate::stop::{CriticWish, StepFacts};
use crate::trace::{Beginning, WholeLines, step_of};

/// Reads the lines of a file. Errors name the line.
pub(super) struct Lines {
    path: PathBuf,
    lines: WholeLines,
}

impl Lines {
    pub(super) fn open(dir: &Path, file: TraceFile) -> Result<Self, String> {
        let path = dir.join(file.name());
        let lines = WholeLines::open(&path)
            .map_err(|error| format!("can't read {}: {error}", path.display()))?;
        Ok(Self { path, lines })
    }

    /// Reads the next complete line. Returns `None` at the end.
    pub(super) fn next_with<T>(
        &mut self,
        read: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let at = self.lines.so_far().lines + 1;
        let line = self
            .lines
            .next_line()
            .map_err(|error| error.to_string())
            .map(|line| line.map(read));
        let read = line.map(Option::transpose).and_then(|read| read);
        read.map_err(|why| format!("line {at} of {}: {why}", self.path.display()))
    }

    pub(super) fn so_far(&self) -> Beginning {
        self.lines.so_far()
    }

    pub(super) fn torn(&self) -> u64 {
        self.lines.torn()
    }
}

/// A completed step.
#[derive(Debug)]
pub(super) struct StepBack {
    pub(super) facts: StepFacts,
    pub(super) decision: Option<Decision>,
    pub(super) results: Vec<ToolResult>,
    /// The new values of the state fields that the step changed.
    pub(super) changes: BTreeMap<String, Box<RawValue>>,
    /// If a critic asked for a retry: the prompt that replaces the next one, if it set one.
    pub(super) prompt: Option<Option<String>>,
    /// The decision's answer, or else the model's last text.
    pub(super) said: Option<String>,
}

#[derive(Deserialize)]
struct Line {
    step_id: u64,
    decision: Option<Decision>,
    #[serde(default)]
    actions: Vec<Action>,
    #[serde(default)]
    action_results: Vec<ResultBack>,
    #[serde(default)]
    tool_invocations: Vec<Invocation>,
    #[serde(default)]
    critic_outputs: Vec<CriticBack>,
    #[serde(default)]
    state_diff: BTreeMap<String, After>,
    model_response: Option<Response>,
    cut_from_bytes: Option<u64>,
}

#[derive(Deserialize)]
struct ResultBack {
    status: String,
    #[serde(default)]
    output: Value,
    error: Option<String>,
    cut_from_bytes: Option<usize>,
}

#[derive(Deserialize)]
struct Invocation {
    tool_name: String,
    attempts: u32,
    latency_ms: f64,
    error_category: Option<String>,
}

#[derive(Deserialize)]
struct CriticBack {
    action: CriticWish,
    modified_prompt: Option<String>,
}

#[derive(Deserialize)]
struct After {
    after: Box<RawValue>,
}

#[derive(Deserialize)]
struct Response {
    text: String,
}

impl StepBack {
    pub(super) fn read(ordinal: u64, line: &[u8]) -> Result<Self, String> {
        let record = Record::of(line);
        let step = step_of(&record).ok_or("not a step")?;
        let facts = StepFacts::from_step(ordinal, &step)?;
        let line: Line = serde_json::from_str(&record.text).map_err(|wrong| wrong.to_string())?;
        if line.step_id != ordinal {
            return Err(format!(
                "found step {} instead of step {ordinal}",
                line.step_id
            ));
        }
        if let Some(bytes) = line.cut_from_bytes {
            return Err(format!(
                "the step was truncated from {bytes} bytes, so the state after it is unknown"
            ));
        }
        let actions = line.actions;
        let decision = line.decision.map(|decision| Decision {
            actions,
            ..decision
        });
        let answer = decision
            .as_ref()
            .and_then(|decision| decision.final_answer.clone());
        let text = line
            .model_response
            .map(|response| response.text)
            .filter(|text| !text.trim().is_empty());
        let decisive = line
            .critic_outputs
            .into_iter()
            .find(|critic| critic.action != CriticWish::Continue);
        Ok(Self {
            facts,
            results: line
                .action_results
                .into_iter()
                .zip(line.tool_invocations)
                .map(result)
                .collect(),
            decision,
            changes: line
                .state_diff
                .into_iter()
                .map(|(key, change)| (key, change.after))
                .collect(),
            prompt: decisive
                .filter(|critic| critic.action == CriticWish::Retry)
                .map(|critic| critic.modified_prompt),
            said: answer.or(text),
        })
    }
}

fn result((result, call): (ResultBack, Invocation)) -> ToolResult {
    let status = match result.status.as_str() {
        "success" => Status::Success,
        "timed_out" => Status::TimedOut,
        "cancelled" => Status::Cancelled,
        _ => Status::Error,
    };
    // The categories that the engine and its tools use.
    let known = [
        "cancelled",
        "denied",
        "invalid_arguments",
        "panic",
        "runtime_error",
        "timeout",
        "tool_not_found",
    ];
    let category = known
        .into_iter()
        .find(|known| call.error_category.as_deref() == Some(known));
    let error = result
        .error
        .map(|message| ToolError::new(message).category(category.unwrap_or("runtime_error")));
    ToolResult {
        tool: call.tool_name,
        status,
        output: result.output,
        cut: result.cut_from_bytes,
        error,
        attempts: call.attempts,
        latency: Duration::try_from_secs_f64(call.latency_ms / 1000.0).unwrap_or_default(),
    }
}
