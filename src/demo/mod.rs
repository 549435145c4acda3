//! What does a run look like? Agents that play one, without a model.
//!
//! Knows the engine and what attaches to it, and the writer of traces; only the command line knows of it. A scenario is
//! played on a clock that steps, with a seed and without a process, so that its run is the same each time, byte for byte.
//! Live, it is played in real time.

mod cast;
mod coding;
mod stage;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use self::stage::{Run, Stage};
use crate::engine::Cancel;
use crate::error::{Error, Kind, Result};

/// The seed of `sample_runs`.
pub const DEFAULT_SEED: u64 = 7;

/// The scenario that is killed from outside.
pub const CRASH: &str = "crash";

/// A story that leaves a run.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Its name, which is the run's.
    pub name: &'static str,
    /// What it shows, in one line.
    pub about: &'static str,
    set: fn(&mut Stage) -> Result<Run>,
}

/// Every scenario, in the order of their times.
pub const SCENARIOS: &[Scenario] = &[scenario(
    "fix_bug",
    "a coding agent runs tests, finds two faults and repairs them; two critics score",
    coding::fix_bug,
)];

const fn scenario(name: &'static str, about: &'static str, set: fn(&mut Stage) -> Result<Run>) -> Scenario {
    Scenario { name, about, set }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// How scenarios are played.
#[derive(Clone)]
pub struct Options {
    /// The directory that gets a directory for each run.
    pub root: PathBuf,
    /// What the data of the scenarios is drawn from.
    pub seed: u64,
    /// In real time, with this process in the manifest.
    pub live: bool,
    /// Where commands look for programs; the system's own list, if nobody says.
    pub path: Option<OsString>,
    /// The run's name; the scenario's, if nobody says.
    pub run_id: Option<String>,
    /// Ends the run from outside.
    pub cancel: Cancel,
    /// Called where [`CRASH`] waits to be killed, everything before being on disk.
    pub at_the_brink: Arc<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { root, seed, live, .. } = self;
        f.debug_struct("Options").field("root", root).field("seed", seed).field("live", live).finish_non_exhaustive()
    }
}

impl Options {
    /// Plays into `root` with the seed of the sample runs.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            seed: DEFAULT_SEED,
            live: false,
            path: None,
            run_id: None,
            cancel: Cancel::new(),
            at_the_brink: Arc::new(|| ()),
        }
    }
}

impl Scenario {
    /// The scenario of that name.
    ///
    /// # Errors
    /// There is none; the hint names those that there are.
    pub fn named(name: &str) -> Result<Self> {
        SCENARIOS.iter().find(|scenario| scenario.name == name).copied().ok_or_else(|| {
            let names: Vec<_> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
            Error::new(Kind::Usage, format!("there is no scenario {name:?}"))
                .hint(format!("there are {}", names.join(", ")))
        })
    }

    /// Plays it to its end.
    ///
    /// # Errors
    /// Its directory holds a trace already; what it needs cannot be made; its trace could not be written. However the
    /// run itself ends, it is none.
    pub async fn play(&self, options: &Options) -> Result<()> {
        let place = SCENARIOS.iter().position(|scenario| scenario.name == self.name).unwrap_or_default();
        let mut stage = Stage::new(self.name, i64::try_from(place).unwrap_or_default(), options)?;
        let run = (self.set)(&mut stage)?;
        match run.await {
            None => Ok(()),
            Some(wrong) => Err(Error::new(Kind::Unreadable, format!("the run {} is not whole: {wrong}", self.name))),
        }
    }
}
