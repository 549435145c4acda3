//! Which events belong to which step? Both name a step id, and ids start over when a directory is used again.
//!
//! A *lap* is a stretch in which the ids rise. With as many laps of steps as of event groups, the same lap is the
//! same run of the directory. Otherwise one of them is missing a lap (a run that died before its first line, a
//! checkpoint resumed with rising ids), and the newest ones are taken to belong together; but a newest lap of groups
//! that has no line yet belongs to none. Where events tell of one run only, an id that a lap left out and that comes later
//! is no new lap: the lines are out of order.

use std::collections::{BTreeMap, BTreeSet};

use super::{Group, Index, List, Segment};
use crate::model::StepHead;

/// Where the rising stretches of a sequence of ids begin.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Laps {
    starts: Vec<usize>,
    last: Option<i64>,
    /// Items in a row without an id, at the end, and whether there were ever so many that a search gives up.
    bare: usize,
    is_torn: bool,
    /// Whether an id that the lap left out may come later: with one run in the directory a line that stands in another
    /// place is no new run.
    is_lenient: bool,
    /// The ids that the newest lap left out: the first and the last of each stretch.
    gaps: BTreeMap<i64, i64>,
    /// How many items have, or would have, such an id.
    late: usize,
    /// Where they are, by lap and id, and which positions these and their repeats are.
    late_at: BTreeMap<(usize, i64), usize>,
    late_places: BTreeSet<usize>,
    /// Whether an id that the lap has already is no new lap either, and where such ids are.
    takes_doubles: bool,
    doubles: BTreeSet<usize>,
}

impl Laps {
    /// Takes the id of the item at position `at`; items without an id stay in the lap they stand in, and so does one
    /// that only repeats the item before.
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

    /// Has each id that its lap has already begin a lap.
    pub(super) fn takes_none_twice(&mut self) {
        self.takes_doubles = false;
    }

    /// Takes `id` out of the gaps; says whether it was in one.
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

    /// Notes which ids stand between the newest one and `id`; a run begins with 0.
    fn leave_out(&mut self, id: Option<i64>) {
        let first = self.last.map_or(0, |last| last.saturating_add(1));
        if let Some(id) = id.filter(|id| first < *id) {
            self.gaps.insert(first, id - 1);
            if self.gaps.len() > MAX_GAPS {
                self.gaps.pop_first();
            }
        }
    }

    /// Takes note that items were dropped: `moved` is where those of before are now.
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
        let laps = self.starts.len();
        // Laps may have become one: an item is found in the lap that holds its place.
        self.late_at = late
            .into_iter()
            .filter_map(|((lap, id), at)| Some(((lap, id), kept(at)?)))
            .collect();
        let moved: Vec<_> = self
            .late_at
            .iter()
            .map(|((_, id), at)| (self.of(*at).unwrap_or(laps), *id, *at))
            .collect();
        self.late_at = moved
            .into_iter()
            .map(|(lap, id, at)| ((lap, id), at))
            .collect();
    }

    /// Whether an id between these two is nowhere in the newest lap.
    pub(super) fn leaves_out(&self, from: i64, to: i64) -> bool {
        let gap = self.gaps.range(..to).next_back();
        gap.is_some_and(|(_, last)| *last > from)
    }

    /// How many items have an id that their lap had left out.
    pub(super) fn late(&self) -> usize {
        self.late_at.len()
    }

    /// Whether the item at `at` is one of them, or has an id that its lap has already.
    pub(super) fn is_late(&self, at: usize) -> bool {
        self.late_places.contains(&at) || self.doubles.contains(&at)
    }

    /// Whether the item at `at` has an id that its lap has already.
    pub(super) fn is_double(&self, at: usize) -> bool {
        self.doubles.contains(&at)
    }

    /// Whether a search finds each id wherever it is, however many more items come.
    pub(super) fn is_exact(&self) -> bool {
        !self.is_torn
    }

    /// Whether a lap begins at position `at`.
    pub(super) fn begins_at(&self, at: usize) -> bool {
        self.starts.binary_search(&at).is_ok()
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The newest id.
    pub(super) fn last(&self) -> Option<i64> {
        self.last
    }

    pub(super) fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// The lap that position `at` is in.
    pub(super) fn of(&self, at: usize) -> Option<usize> {
        self.starts
            .partition_point(|start| *start <= at)
            .checked_sub(1)
    }

    fn range(&self, lap: usize, total: usize) -> Option<(usize, usize)> {
        Some((
            *self.starts.get(lap)?,
            self.starts.get(lap + 1).copied().unwrap_or(total),
        ))
    }
}

/// Items with ids, and where their laps begin.
pub(super) struct Ids<'a, T> {
    pub(super) items: &'a List<T>,
    pub(super) id: fn(&T) -> Option<i64>,
    pub(super) laps: &'a Laps,
    /// So many of the laps are joined to others.
    pub(super) used: usize,
}

/// How often an id came twice in a row: as a round, and as the same line.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Twice {
    /// Rounds that begin a segment with the id of the round before.
    rounds: usize,
    /// Step lines that are byte for byte the line before.
    lines: usize,
}

/// Which of the step lines that repeat the one before begin a run: as many as events tell of runs that begin with the id
/// at which the one before stopped, the first ones. The others are a writer's second try.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Again {
    ids: BTreeMap<i64, Twice>,
    /// A line was taken for a repeat, and an event tells now of a run that it begins.
    is_stale: bool,
}

impl Again {
    /// Takes a step; says whether it only repeats the one before.
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

/// At most so many ids are remembered that came twice in a row, so many stretches that a lap left out, and so many items
/// that came late. Only a file whose ids make no sense has more.
const MAX_TWICE: usize = 10_000;
const MAX_GAPS: usize = 50_000;
const MAX_LATE: usize = 50_000;
/// A search for an id gives up after this many laps; only a file whose ids all repeat has more.
const MAX_LAPS: usize = 64;
/// An item without an id takes the id of at most this many items before it, for the binary search.
pub(super) const MAX_WALK: usize = 64;

/// The position in `others` of the item that belongs to the one at `at` in `ids`, whose id is `id`.
pub(super) fn matching<A, B>(
    ids: &Ids<'_, A>,
    others: &Ids<'_, B>,
    at: usize,
    id: i64,
) -> Option<usize> {
    let lap = ids.laps.of(at).filter(|lap| *lap < ids.used)?;
    if ids.used == others.used {
        return others.find(lap, id);
    }
    let later = (lap + 1..ids.used)
        .take(MAX_LAPS)
        .filter(|lap| ids.find(*lap, id).is_some())
        .count();
    (0..others.used)
        .rev()
        .take(MAX_LAPS)
        .filter_map(|lap| others.find(lap, id))
        .nth(later)
}

impl<T> Ids<'_, T> {
    /// The position of `id` in one lap, in which ids rise.
    pub(super) fn find(&self, lap: usize, id: i64) -> Option<usize> {
        let (start, end) = self.laps.range(lap, self.items.len())?;
        if let Some(at) = self.laps.late_at.get(&(lap, id)) {
            return Some(*at);
        }
        let rising = |at: &usize| !self.laps.is_late(*at);
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
            laps: &self.step_laps,
            used: self.step_laps.len(),
        }
    }

    pub(super) fn group_ids(&self) -> Ids<'_, Group> {
        let used = self.group_laps.len() - usize::from(self.newest_lap_is_unwritten());
        Ids {
            items: &self.groups,
            id: |group| group.step_id,
            laps: &self.group_laps,
            used,
        }
    }

    /// Whether ids repeat in a way that leaves open which events belong to which step.
    pub fn join_is_open(&self) -> bool {
        let goes_on = self.segments.last().is_some_and(Segment::goes_on);
        !goes_on
            && !self.groups.is_empty()
            && !self.steps.is_empty()
            && self.step_laps.len() != self.group_ids().used
    }

    /// How many steps stand behind one that comes after them, and the ordinal of the first.
    pub fn late_steps(&self) -> (usize, Option<usize>) {
        (
            self.step_laps.late(),
            self.step_laps.late_places.first().copied(),
        )
    }

    /// How many steps have an id that a step of the same run has already, and the ordinal of the first.
    pub fn double_steps(&self) -> (usize, Option<usize>) {
        (
            self.step_laps.doubles.len(),
            self.step_laps.doubles.first().copied(),
        )
    }

    /// Whether the lines of the newest run do not stand in the order of its steps.
    pub fn has_disordered_steps(&self) -> bool {
        let newest = self.newest_start()..;
        let laps = &self.step_laps;
        laps.late_places.range(newest.clone()).next().is_some()
            || laps.doubles.range(newest).next().is_some()
    }

    /// The last step of the newest run: by its place, or by its id where lines are out of order. `None` where the run has
    /// none, or an id twice.
    pub fn last_step(&self) -> Option<usize> {
        let newest = self.newest_start()..self.steps.len();
        if !self.has_disordered_steps() {
            return newest.last();
        }
        let id = |n: &usize| self.steps.get(*n).and_then(|step| step.step_id);
        newest
            .filter(|n| id(n).is_some())
            .max_by_key(id)
            .filter(|_| self.step_laps.doubles.is_empty())
    }

    /// The ordinals at which step ids start over.
    pub fn lap_starts(&self) -> &[usize] {
        self.step_laps.starts()
    }

    /// Whether step `ordinal` is its writer's second try at the line before.
    pub fn is_repeat(&self, ordinal: usize) -> bool {
        let is_copy = self
            .steps
            .get(ordinal)
            .is_some_and(|step| step.repeats && step.step_id.is_some());
        is_copy && !self.step_laps.begins_at(ordinal)
    }

    /// How many steps the newest run has; a line that its writer wrote twice counts once.
    pub fn newest_len(&self) -> usize {
        self.newest_lines().saturating_sub(self.tally.run.repeats)
    }

    /// How many lines of steps the newest run has.
    pub fn newest_lines(&self) -> usize {
        let start = self.newest_start();
        let uncounted = if start < self.steps.len() {
            self.step_skips.uncounted_since(start)
        } else {
            0
        };
        self.steps.len() - start + uncounted
    }

    /// The ordinal at which the steps of the newest run begin; one past the last step where it has none yet. A run that
    /// was resumed goes on with rising ids, and the lines before are its own.
    pub fn newest_start(&self) -> usize {
        let lap = self.lap_starts().last().copied().unwrap_or_default();
        let Some(segment) = self.segments.last().filter(|_| self.segments.len() > 1) else {
            return lap;
        };
        if segment.goes_on() {
            return lap;
        }
        let unwritten = if segment.first_group < self.groups.len() {
            self.newest_lap_is_unwritten()
        } else {
            // It has not come to its first round; its lines, if there are any, start over after those of the others.
            let before = if self.groups.is_empty() {
                self.segments.len() - 1
            } else {
                self.group_laps.len()
            };
            self.step_laps.len() <= before
        };
        if unwritten { self.steps.len() } else { lap }
    }

    /// Whether the rounds of the newest run start over and the newest step line is one of a run before: what is new has
    /// not come to its first line.
    fn newest_lap_is_unwritten(&self) -> bool {
        // Each line has a round, so that with as many laps the newest one has lines.
        if self.segments.last().is_some_and(Segment::goes_on)
            || self.segments.len() <= 1
            || self.step_laps.len() >= self.group_laps.len()
        {
            return false;
        }
        let newest = self.group_laps.len() - 1;
        let first = self.group_laps.starts().last().copied().unwrap_or_default();
        let (Some(last), Some(begins)) = (
            self.step_laps.last(),
            self.groups.get(first).and_then(|group| group.step_id),
        ) else {
            return false;
        };
        let groups = Ids {
            items: &self.groups,
            id: |group| group.step_id,
            laps: &self.group_laps,
            used: newest,
        };
        if groups.find(newest, last).is_none() {
            // With ids that are higher than the lines' it goes on where they stop.
            return begins <= last;
        }
        // A round that another one follows is over, and a run that is over has had its rounds.
        if first + 1 < self.groups.len()
            || self.segment().is_some_and(|segment| segment.end.is_some())
        {
            return false;
        }
        // The line belongs to the only round of the newest lap, or to the last one before it that has its id.
        let before = (0..newest)
            .rev()
            .take(MAX_LAPS)
            .find_map(|lap| groups.find(lap, last));
        before
            .is_some_and(|at| self.is_over(at) || (self.is_checked(at) && !self.is_checked(first)))
    }

    /// Whether events after the round say that it came to its end.
    fn is_over(&self, at: usize) -> bool {
        let segment = self.segment_of(at);
        let is_followed = at + 1 < self.groups.len() && self.segment_of(at + 1) == segment;
        is_followed
            || segment
                .and_then(|segment| self.segments.get(segment))
                .is_some_and(|it| it.end.is_some())
    }

    /// Whether the stop rules were asked in the round, which is the last that happens before its line is written.
    fn is_checked(&self, at: usize) -> bool {
        self.groups.get(at).is_some_and(|group| group.checked)
    }

    /// Puts the newest step, which comes at `at`, into its lap; says whether it begins one or repeats the line before.
    pub(super) fn lap_of_step(&mut self, step: &StepHead, at: usize) {
        let repeats = self.again.step(step);
        let late = self.step_laps.late();
        self.step_laps.push(step.step_id, at, repeats);
        if self.step_laps.begins_at(at) {
            self.void = Default::default();
        }
        if self.step_laps.late() > late {
            // A jump that was counted before is none.
            self.unsettle_all();
        }
    }

    /// Puts the newest group, which comes at `at`, into its lap.
    pub(super) fn lap_of_group(&mut self, id: Option<i64>, at: usize) {
        let begins_segment = self
            .segments
            .last()
            .is_some_and(|segment| segment.first_group == at)
            && at > 0;
        if let Some(id) = id.filter(|id| begins_segment && self.group_laps.last() == Some(*id)) {
            self.again.round(id);
        }
        self.group_laps.push(id, at, false);
    }

    /// Puts all steps into their laps again where an event told of a run that a repeated line begins. Such a line comes
    /// before its events only in a look that reads both. The same where it turns out that one run wrote all lines, or
    /// that more did, and an id comes later than it should.
    pub(super) fn settle_laps(&mut self) {
        let is_one =
            self.segments.len() == 1 && self.segments.iter().all(|segment| segment.initialised);
        let is_lenient = is_one && (self.group_laps.len() <= 1 || self.is_disordered());
        // Of a file that is not read to its end, the runs are not known yet.
        let takes_doubles = is_lenient && !self.more;
        let laps = &mut self.step_laps;
        let is_other = laps.is_lenient != is_lenient || laps.takes_doubles != takes_doubles;
        (laps.is_lenient, laps.takes_doubles) = (is_lenient, takes_doubles);
        let is_late =
            is_other && (laps.late > 0 || !laps.doubles.is_empty() || laps.starts.len() > 1);
        // Where steps were dropped, their ids are not known any more.
        if (!std::mem::take(&mut self.again.is_stale) && !is_late) || self.step_skips.is_cut() {
            return;
        }
        self.again
            .ids
            .values_mut()
            .for_each(|twice| twice.lines = 0);
        self.step_laps = Laps {
            is_lenient,
            takes_doubles,
            ..Laps::default()
        };
        for (at, step) in self.steps.iter().enumerate() {
            let repeats = self.again.step(step);
            self.step_laps.push(step.step_id, at, repeats);
        }
        self.count_joined();
        self.unsettle_all();
    }
}
