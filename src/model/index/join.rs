//! Which events belong to which step? Both name a step id, and ids start over when a directory is used again.
//!
//! A *lap* is a stretch in which the ids rise. With as many laps of steps as of event groups, the same lap is the
//! same run of the directory. Otherwise one of them is missing a lap (a run that died before its first line, a
//! checkpoint resumed with rising ids), and the newest ones are taken to belong together.

use super::List;

/// Where the rising stretches of a sequence of ids begin.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Laps {
    starts: Vec<usize>,
    last: Option<i64>,
    /// Items in a row without an id, at the end, and whether there were ever so many that a search gives up.
    bare: usize,
    is_torn: bool,
}

impl Laps {
    /// Takes the id of the item at position `at`; items without an id stay in the lap they stand in.
    pub(super) fn push(&mut self, id: Option<i64>, at: usize) {
        let falls = id.is_some() && self.last.is_some() && id <= self.last;
        if self.starts.is_empty() || falls {
            self.starts.push(at);
        }
        self.last = id.or(self.last);
        self.bare = if id.is_some() { 0 } else { self.bare + 1 };
        self.is_torn |= self.bare >= MAX_WALK;
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

    pub(super) fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// The lap that position `at` is in.
    pub(super) fn of(&self, at: usize) -> Option<usize> {
        self.starts.partition_point(|start| *start <= at).checked_sub(1)
    }

    fn range(&self, lap: usize, total: usize) -> Option<(usize, usize)> {
        Some((*self.starts.get(lap)?, self.starts.get(lap + 1).copied().unwrap_or(total)))
    }
}

/// Items with ids, and where their laps begin.
pub(super) struct Ids<'a, T> {
    pub(super) items: &'a List<T>,
    pub(super) id: fn(&T) -> Option<i64>,
    pub(super) laps: &'a Laps,
}

/// A search for an id gives up after this many laps; only a file whose ids all repeat has more.
const MAX_LAPS: usize = 64;
/// An item without an id takes the id of at most this many items before it, for the binary search.
const MAX_WALK: usize = 64;

/// The position in `others` of the item that belongs to the one at `at` in `ids`, whose id is `id`.
pub(super) fn matching<A, B>(ids: &Ids<'_, A>, others: &Ids<'_, B>, at: usize, id: i64) -> Option<usize> {
    let lap = ids.laps.of(at)?;
    if ids.laps.len() == others.laps.len() {
        return others.find(lap, id);
    }
    let later = (lap + 1..ids.laps.len()).take(MAX_LAPS).filter(|lap| ids.find(*lap, id).is_some()).count();
    (0..others.laps.len()).rev().take(MAX_LAPS).filter_map(|lap| others.find(lap, id)).nth(later)
}

impl<T> Ids<'_, T> {
    /// The position of `id` in one lap, in which ids rise.
    pub(super) fn find(&self, lap: usize, id: i64) -> Option<usize> {
        let (start, end) = self.laps.range(lap, self.items.len())?;
        let id_or_before = |at: usize| self.items.range(start..at + 1).rev().take(MAX_WALK).find_map(self.id);
        let (mut low, mut high) = (start, end);
        while low < high {
            let middle = low + (high - low) / 2;
            if id_or_before(middle).is_none_or(|before| before < id) { low = middle + 1 } else { high = middle }
        }
        (low < end && self.items.get(low).and_then(self.id) == Some(id)).then_some(low)
    }
}
