//! Remembers the newest keys of a trace, such as call ids, in bounded memory.
//!
//! In every format, related records are close to each other, so the oldest keys can be dropped. A
//! file with millions of ids must not fill the memory.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

/// At least this many of the newest keys are remembered if they fit in [`MAX_BYTES`], and at most
/// twice as many.
const MAX_KEYS: usize = 1 << 16;
/// The most bytes that the keys of one generation may take outside of their map.
const MAX_BYTES: usize = 4 << 20;

/// The memory that a key takes outside of its map.
pub(super) trait Held {
    /// Returns the number of bytes.
    fn held(&self) -> usize {
        0
    }
}

impl Held for u32 {}
impl Held for u64 {}
impl Held for usize {}

impl Held for Box<str> {
    fn held(&self) -> usize {
        self.len()
    }
}

impl Held for String {
    fn held(&self) -> usize {
        self.len()
    }
}

/// A map that drops its oldest keys.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    newer: HashMap<K, V>,
    older: HashMap<K, V>,
    /// The bytes that the keys of the newer generation take.
    bytes: usize,
    has_forgotten: bool,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self {
            newer: HashMap::new(),
            older: HashMap::new(),
            bytes: 0,
            has_forgotten: false,
        }
    }
}

impl<K: Eq + Hash + Held, V> Recent<K, V> {
    /// Returns the value of a key.
    pub(super) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.newer.get(key).or_else(|| self.older.get(key))
    }

    /// Returns the value of a key for modification.
    pub(super) fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.newer.get_mut(key).or_else(|| self.older.get_mut(key))
    }

    /// Returns whether the key is remembered.
    pub(super) fn contains_key<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// Stores a value and returns the previous one.
    pub(super) fn insert(&mut self, key: K, value: V) -> Option<V> {
        if self.newer.len() >= MAX_KEYS || self.bytes >= MAX_BYTES {
            self.has_forgotten |= !self.older.is_empty();
            self.older = std::mem::take(&mut self.newer);
            self.bytes = 0;
        }
        let older = self.older.remove(&key);
        self.bytes += key.held();
        self.newer.insert(key, value).or(older)
    }

    /// Removes a key and returns its value.
    pub(super) fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.newer.remove(key).or_else(|| self.older.remove(key))
    }

    /// Removes all keys.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the number of remembered keys.
    pub(super) fn len(&self) -> usize {
        self.newer.len() + self.older.len()
    }

    /// Returns whether no key is remembered.
    pub(super) fn is_empty(&self) -> bool {
        self.newer.is_empty() && self.older.is_empty()
    }

    /// Returns whether no key has been dropped.
    pub(super) fn is_whole(&self) -> bool {
        !self.has_forgotten
    }

    /// Returns the remembered keys in arbitrary order.
    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.newer.keys().chain(self.older.keys())
    }

    /// Returns the values in arbitrary order.
    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.newer.values().chain(self.older.values())
    }

    /// Removes all keys, and returns them with their values in arbitrary order.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (K, V)> {
        self.bytes = 0;
        std::mem::take(&mut self.newer)
            .into_iter()
            .chain(std::mem::take(&mut self.older))
    }
}

impl<K: Eq + Hash + Held, V> Extend<(K, V)> for Recent<K, V> {
    fn extend<T: IntoIterator<Item = (K, V)>>(&mut self, items: T) {
        items
            .into_iter()
            .for_each(|(key, value)| drop(self.insert(key, value)));
    }
}

/// A set that drops its oldest members but counts all of them.
#[derive(Debug)]
pub(super) struct RecentSet<K> {
    known: Recent<K, ()>,
    count: usize,
}

impl<K> Default for RecentSet<K> {
    fn default() -> Self {
        Self {
            known: Recent::default(),
            count: 0,
        }
    }
}

impl<K: Eq + Hash + Held> RecentSet<K> {
    /// Adds a member. Returns whether it wasn't remembered yet.
    pub(super) fn insert(&mut self, member: K) -> bool {
        let is_new = self.known.insert(member, ()).is_none();
        self.count += usize::from(is_new);
        is_new
    }

    /// Returns whether the member is remembered.
    pub(super) fn contains<Q: Eq + Hash + ?Sized>(&self, member: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.known.contains_key(member)
    }

    /// Returns the number of members that `other` doesn't have, or `None` if one of the sets has
    /// dropped some.
    pub(super) fn missing_in(&self, other: &Self) -> Option<usize> {
        let is_whole = self.known.is_whole() && other.known.is_whole();
        is_whole.then(|| {
            self.known
                .keys()
                .filter(|member| !other.contains(*member))
                .count()
        })
    }

    /// Returns how many members were added.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Returns whether no member was added.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Removes all members.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// At most this many members of a set are listed.
const MAX_LISTED: usize = 1_000;

impl RecentSet<Box<str>> {
    /// Returns the first remembered members in order, at most [`MAX_LISTED`].
    pub(super) fn listed(&self) -> Vec<Box<str>> {
        let mut members: Vec<&Box<str>> = self.known.keys().collect();
        // The list is needed on every read of a growing file, so only the part that is returned is
        // sorted.
        if members.len() > MAX_LISTED {
            members.select_nth_unstable(MAX_LISTED);
            members.truncate(MAX_LISTED);
        }
        members.sort_unstable();
        members.into_iter().cloned().collect()
    }
}

impl<K: Eq + Hash + Held> Extend<K> for RecentSet<K> {
    fn extend<T: IntoIterator<Item = K>>(&mut self, members: T) {
        for member in members {
            self.insert(member);
        }
    }
}

/// A bit set of numbers.
#[derive(Debug, Default)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    /// Returns whether the set contains the number.
    pub(super) fn contains(&self, n: usize) -> bool {
        self.0
            .get(n / 64)
            .is_some_and(|word| word & (1 << (n % 64)) != 0)
    }

    /// Adds or removes the number. Returns whether that changed anything.
    pub(super) fn set(&mut self, n: usize, is_in: bool) -> bool {
        if self.contains(n) == is_in {
            return false;
        }
        if self.0.len() <= n / 64 {
            self.0.resize(n / 64 + 1, 0);
        }
        self.0
            .get_mut(n / 64)
            .into_iter()
            .for_each(|word| *word ^= 1 << (n % 64));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_keys_are_remembered() {
        let mut recent = Recent::default();
        assert_eq!(
            (recent.insert(0_u64, 1), recent.insert(0, 2), recent.get(&0)),
            (None, Some(1), Some(&2))
        );
        recent.extend((1..=2 * MAX_KEYS as u64 + 1).map(|n| (n, 0)));
        let newest = 2 * MAX_KEYS as u64 + 1;
        assert!(recent.get(&0).is_none() && !recent.is_whole());
        assert!((newest - MAX_KEYS as u64..=newest).all(|n| recent.contains_key(&n)));
        assert_eq!(
            (recent.remove(&newest), recent.contains_key(&newest)),
            (Some(0), false)
        );
    }

    #[test]
    fn long_keys_are_forgotten_by_their_bytes() {
        let mut set = RecentSet::default();
        let long = |n: usize| format!("{n}{}", "x".repeat(MAX_BYTES / 4));
        set.extend((0..20).map(long));
        assert_eq!(
            (set.len(), set.contains(&long(19)), set.contains(&long(0))),
            (20, true, false)
        );
    }

    #[test]
    fn bits_are_set_and_taken_out() {
        let mut bits = Bits::default();
        assert!(
            bits.set(100, true) && !bits.set(100, true) && bits.contains(100) && !bits.contains(99)
        );
        assert!(bits.set(100, false) && !bits.contains(100) && !bits.set(5_000, false));
    }
}
