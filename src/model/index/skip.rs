//! Bounds what a run takes in memory: which of its records are skipped, and where they lie.
//!
//! Two rules apply to every format, because they apply where records enter the index. Lines without a record are counted
//! once [`KEPT_VOID`] of them follow each other. And once the heads of a file exceed their [`room`], those in the middle
//! are dropped: the first and the newest stay. Either way one unreadable head, the *placeholder*, stays in the place of
//! the skipped ones, so that whoever walks the heads treats them as lines that cannot be read.
//!
//! Both rules depend only on the order of lines in their own file, like all of the index.

use super::super::{Span, TraceFile};

/// Of lines without a record that follow each other, so many are kept; the rest is counted.
const KEPT_VOID: usize = 16;

/// Bytes that the heads of one file may take, however small the file is. Less in unit tests, which would otherwise
/// need hundreds of thousands of records to reach it.
const ROOM: u64 = if cfg!(test) { 12 << 20 } else { 40 << 20 };
/// Bytes that they may take, however large the file is.
const MAX_ROOM: u64 = 384 << 20;

/// Returns how many bytes the heads of a file may take, of which `read` bytes were read.
///
/// A large file has more room, because its records are large on disk too; one that is packed has not.
pub(super) fn room(file: TraceFile, read: u64, is_packed: bool) -> u64 {
    if is_packed {
        return ROOM;
    }
    let share = if file == TraceFile::Steps {
        read / 2
    } else {
        read / 3
    };
    ROOM.saturating_add(share).min(MAX_ROOM)
}

/// Why records are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// They are blank to the board: no JSON, no object, or an object without a known field.
    Void,
    /// The heads of the file exceeded their room.
    Room,
}

/// Records that follow each other and are counted instead of kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skip {
    /// Position of the placeholder in its list.
    pub at: usize,
    /// Number of the first skipped record among all records of the file, from 0.
    pub first: usize,
    /// How many records are skipped.
    pub count: usize,
    /// How many of them belong to the newest run that they are part of.
    pub in_run: usize,
    /// The lines of the first and the last, counted from 1.
    pub lines: (u64, u64),
    /// The bytes from the start of the first to the end of the last.
    pub bytes: (u64, u64),
    /// Why they are skipped.
    pub why: Why,
}

/// The skipped records of one list, in its order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Skips {
    list: Vec<Skip>,
    /// How many lines without a record end the list.
    streak: usize,
    /// What the kept heads weigh.
    weight: u64,
    /// Whether heads were dropped for want of room.
    is_cut: bool,
}

/// What to do with the next head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fold {
    /// It is kept.
    Keep,
    /// It is kept as the placeholder of those after it.
    Begin,
    /// It is counted.
    Count,
}

/// A stretch of a list that is dropped, but for its first position, where a placeholder stays.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hole {
    pub(super) from: usize,
    pub(super) to: usize,
}

impl Hole {
    /// Returns where the item at `at` is afterwards; the placeholder stands for the dropped ones.
    pub(super) fn moved(self, at: usize) -> usize {
        if at < self.from {
            at
        } else if at < self.to {
            self.from
        } else {
            at - (self.to - self.from - 1)
        }
    }

    /// The same for one past an item.
    pub(super) fn moved_end(self, end: usize) -> usize {
        end.checked_sub(1).map_or(0, |last| self.moved(last) + 1)
    }

    /// Returns where the item at `at` is afterwards; `None` where it is dropped.
    pub(super) fn kept(self, at: usize) -> Option<usize> {
        (at < self.from || at >= self.to).then(|| self.moved(at))
    }
}

impl Skip {
    /// Says what is skipped, as a row of a list does.
    pub fn words(&self, noun: &str) -> String {
        let (first, last) = self.lines;
        match self.why {
            Why::Room => format!("{} {noun} skipped, lines {first} to {last}", self.count),
            Why::Void => format!("{} lines without a record, {first} to {last}", self.count),
        }
    }
}

impl Skips {
    /// The skips, in file order.
    pub fn list(&self) -> &[Skip] {
        &self.list
    }

    /// Whether heads were dropped for want of room.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The skip whose placeholder is at `at`.
    pub fn get(&self, at: usize) -> Option<&Skip> {
        let found = self.list.binary_search_by_key(&at, |skip| skip.at).ok()?;
        self.list.get(found)
    }

    /// How many records there are beside the heads of the list.
    pub fn uncounted(&self) -> usize {
        self.list.iter().map(|skip| skip.count - 1).sum()
    }

    /// The same of the run that begins at `start`.
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

    /// Returns the number among all records of the head at `at`, from 0.
    pub fn number(&self, at: usize) -> usize {
        let before = self.list.partition_point(|skip| skip.at < at);
        let last = before.checked_sub(1).and_then(|last| self.list.get(last));
        last.map_or(at, |skip| skip.first + skip.count + (at - skip.at - 1))
    }

    /// Returns where the head of record `number` is; `None` where it is skipped.
    pub fn position(&self, number: usize) -> Option<usize> {
        let before = self.list.partition_point(|skip| skip.first <= number);
        let Some(skip) = before.checked_sub(1).and_then(|last| self.list.get(last)) else {
            return Some(number);
        };
        let beyond = number - skip.first;
        (beyond >= skip.count).then(|| skip.at + 1 + beyond - skip.count)
    }

    /// Decides about the next head, which comes at `at` and may be void.
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

    /// Bytes that are kept.
    pub(super) fn weight(&self) -> u64 {
        self.weight
    }

    /// Adds to the weight of what is kept.
    pub(super) fn weigh(&mut self, more: u64) {
        self.weight += more;
    }

    /// Notes what is kept weighs, after some of it was dropped.
    pub(super) fn reweigh(&mut self, heads: u64) {
        self.weight = heads + (self.list.len() * size_of::<Skip>()) as u64;
    }

    /// Takes from the weight of what is kept.
    pub(super) fn unweigh(&mut self, less: u64) {
        self.weight = self.weight.saturating_sub(less);
    }

    /// Returns what each of `count` heads weighs on average.
    pub(super) fn weight_of_each(&self, count: usize) -> u64 {
        self.weight / (count as u64).max(1)
    }

    /// Returns which heads have to go so that a quarter of `room` is free again, where what is kept has no room: those
    /// after the first quarter of the room. `weights` are those of the heads, in order.
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
            if from.is_none() && before + weight > ROOM / 4 {
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

    /// Notes that the heads of a hole are dropped, whose first and last records lie at `first` and `last`. `start` is
    /// where a run begins inside of it, the last one if there are several. Returns the skip that stands for all of them.
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
        // A placeholder stands for lines beyond its own.
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

    /// A list of so many good lines and then void ones.
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
    fn a_hole_takes_in_the_ranges_inside_of_it() {
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
