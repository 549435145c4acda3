//! Follows a directory that has a file for each record.
//!
//! The newest file may still be incomplete, so the last file isn't read until it's whole. Stamps
//! show whether a file was replaced after it was read. If there are so many files that checking
//! them all takes long, that's done less often than reading new files.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::time::Instant;

use super::beneath::Dir;
use super::beside::BesideFile;
use super::dir::RunDir;
use super::document::tell;
use super::numbered::{Names, PLACE_BITS, content, list, look_at_all, together};
use super::stamp::Stamp;
use super::tail::Look;
use crate::format::{Draft, Numbering, Reader, WatchedValue};
use crate::model::index::FileState;
use crate::model::{Delta, Issue, IssueKind, Record, Span, TraceFile};

/// After checking more files than `MANY`, the next check of all files waits at least `REST` times
/// as long as it took.
const MANY: usize = 1_000;
const REST: u32 = 20;

/// Follows the directory.
#[derive(Debug, Default)]
pub(super) struct Numbered {
    names: Names,
    /// The stamp of the directory with all its files at the last full check, and whether any later
    /// change shows in it.
    seen: Option<Stamp>,
    settled: bool,
    /// When the next full check is due, and whether a read since then skipped it.
    all_due: Option<Instant>,
    owed: bool,
    /// The stamp of the directory alone at the last read.
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

    /// Returns the stamp of the document in the same directory when it was last read.
    pub(super) fn seen_beside(&self) -> Option<Stamp> {
        self.beside.seen()
    }

    /// Returns whether another read may find something although nothing changes.
    pub(super) fn is_unsettled(&self) -> bool {
        let is_fresh = |(_, stamp): &(OsString, Stamp)| !stamp.is_settled();
        let waits = self.waits.as_ref().is_some_and(is_fresh) || self.beside.is_torn();
        self.more || waits || self.owed || (self.seen.is_some() && !self.settled)
    }

    /// Passes new records to the reader, reading at most about `limit` bytes.
    ///
    /// # Errors
    /// Fails if the directory can't be listed, or the document in it can't be read.
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
