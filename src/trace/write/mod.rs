//! Writes a trace to disk: whole lines in one write, and a rename for the manifest.
//!
//! If the process is killed, at most the current write is lost, and readers always find a complete
//! manifest. Knows neither the engine that calls it nor the reading half.

mod error;
mod file;
mod line;
mod manifest;
mod stamp;

use std::io;
use std::path::{Component, Path, PathBuf};

use jiff::Zoned;
use serde::Serialize;

pub use self::error::WriteError;
pub use self::file::RESERVE_FILE;
use self::file::{LineFile, Reserve};
pub use self::line::EventLine;
use self::manifest::{ManifestText, Now};
pub use self::manifest::{RunEnd, RunInfo, UNKNOWN_TIME};
use self::stamp::Stamper;
use super::whole::Beginning;
use crate::model::strict::{NonFinite, indented, write_json};
use crate::model::{MAX_LINE_BYTES, TraceFile};
use crate::{Error, Kind};

/// The longest run id in bytes. File systems allow 255 bytes in a name, and readers and exports
/// append something to it.
const MAX_RUN_ID_BYTES: usize = 200;
/// More bytes of events than this aren't held back.
const MAX_HELD_BYTES: usize = 64 << 10;
/// The manifest is refreshed when the lines' times have advanced by this much, in microseconds.
const REFRESH_MICROS: u64 = 1_000_000;

/// Writes one run: [`begin`](Self::begin), then events and steps in any order, then
/// [`finish`](Self::finish).
///
/// After a disk error, the writer can still be used. The files are as they were before the failed
/// record, and the reserved space is free for the last event and the last manifest.
#[derive(Debug)]
pub struct RunWriter {
    dir: PathBuf,
    run_id: String,
    info: RunInfo,
    stage: Stage,
    /// The lines before the first new one, and the directory they come from if it's another.
    kept: Option<(KeptSteps, Option<PathBuf>)>,
    /// `None` after the first failed write.
    reserve: Option<Reserve>,
    steps: u64,
    events: u64,
    next_step: Option<u64>,
    /// The time of the last manifest, in microseconds since the epoch.
    refreshed_at: i64,
    /// The time of the last line, in microseconds since the epoch.
    last_ts: i64,
    stamper: Stamper,
    altered: Vec<String>,
    /// The buffer for the current record.
    line: Vec<u8>,
    held: Held,
    /// Last, so that it's dropped after everything inside the directory.
    _made: Option<MadeDir>,
}

/// Lines of events that aren't written yet.
#[derive(Debug, Default)]
struct Held {
    lines: Vec<u8>,
    count: u64,
    /// The time of the last one, in microseconds since the epoch.
    ts: i64,
}

/// A directory that was created for the run. It's removed if nothing was written into it.
#[derive(Debug)]
struct MadeDir(PathBuf);

impl Drop for MadeDir {
    fn drop(&mut self) {
        // This fails if the directory isn't empty, and the directory then stays.
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[derive(Debug)]
enum Stage {
    Created,
    Begun(Files),
    Finished,
}

#[derive(Debug)]
struct Files {
    steps: LineFile,
    events: LineFile,
}

/// The part of an existing run that is kept when it's continued.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeptSteps {
    /// The part of `steps.jsonl`. The ids of these steps are their positions.
    pub steps: Beginning,
    /// The part of `events.jsonl`.
    pub events: Beginning,
}

fn cannot_create(dir: &Path, error: io::Error) -> Error {
    Error::new(
        Kind::Unreadable,
        format!("can't create the run directory {}", dir.display()),
    )
    .because(error)
}

impl RunWriter {
    /// Creates the run's directory below `root`, named after the run id. If the writer is dropped
    /// before anything is written, it removes the directory that it created.
    ///
    /// # Errors
    /// Fails if the id isn't a single plain directory name, if the directory already contains a
    /// trace, or if another writer has it. Also returns I/O errors.
    pub fn create(root: impl AsRef<Path>, run_id: &str) -> crate::Result<Self> {
        if let Some(fault) = id_fault(run_id) {
            let message = format!("run id {run_id:?} can't be a directory name: {fault}");
            return Err(
                Error::new(Kind::Usage, message).hint("use letters, digits, '-', '_' and '.'")
            );
        }
        let dir = root.as_ref().join(run_id);
        let create = || {
            std::fs::create_dir_all(root.as_ref())?;
            match std::fs::create_dir(&dir) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {
                    Ok(None)
                }
                made => made.map(|()| Some(MadeDir(dir.clone()))),
            }
        };
        let made = create().map_err(|error| cannot_create(&dir, error))?;
        let taken = |file: &TraceFile| std::fs::symlink_metadata(dir.join(file.name())).is_ok();
        if TraceFile::ALL.iter().any(taken) {
            let message = format!("{} already contains a trace", dir.display());
            let error = Error::new(Kind::Usage, message).hint("give the run another name");
            return Err(
                error.hint("to continue that run in a program, open it with `Earlier::open`")
            );
        }
        // The reserve's file is created exclusively, so only one of two concurrent callers gets the
        // name.
        let reserve = Reserve::take(&dir).map_err(|error| {
            let message = format!("can't reserve disk space in {}", dir.display());
            let hint = "if another program is writing this run, give the run another name";
            Error::new(Kind::Unreadable, message)
                .because(error)
                .hint(hint)
        })?;
        Ok(Self {
            _made: made,
            ..Self::new(dir, run_id.to_owned(), Some(reserve))
        })
    }

    /// Creates the run's directory under the first of these names below `root` that isn't taken.
    /// Concurrent callers get distinct names.
    ///
    /// # Errors
    /// Fails if all names are taken. Also returns I/O errors.
    pub fn create_first(
        root: impl AsRef<Path>,
        names: impl IntoIterator<Item = String>,
    ) -> crate::Result<Self> {
        let root = root.as_ref();
        std::fs::create_dir_all(root).map_err(|error| cannot_create(root, error))?;
        for name in names.into_iter().filter(|name| id_fault(name).is_none()) {
            let dir = root.join(&name);
            // Creating the directory decides who gets it. A check beforehand would be a race.
            match std::fs::create_dir(&dir) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(cannot_create(&dir, error)),
                Ok(()) => {
                    let made = MadeDir(dir.clone());
                    match Reserve::take(&dir) {
                        Ok(reserve) => {
                            return Ok(Self {
                                _made: Some(made),
                                ..Self::new(dir, name, Some(reserve))
                            });
                        }
                        // Another writer was asked for this very name.
                        Err(_) if dir.join(RESERVE_FILE).exists() => {}
                        Err(error) => {
                            let message = format!("can't reserve disk space in {}", dir.display());
                            return Err(Error::new(Kind::Unreadable, message).because(error));
                        }
                    }
                }
            }
        }
        Err(Error::new(
            Kind::Usage,
            format!("every name for the run is taken in {}", root.display()),
        ))
    }

    /// Creates the run's directory below `root`, named after the agent and the time.
    ///
    /// # Errors
    /// Fails like [`create_first`](Self::create_first).
    pub(crate) fn create_dated(
        root: impl AsRef<Path>,
        agent: &str,
        now: &Zoned,
    ) -> crate::Result<Self> {
        let plain = |letter: char| {
            if letter.is_ascii_alphanumeric() || "-_.".contains(letter) {
                letter
            } else {
                '-'
            }
        };
        let agent: String = agent
            .trim_start_matches('.')
            .chars()
            .take(60)
            .map(plain)
            .collect();
        let agent = if agent.is_empty() { "run" } else { &agent };
        let name = format!("{agent}-{}", now.strftime("%Y%m%d-%H%M%S"));
        // Several runs of one agent may begin in the same second.
        let more = (2..100).map(|n| format!("{name}-{n}"));
        Self::create_first(root, std::iter::once(name.clone()).chain(more))
    }

    /// Takes over a run's directory to continue the run, and keeps it locked. Nothing else is
    /// modified before [`begin`](Self::begin). `is_alive` returns whether the process that wrote
    /// the run still exists, and is called if the file system doesn't support locks.
    ///
    /// # Errors
    /// Fails if another process is writing the run. Also returns I/O errors.
    pub fn reopen(dir: &Path, is_alive: impl FnOnce() -> bool) -> crate::Result<Self> {
        let cannot = || format!("can't continue {}", dir.display());
        let dir = dir
            .canonicalize()
            .map_err(|error| Error::new(Kind::Unreadable, cannot()).because(error))?;
        let name = dir
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let reserve = Reserve::take_over(&dir, is_alive)
            .map_err(|error| Error::new(Kind::Unreadable, cannot()).because(error))?;
        let alive = || {
            let error = Error::new(Kind::Unreadable, cannot())
                .because(io::Error::other("another process is writing it"));
            error.hint("wait until the run ends, or stop it")
        };
        Ok(Self::new(dir, name, Some(reserve.ok_or_else(alive)?)))
    }

    fn new(dir: PathBuf, run_id: String, reserve: Option<Reserve>) -> Self {
        Self {
            dir,
            run_id,
            info: RunInfo::default(),
            stage: Stage::Created,
            kept: None,
            reserve,
            steps: 0,
            events: 0,
            next_step: None,
            refreshed_at: 0,
            last_ts: 0,
            stamper: Stamper::default(),
            altered: Vec::new(),
            line: Vec::new(),
            held: Held::default(),
            _made: None,
        }
    }

    /// Sets the lines that precede the first new one. In the run's own directory, `begin` truncates
    /// the rest. From another directory, it copies them.
    #[must_use]
    pub fn keeping(mut self, kept: KeptSteps, of: Option<&Path>) -> Self {
        self.kept = Some((kept, of.map(Path::to_owned)));
        self
    }

    /// Returns the run's name.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// Returns the run's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the numbers of steps and events written.
    pub fn counts(&self) -> (u64, u64) {
        (self.steps, self.events)
    }

    /// Writes the first manifest with status `running`, so that a viewer sees the run before its
    /// first step.
    ///
    /// # Errors
    /// Fails if the run has already begun, or another writer has taken the directory meanwhile.
    /// Also returns the other errors in [`WriteError`].
    pub fn begin(&mut self, info: RunInfo) -> Result<(), WriteError> {
        if !matches!(self.stage, Stage::Created) {
            return Err(WriteError::OutOfTurn("the run has already begun"));
        }
        // The reserve comes first. It's created exclusively, so the second of two writers stops
        // here.
        let reserve = match self.reserve.take() {
            Some(reserve) => reserve,
            None => Reserve::take(&self.dir)?,
        };
        let files = match &self.kept {
            None => Files {
                steps: LineFile::create(&self.dir, TraceFile::Steps)?,
                events: LineFile::create(&self.dir, TraceFile::Events)?,
            },
            Some((kept, None)) => Files {
                steps: LineFile::go_on(&self.dir, TraceFile::Steps, kept.steps)?,
                events: LineFile::go_on(&self.dir, TraceFile::Events, kept.events)?,
            },
            Some((kept, Some(of))) => Files {
                steps: LineFile::copy(&self.dir, TraceFile::Steps, of, kept.steps)?,
                events: LineFile::copy(&self.dir, TraceFile::Events, of, kept.events)?,
            },
        };
        if let Some((kept, _)) = &self.kept {
            (self.steps, self.events, self.next_step) =
                (kept.steps.lines, kept.events.lines, Some(kept.steps.lines));
        }
        self.reserve = Some(reserve);
        self.last_ts = info.started_at;
        self.info = info;
        self.write_manifest(self.last_ts, None)?;
        self.stage = Stage::Begun(files);
        Ok(())
    }

    /// Appends one event.
    ///
    /// # Errors
    /// Returns the errors in [`WriteError`]. If only the manifest couldn't be refreshed, the event
    /// is written.
    pub fn event<P: Serialize>(&mut self, event: &EventLine<'_, P>) -> Result<(), WriteError> {
        self.flush()?;
        self.hold(event)?;
        self.flush()
    }

    /// Prepares one event, which is written with the next [`flush`](Self::flush), step or other
    /// event. Events that follow each other within microseconds need only one write.
    ///
    /// # Errors
    /// Returns the errors in [`WriteError`].
    pub(crate) fn hold<P: Serialize>(
        &mut self,
        event: &EventLine<'_, P>,
    ) -> Result<(), WriteError> {
        let record = || format!("event {} of step {}", event.phase, event.step_id);
        self.line.clear();
        line::event(event, &mut self.stamper, &mut self.line).map_err(|source| {
            WriteError::NotJson {
                record: record(),
                source,
            }
        })?;
        self.end_line(record)?;
        self.held.lines.extend_from_slice(&self.line);
        self.held.count += 1;
        self.held.ts = event.ts;
        if self.held.lines.len() > MAX_HELD_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes the prepared events.
    ///
    /// # Errors
    /// Returns the errors in [`WriteError`]. After a disk error, none of these events is in the
    /// file, and they aren't tried again. If only the manifest couldn't be refreshed, they are
    /// written.
    pub(crate) fn flush(&mut self) -> Result<(), WriteError> {
        if self.held.count == 0 {
            return Ok(());
        }
        let mut held = std::mem::take(&mut self.held);
        let written = self
            .files()
            .and_then(|files| files.events.append(&held.lines));
        if written.is_ok() {
            self.events += held.count;
        }
        // Keeps the memory of its buffer.
        held.lines.clear();
        self.held.lines = held.lines;
        self.freeing_the_reserve(written)?;
        self.refresh(held.ts)
    }

    /// Appends one step. `line` is the whole object, including its `step_id`. `ts` is when the step
    /// ended, in microseconds since the epoch.
    ///
    /// # Errors
    /// Fails if the id doesn't follow the previous one. Also returns the other errors in
    /// [`WriteError`]. If only the manifest couldn't be refreshed, the step is written.
    pub fn step<L: Serialize + ?Sized>(
        &mut self,
        step_id: u64,
        ts: i64,
        line: &L,
    ) -> Result<(), WriteError> {
        let record = || format!("step {step_id}");
        if let Some(expected) = self.next_step.filter(|expected| *expected != step_id) {
            return Err(WriteError::StepOrder {
                expected,
                got: step_id,
            });
        }
        // The events of a step precede its line, so that a line is there only if they are.
        self.flush()?;
        self.line.clear();
        write_json(line, NonFinite::Refuse, &mut self.line).map_err(|source| {
            WriteError::NotJson {
                record: record(),
                source,
            }
        })?;
        self.end_line(record)?;
        let line = std::mem::take(&mut self.line);
        let written = self.files().and_then(|files| files.steps.append(&line));
        self.line = line;
        self.freeing_the_reserve(written)?;
        self.steps += 1;
        self.next_step = step_id.checked_add(1);
        self.refresh(ts)
    }

    /// Returns how the files differ from what was written, one sentence each. Known once the run is
    /// finished.
    pub fn altered(&self) -> &[String] {
        &self.altered
    }

    /// Checks that the files contain what was written, writes the last manifest, and closes the
    /// files. May be called again after a disk error.
    ///
    /// # Errors
    /// Fails if the run hasn't begun or is already finished. Also returns the other errors in
    /// [`WriteError`].
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a run ends once, and callers that still need the value can clone it"
    )]
    pub fn finish(&mut self, end: RunEnd) -> Result<(), WriteError> {
        let files = self.files()?;
        self.altered = [&files.steps, &files.events]
            .into_iter()
            .filter_map(LineFile::altered)
            .collect();
        let at = end.ended_at.unwrap_or(self.last_ts);
        // The first try may be the write that finds the disk full and frees the reserve.
        let had_reserve = self.reserve.is_some();
        let written = match self.write_manifest(at, Some(&end)) {
            Err(WriteError::Io { .. }) if had_reserve => self.write_manifest(at, Some(&end)),
            written => written,
        };
        self.reserve = None;
        written?;
        self.stage = Stage::Finished;
        Ok(())
    }

    fn files(&mut self) -> Result<&mut Files, WriteError> {
        match &mut self.stage {
            Stage::Begun(files) => Ok(files),
            Stage::Created => Err(WriteError::OutOfTurn("the run has not begun")),
            Stage::Finished => Err(WriteError::OutOfTurn("the run is finished")),
        }
    }

    /// Terminates the record in `self.line`.
    fn end_line(&mut self, record: impl FnOnce() -> String) -> Result<(), WriteError> {
        self.files()?;
        line::end(&mut self.line);
        let bytes = self.line.len() as u64 - 1;
        if bytes > MAX_LINE_BYTES {
            return Err(WriteError::TooLong {
                record: record(),
                bytes,
            });
        }
        Ok(())
    }

    /// Rewrites the manifest if the last one is old enough.
    fn refresh(&mut self, ts: i64) -> Result<(), WriteError> {
        self.last_ts = ts;
        // The absolute difference, so that a clock that was set back doesn't stop the refreshes.
        if ts.abs_diff(self.refreshed_at) < REFRESH_MICROS {
            return Ok(());
        }
        self.write_manifest(ts, None)
    }

    fn write_manifest(&mut self, at: i64, end: Option<&RunEnd>) -> Result<(), WriteError> {
        let not_json = |source| WriteError::NotJson {
            record: "the manifest".to_owned(),
            source,
        };
        // A time that can't be expressed is unknown. It's no reason not to write the rest.
        let (started_at, updated_at) = (
            self.stamper.text(self.info.started_at),
            self.stamper.text(at),
        );
        let now = Now {
            run_id: &self.run_id,
            started_at: started_at.as_deref(),
            updated_at: updated_at.as_deref(),
            steps: self.steps,
            events: self.events,
            altered: &self.altered,
        };
        self.line.clear();
        let text = ManifestText::new(now, &self.info, end);
        write_json(&text, NonFinite::Refuse, &mut self.line).map_err(not_json)?;
        self.line = indented(&self.line);
        self.refreshed_at = at;
        let written = file::replace_manifest(&self.dir, &self.line);
        self.freeing_the_reserve(written)
    }

    fn freeing_the_reserve<T>(&mut self, written: Result<T, WriteError>) -> Result<T, WriteError> {
        written.inspect_err(|error| {
            if matches!(error, WriteError::Io { .. }) {
                self.reserve = None;
            }
        })
    }
}

/// Returns why `run_id` isn't a single plain directory name, if it isn't.
fn id_fault(run_id: &str) -> Option<&'static str> {
    let mut parts = Path::new(run_id).components();
    let plain = matches!((parts.next(), parts.next()), (Some(Component::Normal(name)), None) if name == run_id);
    if run_id.is_empty() {
        Some("it is empty")
    } else if run_id.len() > MAX_RUN_ID_BYTES {
        Some("it is longer than 200 bytes")
    } else if run_id.starts_with('.') {
        Some("it begins with a dot")
    } else if run_id.contains(['/', '\\']) || run_id.contains(char::is_control) || !plain {
        Some("it contains a separator or a control character")
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
