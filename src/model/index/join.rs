//! Joins events to steps. Both name a step id, and ids restart when a directory is reused.
//!
//! An *id run* is a sequence of rising ids. If steps and event groups have equally many id runs, equal
//! id runs belong to the same run of the directory. Otherwise one side is missing an id run: a run died
//! before its first line, or a checkpoint was resumed with rising ids. The newest id runs are then
//! assumed to belong together, except that a newest id run of groups that has no line yet belongs to
//! none. If the events record only one run, a skipped id that comes later doesn't begin a new id run:
//! the lines are out of order.

use super::id_runs::{Ids, MAX_LAPS, RunStarts};
use super::{Group, Index, Segment};
use crate::model::StepHead;

impl Index {
    pub(super) fn step_ids(&self) -> Ids<'_, StepHead> {
        Ids {
            items: &self.steps,
            id: |step| step.step_id,
            runs: &self.step_runs,
            used: self.step_runs.len(),
        }
    }

    pub(super) fn group_ids(&self) -> Ids<'_, Group> {
        let used = self.group_runs.len() - usize::from(self.newest_lap_is_unwritten());
        Ids {
            items: &self.groups,
            id: |group| group.step_id,
            runs: &self.group_runs,
            used,
        }
    }

    /// Returns whether ids repeat in a way that makes it ambiguous which events belong to which
    /// step.
    pub fn join_is_open(&self) -> bool {
        let continues_previous = self
            .segments
            .last()
            .is_some_and(Segment::continues_previous);
        !continues_previous
            && !self.groups.is_empty()
            && !self.steps.is_empty()
            && self.step_runs.len() != self.group_ids().used
    }

    /// Returns how many steps are out of order, and the ordinal of the first.
    pub fn late_steps(&self) -> (usize, Option<usize>) {
        (
            self.step_runs.late(),
            self.step_runs.late_places.first().copied(),
        )
    }

    /// Returns how many steps have an id that another step of the same run already has, and the
    /// ordinal of the first.
    pub fn double_steps(&self) -> (usize, Option<usize>) {
        (
            self.step_runs.doubles.len(),
            self.step_runs.doubles.first().copied(),
        )
    }

    /// Returns whether the newest run's lines aren't in the order of its steps.
    pub fn has_disordered_steps(&self) -> bool {
        let newest = self.newest_start()..;
        let runs = &self.step_runs;
        runs.late_places.range(newest.clone()).next().is_some()
            || runs.doubles.range(newest).next().is_some()
    }

    /// Returns the last step of the newest run: by position, or by id if lines are out of order.
    /// Returns `None` if the run has no steps, or if ids repeat in lines that are out of order.
    pub fn last_step(&self) -> Option<usize> {
        let newest = self.newest_start()..self.steps.len();
        if !self.has_disordered_steps() {
            return newest.last();
        }
        let id = |n: &usize| self.steps.get(*n).and_then(|step| step.step_id);
        newest
            .filter(|n| id(n).is_some())
            .max_by_key(id)
            .filter(|_| self.step_runs.doubles.is_empty())
    }

    /// Returns the ordinals at which step ids restart.
    pub fn lap_starts(&self) -> &[usize] {
        self.step_runs.starts()
    }

    /// Returns whether step `ordinal` is a retry that its writer wrote after the identical line
    /// before it.
    pub fn is_repeat(&self, ordinal: usize) -> bool {
        let is_copy = self
            .steps
            .get(ordinal)
            .is_some_and(|step| step.repeats && step.step_id.is_some());
        is_copy && !self.step_runs.begins_at(ordinal)
    }

    /// Returns the number of steps in the newest run. A line that its writer wrote twice counts
    /// once.
    pub fn newest_len(&self) -> usize {
        self.newest_lines().saturating_sub(self.tally.run.repeats)
    }

    /// Returns the number of step lines in the newest run.
    pub fn newest_lines(&self) -> usize {
        let start = self.newest_start();
        let uncounted = if start < self.steps.len() {
            self.step_skips.uncounted_since(start)
        } else {
            0
        };
        self.steps.len() - start + uncounted
    }

    /// Returns the ordinal at which the newest run's steps begin, or one past the last step if it
    /// has none yet. A resumed run continues with rising ids, so the earlier lines are its own.
    pub fn newest_start(&self) -> usize {
        let run_index = self.lap_starts().last().copied().unwrap_or_default();
        let Some(segment) = self.segments.last().filter(|_| self.segments.len() > 1) else {
            return run_index;
        };
        if segment.continues_previous() {
            return run_index;
        }
        let unwritten = if segment.first_group < self.groups.len() {
            self.newest_lap_is_unwritten()
        } else {
            // The run hasn't reached its first group. Its lines, if any, restart after those of the
            // other runs.
            let before = if self.groups.is_empty() {
                self.segments.len() - 1
            } else {
                self.group_runs.len()
            };
            self.step_runs.len() <= before
        };
        if unwritten {
            self.steps.len()
        } else {
            run_index
        }
    }

    /// Returns whether the newest run's groups restart but the newest step line belongs to an
    /// earlier run: the newest run has no line yet.
    fn newest_lap_is_unwritten(&self) -> bool {
        // Each line has a group, so with equally many id runs the newest id run has lines.
        if self
            .segments
            .last()
            .is_some_and(Segment::continues_previous)
            || self.segments.len() <= 1
            || self.step_runs.len() >= self.group_runs.len()
        {
            return false;
        }
        let newest = self.group_runs.len() - 1;
        let first = self.group_runs.starts().last().copied().unwrap_or_default();
        let (Some(last), Some(begins)) = (
            self.step_runs.last(),
            self.groups.get(first).and_then(|group| group.step_id),
        ) else {
            return false;
        };
        let groups = Ids {
            items: &self.groups,
            id: |group| group.step_id,
            runs: &self.group_runs,
            used: newest,
        };
        if groups.find(newest, last).is_none() {
            // If the group's ids are higher than the lines' ids, the run continues where the lines
            // stop.
            return begins <= last;
        }
        // A group that is followed by another is over, and a run that is over has completed its
        // groups.
        if first + 1 < self.groups.len()
            || self.segment().is_some_and(|segment| segment.end.is_some())
        {
            return false;
        }
        // The line belongs to the only group of the newest id run, or to the last earlier group
        // with its id.
        let before = (0..newest)
            .rev()
            .take(MAX_LAPS)
            .find_map(|run_index| groups.find(run_index, last));
        before
            .is_some_and(|at| self.is_over(at) || (self.is_checked(at) && !self.is_checked(first)))
    }

    /// Returns whether later events show that the group ended.
    fn is_over(&self, at: usize) -> bool {
        let segment = self.segment_of(at);
        let is_followed = at + 1 < self.groups.len() && self.segment_of(at + 1) == segment;
        is_followed
            || segment
                .and_then(|segment| self.segments.get(segment))
                .is_some_and(|it| it.end.is_some())
    }

    /// Returns whether the stop rules were evaluated in the group. That happens last before its
    /// line is written.
    fn is_checked(&self, at: usize) -> bool {
        self.groups.get(at).is_some_and(|group| group.checked)
    }

    /// Adds the newest step, at position `at`, to its id run, after finding out whether it repeats the
    /// previous line.
    pub(super) fn lap_of_step(&mut self, step: &StepHead, at: usize) {
        let repeats = self.again.step(step);
        let late = self.step_runs.late();
        self.step_runs.push(step.step_id, at, repeats);
        if self.step_runs.begins_at(at) {
            self.void = Default::default();
        }
        if self.step_runs.late() > late {
            // A jump that was counted earlier may not be one.
            self.unsettle_all();
        }
    }

    /// Adds the newest group, at position `at`, to its id run.
    pub(super) fn lap_of_group(&mut self, id: Option<i64>, at: usize) {
        let begins_segment = self
            .segments
            .last()
            .is_some_and(|segment| segment.first_group == at)
            && at > 0;
        if let Some(id) = id.filter(|id| begins_segment && self.group_runs.last() == Some(*id)) {
            self.again.round(id);
        }
        self.group_runs.push(id, at, false);
    }

    /// Reassigns all steps to id runs if an event recorded a run that a repeated line begins. Such a
    /// line precedes its events only in an update that reads both.
    ///
    /// Also reassigns them if it turns out that one run wrote all lines, or that several did, and
    /// an id comes later than it should.
    pub(super) fn settle_laps(&mut self) {
        let is_one =
            self.segments.len() == 1 && self.segments.iter().all(|segment| segment.initialised);
        let is_lenient = is_one && (self.group_runs.len() <= 1 || self.is_disordered());
        // Until a file is read to its end, its runs aren't all known.
        let takes_doubles = is_lenient && !self.more;
        let runs = &mut self.step_runs;
        let is_other = runs.is_lenient != is_lenient || runs.takes_doubles != takes_doubles;
        (runs.is_lenient, runs.takes_doubles) = (is_lenient, takes_doubles);
        let is_late =
            is_other && (runs.late > 0 || !runs.doubles.is_empty() || runs.starts.len() > 1);
        // If steps were dropped, their ids are unknown.
        if (!std::mem::take(&mut self.again.is_stale) && !is_late) || self.step_skips.is_cut() {
            return;
        }
        self.again
            .ids
            .values_mut()
            .for_each(|twice| twice.lines = 0);
        self.step_runs = RunStarts::new(is_lenient, takes_doubles);
        for (at, step) in self.steps.iter().enumerate() {
            let repeats = self.again.step(step);
            self.step_runs.push(step.step_id, at, repeats);
        }
        self.count_joined();
        self.unsettle_all();
    }
}
