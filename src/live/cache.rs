//! Keeps what was known of the runs when the board last ran, in one file for each root outside of all run directories.
//!
//! A row is a checksum, a summary, and the stamps of the files that the summary was made of: it counts only while they still
//! look the same. Changes are appended: of two rows for a run the later one counts, and a board that ends while it writes
//! loses only the rows that aren't written yet. The file may be deleted at any time. Where another build of the board wrote
//! it, or a row is torn or damaged, runs are read again. It holds tasks and answers, so only its owner may read it.
//!
//! The checksum finds damage. It doesn't stop anybody who can write to the file: a row is no evidence, and opening a run
//! works out its summary from the trace again ([`Run::index`]).

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
use crate::own::{self, Access};
use crate::trace::{RunLocation, Stamps};

/// Longer rows are neither written nor read. A row has some 2 KB.
const MAX_ROW_BYTES: usize = 1 << 20;
/// No more of a file is read: 100,000 runs take some 200 MB.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// A row begins with so many hexadecimal digits, the checksum of the rest, and a space.
const SUM_DIGITS: usize = 16;

/// What a file holds, by run directory.
pub(super) type Entries = HashMap<PathBuf, (Stamps, Summary, Option<Stored>)>;

/// What shows a run of an object store whose files are not here.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Stored {
    /// What its root calls it.
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
    stamps: Stamps,
    summary: Summary,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stored: Option<Stored>,
}

/// Where the files lie, and which program's words they hold.
#[derive(Debug)]
pub(super) struct Cache {
    dir: PathBuf,
    build: String,
    /// Of which runs, by a hash of their places, the files hold what, by a hash of its stamps.
    noted: Mutex<HashMap<u64, u64>>,
    /// The board is ending: what takes long is given up.
    stopping: AtomicBool,
}

impl Cache {
    /// The cache in `dir`; `None` where this program cannot tell which build it is.
    pub(super) fn open(dir: &Path) -> Option<Self> {
        Some(Self {
            dir: dir.to_owned(),
            build: build()?,
            noted: Mutex::default(),
            stopping: AtomicBool::new(false),
        })
    }

    /// Returns what was known of the runs below `root`, a path without links; nothing where no file fits.
    pub(super) fn load(&self, root: &Path) -> Entries {
        let place = self.file(root);
        let file = match own::open(&place, Access::Read) {
            Ok(file) => file,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!("the index cache {} is not used: {error}", place.display());
                }
                return Entries::new();
            }
        };
        let mut lines = own::lines(file, MAX_ROW_BYTES, MAX_FILE_BYTES);
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
                "the index cache {place} has {damaged} damaged rows; their runs are read again"
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

    /// Gives up writing a file anew, which may take longer than the board has left.
    pub(super) fn hurry(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Writes the file anew with what is known of those `runs` that are parked. The root puts `prefix` before their keys.
    ///
    /// # Errors
    /// What the system says, or the board is ending; a file that was there before stays as it was.
    pub(super) fn save(&self, root: &Path, prefix: &str, runs: &[Arc<Run>]) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        // Its owner alone may read a temporary file.
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

    /// Adds what is known of those `runs` that are parked and of which the file does not say that, those that take longest to
    /// read first. Whoever ends the board meanwhile loses the rest alone.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn add(&self, root: &Path, prefix: &str, runs: &[Arc<Run>]) -> io::Result<()> {
        let place = self.file(root);
        let first_line = self.first_line(root)?;
        let mut begins = Vec::new();
        let ours = own::open(&place, Access::Append).ok().filter(|file| {
            file.take(first_line.len() as u64)
                .read_to_end(&mut begins)
                .is_ok()
                && begins == first_line
        });
        let mut file = match ours {
            Some(file) => file,
            None => {
                // Nothing in it counts, so nothing is noted.
                self.noted().clear();
                fs::create_dir_all(&self.dir)?;
                let mut beside = tempfile::NamedTempFile::new_in(&self.dir)?;
                beside.write_all(&first_line)?;
                beside.persist(&place).map_err(|error| error.error)?;
                own::open(&place, Access::Append)?
            }
        };
        let mut due: Vec<(u64, Stamps, &Arc<Run>)> = Vec::new();
        for run in runs {
            let Some(stamps) = run.stamps() else { continue };
            let (dir, now) = mark(run.dir().path(), stamps, run.corrections());
            if self.noted().get(&dir) != Some(&now) {
                due.push((stamps.sizes().into_iter().flatten().sum(), stamps, run));
            }
        }
        if due.is_empty() {
            return Ok(());
        }
        due.sort_by_key(|(size, ..)| Reverse(*size));
        // The last line may be torn where the last board was ended.
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

    /// The file for `root`. Two roots of one name would only drive out each other: the head says whose it is.
    fn file(&self, root: &Path) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        root.hash(&mut hasher);
        self.dir.join(format!("{:016x}.jsonl", hasher.finish()))
    }
}

/// The entry of a run whose files look so; `None` where it does not read as it is written.
fn line(run: &Arc<Run>, stamps: Stamps, prefix: &str) -> Option<Vec<u8>> {
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
    // A path that is no text cannot be written as JSON; its run is read again.
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

/// Reads a row; `None` where it isn't as it was written.
fn checked(line: &[u8]) -> Option<Entry> {
    let (digits, text) = line.split_at_checked(SUM_DIGITS)?;
    let text = text.strip_prefix(b" ")?;
    let noted = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    if noted != sum(text) {
        return None;
    }
    serde_json::from_slice(text).ok()
}

/// The checksum of a row. The build that wrote the row is the one that reads it, so the hash may differ between builds.
fn sum(text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    hasher.finish()
}

/// Marks a run whose files look so, and whose row was corrected so many times.
fn mark(dir: &Path, stamps: Stamps, corrections: u64) -> (u64, u64) {
    let hash = |text: &dyn std::fmt::Debug| {
        let mut hasher = DefaultHasher::new();
        format!("{text:?}").hash(&mut hasher);
        hasher.finish()
    };
    (hash(&dir), hash(&(stamps, corrections)))
}

/// This very program: another build may sum runs up in other words.
fn build() -> Option<String> {
    let program = fs::metadata(std::env::current_exe().ok()?).ok()?;
    let made = program
        .modified()
        .ok()?
        .duration_since(std::time::UNIX_EPOCH)
        .ok()?;
    Some(format!(
        "{} {} {}",
        env!("CARGO_PKG_VERSION"),
        program.len(),
        made.as_nanos()
    ))
}
