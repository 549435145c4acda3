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
