//! What is kept of one root: its name on the board, where its runs are looked for, and what is known from before.

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
use crate::trace::{RootDir, RootScan, RootScanner, RunDir, Stamps};

#[derive(Debug)]
pub(super) struct Root {
    /// The root as the person typed it.
    shown: PathBuf,
    /// What goes before the keys of its runs, where there are several roots.
    pub(super) prefix: String,
    /// The store that it mirrors.
    pub(super) mirror: Option<Arc<Mirror>>,
    pub(super) scanner: RootScanner,
    /// What the system watches for it.
    pub(super) watched: Option<RootDir>,
    /// Whether it could not be read at the last look.
    pub(super) fault: bool,
    /// What the last board knew of its runs; `None` before the first look at it.
    remembered: Option<Entries>,
}

impl Root {
    /// All roots, with distinct prefixes.
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

    /// The name on the board of the run that this root calls `key`.
    pub(super) fn key(&self, key: RunKey) -> RunKey {
        if self.prefix.is_empty() {
            key
        } else {
            RunKey::new(&format!("{}/{key}", self.prefix))
        }
    }

    /// A run's directory as the person would type it.
    pub(super) fn shown(&self, dir: &RunDir) -> String {
        let path = dir.shown();
        let below = path.strip_prefix(dir.root()).unwrap_or(&path);
        // A root that is one file is called as it was typed.
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

    /// Looks for runs now; the first time the root is there, recalls what the last board knew of them. `before_each` is
    /// called before each directory.
    pub(super) fn look(&mut self, cache: Option<&Cache>, before_each: &dyn Fn()) -> RootScan {
        let mut found = self.scanner.scan_with(before_each);
        self.fault = found.fault.is_some();
        // The notes are those of a directory.
        let cache = cache.filter(|_| !self.scanner.is_file());
        if let (Some(cache), Some(place), None) = (cache, self.scanner.place(), &self.remembered) {
            self.remembered = Some(cache.load(&place.path));
            for (key, dir) in self.recall_evicted(&place.path) {
                found.runs.entry(key).or_insert(dir);
            }
        }
        found
    }

    /// What the last board knew of the run in `dir`, if it still holds.
    pub(super) fn recall(&mut self, dir: &RunDir) -> Option<(Stamps, Summary)> {
        let (stamps, summary, _) = self.remembered.as_mut()?.remove(dir.path())?;
        // For how long a run without an end is silent is another answer today; what that says of it may be another one too.
        let life = summary.life.clone().at(now(), None);
        let holds =
            life.liveness == summary.life.liveness && Stamps::of(dir).as_ref() == Some(&stamps);
        (holds || self.is_evicted(dir)).then_some((stamps, Summary { life, ..summary }))
    }

    /// Whether files of the run in `dir` were removed from the store's mirror to make room.
    fn is_evicted(&self, dir: &RunDir) -> bool {
        let files = || TraceFile::ALL.map(|file| dir.file(file));
        self.mirror
            .as_ref()
            .is_some_and(|mirror| mirror.is_evicted(&files()))
    }

    /// The runs that the last board knew and whose files were evicted, by what the root calls them.
    fn recall_evicted(&self, place: &Path) -> Vec<(RunKey, RunDir)> {
        let known = self.remembered.iter().flat_map(Entries::values);
        let evicted = known.filter_map(|(_, _, stored)| {
            let stored = stored.as_ref()?;
            let dir = RunDir::of_known(place.to_owned(), stored.known.clone())?;
            Some((RunKey::new(&stored.key), dir)).filter(|(_, dir)| self.is_evicted(dir))
        });
        evicted.collect()
    }

    /// Lets go of what nobody recalled: those runs are gone.
    pub(super) fn forget(&mut self) {
        if let Some(remembered) = self.remembered.as_mut() {
            *remembered = Entries::new();
        }
    }

    /// Asks the system for events below the root where it came, or is another directory than before; says whether it
    /// asked.
    ///
    /// # Errors
    /// Why the events that come cannot be relied on.
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
        // Of one file, what else lies beside it is nobody's business.
        let mode = match self.scanner.is_file() {
            true => notify::RecursiveMode::NonRecursive,
            false => notify::RecursiveMode::Recursive,
        };
        match watcher.watch(&place.path, mode) {
            Ok(()) => {
                self.watched = Some(place);
                Ok(true)
            }
            // A directory went away on the way down; the next look tries again.
            Err(error) if matches!(error.kind, notify::ErrorKind::PathNotFound) => Ok(false),
            Err(error) => {
                // Events for the directories that fit still come.
                self.watched = Some(place);
                Err(in_words(&error))
            }
        }
    }
}

/// A root as the person typed it: of an object store, its address.
pub(super) fn shown(root: &Path, mirrors: &[Arc<Mirror>]) -> PathBuf {
    let mirror = mirrors.iter().find(|mirror| mirror.dir() == root);
    mirror.map_or_else(|| root.to_owned(), |mirror| mirror.address().into())
}

/// A run of which nothing was read yet.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Its name on a board over the same roots.
    pub key: RunKey,
    /// Its directory or file as the person would type it.
    pub path: String,
    /// The root as the person typed it.
    pub root: PathBuf,
    /// Its files.
    pub dir: RunDir,
}

/// The runs below `roots` in order of their keys, and the roots that cannot be looked at, with the reason.
pub fn list(roots: Vec<PathBuf>) -> (Vec<Listed>, Vec<(PathBuf, String)>) {
    let (mut runs, mut faults) = (BTreeMap::new(), Vec::new());
    let mut known = HashSet::new();
    for mut root in Root::all(roots, &[]) {
        let look = root.look(None, &|| {});
        faults.extend(look.fault.map(|fault| (root.shown.clone(), fault)));
        for (key, dir) in look.runs {
            // Where roots overlap, the first one has the run.
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

/// What goes before the keys of each root: nothing for a single one, else its name, made distinct.
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
