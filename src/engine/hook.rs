//! Who else wants to know? Hooks hear of every moment of a run; they change nothing and no limit.

use super::cancel::caught_now;
use super::decision::Action;
use super::result::StepRecord;
use super::state::State;
use super::task::Task;
use super::toolbox::ToolResult;
use crate::stop::StopVerdict;

/// Hears of a run's moments, in the order in which they were added. A failure or a panic ends the run under `hook_failed`.
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
    /// Its name, for the message when it fails.
    fn name(&self) -> &str;

    /// Hears of a moment.
    ///
    /// # Errors
    /// Why the run cannot go on.
    fn on(&mut self, moment: &Moment<'_, D>) -> Result<(), String>;
}

/// A moment of a run.
#[derive(Debug)]
#[non_exhaustive]
pub enum Moment<'a, D> {
    /// The first step is about to begin.
    RunStart {
        /// The task.
        task: &'a Task,
        /// The state.
        state: &'a State<D>,
    },
    /// A step begins.
    BeforeStep {
        /// Its ordinal.
        step: u64,
        /// The state.
        state: &'a State<D>,
    },
    /// A phase event of a step was written.
    Phase {
        /// The step.
        step: u64,
        /// The phase, as written.
        phase: &'static str,
        /// The stage, as written; empty for none.
        stage: &'static str,
    },
    /// A model replied.
    Text {
        /// The step.
        step: u64,
        /// What it said; empty where it only calls tools.
        text: &'a str,
    },
    /// A call is about to be made: the guards let it pass, and these are the arguments that they left.
    Call {
        /// The step.
        step: u64,
        /// The call.
        action: &'a Action,
    },
    /// A call of the step has its result, also one that was refused.
    Result {
        /// The step.
        step: u64,
        /// The call's place among those of the step.
        place: usize,
        /// What it gave.
        result: &'a ToolResult,
    },
    /// A step is over and recorded.
    AfterStep {
        /// What it was.
        record: &'a StepRecord,
        /// The state.
        state: &'a State<D>,
    },
    /// The run is over. A failure here is not heard any more.
    RunEnd {
        /// Why.
        verdict: &'a StopVerdict,
    },
}

/// Tells the hooks of a moment; what the first that fails says.
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
