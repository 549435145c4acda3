//! Where does playing stop? Steps that a query finds, and steps that changed a key of the state.

use super::{Part, Scene, Track};
use crate::analysis::query::{Query, Term, Test};
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
        let steps = if query.is_empty() {
            Vec::new()
        } else {
            matching_steps(index, &query).collect()
        };
        Self {
            text: text.trim().to_owned(),
            query,
            steps,
        }
    }

    /// Whether it finds step `n`.
    pub fn hits(&self, n: usize) -> bool {
        self.steps.binary_search(&n).is_ok()
    }
}

impl Breakpoint {
    /// The event of `part` that makes it true, counted from 0: a score is there when the critics have spoken, a changed
    /// key after reduce, a tool and its error when it has answered; anything else holds from the first event on.
    pub fn event(&self, index: &Index, part: &Part) -> usize {
        let phase = |term: &Term| match &term.test {
            Test::Changed { .. } => Some("REDUCE"),
            Test::Word { field, .. }
            | Test::Number { field, .. }
            | Test::Flag {
                field,
                wanted: true,
            } => field.phase,
            _ => None,
        };
        let events = index.events().range(part.range());
        let last = |name: &str| {
            let phase = index.names().find(name)?;
            events.clone().rposition(|event| event.phase == phase)
        };
        let terms = self.query.terms.iter().filter(|term| !term.negated);
        terms
            .filter_map(phase)
            .filter_map(last)
            .max()
            .unwrap_or_default()
    }

    /// The nearest position after `at`, or before it where `back`, at which it holds.
    fn nearest(&self, index: &Index, track: &Track, at: usize, back: bool) -> Option<usize> {
        let position = |n: &usize| {
            let part = track.find(Scene::Step(*n))?;
            Some(part.at + self.event(index, part))
        };
        let here = match track.part(at)?.0.scene {
            Scene::Start => 0,
            Scene::Step(n) => n,
            Scene::End => usize::MAX,
        };
        if back {
            let end = self.steps.partition_point(|step| *step <= here);
            return self
                .steps
                .get(..end)?
                .iter()
                .rev()
                .filter_map(position)
                .find(|found| *found < at);
        }
        let start = self.steps.partition_point(|step| *step < here);
        self.steps
            .get(start..)?
            .iter()
            .filter_map(position)
            .find(|found| *found > at)
    }
}

/// The nearest position after `at` (or before it, where `back`) at which any of `breaks` holds.
pub fn next_hit(
    breaks: &[Breakpoint],
    index: &Index,
    track: &Track,
    at: usize,
    back: bool,
) -> Option<usize> {
    let near = breaks
        .iter()
        .filter_map(|one| one.nearest(index, track, at, back));
    if back { near.max() } else { near.min() }
}

/// The first of `breaks` that holds at event `event` of `part`.
pub fn first_hit<'b>(
    breaks: &'b [Breakpoint],
    index: &Index,
    part: &Part,
    event: usize,
) -> Option<&'b Breakpoint> {
    let Scene::Step(n) = part.scene else {
        return None;
    };
    breaks
        .iter()
        .find(|one| one.hits(n) && one.event(index, part) == event)
}
