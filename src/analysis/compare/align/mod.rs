//! Which step of one run corresponds to which step of another?
//!
//! Steps are aligned by what they ask for: the names and arguments of all actions, in full. A step without an action
//! (an answer, a wait, a hand-over) is like any other of its mode, so that two answers stand side by side even where
//! their words differ. Knows no page and reads no line: the index has a hash of the whole call.

use std::hash::{DefaultHasher, Hash, Hasher};

use schemars::JsonSchema;
use serde::Serialize;
use similar::{DiffOp, DiffTag};

use crate::analysis::edits::edits;
use crate::model::{Index, StepHead};

#[cfg(test)]
pub(super) mod tests;

/// Steps of two runs that stand side by side; never neither of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Pair {
    /// The step of run A, by ordinal.
    pub a: Option<usize>,
    /// The step of run B.
    pub b: Option<usize>,
    /// Whether both ask for the same: actions and arguments, or the answer.
    #[serde(skip)]
    pub asks_same: bool,
}

/// Up to so many steps on both sides together, without those at the beginning and the end that are alike, are aligned
/// as one. The cost is the square of it at worst.
const MAX_WHOLE: usize = 4_000;
/// Of more steps, so many of each run are aligned at a time.
const WINDOW: usize = 1_000;

/// Every step of the newest run of both directories, in order, as verdicts and numbers are about it; steps that stand at the
/// same place and differ are side by side.
///
/// Where more than 4,000 steps are left after what is alike at both ends, they are aligned window by window: then a
/// stretch of more than 1,000 steps that only one run has may leave like steps apart that follow it.
pub fn align(a: &Index, b: &Index) -> Vec<Pair> {
    let ((old_steps, old), (new_steps, new)) = (keys(a), keys(b));
    let mut pairs = Vec::with_capacity(old.len().max(new.len()));
    let start = old
        .iter()
        .zip(&new)
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
    for pair in &mut pairs {
        let ordinal = |steps: &[usize], place: Option<usize>| steps.get(place?).copied();
        (pair.a, pair.b) = (ordinal(&old_steps, pair.a), ordinal(&new_steps, pair.b));
        let asked = |index: &Index, n: Option<usize>| Some(index.steps().get(n?)?.asked_hash);
        pair.asks_same = asked(a, pair.a).is_some_and(|hash| asked(b, pair.b) == Some(hash));
    }
    pairs
}

/// Leaves away what follows the last like steps of a window, if those lie far enough in it: with the next steps in view
/// it may turn out otherwise.
fn keep_certain(ops: &mut Vec<DiffOp>) {
    let last = ops.iter().rposition(|op| {
        let (tag, old, new) = op.as_tag_tuple();
        // Every window must bring the alignment on by half of it, or many of them would be needed.
        tag == DiffTag::Equal && old.end.max(new.end) >= WINDOW / 2
    });
    ops.truncate(last.map_or(ops.len(), |last| last + 1));
}

fn side_by_side(pairs: &mut Vec<Pair>, a: std::ops::Range<usize>, b: std::ops::Range<usize>) {
    for place in 0..a.len().max(b.len()) {
        let (a, b) = (a.clone().nth(place), b.clone().nth(place));
        pairs.push(Pair {
            a,
            b,
            asks_same: false,
        });
    }
}

/// The steps of the newest run, by ordinal, and what each is aligned by. If the events don't tell of several runs, all lines
/// count as one run's.
fn keys(index: &Index) -> (Vec<usize>, Vec<u64>) {
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
