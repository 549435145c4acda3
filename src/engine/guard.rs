//! Defines guards, which decide whether a tool call is executed, and the person they can ask.
//!
//! A guard can allow the call, deny it, change its arguments, ask a person, or end the run. `admit`
//! asks the guards.

use std::future::Future;

use serde_json::{Map, Value};

use super::erased::Boxed;
use super::state::State;

/// Decides whether a tool call is executed. `D` is the data type of the agent's state. A guard that
/// doesn't wait for anything can be a closure; see [`Builder::guard_fn`](super::Builder::guard_fn).
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
    /// The step's number, counted from 0.
    pub step: u64,
    /// The requested tool. A tool with this name may not exist.
    pub tool: &'a str,
    /// The arguments.
    pub args: &'a Map<String, Value>,
    /// The state before the step.
    pub state: &'a State<D>,
}

impl<D> Clone for GuardCx<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for GuardCx<'_, D> {}

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
    /// The step's number, counted from 0.
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

/// A guard made from a closure.
pub(super) struct FnGuard<F> {
    pub(super) name: String,
    pub(super) judge: F,
}

impl<D, F> Guard<D> for FnGuard<F>
where
    D: Sync,
    F: Fn(GuardCx<'_, D>) -> Result<Pass, String> + Send + Sync,
{
    fn name(&self) -> &str {
        &self.name
    }

    async fn judge(&self, call: GuardCx<'_, D>) -> Result<Pass, String> {
        (self.judge)(call)
    }
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
