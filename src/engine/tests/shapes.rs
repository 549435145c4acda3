//! Tests states of common types: what is restored after a failed step, and what a critic's patch
//! preserves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;

impl AgentData for Shapes {}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Shapes {
    by_number: BTreeMap<u32, String>,
    large: u128,
    worst: f64,
    turns: u32,
}

/// Changes its state and fails in a given step.
struct Shaped {
    fails: Option<u64>,
}

impl Agent for Shaped {
    type Data = Shapes;

    fn name(&self) -> &str {
        "shaped"
    }

    fn init_state(&mut self, task: &Task) -> Result<State<Shapes>, AgentError> {
        let by_number = [(3, "three".to_owned()), (40, "forty".to_owned())].into();
        let data = Shapes {
            by_number,
            large: u128::MAX - 1,
            worst: f64::NAN,
            turns: 0,
        };
        Ok(State::new(&*task.objective, data))
    }

    async fn decide(
        &mut self,
        _: &State<Shapes>,
        cx: &StepCx<'_>,
    ) -> Result<Option<Decision>, AgentError> {
        Ok(Some(if cx.step < 2 {
            Decision::wait("not yet")
        } else {
            Decision::final_answer("done")
        }))
    }

    fn reduce(&mut self, state: &mut State<Shapes>, step: &Done<'_>) -> Result<(), AgentError> {
        if self.fails == Some(step.step) {
            state.data.by_number.clear();
            state.data.large = 0;
            return Err(AgentError::new("not this time"));
        }
        state.data.turns += 1;
        Ok(())
    }
}

/// An agent that sets one field in the first step.
struct Sets;

impl Critic<Shapes> for Sets {
    fn name(&self) -> &str {
        "sets"
    }

    async fn judge(&self, step: CriticCx<'_, Shapes>) -> Result<Opinion, CriticError> {
        Ok(if step.step == 0 {
            Opinion::retry("again").set("turns", 7)
        } else {
            Opinion::proceed("")
        })
    }
}

#[tokio::test]
async fn a_failed_step_restores_a_state_of_any_type() {
    let engine = Engine::builder(Shaped { fails: Some(1) })
        .record_process(false)
        .build()
        .unwrap();
    let result = engine.run("t").await;
    assert_eq!(result.answer(), Some("done"), "{:?}", result.verdict);
    let data = result.state.unwrap().data;
    assert_eq!(
        (data.by_number.len(), data.large, data.turns),
        (2, u128::MAX - 1, 2)
    );
    assert!(data.worst.is_nan());
}

#[tokio::test]
async fn a_critics_patch_leaves_the_rest_as_it_was() {
    let engine = Engine::builder(Shaped { fails: None })
        .critic(Sets)
        .record_process(false)
        .build()
        .unwrap();
    let result = engine.run("t").await;
    assert_eq!(result.answer(), Some("done"), "{:?}", result.verdict);
    let data = result.state.unwrap().data;
    assert_eq!(
        (data.by_number[&40].as_str(), data.large, data.turns),
        ("forty", u128::MAX - 1, 9)
    );
}

#[test]
fn a_state_is_read_as_it_is_written() {
    let state: State<Shapes> = serde_json::from_value(json!({
        "schema_version": 1, "task": "t", "current_step": 2, "by_number": {"5": "five"}, "large": 9, "worst": "Infinity",
        "turns": 1,
    }))
    .unwrap();
    assert_eq!(
        (state.data.by_number[&5].as_str(), state.data.worst),
        ("five", f64::INFINITY)
    );
    assert_eq!((state.max_steps, state.metadata.len()), (None, 0));
    let empty: State<()> =
        serde_json::from_value(json!({"schema_version": 1, "task": "t", "current_step": 0}))
            .unwrap();
    assert_eq!(empty, State::new("t", ()));
    let wrong = serde_json::from_value::<State<()>>(
        json!({"schema_version": 1, "task": 3, "current_step": 0}),
    );
    assert!(wrong.unwrap_err().to_string().contains("state.task"));
}
