//! May the agent do that? Guards see every call before it is carried out: they let it pass, refuse it, change its
//! arguments, have a person asked, or end the run.
//!
//! Guards are asked in order, each with the arguments that the ones before it left; the first that refuses or ends
//! decides. One that fails refuses: nothing happens because its guard broke. What each says is an event of the trace.
//!
//! The wait for a person counts as time of the run, and ends with it: a budget of time and the hard timeout drop the
//! question with all else, and where a rule such as `timeout` or `max_runtime` will end the run, no answer by then is a
//! no. What went by so is told by the event, the step's facts and the verdict.

use std::future::Future;

use serde::Serialize;
use serde_json::{Map, Value};

use super::agent::Agent;
use super::cancel::{Cancel, Lost};
use super::decision::Action;
use super::erased::Boxed;
use super::run::Session;
use super::state::State;
use super::toolbox::{ToolResult, clip};

/// A reason is cut to this many bytes.
const MAX_REASON_BYTES: usize = 2 << 10;

/// Decides whether a call of an agent whose state holds a `D` is carried out.
///
/// ```
/// use trace_board::engine::{Guard, GuardCx, Pass};
///
/// /// Nothing is deleted without somebody's consent.
/// struct Careful;
///
/// impl<D: Sync> Guard<D> for Careful {
///     fn name(&self) -> &str {
///         "careful"
///     }
///
///     async fn judge(&self, call: GuardCx<'_, D>) -> Result<Pass, String> {
///         let command = call.args.get("command").and_then(|command| command.as_str()).unwrap_or_default();
///         Ok(if command.contains("rm ") { Pass::Ask("it may delete files".to_owned()) } else { Pass::Allow })
///     }
/// }
/// ```
pub trait Guard<D>: Send + Sync {
    /// The name under which it is recorded.
    fn name(&self) -> &str;

    /// Decides about a call.
    fn judge(&self, call: GuardCx<'_, D>) -> impl Future<Output = Result<Pass, String>> + Send;
}

/// A call that is about to be carried out.
#[derive(Debug)]
#[non_exhaustive]
pub struct GuardCx<'a, D> {
    /// The step's ordinal.
    pub step: u64,
    /// The tool that is called; there may be none of this name.
    pub tool: &'a str,
    /// Its arguments.
    pub args: &'a Map<String, Value>,
    /// The state before the step.
    pub state: &'a State<D>,
}

/// What a guard says.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Pass {
    /// The call may be carried out.
    Allow,
    /// It may not, for this reason, which the agent is told.
    Deny(String),
    /// It may with other arguments.
    Change {
        /// All of them.
        args: Map<String, Value>,
        /// Why, for the record.
        reason: String,
    },
    /// A person decides, who is told this.
    Ask(String),
    /// It may not, and the run ends for this reason.
    Stop(String),
}

/// Somebody who may be asked.
pub trait Person: Send + Sync {
    /// Asks whether a call may be carried out.
    fn ask(&self, question: Question<'_>) -> impl Future<Output = Result<Consent, String>> + Send;
}

/// What a person is asked.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Question<'a> {
    /// The step's ordinal.
    pub step: u64,
    /// The tool that is called.
    pub tool: &'a str,
    /// Its arguments.
    pub args: &'a Map<String, Value>,
    /// Why somebody is asked.
    pub reason: &'a str,
}

/// What a person says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Consent {
    /// The call may be carried out.
    Yes,
    /// It may not, for this reason.
    No(String),
}

/// [`Guard`] behind a pointer.
pub(super) trait DynGuard<D>: Send + Sync {
    fn name(&self) -> &str;
    fn judge<'a>(&'a self, call: GuardCx<'a, D>) -> Boxed<'a, Result<Pass, String>>;
}

impl<D: Sync, G: Guard<D>> DynGuard<D> for G {
    fn name(&self) -> &str {
        Guard::name(self)
    }

    fn judge<'a>(&'a self, call: GuardCx<'a, D>) -> Boxed<'a, Result<Pass, String>> {
        Box::pin(Guard::judge(self, call))
    }
}

/// [`Person`] behind a pointer.
pub(super) trait DynPerson: Send + Sync {
    fn ask<'a>(&'a self, question: Question<'a>) -> Boxed<'a, Result<Consent, String>>;
}

impl<P: Person> DynPerson for P {
    fn ask<'a>(&'a self, question: Question<'a>) -> Boxed<'a, Result<Consent, String>> {
        Box::pin(Person::ask(self, question))
    }
}

/// What comes of a call.
pub(super) enum Admitted {
    /// It is carried out as it is.
    AsIs,
    /// It is carried out so.
    Changed(Action),
    /// It is not carried out.
    Refused(ToolResult),
    /// It is not, and the run ends for this reason.
    Ended(String),
}

/// What a guard said, as an event.
#[derive(Serialize)]
struct GuardEvent<'a> {
    tool: &'a str,
    /// The call's place among those of the step.
    action: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    guard: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    /// What the call is carried out with, where that was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<&'a Map<String, Value>>,
    /// What a person said, where one was asked and the run did not end before.
    #[serde(skip_serializing_if = "Option::is_none")]
    consent: Option<bool>,
    /// How long that took.
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
    /// Asks the guards about call number `place` of a step, and adds to `waited_ms` what people took to answer.
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

/// What a person says; `None` where the run ended meanwhile.
async fn consent(
    person: Option<&dyn DynPerson>,
    question: Question<'_>,
    cancel: &Cancel,
) -> Option<Consent> {
    let Some(person) = person else {
        return Some(Consent::No(
            "somebody is to be asked, and nobody is there".to_owned(),
        ));
    };
    match cancel
        .guard_answer(async { person.ask(question).await })
        .await
    {
        Ok(Some(Ok(consent))) => Some(consent),
        Ok(None) => Some(Consent::No(
            "somebody was asked, and did not answer before the run's time was over".to_owned(),
        )),
        Ok(Some(Err(wrong))) | Err(Lost::Panicked(wrong)) => Some(Consent::No(format!(
            "somebody is to be asked, and could not be: {wrong}"
        ))),
        Err(Lost::Cancelled) => None,
    }
}
