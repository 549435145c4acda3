//! A small agent that plays a list of decisions, and what it is played with.

mod ends;

use std::collections::VecDeque;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::*;
use crate::stop::StopVerdict;

/// What the played agent counts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Notes {
    pub(super) seen: Vec<String>,
}

/// Plays decisions in order, then waits.
pub(super) struct Play {
    pub(super) decisions: VecDeque<Decision>,
    /// Whether results go into the state.
    pub(super) takes_notes: bool,
}

impl Play {
    pub(super) fn new(decisions: impl IntoIterator<Item = Decision>) -> Self {
        Self { decisions: decisions.into_iter().collect(), takes_notes: true }
    }
}

impl Agent for Play {
    type Data = Notes;

    fn name(&self) -> &str {
        "play"
    }

    fn init_state(&mut self, task: &Task) -> Result<State<Notes>, AgentError> {
        Ok(State::new(&*task.objective, Notes::default()))
    }

    async fn decide(&mut self, _: &State<Notes>, _: &StepCx<'_>) -> Result<Option<Decision>, AgentError> {
        Ok(Some(self.decisions.pop_front().unwrap_or_else(|| Decision::wait("the play is over"))))
    }

    fn reduce(&mut self, state: &mut State<Notes>, step: &Done<'_>) -> Result<(), AgentError> {
        if self.takes_notes {
            state.data.seen.extend(step.results.iter().map(ToolResult::text));
        }
        Ok(())
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EchoArgs {
    text: String,
}

/// Gives back what it is given.
pub(super) struct Echo;

impl Tool for Echo {
    type Args = EchoArgs;
    type Output = String;

    fn name(&self) -> &str {
        "echo"
    }

    fn description(&self) -> &str {
        "Says it again."
    }

    async fn call(&self, args: EchoArgs, _: ToolCx<'_>) -> Result<String, ToolError> {
        Ok(args.text)
    }
}

pub(super) fn echo(text: &str) -> Decision {
    Decision::act([Action::new("echo").arg("text", text)])
}

pub(super) fn engine(decisions: impl IntoIterator<Item = Decision>) -> Builder<Play> {
    Engine::builder(Play::new(decisions))
        .tool(Echo)
        .clock(Stepping::new(1_700_000_000_000_000, Duration::from_millis(1)))
        .process(None)
}

pub(super) fn told(verdict: &StopVerdict) -> (&str, &str, Option<u64>) {
    (verdict.code.as_str(), verdict.criterion.as_str(), verdict.step)
}
