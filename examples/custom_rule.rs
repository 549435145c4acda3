//! A custom stop rule and a custom critic: a shopper that stops before the money runs out.
//!
//! Run `cargo run --example custom_rule`, then `board serve runs`. The verdict names the rule with
//! its numbers, and the page shows at each step how close the rule was to stopping the run.

use std::error::Error;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trace_board::engine::{
    Action, Agent, AgentError, Decision, Done, Engine, Opinion, RunResult, State, StepCx, ToolError,
};
use trace_board::stop::{Check, CriterionError, Op, Reading, StopCriterion, StopCx};
use trace_board::trace::RunWriter;

/// The shopper's state.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Purse {
    /// Coins spent.
    pub spent: u64,
    /// Items bought, in order.
    pub bought: Vec<String>,
}

/// The items for sale, with their prices.
const SHELF: [(&str, u64); 4] = [("bread", 3), ("cheese", 6), ("olives", 4), ("wine", 9)];

/// The shopper's coins at the start.
const MONEY: u64 = 20;

#[derive(Deserialize, JsonSchema)]
struct Item {
    name: String,
}

async fn buy(item: Item) -> Result<u64, ToolError> {
    let found = SHELF.iter().find(|(name, _)| *name == item.name);
    found
        .map(|(_, price)| *price)
        .ok_or_else(|| ToolError::new(format!("there is no {:?} on the shelf", item.name)))
}

struct Shopper;

impl Agent for Shopper {
    type Data = Purse;

    fn name(&self) -> &str {
        "shopper"
    }

    // This agent makes its own decisions and needs no model.
    async fn decide(
        &mut self,
        state: &State<Purse>,
        _: &StepCx<'_>,
    ) -> Result<Option<Decision>, AgentError> {
        Ok(Some(match SHELF.get(state.data.bought.len()) {
            Some((name, _)) => Decision::act([Action::new("buy").arg("name", *name)])
                .because("it is the next item on the shelf"),
            None => Decision::final_answer(format!("bought {}", state.data.bought.join(", "))),
        }))
    }

    fn reduce(&mut self, state: &mut State<Purse>, step: &Done<'_>) -> Result<(), AgentError> {
        for (action, result) in step.decision.actions.iter().zip(step.results) {
            state.data.spent += result.output.as_u64().unwrap_or_default();
            state.data.bought.extend(
                action
                    .args
                    .get("name")
                    .and_then(|name| name.as_str())
                    .map(str::to_owned),
            );
        }
        Ok(())
    }
}

/// Stops the run once less than `reserve` of the money is left.
struct Reserve {
    reserve: u64,
}

impl StopCriterion<State<Purse>> for Reserve {
    fn id(&self) -> &str {
        "reserve"
    }

    fn check(&self, cx: &StopCx<'_, State<Purse>>) -> Result<Check, CriterionError> {
        let left = MONEY.saturating_sub(cx.state.data.spent);
        let reading = Reading::compare(left, Op::Below, self.reserve, "coins");
        if left >= self.reserve {
            return Ok(Check::Pass(reading));
        }
        let sentence = format!(
            "{left} of {MONEY} coins left, below the reserve of {}",
            self.reserve
        );
        Ok(Check::stop("reserve", reading.detail(sentence)))
    }
}

/// Runs the agent and records its trace below `runs`.
pub async fn run(runs: &Path) -> Result<RunResult<Purse>, Box<dyn Error>> {
    let engine = Engine::builder(Shopper)
        .tool_fn(
            "buy",
            "Buys one item from the shelf and returns its price.",
            buy,
        )
        // Scores by the share of money left.
        .critic_fn("thrift", |step| {
            let left = MONEY.saturating_sub(step.state.data.spent);
            let opinion = Opinion::proceed(format!("{left} of {MONEY} coins left"));
            Ok(opinion.score(left as f64 / MONEY as f64))
        })
        .rules(|rules| rules.policy_with(Reserve { reserve: 8 }))
        .max_steps(10)
        .record(RunWriter::create(runs, "custom_rule")?)
        .build()?;
    Ok(engine.run("Buy dinner.").await)
}

#[tokio::main(flavor = "current_thread")]
#[allow(
    dead_code,
    clippy::print_stdout,
    reason = "a test includes this file and calls `run`"
)]
async fn main() -> Result<(), Box<dyn Error>> {
    let result = run(Path::new("runs")).await?;
    let bought = result
        .state
        .map(|state| state.data.bought.join(", "))
        .unwrap_or_default();
    println!(
        "{} after {} steps, with {bought}",
        result.verdict.code, result.step_count
    );
    Ok(())
}
