//! Makes the records before those of a run's file from other files.
//!
//! They are made once for all readers, and again only if the reader of the format says that they differ.
//! Must not know what the files mean.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::beneath::{Dir, Kind};
use super::composed::existing;
use super::patience::Patience;
use super::stamp::Stamp;
use super::unpacked::Unpacked;
use crate::format::{Before, Nearby};
use crate::model::MAX_LINE_BYTES;

/// The names of larger directories aren't read.
const MAX_NAMES: usize = 10_000;

/// The place of the files.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) how: &'static Before,
    pub(super) root: &'a Path,
    /// The path from the root to the directory in which the paths begin.
    pub(super) below: &'a Path,
    /// The name of the run's own file.
    pub(super) name: &'a str,
}

impl Place<'_> {
    /// Returns the records before those in the run's file, or `None` if there are none.
    ///
    /// # Errors
    /// Fails if the files can't be read now, or there is no space for the records. Returns a would-block
    /// error while they are being made, unless the caller waits.
    pub(super) fn text(&self, patience: Patience) -> io::Result<Option<Arc<Unpacked>>> {
        let (root, below) = (self.root.to_owned(), self.below.to_owned());
        let files = Files { root, below };
        let Some(snapshot) = (self.how.snapshot)(self.name, &files)? else {
            return Ok(None);
        };
        let hash = |value: &dyn Fn(&mut DefaultHasher)| {
            let mut hasher = DefaultHasher::new();
            value(&mut hasher);
            hasher.finish()
        };
        let place = hash(&|hasher| (self.root, self.below, self.name).hash(hasher));
        let stamp = Stamp::of_rows(place, hash(&|hasher| snapshot.hash(hasher)));
        let records = self.how.records;
        let input = || -> io::Result<Box<dyn Read + Send>> {
            Ok(Box::new(Cursor::new(records(&snapshot, &files)?)))
        };
        Unpacked::of_rows(place, stamp, patience, input).map(Some)
    }
}

/// The files below a directory.
struct Files {
    root: PathBuf,
    below: PathBuf,
}

impl Files {
    /// Opens the directory at this path, and no other than one below. Returns `None` if it can't be
    /// opened for long.
    fn dir(&self, path: &[&str]) -> io::Result<Option<Dir>> {
        if !path.iter().all(|name| is_plain(name)) {
            return Ok(None);
        }
        let below = path
            .iter()
            .fold(self.below.clone(), |below, name| below.join(name));
        existing(Dir::open(&self.root, &below))
    }
}

impl Nearby for Files {
    fn names(&self, path: &[&str]) -> io::Result<Vec<String>> {
        let Some(dir) = self.dir(path)? else {
            return Ok(Vec::new());
        };
        let names = dir.names()?.into_iter().take(MAX_NAMES);
        Ok(names
            .filter_map(|(name, _)| name.into_string().ok())
            .collect())
    }

    fn text(&self, path: &[&str], most: usize) -> io::Result<Option<String>> {
        let Some((name, dir)) = path.split_last() else {
            return Ok(None);
        };
        let most = MAX_LINE_BYTES.min(most as u64);
        let Some(dir) = self.dir(dir)?.filter(|_| is_plain(name)) else {
            return Ok(None);
        };
        let is_file = matches!(existing(dir.look(name.as_ref()))?, Some((Kind::File, _)));
        let opened = if is_file {
            existing(dir.file(name.as_ref()))?
        } else {
            None
        };
        let Some((file, stamp)) = opened.filter(|(_, stamp)| stamp.size <= most) else {
            return Ok(None);
        };
        let mut bytes = Vec::with_capacity(usize::try_from(stamp.size).unwrap_or_default() + 1);
        file.take(most).read_to_end(&mut bytes)?;
        Ok(String::from_utf8(bytes).ok())
    }
}

/// Returns whether a name from a file is that of a file in a directory, and not a path.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0', ':'])
}
