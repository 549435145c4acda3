//! Divides a sequence of ids into id runs. An *id run* is a sequence of rising ids.
//!
//! Independent of steps and events, except for step lines that repeat.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::list::List;
use crate::model::StepHead;

/// The positions at which rising sequences of ids begin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RunStarts {
    pub(super) starts: Vec<usize>,
    last: Option<i64>,
    /// The number of trailing items without an id, and whether there were ever so many that a
    /// search gives up.
    bare: usize,
    is_torn: bool,
    /// Whether an id that the id run skipped may come later. If the directory contains one run, a line
    /// out of order doesn't begin a new run.
    pub(super) is_lenient: bool,
    /// The ids that the newest id run skipped, as ranges from the first to the last.
    gaps: BTreeMap<i64, i64>,
    /// The number of items that have such an id, or would have one if this were lenient.
    pub(super) late: usize,
    /// Their positions by id run and id, and the positions of these items and their repeats.
    late_at: BTreeMap<(usize, i64), usize>,
    pub(super) late_places: BTreeSet<usize>,
    /// Whether an id that the id run already contains doesn't begin a new id run either, and the
    /// positions of such ids.
    pub(super) takes_doubles: bool,
    pub(super) doubles: BTreeSet<usize>,
}

impl RunStarts {
    /// Creates an empty sequence. See the fields for the two rules.
    pub(super) fn new(is_lenient: bool, takes_doubles: bool) -> Self {
        Self {
            is_lenient,
            takes_doubles,
            ..Self::default()
        }
    }

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

/// How often an id came twice in a row, as a group and as an identical line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Twice {
    /// Groups that begin a segment with the id of the previous group.
    rounds: usize,
    /// Step lines that are byte for byte identical to the previous line.
    pub(super) lines: usize,
}

/// Decides which of the step lines that repeat the previous line begin a run. If events record n
/// runs that begin with the id at which the previous run stopped, the first n such lines begin one.
/// The others are retries by the writer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Again {
    pub(super) ids: BTreeMap<i64, Twice>,
    /// Whether a line was counted as a repeat, and a later event recorded a run that begins with
    /// it.
    pub(super) is_stale: bool,
}

impl Again {
    /// Adds a step. Returns whether it only repeats the previous one.
    pub(super) fn step(&mut self, step: &StepHead) -> bool {
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

    /// Adds a group that begins a segment with the id of the previous group.
    pub(super) fn round(&mut self, id: i64) {
        if self.ids.len() >= MAX_TWICE && !self.ids.contains_key(&id) {
            return;
        }
        let twice = self.ids.entry(id).or_default();
        self.is_stale |= twice.lines > twice.rounds;
        twice.rounds += 1;
    }
}

/// Maximum number of ids remembered that came twice in a row, ranges that an id run skipped, and items that came
/// late. Only a file whose ids make no sense has more.
const MAX_TWICE: usize = 10_000;
const MAX_GAPS: usize = 50_000;
const MAX_LATE: usize = 50_000;
/// A search for an id gives up after this many id runs. Only a file whose ids all repeat has more.
pub(super) const MAX_LAPS: usize = 64;
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
        let is_before = |at: usize| id_or_before(at).is_none_or(|before| before < id);
        // Most ids rise by one.
        let expected = self.items.get(start).and_then(self.id).and_then(|first| {
            let ahead = usize::try_from(id.checked_sub(first)?).ok()?;
            start.checked_add(ahead).filter(|at| *at < end)
        });
        if let Some(at) = expected
            && rising(&at)
            && id_at(at) == Some(id)
            && (at == start || is_before(at - 1))
        {
            return Some(at);
        }
        // A new id is often beyond the last one.
        if end > start && is_before(end - 1) {
            return None;
        }
        let (mut low, mut high) = (start, end);
        while low < high {
            let middle = low + (high - low) / 2;
            if is_before(middle) {
                low = middle + 1
            } else {
                high = middle
            }
        }
        (low < end && id_at(low) == Some(id)).then_some(low)
    }
}
