//! Runs guards before each tool call. A guard can allow the call, deny it, change its arguments,
//! ask a person, or end the run.
//!
//! Guards run in order, and each one gets the arguments as changed by the ones before it. The first
//! guard that denies the call or ends the run decides. If a guard fails, the call is denied, so
//! that a broken guard lets nothing through. Each guard's decision is recorded as an event.
//!
//! Waiting for a person counts as run time and ends with it. A time budget and the hard timeout
//! drop the question. If a rule such as `timeout` or `max_runtime` is about to end the run, no
//! answer counts as a denial. The event, the step's facts and the verdict record the time spent
//! waiting.

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

/// Maximum length of a reason, in bytes.
const MAX_REASON_BYTES: usize = 2 << 10;

/// Decides whether a tool call is executed. `D` is the data type of the agent's state.
///
/// ```
/// use trace_board::engine::{Guard, GuardCx, Pass};
///
/// /// Asks a person before files are deleted.
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
    /// Returns the name under which the guard is recorded.
    fn name(&self) -> &str;

    /// Decides on a call.
    fn judge(&self, call: GuardCx<'_, D>) -> impl Future<Output = Result<Pass, String>> + Send;
}

/// A tool call that is about to be executed.
#[derive(Debug)]
#[non_exhaustive]
pub struct GuardCx<'a, D> {
    /// The step's ordinal.
    pub step: u64,
    /// The requested tool. A tool with this name may not exist.
    pub tool: &'a str,
    /// The arguments.
    pub args: &'a Map<String, Value>,
    /// The state before the step.
    pub state: &'a State<D>,
}

/// A guard's decision.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Pass {
    /// Allows the call.
    Allow,
    /// Denies the call for this reason, which the agent gets.
    Deny(String),
    /// Allows the call with other arguments.
    Change {
        /// The complete new arguments.
        args: Map<String, Value>,
        /// The reason, for the trace.
        reason: String,
    },
    /// Asks a person, who gets this reason.
    Ask(String),
    /// Denies the call and ends the run for this reason.
    Stop(String),
}

/// A person who can be asked.
pub trait Person: Send + Sync {
    /// Asks whether a call may be executed.
    fn ask(&self, question: Question<'_>) -> impl Future<Output = Result<Consent, String>> + Send;
}

/// A question to a person.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Question<'a> {
    /// The step's ordinal.
    pub step: u64,
    /// The requested tool.
    pub tool: &'a str,
    /// The arguments.
    pub args: &'a Map<String, Value>,
    /// Why the person is asked.
    pub reason: &'a str,
}

/// A person's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Consent {
    /// Allows the call.
    Yes,
    /// Denies the call for this reason.
    No(String),
}

/// [`Guard`] in a form that can be boxed.
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

/// [`Person`] in a form that can be boxed.
pub(super) trait DynPerson: Send + Sync {
    fn ask<'a>(&'a self, question: Question<'a>) -> Boxed<'a, Result<Consent, String>>;
}

impl<P: Person> DynPerson for P {
    fn ask<'a>(&'a self, question: Question<'a>) -> Boxed<'a, Result<Consent, String>> {
        Box::pin(Person::ask(self, question))
    }
}

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
