//! Bounds the memory that a run takes, by tracking which of its records are skipped and where they
//! were.
//!
//! Two rules apply to every format, because they apply where records enter the index. After
//! [`KEPT_VOID`] consecutive lines without a record, further ones are only counted. If the heads of
//! a file exceed their [`room`], those in the middle are dropped, and the first and the newest
//! stay. In both cases one unreadable head, the *placeholder*, takes the place of the skipped ones,
//! so that code that iterates over heads sees an unreadable line.
//!
//! Both rules depend only on the order of lines in their own file, like the whole index.

use serde::{Deserialize, Serialize};

use super::super::{Span, TraceFile};

/// The number of consecutive lines without a record that are kept. Further ones are only counted.
const KEPT_VOID: usize = 16;

/// The bytes that the heads of a file may take before its share is added. Unit tests use less,
/// because they would otherwise need hundreds of thousands of records to reach it.
const ROOM: u64 = if cfg!(test) { 8 << 20 } else { 40 << 20 };
/// A run of less than 12 MiB has only this instead, plus `SMALL_SHARE` bytes for each byte of it. A
/// file may hold many such runs, and several of them are in memory at a time.
const SMALL_ROOM: u64 = if cfg!(test) { 6 << 20 } else { 16 << 20 };
const SMALL_SHARE: u64 = 2;
/// The bytes that the heads of a file may take, however large it is.
const MAX_ROOM: u64 = 384 << 20;

/// Returns how many bytes the heads of a file may take after `read` bytes of it were read.
///
/// A large file gets more room, because its records are large on disk too. This doesn't apply to
/// compressed files.
pub(super) fn room(file: TraceFile, read: u64, is_packed: bool) -> u64 {
    if is_packed {
        return ROOM;
    }
    let share = if file == TraceFile::Steps {
        read / 3
    } else {
        read / 4
    };
    SMALL_ROOM
        .saturating_add(read.saturating_mul(SMALL_SHARE))
        .min(ROOM)
        .saturating_add(share)
        .min(MAX_ROOM)
}

/// The reason for skipping records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// They have no content that board knows: they aren't JSON, aren't objects, or have no
    /// known field.
    Void,
    /// The heads of the file exceeded their room.
    Room,
}

/// Consecutive records that are counted but not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skip {
    /// The placeholder's position in its list.
    pub at: usize,
    /// The 0-based number of the first skipped record among all records of the file.
    pub first: usize,
    /// The number of skipped records.
    pub count: usize,
    /// How many of them belong to the newest run that they include.
    pub in_run: usize,
    /// The first and the last skipped line, 1-based.
    pub lines: (u64, u64),
    /// The byte range from the start of the first to the end of the last.
    pub bytes: (u64, u64),
    /// Why they are skipped.
    pub why: Why,
}

/// The skipped records of one list, in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Skips {
    list: Vec<Skip>,
    /// The number of consecutive lines without a record at the end of the list.
    streak: usize,
    /// The weight of the kept heads in bytes.
    weight: u64,
    /// Whether heads were dropped for lack of room.
    is_cut: bool,
}

/// How to handle the next head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fold {
    /// Keep it.
    Keep,
    /// Keep it as the placeholder for the ones after it.
    Begin,
    /// Only count it.
    Count,
}

/// A range of a list that is dropped, except for its first position, where a placeholder stays.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hole {
    pub(super) from: usize,
    pub(super) to: usize,
}

impl Hole {
    /// Returns the new position of the item at `at`. For a dropped item, this is the placeholder's.
    pub(super) fn moved(self, at: usize) -> usize {
        if at < self.from {
            at
        } else if at < self.to {
            self.from
        } else {
            at - (self.to - self.from - 1)
        }
    }

    /// Maps an exclusive end instead of a position.
    pub(super) fn moved_end(self, end: usize) -> usize {
        end.checked_sub(1).map_or(0, |last| self.moved(last) + 1)
    }

    /// Returns the new position of the item at `at`, or `None` if it's dropped.
    pub(super) fn kept(self, at: usize) -> Option<usize> {
        (at < self.from || at >= self.to).then(|| self.moved(at))
    }
}

impl Skip {
    /// Describes what is skipped, for a row in a list.
    pub fn words(&self, noun: &str) -> String {
        let (first, last) = self.lines;
        match self.why {
            Why::Room => format!("{} {noun} skipped, lines {first} to {last}", self.count),
            Why::Void => format!("{} lines without a record, {first} to {last}", self.count),
        }
    }
}

impl Skips {
    /// Returns the skips, in file order.
    pub fn list(&self) -> &[Skip] {
        &self.list
    }

    /// Returns whether heads were dropped for lack of room.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the skip whose placeholder is at `at`.
    pub fn get(&self, at: usize) -> Option<&Skip> {
        let found = self.list.binary_search_by_key(&at, |skip| skip.at).ok()?;
        self.list.get(found)
    }

    /// Returns how many records have no head in the list.
    pub fn uncounted(&self) -> usize {
        self.list.iter().map(|skip| skip.count - 1).sum()
    }

    /// Returns how many records of the run that begins at `start` have no head in the list.
    pub(super) fn uncounted_since(&self, start: usize) -> usize {
        let from = self.list.partition_point(|skip| skip.at < start);
        let of = |skip: &Skip| {
            if skip.at == start {
                skip.in_run
            } else {
                skip.count
            }
        };
        self.list
            .iter()
            .skip(from)
            .map(|skip| of(skip).saturating_sub(1))
            .sum()
    }

    /// Returns the 0-based number of the head at `at` among all records.
    pub fn number(&self, at: usize) -> usize {
        let before = self.list.partition_point(|skip| skip.at < at);
        let last = before.checked_sub(1).and_then(|last| self.list.get(last));
        last.map_or(at, |skip| skip.first + skip.count + (at - skip.at - 1))
    }

    /// Returns the position of the head of record `number`, or `None` if it's skipped.
    pub fn position(&self, number: usize) -> Option<usize> {
        let before = self.list.partition_point(|skip| skip.first <= number);
        let Some(skip) = before.checked_sub(1).and_then(|last| self.list.get(last)) else {
            return Some(number);
        };
        let beyond = number - skip.first;
        (beyond >= skip.count).then(|| skip.at + 1 + beyond - skip.count)
    }

    /// Decides how to handle the next head, which comes at position `at`.
    pub(super) fn next(&mut self, is_void: bool, at: usize, (line, span): (u64, Span)) -> Fold {
        self.streak = if is_void { self.streak + 1 } else { 0 };
        if self.streak <= KEPT_VOID {
            return Fold::Keep;
        }
        let end = span.offset.saturating_add(span.len);
        if let Some(skip) = self
            .list
            .last_mut()
            .filter(|skip| skip.at + 1 == at && self.streak > KEPT_VOID + 1)
        {
            (skip.count, skip.in_run) = (skip.count + 1, skip.in_run + 1);
            (skip.lines.1, skip.bytes.1) = (line, end);
            return Fold::Count;
        }
        let first = self.number(at);
        let (lines, bytes) = ((line, line), (span.offset, end));
        self.list.push(Skip {
            at,
            first,
            count: 1,
            in_run: 1,
            lines,
            bytes,
            why: Why::Void,
        });
        self.weight += size_of::<Skip>() as u64;
        Fold::Begin
    }

    /// Returns the weight of the kept heads in bytes.
    pub(super) fn weight(&self) -> u64 {
        self.weight
    }

    /// Adds to the weight.
    pub(super) fn weigh(&mut self, more: u64) {
        self.weight += more;
    }

    /// Sets the weight after heads were dropped.
    pub(super) fn reweigh(&mut self, heads: u64) {
        self.weight = heads + (self.list.len() * size_of::<Skip>()) as u64;
    }

    /// Subtracts from the weight.
    pub(super) fn unweigh(&mut self, less: u64) {
        self.weight = self.weight.saturating_sub(less);
    }

    /// Returns the average weight of each of `count` heads.
    pub(super) fn weight_of_each(&self, count: usize) -> u64 {
        self.weight / (count as u64).max(1)
    }

    /// If the kept heads exceed `room`, returns which of them to drop so that a quarter of `room`
    /// is free again. The dropped range starts after the heads that fill a quarter of `SMALL_ROOM`.
    /// `weights` are the weights of the heads, in order.
    pub(super) fn hole(&self, room: u64, weights: impl Iterator<Item = u64>) -> Option<Hole> {
        if self.weight <= room {
            return None;
        }
        let begins = self
            .list
            .iter()
            .find(|skip| skip.why == Why::Room)
            .map(|skip| skip.at);
        let (mut from, mut before, mut freed) = (begins, 0, 0);
        for (at, weight) in weights.enumerate() {
            if from.is_none() && before + weight > SMALL_ROOM / 4 {
                from = Some(at);
            }
            before += weight;
            let Some(from) = from.filter(|from| at >= *from) else {
                continue;
            };
            if freed > self.weight - room + room / 4 && at > from + 1 {
                return Some(Hole { from, to: at });
            }
            freed += weight;
        }
        None
    }

    /// Records that the heads of a hole were dropped. `first` and `last` are the positions of its
    /// first and last records. `start` is the position of the last run that begins inside the hole,
    /// if any. Returns the skip that replaces all of them.
    pub(super) fn cut(
        &mut self,
        hole: Hole,
        (first, last): ((u64, Span), (u64, Span)),
        start: Option<usize>,
    ) -> Skip {
        let number = self.number(hole.from);
        let count = self.number(hole.to) - number;
        let in_run = match start.filter(|start| *start > hole.from) {
            Some(start) => self.number(hole.to) - self.number(start),
            None => self
                .get(hole.from)
                .map_or(count, |skip| skip.in_run + count - skip.count),
        };
        // A placeholder covers lines beyond its own.
        let ends = |at: usize, (line, span): (u64, Span)| match self.get(at) {
            Some(skip) => (skip.lines.1, skip.bytes.1),
            None => (line, span.offset.saturating_add(span.len)),
        };
        let (last_line, last_byte) = ends(hole.to - 1, last);
        let skip = Skip {
            at: hole.from,
            first: number,
            count,
            in_run,
            lines: (first.0, last_line),
            bytes: (first.1.offset, last_byte),
            why: Why::Room,
        };
        self.list
            .retain(|skip| skip.at < hole.from || skip.at >= hole.to);
        for later in self.list.iter_mut().filter(|skip| skip.at >= hole.to) {
            later.at = hole.moved(later.at);
        }
        let place = self.list.partition_point(|known| known.at < skip.at);
        self.list.insert(place, skip);
        self.is_cut = true;
        skip
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(line: u64) -> (u64, Span) {
        (
            line,
            Span {
                offset: (line - 1) * 2,
                len: 1,
            },
        )
    }

    /// Returns the skips after `good` normal lines and `void` lines without a record, and the
    /// length of the list.
    fn skips(good: usize, void: usize) -> (Skips, usize) {
        let (mut skips, mut len) = (Skips::default(), 0);
        for n in 0..good + void {
            let fold = skips.next(n >= good, len, span(n as u64 + 1));
            len += usize::from(fold != Fold::Count);
        }
        (skips, len)
    }

    #[test]
    fn void_lines_in_a_row_are_one_range() {
        let (skips, len) = skips(3, 1_000);
        assert_eq!(
            (len, skips.uncounted()),
            (3 + KEPT_VOID + 1, 1_000 - KEPT_VOID - 1)
        );
        let [skip] = skips.list() else {
            panic!("{skips:?}")
        };
        assert_eq!(
            (skip.at, skip.first, skip.lines),
            (3 + KEPT_VOID, 3 + KEPT_VOID, (4 + KEPT_VOID as u64, 1_003))
        );
        assert_eq!(
            (skips.number(len), skips.position(1_003)),
            (1_003, Some(len))
        );
        assert_eq!((skips.position(2), skips.position(500)), (Some(2), None));
    }

    #[test]
    fn a_skip_absorbs_the_ranges_inside_it() {
        let (mut skips, len) = skips(3, 1_000);
        for n in 0..10 {
            skips.next(false, len + n, span(1_004 + n as u64));
        }
        let hole = Hole {
            from: 5,
            to: len + 4,
        };
        let skip = skips.cut(hole, (span(6), span(1_007)), Some(len + 1));
        assert_eq!(
            (skip.count, skip.lines, skip.in_run),
            (1_007 - 5, (6, 1_007), 3)
        );
        assert_eq!(
            (skips.list().len(), skips.number(6), skips.position(1_007)),
            (1, 1_007, Some(6))
        );
        assert_eq!(
            (
                skips.uncounted(),
                skips.uncounted_since(5),
                skips.uncounted_since(6)
            ),
            (1_001, 2, 0)
        );
    }

    #[test]
    fn the_first_and_the_newest_heads_stay() {
        let mut skips = Skips::default();
        let room = room(TraceFile::Steps, 0, false);
        let weight = room / 100;
        skips.weigh(101 * weight);
        let hole = skips.hole(room, (0..101).map(|_| weight)).unwrap();
        assert_eq!((hole.from, hole.to), (25, 51));
        assert!(skips.hole(2 * room, (0..101).map(|_| weight)).is_none());
        assert_eq!(
            (hole.moved(3), hole.moved(30), hole.moved(51), hole.kept(30)),
            (3, 25, 26, None)
        );
    }
}
