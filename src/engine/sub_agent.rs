//! Delegates tasks to other agents, as a tool of an agent or with a new engine for each of many
//! tasks.

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

/// A tool that delegates a task to another agent. The child run is recorded next to the parent run
/// and names it as its parent. The tool's result names the child run. The child run is dropped with
/// the call. Its tokens and their cost count in its own run and toward its own limits, not toward
/// those of the parent run. Its time is part of the call, so it counts toward both.
///
/// The child run's name is `PARENT.TOOL-STEP-NUMBER`, such as `first.scout-0-2`: the parent run,
/// the tool's name, the step with the call, and a number that increases with each call of this
/// tool. If the parent run isn't recorded, the child run isn't either, unless the builder that
/// `make` returns has a writer. It then names no parent.
///
/// ```
/// # use trace_board::engine::{Agent, Builder, Engine, SubAgent};
/// # fn with_scout<A: Agent, S: Agent + 'static>(builder: Builder<A>, scout: fn() -> S) -> Builder<A> {
/// let make = move || Engine::builder(scout()).max_steps(5).max_tokens(20_000);
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

/// The arguments of a delegation.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Delegation {
    /// The task, in words. The sub-agent knows nothing else.
    pub task: String,
}

/// The result of a delegated task.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Delegated {
    /// The child run's answer.
    pub answer: String,
    /// The child run's id, if the run is recorded.
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
    /// Creates a sub-agent. `make` returns a new engine builder for each call.
    pub fn new<A: Agent>(name: impl Into<String>, description: impl Into<String>, make: F) -> Self
    where
        F: Fn() -> Builder<A> + Send + Sync,
    {
        // The child run's own limits end it.
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

    /// Sets the timeout and retries of a call.
    #[must_use]
    pub fn limits(mut self, limits: ToolLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Creates the engine for one call, and the id of the run if it is recorded.
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
        // Several calls in a step, retries and repeated steps each need their own run.
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

    /// Calls are independent of each other.
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

/// Replaces characters that may not be allowed in a directory name.
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

/// Runs many tasks concurrently, each with a new engine from `make`, so that runs share no
/// counters. At most `at_once` runs are in progress, and an engine is only created when its run can
/// start. The results have the order of the tasks. Dropping the future ends all runs in progress.
///
/// # Errors
/// A task whose engine can't be built has an error as its result. The other tasks still run.
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
