//! Steps through a run event by event: positions, playback clocks and breakpoints.
//!
//! A run is a sequence of *parts*: the events before the first step, each step, and the events
//! after the last step. A part has one position per event. A part without events has one position
//! too, so a replay stops at every step. Positions are numbered from 0 over the whole run. A
//! [`Cursor`] names a position by its part and the event in it, and stays valid while the run
//! grows. Every event belongs to exactly one part. Events between two steps belong to the step
//! before: the end of one run in a directory, the start of the next, or a round that never got its
//! line.
//!
//! Uses only the index: it reads no lines and executes nothing.

use crate::model::{CriticAction, Index};

mod breaks;
#[cfg(test)]
mod tests;

pub(crate) use breaks::{Breakpoint, first_hit, next_hit};

/// The duration of each step on the step clock. Also replaces a time that isn't recorded.
const STEP_MICROS: i64 = 1_000_000;
/// The longest wait on the clock without gaps.
pub(crate) const GAP_MICROS: i64 = 2_000_000;

/// The kind of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scene {
    /// The events before the first step.
    Start,
    /// A step, by ordinal. A round at the end that has no line yet, or never got one, has the
    /// ordinal that its line would have.
    Step(usize),
    /// The events after the last step.
    End,
}

/// A named position in a run: a part and one of its events, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The part.
    pub scene: Scene,
    /// The event in the part; 0 in a part without events.
    pub event: usize,
}

/// The pace at which recorded events are played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Clock {
    /// Every step takes the same time, divided among its events.
    #[default]
    Step,
    /// As recorded.
    Time,
    /// As recorded, but no wait is longer than [`GAP_MICROS`].
    Gaps,
}

/// One part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// The kind of the part.
    pub scene: Scene,
    /// The round that contains these events, as an index into [`Index::groups`].
    pub group: Option<usize>,
    /// The part's first event, as an index into [`Index::events`].
    pub first: usize,
    /// The number of events.
    pub events: usize,
    /// The part's first position.
    pub at: usize,
    /// Microseconds before the part: as recorded, and with gaps shortened.
    before: (i64, i64),
}

impl Part {
    /// Returns the number of positions: one per event, at least one.
    pub(crate) fn positions(&self) -> usize {
        self.events.max(1)
    }

    /// Returns the part's events, as indices into [`Index::events`].
    pub(crate) fn range(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.events
    }
}

/// All positions of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Track {
    parts: Vec<Part>,
    len: usize,
    total: (i64, i64),
}

/// A part before its events are counted: its kind, its round, and the round's events.
type Raw = (Scene, Option<usize>, Option<(usize, usize)>);

impl Track {
    /// Lays out the positions of a run.
    pub(crate) fn new(index: &Index) -> Self {
        let mut parts = steps(index);
        let events = index.events().len();
        // If the file is in order, a part's events end where the next part's begin.
        let own: Vec<(usize, usize)> = parts.iter().filter_map(|part| part.2).collect();
        let in_order = own
            .windows(2)
            .all(|pair| matches!(pair, [a, b] if a.1 <= b.0));
        let (head, tail) = match (
            own.iter().map(|own| own.0).min(),
            own.iter().map(|own| own.1).max(),
        ) {
            (Some(first), Some(last)) => (first, last),
            _ => {
                let last = index.segments().last();
                let end = last.and_then(|run| {
                    run.end
                        .as_ref()
                        .map(|end| end.0)
                        .into_iter()
                        .chain(run.teardown)
                        .min()
                });
                let end = if parts.is_empty() {
                    events
                } else {
                    end.unwrap_or(events)
                };
                (end, end)
            }
        };
        if head > 0 {
            parts.insert(0, (Scene::Start, None, Some((0, head))));
        }
        if tail < events {
            parts.push((Scene::End, None, Some((tail, events))));
        }
        let mut track = Self::default();
        let mut next = tail;
        for (_, _, range) in parts.iter_mut().rev().filter(|_| in_order) {
            if let Some((first, end)) = range {
                *end = if *first >= tail { events } else { next };
                next = *first;
            }
        }
        for (scene, group, range) in parts {
            let (first, end) = range.unwrap_or_default();
            track.push(
                index,
                Part {
                    scene,
                    group,
                    first,
                    events: end - first,
                    at: 0,
                    before: (0, 0),
                },
            );
        }
        track
    }

    /// Adds a part. The time of a part is known only once the next one is added.
    fn push(&mut self, index: &Index, mut part: Part) {
        if let Some(last) = self.parts.last().copied() {
            let mut before = last.before;
            for event in 0..last.positions() {
                let next = if event + 1 < last.positions() {
                    last.range().nth(event + 1)
                } else {
                    part.range().next()
                };
                let wait = between(index, &last, event, next);
                before = (before.0 + wait, before.1 + wait.min(GAP_MICROS));
            }
            part.before = before;
        }
        part.at = self.len;
        self.len += part.positions();
        self.total = part.before;
        for event in 1..part.positions() {
            let wait = between(index, &part, event - 1, part.range().nth(event));
            self.total = (self.total.0 + wait, self.total.1 + wait.min(GAP_MICROS));
        }
        self.parts.push(part);
    }

    /// Returns the parts in order.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the number of positions.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the run has no positions because it has no records.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the last position.
    pub(crate) fn last(&self) -> usize {
        self.len.saturating_sub(1)
    }

    /// Returns the index of the part that contains a position.
    fn part_of(&self, at: usize) -> Option<usize> {
        let part = self
            .parts
            .partition_point(|part| part.at <= at)
            .checked_sub(1)?;
        (at < self.len).then_some(part)
    }

    /// Returns the part that contains a position, and the event in it.
    pub(crate) fn part(&self, at: usize) -> Option<(&Part, usize)> {
        let part = self.parts.get(self.part_of(at)?)?;
        Some((part, at - part.at))
    }

    /// Returns the part of this kind.
    pub(crate) fn find(&self, scene: Scene) -> Option<&Part> {
        let at = self.parts.partition_point(|part| part.scene < scene);
        self.parts.get(at).filter(|part| part.scene == scene)
    }

    /// Returns the position of a cursor, or `None` if the run has no such part or the part no such
    /// event.
    pub(crate) fn position(&self, cursor: Cursor) -> Option<usize> {
        let part = self.find(cursor.scene)?;
        (cursor.event < part.positions()).then_some(part.at + cursor.event)
    }

    /// Moves by `by` events, backward if negative, and stops at either end.
    pub(crate) fn by_events(&self, at: usize, by: isize) -> usize {
        at.saturating_add_signed(by).min(self.last())
    }

    /// Returns the first position of the part that is `by` parts later (earlier if negative). Past
    /// the last part, returns the last position.
    pub(crate) fn by_steps(&self, at: usize, by: isize) -> usize {
        let Some(part) = self.part_of(at.min(self.last())) else {
            return 0;
        };
        match self.parts.get(part.saturating_add_signed(by)) {
            Some(part) => part.at,
            None => self.last(),
        }
    }

    /// Returns the time from the start of the run to a position, in microseconds.
    pub(crate) fn offset(&self, index: &Index, clock: Clock, at: usize) -> i64 {
        let Some((part, event)) = self.part(at) else {
            return 0;
        };
        let before = match clock {
            Clock::Step => {
                i64::try_from(self.part_of(at).unwrap_or_default()).unwrap_or_default()
                    * STEP_MICROS
            }
            Clock::Time => part.before.0,
            Clock::Gaps => part.before.1,
        };
        let first = part.at;
        before
            + (first..first + event)
                .map(|at| self.wait(index, clock, at))
                .sum::<i64>()
    }

    /// Returns the length of the whole run on a clock, in microseconds.
    pub(crate) fn total(&self, clock: Clock) -> i64 {
        match clock {
            Clock::Step => i64::try_from(self.parts.len()).unwrap_or_default() * STEP_MICROS,
            Clock::Time => self.total.0,
            Clock::Gaps => self.total.1,
        }
    }

    /// Returns the time from a position to the next one, in microseconds; 0 for the last.
    pub(crate) fn wait(&self, index: &Index, clock: Clock, at: usize) -> i64 {
        let Some((part, event)) = self.part(at) else {
            return 0;
        };
        let shared = STEP_MICROS / i64::try_from(part.positions()).unwrap_or(1);
        if at >= self.last() {
            return 0;
        }
        let next = self
            .part(at + 1)
            .and_then(|(next, event)| next.range().nth(event));
        match clock {
            Clock::Step => shared,
            Clock::Time => between(index, part, event, next),
            Clock::Gaps => between(index, part, event, next).min(GAP_MICROS),
        }
    }

    /// Returns the next position to show, and how long to show this one, if each is shown for at
    /// least `frame` microseconds. Doesn't go past a `stop` after `at`. Returns `None` at the end.
    pub(crate) fn tick(
        &self,
        index: &Index,
        clock: Clock,
        at: usize,
        frame: i64,
        stop: Option<usize>,
    ) -> Option<(usize, i64)> {
        let end = stop
            .filter(|stop| *stop > at)
            .unwrap_or_else(|| self.last());
        let (mut next, mut wait) = (at, 0);
        while next < end && (next == at || wait < frame) {
            wait += self.wait(index, clock, next);
            next += 1;
        }
        (next > at).then_some((next, wait))
    }
}

/// Returns the steps as parts, before their events are counted.
fn steps(index: &Index) -> Vec<Raw> {
    let range = |group: Option<usize>| {
        group
            .and_then(|at| index.groups().get(at))
            .map(|group| (group.first, group.end))
    };
    let mut parts: Vec<Raw> = Vec::with_capacity(index.steps().len() + 1);
    let mut last = None;
    for n in 0..index.steps().len() {
        let group = index.group_of(n);
        last = last.max(group);
        parts.push((Scene::Step(n), group, range(group)));
    }
    // Rounds after the last line: the step being written, or rounds that a crash left without a
    // line.
    let rounds = last.map_or(0, |last| last + 1)..index.groups().len();
    for (n, group) in (index.steps().len()..).zip(rounds) {
        parts.push((Scene::Step(n), Some(group), range(Some(group))));
    }
    parts
}

/// Returns the recorded time from one event of a part to the next event. A clock that goes back
/// counts as 0. If either time is missing, returns the event's duration on the step clock.
fn between(index: &Index, part: &Part, event: usize, next: Option<usize>) -> i64 {
    let time = |at: Option<usize>| {
        at.and_then(|at| index.events().get(at))
            .and_then(|event| event.ts)
    };
    match (time(part.range().nth(event)), time(next)) {
        (Some(from), Some(to)) => (to - from).max(0),
        _ => STEP_MICROS / i64::try_from(part.positions()).unwrap_or(1),
    }
}

/// A notable property of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StepFlag {
    /// An error of the engine or a tool, a step without a decision, or an unreadable line.
    Error,
    /// A critic stopped the run.
    Stop,
    /// A critic requested a retry.
    Retry,
    /// A command failed.
    Code,
}

/// Returns whether step `n` has a mark.
pub(crate) fn has(index: &Index, n: usize, mark: StepFlag) -> bool {
    let Some(step) = index.steps().get(n) else {
        return false;
    };
    match mark {
        StepFlag::Error => step.is_failed() || index.error_of(n).is_some(),
        StepFlag::Stop => step.requested(CriticAction::Stop),
        StepFlag::Retry => step.requested(CriticAction::Retry),
        StepFlag::Code => step.returncode.is_some(),
    }
}

/// Returns the most important mark of step `n`.
pub(crate) fn mark(index: &Index, n: usize) -> Option<StepFlag> {
    [
        StepFlag::Error,
        StepFlag::Stop,
        StepFlag::Retry,
        StepFlag::Code,
    ]
    .into_iter()
    .find(|mark| has(index, n, *mark))
}

/// Returns the next step after `n` with a mark. Wraps to the start of the run.
pub(crate) fn next_mark(index: &Index, n: Option<usize>) -> Option<usize> {
    let total = index.steps().len();
    let first = n.map_or(0, |n| n + 1).min(total);
    (first..total)
        .chain(0..first)
        .find(|n| mark(index, *n).is_some())
}

/// Returns the previous step before `n` with a mark. Wraps to the end of the run.
pub(crate) fn previous_mark(index: &Index, n: Option<usize>) -> Option<usize> {
    let total = index.steps().len();
    let end = n.unwrap_or(0).min(total);
    (0..end)
        .rev()
        .chain((end..total).rev())
        .find(|n| mark(index, *n).is_some())
}
