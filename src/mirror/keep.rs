//! The cache: a directory of plain files, and a log that maps files to objects.
//!
//! A file without a log entry, or with another length than the logged one, is fetched again. So a board that is killed at
//! any moment leaves no file that could be mistaken for another. Only the owner of the directory can read it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File, TryLockError};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use md5::Md5;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::address::Address;
use super::fetch::{CachedFile, Fetched, hex};
use super::place::place;
use super::plan::CachedObject;
use crate::cache_file::{self, Access};
use crate::error::{Error, Kind, Result};

/// The number of boards that can follow the same store with the same cache directory. Each has a separate copy.
const MAX_BOARDS: usize = 16;
/// Limits of the log. Longer lines are skipped; a key has at most 1 KiB.
const MAX_LINE_BYTES: usize = 64 << 10;
const MAX_NOTES_BYTES: u64 = 1 << 30;
/// The log is rewritten when it has this many times more lines than there are objects.
const STALE: usize = 4;

/// The cached objects.
#[derive(Debug)]
pub(super) struct Keep {
    /// The directory of the files.
    dir: PathBuf,
    /// The directory above it, with the log.
    home: PathBuf,
    objects: BTreeMap<String, CachedObject>,
    /// Bytes on disk.
    bytes: u64,
    notes: File,
    lines: usize,
    /// Checksums of objects that grew, to continue with the next bytes.
    sums: HashMap<String, Md5>,
    /// Whether the file system ignores case in names.
    pub(super) folds: bool,
    /// Keeps other boards out while this one runs.
    _lock: File,
}

/// A line of the log.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    key: String,
    /// `None` for an object that the store no longer has.
    #[serde(flatten)]
    object: Option<CachedObject>,
}

impl Keep {
    /// Opens the cache of `address` in `store` below `base`.
    pub(super) fn open(base: &Path, address: &Address, store: &str) -> Result<Self> {
        let failed = |error| {
            let what = format!("can't keep a cache for {address}");
            let hint =
                "set XDG_CACHE_HOME to another directory; with --no-cache the cache is temporary";
            Error::new(Kind::Unreadable, what).because(error).hint(hint)
        };
        let (bucket, prefix) = (&address.bucket, &address.prefix);
        let name = hex(&Sha256::digest(format!("{store}\n{bucket}\n{prefix}")));
        let name = name.get(..16).unwrap_or_default();
        let base = base.join(address.cloud.scheme());
        let (home, lock) = alone(&base, name).map_err(failed)?;
        let root = place(address.name()).unwrap_or_else(|_| "root".into());
        let dir = home.join("objects").join(root);
        private(&dir).map_err(failed)?;
        // Left by a board that was killed while it fetched.
        let _ = fs::remove_dir_all(home.join("coming"));
        private(&home.join("coming")).map_err(failed)?;
        let folds =
            fs::write(home.join("coming/Probe"), "").is_ok() && home.join("coming/probe").exists();
        let objects = recalled(&home.join("notes.jsonl"), &dir);
        sweep(&dir, "", &objects);
        let bytes = objects.values().map(bytes_of).sum();
        let notes = rewritten(&home, &objects).map_err(failed)?;
        let lines = objects.len();
        Ok(Self {
            dir,
            home,
            objects,
            bytes,
            notes,
            lines,
            sums: HashMap::new(),
            folds,
            _lock: lock,
        })
    }

    /// The directory of the files.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The directory of files that aren't complete yet.
    pub(super) fn beside(&self) -> PathBuf {
        self.home.join("coming")
    }

    pub(super) fn objects(&self) -> &BTreeMap<String, CachedObject> {
        &self.objects
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the keys of evicted objects.
    pub(super) fn evicted(&self) -> BTreeSet<String> {
        self.objects
            .iter()
            .filter(|(_, kept)| kept.evicted)
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// Returns whether an object is known and its file was removed.
    pub(super) fn is_evicted(&self, key: &str) -> bool {
        self.objects.get(key).is_some_and(|kept| kept.evicted)
    }

    /// Returns the file of an object.
    pub(super) fn here(&self, key: &str) -> Option<CachedFile> {
        let kept = self.objects.get(key).filter(|kept| !kept.evicted)?;
        let path = self.dir.join(place(key).ok()?);
        Some(CachedFile {
            path,
            size: kept.size,
            sum: self.sums.get(key).cloned(),
        })
    }

    /// Stores a fetched object, or appends to one. If the disk fails, the file is as before, or is fetched again.
    pub(super) fn take(&mut self, fetched: Fetched) -> io::Result<()> {
        let Fetched {
            object,
            file,
            after,
            unproven,
            sum,
        } = fetched;
        let path = self.dir.join(place(&object.key).map_err(io::Error::other)?);
        let written =
            UNIX_EPOCH + Duration::from_micros(u64::try_from(object.modified).unwrap_or_default());
        let kept = CachedObject {
            etag: object.etag,
            size: object.size,
            modified: object.modified,
            unproven,
            evicted: false,
        };
        let before = self.objects.get(&object.key).filter(|it| !it.evicted);
        let is_proof = before.is_some_and(|it| it.unproven && it.etag == kept.etag);
        match after {
            Some(after) => {
                let mut whole = File::options().append(true).open(&path)?;
                if whole.metadata()?.len() != after {
                    self.lose(&object.key)?;
                    return Err(io::Error::other("the cached file was changed"));
                }
                // Its offset is after the overlap.
                io::copy(&mut file.into_file(), &mut whole)?;
                whole.set_modified(written)?;
            }
            None if is_proof && alike(&path, file.path())? => {}
            None => {
                if let Some(parent) = path.parent() {
                    private(parent)?;
                }
                file.as_file().set_modified(written)?;
                file.persist(&path).map_err(|error| error.error)?;
            }
        }
        match sum {
            Some(sum) => drop(self.sums.insert(object.key.clone(), sum)),
            None => drop(self.sums.remove(&object.key)),
        }
        self.note(object.key, Some(kept))
    }

    /// Removes an object that the store no longer has.
    pub(super) fn lose(&mut self, key: &str) -> io::Result<()> {
        self.remove(key)?;
        self.note(key.to_owned(), None)
    }

    /// Removes the file of an object to make room.
    pub(super) fn evict(&mut self, key: &str) -> io::Result<()> {
        let Some(kept) = self.objects.get(key).cloned() else {
            return Ok(());
        };
        // Logged first: if removing the file fails, the next start does it.
        let evicted = true;
        self.note(key.to_owned(), Some(CachedObject { evicted, ..kept }))?;
        self.remove(key)
    }

    fn remove(&mut self, key: &str) -> io::Result<()> {
        let Ok(below) = place(key) else { return Ok(()) };
        let path = self.dir.join(below);
        let absent = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        if let Err(error) = fs::remove_file(&path)
            && !absent.contains(&error.kind())
        {
            return Err(error);
        }
        // Fails for directories that aren't empty.
        let above = path.ancestors().skip(1).take_while(|it| *it != self.dir);
        let _ = above.map(fs::remove_dir).take_while(Result::is_ok).count();
        self.sums.remove(key);
        Ok(())
    }

    fn note(&mut self, key: String, kept: Option<CachedObject>) -> io::Result<()> {
        // If the disk is full, the object stays as it was logged.
        self.notes.write_all(&line(&key, kept.as_ref())?)?;
        let before = self.objects.remove(&key).as_ref().map_or(0, bytes_of);
        self.bytes = self.bytes.saturating_sub(before) + kept.as_ref().map_or(0, bytes_of);
        if let Some(kept) = kept {
            self.objects.insert(key, kept);
        }
        self.lines += 1;
        if self.lines > self.objects.len() * STALE + 1_000 {
            self.notes = rewritten(&self.home, &self.objects)?;
            self.lines = self.objects.len();
        }
        Ok(())
    }
}

/// Returns the size of an object on disk.
fn bytes_of(kept: &CachedObject) -> u64 {
    if kept.evicted { 0 } else { kept.size }
}

/// Creates a directory of that name that no other board uses, and locks it.
fn alone(base: &Path, name: &str) -> io::Result<(PathBuf, File)> {
    for number in 1..=MAX_BOARDS {
        let home = match number {
            1 => base.join(name),
            _ => base.join(format!("{name}-{number}")),
        };
        private(&home)?;
        let lock = cache_file::open(&home.join("lock"), Access::Lock)?;
        match lock.try_lock() {
            Ok(()) => return Ok((home, lock)),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    let what = format!("{MAX_BOARDS} boards already follow this store");
    Err(io::Error::other(what))
}

/// Creates a directory that only its owner can read.
fn private(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

fn line(key: &str, object: Option<&CachedObject>) -> io::Result<Vec<u8>> {
    let (key, object) = (key.to_owned(), object.cloned());
    let mut line = serde_json::to_vec(&Note { key, object })?;
    line.push(b'\n');
    Ok(line)
}

/// Reads the log, and drops entries that don't match their files.
fn recalled(notes: &Path, dir: &Path) -> BTreeMap<String, CachedObject> {
    let mut objects = BTreeMap::new();
    let file = match cache_file::open(notes, Access::Read) {
        Ok(file) => file,
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(
                    "{}: {error}; the objects are fetched again",
                    notes.display()
                );
            }
            return objects;
        }
    };
    for line in cache_file::lines(file, MAX_LINE_BYTES, MAX_NOTES_BYTES) {
        match serde_json::from_slice(&line) {
            Ok(Note {
                key,
                object: Some(object),
            }) => drop(objects.insert(key, object)),
            Ok(Note { key, object: None }) => drop(objects.remove(&key)),
            Err(_) => {}
        }
    }
    objects.retain(|key, kept| {
        if kept.evicted {
            return true;
        }
        let file = place(key)
            .ok()
            .and_then(|below| fs::symlink_metadata(dir.join(below)).ok());
        file.is_some_and(|file| file.is_file() && file.len() == kept.size)
    });
    objects
}

/// Removes files that aren't in the log.
fn sweep(dir: &Path, key: &str, objects: &BTreeMap<String, CachedObject>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let known = name.to_str().map(|name| format!("{key}{name}"));
        let done = match (entry.file_type().is_ok_and(|kind| kind.is_dir()), known) {
            (true, Some(below)) => {
                sweep(&entry.path(), &format!("{below}/"), objects);
                // Fails for directories that aren't empty.
                let _ = fs::remove_dir(entry.path());
                Ok(())
            }
            (true, None) => fs::remove_dir_all(entry.path()),
            (false, Some(key)) if objects.get(&key).is_some_and(|kept| !kept.evicted) => Ok(()),
            (false, _) => fs::remove_file(entry.path()),
        };
        if let Err(error) = done {
            tracing::warn!("{}: {error}", entry.path().display());
        }
    }
}

/// Rewrites the log, and opens it to append.
fn rewritten(home: &Path, objects: &BTreeMap<String, CachedObject>) -> io::Result<File> {
    let beside = tempfile::NamedTempFile::new_in(home)?;
    let mut out = io::BufWriter::new(beside);
    for (key, kept) in objects {
        out.write_all(&line(key, Some(kept))?)?;
    }
    let beside = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    let mut file = beside
        .persist(home.join("notes.jsonl"))
        .map_err(|error| error.error)?;
    file.seek(SeekFrom::End(0))?;
    Ok(file)
}

/// Returns whether two files have the same bytes.
fn alike(one: &Path, other: &Path) -> io::Result<bool> {
    let (one, other) = (File::open(one)?, File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut one, mut other) = (BufReader::new(one).bytes(), BufReader::new(other).bytes());
    loop {
        match (one.next().transpose()?, other.next().transpose()?) {
            (None, None) => return Ok(true),
            (a, b) if a != b => return Ok(false),
            _ => {}
        }
    }
}
