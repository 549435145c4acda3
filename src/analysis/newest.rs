//! Which steps are the newest run's, what are they called in a sentence, and how long did it take?

use crate::model::{Index, StepHead};

/// The steps of the newest run in the directory, with their ordinals; none as long as it has not come to its first. A line
/// that its writer wrote twice counts once.
pub fn newest_run(index: &Index) -> impl DoubleEndedIterator<Item = (usize, &StepHead)> + Clone {
    index.steps().iter().enumerate().skip(index.newest_start()).filter(|(n, _)| !index.is_repeat(*n))
}

/// How long the newest run took, in milliseconds: the writer's own figure, or the time between its first and its last
/// event. A writer's figure is of what it wrote itself, when it was done.
pub fn took_ms(index: &Index) -> Option<f64> {
    let segments = index.newest_segments();
    let is_ended = index.segments().len() <= 1 || segments.first().is_some_and(|segment| segment.end.is_some());
    let own = index.manifest().get().filter(|manifest| manifest.is_final() && segments.len() <= 1 && is_ended);
    let own = own.and_then(|manifest| manifest.latency_s).map(|seconds| seconds * 1e3);
    own.or_else(|| Some(index.elapsed()? as f64 / 1e3))
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
