//! What is a tool that a server offers, to the engine?

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::result::outcome;
use super::{Lost, Server};
use crate::engine::{Tool, ToolCx, ToolError, ToolLimits};
use crate::rpc::mcp::TOOLS_CALL;

/// Model services take no longer names of tools.
const MAX_NAME: usize = 64;

/// A tool as its server tells of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Spec {
    pub(super) name: String,
    description: String,
    schema: Value,
}

impl Spec {
    /// `None` where it has no name. A schema that is none takes anything.
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
    /// The name of the server and its own.
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

    /// What the engine, the gate and the model call it.
    pub(super) fn known_as(&self) -> &str {
        &self.name
    }

    pub(super) fn is_named_like(&self, other: &Self) -> bool {
        self.name == other.name
    }

    /// Its own name, and its server's.
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
            Lost::Refused(fault) => {
                ToolError::new(format!("{} (error {})", fault.message, fault.code))
            }
            Lost::Gone(why) => {
                ToolError::new(format!("the MCP server {}: {why}", self.server.name))
                    .category("server_failed")
            }
        };
        self.server.still_has(&self.spec.name).await.map_err(lost)?;
        let params = json!({ "name": self.spec.name, "arguments": args });
        outcome(
            &self
                .server
                .request(TOOLS_CALL, params)
                .await
                .map_err(lost)?,
        )
    }

    fn limits(&self) -> ToolLimits {
        ToolLimits {
            timeout: Some(self.timeout),
            ..ToolLimits::default()
        }
    }
}
