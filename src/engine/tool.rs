//! What is a tool? A named function with typed arguments, which may fail without ending the run.
//!
//! What an agent may call is a [`Toolbox`]; it checks arguments, keeps time and tries again, and turns every failure,
//! a panic too, into a result that the agent sees.

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::cancel::Cancel;
use super::env::Shared;
use super::off_limits::OffLimits;
use super::state::Snapshot;

/// A tool.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use trace_board::engine::{Tool, ToolCx, ToolError};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Args {
///     /// The numbers to add up.
///     numbers: Vec<f64>,
/// }
///
/// struct Sum;
///
/// impl Tool for Sum {
///     type Args = Args;
///     type Output = f64;
///
///     fn name(&self) -> &str {
///         "sum"
///     }
///
///     fn description(&self) -> &str {
///         "Adds numbers."
///     }
///
///     async fn call(&self, args: Args, _cx: ToolCx<'_>) -> Result<f64, ToolError> {
///         Ok(args.numbers.iter().sum())
///     }
/// }
/// ```
pub trait Tool: Send + Sync {
    /// The arguments; unknown ones are refused where the type says `deny_unknown_fields`.
    type Args: DeserializeOwned + JsonSchema + Send;
    /// The result.
    type Output: Serialize + Send;

    /// Its name, unlike every other in the toolbox.
    fn name(&self) -> &str;

    /// What it does, for the model.
    fn description(&self) -> &str;

    /// Does it. A tool that blocks moves its work to [`tokio::task::spawn_blocking`](https://docs.rs/tokio/latest/tokio/task/fn.spawn_blocking.html).
    fn call(
        &self,
        args: Self::Args,
        cx: ToolCx<'_>,
    ) -> impl Future<Output = Result<Self::Output, ToolError>> + Send;

    /// The JSON Schema of its arguments. That of a tool which is known at run time only is a value: such a tool takes a
    /// [`serde_json::Map`] and gives its schema here. Nothing is held against it before the call.
    fn schema(&self) -> Value {
        schema_of::<Self::Args>()
    }

    /// Timeout and retries.
    fn limits(&self) -> ToolLimits {
        ToolLimits::default()
    }

    /// Whether calls of it that stand next to each other in one decision may be under way at the same time, with each
    /// other and with those of other tools that may. Their results keep the order of the calls.
    fn is_parallel(&self) -> bool {
        false
    }

    /// What it needs of the environment, such as `files` or `shell`; checked before the first step.
    fn needs(&self) -> &[&str] {
        &[]
    }
}

/// Where a call happens.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ToolCx<'a> {
    /// The step's ordinal.
    pub step: u64,
    /// The directory of the task's files, where it has one.
    pub workspace: Option<&'a Path>,
    /// How many times this call was tried before.
    pub attempt: u32,
    /// Where the call must write nothing, whatever it is asked.
    pub off_limits: &'a OffLimits,
    /// The run's directory, where it is recorded.
    pub run: Option<&'a Path>,
    pub(super) cancel: Option<&'a Cancel>,
    pub(super) state: Option<&'a Snapshot>,
    pub(super) env: Option<&'a Shared>,
}

impl<'a> ToolCx<'a> {
    /// A call outside of a run, to try a tool.
    pub fn alone(off_limits: &'a OffLimits) -> Self {
        Self {
            step: 0,
            workspace: None,
            attempt: 0,
            off_limits,
            run: None,
            cancel: None,
            state: None,
            env: None,
        }
    }

    /// The handle that ends the run. Work that a tool moved elsewhere hears of the end by it; the call itself is dropped.
    pub fn cancel(&self) -> Cancel {
        self.cancel.cloned().unwrap_or_default()
    }

    /// A field of the state before the step: a built-in one or one of the agent's.
    ///
    /// # Errors
    /// There is none of this name, or it is no `T`.
    pub fn state<T: DeserializeOwned>(&self, field: &str) -> Result<T, ToolError> {
        let text = self
            .state
            .and_then(|state| state.get(field))
            .ok_or_else(|| ToolError::new(format!("the state has no field {field:?}")))?;
        let read = super::back::from_text(text);
        read.map_err(|wrong| ToolError::new(format!("the field {field:?} of the state: {wrong}")))
    }

    /// What the environment shares with tools, see [`Env::shared`](super::Env::shared); `None` where it shares none, or no
    /// `T`.
    pub fn env<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.env.cloned()?.downcast().ok()
    }
}

/// How long and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolLimits {
    /// A call that takes longer is dropped and is an error.
    pub timeout: Option<Duration>,
    /// How often a failure that says so is tried again.
    pub retries: u32,
    /// How long to wait before the first retry; doubled each time.
    pub backoff: Duration,
}

impl Default for ToolLimits {
    /// A minute, no retries.
    fn default() -> Self {
        Self {
            timeout: Some(Duration::from_secs(60)),
            retries: 0,
            backoff: Duration::from_millis(100),
        }
    }
}

/// Why a call failed. The run goes on: the agent sees the error as the call's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError {
    /// The sort of failure, as recorded in `tool_invocations`: `runtime_error`, `invalid_arguments`, ...
    pub category: &'static str,
    /// What happened, for the agent.
    pub message: String,
    /// Whether the same call may go better next time.
    pub retryable: bool,
}

impl ToolError {
    /// A failure of the tool's own work.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            category: "runtime_error",
            message: message.into(),
            retryable: false,
        }
    }

    /// A failure of another sort.
    #[must_use]
    pub fn category(mut self, category: &'static str) -> Self {
        self.category = category;
        self
    }

    /// Says that the same call may go better next time.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// So that `?` works with any error. The type is itself none, as that would be two conversions for one.
impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        ToolError::new(super::value::told(&error))
    }
}

/// The JSON Schema of a type, without references to elsewhere: many models follow none.
fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = SchemaGenerator::new(settings)
        .into_root_schema_for::<T>()
        .to_value();
    if let Some(object) = schema.as_object_mut() {
        object.remove("title");
    }
    schema
}
