//! Aligns two lists. The items are numbers, which are equal if the original items are, so that the
//! alignment is compiled only once.

use std::collections::HashMap;
use std::hash::Hash;

use similar::DiffOp;
use similar::algorithms::{Capture, Compact, Replace, myers};

/// Returns the edits that turn `old` into `new`, by Myers' algorithm.
pub(super) fn edits(old: &[u64], new: &[u64]) -> Vec<DiffOp> {
    let mut ops = Compact::new(Replace::new(Capture::new()), old, new);
    let Ok(()) = myers::diff(&mut ops, old, 0..old.len(), new, 0..new.len());
    ops.into_inner().into_inner().into_ops()
}

/// Gives equal items of both lists equal numbers.
pub(super) fn numbered<T: Eq + Hash>(
    old: impl Iterator<Item = T>,
    new: impl Iterator<Item = T>,
) -> (Vec<u64>, Vec<u64>) {
    let mut known = HashMap::new();
    let mut number = |item| {
        let next = known.len() as u64;
        *known.entry(item).or_insert(next)
    };
    (
        old.map(&mut number).collect(),
        new.map(&mut number).collect(),
    )
}
