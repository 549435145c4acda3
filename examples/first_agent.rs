//! The first agent of the documentation: a real model with one tool.
//!
//! Set `OPENAI_MODEL` and `OPENAI_API_KEY`, or `OPENAI_BASE_URL` for another server. Then run
//! `cargo run --example first_agent` and `board serve runs`.

use std::path::Path;

use trace_board::engine::{Engine, LastCalls, ModelAgent, RunResult};
use trace_board::llm::Client;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Sum {
    numbers: Vec<i64>,
}

/// Runs the agent and records its trace below `runs`.
pub async fn run(model: Client, runs: &Path) -> trace_board::Result<RunResult<LastCalls>> {
    let engine = Engine::builder(ModelAgent::new("clerk", "You do sums."))
        .model(model)
        .tool_fn("add", "Adds numbers.", async |sum: Sum| {
            Ok(sum.numbers.iter().sum::<i64>())
        })
        .record_in(runs)
        .build()?;
    Ok(engine.run("What is 19 + 23?").await)
}

#[tokio::main(flavor = "current_thread")]
#[allow(
    dead_code,
    clippy::print_stdout,
    reason = "a test includes this file and calls `run`"
)]
async fn main() -> trace_board::Result<()> {
    let result = run(Client::from_env()?, Path::new("runs")).await?;
    println!("{}", result.require_answer()?);
    Ok(())
}
