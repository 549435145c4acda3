//! How do a step's facts stand on its line? What the line says elsewhere is not said twice.

use serde::{Deserialize, Serialize};

use super::facts::{CriticFact, CriticWish, Forced, OpaqueAnswer, StepError, StepFacts, Text, Usage};
use crate::model::{Code, Gate, Source};

/// The facts of a step that stand nowhere else on its line: its `facts` key.
///
/// The actions, the answer, the model's text, the critics and the error are the line's own; a field that is absent here
/// has the value that most steps have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LineFacts {
    /// The last gate the step came to.
    #[serde(default = "after_step", skip_serializing_if = "is_after_step")]
    reached: Gate,
    t_start_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    t_decided_ms: Option<u64>,
    t_end_ms: Option<u64>,
    /// Absent where no model was asked.
    #[serde(default = "no_usage", skip_serializing_if = "is_no_usage")]
    usage: Option<Usage>,
    #[serde(default, skip_serializing_if = "is_zero")]
    late_usage: Usage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signature: Option<u64>,
    /// The final result that the agent put into its state, where it is not the decision's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    final_answer: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    agent_stop: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    env_terminal: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    opaque: Vec<OpaqueAnswer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    forced: Option<Forced>,
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
            usage: facts.usage,
            late_usage: facts.late_usage,
            signature: facts.signature,
            final_answer: facts.final_answer.clone().filter(|_| !facts.candidate),
            agent_stop: facts.agent_stop,
            env_terminal: facts.env_terminal,
            opaque: facts.opaque.clone(),
            forced: facts.forced.clone(),
        }
    }
}

impl LineFacts {
    /// The facts of step `step` as far as this key tells them; what the line says elsewhere is left unknown.
    pub fn into_facts(self, step: u64) -> StepFacts {
        StepFacts {
            reached: self.reached,
            t_start_ms: self.t_start_ms,
            t_decided_ms: self.t_decided_ms,
            t_end_ms: self.t_end_ms,
            usage: self.usage,
            late_usage: self.late_usage,
            signature: self.signature,
            final_answer: self.final_answer,
            agent_stop: self.agent_stop,
            env_terminal: self.env_terminal,
            opaque: self.opaque,
            forced: self.forced,
            ..StepFacts::unknown(step)
        }
    }
}

/// The keys of a step line that hold facts.
#[derive(Deserialize)]
struct Line {
    facts: Option<LineFacts>,
    decision: Option<Decided>,
    #[serde(default)]
    actions: Vec<Named>,
    model_response: Option<Said>,
    #[serde(default)]
    critic_outputs: Vec<Judged>,
    error: Option<StepError>,
}

#[derive(Deserialize)]
struct Decided {
    mode: String,
    final_answer: Option<String>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct Said {
    text: String,
}

#[derive(Deserialize)]
struct Judged {
    critic_name: String,
    action: CriticWish,
    #[serde(default)]
    reason: Option<String>,
    /// A number, or text where it was not finite.
    #[serde(default)]
    score: Option<serde_json::Value>,
}

impl StepFacts {
    /// Reads the facts of a step from its line as the board's engine writes it.
    ///
    /// # Errors
    /// What is wrong with the line; a line without `facts` is another writer's.
    pub fn from_line(step: u64, line: &[u8]) -> Result<Self, String> {
        let line: Line = serde_json::from_slice(line).map_err(|wrong| wrong.to_string())?;
        let facts = line.facts.ok_or("the line has no facts; another writer made it")?;
        let candidate = line.decision.as_ref().is_some_and(|decision| decision.mode == "final");
        let answer = line.decision.and_then(|decision| decision.final_answer).filter(|_| candidate);
        let critic = |judged: Judged| CriticFact {
            name: judged.critic_name,
            wish: judged.action,
            reason: judged.reason.filter(|reason| !reason.is_empty()),
            score: judged.score.and_then(|score| score.as_f64()),
        };
        let facts = facts.into_facts(step);
        Ok(StepFacts {
            text: Text::Known(line.model_response.map(|said| said.text).unwrap_or_default()),
            actions: Some(line.actions.into_iter().map(|action| action.name).collect()),
            candidate,
            final_answer: answer.or(facts.final_answer),
            error: line.error,
            critics: line.critic_outputs.into_iter().map(critic).collect(),
            ..facts
        })
    }

    /// Ends the step from outside the rules at `gate`, unless something else already does.
    pub fn force(&mut self, gate: Gate, source: Source, code: Code, detail: impl Into<String>) {
        self.forced.get_or_insert_with(|| Forced { gate, source, code, detail: detail.into() });
    }
}
