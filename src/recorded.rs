//! Reads one recorded run and explains why it ended. This is where programs begin that use the
//! library on recorded runs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::analysis::format::{count, counted};
use crate::analysis::life::ExternalFacts;
use crate::analysis::summary::{Summary, summary};
use crate::analysis::why::why;
use crate::error::{Error, Kind, Result};
use crate::model::price::Prices;
use crate::model::redact::without_private;
use crate::model::{InFile, Index, Lines, RunKey, Span, TraceFile};
use crate::trace::{
    MAX_MANIFEST_BYTES, RedactedRun, RootScanner, RunDir, RunReader, Stamps, is_running,
};

pub use crate::analysis::why::{Evidence, RuleStatus, Standing, Trouble, Why};

/// The maximum number of runs suggested for a directory that isn't a run itself.
const MAX_NEAR: usize = 3;
/// The maximum number of directories and files searched for such runs, since it's only a hint.
const MAX_LOOKED: usize = 1_000;

/// A run that was read once, completely.
#[derive(Debug)]
pub struct RecordedRun {
    pub(crate) index: Index,
    pub(crate) summary: Summary,
    dir: RunDir,
    outside: ExternalFacts,
    /// The state of its files, if a new reading would give the same result until one of them
    /// changes.
    pub(crate) stamps: Option<Stamps>,
}

impl RecordedRun {
    /// Reads the run at `path`: a run directory, a trace file of any supported tool, or `FILE/RUN`
    /// for a file that contains several runs.
    ///
    /// # Errors
    /// `path` doesn't exist, isn't a single run, or can't be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_at(path.as_ref(), Timestamp::now().as_microsecond())
    }

    /// Explains why the run ended, with the evidence and the result of each stop rule.
    pub fn why(&self) -> Why {
        why(&self.summary, &self.index, self)
    }

    /// Returns the run's steps, events, stops and issues.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Like [`Self::open`], at the time `now` in microseconds. How long a silent run has been
    /// silent depends on it.
    pub(crate) fn open_at(path: &Path, now: i64) -> Result<Self> {
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
    pub(crate) fn read(dir: RunDir, key: &RunKey, path: String, now: i64) -> Self {
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
    pub(crate) fn priced(self, prices: &Arc<Prices>) -> Self {
        Self {
            summary: self.summary.priced(prices),
            ..self
        }
    }

    /// Returns a copy of the run without its secrets, and its summary.
    ///
    /// # Errors
    /// The copy can't be written, or the files can no longer be read.
    pub(crate) fn redacted(&self) -> Result<(RedactedRun, Summary)> {
        let failed = |error| {
            Error::new(Kind::Unreadable, "can't create a redacted copy of the run").because(error)
        };
        let copy = RedactedRun::of(&self.dir).map_err(failed)?;
        let summary = summary(
            &RunKey::new(&without_private(self.summary.key.as_str())),
            without_private(&self.summary.path),
            copy.index(),
            self.outside,
        );
        let prices = self.summary.prices.clone();
        let summary = Summary { prices, ..summary };
        Ok((copy, summary))
    }

    /// Returns the location of its records, if it shares a file with other runs.
    pub(crate) fn shared_place(&self) -> Option<String> {
        Some(self.dir.shared_place()?.to_string_lossy().into_owned())
    }

    /// Returns the file with the records, if the run's format has only one.
    pub(crate) fn only_file(&self) -> Option<String> {
        let file = self.dir.file(TraceFile::Events);
        let is_one = self.index.format().is_one_file();
        is_one.then(|| file.to_string_lossy().into_owned())
    }

    /// Returns whether its records are lines, whose numbers an editor knows.
    pub(crate) fn has_lines(&self) -> bool {
        !self.dir.is_document()
    }

    /// Returns the run's display name: a directory's name, or a file's path as given, since many
    /// files have the same name.
    pub(crate) fn name(&self) -> &str {
        if self.dir.tool().is_some() {
            &self.summary.path
        } else {
            self.summary.key.as_str()
        }
    }

    /// Returns an image that a step refers to, if it's inside the run directory.
    pub(crate) fn asset(&self, recorded: &str) -> Option<Vec<u8>> {
        self.dir.read_asset(recorded).ok().map(|(_, bytes)| bytes)
    }

    /// Reads a line from disk.
    ///
    /// # Errors
    /// The file changed since it was indexed, or can't be read.
    pub(crate) fn line(&self, file: TraceFile, span: Span) -> Result<Vec<u8>> {
        self.dir.line(|| &self.index, file, span).map_err(|error| {
            let path = self.dir.file(file);
            let place = format!("can't read byte {} of {}", span.offset, path.display());
            Error::new(Kind::Unreadable, format!("{place}: {error}"))
        })
    }

    /// Returns the text of the manifest, if it can be read.
    pub(crate) fn manifest(&self) -> Option<Vec<u8>> {
        self.dir
            .read_all(TraceFile::Manifest, MAX_MANIFEST_BYTES)
            .ok()
    }
}

impl Lines for RecordedRun {
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

    fn in_file(&self) -> Option<InFile> {
        self.dir.in_file()
    }
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
        let runs = found.runs.values().map(RunDir::shown).collect();
        return Err(several(path, runs, is_all));
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
    let reasons: Vec<_> = reasons
        .into_iter()
        .take(MAX_NEAR)
        .map(|(reason, files)| format!("{} skipped, {reason}", counted(files, "file")))
        .collect();
    let error = Error::new(Kind::NotFound, what);
    Err(match reasons.is_empty() {
        true => error,
        false => error.because(io::Error::other(reasons.join("; "))),
    })
}

/// Returns the error for a directory that contains runs but isn't one. `found` are the paths of
/// some or all of them.
fn several(path: &Path, mut found: Vec<PathBuf>, is_all: bool) -> Error {
    let shown = path.display();
    // How many of them are duplicates is known only once all of them are indexed.
    let runs = if is_all && found.len() == 1 {
        "one"
    } else {
        "runs"
    };
    let what = format!("{shown} isn't a run, but contains {runs}");
    found.sort_by(|a, b| (a.iter().count(), a).cmp(&(b.iter().count(), b)));
    let near = found.iter().take(MAX_NEAR);
    let error = near.fold(Error::new(Kind::NotFound, what), |error, run| {
        error.hint(format!("try {}", run.display()))
    });
    if found.len() > MAX_NEAR || !is_all {
        error.hint(format!("`board list {shown}` lists all of them"))
    } else {
        error
    }
}

/// Returns the error for a path at which there is nothing.
pub(crate) fn not_there(path: &Path) -> Error {
    let error = Error::new(
        Kind::NotFound,
        format!("there is no run at {}", path.display()),
    );
    let below = Path::new("runs").join(path);
    let parent = path
        .parent()
        // To list the whole disk would take long.
        .filter(|parent| !parent.as_os_str().is_empty() && parent.parent().is_some())
        .filter(|parent| parent.is_dir());
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

    #[test]
    fn a_file_that_is_skipped_is_refused_for_the_reason_that_the_list_gives() {
        let root = tempfile::tempdir().unwrap();
        let window = [0x28, 0xb5, 0x2f, 0xfd, 0, (27 - 10) << 3, 1, 0, 0];
        fs::write(root.path().join("rollout-1.jsonl.zst"), window).unwrap();
        fs::write(root.path().join("crush.db"), "SQLite format 3\0").unwrap();
        let found = RootScanner::new(root.path().to_owned()).scan();
        assert!(!found.skipped.is_empty(), "{found:?}");
        for skipped in &found.skipped {
            let error = RecordedRun::open(root.path().join(&skipped.path)).unwrap_err();
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
