//! Joins events to steps. Both name a step id, and ids restart when a directory is reused.
//!
//! An *id run* is a sequence of rising ids. If steps and event groups have equally many id runs, equal
//! id runs belong to the same run of the directory. Otherwise one side is missing an id run: a run died
//! before its first line, or a checkpoint was resumed with rising ids. The newest id runs are then
//! assumed to belong together, except that a newest id run of groups that has no line yet belongs to
//! none. If the events record only one run, a skipped id that comes later doesn't begin a new id run:
//! the lines are out of order.

use std::collections::{BTreeMap, BTreeSet};

use super::{Group, Index, List, Segment};
use crate::model::StepHead;

/// The positions at which rising sequences of ids begin.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct RunStarts {
    starts: Vec<usize>,
    last: Option<i64>,
    /// The number of trailing items without an id, and whether there were ever so many that a
    /// search gives up.
    bare: usize,
    is_torn: bool,
    /// Whether an id that the id run skipped may come later. If the directory contains one run, a line
    /// out of order doesn't begin a new run.
    is_lenient: bool,
    /// The ids that the newest id run skipped, as ranges from the first to the last.
    gaps: BTreeMap<i64, i64>,
    /// The number of items that have such an id, or would have one if this were lenient.
    late: usize,
    /// Their positions by id run and id, and the positions of these items and their repeats.
    late_at: BTreeMap<(usize, i64), usize>,
    late_places: BTreeSet<usize>,
    /// Whether an id that the id run already contains doesn't begin a new id run either, and the
    /// positions of such ids.
    takes_doubles: bool,
    doubles: BTreeSet<usize>,
}

impl RunStarts {
    /// Adds the item at position `at`. Items without an id stay in the current id run, and so do items
    /// that only repeat the previous one.
    pub(super) fn push(&mut self, id: Option<i64>, at: usize, repeats: bool) {
        let falls = id.is_some() && self.last.is_some() && id <= self.last && !repeats;
        let fills = id.filter(|id| falls && self.fill(*id));
        self.late += usize::from(fills.is_some());
        let is_double =
            falls && fills.is_none() && self.takes_doubles && self.doubles.len() < MAX_LATE;
        let repeats_late = repeats && at.checked_sub(1).is_some_and(|above| self.is_late(above));
        if let Some(id) = fills.filter(|_| self.is_lenient && self.late_at.len() < MAX_LATE) {
            self.late_at.insert((self.starts.len() - 1, id), at);
            self.late_places.insert(at);
        } else if repeats_late {
            self.late_places.insert(at);
        } else if is_double {
            self.doubles.insert(at);
        } else {
            if self.starts.is_empty() || falls {
                self.starts.push(at);
                self.gaps.clear();
                self.last = None;
            }
            self.leave_out(id);
            self.last = id.or(self.last);
        }
        self.bare = if id.is_some() && !self.is_late(at) {
            0
        } else {
            self.bare + 1
        };
        self.is_torn |= self.bare >= MAX_WALK;
    }

    /// Makes each id that its id run already contains begin a new id run.
    pub(super) fn takes_none_twice(&mut self) {
        self.takes_doubles = false;
    }

    /// Removes `id` from the gaps. Returns whether it was in one.
    fn fill(&mut self, id: i64) -> bool {
        let gap = self
            .gaps
            .range(..=id)
            .next_back()
            .map(|(first, last)| (*first, *last));
        let Some((first, last)) = gap.filter(|(_, last)| id <= *last) else {
            return false;
        };
        self.gaps.remove(&first);
        if first < id {
            self.gaps.insert(first, id - 1);
        }
        if id < last {
            self.gaps.insert(id + 1, last);
        }
        true
    }

    /// Records the ids between the newest one and `id` as a gap. A run begins with 0.
    fn leave_out(&mut self, id: Option<i64>) {
        let first = self.last.map_or(0, |last| last.saturating_add(1));
        if let Some(id) = id.filter(|id| first < *id) {
            self.gaps.insert(first, id - 1);
            if self.gaps.len() > MAX_GAPS {
                self.gaps.pop_first();
            }
        }
    }

    /// Updates the positions after items were dropped. `moved` maps old positions to new ones.
    pub(super) fn cut(
        &mut self,
        moved: impl Fn(usize) -> usize,
        kept: impl Fn(usize) -> Option<usize>,
    ) {
        self.starts
            .iter_mut()
            .for_each(|start| *start = moved(*start));
        self.starts.dedup();
        self.late_places = self.late_places.iter().filter_map(|at| kept(*at)).collect();
        self.doubles = self.doubles.iter().filter_map(|at| kept(*at)).collect();
        let late = std::mem::take(&mut self.late_at);
        let runs = self.starts.len();
        // Id runs may have merged, so find each item's id run by its position.
        self.late_at = late
            .into_iter()
            .filter_map(|((run_index, id), at)| Some(((run_index, id), kept(at)?)))
            .collect();
        let moved: Vec<_> = self
            .late_at
            .iter()
            .map(|((_, id), at)| (self.of(*at).unwrap_or(runs), *id, *at))
            .collect();
        self.late_at = moved
            .into_iter()
            .map(|(run_index, id, at)| ((run_index, id), at))
            .collect();
    }

    /// Returns whether an id between these two is missing from the newest id run.
    pub(super) fn leaves_out(&self, from: i64, to: i64) -> bool {
        let gap = self.gaps.range(..to).next_back();
        gap.is_some_and(|(_, last)| *last > from)
    }

    /// Returns how many items have an id that their id run had skipped.
    pub(super) fn late(&self) -> usize {
        self.late_at.len()
    }

    /// Returns whether the item at `at` has an id that its id run had skipped or already contains, or
    /// repeats such an item.
    pub(super) fn is_late(&self, at: usize) -> bool {
        self.late_places.contains(&at) || self.doubles.contains(&at)
    }

    /// Returns whether the item at `at` has an id that its id run already contains.
    pub(super) fn is_double(&self, at: usize) -> bool {
        self.doubles.contains(&at)
    }

    /// Returns whether a search finds every id, however many more items come.
    pub(super) fn is_exact(&self) -> bool {
        !self.is_torn
    }

    /// Returns whether an id run begins at position `at`.
    pub(super) fn begins_at(&self, at: usize) -> bool {
        self.starts.binary_search(&at).is_ok()
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Returns the newest id.
    pub(super) fn last(&self) -> Option<i64> {
        self.last
    }

    pub(super) fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// Returns the id run that contains position `at`.
    pub(super) fn of(&self, at: usize) -> Option<usize> {
        self.starts
            .partition_point(|start| *start <= at)
            .checked_sub(1)
    }

    fn range(&self, run_index: usize, total: usize) -> Option<(usize, usize)> {
        Some((
            *self.starts.get(run_index)?,
            self.starts.get(run_index + 1).copied().unwrap_or(total),
        ))
    }
}

/// Items with ids, and the id runs they form.
pub(super) struct Ids<'a, T> {
    pub(super) items: &'a List<T>,
    pub(super) id: fn(&T) -> Option<i64>,
    pub(super) runs: &'a RunStarts,
    /// The number of id runs that are joined to others.
    pub(super) used: usize,
}

/// How often an id came twice in a row, as a round and as an identical line.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Twice {
    /// Rounds that begin a segment with the id of the previous round.
    rounds: usize,
    /// Step lines that are byte for byte identical to the previous line.
    lines: usize,
}

/// Decides which of the step lines that repeat the previous line begin a run. If events record n
/// runs that begin with the id at which the previous run stopped, the first n such lines begin one.
/// The others are retries by the writer.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Again {
    ids: BTreeMap<i64, Twice>,
    /// Whether a line was counted as a repeat, and a later event recorded a run that begins with
    /// it.
    is_stale: bool,
}

impl Again {
    /// Adds a step. Returns whether it only repeats the previous one.
    fn step(&mut self, step: &StepHead) -> bool {
        let Some(id) = step.step_id.filter(|_| step.repeats) else {
            return false;
        };
        if self.ids.len() >= MAX_TWICE && !self.ids.contains_key(&id) {
            return true;
        }
        let twice = self.ids.entry(id).or_default();
        twice.lines += 1;
        twice.lines > twice.rounds
    }

    fn round(&mut self, id: i64) {
        if self.ids.len() >= MAX_TWICE && !self.ids.contains_key(&id) {
            return;
        }
        let twice = self.ids.entry(id).or_default();
        self.is_stale |= twice.lines > twice.rounds;
        twice.rounds += 1;
    }
}

/// The most ids remembered that came twice in a row, ranges that an id run skipped, and items that came
/// late. Only a file whose ids make no sense has more.
const MAX_TWICE: usize = 10_000;
const MAX_GAPS: usize = 50_000;
const MAX_LATE: usize = 50_000;
/// A search for an id gives up after this many id runs. Only a file whose ids all repeat has more.
const MAX_LAPS: usize = 64;
/// In the binary search, an item without an id takes the id of one of at most this many items
/// before it.
pub(super) const MAX_WALK: usize = 64;

/// Returns the position in `others` of the item that belongs to the item at `at` in `ids`, whose id
/// is `id`.
pub(super) fn matching<A, B>(
    ids: &Ids<'_, A>,
    others: &Ids<'_, B>,
    at: usize,
    id: i64,
) -> Option<usize> {
    let run_index = ids.runs.of(at).filter(|run_index| *run_index < ids.used)?;
    if ids.used == others.used {
        return others.find(run_index, id);
    }
    let later = (run_index + 1..ids.used)
        .take(MAX_LAPS)
        .filter(|run_index| ids.find(*run_index, id).is_some())
        .count();
    (0..others.used)
        .rev()
        .take(MAX_LAPS)
        .filter_map(|run_index| others.find(run_index, id))
        .nth(later)
}

impl<T> Ids<'_, T> {
    /// Returns the position of `id` in one id run, in which ids rise.
    pub(super) fn find(&self, run_index: usize, id: i64) -> Option<usize> {
        let (start, end) = self.runs.range(run_index, self.items.len())?;
        if let Some(at) = self.runs.late_at.get(&(run_index, id)) {
            return Some(*at);
        }
        let rising = |at: &usize| !self.runs.is_late(*at);
        let id_at = |at: usize| self.items.get(at).and_then(self.id);
        let id_or_before = |at: usize| {
            (start..at + 1)
                .rev()
                .take(MAX_WALK)
                .filter(rising)
                .find_map(id_at)
        };
        let (mut low, mut high) = (start, end);
        while low < high {
            let middle = low + (high - low) / 2;
            if id_or_before(middle).is_none_or(|before| before < id) {
                low = middle + 1
            } else {
                high = middle
            }
        }
        (low < end && id_at(low) == Some(id)).then_some(low)
    }
}

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
        let goes_on = self.segments.last().is_some_and(Segment::goes_on);
        !goes_on
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
        if segment.goes_on() {
            return run_index;
        }
        let unwritten = if segment.first_group < self.groups.len() {
            self.newest_lap_is_unwritten()
        } else {
            // The run hasn't reached its first round. Its lines, if any, restart after those of the
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

    /// Returns whether the newest run's rounds restart but the newest step line belongs to an
    /// earlier run: the newest run has no line yet.
    fn newest_lap_is_unwritten(&self) -> bool {
        // Each line has a round, so with equally many id runs the newest id run has lines.
        if self.segments.last().is_some_and(Segment::goes_on)
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
            // If the round's ids are higher than the lines' ids, the run continues where the lines
            // stop.
            return begins <= last;
        }
        // A round that is followed by another is over, and a run that is over has completed its
        // rounds.
        if first + 1 < self.groups.len()
            || self.segment().is_some_and(|segment| segment.end.is_some())
        {
            return false;
        }
        // The line belongs to the only round of the newest id run, or to the last earlier round with
        // its id.
        let before = (0..newest)
            .rev()
            .take(MAX_LAPS)
            .find_map(|run_index| groups.find(run_index, last));
        before
            .is_some_and(|at| self.is_over(at) || (self.is_checked(at) && !self.is_checked(first)))
    }

    /// Returns whether later events show that the round ended.
    fn is_over(&self, at: usize) -> bool {
        let segment = self.segment_of(at);
        let is_followed = at + 1 < self.groups.len() && self.segment_of(at + 1) == segment;
        is_followed
            || segment
                .and_then(|segment| self.segments.get(segment))
                .is_some_and(|it| it.end.is_some())
    }

    /// Returns whether the stop rules were evaluated in the round. That happens last before its
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
        self.step_runs = RunStarts {
            is_lenient,
            takes_doubles,
            ..RunStarts::default()
        };
        for (at, step) in self.steps.iter().enumerate() {
            let repeats = self.again.step(step);
            self.step_runs.push(step.step_id, at, repeats);
        }
        self.count_joined();
        self.unsettle_all();
    }
}
