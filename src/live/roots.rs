//! Holds the state of one root: its name in board, its scanner, and its cached runs.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::Watcher as _;

use super::cache::{Cache, Entries};
use super::hints::in_words;
use super::run::now;
use crate::analysis::summary::Summary;
use crate::mirror::Mirror;
use crate::model::{RunKey, TraceFile};
use crate::trace::{RootDir, RootScan, RootScanner, RunDir, Stamps, StampsHash};

#[derive(Debug)]
pub(super) struct Root {
    /// The root as the user typed it.
    shown: PathBuf,
    /// The prefix of its runs' keys. Empty if there's only one root.
    pub(super) prefix: String,
    /// The object store that it mirrors.
    pub(super) mirror: Option<Arc<Mirror>>,
    pub(super) scanner: RootScanner,
    /// The directory that the system watches for it.
    pub(super) watched: Option<RootDir>,
    /// Whether the last scan failed to read it.
    pub(super) fault: bool,
    /// The runs that the previous board cached. `None` before the first scan.
    remembered: Option<Entries>,
}

impl Root {
    /// Creates all roots, with distinct prefixes.
    pub(super) fn all(roots: Vec<PathBuf>, mirrors: &[Arc<Mirror>]) -> Vec<Self> {
        let prefixes = prefixes(&roots);
        let root = |(dir, prefix): (PathBuf, String)| Self {
            shown: shown(&dir, mirrors),
            mirror: mirrors.iter().find(|mirror| mirror.dir() == dir).cloned(),
            scanner: RootScanner::new(dir),
            prefix,
            watched: None,
            fault: false,
            remembered: None,
        };
        roots.into_iter().zip(prefixes).map(root).collect()
    }

    /// Returns board's key for the run that this root calls `key`.
    pub(super) fn key(&self, key: RunKey) -> RunKey {
        if self.prefix.is_empty() {
            key
        } else {
            RunKey::new(&format!("{}/{key}", self.prefix))
        }
    }

    /// Returns a run's directory as the user would type it.
    pub(super) fn shown(&self, dir: &RunDir) -> String {
        let path = dir.shown();
        let below = path.strip_prefix(dir.root()).unwrap_or(&path);
        // A root that is a single file is shown as typed.
        let base = if self.scanner.is_file() {
            self.shown.parent().unwrap_or(Path::new(""))
        } else {
            &self.shown
        };
        let shown = if dir.is_root() {
            self.shown.clone()
        } else {
            base.join(below)
        };
        shown.to_string_lossy().into_owned()
    }

    /// Scans for runs. The first time the root exists, also loads its cached runs. `before_each` is
    /// called before each directory and file.
    pub(super) fn look(&mut self, cache: Option<&Cache>, before_each: &dyn Fn()) -> RootScan {
        let mut found = self.scanner.scan_with(before_each);
        self.fault = found.fault.is_some();
        // The cache only covers directories.
        let cache = cache.filter(|_| !self.scanner.is_file());
        if let (Some(cache), Some(place), None) = (cache, self.scanner.place(), &self.remembered) {
            self.remembered = Some(cache.load(&place.path));
            for (key, dir) in self.recall_evicted(&place.path) {
                found.runs.entry(key).or_insert(dir);
            }
        }
        found
    }

    /// Returns the cached summary of the run in `dir`, if it's still valid.
    pub(super) fn recall(&mut self, dir: &RunDir) -> Option<(StampsHash, Summary)> {
        let (stamps, summary, _) = self.remembered.as_mut()?.remove(dir.path())?;
        // A run without an end has been silent for longer by now, and that may change its
        // assessment.
        let life = summary.life.clone().at(now(), None);
        let holds = life.liveness == summary.life.liveness
            && Stamps::of(dir).map(StampsHash::from) == Some(stamps);
        (holds || self.is_evicted(dir)).then_some((stamps, Summary { life, ..summary }))
    }

    /// Returns whether files of the run in `dir` were removed from the store's mirror to make room.
    fn is_evicted(&self, dir: &RunDir) -> bool {
        let files = || TraceFile::ALL.map(|file| dir.file(file));
        self.mirror
            .as_ref()
            .is_some_and(|mirror| mirror.is_evicted(&files()))
    }

    /// Returns the cached runs whose files were evicted, with their keys in this root.
    fn recall_evicted(&self, place: &Path) -> Vec<(RunKey, RunDir)> {
        let known = self.remembered.iter().flat_map(Entries::values);
        let evicted = known.filter_map(|(_, _, stored)| {
            let stored = stored.as_ref()?;
            let dir = RunDir::of_known(place.to_owned(), stored.known.clone())?;
            Some((RunKey::new(&stored.key), dir)).filter(|(_, dir)| self.is_evicted(dir))
        });
        evicted.collect()
    }

    /// Drops the cached runs that weren't recalled. They no longer exist.
    pub(super) fn forget(&mut self) {
        if let Some(remembered) = self.remembered.as_mut() {
            *remembered = Entries::new();
        }
    }

    /// Watches the root, if it appeared or is a different directory than before. Returns whether it
    /// started a watch.
    ///
    /// # Errors
    /// Returns why the events are unreliable.
    pub(super) fn watch(
        &mut self,
        watcher: &mut notify::RecommendedWatcher,
    ) -> Result<bool, String> {
        let place = self.scanner.place();
        if self.watched == place {
            return Ok(false);
        }
        if let Some(before) = self.watched.take() {
            // The directory may be gone, and its watch with it.
            let _ = watcher.unwatch(&before.path);
        }
        let Some(place) = place else { return Ok(false) };
        // For a single file, its neighbors don't matter.
        let mode = match self.scanner.is_file() {
            true => notify::RecursiveMode::NonRecursive,
            false => notify::RecursiveMode::Recursive,
        };
        match watcher.watch(&place.path, mode) {
            Ok(()) => {
                self.watched = Some(place);
                Ok(true)
            }
            // A directory disappeared on the way down. The next scan tries again.
            Err(error) if matches!(error.kind, notify::ErrorKind::PathNotFound) => Ok(false),
            Err(error) => {
                // Events still arrive for the directories that could be watched.
                self.watched = Some(place);
                Err(in_words(&error))
            }
        }
    }
}

/// Returns a root as the user typed it. For an object store, this is its address.
pub(super) fn shown(root: &Path, mirrors: &[Arc<Mirror>]) -> PathBuf {
    let mirror = mirrors.iter().find(|mirror| mirror.dir() == root);
    mirror.map_or_else(|| root.to_owned(), |mirror| mirror.address().into())
}

/// A run that hasn't been read.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    /// Its key on a board over the same roots.
    pub key: RunKey,
    /// Its directory or file as the user would type it.
    pub path: String,
    /// The root as the user typed it.
    pub root: PathBuf,
    /// Its files.
    pub dir: RunDir,
}

/// Returns the runs below `roots` ordered by key, and the roots that can't be read with the reason.
pub(crate) fn list(roots: Vec<PathBuf>) -> (Vec<Listed>, Vec<(PathBuf, String)>) {
    let (mut runs, mut faults) = (BTreeMap::new(), Vec::new());
    let mut known = HashSet::new();
    for mut root in Root::all(roots, &[]) {
        let look = root.look(None, &|| {});
        faults.extend(look.fault.map(|fault| (root.shown.clone(), fault)));
        for (key, dir) in look.runs {
            // If roots overlap, the first one gets the run.
            if known.insert(dir.path().to_owned()) {
                let (key, path) = (root.key(key), root.shown(&dir));
                runs.entry(key.clone()).or_insert_with(|| Listed {
                    key,
                    path,
                    root: root.shown.clone(),
                    dir,
                });
            }
        }
    }
    (runs.into_values().collect(), faults)
}

/// Returns the prefix for the keys of each root: none for a single root, otherwise its name, made
/// distinct.
fn prefixes(roots: &[PathBuf]) -> Vec<String> {
    if roots.len() < 2 {
        return roots.iter().map(|_| String::new()).collect();
    }
    let mut taken: Vec<String> = Vec::new();
    for root in roots {
        let name = root
            .file_name()
            .map_or_else(|| "root".into(), |name| name.to_string_lossy())
            .into_owned();
        let mut candidate = name.clone();
        let mut number = 2;
        while taken.contains(&candidate) {
            candidate = format!("{name}-{number}");
            number += 1;
        }
        taken.push(candidate);
    }
    taken
}
