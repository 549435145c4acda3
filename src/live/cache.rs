//! Caches the summaries of runs between starts of board, in one file per root outside of all
//! run directories.
//!
//! A row is a checksum, a summary, and the stamps of the files that the summary was made from. It's
//! valid only while the files still have these stamps. Changes are appended: the later of two rows
//! for the same run counts, and a board that stops while writing loses only the rows that aren't
//! written yet. The file may be deleted at any time. If another build of board wrote it, or a
//! row is torn or damaged, the affected runs are read again. The file contains tasks and answers,
//! so only its owner may read it.
//!
//! The checksum detects damage. It doesn't stop anyone who can write to the file, so a row is no
//! evidence: opening a run recomputes its summary from the trace ([`Run::index`]).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::run::Run;
use crate::analysis::summary::Summary;
use crate::cache_file::{self, Access};
use crate::trace::{RunLocation, StampsHash};

/// Longer rows are neither written nor read. A row has about 2 KB.
const MAX_ROW_BYTES: usize = 1 << 20;
/// Maximum number of bytes read from a file. 100,000 runs take about 200 MB.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// The number of hexadecimal digits of the checksum at the start of a row. A space and the checked
/// text follow.
const SUM_DIGITS: usize = 16;

/// The content of a file, by run directory.
pub(super) type Entries = HashMap<PathBuf, (StampsHash, Summary, Option<Stored>)>;

/// The data to show a run of an object store whose files aren't in the local mirror.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Stored {
    /// The run's key in its root.
    pub(super) key: String,
    pub(super) known: RunLocation,
}

/// The first line of a file.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Head {
    board: String,
    root: PathBuf,
}

/// Every other line.
#[derive(Serialize, Deserialize)]
struct Entry {
    dir: PathBuf,
    stamps: StampsHash,
    summary: Summary,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stored: Option<Stored>,
}

/// The directory of the cache files, and the build whose rows are valid.
#[derive(Debug)]
pub(super) struct Cache {
    dir: PathBuf,
    build: String,
    /// The runs that the files contain, by a hash of their path, with a hash of their stamps and
    /// corrections.
    noted: Mutex<HashMap<u64, u64>>,
    /// Set when board is stopping, to abandon long writes.
    stopping: AtomicBool,
}

impl Cache {
    /// Opens the cache in `dir`. Returns `None` if the build of this program can't be determined.
    pub(super) fn open(dir: &Path) -> Option<Self> {
        Some(Self {
            dir: dir.to_owned(),
            build: cache_file::build()?,
            noted: Mutex::default(),
            stopping: AtomicBool::new(false),
        })
    }

    /// Returns the cached rows of the runs below `root`, a path without symlinks. Returns nothing
    /// if there's no valid file.
    pub(super) fn load(&self, root: &Path) -> Entries {
        let place = self.file(root);
        let file = match cache_file::open(&place, Access::Read) {
            Ok(file) => file,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!("ignoring the index cache {}: {error}", place.display());
                }
                return Entries::new();
            }
        };
        let mut lines = cache_file::lines(file, MAX_ROW_BYTES, MAX_FILE_BYTES);
        let head = lines
            .next()
            .and_then(|line| serde_json::from_slice::<Head>(&line).ok());
        if head != Some(self.head(root)) {
            return Entries::new();
        }
        let (mut entries, mut damaged) = (Entries::new(), 0_usize);
        for line in lines.filter(|line| !line.is_empty()) {
            match checked(&line) {
                Some(entry) => {
                    drop(entries.insert(entry.dir, (entry.stamps, entry.summary, entry.stored)))
                }
                None => damaged += 1,
            }
        }
        if damaged > 0 {
            let place = place.display();
            tracing::warn!(
                "the index cache {place} has {damaged} damaged rows; board reads those runs again"
            );
        }
        self.noted().extend(
            entries
                .iter()
                .map(|(dir, (stamps, ..))| mark(dir, *stamps, 0)),
        );
        entries
    }

    fn noted(&self) -> MutexGuard<'_, HashMap<u64, u64>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Abandons a rewrite of a file, which may take longer than board has left.
    pub(super) fn hurry(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Rewrites the file with those of the `runs` that are evicted. `prefix` is what the root puts
    /// before their keys.
    ///
    /// # Errors
    /// Returns the system's error, or an error if board is stopping. An existing file is then
    /// unchanged.
    pub(super) fn save(&self, root: &Path, prefix: &str, runs: &[Arc<Run>]) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        // A temporary file is readable by its owner only.
        let file_beside = tempfile::NamedTempFile::new_in(&self.dir)?;
        let mut out = BufWriter::new(file_beside);
        out.write_all(&self.first_line(root)?)?;
        let mut marks = Vec::new();
        for run in runs {
            if self.stopping.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let Some(stamps) = run.stamps() else { continue };
            if let Some(line) = line(run, stamps, prefix) {
                out.write_all(&line)?;
                marks.push(mark(run.dir().path(), stamps, run.corrections()));
            }
        }
        let file_beside = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file_beside
            .persist(self.file(root))
            .map_err(|error| error.error)?;
        self.noted().extend(marks);
        Ok(())
    }

    /// Appends those of the `runs` that are evicted and missing from the file, those that take
    /// longest to read first. If board is killed meanwhile, only the rest is lost.
    ///
    /// # Errors
    /// Returns the system's error.
    pub(super) fn add(&self, root: &Path, prefix: &str, runs: &[Arc<Run>]) -> io::Result<()> {
        let place = self.file(root);
        let first_line = self.first_line(root)?;
        let mut begins = Vec::new();
        let ours = cache_file::open(&place, Access::Append)
            .ok()
            .filter(|file| {
                file.take(first_line.len() as u64)
                    .read_to_end(&mut begins)
                    .is_ok()
                    && begins == first_line
            });
        let mut file = match ours {
            Some(file) => file,
            None => {
                // No row in it is valid.
                self.noted().clear();
                fs::create_dir_all(&self.dir)?;
                let mut beside = tempfile::NamedTempFile::new_in(&self.dir)?;
                beside.write_all(&first_line)?;
                beside.persist(&place).map_err(|error| error.error)?;
                cache_file::open(&place, Access::Append)?
            }
        };
        let mut due: Vec<(u64, StampsHash, &Arc<Run>)> = Vec::new();
        for run in runs {
            let Some(stamps) = run.stamps() else { continue };
            let (dir, now) = mark(run.dir().path(), stamps, run.corrections());
            if self.noted().get(&dir) != Some(&now) {
                due.push((stamps.bytes(), stamps, run));
            }
        }
        if due.is_empty() {
            return Ok(());
        }
        due.sort_by_key(|(size, ..)| Reverse(*size));
        // The last line may be torn if the previous board was killed.
        file.write_all(b"\n")?;
        for (_, stamps, run) in due {
            if let Some(line) = line(run, stamps, prefix) {
                file.write_all(&line)?;
                self.noted()
                    .extend([mark(run.dir().path(), stamps, run.corrections())]);
            }
        }
        Ok(())
    }

    fn first_line(&self, root: &Path) -> io::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(&self.head(root))?;
        line.push(b'\n');
        Ok(line)
    }

    fn head(&self, root: &Path) -> Head {
        Head {
            board: self.build.clone(),
            root: root.to_owned(),
        }
    }

    /// Returns the file for `root`. If two roots had the same hash, they would only replace each
    /// other, because the head names the root.
    fn file(&self, root: &Path) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        root.hash(&mut hasher);
        self.dir.join(format!("{:016x}.jsonl", hasher.finish()))
    }
}

/// Returns the row of a run whose files have these stamps, or `None` if it wouldn't read back
/// unchanged.
fn line(run: &Arc<Run>, stamps: StampsHash, prefix: &str) -> Option<Vec<u8>> {
    let summary = run.alone();
    let key = run.key().as_str();
    let key = key
        .strip_prefix(prefix)
        .map_or(key, |below| below.trim_start_matches('/'));
    let known = Some(run)
        .filter(|run| run.is_stored())
        .and_then(|run| run.dir().known());
    let stored = known.map(|known| Stored {
        key: key.to_owned(),
        known,
    });
    let entry = Entry {
        dir: run.dir().path().to_owned(),
        stamps,
        summary: Summary::clone(&summary),
        stored,
    };
    // A path that isn't UTF-8 can't be written as JSON. Its run is read again at the next start.
    let text = serde_json::to_vec(&entry).ok()?;
    serde_json::from_slice::<Entry>(&text)
        .ok()
        .filter(|read| read.summary.is_like(&summary))?;
    let mut line = format!("{:0SUM_DIGITS$x} ", sum(&text)).into_bytes();
    line.extend(text);
    if line.len() > MAX_ROW_BYTES {
        return None;
    }
    line.push(b'\n');
    Some(line)
}

/// Parses a row. Returns `None` if it's damaged.
fn checked(line: &[u8]) -> Option<Entry> {
    let (digits, text) = line.split_at_checked(SUM_DIGITS)?;
    let text = text.strip_prefix(b" ")?;
    let noted = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    if noted != sum(text) {
        return None;
    }
    serde_json::from_slice(text).ok()
}

/// Returns the checksum of a row. The build that wrote a row also reads it, so the hash may differ
/// between builds.
fn sum(text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    hasher.finish()
}

/// Returns a hash of the run's path, and a hash of its stamps and its number of corrections.
fn mark(dir: &Path, stamps: StampsHash, corrections: u64) -> (u64, u64) {
    let hash = |text: &dyn std::fmt::Debug| {
        let mut hasher = DefaultHasher::new();
        format!("{text:?}").hash(&mut hasher);
        hasher.finish()
    };
    (hash(&dir), hash(&(stamps, corrections)))
}
