//! Opens the run that a path names, and reads it once, completely.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::look::Look;
use crate::analysis::format::{count, counted};
use crate::analysis::life::ExternalFacts;
use crate::analysis::summary::{Summary, summary};
use crate::error::{Error, Kind, Result};
use crate::model::price::Prices;
use crate::model::{Index, Lines, RunKey, Span, TraceFile};
use crate::page::run_view::RunView;
use crate::trace::{
    MAX_MANIFEST_BYTES, RedactedRun, RootScanner, RunDir, RunReader, Stamps, is_running,
};

/// The maximum number of runs suggested for a directory that isn't a run itself.
const MAX_NEAR: usize = 3;
/// The maximum number of directories and files searched for such runs, since it's only a hint.
const MAX_LOOKED: usize = 1_000;

/// A run that has been read.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) index: Index,
    pub(super) summary: Summary,
    dir: RunDir,
    outside: ExternalFacts,
    /// The state of its files, if a new reading would give the same result until one of them
    /// changes.
    pub(super) stamps: Option<Stamps>,
}

impl Opened {
    /// Reads the run at `path`.
    ///
    /// # Errors
    /// `path` doesn't exist, isn't a run directory, or can't be read.
    pub(super) fn open(path: &Path, now: i64) -> Result<Self> {
        super::stores::refuse(path)?;
        let dir = match RunDir::of_file(path) {
            Ok(Some(file)) => file,
            // If the file contains several runs, none is chosen. Problems with other paths are
            // determined below.
            Err(error) if error.kind() == io::ErrorKind::NotFound && error.get_ref().is_some() => {
                let what = format!("no single run at {}: {error}", path.display());
                return Err(Error::new(Kind::NotFound, what)
                    .hint("append the name of a run to the path: FILE/RUN"));
            }
            // `board list` reports the same for such a file.
            Err(error) if error.kind() != io::ErrorKind::NotFound && !path.is_dir() => {
                return Err(unreadable(path, &error.to_string()));
            }
            Ok(None) | Err(_) => {
                check(path)?;
                RunDir::alone(path)
            }
        };
        Ok(Self::read(
            dir,
            &RunKey::new(&name(path)),
            path.to_string_lossy().into_owned(),
            now,
        ))
    }

    /// Reads a run with this key.
    pub(super) fn read(dir: RunDir, key: &RunKey, path: String, now: i64) -> Self {
        let mut reader = RunReader::settling(dir.clone(), Duration::ZERO);
        let index = reader.read_whole();
        let writer = index
            .manifest()
            .get()
            .and_then(|manifest| Some((manifest.host.as_deref()?, manifest.pid?)));
        let process = writer.and_then(|(host, pid)| is_running(host, pid));
        let outside = ExternalFacts {
            now,
            written: dir.written(),
            process,
        };
        let summary = summary(key, path, &index, outside);
        // How long a silent run has been silent changes with time.
        let stamps = reader.stamps().filter(|_| summary.life.silence.is_none());
        Self {
            index,
            summary,
            dir,
            outside,
            stamps,
        }
    }

    /// Returns the run with these prices for estimating its cost.
    pub(super) fn priced(self, prices: &Arc<Prices>) -> Self {
        Self {
            summary: self.summary.priced(prices),
            ..self
        }
    }

    /// Returns the exit code of a command that explained the end of the run. A run that can't be
    /// read right now has no known end.
    pub(super) fn exit_code(&self) -> u8 {
        exit_code(&self.index)
    }

    /// Returns the view of the run that pages use.
    pub(super) fn view<'a>(&'a self, look: &'a Look) -> RunView<'a> {
        RunView {
            summary: &self.summary,
            index: &self.index,
            lines: self,
            now: look.now,
            stale: None,
            related_runs: &Vec::new,
            zone: &look.zone,
        }
    }

    /// Returns a copy of the run without its secrets, and its summary.
    ///
    /// # Errors
    /// The copy can't be written, or the files can no longer be read.
    pub(super) fn redacted(&self) -> Result<(RedactedRun, Summary)> {
        let failed = |error| {
            Error::new(Kind::Unreadable, "can't create a redacted copy of the run").because(error)
        };
        let copy = RedactedRun::of(&self.dir).map_err(failed)?;
        let summary = summary(
            &self.summary.key,
            self.summary.path.clone(),
            copy.index(),
            self.outside,
        );
        let prices = self.summary.prices.clone();
        let summary = Summary { prices, ..summary };
        Ok((copy, summary))
    }

    /// Returns the location of its records, if it shares a file with other runs.
    pub(super) fn shared_place(&self) -> Option<String> {
        Some(self.dir.shared_place()?.to_string_lossy().into_owned())
    }

    /// Returns the file with the records, if the run's format has only one.
    pub(super) fn only_file(&self) -> Option<String> {
        let file = self.dir.file(TraceFile::Events);
        let is_one = self.index.format().is_one_file();
        is_one.then(|| file.to_string_lossy().into_owned())
    }

    /// Returns whether its records are lines, whose numbers an editor knows.
    pub(super) fn has_lines(&self) -> bool {
        !self.dir.is_document()
    }

    /// Returns the run's display name: a directory's name, or a file's path as given, since many
    /// files have the same name.
    pub(super) fn name(&self) -> &str {
        if self.dir.tool().is_some() {
            &self.summary.path
        } else {
            self.summary.key.as_str()
        }
    }

    /// Returns an image that a step refers to, if it's inside the run directory.
    pub(super) fn asset(&self, recorded: &str) -> Option<Vec<u8>> {
        self.dir.read_asset(recorded).ok().map(|(_, bytes)| bytes)
    }

    /// Reads a line from disk.
    ///
    /// # Errors
    /// The file changed since it was indexed, or can't be read.
    pub(super) fn line(&self, file: TraceFile, span: Span) -> Result<Vec<u8>> {
        self.dir.line(|| &self.index, file, span).map_err(|error| {
            let path = self.dir.file(file);
            let place = format!("can't read byte {} of {}", span.offset, path.display());
            Error::new(Kind::Unreadable, format!("{place}: {error}"))
        })
    }

    /// Returns the text of the manifest, if it can be read.
    pub(super) fn manifest(&self) -> Option<Vec<u8>> {
        self.dir
            .read_all(TraceFile::Manifest, MAX_MANIFEST_BYTES)
            .ok()
    }
}

impl Lines for Opened {
    fn line(&self, file: TraceFile, span: Span) -> std::result::Result<Vec<u8>, String> {
        self.dir.line(|| &self.index, file, span)
    }

    fn manifest(&self) -> std::result::Result<Vec<u8>, String> {
        Self::manifest(self).ok_or_else(|| "the manifest can't be read".to_owned())
    }

    fn has_asset(&self, recorded: &str) -> std::result::Result<(), String> {
        self.dir
            .has_asset(recorded)
            .map_err(|error| error.to_string())
    }
}

fn exit_code(index: &Index) -> u8 {
    let error = index
        .away()
        .map(|away| Error::new(Kind::Unreadable, &*away.reason));
    error.map_or(0, |error| error.exit_code())
}

/// Returns the directory's own name, even if the path is `.` or ends in `..`.
fn name(path: &Path) -> String {
    let whole = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    whole
        .file_name()
        .map_or_else(|| path.to_string_lossy(), |name| name.to_string_lossy())
        .into_owned()
}

fn unreadable(path: &Path, reason: &str) -> Error {
    Error::new(
        Kind::Unreadable,
        format!("{} can't be read as a trace: {reason}", path.display()),
    )
}

fn check(path: &Path) -> Result<()> {
    let shown = path.display();
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(not_there(path)),
        Err(error) => {
            return Err(Error::new(Kind::Unreadable, format!("can't read {shown}")).because(error));
        }
    };
    if !metadata.is_dir() {
        if let Some(reason) = RunDir::why_skipped(path) {
            return Err(unreadable(path, &reason));
        }
        let what = format!("{shown} isn't a trace of a supported tool");
        let error = Error::new(Kind::NotFound, what);
        return Err(
            match path
                .parent()
                .filter(|parent| RunDir::alone(parent).has_files())
            {
                Some(parent) => {
                    error.hint(format!("the run is its directory: {}", parent.display()))
                }
                None => error.hint("`board list DIR` lists the runs in a directory"),
            },
        );
    }
    // Otherwise a directory that can't be listed would look like one without files.
    if let Err(error) = fs::read_dir(path) {
        return Err(Error::new(Kind::Unreadable, format!("can't read {shown}")).because(error));
    }
    if RunDir::alone(path).has_files() {
        return Ok(());
    }
    let (found, is_all) = RootScanner::new(path.to_owned()).scan_some(MAX_LOOKED);
    if !found.runs.is_empty() {
        return Err(several(
            path,
            found.runs.keys().map(RunKey::as_str).collect(),
            is_all,
        ));
    }
    if let Some(fault) = found.fault {
        return Err(Error::new(
            Kind::Unreadable,
            format!("can't read {shown}: {fault}"),
        ));
    }
    if !is_all {
        let most = count(MAX_LOOKED as u64);
        let what = format!(
            "{shown} isn't a run, and the first {most} files and directories below it contain none"
        );
        let error = Error::new(Kind::NotFound, what);
        return Err(error.hint(format!("`board list {shown}` searches all of them")));
    }
    let names = TraceFile::ALL.map(TraceFile::name).join(", no ");
    let what = format!("{shown} contains no runs: no {names}, and no trace of a supported tool");
    let mut reasons: Vec<_> = found.skipped_total.files.into_iter().collect();
    reasons.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let reasons = reasons.into_iter().take(MAX_NEAR);
    let error = reasons.fold(
        Error::new(Kind::NotFound, what),
        |error, (reason, files)| {
            error.hint(format!("{} skipped: {reason}", counted(files, "file")))
        },
    );
    Err(error)
}

/// Returns the error for a directory that contains runs but isn't one. `keys` are their paths below
/// it, or some of them.
fn several(path: &Path, mut keys: Vec<&str>, is_all: bool) -> Error {
    let shown = path.display();
    // Duplicates are known only once all of them are indexed.
    let runs = counted(keys.len(), "trace");
    let runs = if is_all {
        runs
    } else {
        format!("{runs} or more")
    };
    let what = format!("{shown} isn't a run, but contains {runs}");
    keys.sort_by_key(|key| key.matches('/').count());
    let near = keys
        .iter()
        .take(MAX_NEAR)
        .map(|key| path.join(key).display().to_string());
    let error = near.fold(Error::new(Kind::NotFound, what), |error, run| {
        error.hint(format!("try {run}"))
    });
    if keys.len() > MAX_NEAR || !is_all {
        error.hint(format!("`board list {shown}` lists all of them"))
    } else {
        error
    }
}

fn not_there(path: &Path) -> Error {
    let error = Error::new(
        Kind::NotFound,
        format!("there is no run at {}", path.display()),
    );
    let below = Path::new("runs").join(path);
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty() && parent.is_dir());
    match parent {
        _ if path.is_relative() && below.is_dir() => error.hint(format!("try {}", below.display())),
        Some(parent) => error.hint(format!(
            "`board list {}` lists the existing runs",
            parent.display()
        )),
        None => error.hint(
            "`board list` lists the runs in ./runs, `board list DIR` those in another directory",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Delta, Issue, IssueKind};

    #[test]
    fn a_run_that_cannot_be_read_right_now_exits_as_an_unreadable_one() {
        let with = |kind| {
            let reason = "can't be read right now: there is no space to decompress it".to_owned();
            let passing = vec![Issue {
                kind,
                file: TraceFile::Events,
                line: None,
                offset: None,
                reason,
            }];
            let mut index = Index::default();
            index.apply(Delta {
                passing,
                ..Delta::default()
            });
            exit_code(&index)
        };
        assert_eq!((with(IssueKind::Away), with(IssueKind::Torn)), (3, 0));
    }

    #[test]
    fn a_file_that_is_skipped_is_refused_for_the_reason_that_the_list_gives() {
        let root = tempfile::tempdir().unwrap();
        let window = [0x28, 0xb5, 0x2f, 0xfd, 0, (27 - 10) << 3, 1, 0, 0];
        fs::write(root.path().join("rollout-1.jsonl.zst"), window).unwrap();
        fs::write(
            root.path().join(".aider.chat.history.md"),
            "# aider chat started at 2026-01-01 00:00:00\n",
        )
        .unwrap();
        let found = RootScanner::new(root.path().to_owned()).scan();
        assert!(!found.skipped.is_empty(), "{found:?}");
        for skipped in &found.skipped {
            let error = Opened::open(&root.path().join(&skipped.path), 0).unwrap_err();
            assert!(
                error
                    .to_string()
                    .ends_with(&format!("can't be read as a trace: {}", skipped.reason)),
                "{error}"
            );
            assert_eq!(error.exit_code(), 3);
        }
    }
}
