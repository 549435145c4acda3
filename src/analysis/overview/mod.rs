//! Condenses a run with more steps than fit on a page into columns that keep the extremes of their
//! steps.
//!
//! Must know only the index. A column keeps one step of each kind, so that an error doesn't hide a
//! retry and peaks aren't averaged out.

use crate::analysis::replay::{StepFlag, has};
use crate::analysis::timing::took;
use crate::analysis::turns::turn_starts;
use crate::analysis::window::Window;
use crate::model::price::Prices;
use crate::model::{Index, StepHead};

/// The marks of a step, the most important first.
pub(crate) const MARKS: [StepFlag; 4] = [
    StepFlag::Error,
    StepFlag::Stop,
    StepFlag::Retry,
    StepFlag::Code,
];

/// The input of a model request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Context {
    /// All input tokens.
    pub input: u64,
    /// The cached part of them, if recorded.
    pub cached: Option<u64>,
    /// The step.
    pub step: usize,
}

/// The extremes of some steps, each with its step.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Extremes {
    /// The number of steps.
    pub steps: usize,
    /// The first step with each of the [`MARKS`], and the number of steps that have it. A failed step has
    /// no further mark for its failed command.
    pub marks: [Option<(usize, usize)>; MARKS.len()],
    /// The first step that follows a person's prompt, and the number of such steps.
    pub turns: Option<(usize, usize)>,
    /// The lowest score.
    pub lowest: Option<(f64, usize)>,
    /// The longest step, in microseconds.
    pub longest: Option<(i64, usize)>,
    /// The request with the most input tokens.
    pub fullest: Option<Context>,
    /// The first step after the conversation was compacted, and the number of such steps.
    pub compacted: Option<(usize, usize)>,
}

impl Extremes {
    /// Combines the extremes of several columns.
    fn of(columns: &[Self]) -> Self {
        let mut all = Self::default();
        columns.iter().for_each(|column| all.add(column));
        all
    }

    /// Returns the step to look at first: the one with the most important mark, else the first of a
    /// turn, else the one with the lowest score, else the longest.
    pub(crate) fn first(&self) -> Option<usize> {
        let marked = self.marks.iter().flatten().next().map(|(n, _)| *n);
        let turn = || self.turns.map(|(n, _)| n);
        marked
            .or_else(turn)
            .or(self.lowest.map(|(_, n)| n))
            .or(self.longest.map(|(_, n)| n))
    }

    /// Adds step `n`.
    fn see(&mut self, n: usize, step: &Seen) {
        self.steps += 1;
        let count = |own: &mut Option<(usize, usize)>, is_one: bool| {
            if is_one {
                own.get_or_insert((n, 0)).1 += 1;
            }
        };
        self.marks
            .iter_mut()
            .zip(step.marks)
            .for_each(|(own, is_one)| count(own, is_one));
        count(&mut self.turns, step.is_turn);
        count(&mut self.compacted, step.is_compacted);
        if let Some(score) = step.lowest
            && self.lowest.is_none_or(|(lowest, _)| score < lowest)
        {
            self.lowest = Some((score, n));
        }
        if let Some(took) = step.took
            && self.longest.is_none_or(|(longest, _)| took > longest)
        {
            self.longest = Some((took, n));
        }
        if let Some(context) = step.context
            && self
                .fullest
                .is_none_or(|fullest| context.input > fullest.input)
        {
            self.fullest = Some(context);
        }
    }

    /// Adds the extremes of later steps.
    fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        let more = |own: &mut Option<(usize, usize)>, other: Option<(usize, usize)>| {
            *own = match (*own, other) {
                (Some((n, count)), Some((_, more))) => Some((n, count + more)),
                (own, other) => own.or(other),
            };
        };
        self.marks
            .iter_mut()
            .zip(other.marks)
            .for_each(|(own, other)| more(own, other));
        more(&mut self.turns, other.turns);
        more(&mut self.compacted, other.compacted);
        self.lowest = [self.lowest, other.lowest]
            .into_iter()
            .flatten()
            .reduce(|a, b| if b.0 < a.0 { b } else { a });
        self.longest = [self.longest, other.longest]
            .into_iter()
            .flatten()
            .reduce(|a, b| if b.0 > a.0 { b } else { a });
        self.fullest = [self.fullest, other.fullest]
            .into_iter()
            .flatten()
            .reduce(|a, b| if b.input > a.input { b } else { a });
    }
}

/// What the extremes need of a step.
#[derive(Debug, Clone, Copy)]
struct Seen {
    marks: [bool; MARKS.len()],
    is_turn: bool,
    is_compacted: bool,
    lowest: Option<f64>,
    /// Microseconds.
    took: Option<i64>,
    context: Option<Context>,
}

/// A run in columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Overview {
    /// The columns from left to right.
    pub columns: Vec<Extremes>,
    /// The extremes of all steps.
    pub whole: Extremes,
    /// The context window of the model of the fullest request, if recorded or listed.
    pub window: Option<Window>,
    /// The input tokens of all requests whose cached part is recorded, and that part.
    pub cached: Option<(u64, u64)>,
}

impl Overview {
    /// Distributes the steps over `columns` columns. `place` returns the first and the last column
    /// of a step.
    pub(crate) fn new(
        index: &Index,
        prices: Option<&Prices>,
        columns: usize,
        place: impl Fn(usize) -> (usize, usize),
    ) -> Self {
        let mut overview = Self {
            columns: vec![Extremes::default(); columns],
            ..Self::default()
        };
        // A run with a single prompt needs no marks for it.
        let turns = Some(turn_starts(index)).filter(|turns| turns.len() > 1);
        let mut turns = turns.into_iter().flatten().peekable();
        let mut compacted = compacted(index).into_iter().peekable();
        for n in 0..index.steps().len() {
            let Some(mut step) = seen(index, n) else {
                continue;
            };
            step.is_turn = turns.next_if_eq(&n).is_some();
            step.is_compacted = compacted.next_if_eq(&n).is_some();
            if let Some((input, cached)) = step
                .context
                .and_then(|context| Some((context.input, context.cached?)))
            {
                let sum = overview.cached.get_or_insert_default();
                sum.0 = sum.0.saturating_add(input);
                sum.1 = sum.1.saturating_add(cached);
            }
            let (first, last) = place(n);
            overview
                .columns
                .iter_mut()
                .take(last + 1)
                .skip(first)
                .for_each(|column| column.see(n, &step));
            overview.whole.see(n, &step);
        }
        overview.window = overview.whole.fullest.and_then(|fullest| {
            let step = index.steps().get(fullest.step);
            Window::of(index, step, fullest.input, prices)
        });
        overview
    }

    /// Returns the extremes of some columns.
    pub(crate) fn of(&self, columns: std::ops::Range<usize>) -> Option<Extremes> {
        self.columns.get(columns).map(Extremes::of)
    }

    /// Returns the extremes of the steps in `first..end`, which should be few. Without turns and
    /// compactions.
    pub(crate) fn among(index: &Index, first: usize, end: usize) -> Extremes {
        let mut all = Extremes::default();
        for n in first..end {
            let Some(step) = seen(index, n) else { break };
            all.see(n, &step);
        }
        all
    }
}

/// Returns the steps before which the conversation was compacted, in order.
fn compacted(index: &Index) -> Vec<usize> {
    let all = index.manifest().get();
    let all = all.map(|manifest| manifest.compactions.as_slice());
    let all = all.unwrap_or_default().iter();
    let mut steps: Vec<usize> = all.filter_map(|one| index.step_after(one.event)).collect();
    steps.sort_unstable();
    steps.dedup();
    steps
}

/// Returns what the extremes need of step `n`, except whether a turn or a compaction comes before it.
fn seen(index: &Index, n: usize) -> Option<Seen> {
    let step = index.steps().get(n)?;
    // A step that failed because its command did has one mark.
    let is_again = |mark| mark == StepFlag::Code && has(index, n, StepFlag::Error);
    Some(Seen {
        marks: MARKS.map(|mark| has(index, n, mark) && !is_again(mark)),
        is_turn: false,
        is_compacted: false,
        lowest: step.lowest_score(),
        took: index.round_of(n).and_then(took),
        context: context(step, n),
    })
}

/// Returns the input of the step's request, if recorded.
fn context(step: &StepHead, n: usize) -> Option<Context> {
    let usage = step.usage.get();
    let input = usage.input.filter(|input| *input > 0)?;
    Some(Context {
        input,
        cached: usage.cached.map(|cached| cached.min(input)),
        step: n,
    })
}

#[cfg(test)]
mod tests;
