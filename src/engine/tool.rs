//! Defines tools: named functions with typed arguments, whose failures don't end the run.
//!
//! A `Toolbox` holds the tools of an agent. It checks arguments, applies timeouts and retries,
//! and turns every failure, including a panic, into a result for the agent.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::cancel::Cancel;
use super::off_limits::OffLimits;
use super::state::Snapshot;

/// A tool that an agent can call. Most tools need no implementation: a [`FnTool`](super::FnTool) is
/// made from a function.
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
    /// The arguments. Unknown arguments are refused if the type has `deny_unknown_fields`.
    type Args: DeserializeOwned + JsonSchema + Send;
    /// The result.
    type Output: Serialize + Send;

    /// Returns the tool's name, which must be unique in the toolbox.
    fn name(&self) -> &str;

    /// Returns a description for the model.
    fn description(&self) -> &str;

    /// Executes the call. A blocking tool should move its work to
    /// [`tokio::task::spawn_blocking`](https://docs.rs/tokio/latest/tokio/task/fn.spawn_blocking.html).
    fn call(
        &self,
        args: Self::Args,
        cx: ToolCx<'_>,
    ) -> impl Future<Output = Result<Self::Output, ToolError>> + Send;

    /// Returns the JSON Schema of the arguments. A tool whose schema is only known at run time
    /// takes a [`serde_json::Map`] and returns its schema here. Arguments aren't validated against
    /// the schema before the call.
    fn schema(&self) -> Value {
        schema_of::<Self::Args>()
    }

    /// Returns the timeout and retries.
    fn limits(&self) -> ToolLimits {
        ToolLimits::default()
    }

    /// Returns whether adjacent calls in one decision may run at the same time, if all their tools
    /// allow it. The results keep the order of the calls.
    fn is_parallel(&self) -> bool {
        false
    }

    /// Returns the capabilities that the environment must have, such as `files` or `shell`. Checked
    /// before the first step.
    fn needs(&self) -> &[&str] {
        &[]
    }
}

/// Data that an environment shares with tools.
pub(crate) type Shared = Arc<dyn Any + Send + Sync>;

/// The context of a tool call.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ToolCx<'a> {
    /// The step's number, counted from 0.
    pub step: u64,
    /// The directory with the task's files, if set.
    pub workspace: Option<&'a Path>,
    /// Number of earlier attempts at this call.
    pub attempt: u32,
    /// Directories to which the call must not write.
    pub(crate) off_limits: &'a OffLimits,
    /// The run's directory, if the run is recorded.
    pub run: Option<&'a Path>,
    pub(super) cancel: Option<&'a Cancel>,
    pub(super) state: Option<&'a Snapshot>,
    pub(super) env: Option<&'a Shared>,
}

impl<'a> ToolCx<'a> {
    /// Creates a context outside a run, for trying out a tool.
    pub fn alone() -> Self {
        static NOTHING: LazyLock<OffLimits> = LazyLock::new(OffLimits::default);
        Self {
            step: 0,
            workspace: None,
            attempt: 0,
            off_limits: &NOTHING,
            run: None,
            cancel: None,
            state: None,
            env: None,
        }
    }

    /// Returns the handle that ends the run. Work that a tool moved to another task can use it to
    /// notice the end of the run. The call itself is dropped.
    pub fn cancel(&self) -> Cancel {
        self.cancel.cloned().unwrap_or_default()
    }

    /// Returns a field of the state before the step, either a built-in one or one of the agent's
    /// data.
    ///
    /// # Errors
    /// Fails if there is no such field, or if its value isn't a `T`.
    pub fn state<T: DeserializeOwned>(&self, field: &str) -> Result<T, ToolError> {
        let text = self
            .state
            .and_then(|state| state.get(field))
            .ok_or_else(|| ToolError::new(format!("the state has no field {field:?}")))?;
        let read = super::back::from_text(text);
        read.map_err(|wrong| ToolError::new(format!("the field {field:?} of the state: {wrong}")))
    }

    /// Returns the data that the environment shares with tools; see
    /// [`Env::shared`](super::Env::shared). `None` if there is no data or it isn't a `T`.
    pub fn env<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.env.cloned()?.downcast().ok()
    }
}

/// The timeout and retries of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolLimits {
    /// Time limit of a call. A call that exceeds it is dropped and fails. A call that blocks its
    /// thread can't be dropped. It fails when it's finished, and its output is recorded.
    pub timeout: Option<Duration>,
    /// Maximum number of retries after retryable failures.
    pub retries: u32,
    /// Delay before the first retry. Doubles with each retry.
    pub backoff: Duration,
}

impl Default for ToolLimits {
    /// Returns a timeout of one minute and no retries.
    fn default() -> Self {
        Self {
            timeout: Some(Duration::from_secs(60)),
            retries: 0,
            backoff: Duration::from_millis(100),
        }
    }
}

/// Why a call failed. The run continues, and the agent gets the error as the call's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError {
    /// The category of the failure, as recorded in `tool_invocations`: `runtime_error`,
    /// `invalid_arguments`, ...
    pub category: &'static str,
    /// The error message, for the agent.
    pub message: String,
    /// Whether a retry of the same call may succeed.
    pub retryable: bool,
}

impl ToolError {
    /// Creates an error with the category `runtime_error`.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            category: "runtime_error",
            message: message.into(),
            retryable: false,
        }
    }

    /// Sets the category.
    #[must_use]
    pub fn category(mut self, category: &'static str) -> Self {
        self.category = category;
        self
    }

    /// Marks the error as retryable.
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

/// Makes `?` work with any error. `ToolError` doesn't implement `Error` itself, since this
/// conversion would then conflict with the identity conversion.
impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        ToolError::new(super::value::told(&error))
    }
}

/// Reads a call's arguments.
pub(super) fn args_of<T: DeserializeOwned>(args: Map<String, Value>) -> Result<T, ToolError> {
    // A tool without arguments may use `()` as their type, which is null in JSON.
    let read = match args.is_empty() {
        true => T::deserialize(Value::Object(args))
            .or_else(|wrong| T::deserialize(Value::Null).map_err(|_| wrong)),
        false => T::deserialize(Value::Object(args)),
    };
    read.map_err(|wrong| {
        ToolError::new(format!("wrong arguments: {wrong}")).category("invalid_arguments")
    })
}

/// Returns the JSON Schema of a type with all references inlined, because many models don't follow
/// references.
pub(super) fn schema_of<T: JsonSchema>() -> Value {
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
