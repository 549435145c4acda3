//! Defines the content of the manifest: what is known when a run begins, what is known when it
//! ends, and the counts.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::model::{Outcome, StopVerdict};

/// A time that isn't known. No time outside of the years 0 to 9999 is written.
pub const UNKNOWN_TIME: i64 = i64::MIN;

/// The facts known when a run begins. `None`, `Null` and empty values are written as unknown.
#[derive(Debug, Clone, Default)]
pub struct RunInfo {
    /// When the run began, in microseconds since the epoch, or [`UNKNOWN_TIME`].
    pub started_at: i64,
    /// The model's name.
    pub model_id: Option<String>,
    /// The model's family.
    pub model_family: Option<String>,
    /// A hash of the prompt.
    pub prompt_hash: Option<String>,
    /// The protocol for requesting decisions.
    pub prompt_protocol: Option<String>,
    /// The parser of the model's replies.
    pub parser_name: Option<String>,
    /// The known version of each tool, by name.
    pub tool_versions: Map<String, Value>,
    /// The tool descriptions that the model gets.
    pub tool_manifest: Vec<Value>,
    /// The seed.
    pub seed: Value,
    /// A hash of the configuration.
    pub run_config_hash: Option<String>,
    /// The task: id, budget, criteria.
    pub task_meta: Value,
    /// The run: model, parser, tools, environment.
    pub run_meta: Value,
    /// The parent run.
    pub parent_run_id: Option<String>,
    /// The agent's name.
    pub agent_name: Option<String>,
    /// The process id of the writer.
    pub pid: Option<u32>,
    /// The machine that the writer runs on.
    pub host: Option<String>,
    /// The stop rules as configured.
    pub stop_rules: Value,
    /// The run whose first steps this one starts with, and how many there are. `Null` for none.
    pub branched_from: Value,
}

/// The facts known when a run ends.
#[derive(Debug, Clone, Default)]
pub struct RunEnd {
    /// When the run ended, in microseconds since the epoch. Defaults to the time of the last line.
    pub ended_at: Option<i64>,
    /// Why it ended.
    pub stop: Option<StopVerdict>,
    /// The answer.
    pub final_result: Option<String>,
    /// The failures that reached the recovery policy, or the first of them.
    pub failures: Vec<Value>,
    /// The number of further failures, which aren't in `failures`.
    pub failures_unlisted: u64,
    /// The tokens of the whole run, if it used a model.
    pub token_usage: Option<u64>,
    /// The run time on a monotonic clock, in seconds.
    pub latency_seconds: Option<f64>,
    /// The cost in US dollars.
    pub cost: Option<f64>,
    /// Whether any of the cost was estimated from tokens and prices.
    pub cost_estimated: bool,
    /// The result of the task.
    pub task_result: Value,
}

impl RunEnd {
    /// Returns the manifest's status. QitOS calls every end `completed` unless it's an error or was
    /// requested from outside.
    fn status(&self) -> &'static str {
        match self.stop.as_ref().map(|stop| stop.outcome) {
            Some(Outcome::Failed) => "failed",
            Some(Outcome::Cancelled) => "stopped",
            _ => "completed",
        }
    }
}

/// The manifest's keys in order. The first ones are those that QitOS writes and its viewer reads.
#[derive(Debug, Serialize)]
pub(super) struct ManifestText<'a> {
    run_id: &'a str,
    schema_version: &'static str,
    status: &'static str,
    updated_at: Option<&'a str>,
    event_count: u64,
    step_count: u64,
    summary: Summary<'a>,
    model_id: &'a str,
    prompt_hash: &'a str,
    tool_versions: &'a Map<String, Value>,
    seed: &'a Value,
    run_config_hash: &'a str,
    git_sha: (),
    package_version: (),
    benchmark_name: (),
    benchmark_split: (),
    model_family: Option<&'a str>,
    prompt_protocol: Option<&'a str>,
    parser_name: Option<&'a str>,
    tool_manifest: &'a [Value],
    run_spec: (),
    experiment_spec: (),
    official_run: bool,
    replay_mode: (),
    replay_note: (),
    token_usage: Option<u64>,
    latency_seconds: Option<f64>,
    cost: Option<f64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cost_estimated: bool,
    parent_run_id: Option<&'a str>,
    agent_name: Option<&'a str>,
    writer: &'static str,
    started_at: Option<&'a str>,
    pid: Option<u32>,
    host: Option<&'a str>,
    stop_rules: &'a Value,
    resumed_from: (),
    #[serde(skip_serializing_if = "Value::is_null")]
    branched_from: &'a Value,
    /// Its keys are in alphabetical order, as in all manifests written so far.
    stop: Option<Value>,
    /// How the files differ from what was written.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    altered: &'a [String],
}

#[derive(Debug, Serialize)]
struct Summary<'a> {
    stop_reason: Option<&'a str>,
    final_result: Option<&'a str>,
    steps: u64,
    failure_report: FailureReport<'a>,
    token_usage: Option<u64>,
    latency_seconds: Option<f64>,
    cost: Option<f64>,
    task_meta: &'a Value,
    task_result: &'a Value,
    run_meta: &'a Value,
}

/// `{}` while the run is active.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum FailureReport<'a> {
    Running {},
    Ended {
        failure_count: u64,
        failures: &'a [Value],
        stop_reason: Option<&'a str>,
    },
}

/// The part that changes between two manifests of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now<'a> {
    pub(super) run_id: &'a str,
    pub(super) started_at: Option<&'a str>,
    pub(super) updated_at: Option<&'a str>,
    pub(super) steps: u64,
    pub(super) events: u64,
    pub(super) altered: &'a [String],
}

impl<'a> ManifestText<'a> {
    /// Returns the manifest of an active run, or of one that ended with `end`.
    pub(super) fn new(now: Now<'a>, info: &'a RunInfo, end: Option<&'a RunEnd>) -> Self {
        const UNKNOWN: &str = "unknown";
        const NULL: &Value = &Value::Null;
        let stop = end.and_then(|end| end.stop.as_ref());
        let stop_reason = stop.map(|stop| &*stop.stop_reason);
        let token_usage = end.and_then(|end| end.token_usage);
        let latency_seconds = end.and_then(|end| end.latency_seconds);
        let cost = end.and_then(|end| end.cost);
        let failures = |end: &'a RunEnd| FailureReport::Ended {
            failure_count: (end.failures.len() as u64).saturating_add(end.failures_unlisted),
            failures: &end.failures,
            stop_reason,
        };
        Self {
            run_id: now.run_id,
            schema_version: "v1",
            status: end.map_or("running", RunEnd::status),
            updated_at: now.updated_at,
            event_count: now.events,
            step_count: now.steps,
            summary: Summary {
                stop_reason,
                final_result: end.and_then(|end| end.final_result.as_deref()),
                steps: now.steps,
                failure_report: end.map_or(FailureReport::Running {}, failures),
                token_usage,
                latency_seconds,
                cost,
                task_meta: &info.task_meta,
                task_result: end.map_or(NULL, |end| &end.task_result),
                run_meta: &info.run_meta,
            },
            model_id: info.model_id.as_deref().unwrap_or(UNKNOWN),
            prompt_hash: info.prompt_hash.as_deref().unwrap_or(UNKNOWN),
            tool_versions: &info.tool_versions,
            seed: &info.seed,
            run_config_hash: info.run_config_hash.as_deref().unwrap_or(UNKNOWN),
            git_sha: (),
            package_version: (),
            benchmark_name: (),
            benchmark_split: (),
            model_family: info.model_family.as_deref(),
            prompt_protocol: info.prompt_protocol.as_deref(),
            parser_name: info.parser_name.as_deref(),
            tool_manifest: &info.tool_manifest,
            run_spec: (),
            experiment_spec: (),
            official_run: false,
            replay_mode: (),
            replay_note: (),
            token_usage,
            latency_seconds,
            cost,
            cost_estimated: end.is_some_and(|end| end.cost_estimated),
            parent_run_id: info.parent_run_id.as_deref(),
            agent_name: info.agent_name.as_deref(),
            writer: concat!("board ", env!("CARGO_PKG_VERSION")),
            started_at: now.started_at,
            pid: info.pid,
            host: info.host.as_deref(),
            stop_rules: &info.stop_rules,
            resumed_from: (),
            branched_from: &info.branched_from,
            stop: stop.and_then(|stop| serde_json::to_value(stop).ok()),
            altered: now.altered,
        }
    }
}
