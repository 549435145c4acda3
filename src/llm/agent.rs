//! Who is the agent that a file describes? One that leaves every decision to its model and remembers its last calls.

use serde::{Deserialize, Serialize};

use crate::engine::{Agent, AgentError, Done, Prompt, State, StepCx, Task};

/// What is kept of a call and of its result; the whole of both stands in the step.
const MAX_NOTE_BYTES: usize = 500;

/// An agent with instructions and no code of its own.
#[derive(Debug, Clone)]
pub struct FileAgent {
    name: String,
    system: String,
}

impl FileAgent {
    /// An agent that follows `system`.
    pub fn new(name: impl Into<String>, system: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            system: system.into(),
        }
    }
}

/// What it carries from step to step: enough to see, for a reader and for the stagnation rule, whether anything moves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// The last step's calls, each with the beginning of its arguments.
    pub last_calls: Vec<String>,
    /// The beginnings of their results.
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

/// The beginning of a text.
fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_NOTE_BYTES))
        .unwrap_or(text)
}
