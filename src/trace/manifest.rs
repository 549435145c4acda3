//! Follows `manifest.json`. It's rewritten in place, so a read may find an empty or truncated file.
//! The previous content then stays for a moment, but no longer, because a reader that starts now
//! has never seen it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::dir::RunDir;
use super::limits::MAX_MANIFEST_BYTES;
use super::patience::unread;
use super::stamp::{Stamp, TICK};
use crate::format;
use crate::model::{Issue, IssueKind, ManifestState, TraceFile};

/// Follows one manifest, and keeps the last good content while the file is being rewritten.
#[derive(Debug, Default)]
pub(super) struct ManifestTail {
    seen: Option<Stamp>,
    /// When the stamp last changed. Cleared once the file was read again after that.
    fresh: Option<Instant>,
    good: bool,
    /// The hash of the last good content. Pages show all of it, including what isn't parsed.
    text: u64,
    run_id: Option<Box<str>>,
    /// The current issue with the file, and when it began.
    fault: Option<(Issue, Instant)>,
    /// The issues of the last good content.
    notes: Vec<Issue>,
}

impl ManifestTail {
    /// Checks the file. Returns `Some` if its content changed.
    pub(super) fn look(&mut self, dir: &RunDir) -> Option<ManifestState> {
        let seen = match dir.stat(TraceFile::Manifest) {
            Ok(seen) => seen,
            Err(error) => return self.gone(&error),
        };
        // A file that was rewritten a moment ago is read once more even if its stamp is the same,
        // because file system clocks are coarse. A faulty file is always read again.
        let due = self.fresh.is_some_and(|since| since.elapsed() >= TICK);
        if self.seen == Some(seen) && self.fault.is_none() && !due {
            return None;
        }
        self.fresh =
            (self.seen != Some(seen) && seen.age().is_none_or(|age| age < TICK)).then(Instant::now);
        self.seen = Some(seen);
        let read = dir.read_all(TraceFile::Manifest, MAX_MANIFEST_BYTES);
        let read = read.map_err(|error| unread(&error));
        match read.and_then(|text| format::manifest(&text).map(|read| (hash(&text), read))) {
            Ok((text, _)) if self.good && self.text == text => {
                self.fault = None;
                None
            }
            Ok((text, (manifest, remarks))) => {
                (self.good, self.text) = (true, text);
                self.run_id = manifest.run_id.clone();
                self.fault = None;
                self.notes = remarks
                    .into_iter()
                    .map(|(kind, reason)| issue(kind, reason))
                    .collect();
                Some(ManifestState::Read(Box::new(manifest)))
            }
            Err((kind, reason)) => {
                // A file that was quiet before board started isn't being rewritten now.
                let quiet = || {
                    seen.age()
                        .and_then(|age| Instant::now().checked_sub(age))
                        .unwrap_or_else(Instant::now)
                };
                let since = self.fault.take().map_or_else(quiet, |(_, since)| since);
                if since.elapsed() >= TICK {
                    *self = Self {
                        seen: self.seen,
                        fresh: self.fresh,
                        ..Self::default()
                    };
                }
                let reason = if self.good {
                    format!("{reason}; showing the last readable version")
                } else {
                    reason
                };
                self.fault = Some((issue(kind, reason), since));
                (!self.good).then_some(ManifestState::Unreadable)
            }
        }
    }

    fn gone(&mut self, error: &io::Error) -> Option<ManifestState> {
        let was_there = self.seen.take().is_some() || self.good;
        *self = Self::default();
        if error.kind() == io::ErrorKind::NotFound {
            return was_there.then_some(ManifestState::Missing);
        }
        let (kind, reason) = unread(error);
        self.fault = Some((issue(kind, reason), Instant::now()));
        Some(ManifestState::Unreadable)
    }

    /// Returns the current issues of the file. A fault younger than `settle` may be a rewrite in
    /// progress and isn't reported, unless the file can't be read at all.
    pub(super) fn issues(&self, settle: Duration) -> impl Iterator<Item = &Issue> {
        let old_enough = |(issue, since): &&(Issue, Instant)| {
            issue.kind == IssueKind::Away || since.elapsed() >= settle
        };
        self.notes.iter().chain(
            self.fault
                .as_ref()
                .filter(old_enough)
                .map(|(issue, _)| issue),
        )
    }

    /// Returns an issue if the directory's name differs from the run's name in the last good
    /// manifest.
    pub(super) fn renamed(&self, dir: &Path) -> Option<Issue> {
        let (id, name) = (self.run_id.as_deref()?, dir.file_name()?.to_string_lossy());
        // A run id with a slash nests directories. The last part names the innermost.
        let differs = id.rsplit('/').next() != Some(&*name);
        differs.then(|| {
            issue(
                IssueKind::Renamed,
                format!("names run {id}, but the directory is named {name}"),
            )
        })
    }

    /// Returns the stamp of the file at the last read, or `None` if it didn't exist.
    pub(super) fn seen(&self) -> Option<Stamp> {
        self.seen
    }

    /// Returns whether the known content may not be the current one.
    pub(super) fn is_faulty(&self) -> bool {
        self.fault.is_some()
    }

    /// Returns whether another read is due although no file changed. A fault may be a rewrite in
    /// progress, and is reported once it's older than `settle`.
    pub(super) fn wants_another_look(&self, settle: Duration) -> bool {
        let is_due = |(issue, since): &(Issue, Instant)| {
            issue.kind == IssueKind::Away || since.elapsed() <= settle + Duration::from_secs(1)
        };
        let fault = self.fault.as_ref().is_some_and(is_due);
        fault || self.fresh.is_some()
    }
}

fn hash(text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

fn issue(kind: IssueKind, reason: String) -> Issue {
    Issue {
        kind,
        file: TraceFile::Manifest,
        line: None,
        offset: None,
        reason,
    }
}
