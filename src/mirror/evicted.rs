//! Which files were removed to keep the cache within its limit, and which of them are asked for again?
//!
//! Whoever indexes a run, or makes an answer of it, holds its files meanwhile, so that none is removed half read.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use tokio::sync::{Notify, watch};

/// What was asked for last stays before anything newer; so many places are remembered.
const MAX_ASKED: usize = 32;

/// What was evicted, and what is asked for.
#[derive(Debug)]
pub(super) struct Evicted {
    /// The mirror's directory, links resolved.
    dir: PathBuf,
    /// Locked for a look or a change of the set alone: pages ask it while they wait for nothing else.
    keys: RwLock<BTreeSet<String>>,
    /// What is being read, and by how many.
    held: Mutex<BTreeMap<String, usize>>,
    /// What somebody opened, the last one first: an object, or all below it.
    asked: Mutex<VecDeque<String>>,
    /// Why objects that were asked for did not come.
    failed: Mutex<BTreeMap<String, String>>,
    /// Wakes whoever fetches.
    pub(super) wanted: Notify,
    /// Wakes whoever waits for files.
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

    /// The key of the object that a file is.
    fn key(&self, file: &Path) -> Option<String> {
        let parts = file
            .strip_prefix(&self.dir)
            .ok()?
            .iter()
            .map(|part| part.to_str());
        Some(parts.collect::<Option<Vec<_>>>()?.join("/"))
    }

    fn keys(&self) -> RwLockReadGuard<'_, BTreeSet<String>> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self) -> usize {
        self.keys().len()
    }

    /// Whether one of `files` was evicted, or something below or around it.
    pub(super) fn is_evicted(&self, files: &[PathBuf]) -> bool {
        self.has_any(&self.keys(), files)
    }

    /// Keeps `files` where they are as long as the value lives; `None` where one was evicted.
    pub(super) fn hold(self: &Arc<Self>, files: &[PathBuf]) -> Option<Hold> {
        let mut held = self.held();
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

    fn held(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_any(&self, keys: &BTreeSet<String>, files: &[PathBuf]) -> bool {
        !keys.is_empty()
            && files
                .iter()
                .filter_map(|file| self.key(file))
                .any(|key| holds(keys, &key))
    }

    /// Removes an object unless somebody reads it: the next listing finds it again. `remove` says whether it is evicted.
    pub(super) fn evict(&self, key: &str, remove: impl FnOnce() -> bool) {
        let held = self.held();
        if !held.keys().any(|place| is_within(key, place)) && remove() {
            self.keys
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(key.to_owned());
        }
    }

    /// An object is here, or nowhere any more.
    pub(super) fn forget(&self, key: &str) {
        if self.keys().is_empty() {
            return;
        }
        if self
            .keys
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(key)
        {
            self.failed().remove(key);
            self.came.send_replace(());
        }
    }

    /// Somebody opens what lies in the file or directory `path`: it is fetched if it was evicted, and kept before others.
    pub(super) fn ask(&self, path: &Path) {
        let Some(key) = self.key(path) else { return };
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.front() == Some(&key) && !holds(&self.keys(), &key) {
            return;
        }
        asked.retain(|known| *known != key);
        asked.push_front(key.clone());
        asked.truncate(MAX_ASKED);
        drop(asked);
        if holds(&self.keys(), &key) {
            self.failed().retain(|failed, _| !is_within(failed, &key));
            self.wanted.notify_one();
        }
    }

    /// Objects that were evicted and are asked for.
    pub(super) fn awaited(&self) -> Vec<String> {
        let (asked, keys) = (self.asked(), self.keys());
        keys.iter()
            .filter(|key| asked.iter().any(|place| is_within(key, place)))
            .cloned()
            .collect()
    }

    /// What was asked for, the last one first.
    pub(super) fn asked(&self) -> Vec<String> {
        self.asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .cloned()
            .collect()
    }

    /// The same, of what is here.
    pub(super) fn asked_and_here(&self) -> Vec<String> {
        let (asked, keys) = (self.asked(), self.keys());
        asked
            .into_iter()
            .filter(|place| !holds(&keys, place))
            .collect()
    }

    /// An object that is asked for did not come.
    pub(super) fn fail(&self, key: &str, why: &str) {
        if self.keys().contains(key) {
            self.failed().insert(key.to_owned(), why.to_owned());
            self.came.send_replace(());
        }
    }

    /// Why what lies in `path` did not come.
    pub(super) fn failure(&self, path: &Path) -> Option<String> {
        let key = self.key(path)?;
        self.failed()
            .iter()
            .find(|(failed, _)| is_within(failed, &key))
            .map(|(_, why)| why.clone())
    }

    fn failed(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Word of files that came or failed to.
    pub(super) fn news(&self) -> watch::Receiver<()> {
        self.came.subscribe()
    }
}

/// Files that are being read stay while it lives.
#[derive(Debug)]
pub(super) struct Hold {
    evicted: Arc<Evicted>,
    places: Vec<String>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = self.evicted.held();
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

/// Whether an object lies in the file or directory `place`; of a run in a file that it shares, the file is a part of its
/// path.
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
