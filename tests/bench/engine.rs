//! Measures the engine itself: scripted steps without a model, with and without a trace, compared
//! with QitOS.

use std::process::Command;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trace_board::engine::{
    Action, Agent, AgentError, Builder, Decision, Done, Engine, State, StepCx, Tool, ToolCx,
    ToolError,
};
use trace_board::stop::StopSpec;
use trace_board::trace::RunWriter;

use crate::Options;
use crate::report;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Counter {
    calls: u64,
}

struct Worker;

impl Agent for Worker {
    type Data = Counter;

    fn name(&self) -> &str {
        "worker"
    }

    async fn decide(
        &mut self,
        _: &State<Counter>,
        _: &StepCx<'_>,
    ) -> Result<Option<Decision>, AgentError> {
        Ok(Some(Decision::act([Action::new("noop")])))
    }

    fn reduce(&mut self, state: &mut State<Counter>, step: &Done<'_>) -> Result<(), AgentError> {
        state.data.calls += step.results.len() as u64;
        Ok(())
    }
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

struct Noop;

impl Tool for Noop {
    type Args = Nothing;
    type Output = bool;

    fn name(&self) -> &str {
        "noop"
    }

    fn description(&self) -> &str {
        "Does nothing."
    }

    async fn call(&self, _: Nothing, _: ToolCx<'_>) -> Result<bool, ToolError> {
        Ok(true)
    }
}

/// Adds eight rules that are evaluated but never fire, as for a real agent.
fn with_rules(builder: Builder<Worker>) -> Builder<Worker> {
    let rules = [
        "max_rounds=1000000",
        "timeout=86400",
        "token_budget=1000000",
        "consecutive_errors=5",
        "stop_on_tool=deploy",
        "content_match=(?i)give up",
        "loop_detection=5",
        "max_runtime=86400",
    ];
    rules.iter().fold(builder, |builder, rule| {
        builder.stop(rule.parse::<StopSpec>().expect("a rule"))
    })
}

/// Builds an engine that works until its step budget is used up. With `trace`, it records a run of
/// that name in the directory.
fn engine(steps: u64, ruled: bool, trace: Option<(&std::path::Path, &str)>) -> Engine<Worker> {
    let mut builder = Engine::builder(Worker).tool(Noop).max_steps(steps);
    if ruled {
        builder = with_rules(builder);
    }
    if let Some((scratch, name)) = trace {
        builder = builder.record(RunWriter::create(scratch, name).expect("a new directory"));
    }
    builder.build().expect("an engine")
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime")
}

/// Writes a run of `steps` steps with eight rules.
pub(crate) fn write_run(scratch: &std::path::Path, name: &str, steps: u64) {
    let result =
        runtime().block_on(engine(steps, true, Some((scratch, name))).run("Do nothing, often."));
    assert_eq!(result.trace_error, None);
}

/// Returns the time per step in the fastest of five runs, since the slower ones were disturbed by
/// other work on the machine. Also returns the bytes of both files.
fn measure(steps: u64, traced: bool, ruled: bool, scratch: &std::path::Path) -> (Duration, u64) {
    let runtime = runtime();
    let mut best = Duration::MAX;
    let mut bytes = 0;
    for round in 0..5 {
        let name = format!("bench-{steps}-{ruled}-{round}");
        let engine = engine(steps, ruled, traced.then_some((scratch, name.as_str())));
        let start = Instant::now();
        let result = runtime.block_on(engine.run("Do nothing, often."));
        best = best.min(start.elapsed());
        assert_eq!(
            (result.step_count, result.verdict.code.as_str()),
            (steps, "budget_steps")
        );
        assert_eq!(result.trace_error, None);
        if traced {
            let size = |file| {
                std::fs::metadata(scratch.join(&name).join(file))
                    .expect("a trace file")
                    .len()
            };
            bytes = size("steps.jsonl") + size("events.jsonl");
        }
    }
    (best, bytes)
}

pub(crate) fn run(options: &Options) {
    let steps = options.number("--steps", 1000);
    let scratch = options.scratch();
    for (what, traced, ruled, goal) in [
        ("trace off", false, false, "5 us"),
        ("trace off, 8 rules", false, true, ""),
        ("trace on", true, false, "25 us"),
        ("trace on, 8 rules", true, true, ""),
    ] {
        for steps in [steps, 10 * steps] {
            let (took, bytes) = measure(steps, traced, ruled, scratch.path());
            let goal = if goal.is_empty() {
                String::new()
            } else {
                format!("{goal} a step")
            };
            report::per_step(&format!("{what}, {steps} steps"), took, steps, &goal);
            if traced && !ruled {
                report::number(
                    "both files, bytes a step",
                    bytes as f64 / steps as f64,
                    "1229",
                );
            }
        }
    }
    qitos(steps, scratch.path());
}

/// Measures the same work in QitOS. `BOARD_QITOS` names a Python interpreter that has its package.
fn qitos(steps: u64, scratch: &std::path::Path) {
    let Ok(python) = std::env::var("BOARD_QITOS") else {
        println!(
            "  qitos: not measured; BOARD_QITOS=/path/to/python with qitos==0.3.0 installed would"
        );
        return;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/noop.py");
    for trace in ["off", "on"] {
        let out = Command::new(&python)
            .arg(script)
            .arg(steps.to_string())
            .arg(trace)
            .arg(scratch)
            .output();
        match out {
            Ok(out) if out.status.success() => {
                let text = String::from_utf8_lossy(&out.stdout).into_owned();
                let mut numbers = text
                    .split_whitespace()
                    .filter_map(|word| word.parse::<f64>().ok());
                let (seconds, bytes) = (
                    numbers.next().unwrap_or(f64::NAN),
                    numbers.next().unwrap_or(f64::NAN),
                );
                report::number(
                    &format!("qitos, trace {trace}, {steps} steps: us a step"),
                    seconds * 1e6 / steps as f64,
                    "",
                );
                if trace == "on" {
                    report::number("qitos, both files, bytes a step", bytes / steps as f64, "");
                }
            }
            Ok(out) => println!(
                "  qitos, trace {trace}: failed: {}",
                String::from_utf8_lossy(&out.stderr)
            ),
            Err(error) => println!("  qitos: {python}: {error}"),
        }
    }
}
