//! How long did the phases of a step take? From the times of its events.

use crate::model::index::Group;
use crate::model::{Index, Symbol};

/// Events of one phase that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The phase.
    pub phase: Symbol,
    /// The first event, as an index into the run's events.
    pub first: usize,
    /// One past the last event.
    pub end: usize,
    /// Time of the first event; microseconds since the epoch.
    pub started: Option<i64>,
    /// Microseconds until the next phase begins, or until the step's last event. Clocks that go back count as 0.
    pub micros: Option<i64>,
}

/// The phases of a step in order.
pub fn stretches(index: &Index, group: &Group) -> Vec<Stretch> {
    let mut stretches: Vec<Stretch> = Vec::new();
    for (offset, event) in index.events().get(group.first..group.end).unwrap_or_default().iter().enumerate() {
        let at = group.first + offset;
        match stretches.last_mut() {
            Some(last) if last.phase == event.phase => last.end = at + 1,
            _ => {
                stretches.push(Stretch { phase: event.phase, first: at, end: at + 1, started: event.ts, micros: None });
            }
        }
    }
    let ends: Vec<Option<i64>> = stretches.iter().skip(1).map(|next| next.started).chain([group.ended]).collect();
    for (stretch, end) in stretches.iter_mut().zip(ends) {
        stretch.micros = stretch.started.zip(end).map(|(start, end)| (end - start).max(0));
    }
    stretches
}

/// How long a step took, from its first event to its last; microseconds.
pub fn took(group: &Group) -> Option<i64> {
    Some((group.ended? - group.started?).max(0))
}

/// The longest step of the run; microseconds.
pub fn longest(index: &Index) -> i64 {
    index.groups().iter().filter_map(took).max().unwrap_or_default()
}
