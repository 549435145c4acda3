//! Which steps are the newest run's, and what are they called in a sentence?

use crate::model::{Index, StepHead};

/// The steps of the newest run in the directory, with their ordinals; none as long as it has not come to its first.
pub fn newest_run(index: &Index) -> impl DoubleEndedIterator<Item = (usize, &StepHead)> + Clone {
    index.steps().iter().enumerate().skip(index.newest_start())
}

/// "step 5", by the recorded id where there is one.
pub(super) fn label((ordinal, step): (usize, &StepHead)) -> String {
    format!("step {}", step.step_id.unwrap_or(ordinal as i64))
}

/// How many lines at the end of `steps.jsonl` are of later steps than the END event names, and of none before it.
pub(super) fn after_the_end(index: &Index) -> usize {
    let end = index.segment().and_then(|segment| segment.end.as_ref()).map(|(at, ..)| *at);
    let Some((at, id)) = end.and_then(|at| Some((at, index.events().get(at)?.step_id?))) else { return 0 };
    let is_later = |(n, step): &(usize, &StepHead)| {
        step.step_id.is_some_and(|step| step > id) && index.round_of(*n).is_none_or(|round| round.first > at)
    };
    newest_run(index).rev().take_while(is_later).count()
}
