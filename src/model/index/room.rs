//! Drops heads from the middle of a file that has more of them than fit in memory.

use super::fold::SEGMENT_WEIGHT;
use super::skip::{Hole, Why, room};
use super::{EventHead, Group, Index, Segment};
use crate::model::{Fate, Span, StepHead, TraceFile};

/// Maximum number of steps whose facts may be in memory at once. The facts of a step take about 2 KB.
pub const STEPS_AT_ONCE: usize = 40_000;

impl Index {
    /// Returns the approximate size of the heads of steps and events, in bytes.
    pub fn weight(&self) -> u64 {
        self.step_skips.weight() + self.event_skips.weight()
    }

    /// Returns the approximate size of the heads in memory, in bytes. It's less than their weight
    /// while some of them are packed.
    #[cfg(feature = "board")]
    pub(crate) fn bytes(&self) -> u64 {
        let saved = self.steps.saves() + self.events.saves() + self.groups.saves();
        self.weight().saturating_sub(saved)
    }

    /// Packs the heads, except for the newest ones. Those that are read afterwards take their full
    /// size again until they're packed again.
    #[cfg(feature = "board")]
    pub(crate) fn pack(&mut self) {
        self.steps.pack(StepHead::weight);
        self.events.pack(|_| size_of::<EventHead>() as u64);
        self.groups.pack(Group::weight);
    }

    /// Returns how many bytes of the run's file were read, up to the offset `end`. The run may be a
    /// part of a file, which begins anywhere in it.
    fn read_until(&self, end: u64) -> u64 {
        let step = self.steps.get(0).map(|step| step.span.offset);
        let event = self.events.get(0).map(|event| event.span.offset);
        let start = step.into_iter().chain(event).min();
        end.saturating_sub(start.unwrap_or_default())
    }

    /// Drops steps until the newest one fits.
    pub(super) fn bound_steps(&mut self) {
        let end = self.steps.last().map_or(0, end_of_step);
        let room = room(TraceFile::Steps, self.read_until(end), self.is_packed);
        let Some(hole) = self
            .step_skips
            .hole(room, self.steps.iter().map(StepHead::weight))
        else {
            return;
        };
        self.settle_hole(hole);
        let place = |at: usize| {
            self.steps
                .get(at)
                .map_or_else(Default::default, |step| (step.line, step.span))
        };
        let (first, last) = (place(hole.from), place(hole.to - 1));
        let mut starts = self.step_runs.starts().iter().copied();
        let start = starts.rfind(|start| (hole.from..hole.to).contains(start));
        let skip = self.step_skips.cut(hole, (first, last), start);
        let placeholder = StepHead {
            fate: Fate::Unreadable,
            line: first.0,
            span: first.1,
            call: skip.words("steps").into(),
            ..StepHead::default()
        };
        self.steps.cut(hole, placeholder);
        self.step_skips
            .reweigh(self.steps.iter().map(StepHead::weight).sum());
        self.step_runs.cut(|at| hole.moved(at), |at| hole.kept(at));
        self.count_joined();
    }

    /// Updates the description of the newest placeholder.
    pub(super) fn name_skips(&mut self) {
        let Some(skip) = self
            .step_skips
            .list()
            .last()
            .filter(|skip| skip.why == Why::Void)
        else {
            return;
        };
        let words = skip.words("steps");
        if self
            .steps
            .get(skip.at)
            .is_some_and(|step| *step.call != words)
            && let Some(step) = self.steps.get_mut(skip.at)
        {
            step.call = words.into();
        }
    }

    /// Drops events, and the groups and runs among them, until the newest event fits.
    pub(super) fn bound_events(&mut self) {
        let end = self
            .events
            .last()
            .map_or(0, |event| event.span.offset.saturating_add(event.span.len));
        let room = room(TraceFile::Events, self.read_until(end), self.is_packed);
        // The weight of groups and runs is spread evenly over the events.
        let weight = self.event_skips.weight_of_each(self.events.len());
        let Some(hole) = self
            .event_skips
            .hole(room, self.events.iter().map(|_| weight))
        else {
            return;
        };
        let place = |at: usize| {
            self.events
                .get(at)
                .map_or_else(Default::default, |event| (event.line, event.span))
        };
        let (first, last): ((u64, Span), _) = (place(hole.from), place(hole.to - 1));
        let mut starts = self.segments.iter().map(|segment| segment.first_event);
        let start = starts.rfind(|start| (hole.from..hole.to).contains(start));
        self.event_skips.cut(hole, (first, last), start);
        let placeholder = EventHead {
            fate: Fate::Unreadable,
            ok: true,
            line: first.0,
            span: first.1,
            ..EventHead::default()
        };
        self.events.cut(hole, placeholder);
        self.cut_groups(hole);
        self.cut_segments(hole);
        self.first_back = self.first_back.map(|at| hole.moved(at));
        self.count_joined();
        let groups: u64 = self.groups.iter().map(Group::weight).sum();
        let events = (self.events.len() * size_of::<EventHead>()) as u64;
        self.event_skips
            .reweigh(events + groups + self.segments.len() as u64 * SEGMENT_WEIGHT);
    }

    /// Drops the groups whose events are all dropped.
    fn cut_groups(&mut self, hole: Hole) {
        let is_dropped = |first: usize, end: usize| first >= hole.from && end <= hole.to;
        // The new position of each group. For a dropped group, this is the next group's.
        let mut places = Vec::with_capacity(self.groups.len() + 1);
        let mut kept = 0;
        for group in &self.groups {
            places.push(kept);
            kept += usize::from(!is_dropped(group.first, group.end));
        }
        places.push(kept);
        self.groups.retain(|mut group| {
            if is_dropped(group.first, group.end) {
                return None;
            }
            (group.first, group.end) = (hole.moved(group.first), hole.moved_end(group.end));
            Some(group)
        });
        let moved = |at: usize| places.get(at).copied().unwrap_or(kept);
        let stays = |at: usize| {
            places
                .get(at..at + 2)
                .filter(|pair| pair.first() < pair.last())?
                .first()
                .copied()
        };
        self.group_runs.cut(moved, stays);
        self.segments
            .iter_mut()
            .for_each(|segment| segment.first_group = moved(segment.first_group));
    }

    /// Drops the runs whose events are all dropped, and updates the event positions in the others.
    fn cut_segments(&mut self, hole: Hole) {
        let ends: Vec<usize> = self
            .segments
            .iter()
            .skip(1)
            .map(|next| next.first_event)
            .collect();
        let mut at = 0;
        self.segments.retain(|segment| {
            let end = ends.get(at).copied().unwrap_or(usize::MAX);
            at += 1;
            segment.first_event < hole.from || end > hole.to
        });
        self.segments
            .iter_mut()
            .for_each(|segment| segment.cut(hole));
    }
}

impl Segment {
    fn cut(&mut self, hole: Hole) {
        self.first_event = hole.moved(self.first_event);
        let init = self.init.iter_mut().map(|(at, _)| at);
        let end = self.end.iter_mut().map(|(at, ..)| at);
        let stop = self.stop.iter_mut().map(|(at, _)| at);
        let critics = self.critics.iter_mut().map(|(at, ..)| at);
        let error = self.error.iter_mut().map(|(at, _)| at);
        let overflow = self.overflow.iter_mut().map(|(at, _)| at);
        let stops = self.stops.iter_mut().map(|(at, _)| at);
        let rest = self
            .teardown
            .iter_mut()
            .chain(&mut self.goes_back)
            .chain(&mut self.of_other_run);
        let all = init
            .chain(end)
            .chain(stop)
            .chain(critics)
            .chain(error)
            .chain(overflow)
            .chain(stops)
            .chain(rest);
        all.for_each(|at| *at = hole.moved(*at));
    }
}

fn end_of_step(step: &StepHead) -> u64 {
    step.span.offset.saturating_add(step.span.len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::index::FileState;
    use crate::model::{Delta, EventKind, Names};
    use crate::soak::times;

    /// Line lengths of a small file, and of a file large enough to keep all its heads.
    const SMALL: u64 = 10;
    const LARGE: u64 = 10_000;

    /// Builds an index of `count` steps, each with a group of two events and 7 tokens. Every third
    /// step failed. Ids restart every `lap` steps. Each delta holds `look` steps.
    fn run(count: usize, lap: usize, apart: u64, look: usize) -> Index {
        let mut names = Names::default();
        let (phase, tool) = (names.intern("DECIDE"), names.intern("act"));
        let place = |n: usize| Span {
            offset: n as u64 * apart,
            len: apart - 1,
        };
        let mut index = Index::default();
        index.apply(Delta {
            names: names.since(0).to_vec(),
            ..Delta::default()
        });
        let all: Vec<usize> = (0..count).collect();
        for part in all.chunks(look) {
            let mut delta = Delta::default();
            for n in part.iter().copied() {
                let id = Some((n % lap) as i64);
                let failed = n.is_multiple_of(3).then(|| "it failed".into());
                delta.steps.push(StepHead {
                    span: place(n),
                    line: n as u64 + 1,
                    step_id: id,
                    mode: tool,
                    tokens: Some(7),
                    error: failed,
                    ..StepHead::default()
                });
                let first = if n.is_multiple_of(lap) {
                    EventKind::RunStart
                } else {
                    EventKind::Inside
                };
                for (at, kind) in [first, EventKind::StepStart, EventKind::Inside]
                    .into_iter()
                    .enumerate()
                {
                    let (line, span) = ((3 * n + at) as u64 + 1, place(3 * n + at));
                    let head = EventHead {
                        span,
                        line,
                        kind,
                        phase,
                        ok: true,
                        step_id: id,
                        ..EventHead::default()
                    };
                    delta.events.push((head, None));
                }
            }
            delta.steps_file = FileState {
                exists: true,
                size: 1,
                read: 1,
            };
            index.apply(delta);
        }
        index
    }

    /// A number of steps whose heads don't fit the room of a small file.
    fn many() -> usize {
        times(30_000, 120_000)
    }

    #[test]
    fn a_run_within_a_file_has_the_room_of_its_own_bytes() {
        let step = StepHead {
            span: Span {
                offset: 1_000,
                len: 10,
            },
            ..StepHead::default()
        };
        let mut index = Index::default();
        index.apply(Delta {
            steps: vec![step],
            ..Delta::default()
        });
        assert_eq!(index.read_until(1_500), 500);
    }

    #[test]
    fn what_is_dropped_is_counted_and_the_first_and_newest_records_stay() {
        let steps = many();
        let whole = run(steps, usize::MAX, LARGE, 2_500);
        assert!(!whole.is_cut() && whole.step_skips().list().is_empty());
        let cut = run(steps, usize::MAX, SMALL, 2_500);
        assert!(cut.step_skips().is_cut() && cut.event_skips().is_cut());
        assert_eq!((cut.step_count(), cut.event_count()), (steps, 3 * steps));
        assert_eq!((cut.newest_len(), cut.steps_read()), (steps, steps));
        let sums = |index: &Index| {
            let run = &index.tally().run;
            (
                run.readable,
                run.tokens,
                run.usage,
                index.failed_steps(),
                run.unknown_tokens,
                index.tally().jumps.count,
            )
        };
        assert_eq!(sums(&cut), sums(&whole));
        let weight: u64 = cut.steps().iter().map(StepHead::weight).sum();
        assert!(
            weight <= room(TraceFile::Steps, steps as u64 * SMALL, false),
            "{weight}"
        );
        let [skip] = cut.step_skips().list() else {
            panic!("one hole")
        };
        let ids = |index: &Index, at: usize| index.steps().get(at).and_then(|step| step.step_id);
        assert_eq!(
            (ids(&cut, 0), ids(&cut, skip.at - 1)),
            (Some(0), Some(skip.at as i64 - 1))
        );
        assert_eq!(ids(&cut, cut.steps().len() - 1), Some(steps as i64 - 1));
        assert_eq!(
            (skip.lines.0, skip.lines.1 - skip.lines.0 + 1),
            (skip.at as u64 + 1, skip.count as u64)
        );
        // Kept steps still have their events, if those are kept too.
        for at in [0, cut.steps().len() - 1] {
            let group = cut.round_of(at).unwrap();
            assert_eq!(group.step_id, ids(&cut, at));
            assert_eq!(
                cut.events()
                    .get(group.first)
                    .and_then(|event| event.step_id),
                group.step_id
            );
        }
        assert!(cut.label(cut.steps().len() - 1) == (steps - 1).to_string());
    }

    #[test]
    fn how_files_were_cut_into_looks_makes_no_difference() {
        let steps = many();
        let (one, other) = (
            run(steps, steps / 4 * 3, SMALL, steps),
            run(steps, steps / 4 * 3, SMALL, 1_667),
        );
        assert!(one.step_skips().is_cut());
        assert_eq!(
            (one.steps(), one.events(), one.groups()),
            (other.steps(), other.events(), other.groups())
        );
        assert_eq!(
            (one.step_skips(), one.event_skips()),
            (other.step_skips(), other.event_skips())
        );
        assert_eq!(
            (one.segments(), one.lap_starts()),
            (other.segments(), other.lap_starts())
        );
        assert_eq!(
            (one.newest_len(), one.tally().run.tokens),
            (steps / 4, other.tally().run.tokens)
        );
    }

    #[test]
    fn a_run_that_begins_among_the_dropped_ones_keeps_its_sums() {
        let steps = many();
        let whole = run(steps, steps / 8 * 3, LARGE, 1_000);
        let cut = run(steps, steps / 8 * 3, SMALL, 1_000);
        assert!(cut.step_skips().is_cut());
        assert_eq!(
            (cut.newest_len(), whole.newest_len()),
            (steps / 4, steps / 4)
        );
        assert_eq!(cut.failed_steps(), whole.failed_steps());
        assert_eq!(cut.tally().run.spent, whole.tally().run.spent);
    }

    #[test]
    fn runs_that_begin_all_the_time_are_bounded_too() {
        let steps = many();
        let cut = run(steps, 2, SMALL, 2_500);
        assert!(cut.segments().len() < steps / 4, "{}", cut.segments().len());
        assert_eq!((cut.step_count(), cut.newest_len()), (steps, 2));
        let last = cut.segments().last().unwrap();
        assert!(last.first_event < cut.events().len() && last.first_group < cut.groups().len());
    }
}
