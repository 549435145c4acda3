//! Defines the two sets of runs that are compared, and the tasks that they have.

use crate::analysis::summary::Summary;
use crate::model::words::words;

words! {
    /// A set of runs.
    pub(crate) enum Set {
        /// The first set.
        A = "a",
        /// The second set.
        B = "b",
    }
}

impl Set {
    /// Returns the name of the set on pages.
    pub(crate) fn letter(self) -> &'static str {
        match self {
            Set::A => "A",
            Set::B => "B",
        }
    }
}

/// A run with its success.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judged<'a> {
    pub(super) run: &'a Summary,
    pub(super) solved: Option<bool>,
}

/// Two values, of A and of B.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Two<T> {
    pub(super) a: T,
    pub(super) b: T,
}

impl<T> Two<T> {
    pub(super) fn of(&self, set: Set) -> &T {
        match set {
            Set::A => &self.a,
            Set::B => &self.b,
        }
    }

    pub(super) fn map<U>(&self, f: impl Fn(&T) -> U) -> Two<U> {
        Two {
            a: f(&self.a),
            b: f(&self.b),
        }
    }
}

/// The runs of each set for a task.
pub(super) type Task<'a> = Two<Vec<Judged<'a>>>;

/// Returns the share of successful runs among those whose success is known.
pub(super) fn rate_of(runs: &[Judged<'_>]) -> Option<f64> {
    let known = runs.iter().filter_map(|judged| judged.solved);
    let (all, yes) = known.fold((0_usize, 0_usize), |(all, yes), solved| {
        (all + 1, yes + usize::from(solved))
    });
    (all > 0).then(|| yes as f64 / all as f64)
}
