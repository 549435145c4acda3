//! Restores a run of this engine from its trace, as far as needed to resume it. Independent of the
//! engine that continues it.
//!
//! The counterpart of `recorder`. Nothing missing is made up: a trace without the necessary data is
//! refused.

mod lines;
mod past;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use self::lines::{Lines, StepBack};
use self::past::Past;
pub(super) use self::past::Spent;
pub(crate) use self::past::Unfinished;
use super::recovery::Failures;
use super::state::{OF_DATA, State};
use super::talk::Conversation;
use super::task::Task;
use super::toolbox::ToolResult;
use crate::error::{Error, Kind, Result};
use crate::model::time::parse_ts;
use crate::model::{Outcome, TraceFile};
use crate::stop::{StepFacts, StopVerdict};
use crate::trace::{KeptSteps, RunWriter, is_running};

/// Maximum size of a manifest, in bytes. This engine doesn't write larger ones.
const MAX_MANIFEST_BYTES: u64 = 64 << 20;

/// A run to resume, or the first steps of a run to branch from.
///
/// ```no_run
/// # use std::path::Path;
/// # use trace_board::engine::{Agent, Earlier, Engine};
/// # async fn resume(engine: Engine<impl Agent>) -> trace_board::Result<()> {
/// let earlier = Earlier::open(Path::new("runs/coder-20261123-160000"))?;
/// let result = engine.resume(earlier).await?; // built without `record`: the run continues in its directory
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Earlier {
    /// The run that was read.
    source: PathBuf,
    /// Where it continues.
    dir: PathBuf,
    writer: Option<RunWriter>,
    pub(super) task: Task,
    pub(super) facts: Vec<StepFacts>,
    /// The results of the last step's actions.
    pub(super) last: Vec<ToolResult>,
    pub(super) last_text: Option<String>,
    pub(super) failures: Failures,
    /// Feedback of the steps for the next one.
    pub(super) feedback: Vec<String>,
    pub(super) elapsed_ms: u64,
    pub(super) seed: Option<u64>,
    /// When the run began. Only set when resuming, not when branching.
    pub(super) started_at: Option<i64>,
    /// The name of the run's agent, if recorded. Only set when resuming.
    agent: Option<String>,
    /// The run that these steps come from. Only set when branching.
    pub(super) parent: Option<String>,
    state: BTreeMap<String, Box<RawValue>>,
    steps: Vec<StepBack>,
    rounds: Vec<past::Round>,
    unfinished: Option<Unfinished>,
    /// Usage of the unfinished step so far.
    pub(super) lost: Spent,
    torn: u64,
}

/// The parts of a manifest that are needed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Manifest {
    run_id: Option<String>,
    writer: Option<String>,
    agent_name: Option<String>,
    host: Option<String>,
    pid: Option<i64>,
    seed: Value,
    started_at: Option<String>,
    resumed_from: Value,
    stop: Option<StopVerdict>,
    summary: Option<Summary>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Summary {
    final_result: Option<String>,
}

impl Manifest {
    fn read(dir: &Path) -> std::result::Result<Self, String> {
        use std::io::Read as _;

        let mut text = Vec::new();
        let file = std::fs::File::open(dir.join(TraceFile::Manifest.name()));
        let read = file.and_then(|file| file.take(MAX_MANIFEST_BYTES).read_to_end(&mut text));
        read.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                "it isn't a run of board's engine".to_owned()
            }
            _ => format!("can't read manifest.json: {error}"),
        })?;
        let manifest: Self =
            serde_json::from_slice(&text).map_err(|wrong| format!("manifest.json: {wrong}"))?;
        match manifest.writer.as_deref() {
            Some(writer) if writer.starts_with("board ") => Ok(manifest),
            Some(writer) => Err(format!(
                "{writer} wrote it, and its traces lack necessary data"
            )),
            None => Err("another program wrote it, and its trace lacks necessary data".to_owned()),
        }
    }
}

impl Earlier {
    /// Checks that an engine with this agent and writer can resume the run.
    pub(super) fn check(&self, agent: &str, writer: Option<&RunWriter>) -> Result<()> {
        if let Some(writer) = writer {
            let (dir, other) = (self.dir.display(), writer.dir().display());
            let error = Error::new(
                Kind::Usage,
                format!("the run continues in {dir}, but the engine records in {other}"),
            );
            return Err(error.hint("remove `Builder::record`: `resume` records on its own"));
        }
        match &self.agent {
            Some(made_by) if made_by != agent => {
                let dir = self.dir.display();
                let error = Error::new(
                    Kind::Usage,
                    format!("{dir} is a run of the agent {made_by:?}, not {agent:?}"),
                );
                let error = error.hint(format!("resume with an agent named {made_by:?}"));
                Err(error
                    .hint("or start a branch from its first steps (`board run`: add --from STEP)"))
            }
            _ => Ok(()),
        }
    }

    /// Opens a run to resume it in its own directory. Nothing is written until the engine runs.
    ///
    /// # Errors
    /// Fails if another program wrote the run, a process is still writing it, it already has its
    /// answer, or its trace lacks necessary data.
    pub fn open(dir: &Path) -> Result<Self> {
        let cannot = || Error::new(Kind::Unreadable, format!("can't resume {}", dir.display()));
        let manifest =
            Manifest::read(dir).map_err(|why| foreign(cannot().because(io::Error::other(why))))?;
        let process = manifest.host.as_deref().zip(manifest.pid);
        let is_alive = || process.is_some_and(|(host, pid)| is_running(host, pid) == Some(true));
        let writer = RunWriter::reopen(dir, is_alive)?;
        // Reads again, since no other process writes the run now.
        let manifest =
            Manifest::read(dir).map_err(|why| foreign(cannot().because(io::Error::other(why))))?;
        // Older versions also recorded `completed` for ends without an answer.
        let answers = |stop: &StopVerdict| {
            let summary = manifest.summary.as_ref();
            stop.outcome == Outcome::Completed
                && summary.is_some_and(|summary| summary.final_result.is_some())
        };
        if manifest.stop.as_ref().is_some_and(answers) {
            let error = cannot().because(io::Error::other("it already has an answer"));
            return Err(error.hint(
                "to continue from an earlier step, start a branch (`board run`: add --from STEP)",
            ));
        }
        let started_at = manifest
            .started_at
            .as_deref()
            .and_then(parse_ts)
            .map(|stamp| stamp.micros);
        let earlier = Self::read(dir, None, &manifest, writer)
            .map_err(|why| cannot().because(io::Error::other(why)))?;
        Ok(Self {
            started_at,
            agent: manifest.agent_name,
            ..earlier
        })
    }

    /// Uses the steps of a run before step `from` as the start of a new run, which is written to
    /// `into`. The original run doesn't change, and may still be running.
    ///
    /// # Errors
    /// Fails if another program wrote the run, it has no such step, or its trace lacks necessary
    /// data.
    pub fn branch(dir: &Path, from: u64, into: RunWriter) -> Result<Self> {
        let cannot = || {
            Error::new(
                Kind::Unreadable,
                format!("can't branch from {}", dir.display()),
            )
        };
        let manifest =
            Manifest::read(dir).map_err(|why| foreign(cannot().because(io::Error::other(why))))?;
        let name = || {
            Some(
                dir.canonicalize()
                    .ok()?
                    .file_name()?
                    .to_string_lossy()
                    .into_owned(),
            )
        };
        let parent = manifest.run_id.clone().or_else(name);
        let earlier = Self::read(dir, Some(from), &manifest, into)
            .map_err(|why| cannot().because(io::Error::other(why)))?;
        Ok(Self { parent, ..earlier })
    }

    /// Returns the number of steps. The next step has this ordinal.
    pub fn steps(&self) -> u64 {
        self.steps.len() as u64
    }

    /// Returns the step that began but wasn't finished, if any.
    pub(crate) fn unfinished(&self) -> Option<Unfinished> {
        self.unfinished
    }

    /// Returns the number of bytes of incomplete records that will be removed.
    pub fn torn_bytes(&self) -> u64 {
        self.torn
    }

    /// Returns the id of the original run, if this is a branch.
    pub fn parent(&self) -> Option<&str> {
        self.parent.as_deref()
    }

    /// Returns the directory in which the run continues.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Takes the writer of the continued run.
    pub(super) fn writer(&mut self) -> Option<RunWriter> {
        self.writer.take()
    }

    fn read(
        dir: &Path,
        from: Option<u64>,
        manifest: &Manifest,
        writer: RunWriter,
    ) -> std::result::Result<Self, String> {
        if !manifest.resumed_from.is_null() {
            return Err("it continues another run, whose steps it doesn't contain".to_owned());
        }
        let mut lines = Lines::open(dir, TraceFile::Steps)?;
        let mut steps: Vec<StepBack> = Vec::new();
        while from.is_none_or(|from| (steps.len() as u64) < from) {
            let ordinal = steps.len() as u64;
            let Some(step) = lines.next_with(|line| StepBack::read(ordinal, line))? else {
                break;
            };
            steps.push(step);
        }
        if let Some(from) = from.filter(|from| *from > steps.len() as u64) {
            let steps = steps.len();
            return Err(format!(
                "there is no step {from}: the run has {steps} completed steps"
            ));
        }
        let mut past = Past::default();
        let mut events = Lines::open(dir, TraceFile::Events)?;
        while let Some(event) = events.next_with(past::Event::read)? {
            past.take(event, events.so_far())?;
        }
        let is_branch = from.is_some();
        let torn = if is_branch {
            0
        } else {
            lines.torn() + events.torn()
        };
        let (unfinished, lost) = past.settle(steps.len())?.filter(|_| !is_branch).unzip();
        let kept = KeptSteps {
            steps: lines.so_far(),
            events: if is_branch {
                past.end_of_steps()
            } else {
                events.so_far()
            },
        };
        let lost_ms = if is_branch { 0 } else { past.lost_ms() };
        let mut state = past.state;
        for step in &mut steps {
            state.extend(std::mem::take(&mut step.changes));
        }
        let spent = steps
            .last()
            .and_then(|step| step.facts.latest_ms())
            .unwrap_or_default();
        let last_text = steps.iter().rev().find_map(|step| step.said.clone());
        Ok(Self {
            source: dir.to_owned(),
            dir: writer.dir().to_owned(),
            writer: Some(writer.keeping(kept, is_branch.then_some(dir))),
            task: past.task,
            failures: past::failures(&past.rounds, &steps),
            feedback: past
                .rounds
                .last()
                .map(|round| round.feedback.clone())
                .unwrap_or_default(),
            elapsed_ms: spent.saturating_add(lost_ms),
            seed: manifest.seed.as_u64(),
            facts: steps.iter().map(|step| step.facts.clone()).collect(),
            last: steps
                .last()
                .map(|step| step.results.clone())
                .unwrap_or_default(),
            last_text,
            started_at: None,
            agent: None,
            parent: None,
            rounds: past.rounds,
            state,
            steps,
            unfinished,
            lost: lost.unwrap_or_default(),
            torn,
        })
    }

    /// Returns the state after the last step, for the agent with this name.
    pub(super) fn state<D: DeserializeOwned>(&self, agent: &str) -> Result<State<D>> {
        let fields = || {
            self.state
                .iter()
                .map(|(key, text)| (key.as_str(), text.get()))
        };
        // A removed field is recorded as null.
        let read = State::read(fields())
            .or_else(|_| State::read(fields().filter(|(_, text)| *text != "null")));
        read.map_err(|wrong| {
            let cannot = match self.parent {
                Some(_) => "can't branch from",
                None => "can't resume",
            };
            let error = Error::new(Kind::Usage, format!("{cannot} {}", self.source.display()));
            let what = wrong.to_string();
            let what = what.strip_prefix(OF_DATA).unwrap_or(&what);
            error
                .because(io::Error::other(format!(
                    "its state doesn't fit the agent {agent:?}: {what}"
                )))
                .hint("use the agent that recorded it")
        })
    }

    /// Replays the earlier messages into a conversation.
    pub(super) fn retell(&mut self, talk: &mut Conversation) {
        for (round, step) in std::mem::take(&mut self.rounds)
            .into_iter()
            .zip(std::mem::take(&mut self.steps))
        {
            talk.retell(step.facts.step, round.said);
            if let Some(decision) = &step.decision
                && !step.results.is_empty()
            {
                talk.results(&decision.actions, &step.results);
            }
            if let Some(prompt) = step.prompt {
                talk.replace_prompt(prompt);
            }
        }
    }

    /// Returns the data for the INIT event.
    pub(super) fn told(&self) -> Value {
        let mut told =
            serde_json::json!({"steps": self.facts.len(), "elapsed_ms": self.elapsed_ms});
        let more = [
            (
                "unfinished",
                self.unfinished
                    .and_then(|unfinished| serde_json::to_value(unfinished).ok()),
            ),
            (
                "torn_bytes",
                Some(self.torn).filter(|torn| *torn > 0).map(Value::from),
            ),
        ];
        if let Some(told) = told.as_object_mut() {
            told.extend(
                more.into_iter()
                    .filter_map(|(key, value)| Some((key.to_owned(), value?))),
            );
        }
        told
    }

    /// Returns the manifest's data on the original run.
    pub(super) fn branched_from(&self) -> Value {
        let parent =
            |run_id: &String| serde_json::json!({"run_id": run_id, "steps": self.facts.len()});
        self.parent.as_ref().map(parent).unwrap_or_default()
    }
}

/// Adds the hint for a trace that another program wrote.
fn foreign(error: Error) -> Error {
    error.hint("only run directories written by board's engine can be resumed or branched")
}
