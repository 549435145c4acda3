//! Computes how long steps and their phases took, from the times of their events.

use crate::model::index::Group;
use crate::model::{Index, Symbol};

/// Consecutive events of one phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The phase.
    pub phase: Symbol,
    /// The first event, as an index into the run's events.
    pub first: usize,
    /// One past the last event.
    pub end: usize,
    /// The time of the first event, in microseconds since the epoch.
    pub started: Option<i64>,
    /// Microseconds until the next phase begins, or until the step's last event. `None` if the
    /// clock went back or a time is missing.
    pub micros: Option<i64>,
}

/// Returns the phases of a step in order.
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

/// Returns how long a step took, in microseconds: from its first event to its last, or to the end
/// of what the step started. `None` if the clock went back during the step, or only one time is
/// recorded.
pub fn took(group: &Group) -> Option<i64> {
    let is_moment = group.is_timed_once && group.until.is_none() && group.started == group.ended;
    if group.goes_back || is_moment {
        return None;
    }
    Some(group.ended.max(group.until)? - group.started?).filter(|took| *took >= 0)
}

/// Returns when a step began, or `None` if the clock went back so that this would be before the run
/// began.
pub fn began(index: &Index, group: &Group) -> Option<i64> {
    let segments = index.segments();
    let own = segments
        .partition_point(|segment| segment.first_event <= group.first)
        .checked_sub(1);
    let (run, _) = own.and_then(|own| segments.get(own))?.span?;
    group.started.filter(|started| *started >= run)
}

/// The start times of a run's steps, for finding the step that was running at a given time.
#[derive(Debug, Clone, Default)]
pub struct Begins {
    /// Times and ordinals, sorted by time.
    steps: Vec<(i64, usize)>,
    /// The time of the newest event.
    last: Option<i64>,
}

impl Begins {
    /// Collects the steps with known times.
    pub fn of(index: &Index) -> Self {
        let time = |n: usize| Some((began(index, index.round_of(n)?)?, n));
        let mut steps: Vec<(i64, usize)> = (0..index.steps().len()).filter_map(time).collect();
        steps.sort_unstable();
        Self {
            steps,
            last: index.last_ts(),
        }
    }

    /// Returns the step that was running at `at`, if it made a tool call. The call may have caused
    /// what began at that time.
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

/// Returns the duration of the run's longest step, in microseconds.
pub fn longest(index: &Index) -> i64 {
    index
        .groups()
        .iter()
        .filter_map(took)
        .max()
        .unwrap_or_default()
}
