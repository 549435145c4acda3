//! A coding agent: a model reads a file, edits it and runs the test. A critic scores the test
//! result.
//!
//! Run `cargo run --example coding_agent`, then `board serve runs`. The model here is a list of
//! scripted replies, so the example needs no service. A real one is
//! [`Client::from_env()?`](trace_board::llm::Client).

use std::error::Error;
use std::path::Path;

use serde_json::json;
use trace_board::engine::{
    Agent, AgentError, CriticCx, CriticError, Done, Engine, Opinion, Prompt, Reply, RunResult,
    Scripted, State, StepCx, ToolCall,
};
use trace_board::tools::{ReadFile, ReplaceLines, RunCommand, Workspace};
use trace_board::trace::RunWriter;

/// The agent's own state. board shows each change to it.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Repair {
    /// Number of test runs.
    pub test_runs: u32,
    /// Exit code of the last test run.
    pub exit_code: Option<i64>,
}

struct Coder;

impl Agent for Coder {
    type Data = Repair;

    fn name(&self) -> &str {
        "coder"
    }

    // Without `decide`, the model decides. It gets this prompt, the results of its calls, and any
    // instructions from critics.
    fn prepare(&mut self, state: &State<Repair>, cx: &StepCx<'_>) -> Result<Prompt, AgentError> {
        Ok(Prompt::new(state, cx).system(
            "You fix bugs. Change as little as possible, and run the test before you answer.",
        ))
    }

    fn reduce(&mut self, state: &mut State<Repair>, step: &Done<'_>) -> Result<(), AgentError> {
        for result in step
            .results
            .iter()
            .filter(|result| result.tool == "run_command")
        {
            state.data.test_runs += 1;
            state.data.exit_code = result
                .output
                .get("exit_code")
                .and_then(serde_json::Value::as_i64);
        }
        Ok(())
    }
}

/// Scores by the last test result. Rejects an answer if the test doesn't pass.
fn test_passes(step: CriticCx<'_, Repair>) -> Result<Opinion, CriticError> {
    let passes = step.state.data.exit_code == Some(0);
    Ok(match (passes, step.answer()) {
        (true, _) => Opinion::proceed("the test passes").score(1.0),
        (false, None) => Opinion::proceed("the test has not passed yet").score(0.0),
        (false, Some(_)) => Opinion::retry("answered without a passing test")
            .score(0.0)
            .instruction("Run the test first."),
    })
}

/// Runs the agent and records its trace below `runs`.
pub async fn run(runs: &Path) -> Result<RunResult<Repair>, Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join("greet.sh"), "echo \"Helo, $1\"\n")?;
    std::fs::write(
        dir.path().join("test.sh"),
        "[ \"$(sh greet.sh Ada)\" = 'Hello, Ada' ]\n",
    )?;
    let workspace = Workspace::open(dir.path())?;

    let change =
        json!({"path": "greet.sh", "start_line": 1, "end_line": 1, "text": "echo \"Hello, $1\""});
    let model = Scripted::new([
        call("1", "read_file", &json!({"path": "greet.sh"}))
            .saying("I'll read the file first.")
            .usage(310, 24),
        call("2", "replace_lines", &change)
            .saying("An \"l\" is missing.")
            .usage(380, 41),
        Reply::text("It's fixed.").usage(450, 12), // The critic sends this back.
        call("3", "run_command", &json!({"command": "sh test.sh"})).usage(520, 19),
        Reply::text("`greet.sh` printed \"Helo\". It's fixed, and the test passes.").usage(560, 21),
    ]);
    let engine = Engine::builder(Coder)
        .model(model)
        .tool(ReadFile::new(workspace.clone(), 16 << 10))
        .tool(ReplaceLines::new(workspace.clone()))
        .tool(RunCommand::new(workspace))
        .critic_fn("test", test_passes)
        .max_steps(10)
        .record(RunWriter::create(runs, "coding_agent")?)
        .build()?;
    Ok(engine.run("The test of greet.sh fails. Fix it.").await)
}

fn call(id: &str, tool: &str, arguments: &serde_json::Value) -> Reply {
    Reply::calls([ToolCall::new(id, tool, arguments.to_string())])
}

#[tokio::main(flavor = "current_thread")]
#[allow(
    dead_code,
    clippy::print_stdout,
    reason = "a test includes this file and calls `run`"
)]
async fn main() -> Result<(), Box<dyn Error>> {
    let result = run(Path::new("runs")).await?;
    println!("{}: {}", result.verdict.code, result.require_answer()?);
    Ok(())
}
