//! Converts a step's facts to and from the `facts` key of its line. Facts that the line has
//! elsewhere aren't repeated.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::facts::{
    CriticFact, CriticWish, Forced, OpaqueAnswer, StepError, StepFacts, Text, Usage,
};
use crate::model::step::{CriticAction, CriticOutput, Value};
use crate::model::{Code, Gate, Source, Step};

/// The `facts` key of a step's line: the facts that the line doesn't have elsewhere.
///
/// The line has its own fields for the actions, the answer, the model's text, the critics and the
/// error. A missing field has the value that most steps have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LineFacts {
    /// The last gate the step reached.
    #[serde(default = "after_step", skip_serializing_if = "is_after_step")]
    reached: Gate,
    t_start_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    t_decided_ms: Option<u64>,
    t_end_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "super::facts::is_zero")]
    waited_ms: u64,
    /// Missing if no model was called.
    #[serde(default = "no_usage", skip_serializing_if = "is_no_usage")]
    usage: Option<Usage>,
    #[serde(default, skip_serializing_if = "is_zero")]
    late_usage: Usage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    late_cost_usd: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
    #[serde(default, skip_serializing_if = "is_false")]
    cost_estimated: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    calls: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signature: Option<u64>,
    /// The final result that the agent set in its state, if it isn't the decision's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    final_answer: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    untried: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    agent_stop: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    agent_success: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    kept_answer: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    env_terminal: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    opaque: Vec<OpaqueAnswer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    forced: Option<Forced>,
    #[serde(default, skip_serializing_if = "is_false")]
    resumed: bool,
}

fn after_step() -> Gate {
    Gate::AfterStep
}

fn is_after_step(gate: &Gate) -> bool {
    *gate == Gate::AfterStep
}

fn no_usage() -> Option<Usage> {
    Some(Usage::default())
}

fn is_no_usage(usage: &Option<Usage>) -> bool {
    *usage == no_usage()
}

fn is_zero(usage: &Usage) -> bool {
    *usage == Usage::default()
}

fn is_false(value: &bool) -> bool {
    !*value
}

impl From<&StepFacts> for LineFacts {
    fn from(facts: &StepFacts) -> Self {
        Self {
            reached: facts.reached,
            t_start_ms: facts.t_start_ms,
            t_decided_ms: facts.t_decided_ms,
            t_end_ms: facts.t_end_ms,
            waited_ms: facts.waited_ms,
            usage: facts.usage,
            late_usage: facts.late_usage,
            late_cost_usd: facts.late_cost_usd,
            cost_usd: facts.cost_usd,
            calls: facts.calls,
            cost_estimated: facts.cost_estimated,
            signature: facts.signature,
            final_answer: facts.final_answer.clone().filter(|_| !facts.candidate),
            untried: facts.untried,
            agent_stop: facts.agent_stop,
            agent_success: facts.agent_success,
            kept_answer: facts.kept_answer,
            env_terminal: facts.env_terminal,
            opaque: facts.opaque.clone(),
            forced: facts.forced.clone(),
            resumed: facts.resumed,
        }
    }
}

impl LineFacts {
    /// Returns the facts of step `step` that this key holds. Facts that the line has elsewhere stay
    /// unknown.
    pub fn into_facts(self, step: u64) -> StepFacts {
        StepFacts {
            reached: self.reached,
            t_start_ms: self.t_start_ms,
            t_decided_ms: self.t_decided_ms,
            t_end_ms: self.t_end_ms,
            waited_ms: self.waited_ms,
            usage: self.usage,
            late_usage: self.late_usage,
            late_cost_usd: self.late_cost_usd,
            cost_usd: self.cost_usd,
            calls: self.calls,
            cost_estimated: self.cost_estimated,
            signature: self.signature,
            final_answer: self.final_answer,
            untried: self.untried,
            agent_stop: self.agent_stop,
            agent_success: self.agent_success,
            kept_answer: self.kept_answer,
            env_terminal: self.env_terminal,
            opaque: self.opaque,
            forced: self.forced,
            resumed: self.resumed,
            ..StepFacts::unknown(step)
        }
    }
}

impl From<CriticAction> for CriticWish {
    fn from(action: CriticAction) -> Self {
        match action {
            CriticAction::Stop => CriticWish::Stop,
            CriticAction::Retry => CriticWish::Retry,
            CriticAction::Failed => CriticWish::Failed,
            CriticAction::Continue | CriticAction::Other => CriticWish::Continue,
        }
    }
}

impl StepFacts {
    /// Reads the facts of a step, including its texts.
    ///
    /// # Errors
    /// Fails if the facts are invalid or missing. A step without `facts` was written by another
    /// tool.
    pub fn from_step(ordinal: u64, step: &Step<'_>) -> Result<Self, String> {
        let read = |facts: Value<'_>| {
            serde_json::from_str::<LineFacts>(facts.text).map_err(|wrong| wrong.to_string())
        };
        let facts = step
            .facts
            .map(read)
            .transpose()?
            .ok_or("the step has no facts; another writer made it")?;
        let facts = facts.into_facts(ordinal);
        let candidate = step
            .decision
            .as_ref()
            .is_some_and(|decision| decision.mode.as_deref() == Some("final"));
        let text = |value: Option<Value<'_>>| value.and_then(Value::string).map(Cow::into_owned);
        let answer = step
            .decision
            .as_ref()
            .and_then(|decision| text(decision.answer))
            .filter(|_| candidate);
        let critic = |output: &CriticOutput<'_>| CriticFact {
            name: output.name.to_string(),
            wish: output.action.into(),
            reason: text(output.reason).filter(|reason| !reason.is_empty()),
            score: output.score.or(output.infinite.map(f64::from)),
        };
        let error = step
            .error
            .map(|error| serde_json::from_str::<StepError>(error.text))
            .transpose();
        Ok(StepFacts {
            text: Text::Known(text(step.text).unwrap_or_default()),
            actions: Some(
                step.calls
                    .iter()
                    .map(|call| call.name.as_deref().unwrap_or_default().to_owned())
                    .collect(),
            ),
            candidate,
            final_answer: answer.or(facts.final_answer),
            error: error.map_err(|wrong| wrong.to_string())?,
            critics: step.critics.iter().map(critic).collect(),
            ..facts
        })
    }

    /// Ends the step at `gate` for a reason outside the rules. Does nothing if the step already has
    /// such an end.
    pub fn force(&mut self, gate: Gate, source: Source, code: Code, detail: impl Into<String>) {
        self.forced.get_or_insert_with(|| Forced {
            gate,
            source,
            code,
            detail: detail.into(),
        });
    }
}
