//! Holds the tools of an agent by name. Every call is validated, timed and retried, and always has
//! a result.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::cancel::{Cancel, Lost, caught_now};
use super::chat::ToolSpec;
use super::clock::Clock;
use super::decision::Action;
use super::erased::Boxed;
use super::tool::{Tool, ToolCx, ToolError, ToolLimits, args_of};
use super::value::to_value_lossy;
use crate::model::RUN_CANCELLED;

/// Maximum size of a result, in bytes. A larger one loses its middle, with a note, and is kept as
/// text. QitOS 0.6 truncates at 50,000 characters.
pub(super) const MAX_RESULT_BYTES: usize = 256 << 10;

/// Minimum number of bytes kept of a result, even if a step has less room.
const MIN_RESULT_BYTES: usize = 1 << 10;
/// Maximum length of an error's message, in bytes.
const MAX_ERROR_BYTES: usize = 16 << 10;

/// The tools of a run, by name.
#[derive(Default)]
pub(super) struct Toolbox(BTreeMap<String, Box<dyn DynTool>>);

impl fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

impl Toolbox {
    /// Adds a tool.
    ///
    /// # Errors
    /// Fails if the name is empty or taken.
    pub(super) fn add(&mut self, tool: impl Tool + 'static) -> Result<(), String> {
        let name = tool.name().to_owned();
        if name.trim().is_empty() {
            return Err("a tool has no name".to_owned());
        }
        if self.0.contains_key(&name) {
            return Err(format!("two tools are named {name:?}"));
        }
        self.0.insert(name, Box::new(tool));
        Ok(())
    }

    /// Returns the tools as described to a model, sorted by name.
    pub(super) fn specs(&self) -> Vec<ToolSpec> {
        self.0.values().map(|tool| tool.spec()).collect()
    }

    /// Returns each tool's required capabilities.
    pub(super) fn needs(&self) -> impl Iterator<Item = (&str, Vec<String>)> {
        self.0
            .iter()
            .map(|(name, tool)| (name.as_str(), tool.needs()))
    }

    /// Splits off the first actions to execute: one action, or several that may run in parallel.
    /// Returns them and the rest. `None` if there are no actions.
    pub(super) fn first_part<'a>(
        &self,
        actions: &'a [Action],
    ) -> Option<(&'a [Action], &'a [Action])> {
        let parallel = |action: &&Action| self.is_parallel(action);
        let together = actions.iter().take_while(parallel).count().max(1);
        actions.split_at_checked(together)
    }

    fn is_parallel(&self, action: &Action) -> bool {
        self.0
            .get(&action.name)
            .is_some_and(|tool| tool.is_parallel())
    }

    /// Executes the actions of a part in parallel. A failure only affects its own result. An action
    /// that was changed to a tool that can't run in parallel runs alone.
    pub(super) async fn call_all(
        &self,
        actions: &[Cow<'_, Action>],
        cx: ToolCx<'_>,
        clock: &dyn Clock,
        cancel: &Cancel,
    ) -> Vec<ToolResult> {
        let mut results = Vec::with_capacity(actions.len());
        for part in actions.chunk_by(|one, next| self.is_parallel(one) && self.is_parallel(next)) {
            match part {
                [action] => results.push(self.call(action, cx, clock, cancel).await),
                together => {
                    let calls = together
                        .iter()
                        .map(|action| Box::pin(self.call(action, cx, clock, cancel)));
                    results.extend(all(calls.collect()).await);
                }
            }
        }
        results
    }

    /// Executes one action.
    pub(super) async fn call(
        &self,
        action: &Action,
        cx: ToolCx<'_>,
        clock: &dyn Clock,
        cancel: &Cancel,
    ) -> ToolResult {
        let start = clock.elapsed();
        let mut attempts = 0;
        let done = match self.0.get(&action.name) {
            Some(tool) => {
                self.attempt(&**tool, action, cx, clock, cancel, &mut attempts)
                    .await
            }
            None => {
                let known: Vec<_> = self.0.keys().map(String::as_str).collect();
                let known = if known.is_empty() {
                    "there are none".to_owned()
                } else {
                    known.join(", ")
                };
                let message = format!("unknown tool {:?}; known tools: {known}", action.name);
                Err((
                    Status::Error,
                    ToolError::new(message).category("tool_not_found"),
                ))
            }
        };
        let latency = clock.elapsed().saturating_sub(start);
        let tool = action.name.clone();
        let done = done.map_err(|(status, mut error)| {
            clip(&mut error.message, MAX_ERROR_BYTES);
            (status, error)
        });
        match done {
            Ok((output, late)) => {
                let (output, cut) = bounded(output, MAX_RESULT_BYTES);
                let status = match late {
                    Some(_) => Status::TimedOut,
                    None => Status::Success,
                };
                ToolResult {
                    tool,
                    status,
                    output,
                    cut,
                    error: late,
                    attempts,
                    latency,
                }
            }
            Err((status, error)) => ToolResult {
                tool,
                status,
                output: Value::Null,
                cut: None,
                error: Some(error),
                attempts,
                latency,
            },
        }
    }

    /// Returns the output, with an error if it came after a time limit.
    async fn attempt(
        &self,
        tool: &dyn DynTool,
        action: &Action,
        cx: ToolCx<'_>,
        clock: &dyn Clock,
        cancel: &Cancel,
        attempts: &mut u32,
    ) -> Result<(Value, Option<ToolError>), (Status, ToolError)> {
        let limits = caught_now(|| tool.limits())
            .map_err(|text| (Status::Error, ToolError::new(text).category("panic")))?;
        let mut wait = limits.backoff;
        loop {
            let cx = ToolCx {
                attempt: *attempts,
                ..cx
            };
            *attempts += 1;
            let begun = Instant::now();
            let work = async {
                let work = timed(async { tool.call(action.args.clone(), cx).await });
                match limits.timeout {
                    Some(limit) => tokio::time::timeout(limit, work)
                        .await
                        .unwrap_or_else(|_| (Err(timed_out(limit)), Duration::ZERO)),
                    None => work.await,
                }
            };
            let error = match cancel.guard(work).await {
                Ok((done, last)) => {
                    let late = too_late(begun.elapsed(), last, limits.timeout, cancel.is_late());
                    match (done, late) {
                        (Ok(output), late) => return Ok((output, late)),
                        (Err(error), None) => error,
                        (Err(error), Some(late)) => ToolError {
                            message: format!("{}: {}", late.message, error.message),
                            ..late
                        },
                    }
                }
                Err(Lost::Panicked(text)) => ToolError::new(text).category("panic"),
                Err(Lost::Cancelled) => return Err(cancelled()),
            };
            let status = if error.category == "timeout" {
                Status::TimedOut
            } else {
                Status::Error
            };
            if !error.retryable || *attempts > limits.retries {
                return Err((status, error));
            }
            if cancel.guard(clock.sleep(wait)).await.is_err() {
                return Err(cancelled());
            }
            wait = wait.saturating_mul(2);
        }
    }
}

/// Polls the futures concurrently and returns their outputs in order.
async fn all<F: Future + Unpin>(mut futures: Vec<F>) -> Vec<F::Output> {
    let mut done: Vec<_> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|waker| {
        for (future, done) in futures
            .iter_mut()
            .zip(&mut done)
            .filter(|(_, done)| done.is_none())
        {
            if let Poll::Ready(output) = Pin::new(future).poll(waker) {
                *done = Some(output);
            }
        }
        if done.iter().all(Option::is_some) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    done.into_iter().flatten().collect()
}

fn timed_out(limit: Duration) -> ToolError {
    ToolError::new(format!("did not finish within {} ms", limit.as_millis()))
        .category("timeout")
        .retryable()
}

/// Also returns how long the work kept its thread before it finished.
async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let mut work = pin!(work);
    std::future::poll_fn(|waker| {
        let begun = Instant::now();
        let done = work.as_mut().poll(waker);
        done.map(|done| (done, begun.elapsed()))
    })
    .await
}

/// Returns the error of a call that was still working after a time limit. It can't be dropped then
/// if it blocks its thread. `last` is how long it did so before it finished. A call that another
/// one kept from finishing isn't late.
fn too_late(
    took: Duration,
    last: Duration,
    limit: Option<Duration>,
    run_is_over: bool,
) -> Option<ToolError> {
    let is_working = |limit: &Duration| {
        let over = took.saturating_sub(*limit);
        over.min(last) >= Duration::from_millis(1)
    };
    let took = took.as_millis();
    let message = match limit.filter(is_working) {
        Some(limit) => format!(
            "finished after {took} ms, over its limit of {} ms",
            limit.as_millis()
        ),
        None if run_is_over && last >= Duration::from_millis(1) => {
            format!("finished after {took} ms, when the run's time was over")
        }
        None => return None,
    };
    Some(ToolError::new(message).category("timeout"))
}

fn cancelled() -> (Status, ToolError) {
    (
        Status::Cancelled,
        ToolError::new(RUN_CANCELLED).category("cancelled"),
    )
}

/// The result of an action.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolResult {
    /// The tool's name.
    pub tool: String,
    /// The status of the call.
    pub status: Status,
    /// The output; null if the call failed. A call that finished after its time limit has both an
    /// output and an error.
    pub output: Value,
    /// The full size of the output in bytes, if it was truncated.
    pub cut: Option<usize>,
    /// Why the call failed.
    pub error: Option<ToolError>,
    /// Number of attempts. 0 if there is no such tool.
    pub attempts: u32,
    /// Duration of all attempts together.
    pub latency: Duration,
}

impl ToolResult {
    /// Creates the result of an action that wasn't executed because the run ended first.
    pub(super) fn skipped(action: &Action) -> Self {
        let (status, error) = cancelled();
        Self {
            tool: action.name.clone(),
            status,
            output: Value::Null,
            cut: None,
            error: Some(error),
            attempts: 0,
            latency: Duration::ZERO,
        }
    }

    /// Creates the result of an action that a guard refused.
    pub(super) fn refused(action: &Action, reason: &str) -> Self {
        let error = ToolError::new(format!("not allowed: {reason}")).category("denied");
        Self {
            status: Status::Error,
            error: Some(error),
            ..Self::skipped(action)
        }
    }

    /// Truncates the output to about `room` bytes, and returns how many bytes it takes.
    pub(super) fn fit(&mut self, room: usize) -> usize {
        let (output, cut) = bounded(std::mem::take(&mut self.output), room.max(MIN_RESULT_BYTES));
        self.cut = self.cut.or(cut);
        self.output = output;
        match &self.output {
            Value::String(text) => text.len(),
            Value::Array(_) | Value::Object(_) => self.output.to_string().len(),
            _ => 0,
        }
    }

    /// Returns whether the call succeeded.
    pub fn is_ok(&self) -> bool {
        self.status == Status::Success
    }

    /// Returns the result as text for a model.
    pub fn text(&self) -> String {
        match (&self.error, &self.output) {
            (Some(error), _) => format!("error: {error}"),
            (None, Value::String(text)) => text.clone(),
            (None, output) => output.to_string(),
        }
    }
}

/// The status of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Status {
    /// The call returned an output.
    Success,
    /// The call failed.
    Error,
    /// The call timed out.
    TimedOut,
    /// The run ended during the call.
    Cancelled,
}

/// Truncates a result that is too large for a line: keeps the first 70% and the last 30%, with a
/// note of the numbers in between.
fn bounded(output: Value, limit: usize) -> (Value, Option<usize>) {
    let text = match output {
        Value::Null | Value::Bool(_) | Value::Number(_) => return (output, None),
        Value::String(text) if text.len() <= limit => return (Value::String(text), None),
        Value::String(text) => text,
        nested => {
            let text = nested.to_string();
            if text.len() <= limit {
                return (nested, None);
            }
            text
        }
    };
    let head = text.floor_char_boundary(limit / 10 * 7);
    let tail = text.floor_char_boundary(text.len() - limit / 10 * 3);
    let (first, last) = (
        text.get(..head).unwrap_or_default(),
        text.get(tail..).unwrap_or_default(),
    );
    let cut = format!(
        "{first}\n[... {} of {} bytes omitted ...]\n{last}",
        tail - head,
        text.len()
    );
    (Value::String(cut), Some(text.len()))
}

/// Truncates a message to about `max` bytes, with a note.
pub(super) fn clip(message: &mut String, max: usize) {
    if message.len() > max {
        let whole = message.len();
        message.truncate(message.floor_char_boundary(max));
        message.push_str(&format!(" [... truncated from {whole} bytes]"));
    }
}

/// [`Tool`] in a form that can be boxed, with arguments and output as JSON.
trait DynTool: Send + Sync {
    fn spec(&self) -> ToolSpec;
    fn needs(&self) -> Vec<String>;
    fn is_parallel(&self) -> bool;
    fn limits(&self) -> ToolLimits;
    fn call<'a>(
        &'a self,
        args: Map<String, Value>,
        cx: ToolCx<'a>,
    ) -> Boxed<'a, Result<Value, ToolError>>;
}

impl<T: Tool> DynTool for T {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new(self.name(), self.description(), Tool::schema(self))
    }

    fn needs(&self) -> Vec<String> {
        Tool::needs(self)
            .iter()
            .map(|&need| need.to_owned())
            .collect()
    }

    fn is_parallel(&self) -> bool {
        Tool::is_parallel(self)
    }

    fn limits(&self) -> ToolLimits {
        Tool::limits(self)
    }

    fn call<'a>(
        &'a self,
        args: Map<String, Value>,
        cx: ToolCx<'a>,
    ) -> Boxed<'a, Result<Value, ToolError>> {
        Box::pin(async move {
            let args = args_of(args)?;
            Tool::call(self, args, cx)
                .await
                .map(|output| to_value_lossy(&output))
        })
    }
}
