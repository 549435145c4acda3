//! The setting of a scenario: its own clock, seed and temporary directory, and the run directory to
//! write.

use std::cell::Cell;
use std::ffi::OsString;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use trace_board::engine::{Agent, Builder, Cancel, Clock, Stepping, Task};
use trace_board::error::Result;
use trace_board::tools::{RunCommand, Workspace};
use trace_board::trace::RunWriter;

/// Base seed of the scenarios' data.
const SEED: u64 = 7;

/// 2026-01-05T09:00:00Z, in microseconds since the epoch.
const START_US: i64 = 1_767_603_600_000_000;
const HOUR_US: i64 = 3_600_000_000;
/// How far the clock advances each time it's read.
const TICK: Duration = Duration::from_micros(1_700);

/// Everything that a scenario uses.
pub(super) struct Stage {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) dice: Dice,
    pub(super) seed: u64,
    pub(super) cancel: Cancel,
    /// The directory that receives one run directory per scenario.
    root: PathBuf,
    name: &'static str,
    /// The task's files; deleted with the stage.
    desk: TempDir,
}

/// A run that is ready to start. Resolves to the trace error, if any.
pub(super) type Run = Pin<Box<dyn Future<Output = Option<String>>>>;

impl Stage {
    /// Sets up the scenario at index `place` in the list.
    pub(super) fn new(name: &'static str, place: usize, root: &Path) -> Self {
        let start = START_US + i64::try_from(place).unwrap() * HOUR_US;
        // Gives each scenario different numbers.
        let seed = name
            .bytes()
            .fold(SEED, |seed, byte| seed.rotate_left(7) ^ u64::from(byte));
        Self {
            clock: Arc::new(Stepping::new(start, TICK)),
            dice: Dice::new(seed),
            seed,
            cancel: Cancel::new(),
            root: root.to_owned(),
            name,
            desk: tempfile::tempdir().unwrap(),
        }
    }

    /// Adds a file for the task.
    pub(super) fn file(&self, path: &str, text: &str) {
        let whole = self.desk.path().join(path);
        std::fs::create_dir_all(whole.parent().unwrap()).unwrap();
        std::fs::write(&whole, text).unwrap();
    }

    /// Opens the directory of the task's files, for tools.
    pub(super) fn workspace(&self) -> Result<Workspace> {
        Workspace::open(self.desk.path())
    }

    /// A shell in that directory. Its locale is fixed, because messages are part of the trace.
    pub(super) fn shell(&self) -> Result<RunCommand> {
        let mut environment = vec![(OsString::from("LC_ALL"), OsString::from("C"))];
        environment.extend(std::env::var_os("PATH").map(|path| (OsString::from("PATH"), path)));
        Ok(RunCommand::new(self.workspace()?).environment(environment))
    }

    /// Makes the run of an engine on a task.
    pub(super) fn play<A: Agent + 'static>(&self, engine: Builder<A>, task: Task) -> Result<Run> {
        let writer = RunWriter::create(&self.root, self.name)?;
        let engine = engine
            .workspace(self.desk.path())
            .seed(SEED)
            .record_process(false)
            .record(writer);
        let engine = engine
            .clock(Arc::clone(&self.clock))
            .cancel(self.cancel.clone())
            .build()?;
        Ok(Box::pin(async move { engine.run(task).await.trace_error }))
    }
}

/// Deterministic pseudorandom numbers (SplitMix64).
#[derive(Debug)]
pub(super) struct Dice(Cell<u64>);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(Cell::new(seed))
    }

    fn roll(&self) -> u64 {
        let seed = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(seed);
        let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from `low` to `high`, inclusive.
    pub(super) fn between(&self, low: u64, high: u64) -> u64 {
        low + self.roll() % (high.saturating_sub(low) + 1)
    }

    /// Picks one of `of`, or `otherwise` if it's empty.
    pub(super) fn pick<T: Copy>(&self, of: &[T], otherwise: T) -> T {
        let at = self.between(0, (of.len() as u64).saturating_sub(1));
        usize::try_from(at)
            .ok()
            .and_then(|at| of.get(at))
            .copied()
            .unwrap_or(otherwise)
    }
}
