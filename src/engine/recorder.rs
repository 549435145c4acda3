//! Converts the engine's records into the lines of a trace.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::chat::{ToolCall, ToolSpec};
use super::decision::{Action, Decision};
use super::parse::Diagnostics;
use super::recovery::Failures;
use super::result::{CriticOutput, StepRecord, TaskResult};
use super::state::StateDiff;
use super::task::Task;
use super::toolbox::{Status, ToolResult};
use crate::stop::{LineFacts, StepError, StopRules, StopVerdict, Usage, text_hash};
use crate::trace::{RunEnd, RunInfo, host_name};

/// One line of `steps.jsonl`.
#[derive(Serialize)]
pub(super) struct StepLine<'a> {
    step_id: u64,
    agent_id: &'a str,
    observation: &'a Value,
    decision: Option<&'a Decision>,
    actions: &'a [Action],
    action_results: Vec<ResultLine<'a>>,
    tool_invocations: Vec<Invocation<'a>>,
    critic_outputs: &'a [CriticOutput],
    state_diff: &'a StateDiff,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_response: Option<Response<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<Context>,
    /// Cost of the step's models in US dollars. Missing if no model was called or a cost is
    /// unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parser_diagnostics: Option<&'a Diagnostics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a StepError>,
    /// Size in bytes of the complete line, if it was too long to be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    cut_from_bytes: Option<u64>,
    /// The changed fields, if their values were too long to be written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changed: Vec<&'a str>,
    facts: LineFacts,
}

#[derive(Serialize)]
struct ResultLine<'a> {
    status: Status,
    output: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    /// The full size in bytes of a truncated output.
    #[serde(skip_serializing_if = "Option::is_none")]
    cut_from_bytes: Option<usize>,
}

#[derive(Serialize)]
pub(super) struct Invocation<'a> {
    tool_name: &'a str,
    status: Status,
    attempts: u32,
    latency_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_category: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

#[derive(Serialize)]
struct Response<'a> {
    text: &'a str,
    model_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tool_calls: &'a [ToolCall],
    /// Additional fields of the message, as the service sent them.
    #[serde(skip_serializing_if = "Map::is_empty")]
    fields: &'a Map<String, Value>,
}

/// The names are QitOS's. All fields except `tokens_total` cover only this step.
#[derive(Serialize)]
struct Context {
    input_tokens_total: u64,
    output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_tokens: Option<u64>,
    tokens_total: u64,
    counting_mode: &'static str,
}

impl<'a> StepLine<'a> {
    pub(super) fn new(agent: &'a str, record: &'a StepRecord) -> Self {
        Self {
            step_id: record.step,
            agent_id: agent,
            observation: &record.observation,
            decision: record.decision.as_ref(),
            actions: record
                .decision
                .as_ref()
                .map_or(&[], |decision| &decision.actions),
            action_results: record.results.iter().map(result_line).collect(),
            tool_invocations: invocations(&record.results).collect(),
            critic_outputs: &record.critics,
            state_diff: &record.state_diff,
            model_response: record.model.as_ref().map(|turn| Response {
                text: &turn.text,
                model_name: &turn.model,
                finish_reason: turn.finish_reason.as_deref(),
                tool_calls: &turn.tool_calls,
                fields: &turn.fields,
            }),
            context: context(record),
            cost_usd: record.facts.cost().filter(|_| asked_a_model(record)),
            parser_diagnostics: record.diagnostics.as_ref(),
            error: record.facts.error.as_ref(),
            cut_from_bytes: None,
            changed: Vec::new(),
            facts: LineFacts::from(&record.facts),
        }
    }
}

impl StepLine<'_> {
    /// Returns the line without the tools' outputs, the environment's observation and the state's
    /// values. So decisions and opinions are recorded even if the rest doesn't fit.
    pub(super) fn without_values(mut self, bytes: u64) -> Self {
        self.changed = self.state_diff.keys().collect();
        self.state_diff = StateDiff::nothing();
        self.observation = &Value::Null;
        for result in &mut self.action_results {
            result.cut_from_bytes = result
                .cut_from_bytes
                .or(Some(result.output.to_string().len()));
            result.output = &Value::Null;
        }
        self.cut_from_bytes = Some(bytes);
        self
    }
}

fn result_line(result: &ToolResult) -> ResultLine<'_> {
    ResultLine {
        status: result.status,
        output: &result.output,
        error: result.error.as_ref().map(|error| error.message.as_str()),
        cut_from_bytes: result.cut,
    }
}

/// Describes the calls without their outputs.
pub(super) fn invocations(results: &[ToolResult]) -> impl Iterator<Item = Invocation<'_>> {
    results.iter().map(|result| Invocation {
        tool_name: &result.tool,
        status: result.status,
        attempts: result.attempts,
        latency_ms: result.latency.as_micros() as f64 / 1000.0,
        error_category: result.error.as_ref().map(|error| error.category),
        error: result.error.as_ref().map(|error| error.message.as_str()),
    })
}

/// Returns the tokens of all models that were called in the step, including judges and calls
/// without a usable reply.
fn context(record: &StepRecord) -> Option<Context> {
    let usage = spent(record);
    asked_a_model(record).then_some(Context {
        input_tokens_total: usage.input,
        output_tokens: usage.output,
        cached_tokens: usage.cached,
        reasoning_tokens: usage.reasoning,
        tokens_total: record.tokens_total,
        counting_mode: if usage.estimated {
            "engine_estimate"
        } else {
            "provider_usage"
        },
    })
}

fn asked_a_model(record: &StepRecord) -> bool {
    record.model.is_some() || spent(record) != Usage::default()
}

fn spent(record: &StepRecord) -> Usage {
    record
        .facts
        .usage
        .unwrap_or_default()
        .plus(record.facts.late_usage)
}

/// The data of a run before its first step.
pub(super) struct Opening<'a> {
    pub(super) agent: &'a str,
    pub(super) task: &'a Task,
    pub(super) model: Option<&'a str>,
    pub(super) parser: Option<(&'a str, &'a str)>,
    pub(super) tools: &'a [ToolSpec],
    pub(super) seed: Option<u64>,
    pub(super) rules: &'a StopRules,
    pub(super) record_process: bool,
    pub(super) env: Option<&'a str>,
    /// The guards, in order.
    pub(super) guards: Vec<&'a str>,
    pub(super) started_at: i64,
    /// The parent run.
    pub(super) parent: Option<&'a str>,
    /// The run from which this one branched.
    pub(super) branched_from: Value,
    /// Additional data about the run.
    pub(super) metadata: &'a Map<String, Value>,
}

impl Opening<'_> {
    /// Returns the data for the manifest.
    pub(super) fn info(&self) -> RunInfo {
        let tools = self
            .tools
            .iter()
            .map(|tool| (tool.name.clone(), json!({"source": "function"})));
        let rules = serde_json::to_value(self.rules).unwrap_or_default();
        // Everything except the task that can change what a run does: agent, tools, rules, seed,
        // model.
        let config = json!([
            self.agent,
            self.model,
            self.parser,
            self.tools,
            rules,
            self.seed
        ])
        .to_string();
        RunInfo {
            agent_name: Some(self.agent.to_owned()),
            model_id: self.model.map(str::to_owned),
            parser_name: self.parser.map(|(name, _)| name.to_owned()),
            prompt_protocol: self.parser.map(|(_, contract)| contract.to_owned()),
            tool_versions: tools.collect(),
            tool_manifest: self
                .tools
                .iter()
                .filter_map(|tool| serde_json::to_value(tool).ok())
                .collect(),
            run_config_hash: Some(format!("{:016x}", text_hash(&config))),
            seed: self.seed.into(),
            pid: self.record_process.then(std::process::id),
            host: self.record_process.then(host_name).flatten(),
            started_at: self.started_at,
            stop_rules: rules,
            parent_run_id: self
                .branched_from
                .get("run_id")
                .and_then(Value::as_str)
                .or(self.parent)
                .map(str::to_owned),
            branched_from: self.branched_from.clone(),
            task_meta: self.task_meta(),
            run_meta: self.run_meta(),
            ..RunInfo::default()
        }
    }

    pub(super) fn task_meta(&self) -> Value {
        let task = serde_json::to_value(self.task).unwrap_or_default();
        let mut meta = Map::new();
        meta.insert("task_id".to_owned(), self.task.id.clone().into());
        for key in [
            "budget",
            "success_criteria",
            "resources",
            "env_spec",
            "constraints",
            "inputs",
            "metadata",
        ] {
            meta.extend(task.get(key).map(|value| (key.to_owned(), value.clone())));
        }
        Value::Object(meta)
    }

    pub(super) fn run_meta(&self) -> Value {
        let mut meta = json!({
            "model_name": self.model,
            "parser": self.parser.map(|(name, _)| name),
            "tool_count": self.tools.len(),
            "tools": self.tools.iter().map(|tool| &tool.name).collect::<Vec<_>>(),
            "env": {"enabled": self.env.is_some(), "name": self.env},
        });
        if let Some(meta) = meta.as_object_mut() {
            if !self.guards.is_empty() {
                meta.insert("guards".to_owned(), json!(self.guards));
            }
            if !self.metadata.is_empty() {
                meta.insert("metadata".to_owned(), json!(self.metadata));
            }
        }
        meta
    }
}

/// Returns the manifest's data for the end of the run.
pub(super) fn ending(
    verdict: &StopVerdict,
    task: &TaskResult,
    failures: &Failures,
    took: Duration,
    ts: i64,
) -> RunEnd {
    RunEnd {
        ended_at: Some(ts),
        stop: Some(verdict.clone()),
        final_result: task.final_result.clone(),
        failures_unlisted: failures.total.saturating_sub(failures.report.len() as u64),
        failures: failures
            .report
            .iter()
            .filter_map(|failure| serde_json::to_value(failure).ok())
            .collect(),
        token_usage: Some(task.metrics.token_usage),
        latency_seconds: Some(took.as_secs_f64()),
        cost: task.metrics.cost_usd,
        cost_estimated: task.metrics.cost_estimated,
        task_result: serde_json::to_value(task).unwrap_or_default(),
    }
}
