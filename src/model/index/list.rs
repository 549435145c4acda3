//! A list that grows cheaply while others hold copies of it. It consists of shared chunks: a copy
//! keeps its items, and appending copies at most the last chunk. Full chunks can be packed.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

#[cfg(feature = "board")]
use serde::{Serialize, de::DeserializeOwned};

use super::chunk::Chunk;
use super::skip::Hole;

/// The approximate size of a chunk in bytes, without what its items point to. Hundreds of runs may
/// grow at once, each with a few chunks that aren't packed.
const CHUNK_BYTES: usize = 1 << 13;

/// Items in order of arrival.
#[derive(Clone)]
pub struct List<T> {
    /// The full chunks.
    full: Arc<Vec<Arc<Chunk<T>>>>,
    /// The growing chunk.
    last: Arc<Vec<T>>,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self {
            full: Arc::default(),
            last: Arc::default(),
        }
    }
}

impl<T: PartialEq> PartialEq for List<T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other)
    }
}

impl<T: fmt::Debug> fmt::Debug for List<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self).finish()
    }
}

impl<T> List<T> {
    /// The number of items in a full chunk.
    const CHUNK: usize = match CHUNK_BYTES / size_of::<T>() {
        0 => 1,
        items => 1 << items.ilog2(),
    };

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.full.len() * Self::CHUNK + self.last.len()
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the item at position `at`.
    pub fn get(&self, at: usize) -> Option<&T> {
        let chunk = self.full.get(at / Self::CHUNK);
        chunk
            .map_or(&*self.last, |chunk| chunk.items())
            .get(self.place(at)?)
    }

    /// Returns the item's position in its chunk, or `None` beyond the end.
    fn place(&self, at: usize) -> Option<usize> {
        (at < self.len()).then_some(at % Self::CHUNK)
    }

    /// Returns the newest item.
    pub fn last(&self) -> Option<&T> {
        self.get(self.len().checked_sub(1)?)
    }

    /// Iterates over all items, in order.
    pub fn iter(&self) -> Iter<'_, T> {
        self.range(0..self.len())
    }

    /// Iterates over the items at these positions. Positions beyond the end are ignored.
    pub fn range(&self, range: Range<usize>) -> Iter<'_, T> {
        let end = range.end.min(self.len());
        Iter {
            list: self,
            next: range.start.min(end),
            end,
        }
    }

    /// Iterates over the chunks, in order. None is empty.
    #[cfg(feature = "board")]
    pub(super) fn chunks(&self) -> impl Iterator<Item = &[T]> {
        let full = self.full.iter().map(|chunk| chunk.items());
        full.chain([&*self.last])
            .map(Vec::as_slice)
            .filter(|items| !items.is_empty())
    }

    /// Appends a chunk. Returns `None` if it's longer than a chunk, or if it follows one that isn't
    /// full.
    #[cfg(feature = "board")]
    pub(super) fn push_chunk(&mut self, items: Vec<T>) -> Option<()> {
        if !self.last.is_empty() || items.len() > Self::CHUNK {
            return None;
        }
        if items.len() == Self::CHUNK {
            Arc::get_mut(&mut self.full)?.push(Arc::new(Chunk::new(items)));
        } else {
            self.last = Arc::new(items);
        }
        Some(())
    }

    /// Returns the position of the first item for which `belongs` is false. Items for which it's
    /// true must come first.
    pub fn partition_point(&self, belongs: impl Fn(&T) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(middle).is_some_and(&belongs) {
                low = middle + 1
            } else {
                high = middle
            }
        }
        low
    }

    /// Returns the position of the item with this key. Keys must rise.
    pub fn position<K: Ord>(&self, key: &K, of: impl Fn(&T) -> K) -> Option<usize> {
        let at = self.partition_point(|item| of(item) < *key);
        self.get(at).filter(|item| of(item) == *key).map(|_| at)
    }
}

impl<T: Clone> List<T> {
    /// Appends an item.
    pub(super) fn push(&mut self, item: T) {
        let last = Arc::make_mut(&mut self.last);
        last.push(item);
        if last.len() == Self::CHUNK {
            let full = Arc::unwrap_or_clone(std::mem::take(&mut self.last));
            Arc::make_mut(&mut self.full).push(Arc::new(Chunk::new(full)));
        }
    }

    /// Replaces each item with the result of `keep`, and removes it if that is `None`.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(T) -> Option<T>) {
        let Self { full, last } = std::mem::take(self);
        // Goes chunk by chunk, so that the old and the new list are never both complete in memory.
        let full = Arc::unwrap_or_clone(full).into_iter();
        let full = full.map(|chunk| Arc::unwrap_or_clone(chunk).into_items());
        for items in full.chain([Arc::unwrap_or_clone(last)]) {
            items
                .into_iter()
                .filter_map(&mut keep)
                .for_each(|item| self.push(item));
        }
    }

    /// Replaces all items of a hole with one placeholder.
    pub(super) fn cut(&mut self, hole: Hole, placeholder: T) {
        let (mut at, mut placeholder) = (0, Some(placeholder));
        self.retain(|item| {
            let here = at;
            at += 1;
            if here == hole.from {
                placeholder.take()
            } else {
                hole.kept(here).map(|_| item)
            }
        });
    }

    /// Returns the item at position `at` for modification. Existing copies of the list don't
    /// change.
    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        let place = self.place(at)?;
        if at / Self::CHUNK >= self.full.len() {
            return Arc::make_mut(&mut self.last).get_mut(place);
        }
        let chunk = Arc::make_mut(&mut self.full).get_mut(at / Self::CHUNK)?;
        Arc::make_mut(chunk).items_mut()?.get_mut(place)
    }

    /// Returns the newest item for modification.
    pub(super) fn last_mut(&mut self) -> Option<&mut T> {
        self.get_mut(self.len().checked_sub(1)?)
    }
}

#[cfg(feature = "board")]
impl<T: Clone + Serialize + DeserializeOwned> List<T> {
    /// Packs the full chunks that aren't, except for the first and the newest one: a list that grows
    /// needs these with each new item. Existing copies of the list keep their chunks. `weight` is the
    /// approximate size of an item in memory, in bytes.
    pub(super) fn pack(&mut self, weight: impl Fn(&T) -> u64) {
        let packed = |(at, chunk): (usize, &Arc<Chunk<T>>)| Some((at, chunk.packed(&weight)?));
        let middle = self.full.len().saturating_sub(2);
        let chunks = self.full.iter().enumerate().skip(1).take(middle);
        let packed: Vec<_> = chunks.filter_map(packed).collect();
        if packed.is_empty() {
            return;
        }
        let full = Arc::make_mut(&mut self.full);
        for (at, chunk) in packed {
            if let Some(place) = full.get_mut(at) {
                *place = Arc::new(chunk);
            }
        }
    }

    /// Returns how many bytes packing saves now.
    pub(super) fn saves(&self) -> u64 {
        self.full.iter().map(|chunk| chunk.saves()).sum()
    }
}

impl<'a, T> IntoIterator for &'a List<T> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

/// An iterator over consecutive items of a [`List`].
#[derive(Debug)]
pub struct Iter<'a, T> {
    list: &'a List<T>,
    next: usize,
    end: usize,
}

impl<T> Clone for Iter<'_, T> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        self.nth(0)
    }

    fn nth(&mut self, n: usize) -> Option<&'a T> {
        let at = self.next.saturating_add(n).min(self.end);
        self.next = at.saturating_add(1).min(self.end);
        (at < self.end).then(|| self.list.get(at)).flatten()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.end - self.next, Some(self.end - self.next))
    }
}

impl<'a, T> DoubleEndedIterator for Iter<'a, T> {
    fn next_back(&mut self) -> Option<&'a T> {
        self.nth_back(0)
    }

    fn nth_back(&mut self, n: usize) -> Option<&'a T> {
        self.end = self.end.saturating_sub(n).max(self.next);
        let at = self.end.checked_sub(1).filter(|at| *at >= self.next)?;
        self.end = at;
        self.list.get(at)
    }
}

impl<T> ExactSizeIterator for Iter<'_, T> {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Items so large that only a few fit into a chunk.
    type Item = (usize, [u64; 120]);

    fn list(len: usize) -> List<Item> {
        let mut list = List::default();
        (0..len).for_each(|n| list.push((n, [0; 120])));
        list
    }

    fn numbers<'a>(items: impl Iterator<Item = &'a Item>) -> Vec<usize> {
        items.map(|item| item.0).collect()
    }

    #[test]
    fn it_iterates_like_a_slice() {
        assert_eq!(List::<Item>::CHUNK, 8);
        for len in [0, 1, 7, 8, 9, 16, 33] {
            let (list, slice) = (list(len), (0..len).collect::<Vec<_>>());
            assert_eq!(
                (list.len(), list.last().map(|item| item.0)),
                (len, slice.last().copied())
            );
            assert_eq!(numbers(list.iter()), slice);
            assert_eq!(
                numbers(list.iter().rev()),
                slice.iter().rev().copied().collect::<Vec<_>>()
            );
            for a in 0..len + 2 {
                assert_eq!(list.get(a).map(|item| item.0), slice.get(a).copied());
                assert_eq!(
                    numbers(list.iter().skip(a)),
                    slice.iter().skip(a).copied().collect::<Vec<_>>()
                );
                let nth_back = |n: usize| {
                    (
                        list.iter().nth_back(n).map(|item| item.0),
                        slice.iter().nth_back(n).copied(),
                    )
                };
                assert_eq!(nth_back(a).0, nth_back(a).1);
                assert_eq!(
                    list.position(&a, |item| item.0),
                    slice.binary_search(&a).ok()
                );
                assert_eq!(
                    list.partition_point(|item| item.0 < a),
                    slice.partition_point(|item| *item < a)
                );
                for b in a..len + 2 {
                    let clamped = &slice[a.min(len)..b.min(len)];
                    assert_eq!(
                        (numbers(list.range(a..b)), list.range(a..b).len()),
                        (clamped.to_vec(), clamped.len())
                    );
                }
            }
        }
    }

    #[test]
    fn who_holds_it_keeps_what_there_was() {
        let mut list = list(20);
        let before = list.clone();
        list.push((20, [0; 120]));
        list.get_mut(3).unwrap().0 = 77;
        list.last_mut().unwrap().0 = 99;
        assert_eq!(numbers(before.iter()), (0..20).collect::<Vec<_>>());
        assert_eq!(
            (list.len(), list.get(3).unwrap().0, list.last().unwrap().0),
            (21, 77, 99)
        );
        assert!(list != before && list.get(21).is_none() && list.get_mut(21).is_none());
    }

    #[cfg(feature = "board")]
    #[test]
    fn packed_items_are_the_same() {
        let size = List::<(u64, String)>::CHUNK;
        let make = |count: usize| {
            let mut list = List::default();
            (0..count).for_each(|n| list.push((n as u64, format!("text {n}"))));
            list
        };
        for count in [0, 1, 2 * size + 5, 3 * size, 6 * size + 7] {
            let (plain, mut list) = (make(count), make(count));
            let before = list.clone();
            list.pack(|(_, text)| 32 + text.len() as u64);
            let is_long = count >= 3 * size;
            let middle = (count / size).saturating_sub(2);
            let is_less = list.saves() > 20 * (middle * size) as u64;
            assert_eq!(is_less, is_long, "{count}");
            assert_eq!((before.saves(), list.len()), (0, plain.len()));
            if is_long {
                let saved = list.saves();
                assert_eq!(list.get(size), plain.get(size));
                assert!(list.saves() < saved, "the chunk is unpacked");
                list.pack(|_| panic!("all are packed already"));
                assert_eq!(list.saves(), saved);
            }
            assert!(list == plain && list.saves() == 0, "{count}");
            list.pack(|_| 100);
            list.retain(Some);
            assert!(list == plain && before == plain, "{count}");
        }
    }

    #[cfg(feature = "board")]
    #[test]
    fn a_packed_item_can_be_changed() {
        let size = List::<(u64, String)>::CHUNK;
        let mut list = List::default();
        (0..3 * size as u64).for_each(|n| list.push((n, "same".to_owned())));
        list.pack(|_| 100);
        let before = list.clone();
        list.get_mut(size + 1).unwrap().1 = "other".to_owned();
        list.push((0, "new".to_owned()));
        list.pack(|_| 100);
        let changed: Vec<_> = list.iter().filter(|(_, text)| text != "same").collect();
        let other = (size as u64 + 1, "other".to_owned());
        assert_eq!(changed, [&other, &(0, "new".to_owned())]);
        assert!(before.iter().all(|(_, text)| text == "same"));
    }

    #[test]
    fn an_item_more_copies_no_more_than_its_chunk() {
        let mut list = list(8 * 50 + 4);
        let before = list.clone();
        list.push((0, [0; 120]));
        let shared = list
            .full
            .iter()
            .zip(before.full.iter())
            .filter(|(a, b)| Arc::ptr_eq(a, b))
            .count();
        assert_eq!((shared, Arc::ptr_eq(&list.full, &before.full)), (50, true));
    }
}
