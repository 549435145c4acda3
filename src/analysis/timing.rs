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
    /// Microseconds until the next phase begins, or until the step's last event; `None` where the clock went back.
    pub micros: Option<i64>,
}

/// The phases of a step in order.
pub fn stretches(index: &Index, group: &Group) -> Vec<Stretch> {
    let mut stretches: Vec<Stretch> = Vec::new();
    for (offset, event) in index.events().range(group.first..group.end).enumerate() {
        let at = group.first + offset;
        match stretches.last_mut() {
            Some(last) if last.phase == event.phase => last.end = at + 1,
            _ => {
                stretches.push(Stretch {
                    phase: event.phase,
                    first: at,
                    end: at + 1,
                    started: event.ts,
                    micros: None,
                });
            }
        }
    }
    let ends: Vec<Option<i64>> = stretches
        .iter()
        .skip(1)
        .map(|next| next.started)
        .chain([group.ended])
        .collect();
    for (stretch, end) in stretches.iter_mut().zip(ends) {
        let times = index
            .events()
            .range(stretch.first..stretch.end)
            .filter_map(|event| event.ts);
        let goes_on = times.chain(end).is_sorted();
        stretch.micros = stretch
            .started
            .zip(end)
            .map(|(start, end)| end - start)
            .filter(|_| goes_on);
    }
    stretches
}

/// How long a step took, from its first event to its last, or to the end of what that began; microseconds. `None` where the
/// clock went back in it, or one time alone is recorded.
pub fn took(group: &Group) -> Option<i64> {
    let is_moment = group.is_timed_once && group.until.is_none() && group.started == group.ended;
    if group.goes_back || is_moment {
        return None;
    }
    Some(group.ended.max(group.until)? - group.started?).filter(|took| *took >= 0)
}

/// When a step began; `None` where that would be before its run did, since the clock went back.
pub fn began(index: &Index, group: &Group) -> Option<i64> {
    let segments = index.segments();
    let own = segments
        .partition_point(|segment| segment.first_event <= group.first)
        .checked_sub(1);
    let (run, _) = own.and_then(|own| segments.get(own))?.span?;
    group.started.filter(|started| *started >= run)
}

/// When the steps of a run began, to find the one that was under way at some time.
#[derive(Debug, Clone, Default)]
pub struct Begins {
    /// Times and ordinals, in the order of time.
    steps: Vec<(i64, usize)>,
    /// Time of the newest event.
    last: Option<i64>,
}

impl Begins {
    /// Of the steps of a run whose times are known.
    pub fn of(index: &Index) -> Self {
        let time = |n: usize| Some((began(index, index.round_of(n)?)?, n));
        let mut steps: Vec<(i64, usize)> = (0..index.steps().len()).filter_map(time).collect();
        steps.sort_unstable();
        Self {
            steps,
            last: index.last_ts(),
        }
    }

    /// The step that was under way at this time, where it called something: what began then may be its doing.
    pub fn calling_at(&self, index: &Index, at: i64) -> Option<usize> {
        let place = self
            .steps
            .partition_point(|(began, _)| *began <= at)
            .checked_sub(1)?;
        let (_, n) = self.steps.get(place)?;
        let called = index.steps().get(*n).is_some_and(|step| step.actions > 0);
        (called && self.last.is_some_and(|last| at <= last)).then_some(*n)
    }
}

/// The longest step of the run; microseconds.
pub fn longest(index: &Index) -> i64 {
    index
        .groups()
        .iter()
        .filter_map(took)
        .max()
        .unwrap_or_default()
}
