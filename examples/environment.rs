//! An environment: a lift that is called to a floor. It provides an observation before each step,
//! processes the step, and reports when the episode is over.
//!
//! Run `cargo run --example environment`, then `board serve runs`. Each step has its observation
//! and reward.

use std::error::Error;
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use trace_board::engine::{
    Action, Agent, AgentError, Decision, Engine, Env, EnvError, EnvStep, RunResult, State, StepCx,
    Task, Tool, ToolCx, ToolError, ToolResult,
};
use trace_board::trace::RunWriter;

struct Lift {
    floor: i64,
    called_to: i64,
}

impl Lift {
    fn view(&self) -> Value {
        json!({"floor": self.floor, "called_to": self.called_to})
    }
}

impl Env for Lift {
    fn name(&self) -> &str {
        "lift"
    }

    fn capabilities(&self) -> Vec<String> {
        vec!["move".to_owned()]
    }

    async fn reset(&mut self, _: &Task) -> Result<(), EnvError> {
        self.floor = 0;
        Ok(())
    }

    async fn observe(&mut self) -> Result<Value, EnvError> {
        Ok(self.view())
    }

    async fn step(&mut self, _: &Decision, results: &[ToolResult]) -> Result<EnvStep, EnvError> {
        self.floor += results
            .iter()
            .filter_map(|result| result.output.as_i64())
            .sum::<i64>();
        let done = self.floor == self.called_to;
        Ok(EnvStep {
            observation: self.view(),
            done,
            reward: Some(if done { 1.0 } else { -0.1 }),
            ..EnvStep::default()
        })
    }
}

#[derive(Deserialize, JsonSchema)]
struct Floors {
    /// Positive is up.
    floors: i64,
}

struct Move;

impl Tool for Move {
    type Args = Floors;
    type Output = i64;

    fn name(&self) -> &str {
        "move"
    }

    fn description(&self) -> &str {
        "Moves the lift by at most two floors."
    }

    // If the environment doesn't offer this capability, the run ends with an error before its first
    // step.
    fn needs(&self) -> &[&str] {
        &["move"]
    }

    async fn call(&self, args: Floors, _: ToolCx<'_>) -> Result<i64, ToolError> {
        if args.floors.abs() > 2 {
            return Err(ToolError::new(
                "the lift moves by at most two floors at once",
            ));
        }
        Ok(args.floors)
    }
}

struct Operator;

impl Agent for Operator {
    type Data = ();

    fn name(&self) -> &str {
        "operator"
    }

    async fn decide(
        &mut self,
        _: &State<()>,
        cx: &StepCx<'_>,
    ) -> Result<Option<Decision>, AgentError> {
        let at = |key: &str| cx.observation.get(key).and_then(Value::as_i64);
        let (Some(floor), Some(goal)) = (at("floor"), at("called_to")) else {
            return Err(AgentError::fatal("the observation has no floor"));
        };
        let floors = (goal - floor).clamp(-2, 2);
        Ok(Some(
            Decision::act([Action::new("move").arg("floors", floors)])
                .because(format!("moving from floor {floor} toward {goal}")),
        ))
    }
}

/// Runs the agent and records its trace below `runs`.
pub async fn run(runs: &Path) -> Result<RunResult<()>, Box<dyn Error>> {
    let engine = Engine::builder(Operator)
        .tool(Move)
        .env(Lift {
            floor: 0,
            called_to: 5,
        })
        .max_steps(10)
        .record(RunWriter::create(runs, "environment")?)
        .build()?;
    Ok(engine
        .run("Move the lift to the floor that called it.")
        .await)
}

#[tokio::main(flavor = "current_thread")]
#[allow(
    dead_code,
    clippy::print_stdout,
    reason = "a test includes this file and calls `run`"
)]
async fn main() -> Result<(), Box<dyn Error>> {
    let result = run(Path::new("runs")).await?;
    println!("{} after {} steps", result.verdict.code, result.step_count);
    Ok(())
}
