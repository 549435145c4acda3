//! Runs the critics after a step and applies their opinions. The first critic in order that doesn't
//! say continue decides.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::agent::Agent;
use super::cancel::Lost;
use super::critic::{CriticCx, CriticError, Opinion};
use super::log::Event;
use super::result::{CriticOutput, StepRecord};
use super::session::Session;
use super::state::{Snapshot, State};
use super::value::to_value_lossy;
use crate::stop::{Code, CriticFact, CriticWish, Gate, Source};

/// The time of one critic. A model that judges may take ten minutes for a reply, and be asked again.
const CRITIC_LIMIT: Duration = Duration::from_secs(30 * 60);
/// The error of a critic that takes longer.
const NO_OPINION: &str = "no opinion within 30 minutes";

impl<A: Agent> Session<A> {
    /// Runs the critics on a step after `reduce`.
    pub(super) async fn hear_critics(&mut self, record: &mut StepRecord) {
        let (Some(decision), false) = (record.decision.as_ref(), self.parts.critics.is_empty())
        else {
            return;
        };
        self.run.log.flush();
        let step = record.step;
        let mut opinions = Vec::with_capacity(self.parts.critics.len());
        let mut is_cut_off = false;
        for critic in &self.parts.critics {
            let cx = CriticCx {
                step,
                state: &self.state,
                decision,
                results: &record.results,
            };
            let cancel = &self.parts.cancel;
            let judging = async {
                let judged = tokio::time::timeout(CRITIC_LIMIT, critic.judge(cx)).await;
                judged.unwrap_or_else(|_| Err(CriticError::new(NO_OPINION)))
            };
            // The run's time limit leaves an existing answer time to be judged.
            let judged = if record.facts.candidate {
                cancel.guard_judging(judging).await
            } else {
                cancel.guard(judging).await
            };
            let judged = match judged {
                Ok(judged) => judged,
                Err(Lost::Panicked(text)) => Err(CriticError::new(text)),
                // Without a complete judgment, the answer isn't accepted. Earlier opinions are
                // kept.
                Err(Lost::Cancelled) => {
                    is_cut_off = true;
                    // The gate names the time limit.
                    if !cancel.is_out_of_time() {
                        record.facts.force(
                            Gate::AfterStep,
                            Source::Cancel,
                            Code::CancelledImmediate,
                            "cancelled while critics were judging",
                        );
                    }
                    break;
                }
            };
            opinions.push((critic.name().to_owned(), judged));
        }
        for (_, judged) in &opinions {
            let (usage, cost, is_estimated) = match judged {
                Ok(opinion) => (opinion.usage, opinion.cost_usd, opinion.cost_estimated),
                Err(error) => (error.usage, error.cost_usd, error.cost_estimated),
            };
            record.facts.late(usage, cost);
            record.facts.cost_estimated |= is_estimated && cost.is_some();
        }
        let decisive = opinions
            .iter()
            .position(|(_, judged)| !matches!(judged, Ok(o) if o.wish == CriticWish::Continue));
        if let Some((_, judged)) = decisive.and_then(|at| opinions.get_mut(at))
            && let Ok(opinion) = judged
            && opinion.wish == CriticWish::Retry
        {
            match patched(&self.state, &opinion.state_patch) {
                Ok(Some(state)) => self.state = state,
                Ok(None) => {}
                Err(wrong) => *judged = Err(CriticError::new(wrong)),
            }
        }
        for (criterion, passed, evidence) in opinions
            .iter()
            .flat_map(|(_, judged)| judged.iter())
            .flat_map(|o| &o.criteria)
        {
            self.state.set_criterion(criterion, *passed, evidence);
        }
        for (name, judged) in opinions {
            let (fact, output) = recorded(name, judged.as_ref());
            record.facts.critics.push(fact);
            record.critics.push(output);
        }
        #[derive(Serialize)]
        struct Outputs<'a> {
            critic_outputs: Vec<Brief<'a>>,
        }
        /// The step's line has the rest.
        #[derive(Serialize)]
        struct Brief<'a> {
            critic_name: &'a str,
            action: CriticWish,
            #[serde(skip_serializing_if = "Option::is_none")]
            score: Option<&'a Value>,
        }
        #[derive(Serialize)]
        struct CriticEvent<'a> {
            critic: &'a str,
            reason: &'a str,
        }
        let outputs = record.critics.clone();
        let brief = outputs.iter().map(|output| Brief {
            critic_name: &output.critic_name,
            action: output.action,
            score: output.score.as_ref(),
        });
        self.emit(
            step,
            "CRITIC",
            "outputs",
            Outputs {
                critic_outputs: brief.collect(),
            },
        );
        let Some(output) = decisive.and_then(|at| outputs.get(at)) else {
            if !is_cut_off {
                self.emit(step, "CRITIC", "pass", ());
            }
            return;
        };
        let event = CriticEvent {
            critic: &output.critic_name,
            reason: &output.reason,
        };
        match output.action {
            CriticWish::Retry => {
                self.talk.replace_prompt(output.modified_prompt.clone());
                let asked = || {
                    format!(
                        "The critic {} asks to try again: {}",
                        output.critic_name, output.reason
                    )
                };
                self.advise(output.instruction_patch.clone().unwrap_or_else(asked));
                self.emit(step, "CRITIC", "retry", event);
            }
            CriticWish::Stop => self.emit(step, "CRITIC", "stop", event),
            _ => self.emit_with(Event::new(step, "CRITIC", "failed", event).failed(&output.reason)),
        }
    }
}

/// Returns the state with a critic's fields set. `None` if it sets none.
fn patched<D: Serialize + DeserializeOwned>(
    state: &State<D>,
    patch: &Map<String, Value>,
) -> Result<Option<State<D>>, String> {
    if patch.is_empty() {
        return Ok(None);
    }
    let mut snapshot = Snapshot::of(state).map_err(|wrong| wrong.to_string())?;
    for (field, value) in patch {
        if field == "current_step" {
            return Err("the patch sets current_step, which the engine counts".to_owned());
        }
        if !snapshot.set(field, value) {
            return Err(format!(
                "the patch sets {field:?}, which the state does not have"
            ));
        }
    }
    let state: State<D> = snapshot
        .state()
        .map_err(|wrong| format!("the patch doesn't fit the state: {wrong}"))?;
    state
        .validate()
        .map_err(|wrong| format!("the patch doesn't fit the state: {wrong}"))?;
    Ok(Some(state))
}

/// Converts an opinion into a fact for the rules and a record for the trace.
fn recorded(
    critic_name: String,
    judged: Result<&Opinion, &CriticError>,
) -> (CriticFact, CriticOutput) {
    let failed = Opinion {
        wish: CriticWish::Failed,
        ..Opinion::stop(judged.err().map(ToString::to_string).unwrap_or_default())
    };
    let opinion = judged.unwrap_or(&failed);
    let fact = CriticFact {
        name: critic_name.clone(),
        wish: opinion.wish,
        reason: Some(opinion.reason.clone()).filter(|reason| !reason.is_empty()),
        score: opinion.score.filter(|score| score.is_finite()),
    };
    let output = CriticOutput {
        critic_name,
        action: opinion.wish,
        reason: opinion.reason.clone(),
        score: opinion.score.map(|score| to_value_lossy(&score)),
        details: opinion.details.clone(),
        instruction_patch: opinion.instruction.clone(),
        modified_prompt: opinion.prompt.clone(),
        state_patch: opinion.state_patch.clone(),
    };
    (fact, output)
}
