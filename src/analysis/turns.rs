//! Divides a session into turns: the steps from one prompt of a person to the next.

use super::replay::{StepFlag, has};
use super::timing::{began, took};
use crate::model::Index;

/// The steps that follow one prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The first step, by its ordinal.
    pub first: usize,
    /// One past the last step.
    pub end: usize,
    /// The number of steps with an error or a failed command.
    pub failed: usize,
    /// The tokens of all steps, if at least one is recorded.
    pub tokens: Option<u64>,
    /// The start of the first step, in microseconds since the epoch.
    pub started: Option<i64>,
    /// The time from the start of the first step to the end of the last one, in microseconds.
    pub took: Option<i64>,
}

/// Returns the steps that follow a prompt, in order. Empty if the trace doesn't record which records
/// are prompts.
pub fn turn_starts(index: &Index) -> Vec<usize> {
    let Some(prompt) = index
        .names()
        .find("prompt")
        .filter(|_| index.format().is_one_file())
    else {
        return Vec::new();
    };
    let prompts = index
        .events()
        .iter()
        .enumerate()
        .filter(|(_, event)| event.stage == prompt)
        .map(|(at, _)| at);
    // The step after a prompt is the step of the first group after it.
    let step = |at: usize| index.step_of(index.groups().partition_point(|group| group.first <= at));
    let mut steps: Vec<usize> = prompts.filter_map(step).collect();
    steps.dedup();
    if steps.is_sorted() { steps } else { Vec::new() }
}

/// Returns the turns of the run. Steps before the first prompt form a turn of their own. Empty if
/// the run has no steps.
pub fn turns(index: &Index) -> Vec<Turn> {
    let steps = index.steps().len();
    let mut starts = turn_starts(index);
    if starts.first() != Some(&0) {
        starts.insert(0, 0);
    }
    let ends = starts.iter().skip(1).copied().chain([steps]);
    starts
        .iter()
        .zip(ends)
        .filter(|(first, end)| *first < end)
        .map(|(first, end)| turn(index, *first, end))
        .collect()
}

fn turn(index: &Index, first: usize, end: usize) -> Turn {
    let is_failed = |n: &usize| has(index, *n, StepFlag::Error) || has(index, *n, StepFlag::Code);
    let group = |n: usize| index.round_of(n);
    let started = group(first).and_then(|group| began(index, group));
    let last = end.checked_sub(1).and_then(group);
    let until = last.and_then(|last| Some(began(index, last)? + took(last).unwrap_or_default()));
    Turn {
        first,
        end,
        failed: (first..end).filter(is_failed).count(),
        tokens: (first..end)
            .filter_map(|n| index.tokens_of(n))
            .reduce(u64::saturating_add),
        started,
        took: started
            .zip(until)
            .map(|(from, to)| to - from)
            .filter(|took| *took >= 0),
    }
}
