//! Lists and reads a directory that has a file for each record. The files are numbered by their
//! names, and each is written once.
//!
//! A record's offset encodes the file's number, so that a page finds the record without knowing the
//! lengths of the files before it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::beneath::{Dir, Kind};
use super::stamp::Stamp;
use crate::format::{Numbering, Shape};
use crate::model::MAX_LINE_BYTES;

/// A record's offset is its number shifted by this many bits. No record that is parsed is that
/// long.
pub(super) const PLACE_BITS: u32 = 24;

/// The names of the files by number, shared by all readers of the run.
#[derive(Debug, Clone, Default)]
pub(super) struct Names(Option<Arc<Mutex<BTreeMap<u64, OsString>>>>);

impl Names {
    /// Creates an empty list of names, or none if runs of this shape have no numbered files.
    pub(super) fn of(shape: Shape) -> Self {
        Self(matches!(shape, Shape::Files { .. }).then(Arc::default))
    }

    fn known(&self) -> Option<MutexGuard<'_, BTreeMap<u64, OsString>>> {
        Some(
            self.0
                .as_ref()?
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// Opens the file with the record at `offset`.
    ///
    /// # Errors
    /// Fails if the file doesn't exist. Also returns other I/O errors.
    pub(super) fn open(
        &self,
        dir: &Dir,
        numbering: Numbering,
        offset: u64,
    ) -> io::Result<(File, Stamp)> {
        let number = offset >> PLACE_BITS;
        let known = || self.known()?.get(&number).cloned();
        if let Some(name) = known() {
            match dir.file(&name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => return opened,
            }
        }
        self.set(list(dir, numbering)?);
        known().map_or_else(
            || Err(io::ErrorKind::NotFound.into()),
            |name| dir.file(&name),
        )
    }

    pub(super) fn set(&self, names: BTreeMap<u64, OsString>) {
        if let Some(mut known) = self.known() {
            *known = names;
        }
    }
}

/// Returns the files in the directory by number.
pub(super) fn list(dir: &Dir, numbering: Numbering) -> io::Result<BTreeMap<u64, OsString>> {
    let names = dir
        .names()?
        .into_iter()
        .filter(|(_, kind)| *kind == Kind::File);
    let numbered = names.filter_map(|(name, _)| Some((numbering.of(name.to_str()?)?, name)));
    Ok(numbered
        .filter(|(number, _)| *number < u64::MAX >> PLACE_BITS)
        .collect())
}

/// The names and stamps of the record files. A file that just disappeared has no stamp.
pub(super) type Looks = BTreeMap<u64, (OsString, Option<Stamp>)>;

pub(super) fn look_at_all(dir: &Dir, numbering: Numbering) -> io::Result<Looks> {
    let look = |name: OsString| {
        let stamp = dir.look(&name).ok().map(|(_, stamp)| stamp);
        (name, stamp)
    };
    Ok(list(dir, numbering)?
        .into_iter()
        .map(|(number, name)| (number, look(name)))
        .collect())
}

pub(super) fn together(own: Stamp, files: &Looks) -> Stamp {
    files
        .values()
        .filter_map(|(_, stamp)| *stamp)
        .fold(own.with_size(0), Stamp::and)
}

/// Returns the stamp of the directory including all of these files. `own` is the stamp of the
/// directory itself.
///
/// # Errors
/// Fails if the directory can't be listed.
pub(super) fn stamp(dir: &Dir, numbering: Numbering, own: Stamp) -> io::Result<Stamp> {
    Ok(together(own, &look_at_all(dir, numbering)?))
}

/// Iterates over the contents of the files, in order. For a file longer than any record that is
/// parsed, returns its length instead.
///
/// # Errors
/// Fails if the directory can't be listed.
pub(super) fn contents(
    dir: Dir,
    numbering: Numbering,
) -> io::Result<impl Iterator<Item = io::Result<Result<Vec<u8>, u64>>>> {
    let names = list(&dir, numbering)?.into_values();
    Ok(names.map(move |name| content(&dir, &name).map(|(bytes, stamp)| bytes.ok_or(stamp.size))))
}

/// Returns the bytes of a file, unless it's longer than any record that is parsed, and its stamp
/// before they were read. Anything written meanwhile changes the stamp.
pub(super) fn content(files: &Dir, name: &OsStr) -> io::Result<(Option<Vec<u8>>, Stamp)> {
    let (file, stamp) = files.file(name)?;
    if stamp.size > MAX_LINE_BYTES {
        return Ok((None, stamp));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(stamp.size).unwrap_or_default() + 1);
    io::Read::read_to_end(&mut io::Read::take(file, MAX_LINE_BYTES), &mut bytes)?;
    Ok((Some(bytes), stamp))
}
