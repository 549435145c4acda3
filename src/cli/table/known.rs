//! What is already in a table that is kept? A note beside its files: which run has its rows in which file, and what the files
//! of both looked like.
//!
//! Where the note says less than there is, or something else, runs are read again and nothing else happens. A line of it that
//! cannot be read counts as none.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::analysis::copies::Keys;
use crate::trace::Stamps;

/// Whose table it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    /// The roots, without links.
    pub(super) roots: Vec<String>,
    /// All else that rows depend on.
    pub(super) made_by: String,
}

/// What is known of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The file with its rows, below the table; `None` for a run that is not in the table.
    pub(super) part: Option<String>,
    /// What its files looked like, where its rows hold until one of them changes.
    pub(super) stamps: Option<Stamps>,
    /// What it shares with runs that may hold the same records.
    #[serde(default)]
    pub(super) keys: Keys,
    /// How many rows it has.
    pub(super) rows: u64,
    /// A hash of them.
    pub(super) hash: u64,
}

/// What a file of the table looked like when it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Look {
    size: u64,
    modified: Option<SystemTime>,
}

impl Look {
    /// What it looks like now; `None` where it is not there.
    pub(super) fn of(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path)
            .ok()
            .map(|metadata| Self::from(&metadata))
    }

    /// What an open file looks like, wherever it is put.
    ///
    /// # Errors
    /// What the system says.
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
    /// By key.
    pub(super) runs: BTreeMap<String, Entry>,
    /// By name below the table.
    pub(super) parts: BTreeMap<String, Look>,
    /// What files were about to become when a call was ended, which may have been before or after.
    pub(super) coming: BTreeMap<String, Look>,
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
    Coming(String, Look),
}

impl TableNote {
    /// Whose table the note is of, and what it says; `None` where there is no note.
    ///
    /// # Errors
    /// It cannot be read, or does not begin as one.
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
                Ok(Line::Coming(name, look)) => drop(known.coming.insert(name, look)),
                Err(_) => {}
            }
        }
        let none = || io::Error::new(io::ErrorKind::InvalidData, "it is no note of a table");
        Ok(Some((head.ok_or_else(none)?, known)))
    }

    /// What the file `name` of the table may look like.
    pub(super) fn looks(&self, name: &str) -> impl Iterator<Item = Look> {
        [self.parts.get(name), self.coming.get(name)]
            .into_iter()
            .flatten()
            .copied()
    }

    /// Adds to the note what a file of the table is about to become.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn announce(path: &Path, name: &str, look: Look) -> io::Result<()> {
        let mut line = serde_json::to_vec(&Line::Coming(name.to_owned(), look))?;
        line.push(b'\n');
        File::options().append(true).open(path)?.write_all(&line)
    }

    /// Writes the note anew.
    ///
    /// # Errors
    /// What the system says; the note stays as it was.
    pub(super) fn write(&self, head: &Head, path: &Path) -> io::Result<()> {
        let mut out = BufWriter::new(super::place::beside(path)?);
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
        for (name, look) in &self.coming {
            line(&Line::Coming(name.clone(), *look))?;
        }
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }
}
