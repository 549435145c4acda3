//! Calls models over OpenAI-compatible endpoints, and builds agents that a file describes.
//!
//! An [`AgentFile`] becomes an engine. The [`Secret`] is removed from all data that comes from
//! outside before that data is recorded.

// Uses the engine and the tools. Doesn't read arguments, the environment or the terminal, which
// `cli` does.

mod agent;
mod build;
mod client;
mod config;
mod critics;
mod gate;
mod http;
mod inherited;
mod mcp;
mod retry;
mod secret;
mod surrogate;
mod wire;

#[cfg(test)]
mod tests;

pub use agent::{FileAgent, Work};
pub use build::AgentContext;
pub use client::{Client, Endpoint, Timeouts};
pub use config::{AgentFile, EXAMPLE};
pub use inherited::Inherited;
pub use mcp::McpServers;
pub use retry::Retry;
pub use secret::{Scrubbed, Secret, close_process};
