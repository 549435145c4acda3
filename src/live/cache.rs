//! What was known of the runs when the board last ran? One file for each root, outside of all run directories.
//!
//! An entry is a summary, and the stamps of the files it was made of: it counts only while they still look the same.
//! The file may be deleted at any time. Another build of the board, a torn line, anything odd in it: runs are read again,
//! and nothing else happens. It holds tasks and answers, so only its owner may read it.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::run::Run;
use crate::analysis::summary::Summary;
use crate::trace::{RunLocation, Stamps};

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
}

impl Cache {
    /// The cache in `dir`; `None` where this program cannot tell which build it is.
    pub(super) fn open(dir: &Path) -> Option<Self> {
        Some(Self { dir: dir.to_owned(), build: build()? })
    }

    /// What was known of the runs below `root`, a path without links; nothing where there is no file that fits.
    pub(super) fn load(&self, root: &Path) -> Entries {
        let read = || -> Option<Entries> {
            let mut lines = BufReader::new(File::open(self.file(root)).ok()?).lines().map_while(Result::ok);
            let head: Head = serde_json::from_str(&lines.next()?).ok()?;
            if head != self.head(root) {
                return None;
            }
            let entry = |line: String| serde_json::from_str::<Entry>(&line).ok();
            Some(
                lines.filter_map(entry).map(|entry| (entry.dir, (entry.stamps, entry.summary, entry.stored))).collect(),
            )
        };
        read().unwrap_or_default()
    }

    /// Writes down what is known of those `runs` that are parked. The root puts `prefix` before their keys.
    ///
    /// # Errors
    /// What the system says; a file that was there before stays as it was.
    pub(super) fn save(&self, root: &Path, prefix: &str, runs: &[Arc<Run>]) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        // Its owner alone may read a temporary file.
        let file_beside = tempfile::NamedTempFile::new_in(&self.dir)?;
        let mut out = BufWriter::new(file_beside);
        let mut line = |text: String| out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n"));
        line(serde_json::to_string(&self.head(root))?)?;
        for run in runs {
            let summary = run.summary();
            let Some(stamps) = run.stamps() else { continue };
            let key = run.key().as_str();
            let key = key.strip_prefix(prefix).map_or(key, |below| below.trim_start_matches('/'));
            let known = Some(run).filter(|run| run.is_stored()).and_then(|run| run.dir().known());
            let stored = known.map(|known| Stored { key: key.to_owned(), known });
            let entry = Entry { dir: run.dir().path().to_owned(), stamps, summary: Summary::clone(&summary), stored };
            // A path that is no text cannot be written as JSON; its run is read again.
            let Ok(text) = serde_json::to_string(&entry) else { continue };
            if serde_json::from_str::<Entry>(&text).is_ok_and(|read| read.summary.is_like(&summary)) {
                line(text)?;
            }
        }
        let file_beside = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file_beside.persist(self.file(root)).map_err(|error| error.error)?;
        Ok(())
    }

    fn head(&self, root: &Path) -> Head {
        Head { board: self.build.clone(), root: root.to_owned() }
    }

    /// The file for `root`. Two roots of one name would only drive out each other: the head says whose it is.
    fn file(&self, root: &Path) -> PathBuf {
        use std::hash::{DefaultHasher, Hash as _, Hasher as _};
        let mut hasher = DefaultHasher::new();
        root.hash(&mut hasher);
        self.dir.join(format!("{:016x}.jsonl", hasher.finish()))
    }
}

/// This very program: another build may sum runs up in other words.
fn build() -> Option<String> {
    let program = fs::metadata(std::env::current_exe().ok()?).ok()?;
    let made = program.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(format!("{} {} {}", env!("CARGO_PKG_VERSION"), program.len(), made.as_nanos()))
}
