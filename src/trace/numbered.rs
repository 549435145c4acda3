//! Follows a directory that has a file for each record. The files are numbered by their names, and
//! each is written once.
//!
//! A record's offset encodes the file's number, so that a page finds the record without knowing the
//! lengths of the files before it. The newest file may still be incomplete, so the last file isn't
//! read until it's whole. Stamps show whether a file was replaced after it was read. If there are
//! so many files that checking them all takes long, that's done less often than reading new files.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::beneath::{Dir, Kind};
use super::beside::BesideFile;
use super::dir::RunDir;
use super::document::tell;
use super::stamp::Stamp;
use super::tail::Look;
use crate::format::{Draft, Numbering, Reader, Shape, WatchedValue};
use crate::model::index::FileState;
use crate::model::{Delta, Issue, IssueKind, MAX_LINE_BYTES, Record, Span, TraceFile};

/// A record's offset is its number shifted by this many bits. No record that is parsed is that
/// long.
const PLACE_BITS: u32 = 24;
/// After checking more files than `MANY`, the next check of all files waits at least `REST` times
/// as long as it took.
const MANY: usize = 1_000;
const REST: u32 = 20;

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
    /// The file doesn't exist. Returns other errors of the system, too.
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

    fn set(&self, names: BTreeMap<u64, OsString>) {
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
type Looks = BTreeMap<u64, (OsString, Option<Stamp>)>;

fn look_at_all(dir: &Dir, numbering: Numbering) -> io::Result<Looks> {
    let look = |name: OsString| {
        let stamp = dir.look(&name).ok().map(|(_, stamp)| stamp);
        (name, stamp)
    };
    Ok(list(dir, numbering)?
        .into_iter()
        .map(|(number, name)| (number, look(name)))
        .collect())
}

fn together(own: Stamp, files: &Looks) -> Stamp {
    files
        .values()
        .filter_map(|(_, stamp)| *stamp)
        .fold(own.with_size(0), Stamp::and)
}

/// Returns the stamp of the directory including all of these files. `own` is the stamp of the
/// directory itself.
///
/// # Errors
/// The directory can't be listed.
pub(super) fn stamp(dir: &Dir, numbering: Numbering, own: Stamp) -> io::Result<Stamp> {
    Ok(together(own, &look_at_all(dir, numbering)?))
}

/// Iterates over the contents of the files, in order. For a file longer than any record that is
/// parsed, returns its length instead.
///
/// # Errors
/// The directory can't be listed.
pub(super) fn contents(
    dir: Dir,
    numbering: Numbering,
) -> io::Result<impl Iterator<Item = io::Result<Result<Vec<u8>, u64>>>> {
    let names = list(&dir, numbering)?.into_values();
    Ok(names.map(move |name| content(&dir, &name).map(|(bytes, stamp)| bytes.ok_or(stamp.size))))
}

impl RunDir {
    /// Returns how the record files are named, if each record has one.
    pub(super) fn numbering(&self) -> Option<Numbering> {
        match self.tool()?.shape {
            Shape::Files { numbering, .. } => Some(numbering),
            _ => None,
        }
    }

    /// Returns the directory of the record files.
    ///
    /// # Errors
    /// The directory doesn't exist, or isn't below the root.
    pub(super) fn records(&self) -> io::Result<Dir> {
        let Some(Shape::Files { below, .. }) = self.tool().map(|tool| tool.shape) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        Dir::open(self.root(), &self.below().join(below))
    }

    /// Returns whether each record has its own file.
    pub fn is_files(&self) -> bool {
        self.numbering().is_some()
    }

    /// Returns the names of the record files in order, or nothing if records don't have their own
    /// files.
    ///
    /// # Errors
    /// Returns the system's error.
    #[cfg(feature = "board")]
    pub(super) fn record_files(&self) -> io::Result<Vec<OsString>> {
        let Some(numbering) = self.numbering() else {
            return Ok(Vec::new());
        };
        Ok(list(&self.records()?, numbering)?.into_values().collect())
    }

    /// Iterates over the names and contents of these record files. The content is empty if a file
    /// is longer than any record that is parsed.
    #[cfg(feature = "board")]
    pub(super) fn each_record<'a>(
        &self,
        names: &'a [OsString],
    ) -> impl Iterator<Item = (&'a OsStr, io::Result<Vec<u8>>)> {
        names.iter().map(|name| {
            let read = self.records().and_then(|dir| content(&dir, name));
            (
                name.as_os_str(),
                read.map(|(bytes, _)| bytes.unwrap_or_default()),
            )
        })
    }
}

/// Follows the directory.
#[derive(Debug, Default)]
pub(super) struct Numbered {
    names: Names,
    /// The stamp of the directory with all its files at the last full check, and whether any later
    /// change shows in it.
    seen: Option<Stamp>,
    settled: bool,
    /// When the next full check is due, and whether a look since then skipped it.
    all_due: Option<Instant>,
    owed: bool,
    /// The stamp of the directory alone at the last look.
    own: Option<Stamp>,
    beside: BesideFile,
    /// The number of records published, and the number that comes next.
    taken: usize,
    next: u64,
    /// The hash of the stamps of the published files, in order.
    read: DefaultHasher,
    /// The last file, if it's incomplete.
    waits: Option<(OsString, Stamp)>,
    more: bool,
    state: FileState,
}

impl Drop for Numbered {
    /// Frees the names, because the run is no longer followed.
    fn drop(&mut self) {
        self.names.set(BTreeMap::new());
    }
}

impl Numbered {
    /// Returns the stamp of the directory with all its files at the last full check.
    pub(super) fn seen(&self) -> Option<Stamp> {
        self.seen
    }

    /// Returns the stamp of the document beside it at the last look.
    pub(super) fn seen_beside(&self) -> Option<Stamp> {
        self.beside.seen()
    }

    /// Returns whether another look may find something although nothing changes.
    pub(super) fn is_unsettled(&self) -> bool {
        let is_fresh = |(_, stamp): &(OsString, Stamp)| !stamp.is_settled();
        let waits = self.waits.as_ref().is_some_and(is_fresh) || self.beside.is_torn();
        self.more || waits || self.owed || (self.seen.is_some() && !self.settled)
    }

    /// Passes new records to the reader, reading at most about `limit` bytes.
    ///
    /// # Errors
    /// The directory can't be listed, or the document beside it can't be read.
    pub(super) fn look(
        &mut self,
        dir: &RunDir,
        numbering: Numbering,
        limit: u64,
        reader: &mut dyn Reader,
        draft: &mut Draft<'_>,
    ) -> io::Result<Look> {
        // Its statements precede the records found after it.
        self.beside.look(dir, reader)?;
        let files = match dir.records() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Look {
                    restarted: self.taken > 0,
                    ..Look::default()
                });
            }
            opened => opened?,
        };
        let (_, own) = files.look(OsStr::new("."))?;
        let before = self.own.replace(own);
        if before.is_some_and(|before| before.id != own.id) {
            return Ok(Look {
                restarted: self.taken > 0,
                ..self.told()
            });
        }
        let waits = self.more || self.waits.is_some();
        let start = Instant::now();
        self.owed = self.all_due.is_some_and(|due| start < due);
        let names = if self.owed {
            if before == Some(own) && own.is_settled() && !waits {
                return Ok(self.told());
            }
            list(&files, numbering)?
        } else {
            let looks = look_at_all(&files, numbering)?;
            self.all_due = (looks.len() > MANY).then(|| Instant::now() + start.elapsed() * REST);
            let stamp = together(own, &looks);
            let is_news = self.seen != Some(stamp) || !self.settled || waits;
            (self.seen, self.settled) = (Some(stamp), stamp.is_settled());
            if !is_news {
                return Ok(self.told());
            }
            let mut now = DefaultHasher::new();
            looks
                .range(..self.next)
                .for_each(|(number, (_, stamp))| (number, stamp).hash(&mut now));
            if now.finish() != self.read.finish() {
                return Ok(Look {
                    restarted: true,
                    ..Look::default()
                });
            }
            looks
                .into_iter()
                .map(|(number, (name, _))| (number, name))
                .collect()
        };
        self.names = dir.numbered().clone();
        let busy = self.read(&files, &names, limit, dir, reader, draft)?;
        self.names.set(names);
        Ok(Look {
            busy,
            ..self.told()
        })
    }

    fn told(&self) -> Look {
        Look {
            state: self.state,
            more: self.more,
            ..Look::default()
        }
    }

    /// Reports the current temporary issues.
    pub(super) fn passing(&self, delta: &mut Delta) {
        let issue = |file, reason| Issue {
            kind: IssueKind::Torn,
            file,
            line: Some(self.next + 1),
            offset: None,
            reason,
        };
        let torn = self
            .waits
            .as_ref()
            .map(|(name, _)| format!("{} is still incomplete", name.to_string_lossy()));
        delta
            .passing
            .extend(torn.map(|reason| issue(TraceFile::Events, reason)));
        self.beside.passing(delta);
    }

    /// Reads the files that weren't published yet. Returns whether a writer holds a lease on one of
    /// them.
    fn read(
        &mut self,
        files: &Dir,
        names: &BTreeMap<u64, OsString>,
        limit: u64,
        dir: &RunDir,
        reader: &mut dyn Reader,
        draft: &mut Draft<'_>,
    ) -> io::Result<bool> {
        let last = names.keys().next_back().copied();
        let mut read = 0;
        (self.waits, self.more) = (None, false);
        (self.state.exists, self.state.size) = (true, self.state.read);
        for (number, name) in names.range(self.next..) {
            if read >= limit {
                self.more = true;
                break;
            }
            let (bytes, stamp) = match content(files, name) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                read => read?,
            };
            self.state.size += stamp.size;
            let is_whole = bytes.as_ref().is_none_or(|bytes| {
                bytes.len() as u64 == stamp.size && Record::of(bytes).fate.is_readable()
            });
            if !is_whole && last == Some(*number) {
                self.waits = Some((name.clone(), stamp));
                break;
            }
            let span = Span {
                offset: number << PLACE_BITS,
                len: stamp.size,
            };
            let found = WatchedValue {
                path: 0,
                key: "",
                span,
                line: number + 1,
                bytes: bytes.as_deref(),
            };
            tell(
                draft,
                found,
                |source, draft| reader.record(source, draft),
                dir.path(),
            );
            if self.taken > 0 && *number > self.next {
                let (from, to) = (self.next, number - 1);
                let missing = if from == to {
                    format!("file {from} is missing")
                } else {
                    format!("files {from} to {to} are missing")
                };
                draft.issue(IssueKind::Gap, missing);
            }
            (self.taken, self.next) = (self.taken + 1, number + 1);
            (number, Some(stamp)).hash(&mut self.read);
            self.state.read += stamp.size;
            read += stamp.size;
        }
        Ok(false)
    }
}

/// Returns the bytes of a file, unless it's longer than any record that is parsed, and its stamp
/// before they were read. Anything written meanwhile changes the stamp.
pub(super) fn content(files: &Dir, name: &OsStr) -> io::Result<(Option<Vec<u8>>, Stamp)> {
    let (file, stamp) = files.file(name)?;
    if stamp.size > MAX_LINE_BYTES {
        return Ok((None, stamp));
    }
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, MAX_LINE_BYTES), &mut bytes)?;
    Ok((Some(bytes), stamp))
}
