//! Divides a session into turns: the steps from one prompt of a person to the next.

use std::ops::Range;

use super::facts::estimated_cost;
use super::format;
use super::replay::{StepFlag, has};
use super::timing::{began, took};
use crate::model::Index;
use crate::model::price::Prices;

/// The steps that follow one prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The first step, by its ordinal.
    pub first: usize,
    /// One past the last step.
    pub end: usize,
    /// The number of steps with an error or a failed command, without those that were cancelled.
    pub failed: usize,
    /// The number of steps with a cancelled call in which nothing failed.
    pub cancelled: usize,
    /// The tokens of all steps, if at least one is recorded.
    pub tokens: Option<u64>,
    /// Whether the tokens of a step are an estimate.
    pub tokens_estimated: bool,
    /// The start of the first step, in microseconds since the epoch.
    pub started: Option<i64>,
    /// The time from the start of the first step to the end of the last one, in microseconds.
    pub took: Option<i64>,
}

/// Formats the cost of steps: `≈$0.23`. Costs that aren't recorded, or that the run itself
/// estimated, are estimates. Empty if no cost is known.
pub(crate) fn cost_words(index: &Index, steps: Range<usize>, prices: Option<&Prices>) -> String {
    let (mut sum, mut is_estimated, mut is_lower_bound) = (None, false, false);
    // The run estimated the costs that it recorded.
    let is_own = index
        .manifest()
        .get()
        .is_some_and(|manifest| manifest.cost_estimated);
    for n in steps {
        let Some(head) = index.steps().get(n) else {
            continue;
        };
        let estimated = || estimated_cost(index, n, head, prices?);
        match head.cost_usd.or_else(estimated) {
            Some(cost) => {
                is_estimated |= is_own || head.cost_usd.is_none();
                sum = Some(sum.unwrap_or(0.0) + cost);
            }
            None => is_lower_bound = true,
        }
    }
    sum.map_or_else(String::new, |sum| {
        format::cost(Some(sum), is_estimated, is_lower_bound)
    })
}

/// Returns the prompts in order: the step that follows each, and its time. Empty if the trace
/// doesn't record which records are prompts.
pub(crate) fn prompts(index: &Index) -> Vec<(usize, Option<i64>)> {
    let Some(prompt) = index
        .names()
        .find("prompt")
        .filter(|_| index.format().is_one_file())
    else {
        return Vec::new();
    };
    let events = index.events().iter().enumerate();
    let prompts: Vec<_> = events
        .filter(|(_, event)| event.stage == prompt)
        .filter_map(|(at, event)| Some((index.step_after(at)?, event.ts)))
        .collect();
    if prompts.is_sorted_by_key(|(step, _)| *step) {
        prompts
    } else {
        Vec::new()
    }
}

/// Returns the steps that follow a prompt, in order. Empty if that isn't known.
pub(crate) fn turn_starts(index: &Index) -> Vec<usize> {
    let mut steps: Vec<usize> = prompts(index).into_iter().map(|(step, _)| step).collect();
    steps.dedup();
    steps
}

/// Returns the steps of each turn. Steps before the first prompt form a separate turn. Empty if
/// the run has no steps.
pub(crate) fn turn_steps(index: &Index) -> Vec<Range<usize>> {
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
        .map(|(first, end)| *first..end)
        .collect()
}

impl Turn {
    /// Sums up the steps of a turn.
    pub(crate) fn new(index: &Index, Range { start: first, end }: Range<usize>) -> Self {
        let is_cancelled = |n: &usize| {
            let step = index.steps().get(*n).filter(|step| step.is_cancelled());
            // A cancelled command may have an exit code.
            step.is_some_and(|step| step.failed_calls == 0) && index.error_of(*n).is_none()
        };
        let is_failed = |n: &usize| {
            (has(index, *n, StepFlag::Error) || has(index, *n, StepFlag::Code)) && !is_cancelled(n)
        };
        let group = |n: usize| index.round_of(n);
        let started = group(first).and_then(|group| began(index, group));
        let last = end.checked_sub(1).and_then(group);
        let until =
            last.and_then(|last| Some(began(index, last)? + took(last).unwrap_or_default()));
        Self {
            first,
            end,
            failed: (first..end).filter(is_failed).count(),
            cancelled: (first..end).filter(is_cancelled).count(),
            tokens: (first..end)
                .filter_map(|n| index.tokens_of(n))
                .reduce(u64::saturating_add),
            tokens_estimated: (first..end).any(|n| index.tokens_estimated(n)),
            started,
            took: started
                .zip(until)
                .map(|(from, to)| to.saturating_sub(from))
                .filter(|took| *took >= 0),
        }
    }
}
