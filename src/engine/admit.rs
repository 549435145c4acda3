//! Asks the guards before each tool call.
//!
//! Guards run in order, and each one gets the arguments as changed by the ones before it. The first
//! guard that denies the call or ends the run decides. If a guard fails, the call is denied, so
//! that a broken guard admits no call. Each guard's decision is recorded as an event.
//!
//! Waiting for a person counts as run time. The question is dropped when the run reaches its time
//! limit, or, while an answer is judged, twice that limit. If a rule such as `timeout` or `max_runtime` is about to end the run, no
//! answer counts as a denial. The event, the step's facts and the verdict record the time spent
//! waiting.

use serde::Serialize;
use serde_json::{Map, Value};

use super::agent::Agent;
use super::cancel::{Cancel, Lost};
use super::decision::Action;
use super::guard::{Consent, DynPerson, GuardCx, Pass, Question};
use super::session::Session;
use super::toolbox::{ToolResult, clip};

/// Maximum length of a reason, in bytes.
const MAX_REASON_BYTES: usize = 2 << 10;

/// The guards' decision on a call.
pub(super) enum Admitted {
    /// The call is executed unchanged.
    AsIs,
    /// The call is executed in this form.
    Changed(Action),
    /// The call isn't executed.
    Refused(ToolResult),
    /// The call isn't executed, and the run ends for this reason.
    Ended(String),
}

/// The payload of a guard's event.
#[derive(Serialize)]
struct GuardEvent<'a> {
    tool: &'a str,
    /// The index of the call in the step.
    action: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    guard: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    /// The new arguments, if changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<&'a Map<String, Value>>,
    /// The person's answer, if a person was asked and the run didn't end first.
    #[serde(skip_serializing_if = "Option::is_none")]
    consent: Option<bool>,
    /// How long the answer took.
    #[serde(skip_serializing_if = "Option::is_none")]
    waited_ms: Option<u64>,
}

impl<'a> GuardEvent<'a> {
    fn of(action: &'a Action, place: usize) -> Self {
        let tool = &action.name;
        Self {
            tool,
            action: place,
            guard: None,
            reason: None,
            args: None,
            consent: None,
            waited_ms: None,
        }
    }
}

impl<A: Agent> Session<A> {
    /// Asks the guards about the call with index `place` in a step. Adds the time spent waiting for
    /// people to `waited_ms`.
    pub(super) async fn admit(
        &mut self,
        step: u64,
        place: usize,
        action: &Action,
        waited_ms: &mut u64,
    ) -> Admitted {
        if self.parts.guards.is_empty() {
            return Admitted::AsIs;
        }
        let mut changed: Option<Action> = None;
        for at in 0..self.parts.guards.len() {
            let Some(guard) = self.parts.guards.get(at) else {
                break;
            };
            let call = changed.as_ref().unwrap_or(action);
            let cx = GuardCx {
                step,
                tool: &call.name,
                args: &call.args,
                state: &self.state,
            };
            self.run.log.flush();
            let judged = self
                .parts
                .cancel
                .guard(async { guard.judge(cx).await })
                .await;
            let name = guard.name().to_owned();
            let pass = match judged {
                Ok(Ok(pass)) => pass,
                Ok(Err(wrong)) | Err(Lost::Panicked(wrong)) => {
                    Pass::Deny(format!("the guard {name} failed: {wrong}"))
                }
                Err(Lost::Cancelled) => return Admitted::Refused(ToolResult::skipped(action)),
            };
            let said = GuardEvent {
                guard: Some(&name),
                ..GuardEvent::of(action, place)
            };
            match pass {
                Pass::Allow => {}
                Pass::Change { args, mut reason } => {
                    clip(&mut reason, MAX_REASON_BYTES);
                    self.emit(
                        step,
                        "GATE",
                        "change",
                        GuardEvent {
                            reason: Some(&reason),
                            args: Some(&args),
                            ..said
                        },
                    );
                    changed = Some(Action {
                        args,
                        ..action.clone()
                    });
                }
                Pass::Ask(mut reason) => {
                    clip(&mut reason, MAX_REASON_BYTES);
                    let call = changed.as_ref().unwrap_or(action);
                    let question = Question {
                        step,
                        tool: &call.name,
                        args: &call.args,
                        reason: &reason,
                    };
                    let asked_at = self.run.ms();
                    let consent =
                        consent(self.parts.person.as_deref(), question, &self.parts.cancel).await;
                    let waited = self.run.ms().saturating_sub(asked_at);
                    *waited_ms = waited_ms.saturating_add(waited);
                    let granted = consent.as_ref().map(|consent| *consent == Consent::Yes);
                    let waited = Some(waited).filter(|_| self.parts.person.is_some());
                    let asked = GuardEvent {
                        reason: Some(&reason),
                        consent: granted,
                        waited_ms: waited,
                        ..said
                    };
                    self.emit(step, "GATE", "ask", asked);
                    let Some(consent) = consent else {
                        return Admitted::Refused(ToolResult::skipped(action));
                    };
                    if let Consent::No(mut why) = consent {
                        clip(&mut why, MAX_REASON_BYTES);
                        self.emit(
                            step,
                            "GATE",
                            "deny",
                            GuardEvent {
                                reason: Some(&why),
                                ..said
                            },
                        );
                        return Admitted::Refused(ToolResult::refused(action, &why));
                    }
                }
                Pass::Deny(mut reason) => {
                    clip(&mut reason, MAX_REASON_BYTES);
                    self.emit(
                        step,
                        "GATE",
                        "deny",
                        GuardEvent {
                            reason: Some(&reason),
                            ..said
                        },
                    );
                    return Admitted::Refused(ToolResult::refused(action, &reason));
                }
                Pass::Stop(mut reason) => {
                    clip(&mut reason, MAX_REASON_BYTES);
                    self.emit(
                        step,
                        "GATE",
                        "stop",
                        GuardEvent {
                            reason: Some(&reason),
                            ..said
                        },
                    );
                    return Admitted::Ended(format!(
                        "the guard {name} ended the run at {}: {reason}",
                        action.name
                    ));
                }
            }
        }
        self.emit(step, "GATE", "allow", GuardEvent::of(action, place));
        changed.map_or(Admitted::AsIs, Admitted::Changed)
    }
}

/// Returns the person's answer. `None` if the run ended first.
async fn consent(
    person: Option<&dyn DynPerson>,
    question: Question<'_>,
    cancel: &Cancel,
) -> Option<Consent> {
    let Some(person) = person else {
        return Some(Consent::No(
            "approval is required, but there is no approver".to_owned(),
        ));
    };
    match cancel
        .guard_answer(async { person.ask(question).await })
        .await
    {
        Ok(Some(Ok(consent))) => Some(consent),
        Ok(None) => Some(Consent::No(
            "the approver did not answer before the run's time was up".to_owned(),
        )),
        Ok(Some(Err(wrong))) | Err(Lost::Panicked(wrong)) => Some(Consent::No(format!(
            "approval is required, but asking failed: {wrong}"
        ))),
        Err(Lost::Cancelled) => None,
    }
}
