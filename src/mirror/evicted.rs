//! Records which files were evicted from the cache, and which of these somebody opened since.
//!
//! Readers hold the files of a run while they read, so that none is removed halfway.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::{Notify, watch};

use super::lock;

/// The number of opened files and directories that stay longer than newer ones.
const MAX_ASKED: usize = 32;

/// The evicted objects, and those that somebody opened.
#[derive(Debug)]
pub(super) struct Evicted {
    /// The cache directory, with links resolved.
    dir: PathBuf,
    /// Locked only for a lookup or a change, so that pages never wait for it.
    keys: RwLock<BTreeSet<String>>,
    /// What is being read, with the number of readers.
    held: Mutex<BTreeMap<String, usize>>,
    /// What somebody opened, most recent first: objects, or directories of objects.
    asked: Mutex<VecDeque<String>>,
    /// Why opened objects couldn't be fetched.
    failed: Mutex<BTreeMap<String, String>>,
    /// Wakes the follower.
    pub(super) wanted: Notify,
    /// Wakes readers that wait for files.
    came: watch::Sender<()>,
}

impl Evicted {
    pub(super) fn new(dir: &Path, keys: BTreeSet<String>) -> Self {
        Self {
            dir: std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned()),
            keys: RwLock::new(keys),
            held: Mutex::default(),
            asked: Mutex::default(),
            failed: Mutex::default(),
            wanted: Notify::new(),
            came: watch::Sender::new(()),
        }
    }

    /// Returns the key of a file's object.
    fn key(&self, file: &Path) -> Option<String> {
        let below = file.strip_prefix(&self.dir).ok()?;
        let parts: Option<Vec<&str>> = below.iter().map(|part| part.to_str()).collect();
        Some(parts?.join("/"))
    }

    fn keys(&self) -> RwLockReadGuard<'_, BTreeSet<String>> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn keys_mut(&self) -> RwLockWriteGuard<'_, BTreeSet<String>> {
        self.keys.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self) -> usize {
        self.keys().len()
    }

    /// Returns whether one of `files` was evicted, or a file below or around it.
    pub(super) fn is_evicted(&self, files: &[PathBuf]) -> bool {
        self.has_any(&self.keys(), files)
    }

    /// Keeps `files` from being evicted until the value is dropped. Returns `None` if one is evicted already.
    pub(super) fn hold(self: &Arc<Self>, files: &[PathBuf]) -> Option<Hold> {
        let mut held = lock(&self.held);
        if self.is_evicted(files) {
            return None;
        }
        let places: Vec<String> = files.iter().filter_map(|file| self.key(file)).collect();
        for place in &places {
            *held.entry(place.clone()).or_default() += 1;
        }
        drop(held);
        Some(Hold {
            evicted: Arc::clone(self),
            places,
        })
    }

    fn has_any(&self, keys: &BTreeSet<String>, files: &[PathBuf]) -> bool {
        let mut names = files.iter().filter_map(|file| self.key(file));
        !keys.is_empty() && names.any(|key| holds(keys, &key))
    }

    /// Evicts an object unless somebody reads it; the next listing tries again. `remove` returns whether it was evicted.
    pub(super) fn evict(&self, key: &str, remove: impl FnOnce() -> bool) {
        let held = lock(&self.held);
        if !held.keys().any(|place| is_within(key, place)) && remove() {
            self.keys_mut().insert(key.to_owned());
        }
    }

    /// Forgets an object that was fetched, or that the store no longer has.
    pub(super) fn forget(&self, key: &str) {
        if self.keys().is_empty() {
            return;
        }
        if self.keys_mut().remove(key) {
            lock(&self.failed).remove(key);
            self.came.send_replace(());
        }
    }

    /// Records that somebody opens the file or directory `path`. It is fetched if it was evicted, and stays longer than others.
    pub(super) fn ask(&self, path: &Path) {
        let Some(key) = self.key(path) else { return };
        let mut asked = lock(&self.asked);
        if asked.front() == Some(&key) && !holds(&self.keys(), &key) {
            return;
        }
        asked.retain(|known| *known != key);
        asked.push_front(key.clone());
        asked.truncate(MAX_ASKED);
        drop(asked);
        if holds(&self.keys(), &key) {
            lock(&self.failed).retain(|failed, _| !is_within(failed, &key));
            self.wanted.notify_one();
        }
    }

    /// Returns the evicted objects that somebody opened.
    pub(super) fn awaited(&self) -> Vec<String> {
        let (asked, keys) = (self.asked(), self.keys());
        let is_asked = |key: &&String| asked.iter().any(|place| is_within(key, place));
        keys.iter().filter(is_asked).cloned().collect()
    }

    /// Returns what somebody opened, most recent first.
    pub(super) fn asked(&self) -> Vec<String> {
        lock(&self.asked).iter().cloned().collect()
    }

    /// Returns the same without evicted objects.
    pub(super) fn asked_and_here(&self) -> Vec<String> {
        let (mut asked, keys) = (self.asked(), self.keys());
        asked.retain(|place| !holds(&keys, place));
        asked
    }

    /// Records why an opened object couldn't be fetched.
    pub(super) fn fail(&self, key: &str, why: &str) {
        if self.keys().contains(key) {
            lock(&self.failed).insert(key.to_owned(), why.to_owned());
            self.came.send_replace(());
        }
    }

    /// Returns why `path` couldn't be fetched.
    pub(super) fn failure(&self, path: &Path) -> Option<String> {
        let key = self.key(path)?;
        let failed = lock(&self.failed);
        let mut failed = failed.iter().filter(|(failed, _)| is_within(failed, &key));
        failed.next().map(|(_, why)| why.clone())
    }

    /// Reports files that were fetched, or couldn't be.
    pub(super) fn news(&self) -> watch::Receiver<()> {
        self.came.subscribe()
    }
}

/// Keeps files from being evicted until it is dropped.
#[derive(Debug)]
pub(super) struct Hold {
    evicted: Arc<Evicted>,
    places: Vec<String>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = lock(&self.evicted.held);
        for place in &self.places {
            if let Some(readers) = held.get_mut(place) {
                *readers -= 1;
                if *readers == 0 {
                    held.remove(place);
                }
            }
        }
    }
}

/// Returns whether an object is in the file or directory `place`. Runs that share a file have paths below it.
pub(super) fn is_within(key: &str, place: &str) -> bool {
    let below = |long: &str, short: &str| {
        long.strip_prefix(short)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    place.is_empty() || key == place || below(key, place) || below(place, key)
}

fn holds(keys: &BTreeSet<String>, place: &str) -> bool {
    let below = format!("{place}/");
    let mut ends = place
        .match_indices('/')
        .filter_map(|(end, _)| place.get(..end))
        .chain([place]);
    (place.is_empty() && !keys.is_empty())
        || ends.any(|key| keys.contains(key))
        || keys
            .range(below.clone()..)
            .next()
            .is_some_and(|key| key.starts_with(&below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_evicted_where_one_of_its_files_is() {
        let dir = tempfile::tempdir().unwrap();
        let keys = ["a/steps.jsonl", "log.eval", "talk/events/1.json"]
            .map(str::to_owned)
            .into();
        let evicted = Arc::new(Evicted::new(dir.path(), keys));
        let real = std::fs::canonicalize(dir.path()).unwrap();
        let is = |below: &str| evicted.is_evicted(&[real.join(below)]);
        assert!(
            is("a/steps.jsonl")
                && is("a")
                && is("log.eval")
                && is("log.eval/x_epoch_1")
                && is("talk/events")
                && is("")
        );
        assert!(!is("a/events.jsonl") && !is("log") && !is("talk/eventful") && !is("b"));
        assert!(
            evicted.hold(&[real.join("b")]).is_some() && evicted.hold(&[real.join("a")]).is_none()
        );
        assert!(!evicted.is_evicted(&[dir.path().join("../elsewhere")]));
    }

    #[test]
    fn what_is_read_stays_and_keeps_nobody_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let evicted = Arc::new(Evicted::new(dir.path(), BTreeSet::new()));
        let file = std::fs::canonicalize(dir.path())
            .unwrap()
            .join("a/steps.jsonl");
        let files = [file];
        let (first, second) = (evicted.hold(&files), evicted.hold(&files));
        let evict = || {
            let mut removed = false;
            evicted.evict("a/steps.jsonl", || {
                removed = true;
                removed
            });
            removed
        };
        assert!(!evict());
        drop(first);
        assert!(!evict() && evicted.count() == 0);
        drop(second);
        evicted.evict("a/steps.jsonl", || false);
        assert_eq!(evicted.count(), 0, "it could not be removed");
        assert!(evict() && evicted.is_evicted(&files) && evicted.hold(&files).is_none());
    }

    #[test]
    fn what_was_opened_last_comes_first_and_why_it_failed_is_kept_until_it_is_asked_for_again() {
        let dir = tempfile::tempdir().unwrap();
        let evicted = Evicted::new(dir.path(), ["a/steps.jsonl".to_owned()].into());
        let real = std::fs::canonicalize(dir.path()).unwrap();
        ["b", "a", "b"]
            .iter()
            .for_each(|name| evicted.ask(&real.join(name)));
        assert_eq!(evicted.asked(), ["b", "a"]);
        evicted.fail("b/steps.jsonl", "no");
        evicted.fail("a/steps.jsonl", "503");
        assert_eq!(
            (
                evicted.failure(&real.join("a")).as_deref(),
                evicted.failure(&real.join("b"))
            ),
            (Some("503"), None)
        );
        evicted.ask(&real.join("a"));
        assert_eq!(
            (evicted.failure(&real.join("a")), evicted.asked()),
            (None, vec!["a".to_owned(), "b".to_owned()])
        );
        (0..100).for_each(|n| evicted.ask(&real.join(n.to_string())));
        assert_eq!(evicted.asked().len(), MAX_ASKED);
    }
}
