//! What does `manifest.json` say now? It is rewritten in place, so a look may meet an empty or a cut file. What it said
//! before holds for a moment then, and no longer: a reader that starts now has never seen it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::dir::RunDir;
use super::read::unread;
use super::stamp::{Stamp, TICK};
use crate::format;
use crate::model::{Issue, IssueKind, ManifestState, TraceFile};

/// A larger manifest is not read. The largest real ones, with four copies of a long tool list, have some 100 KB.
pub const MAX_MANIFEST_BYTES: u64 = 64 << 20;

/// Follows one manifest; keeps the last good content while the file is being rewritten.
#[derive(Debug, Default)]
pub(super) struct ManifestTail {
    seen: Option<Stamp>,
    /// When another stamp was seen last, until the file was read once more after that.
    fresh: Option<Instant>,
    good: bool,
    /// The hash of the last good content: pages show all of it, also what is not read out of it.
    text: u64,
    run_id: Option<Box<str>>,
    /// What is wrong with the file as it is now, and since when.
    fault: Option<(Issue, Instant)>,
    /// Oddities of the last good content.
    notes: Vec<Issue>,
}

impl ManifestTail {
    /// Looks at the file; `Some` where its content changed.
    pub(super) fn look(&mut self, dir: &RunDir) -> Option<ManifestState> {
        let seen = match dir.stat(TraceFile::Manifest) {
            Ok(seen) => seen,
            Err(error) => return self.gone(&error),
        };
        // A file that was rewritten a moment ago is read once more although its stamp did not move: clocks of file
        // systems are coarse. A faulty one is read at each look.
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
                // A file that was quiet before the board came is not being rewritten now.
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
                    format!("{reason}; the last good one is shown")
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

    /// What is odd about the file now. A fault younger than `settle` may be a rewrite under way and is not told, unless the file
    /// cannot be read at all.
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

    /// Says so where the directory has another name than the run in the last good manifest.
    pub(super) fn renamed(&self, dir: &Path) -> Option<Issue> {
        let (id, name) = (self.run_id.as_deref()?, dir.file_name()?.to_string_lossy());
        // A run id with a slash nests directories; the last part names the innermost.
        let differs = id.rsplit('/').next() != Some(&*name);
        differs.then(|| {
            issue(
                IssueKind::Renamed,
                format!("speaks of run {id}, the directory is called {name}"),
            )
        })
    }

    /// What the last look saw of the file; `None` where it was not there.
    pub(super) fn seen(&self) -> Option<Stamp> {
        self.seen
    }

    /// Whether what is known is not what the file says now.
    pub(super) fn is_faulty(&self) -> bool {
        self.fault.is_some()
    }

    /// Whether another look is due although no file changed: a fault may be a rewrite under way, and is told once it is
    /// older than `settle`.
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
