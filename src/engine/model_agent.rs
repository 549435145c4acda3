//! Defines the ready-made agent: its model makes every decision, and its state holds the last
//! calls.

use serde::{Deserialize, Serialize};

use super::agent::{Agent, AgentError, Done, Prompt, StepCx};
use super::decision::Action;
use super::state::State;
use crate::model::names::cut_at;

/// Maximum length of a call or result in the state, in bytes. The step has both in full.
const MAX_NOTE_BYTES: usize = 500;

/// An agent that consists of instructions. The engine's model makes every decision:
///
/// ```
/// use trace_board::engine::{Engine, ModelAgent, Reply, Scripted};
///
/// # fn main() -> trace_board::Result<()> {
/// # let model = Scripted::new([Reply::text("42")]);
/// let agent = ModelAgent::new("clerk", "You do sums.");
/// let engine = Engine::builder(agent).model(model).build()?;
/// # Ok(())
/// # }
/// ```
///
/// A client for real models is [`llm::Client`](crate::llm::Client). An agent that needs a state of
/// its own, or that makes some decisions itself, implements [`Agent`].
#[derive(Debug, Clone)]
pub struct ModelAgent {
    name: String,
    system: String,
}

impl ModelAgent {
    /// Creates an agent with the system prompt `system`.
    pub fn new(name: impl Into<String>, system: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            system: system.into(),
        }
    }
}

/// The state of a [`ModelAgent`]: enough for a reader and the stagnation rule to see progress.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastCalls {
    /// The last step's tool calls, each with the start of its arguments.
    pub last_calls: Vec<String>,
    /// The starts of their results.
    pub last_results: Vec<String>,
}

impl Agent for ModelAgent {
    type Data = LastCalls;

    fn name(&self) -> &str {
        &self.name
    }

    fn prepare(&mut self, state: &State<LastCalls>, cx: &StepCx<'_>) -> Result<Prompt, AgentError> {
        Ok(Prompt::new(state, cx).system(&*self.system))
    }

    fn reduce(&mut self, state: &mut State<LastCalls>, step: &Done<'_>) -> Result<(), AgentError> {
        if step.results.is_empty() {
            return Ok(());
        }
        let call = |action: &Action| {
            let args = serde_json::to_string(&action.args).unwrap_or_default();
            cut_at(&format!("{} {args}", action.name), MAX_NOTE_BYTES).to_owned()
        };
        state.data.last_calls = step.decision.actions.iter().map(call).collect();
        state.data.last_results = step
            .results
            .iter()
            .map(|result| cut_at(&result.text(), MAX_NOTE_BYTES).to_owned())
            .collect();
        let failed = step.results.iter().filter(|result| !result.is_ok()).count();
        for (name, many) in [
            ("tool_calls", step.results.len()),
            ("failed_tool_calls", failed),
        ] {
            let before = state
                .metrics
                .get(name)
                .and_then(serde_json::Value::as_u64)
                .unwrap_or(0);
            state
                .metrics
                .insert(name.to_owned(), (before + many as u64).into());
        }
        Ok(())
    }
}
