//! Provides a small agent that plays a list of decisions, and the tools for testing it.

mod critics;
mod delegates;
mod edges;
mod ends;
mod failures;
mod functions;
mod guarantees;
mod guards;
mod models;
#[cfg(feature = "board")]
mod replay;
mod resumed;
mod shapes;
mod sources;
mod waits;

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::builder::DEFAULT_STEPS;
#[cfg(not(feature = "board"))]
use super::clock::SystemClock;
use super::parse::*;
use super::task::TaskIssue;
use super::*;
use crate::stop::StopVerdict;
use crate::trace::RunWriter;

/// The data of the test agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Notes {
    pub(super) seen: Vec<String>,
}

/// Plays decisions in order, then waits.
pub(super) struct Play {
    pub(super) decisions: VecDeque<Decision>,
    /// Whether results are added to the state.
    pub(super) takes_notes: bool,
}

impl Play {
    pub(super) fn new(decisions: impl IntoIterator<Item = Decision>) -> Self {
        Self {
            decisions: decisions.into_iter().collect(),
            takes_notes: true,
        }
    }
}

impl Agent for Play {
    type Data = Notes;

    fn name(&self) -> &str {
        "play"
    }

    async fn decide(
        &mut self,
        _: &State<Notes>,
        _: &StepCx<'_>,
    ) -> Result<Option<Decision>, AgentError> {
        Ok(Some(
            self.decisions
                .pop_front()
                .unwrap_or_else(|| Decision::wait("the play is over")),
        ))
    }

    fn reduce(&mut self, state: &mut State<Notes>, step: &Done<'_>) -> Result<(), AgentError> {
        if self.takes_notes {
            state
                .data
                .seen
                .extend(step.results.iter().map(ToolResult::text));
        }
        Ok(())
    }
}

/// Leaves every decision to the model.
struct Asks;

impl Agent for Asks {
    type Data = ();

    fn name(&self) -> &str {
        "asks"
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EchoArgs {
    pub(super) text: String,
}

/// Returns its argument.
pub(super) struct Echo;

impl Tool for Echo {
    type Args = EchoArgs;
    type Output = String;

    fn name(&self) -> &str {
        "echo"
    }

    fn description(&self) -> &str {
        "Says it again."
    }

    async fn call(&self, args: EchoArgs, _: ToolCx<'_>) -> Result<String, ToolError> {
        Ok(args.text)
    }
}

pub(super) fn echo(text: &str) -> Decision {
    Decision::act([Action::new("echo").arg("text", text)])
}

pub(super) fn engine(decisions: impl IntoIterator<Item = Decision>) -> Builder<Play> {
    Engine::builder(Play::new(decisions))
        .tool(Echo)
        .clock(Stepping::new(
            1_700_000_000_000_000,
            Duration::from_millis(1),
        ))
        .record_process(false)
}

/// Waits until it is dropped, and requests that itself.
pub(super) struct Waits {
    pub(super) cancel: Cancel,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct NoArgs {}

impl Tool for Waits {
    type Args = NoArgs;
    type Output = ();

    fn name(&self) -> &str {
        "waits"
    }

    fn description(&self) -> &str {
        "Waits for ever."
    }

    async fn call(&self, _: NoArgs, _: ToolCx<'_>) -> Result<(), ToolError> {
        self.cancel.now();
        std::future::pending().await
    }
}

/// The three files of a run, read from disk.
pub(super) struct Disk {
    pub(super) manifest: Value,
    pub(super) steps: Vec<Value>,
    pub(super) step_lines: Vec<String>,
    pub(super) events: Vec<Value>,
    /// The temporary directory, which is removed when this is dropped.
    pub(super) dir: Option<tempfile::TempDir>,
}

impl Disk {
    pub(super) fn read(dir: &Path) -> Self {
        let text = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
        let lines = |name: &str| -> Vec<String> { text(name).lines().map(str::to_owned).collect() };
        let parsed = |lines: &[String]| {
            lines
                .iter()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect()
        };
        let step_lines = lines("steps.jsonl");
        Self {
            manifest: serde_json::from_str(&text("manifest.json")).unwrap(),
            steps: parsed(&step_lines),
            step_lines,
            events: parsed(&lines("events.jsonl")),
            dir: None,
        }
    }

    pub(super) fn end(&self) -> &Value {
        let end = self.events.last().unwrap();
        assert_eq!(end["phase"], "END");
        assert_eq!(end["payload"]["stop"], self.manifest["stop"]);
        end
    }

    /// Returns the phases and stages of a step's events.
    pub(super) fn phases(&self, step: u64) -> Vec<String> {
        let of_step = self.events.iter().filter(|event| event["step_id"] == step);
        let name = |event: &Value| match event["payload"]["stage"].as_str() {
            Some(stage) => format!("{}/{stage}", event["phase"].as_str().unwrap()),
            None => event["phase"].as_str().unwrap().to_owned(),
        };
        of_step.map(name).collect()
    }
}

/// Runs to the end with a trace, and reads the trace.
pub(super) async fn recorded<A: Agent>(
    builder: Builder<A>,
    task: impl Into<Task>,
) -> (RunResult<A::Data>, Disk) {
    let dir = tempfile::tempdir().unwrap();
    let writer = RunWriter::create(dir.path(), "r").unwrap();
    let result = builder.record(writer).build().unwrap().run(task).await;
    assert_eq!(result.trace_error, None);
    let disk = Disk::read(&dir.path().join("r"));
    let counts = (
        disk.manifest["step_count"].as_u64(),
        disk.manifest["event_count"].as_u64(),
    );
    assert_eq!(
        counts,
        (
            Some(disk.steps.len() as u64),
            Some(disk.events.len() as u64)
        )
    );
    assert_eq!(disk.events.len(), result.events.len());
    (
        result,
        Disk {
            dir: Some(dir),
            ..disk
        },
    )
}

pub(super) fn ending(verdict: &StopVerdict) -> (&str, &str, Option<u64>) {
    (
        verdict.code.as_str(),
        verdict.criterion.as_str(),
        verdict.step,
    )
}
