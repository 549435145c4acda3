//! Aligns the steps of two runs.
//!
//! Two steps correspond if they request the same: the names and full arguments of all actions are
//! equal. A step without an action (an answer, a wait, a handoff) corresponds to any step of the
//! same mode, so that two different answers are in one row. Must not know pages or read lines. The
//! index has a hash of the whole call.

use std::hash::{DefaultHasher, Hash, Hasher};

use schemars::JsonSchema;
use serde::Serialize;
use similar::{DiffOp, DiffTag};

use crate::analysis::edits::edits;
use crate::model::{Index, StepHead};

#[cfg(test)]
pub(super) mod tests;

/// One row of the alignment. At least one side has a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Pair {
    /// The step of run A, counted from 0.
    pub a: Option<usize>,
    /// The step of run B, counted from 0.
    pub b: Option<usize>,
    /// Whether both steps request the same: actions and arguments, or the answer.
    #[serde(skip)]
    pub asks_same: bool,
}

/// The largest number of steps of both runs together, after trimming equal ends, that are aligned
/// at once. The worst-case cost is its square.
const MAX_WHOLE: usize = 4_000;
/// The number of steps per run that are aligned at a time if there are more than [`MAX_WHOLE`].
const WINDOW: usize = 1_000;

/// Aligns the newest runs of both directories, as verdicts and numbers are about these. Returns
/// every step of both, in order. Different steps at the same position share a row.
///
/// If more than 4,000 steps remain after trimming equal ends, they are aligned window by window. A
/// section of more than 1,000 steps that only one run has may then keep later equal steps from
/// being aligned.
pub(crate) fn align(a: &Index, b: &Index) -> Vec<Pair> {
    let ((old_steps, old), (new_steps, new)) = (keys(a), keys(b));
    let ordinal = |steps: &[usize], place: Option<usize>| steps.get(place?).copied();
    let asked = |index: &Index, n: Option<usize>| Some(index.steps().get(n?)?.asked_hash);
    let pair = |(a_place, b_place)| {
        let (one, other) = (ordinal(&old_steps, a_place), ordinal(&new_steps, b_place));
        Pair {
            a: one,
            b: other,
            asks_same: asked(a, one).is_some_and(|hash| asked(b, other) == Some(hash)),
        }
    };
    places(&old, &new).into_iter().map(pair).collect()
}

/// The places of a row in two lists of keys.
type Places = (Option<usize>, Option<usize>);

/// Aligns two lists of keys. Returns every place of both, in order.
pub(super) fn places(old: &[u64], new: &[u64]) -> Vec<Places> {
    let mut pairs = Vec::with_capacity(old.len().max(new.len()));
    let start = old
        .iter()
        .zip(new)
        .take_while(|(old, new)| old == new)
        .count();
    let most = old.len().min(new.len()) - start;
    let end = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take(most)
        .take_while(|(old, new)| old == new)
        .count();
    side_by_side(&mut pairs, 0..start, 0..start);
    let (old_end, new_end) = (old.len() - end, new.len() - end);
    let (mut at, mut other) = (start, start);
    while at < old_end || other < new_end {
        let whole = old_end - at + new_end - other <= MAX_WHOLE;
        let (old_stop, new_stop) = match whole {
            true => (old_end, new_end),
            false => (old_end.min(at + WINDOW), new_end.min(other + WINDOW)),
        };
        let left = old.get(at..old_stop).unwrap_or_default();
        let right = new.get(other..new_stop).unwrap_or_default();
        let mut ops = edits(left, right);
        if !whole {
            keep_certain(&mut ops);
        }
        let (mut old_done, mut new_done) = (0, 0);
        for op in ops {
            let (_, old, new) = op.as_tag_tuple();
            (old_done, new_done) = (old.end, new.end);
            side_by_side(
                &mut pairs,
                at + old.start..at + old.end,
                other + new.start..other + new.end,
            );
        }
        (at, other) = (at + old_done, other + new_done);
    }
    side_by_side(&mut pairs, old_end..old.len(), new_end..new.len());
    pairs
}

/// Drops everything after the last equal steps of a window, if these are far enough into it. With
/// the next steps in view, the alignment of the rest may turn out differently.
fn keep_certain(ops: &mut Vec<DiffOp>) {
    let last = ops.iter().rposition(|op| {
        let (tag, old, new) = op.as_tag_tuple();
        // Each window must advance the alignment by at least half its size, or there would be too
        // many windows.
        tag == DiffTag::Equal && old.end.max(new.end) >= WINDOW / 2
    });
    ops.truncate(last.map_or(ops.len(), |last| last + 1));
}

fn side_by_side(pairs: &mut Vec<Places>, a: std::ops::Range<usize>, b: std::ops::Range<usize>) {
    for place in 0..a.len().max(b.len()) {
        pairs.push((a.clone().nth(place), b.clone().nth(place)));
    }
}

/// Returns the ordinals of the newest run's steps and the keys to align them by. If the events show
/// no second run, all steps belong to one run.
pub(super) fn keys(index: &Index) -> (Vec<usize>, Vec<u64>) {
    let first = if index.segments().len() > 1 {
        index.newest_start()
    } else {
        0
    };
    index
        .steps()
        .iter()
        .enumerate()
        .skip(first)
        .map(|(n, step)| (n, key(index, step)))
        .unzip()
}

fn key(index: &Index, step: &StepHead) -> u64 {
    if step.actions > 0 || !step.fate.is_readable() {
        return step.asked_hash;
    }
    let mut hasher = DefaultHasher::new();
    index.name(step.mode).hash(&mut hasher);
    hasher.finish()
}
