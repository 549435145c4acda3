//! Where does playing stop? Steps that a query finds, and steps that changed a key of the state.

use crate::analysis::query::Query;
use crate::analysis::select::matching_steps;
use crate::model::Index;

/// A place to stop at, in the grammar of the search box.
#[derive(Debug, Clone, PartialEq)]
pub struct Breakpoint {
    /// What was typed.
    pub text: String,
    /// How it is understood; its ignored terms are those that are not.
    pub query: Query,
    /// The steps it finds, by ordinal, rising. A query without any term that is understood finds none.
    pub steps: Vec<usize>,
}

impl Breakpoint {
    /// Finds the steps.
    pub fn new(index: &Index, text: &str) -> Self {
        let query = Query::parse(text);
        let steps = if query.is_empty() { Vec::new() } else { matching_steps(index, &query).collect() };
        Self { text: text.trim().to_owned(), query, steps }
    }

    /// Whether it finds step `n`.
    pub fn hits(&self, n: usize) -> bool {
        self.steps.binary_search(&n).is_ok()
    }
}

/// The nearest step after `n` (or before it, where `back`) that any of `breaks` finds; `None` as `n` is the start.
pub fn next_hit(breaks: &[Breakpoint], n: Option<usize>, back: bool) -> Option<usize> {
    let near = breaks.iter().filter_map(|one| nearest(&one.steps, n, back));
    if back { near.max() } else { near.min() }
}

/// The first of `breaks` that finds step `n`.
pub fn first_hit(breaks: &[Breakpoint], n: usize) -> Option<&Breakpoint> {
    breaks.iter().find(|one| one.hits(n))
}

fn nearest(steps: &[usize], n: Option<usize>, back: bool) -> Option<usize> {
    if back {
        let before = steps.partition_point(|step| n.is_some_and(|n| *step < n));
        return steps.get(before.checked_sub(1)?).copied();
    }
    steps.get(steps.partition_point(|step| n.is_some_and(|n| *step <= n))).copied()
}
