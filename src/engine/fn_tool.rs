//! Makes a tool from a function.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::erased::Boxed;
use super::tool::{Tool, ToolCx, ToolError, ToolLimits, args_of, schema_of};
use super::value::to_value_lossy;

/// A tool made from a function or a closure, which takes one typed argument. The argument's type
/// gives the JSON Schema for the model, with its doc comments as descriptions.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use trace_board::engine::{Agent, Builder, FnTool, ToolError};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct City {
///     /// The city, in English.
///     name: String,
/// }
///
/// async fn weather(city: City) -> Result<String, ToolError> {
///     match &*city.name {
///         "Oslo" => Ok("snow".to_owned()),
///         other => Err(ToolError::new(format!("there is no station in {other}"))),
///     }
/// }
///
/// # fn with_tools<A: Agent>(builder: Builder<A>) -> Builder<A> {
/// builder
///     .tool(FnTool::new("weather", "Returns the weather in a city.", weather))
///     .tool(FnTool::new("length", "Counts the letters of a city.", async |city: City| {
///         Ok(city.name.chars().count())
///     }))
///     .tool(FnTool::blocking("exists", "Looks for a file named after a city.", |city: City| {
///         Ok(std::fs::exists(city.name)?)
///     }))
/// # }
/// ```
///
/// An error becomes a failed call with the error's text, and `?` works with any error.
///
/// An `async` closure can't use values from outside, because its futures would borrow them. Move
/// clones into an `async` block, or use a blocking closure, which can keep them:
///
/// ```
/// # use std::sync::Arc;
/// # use trace_board::engine::FnTool;
/// # fn tool(shelf: Arc<Vec<String>>) -> FnTool {
/// FnTool::new("count", "Counts the books.", move |()| {
///     let shelf = Arc::clone(&shelf);
///     async move { Ok(shelf.len()) }
/// })
/// # }
/// # fn blocking(shelf: Vec<String>) -> FnTool {
/// FnTool::blocking("count", "Counts the books.", move |()| Ok(shelf.len()))
/// # }
/// ```
///
/// A tool that uses the run, such as its workspace, implements [`Tool`].
pub struct FnTool {
    name: String,
    description: String,
    schema: Value,
    limits: ToolLimits,
    is_parallel: bool,
    run: Run,
}

/// The function, with arguments and output as JSON.
type Run =
    Box<dyn Fn(Map<String, Value>) -> Boxed<'static, Result<Value, ToolError>> + Send + Sync>;

impl fmt::Debug for FnTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnTool")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl FnTool {
    /// Creates a tool from an `async` function or closure.
    pub fn new<Args, Output, Done>(
        name: impl Into<String>,
        description: impl Into<String>,
        function: impl Fn(Args) -> Done + Send + Sync + 'static,
    ) -> Self
    where
        Args: DeserializeOwned + JsonSchema + Send,
        Output: Serialize + Send,
        Done: Future<Output = Result<Output, ToolError>> + Send + 'static,
    {
        let run: Run = Box::new(move |args| {
            let work = args_of(args).map(&function);
            Box::pin(async move { work?.await.map(|output| to_value_lossy(&output)) })
        });
        Self::made::<Args>(name.into(), description.into(), run)
    }

    /// Creates a tool from a function or closure that isn't `async`. Each call runs on a thread of
    /// the runtime for blocking work, so it may read files or wait. It can't be interrupted: when
    /// the call times out or the run ends, the function continues and its result is dropped.
    pub fn blocking<Args, Output>(
        name: impl Into<String>,
        description: impl Into<String>,
        function: impl Fn(Args) -> Result<Output, ToolError> + Send + Sync + 'static,
    ) -> Self
    where
        Args: DeserializeOwned + JsonSchema + Send + 'static,
        Output: Serialize + Send + 'static,
    {
        let function = Arc::new(function);
        let run: Run = Box::new(move |args| {
            let function = Arc::clone(&function);
            let args = args_of(args);
            Box::pin(async move {
                let args = args?;
                let work = tokio::task::spawn_blocking(move || function(args));
                match work.await {
                    Ok(done) => done.map(|output| to_value_lossy(&output)),
                    Err(lost) => match lost.try_into_panic() {
                        Ok(panic) => std::panic::resume_unwind(panic),
                        Err(lost) => Err(lost.into()),
                    },
                }
            })
        });
        Self::made::<Args>(name.into(), description.into(), run)
    }

    fn made<Args: JsonSchema>(name: String, description: String, run: Run) -> Self {
        Self {
            name,
            description,
            schema: schema_of::<Args>(),
            limits: ToolLimits::default(),
            is_parallel: false,
            run,
        }
    }

    /// Sets the timeout and retries of a call. By default, a call may take one minute and isn't
    /// retried.
    #[must_use]
    pub fn limits(mut self, limits: ToolLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Lets adjacent calls in one decision run at the same time; see [`Tool::is_parallel`].
    #[must_use]
    pub fn parallel(mut self) -> Self {
        self.is_parallel = true;
        self
    }
}

impl Tool for FnTool {
    type Args = Map<String, Value>;
    type Output = Value;

    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    async fn call(&self, args: Map<String, Value>, _: ToolCx<'_>) -> Result<Value, ToolError> {
        (self.run)(args).await
    }

    fn schema(&self) -> Value {
        self.schema.clone()
    }

    fn limits(&self) -> ToolLimits {
        self.limits
    }

    fn is_parallel(&self) -> bool {
        self.is_parallel
    }
}
