//! Computes how long runs, steps and their phases took, from the times of their events.

use super::newest::copied;
use super::stated::total;
use crate::model::index::{Group, Segment};
use crate::model::{EventKind, Index, Symbol};

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

    /// Returns the step whose call may have caused what began at `at`: the step that was running at
    /// that time, if it made a tool call. A call that starts runs in the background returns before
    /// they begin, so before the reply of the next step, the call is an earlier one.
    pub fn calling_at(&self, index: &Index, at: i64) -> Option<usize> {
        let place = self
            .steps
            .partition_point(|(began, _)| *began <= at)
            .checked_sub(1)?;
        let (_, n) = self.steps.get(place)?;
        self.last.filter(|last| at <= *last)?;
        let delegates = |n: usize| {
            let step = index.steps().get(n);
            step.is_some_and(|step| step.tools().any(|tool| starts_runs(index.name(tool))))
        };
        if !delegates(*n) && replied(index, *n).is_some_and(|replied| at < replied) {
            let mut earlier = self.steps.get(..place)?.iter().rev().take(BACKGROUND);
            if let Some((_, earlier)) = earlier.find(|(_, n)| delegates(*n)) {
                return Some(*earlier);
            }
        }
        let called = index.steps().get(*n).is_some_and(|step| step.actions > 0);
        called.then_some(*n)
    }
}

/// A run that began in the background was started by one of so many steps before, at most.
const BACKGROUND: usize = 3;

/// Returns whether a tool starts other agents, by its name.
fn starts_runs(tool: &str) -> bool {
    let tool = tool.to_ascii_lowercase();
    tool == "task" || ["agent", "delegate"].iter().any(|word| tool.contains(word))
}

/// Returns the time of the reply of step `n`, which requests its calls. In the formats of other
/// tools, the reply is the record that begins the step.
fn replied(index: &Index, n: usize) -> Option<i64> {
    let is_reply = |kind: EventKind| match kind {
        EventKind::StepStart => index.format().is_one_file(),
        kind => kind == EventKind::Decided,
    };
    let group = index.round_of(n)?;
    let mut events = index.events().range(group.first..group.end);
    events.find(|event| is_reply(event.kind))?.ts
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

/// Returns the segments after the copied steps. Empty if the events don't show where these end.
fn own_segments(index: &Index, copied: usize) -> &[Segment] {
    let newest = index.newest_segments();
    let last = copied.checked_sub(1).and_then(|last| index.group_of(last));
    let from = last.and_then(|last| newest.iter().position(|segment| segment.first_group > last));
    from.and_then(|from| newest.get(from..)).unwrap_or_default()
}

/// Returns when a run with copied steps started its first own step; microseconds since the Unix
/// epoch. Returns `None` if the run copied no steps, or if the events don't show where its own
/// steps start.
pub fn own_start(index: &Index) -> Option<i64> {
    own_segments(index, copied(index)?)
        .first()?
        .span
        .map(|(from, _)| from)
}

/// Returns the duration of the newest run in milliseconds, without steps that it copied from
/// another run.
pub fn own_ms(index: &Index) -> Option<f64> {
    let Some(copied) = copied(index) else {
        return took_ms(index);
    };
    let own = own_segments(index, copied);
    let took: Option<i64> = own.iter().map(Segment::took).sum();
    took.filter(|_| !own.iter().all(|segment| segment.is_timed_once))
        .map(|took| took as f64 / 1e3)
}

/// Returns a lower bound for the duration of the newest run in milliseconds, if its clock went
/// back. Returns `None` if the clock didn't go back, or if the times give no bound.
pub fn own_least_ms(index: &Index) -> Option<f64> {
    let own = copied(index).map_or_else(
        || index.newest_segments(),
        |copied| own_segments(index, copied),
    );
    if own.iter().all(|segment| segment.goes_back.is_none()) {
        return None;
    }
    let ends = own
        .iter()
        .skip(1)
        .map(|next| next.first_event)
        .chain([index.events().len()]);
    let took = |(segment, end): (&Segment, usize)| match segment.goes_back {
        Some(_) => least(
            index
                .events()
                .range(segment.first_event..end)
                .filter_map(|event| event.ts),
        ),
        None => segment.took(),
    };
    let sum: i64 = own.iter().zip(ends).filter_map(took).sum();
    (sum > 0).then_some(sum as f64 / 1e3)
}

/// Returns a lower bound for the duration of events with these times: the time from the first to
/// the last, which a wrong time between them doesn't change. If the last is before the first, the
/// clock was set back. Then only the time since that counts.
fn least(times: impl Iterator<Item = i64>) -> Option<i64> {
    let (mut first, mut since, mut last) = (None, None, None);
    for time in times {
        first = first.or(Some(time));
        if last.is_none_or(|last| time < last) {
            since = Some(time);
        }
        last = Some(time);
    }
    let whole = last? - first?;
    Some(if whole > 0 { whole } else { last? - since? })
}

/// Returns the duration of the newest run in milliseconds, as limits count it: with that of the run
/// that it resumes. Returns `None` if records disagree.
pub fn took_ms(index: &Index) -> Option<f64> {
    total(index, "ms").agreed().copied()
}
