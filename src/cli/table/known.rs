//! Reads and writes the note stored with a table in a directory: which file contains the rows of
//! each run, and the state of the files of both.
//!
//! If the note is incomplete or wrong, runs are read again and nothing worse happens. Unreadable
//! lines are ignored.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::temporary::beside;
use crate::analysis::copies::Keys;
use crate::trace::Stamps;

/// Identifies the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    /// The roots, with links resolved.
    pub(super) roots: Vec<String>,
    /// Everything else that rows depend on.
    pub(super) made_by: String,
}

/// The facts known about a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The file with its rows, relative to the table; `None` if the run isn't in the table.
    pub(super) part: Option<String>,
    /// The state of its files, if its rows are valid until one of them changes.
    pub(super) stamps: Option<Stamps>,
    /// The keys that it shares with runs that may have the same records.
    #[serde(default)]
    pub(super) keys: Keys,
    /// The number of rows.
    pub(super) rows: u64,
    /// A hash of the rows.
    pub(super) hash: u64,
}

/// The state of a file of the table when it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Look {
    size: u64,
    modified: Option<SystemTime>,
}

impl Look {
    /// Returns the file's current state, or `None` if it doesn't exist.
    pub(super) fn of(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path)
            .ok()
            .map(|metadata| Self::from(&metadata))
    }

    /// Returns the state of an open file, which stays the same if the file is moved.
    ///
    /// # Errors
    /// Returns errors from the system.
    pub(super) fn of_file(file: &File) -> io::Result<Self> {
        file.metadata().map(|metadata| Self::from(&metadata))
    }
}

impl From<&fs::Metadata> for Look {
    fn from(metadata: &fs::Metadata) -> Self {
        Self {
            size: metadata.len(),
            modified: metadata.modified().ok(),
        }
    }
}

/// The note.
#[derive(Debug, Default)]
pub(super) struct TableNote {
    /// The entries of runs, by key.
    pub(super) runs: BTreeMap<String, Entry>,
    /// The state of the table's files, by name relative to the table.
    pub(super) parts: BTreeMap<String, Look>,
    /// The state that files were about to have when a call was interrupted. It may not have been
    /// reached.
    pub(super) pending: BTreeMap<String, Look>,
}

#[derive(Debug, Serialize, Deserialize)]
enum Line {
    #[serde(rename = "table")]
    Head(Head),
    #[serde(rename = "run")]
    Run(String, Box<Entry>),
    #[serde(rename = "file")]
    Part(String, Look),
    #[serde(rename = "coming")]
    Pending(String, Look),
}

impl TableNote {
    /// Returns the table that the note belongs to, and its content. `None` if there's no note.
    ///
    /// # Errors
    /// The note can't be read, or doesn't begin like one.
    pub(super) fn read(path: &Path) -> io::Result<Option<(Head, Self)>> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut known = Self::default();
        let mut head = None;
        for line in BufReader::new(file).split(b'\n') {
            match serde_json::from_slice(&line?) {
                Ok(Line::Head(line)) => head = head.or(Some(line)),
                Ok(Line::Run(key, entry)) => drop(known.runs.insert(key, *entry)),
                Ok(Line::Part(name, look)) => drop(known.parts.insert(name, look)),
                Ok(Line::Pending(name, look)) => drop(known.pending.insert(name, look)),
                Err(_) => {}
            }
        }
        let none = || io::Error::new(io::ErrorKind::InvalidData, "it isn't a table's index");
        Ok(Some((head.ok_or_else(none)?, known)))
    }

    /// Returns the valid states of the table's file `name`.
    pub(super) fn valid_states(&self, name: &str) -> impl Iterator<Item = Look> {
        [self.parts.get(name), self.pending.get(name)]
            .into_iter()
            .flatten()
            .copied()
    }

    /// Adds to the note the state that a file of the table is about to have.
    ///
    /// # Errors
    /// Returns errors from the system.
    pub(super) fn record_pending(path: &Path, name: &str, look: Look) -> io::Result<()> {
        let mut line = serde_json::to_vec(&Line::Pending(name.to_owned(), look))?;
        line.push(b'\n');
        File::options().append(true).open(path)?.write_all(&line)
    }

    /// Rewrites the note.
    ///
    /// # Errors
    /// Returns errors from the system. The old note then remains unchanged.
    pub(super) fn write(&self, head: &Head, path: &Path) -> io::Result<()> {
        let mut out = BufWriter::new(beside(path)?);
        let mut line = |line: &Line| -> io::Result<()> {
            serde_json::to_writer(&mut out, line)?;
            out.write_all(b"\n")
        };
        line(&Line::Head(head.clone()))?;
        for (key, entry) in &self.runs {
            line(&Line::Run(key.clone(), Box::new(entry.clone())))?;
        }
        for (name, look) in &self.parts {
            line(&Line::Part(name.clone(), *look))?;
        }
        for (name, look) in &self.pending {
            line(&Line::Pending(name.clone(), *look))?;
        }
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }
}
