//! What does a run look like? Agents that play one, without a model.
//!
//! Knows the engine and what attaches to it, and the writer of traces; only the command line knows of it. A scenario is
//! played on a clock that steps, with a seed and without a process, so that its run is the same each time, byte for byte.
//! Live, it is played in real time.

mod cast;
mod coding;
mod critics;
mod endings;
mod limits;
mod long;
mod models;
mod odd;
mod planning;
mod research;
mod stage;
mod worlds;

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
    set: fn(&Stage) -> Result<Run>,
}

/// Every scenario, in the order of their times.
pub const SCENARIOS: &[Scenario] = &[
    scenario(
        "fix_bug",
        "a coding agent runs tests, finds two faults and repairs them; two critics score",
        coding::fix_bug,
    ),
    scenario(
        "research",
        "evidence with citations in nested state; the answer has to be JSON",
        research::research,
    ),
    scenario(
        "plan",
        "a plan whose items have states; the agent stops when all are done",
        planning::plan,
    ),
    scenario(
        "final",
        "a command, then an answer: final",
        endings::final_answer,
    ),
    scenario(
        "success",
        "an answer with the word that was asked for: success",
        research::success,
    ),
    scenario(
        "budget_steps",
        "a task's six steps are not enough",
        limits::budget_steps,
    ),
    scenario(
        "budget_time",
        "a slow tool uses up the time",
        limits::budget_time,
    ),
    scenario(
        "budget_tokens",
        "a model uses up the tokens",
        limits::budget_tokens,
    ),
    scenario(
        "agent_condition",
        "the agent sets its own stop reason",
        planning::agent_condition,
    ),
    scenario(
        "critic_stop",
        "a critic's scores fall until it says stop",
        critics::critic_stop,
    ),
    scenario(
        "stagnation",
        "the state does not change any more",
        limits::stagnation,
    ),
    scenario(
        "env_terminal",
        "a walker finds out of a maze, with observations and rewards",
        worlds::env_terminal,
    ),
    scenario(
        "task_validation_failed",
        "required files are not there",
        endings::task_validation_failed,
    ),
    scenario(
        "env_capability_mismatch",
        "the environment offers less than is needed",
        worlds::env_capability_mismatch,
    ),
    scenario(
        "unrecoverable_error",
        "the agent fails four times in a row",
        endings::unrecoverable_error,
    ),
    scenario(
        "context_overflow",
        "a conversation is made shorter twice and still does not fit",
        models::context_overflow,
    ),
    scenario(
        "cancelled_immediate",
        "someone ends the run while a tool is at work",
        endings::cancelled_immediate,
    ),
    scenario(
        "cancelled_after_step",
        "someone ends the run and lets its step finish",
        endings::cancelled_after_step,
    ),
    scenario(
        "critic_retry",
        "an editor refuses two answers, with instructions and changes of state",
        critics::critic_retry,
    ),
    scenario(
        "critic_conflict",
        "one critic says retry, the other stop; the first one heard decides",
        critics::critic_conflict,
    ),
    scenario(
        "judge",
        "a critic's own model uses up the tokens",
        critics::judge,
    ),
    scenario(
        "loop",
        "a model says the same three times",
        limits::model_loop,
    ),
    scenario(
        "tool_loop",
        "a stop rule in code sees the same search three times",
        limits::tool_loop,
    ),
    scenario(
        "stop_on_tool",
        "a tool is asked for that ends the run before it is used",
        limits::stop_on_tool,
    ),
    scenario(
        "max_rounds",
        "the last round's answer is not accepted, and its text is kept",
        limits::max_rounds,
    ),
    scenario(
        "refused_answer",
        "an answer in prose is refused, the next one is JSON",
        research::refused_answer,
    ),
    scenario(
        "wait",
        "an agent waits for a job in between",
        planning::wait,
    ),
    scenario(
        "branch",
        "three candidates at each step, the highest score wins",
        planning::branch,
    ),
    scenario(
        "recovered_error",
        "a model's text cannot be read; told how to write, it does better",
        models::recovered_error,
    ),
    scenario(
        "tool_retry",
        "a tool fails, another works at its third try",
        endings::tool_retry,
    ),
    scenario(
        "model_native",
        "a model with native calls, two at a time",
        models::model_native,
    ),
    scenario(
        "model_react",
        "a model that writes its calls as text",
        models::model_react,
    ),
    scenario(
        "unicode",
        "hostile and odd text, NaN in the state, a very long line",
        odd::unicode,
    ),
    scenario(
        "long",
        "300 steps, two critics whose scores wander",
        long::long,
    ),
    scenario(CRASH, "the process is killed inside a tool", endings::crash),
];

const fn scenario(
    name: &'static str,
    about: &'static str,
    set: fn(&Stage) -> Result<Run>,
) -> Scenario {
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
    /// Ends the run from outside; some scenarios use it themselves, so each needs its own.
    pub cancel: Cancel,
    /// Called where [`CRASH`] waits to be killed, everything before being on disk.
    pub before_crash: Arc<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            root, seed, live, ..
        } = self;
        f.debug_struct("Options")
            .field("root", root)
            .field("seed", seed)
            .field("live", live)
            .finish_non_exhaustive()
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
            before_crash: Arc::new(|| ()),
        }
    }
}

impl Scenario {
    /// The scenario of that name.
    ///
    /// # Errors
    /// There is none; the hint names those that there are.
    pub fn named(name: &str) -> Result<Self> {
        SCENARIOS
            .iter()
            .find(|scenario| scenario.name == name)
            .copied()
            .ok_or_else(|| {
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
        let place = SCENARIOS
            .iter()
            .position(|scenario| scenario.name == self.name)
            .unwrap_or_default();
        let stage = Stage::new(self.name, i64::try_from(place).unwrap_or_default(), options)?;
        let run = (self.set)(&stage)?;
        match run.await {
            None => Ok(()),
            Some(wrong) => Err(Error::new(
                Kind::Unreadable,
                format!("the run {} is not whole: {wrong}", self.name),
            )),
        }
    }
}
