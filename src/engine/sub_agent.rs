//! Who does a part of the work? Another agent, as a tool of this one; and one engine made anew for each of many tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::agent::Agent;
use super::builder::{Builder, Engine};
use super::result::RunResult;
use super::task::Task;
use super::tool::{Tool, ToolCx, ToolError, ToolLimits};
use crate::error::{Error, Kind, Result};
use crate::trace::RunWriter;

/// A tool that gives a task to another agent. Its run is recorded beside the one that calls it, which it names as its
/// parent; the result names it too. It is dropped with the call, and its tokens count in its own run.
///
/// The run is called `PARENT.TOOL-STEP-NUMBER`, as in `first.scout-0-2`: the run that calls, the tool's name, the step that
/// calls, and a number that goes up with each call of this tool. Where the calling run is not recorded, this one is neither,
/// unless the builder that `make` gives has a writer; it then names no parent.
///
/// ```
/// # use trace_board::engine::{Agent, Builder, Engine, SubAgent};
/// # fn with_scout<A: Agent, S: Agent + 'static>(builder: Builder<A>, scout: fn() -> S) -> Builder<A> {
/// let make = move || Engine::builder(scout()).max_steps(5);
/// builder.tool(SubAgent::new("scout", "Looks for a file and says where it is.", make))
/// # }
/// ```
pub struct SubAgent<F> {
    name: String,
    description: String,
    limits: ToolLimits,
    make: F,
    started: AtomicU64,
}

/// What a sub-agent is asked.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Delegation {
    /// What is to be done, in words. Nothing else is known to the one who does it.
    pub task: String,
}

/// What became of it.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Delegated {
    /// Its answer.
    pub answer: String,
    /// Its run, where it is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
}

impl<F> std::fmt::Debug for SubAgent<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SubAgent")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<F> SubAgent<F> {
    /// A sub-agent whose engine `make` begins for each call.
    pub fn new<A: Agent>(name: impl Into<String>, description: impl Into<String>, make: F) -> Self
    where
        F: Fn() -> Builder<A> + Send + Sync,
    {
        // Its own limits end it.
        let limits = ToolLimits {
            timeout: None,
            ..ToolLimits::default()
        };
        Self {
            name: name.into(),
            description: description.into(),
            limits,
            make,
            started: AtomicU64::new(0),
        }
    }

    /// Sets how long a call may take.
    #[must_use]
    pub fn limits(mut self, limits: ToolLimits) -> Self {
        self.limits = limits;
        self
    }

    /// The engine of one call, and the run that it records.
    fn begin<A: Agent>(&self, cx: ToolCx<'_>) -> Result<(Engine<A>, Option<String>)>
    where
        F: Fn() -> Builder<A>,
    {
        let builder = (self.make)().cancel(cx.cancel());
        let place = cx
            .run
            .and_then(|run| Some((run.parent()?, run.file_name()?.to_string_lossy())));
        let Some((root, parent)) = place else {
            return Ok((builder.build()?, None));
        };
        // Calls of one step, attempts, and a step that is done anew have runs of their own.
        let id = loop {
            let place = self.started.fetch_add(1, Ordering::Relaxed);
            let id = format!("{parent}.{}-{}-{place}", plain(&self.name), cx.step);
            if !root.join(&id).exists() {
                break id;
            }
        };
        let engine = builder
            .record(RunWriter::create(root, &id)?)
            .parent(parent)
            .build()?;
        Ok((engine, Some(id)))
    }
}

impl<A, F> Tool for SubAgent<F>
where
    A: Agent + 'static,
    F: Fn() -> Builder<A> + Send + Sync,
{
    type Args = Delegation;
    type Output = Delegated;

    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn limits(&self) -> ToolLimits {
        self.limits
    }

    /// They know nothing of each other.
    fn is_parallel(&self) -> bool {
        true
    }

    async fn call(
        &self,
        asked: Delegation,
        cx: ToolCx<'_>,
    ) -> std::result::Result<Delegated, ToolError> {
        let (engine, run_id) = self.begin(cx)?;
        let result = Box::pin(engine.run(asked.task)).await;
        match result.require_answer() {
            Ok(answer) => Ok(Delegated {
                answer: answer.to_owned(),
                run_id,
            }),
            Err(none) => {
                let place = run_id
                    .map(|id| format!("; its run is {id}"))
                    .unwrap_or_default();
                Err(ToolError::new(format!("{none}{place}")))
            }
        }
    }
}

/// A name that a directory may have in it.
fn plain(name: &str) -> String {
    let letters = name.chars().take(40);
    letters
        .map(|letter| {
            if letter.is_ascii_alphanumeric() {
                letter
            } else {
                '_'
            }
        })
        .collect()
}

/// Runs many tasks, each on an engine that `make` begins for it, so that no counter of one run reaches another; at most
/// `at_once` of them are under way, and one is begun only then. The results are in the order of the tasks. To drop this
/// ends every run that is under way.
///
/// # Errors
/// Of a task whose engine cannot be made; the others go on.
pub async fn run_all<A: Agent + 'static>(
    tasks: impl IntoIterator<Item = Task>,
    at_once: usize,
    make: impl Fn(&Task) -> Result<Builder<A>>,
) -> Vec<Result<RunResult<A::Data>>> {
    let room = Arc::new(Semaphore::new(at_once.max(1)));
    let mut runs = JoinSet::new();
    let mut results = Vec::new();
    for (place, task) in tasks.into_iter().enumerate() {
        let permit = Arc::clone(&room).acquire_owned().await;
        match make(&task).and_then(Builder::build) {
            Err(error) => results.push(Some(Err(error))),
            Ok(engine) => {
                results.push(None);
                runs.spawn(async move {
                    let _held = permit;
                    (place, engine.run(task).await)
                });
            }
        }
    }
    while let Some(done) = runs.join_next().await {
        if let Ok((place, result)) = done
            && let Some(slot) = results.get_mut(place)
        {
            *slot = Some(Ok(result));
        }
    }
    let lost = || Err(Error::new(Kind::Bug, "the run ended without a result"));
    results
        .into_iter()
        .map(|result| result.unwrap_or_else(lost))
        .collect()
}
