//! Defines the agent that an agent file describes. Its model makes every decision, and its state
//! holds the last step's calls.

use serde::{Deserialize, Serialize};

use crate::engine::{Agent, AgentError, Done, Prompt, State, StepCx, Task};

/// Maximum length of a call or result in the state, in bytes. The step has both in full.
const MAX_NOTE_BYTES: usize = 500;

/// An agent that consists of instructions, without code.
#[derive(Debug, Clone)]
pub struct FileAgent {
    name: String,
    system: String,
}

impl FileAgent {
    /// Creates an agent with the system prompt `system`.
    pub fn new(name: impl Into<String>, system: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            system: system.into(),
        }
    }
}

/// The agent's state: enough for a reader and the stagnation rule to see progress.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// The last step's tool calls, each with the start of its arguments.
    pub last_calls: Vec<String>,
    /// The starts of their results.
    pub last_results: Vec<String>,
}

impl Agent for FileAgent {
    type Data = Work;

    fn name(&self) -> &str {
        &self.name
    }

    fn init_state(&mut self, task: &Task) -> Result<State<Work>, AgentError> {
        Ok(State::new(task.objective.clone(), Work::default()))
    }

    fn prepare(&mut self, state: &State<Work>, cx: &StepCx<'_>) -> Result<Prompt, AgentError> {
        Ok(Prompt {
            system: Some(self.system.clone()),
            user: (cx.step == 0).then(|| state.task.clone()),
        })
    }

    fn reduce(&mut self, state: &mut State<Work>, step: &Done<'_>) -> Result<(), AgentError> {
        if step.results.is_empty() {
            return Ok(());
        }
        let call = |action: &crate::engine::Action| {
            let args = serde_json::to_string(&action.args).unwrap_or_default();
            cut(&format!("{} {args}", action.name)).to_owned()
        };
        state.data.last_calls = step.decision.actions.iter().map(call).collect();
        state.data.last_results = step
            .results
            .iter()
            .map(|result| cut(&result.text()).to_owned())
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

/// Truncates a text to [`MAX_NOTE_BYTES`].
fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_NOTE_BYTES))
        .unwrap_or(text)
}
