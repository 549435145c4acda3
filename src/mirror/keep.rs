//! What is here? A directory of plain files, and beside it a note of which object each of them is.
//!
//! A file of which there is no note, or whose length is not the noted one, is fetched again: a board that is killed at any
//! moment leaves nothing that is taken for something else. The directory belongs to the board alone, and to its owner.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File, TryLockError};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use md5::Md5;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::address::Address;
use super::fetch::{Got, Here};
use super::place::place;
use super::plan::CachedObject;
use super::sign::hex;
use crate::cache_file::{self, Access};
use crate::error::{Error, Kind, Result};

/// So many boards may follow one store from one cache directory, each with a mirror of its own.
const MAX_BOARDS: usize = 16;
/// Longer lines of the notes are skipped, and no more of them is read. A key has at most 1 KiB.
const MAX_LINE_BYTES: usize = 64 << 10;
const MAX_NOTES_BYTES: u64 = 1 << 30;
/// Notes are written anew once there are so many times more lines than objects.
const STALE: usize = 4;

/// The objects on disk.
#[derive(Debug)]
pub(super) struct Keep {
    /// Where the files lie.
    dir: PathBuf,
    home: PathBuf,
    objects: BTreeMap<String, CachedObject>,
    /// Bytes on disk.
    bytes: u64,
    notes: File,
    lines: usize,
    /// Checksums of objects that grew, to go on from.
    sums: HashMap<String, Md5>,
    /// Whether the file system takes `a` and `A` for one name.
    pub(super) folds: bool,
    /// Held as long as this board lives.
    _lock: File,
    /// Removed at the end.
    _passing: Option<tempfile::TempDir>,
}

/// A line of the notes.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    key: String,
    /// `None` where the object went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    modified: i64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unproven: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    evicted: bool,
}

impl Keep {
    /// The mirror of `address` at `host` in the cache directory `base`; without one, it lasts as long as the board.
    ///
    /// # Errors
    /// The directory cannot be made or written.
    pub(super) fn open(base: Option<&Path>, address: &Address, host: &str) -> Result<Self> {
        let failed = |error| {
            Error::new(
                Kind::Unreadable,
                format!("no cache for {address} can be kept"),
            )
            .because(error)
        };
        let passing = if base.is_none() {
            Some(tempfile::tempdir().map_err(failed)?)
        } else {
            None
        };
        let base = passing
            .as_ref()
            .map_or_else(|| base.unwrap_or(Path::new(".")), |passing| passing.path());
        let name = hex(&Sha256::digest(format!(
            "{host}\n{}\n{}",
            address.bucket, address.prefix
        )));
        let name = name.get(..16).unwrap_or_default();
        let (home, lock) = alone(&base.join("s3"), name).map_err(|error| {
            let error = Error::new(Kind::Unreadable, format!("no cache for {address} can be kept")).because(error);
            error.hint("XDG_CACHE_HOME says where it lies; --no-cache keeps it only as long as the board runs")
        })?;
        let dir = home
            .join("objects")
            .join(place(address.name()).unwrap_or_else(|_| "root".into()));
        private(&dir).map_err(failed)?;
        // What was under way when the last board ended.
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
            _passing: passing,
        })
    }

    /// Where the files lie.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where files lie until they are whole.
    pub(super) fn beside(&self) -> PathBuf {
        self.home.join("coming")
    }

    pub(super) fn objects(&self) -> &BTreeMap<String, CachedObject> {
        &self.objects
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Keys of objects whose files were removed.
    pub(super) fn evicted(&self) -> BTreeSet<String> {
        self.objects
            .iter()
            .filter(|(_, kept)| kept.evicted)
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// Whether an object is known and its file was removed.
    pub(super) fn is_evicted(&self, key: &str) -> bool {
        self.objects.get(key).is_some_and(|kept| kept.evicted)
    }

    /// What is here of an object.
    pub(super) fn here(&self, key: &str) -> Option<Here> {
        let kept = self.objects.get(key).filter(|kept| !kept.evicted)?;
        let path = self.dir.join(place(key).ok()?);
        Some(Here {
            path,
            size: kept.size,
            sum: self.sums.get(key).cloned(),
        })
    }

    /// Takes in what came.
    ///
    /// # Errors
    /// What the system says; what was here before then still is, or is fetched again.
    pub(super) fn take(&mut self, got: Got) -> io::Result<()> {
        let Got {
            object,
            file,
            after,
            unproven,
            sum,
        } = got;
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
        let before = self
            .objects
            .get(&object.key)
            .filter(|before| !before.evicted)
            .cloned();
        match after {
            Some(after) => {
                let mut whole = File::options().append(true).open(&path)?;
                if whole.metadata()?.len() != after {
                    self.lose(&object.key)?;
                    return Err(io::Error::other("the file in the cache is not as it was"));
                }
                // Read from where it stands, behind what was here already.
                io::copy(&mut file.into_file(), &mut whole)?;
                whole.set_modified(written)?;
            }
            None if before.is_some_and(|before| before.unproven && before.etag == kept.etag)
                && alike(&path, file.path())? => {}
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

    /// An object went.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn lose(&mut self, key: &str) -> io::Result<()> {
        self.remove(key)?;
        self.note(key.to_owned(), None)
    }

    /// The file of an object makes room for others.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn evict(&mut self, key: &str) -> io::Result<()> {
        let Some(kept) = self.objects.get(key).cloned() else {
            return Ok(());
        };
        // Noted first: a file that is noted as evicted goes at the next start, if not now.
        self.note(
            key.to_owned(),
            Some(CachedObject {
                evicted: true,
                ..kept
            }),
        )?;
        self.remove(key)
    }

    fn remove(&mut self, key: &str) -> io::Result<()> {
        let Ok(below) = place(key) else { return Ok(()) };
        let path = self.dir.join(below);
        match fs::remove_file(&path) {
            Err(error)
                if !matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Err(error);
            }
            _ => {}
        }
        // Directories that still hold something stay.
        for above in path
            .ancestors()
            .skip(1)
            .take_while(|above| *above != self.dir)
        {
            if fs::remove_dir(above).is_err() {
                break;
            }
        }
        self.sums.remove(key);
        Ok(())
    }

    fn note(&mut self, key: String, kept: Option<CachedObject>) -> io::Result<()> {
        // Where the disk is full, what is known stays as it was noted.
        self.notes.write_all(&line(&key, kept.as_ref())?)?;
        let before = self.objects.remove(&key);
        self.bytes = self
            .bytes
            .saturating_sub(before.as_ref().map_or(0, bytes_of));
        self.bytes += kept.as_ref().map_or(0, bytes_of);
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

/// Bytes of an object on disk.
fn bytes_of(kept: &CachedObject) -> u64 {
    if kept.evicted { 0 } else { kept.size }
}

/// A directory of that name that no other board uses, and what keeps it so.
fn alone(base: &Path, name: &str) -> io::Result<(PathBuf, File)> {
    for number in 1..=MAX_BOARDS {
        let home = base.join(if number == 1 {
            name.to_owned()
        } else {
            format!("{name}-{number}")
        });
        private(&home)?;
        let lock = cache_file::open(&home.join("lock"), Access::Lock)?;
        match lock.try_lock() {
            Ok(()) => return Ok((home, lock)),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::Error::other(format!(
        "{MAX_BOARDS} boards follow it already"
    )))
}

/// Makes a directory that only its owner may look into.
fn private(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

fn line(key: &str, kept: Option<&CachedObject>) -> io::Result<Vec<u8>> {
    let kept_or_none = kept.cloned().unwrap_or_default();
    let CachedObject {
        etag,
        size,
        modified,
        unproven,
        evicted,
    } = kept_or_none;
    let note = Note {
        key: key.to_owned(),
        tag: kept.map(|_| etag),
        size,
        modified,
        unproven,
        evicted,
    };
    let mut line = serde_json::to_vec(&note)?;
    line.push(b'\n');
    Ok(line)
}

/// What the notes say, as far as the files agree.
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
        let Ok(note) = serde_json::from_slice::<Note>(&line) else {
            continue;
        };
        let Note {
            key,
            tag,
            size,
            modified,
            unproven,
            evicted,
        } = note;
        match tag {
            Some(etag) => drop(objects.insert(
                key,
                CachedObject {
                    etag,
                    size,
                    modified,
                    unproven,
                    evicted,
                },
            )),
            None => drop(objects.remove(&key)),
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

/// Removes files that no note tells of: what they are is not known.
fn sweep(dir: &Path, key: &str, objects: &BTreeMap<String, CachedObject>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let known = name.to_str().map(|name| format!("{key}{name}"));
        let done = match (entry.file_type().is_ok_and(|kind| kind.is_dir()), known) {
            (true, Some(below)) => {
                sweep(&entry.path(), &format!("{below}/"), objects);
                // Only an empty one goes.
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

/// Writes the notes anew, and opens them to go on.
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

/// Whether two files hold the same bytes.
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
