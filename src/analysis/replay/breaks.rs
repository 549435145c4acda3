//! Breakpoints of a replay: steps that match a query, and steps that changed a key of the state.

use super::{Part, Scene, Track};
use crate::analysis::query::{Query, Term, Test};
use crate::analysis::select::matching_steps;
use crate::model::Index;

/// A breakpoint, written in the query language of the search box.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Breakpoint {
    /// The text as typed.
    pub text: String,
    /// The parsed query, including the terms it ignored.
    pub query: Query,
    /// The ordinals of the matching steps, ascending. Empty if no term of the query could be
    /// parsed.
    pub steps: Vec<usize>,
}

impl Breakpoint {
    /// Finds the matching steps.
    pub(crate) fn new(index: &Index, text: &str) -> Self {
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

    /// Returns whether step `n` matches.
    pub(crate) fn hits(&self, n: usize) -> bool {
        self.steps.binary_search(&n).is_ok()
    }
}

impl Breakpoint {
    /// Returns the event of `part`, counted from 0, at which the breakpoint becomes true. A score
    /// exists once the critics have run, a changed key after REDUCE, and a tool and its error once
    /// the tool has returned. Anything else is true at the first event.
    pub(crate) fn event(&self, index: &Index, part: &Part) -> usize {
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

    /// Returns the nearest position after `at` (before it if `back`) at which the breakpoint
    /// becomes true.
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

/// Returns the nearest position after `at` (before it if `back`) at which any of `breaks` becomes
/// true.
pub(crate) fn next_hit(
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

/// Returns the first of `breaks` that becomes true at event `event` of `part`.
pub(crate) fn first_hit<'b>(
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
