//! Makes a server's tool callable for the engine.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{CallToolRequest, CallToolRequestParams};
use serde_json::{Map, Value, json};

use super::Server;
use super::link::Lost;
use super::result::outcome;
use crate::engine::{Tool, ToolCx, ToolError, ToolLimits};

/// Maximum length of a tool name that model services accept.
const MAX_NAME: usize = 64;

/// A tool as its server describes it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Spec {
    pub(super) name: String,
    description: String,
    schema: Value,
}

impl Spec {
    /// Returns `None` if it has no name. A tool without a schema accepts any arguments.
    pub(super) fn read(tool: &Value) -> Option<Self> {
        let text = |name: &str| {
            tool.get(name)
                .and_then(Value::as_str)
                .filter(|text| !text.trim().is_empty())
        };
        let schema = tool
            .get("inputSchema")
            .filter(|schema| schema.is_object())
            .cloned();
        Some(Self {
            name: text("name")?.to_owned(),
            description: text("description")
                .or_else(|| text("title"))
                .unwrap_or_default()
                .to_owned(),
            schema: schema.unwrap_or_else(|| json!({ "type": "object" })),
        })
    }
}

/// A tool of a server.
#[derive(Debug, Clone)]
pub(super) struct McpTool {
    server: Arc<Server>,
    spec: Spec,
    /// The server's name and the tool's.
    name: String,
    timeout: Duration,
}

impl McpTool {
    pub(super) fn new(server: Arc<Server>, spec: Spec, timeout: Duration) -> Self {
        let plain = |letter: char| {
            if letter.is_ascii_alphanumeric() || letter == '-' {
                letter
            } else {
                '_'
            }
        };
        let name = format!("{}__{}", server.name, spec.name)
            .chars()
            .map(plain)
            .take(MAX_NAME)
            .collect();
        Self {
            server,
            spec,
            name,
            timeout,
        }
    }

    /// Returns the name for the engine, the gate and the model.
    pub(super) fn known_as(&self) -> &str {
        &self.name
    }

    pub(super) fn is_named_like(&self, other: &Self) -> bool {
        self.name == other.name
    }

    /// Returns the tool's own name and its server's, for errors.
    pub(super) fn place(&self) -> String {
        format!("{} of {}", self.spec.name, self.server.name)
    }
}

impl Tool for McpTool {
    type Args = Map<String, Value>;
    type Output = Value;

    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.spec.description
    }

    fn schema(&self) -> Value {
        self.spec.schema.clone()
    }

    async fn call(&self, args: Map<String, Value>, _: ToolCx<'_>) -> Result<Value, ToolError> {
        let lost = |lost: Lost| match lost {
            Lost::Refused(_) => ToolError::new(lost.to_string()),
            Lost::Gone(why) => {
                ToolError::new(format!("the MCP server {}: {why}", self.server.name))
                    .category("server_failed")
            }
        };
        self.server.still_has(&self.spec.name).await.map_err(lost)?;
        let params = CallToolRequestParams::new(self.spec.name.clone()).with_arguments(args);
        let request = CallToolRequest::new(params);
        let result = self.server.request(request.into()).await.map_err(lost)?;
        outcome(&result)
    }

    fn limits(&self) -> ToolLimits {
        ToolLimits {
            timeout: Some(self.timeout),
            ..ToolLimits::default()
        }
    }
}
