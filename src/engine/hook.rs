//! Defines hooks, which observe a run but can't change it or its limits.

use super::cancel::caught_now;
use super::decision::Action;
use super::result::StepRecord;
use super::state::State;
use super::task::Task;
use super::toolbox::ToolResult;
use crate::stop::StopVerdict;

/// Observes a run. Hooks are called in the order in which they were added. An error or a panic ends
/// the run with the code `hook_failed`. A hook can be a closure; see
/// [`Builder::hook_fn`](super::Builder::hook_fn).
///
/// ```
/// use trace_board::engine::{Hook, Moment};
///
/// struct Prints;
/// impl<D> Hook<D> for Prints {
///     fn name(&self) -> &str { "prints" }
///     fn on(&mut self, moment: &Moment<'_, D>) -> Result<(), String> {
///         match moment {
///             Moment::Call { step, action } => println!("step {step} calls {}", action.name),
///             Moment::RunEnd { verdict } => println!("ended: {}", verdict.code),
///             _ => {}
///         }
///         Ok(())
///     }
/// }
/// ```
pub trait Hook<D>: Send {
    /// Returns the hook's name, for its error messages.
    fn name(&self) -> &str;

    /// Handles a moment of the run.
    ///
    /// # Errors
    /// An error ends the run.
    fn on(&mut self, moment: &Moment<'_, D>) -> Result<(), String>;
}

/// A hook made from a closure.
pub(super) struct FnHook<F> {
    pub(super) name: String,
    pub(super) on: F,
}

impl<D, F> Hook<D> for FnHook<F>
where
    F: FnMut(&Moment<'_, D>) -> Result<(), String> + Send,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn on(&mut self, moment: &Moment<'_, D>) -> Result<(), String> {
        (self.on)(moment)
    }
}

/// A moment of a run.
#[derive(Debug)]
#[non_exhaustive]
pub enum Moment<'a, D> {
    /// Before the first step.
    RunStart {
        /// The task.
        task: &'a Task,
        /// The state.
        state: &'a State<D>,
    },
    /// Before a step.
    BeforeStep {
        /// The step's number, counted from 0.
        step: u64,
        /// The state.
        state: &'a State<D>,
    },
    /// After a phase event of a step was written.
    Phase {
        /// The step's number, counted from 0.
        step: u64,
        /// The phase, as written in the trace.
        phase: &'static str,
        /// The stage, as written in the trace. Empty if there isn't one.
        stage: &'static str,
    },
    /// After a model's reply.
    Text {
        /// The step's number, counted from 0.
        step: u64,
        /// The text of the reply. Empty if the reply has only tool calls.
        text: &'a str,
    },
    /// Before a tool call, after the guards allowed it and changed its arguments.
    Call {
        /// The step's number, counted from 0.
        step: u64,
        /// The call.
        action: &'a Action,
    },
    /// After a tool call, including a refused one.
    Result {
        /// The step's number, counted from 0.
        step: u64,
        /// The index of the call in the step.
        place: usize,
        /// The result.
        result: &'a ToolResult,
    },
    /// After a step was completed and recorded.
    AfterStep {
        /// The step's record.
        record: &'a StepRecord,
        /// The state.
        state: &'a State<D>,
    },
    /// After the run. A failure of the hook is ignored here.
    RunEnd {
        /// The verdict.
        verdict: &'a StopVerdict,
    },
}

/// Calls the hooks. Returns the error of the first hook that fails.
pub(super) fn told<D>(hooks: &mut [Box<dyn Hook<D>>], moment: &Moment<'_, D>) -> Option<String> {
    hooks
        .iter_mut()
        .find_map(|hook| match caught_now(|| hook.on(moment)) {
            Ok(Ok(())) => None,
            Err(wrong) | Ok(Err(wrong)) => {
                Some(format!("the hook {} failed: {wrong}", hook.name()))
            }
        })
}
