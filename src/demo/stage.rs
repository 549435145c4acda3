//! Where is a scenario played? On a clock, a seed and a temporary directory of its own, into a run directory.

use std::cell::Cell;
use std::ffi::OsString;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use super::Options;
use crate::engine::{
    Agent, Builder, Cancel, Clock, Process, SPLITMIX_STEP, Stepping, SystemClock, Task, splitmix64,
};
use crate::error::{Error, Kind, Result};
use crate::tools::{RunCommand, Workspace};
use crate::trace::RunWriter;

/// 2026-01-05T09:00:00Z, in microseconds since the epoch.
const START_US: i64 = 1_767_603_600_000_000;
const HOUR_US: i64 = 3_600_000_000;
/// What each look at the clock takes.
const TICK: Duration = Duration::from_micros(1_700);

/// What a scenario is played with.
pub(super) struct Stage {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) dice: Dice,
    /// The seed of this scenario.
    pub(super) seed: u64,
    pub(super) cancel: Cancel,
    /// Called where the process is to be killed.
    pub(super) before_crash: Arc<dyn Fn() + Send + Sync>,
    options: Options,
    name: &'static str,
    /// The files of the task; gone with the stage.
    desk: TempDir,
}

/// A run that is ready to be played; gives what is wrong with its trace.
pub(super) type Run = Pin<Box<dyn Future<Output = Option<String>>>>;

impl Stage {
    /// Sets the scenario up that has this place in the list.
    pub(super) fn new(name: &'static str, place: i64, options: &Options) -> Result<Self> {
        let desk = tempfile::tempdir().map_err(|error| {
            Error::new(
                Kind::Unreadable,
                "cannot make a temporary directory for the files of a scenario",
            )
            .because(error)
        })?;
        let clock: Arc<dyn Clock> = if options.live {
            Arc::new(SystemClock::start())
        } else {
            Arc::new(Stepping::new(
                START_US.saturating_add(place.saturating_mul(HOUR_US)),
                TICK,
            ))
        };
        // Scenarios shall not all draw the same numbers.
        let seed = name.bytes().fold(options.seed, |seed, byte| {
            seed.rotate_left(7) ^ u64::from(byte)
        });
        Ok(Self {
            clock,
            dice: Dice::new(seed),
            seed,
            cancel: options.cancel.clone(),
            before_crash: Arc::clone(&options.before_crash),
            options: options.clone(),
            name,
            desk,
        })
    }

    /// Puts a file among the task's.
    pub(super) fn file(&self, path: &str, text: &str) -> Result<()> {
        let whole = self.desk.path().join(path);
        let written = whole.parent().map_or(Ok(()), std::fs::create_dir_all);
        written
            .and_then(|()| std::fs::write(&whole, text))
            .map_err(|error| {
                Error::new(
                    Kind::Unreadable,
                    format!("cannot write {}", whole.display()),
                )
                .because(error)
            })
    }

    /// The directory of the task's files, for tools.
    pub(super) fn workspace(&self) -> Result<Workspace> {
        Workspace::open(self.desk.path())
    }

    /// A shell in that directory. Its language is fixed, since messages are part of the trace.
    pub(super) fn shell(&self) -> Result<RunCommand> {
        let mut environment = vec![(OsString::from("LC_ALL"), OsString::from("C"))];
        environment.extend(
            self.options
                .path
                .clone()
                .map(|path| (OsString::from("PATH"), path)),
        );
        Ok(RunCommand::new(self.workspace()?).environment(environment))
    }

    /// Sets an engine to work on a task.
    pub(super) fn play<A: Agent + 'static>(&self, engine: Builder<A>, task: Task) -> Result<Run> {
        let process = self.options.live.then(Process::this);
        let writer = RunWriter::create(
            &self.options.root,
            self.options.run_id.as_deref().unwrap_or(self.name),
        )?;
        let engine = engine
            .workspace(self.desk.path())
            .seed(self.options.seed)
            .process(process)
            .record(writer);
        let engine = engine
            .clock(Arc::clone(&self.clock))
            .cancel(self.cancel.clone())
            .build()?;
        Ok(Box::pin(async move { engine.run(task).await.trace_error }))
    }
}

/// Numbers that look random and are the same for the same seed (SplitMix64).
#[derive(Debug)]
pub(super) struct Dice(Cell<u64>);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(Cell::new(seed))
    }

    fn roll(&self) -> u64 {
        let seed = self.0.get();
        self.0.set(seed.wrapping_add(SPLITMIX_STEP));
        splitmix64(seed)
    }

    /// A number from `low` to `high`, both included.
    pub(super) fn between(&self, low: u64, high: u64) -> u64 {
        low + self.roll() % (high.saturating_sub(low) + 1)
    }

    /// One of several.
    pub(super) fn pick<T: Copy>(&self, of: &[T], otherwise: T) -> T {
        let at = self.between(0, (of.len() as u64).saturating_sub(1));
        usize::try_from(at)
            .ok()
            .and_then(|at| of.get(at))
            .copied()
            .unwrap_or(otherwise)
    }
}
