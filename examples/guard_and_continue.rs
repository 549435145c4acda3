//! A guard, a hook and a run in two parts: a shopper that isn't allowed to buy everything, is
//! observed by a hook, and resumes with `resume` in the same trace after reaching its step limit.
//!
//! Run `cargo run --example guard_and_continue`, then `board serve runs`. The refused call is shown in
//! its step with the guard's reason, and the run page shows where the run was resumed.

use std::error::Error;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trace_board::engine::{
    Action, Agent, AgentError, Builder, Decision, Done, Earlier, Engine, GuardCx, Hook, Moment,
    Pass, RunResult, State, StepCx,
};
use trace_board::trace::RunWriter;

/// The shopper's state. Read back from the trace when the run resumes.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Basket {
    /// Number of items on the list that were requested.
    pub asked: usize,
    /// Items bought.
    pub bought: Vec<String>,
}

const LIST: [&str; 4] = ["bread", "wine", "cheese", "olives"];

#[derive(Deserialize, JsonSchema)]
struct Item {
    name: String,
}

struct Shopper;

impl Agent for Shopper {
    type Data = Basket;

    fn name(&self) -> &str {
        "shopper"
    }

    async fn decide(
        &mut self,
        state: &State<Basket>,
        _: &StepCx<'_>,
    ) -> Result<Option<Decision>, AgentError> {
        Ok(Some(match LIST.get(state.data.asked) {
            Some(name) => Decision::act([Action::new("buy").arg("name", *name)]),
            None => Decision::final_answer(format!("bought {}", state.data.bought.join(", "))),
        }))
    }

    fn reduce(&mut self, state: &mut State<Basket>, step: &Done<'_>) -> Result<(), AgentError> {
        state.data.asked += step.decision.actions.len();
        // A refused call has no output.
        state.data.bought.extend(
            step.results
                .iter()
                .filter_map(|result| result.output.as_str().map(str::to_owned)),
        );
        Ok(())
    }
}

/// Refuses calls that buy wine.
fn no_wine(call: GuardCx<'_, Basket>) -> Result<Pass, String> {
    let is_wine = call.args.get("name").is_some_and(|name| name == "wine");
    Ok(if is_wine {
        Pass::Deny("the shopper is too young".to_owned())
    } else {
        Pass::Allow
    })
}

/// Records each call that is executed, and how each part ends.
struct Notes(Arc<Mutex<Vec<String>>>);

impl<D> Hook<D> for Notes {
    fn name(&self) -> &str {
        "notes"
    }

    fn on(&mut self, moment: &Moment<'_, D>) -> Result<(), String> {
        let line = match moment {
            Moment::Call { step, action } => format!("step {step}: {}", action.name),
            Moment::RunEnd { verdict } => format!("ended: {}", verdict.code),
            _ => return Ok(()),
        };
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(line);
        Ok(())
    }
}

fn shopper(notes: &Arc<Mutex<Vec<String>>>) -> Builder<Shopper> {
    Engine::builder(Shopper)
        .tool_fn("buy", "Buys one item.", async |item: Item| Ok(item.name))
        .guard_fn("no wine", no_wine)
        .hook(Notes(notes.clone()))
}

/// Runs the agent for two steps, then resumes it, with its trace below `runs`. Also returns the
/// hook's notes.
pub async fn run(runs: &Path) -> Result<(RunResult<Basket>, Vec<String>), Box<dyn Error>> {
    let notes = Arc::default();
    let writer = RunWriter::create(runs, "guard_and_continue")?;
    shopper(&notes)
        .max_steps(2)
        .record(writer)
        .build()?
        .run("Buy dinner.")
        .await;
    // No `record` here: the resumed run appends to the run's directory. The step limit counts the
    // steps of both parts.
    let earlier = Earlier::open(&runs.join("guard_and_continue"))?;
    let result = shopper(&notes)
        .max_steps(10)
        .build()?
        .resume(earlier)
        .await?;
    let notes = notes.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok((result, notes))
}

#[tokio::main(flavor = "current_thread")]
#[allow(
    dead_code,
    clippy::print_stdout,
    reason = "a test includes this file and calls `run`"
)]
async fn main() -> Result<(), Box<dyn Error>> {
    let (result, notes) = run(Path::new("runs")).await?;
    println!("{}", notes.join("\n"));
    println!(
        "{} after {} steps: {}",
        result.verdict.code,
        result.step_count,
        result.require_answer()?
    );
    Ok(())
}
