//! How is a real model asked, and by whom? A client for OpenAI-compatible endpoints, and agents that a file describes.
//!
//! Knows the engine and the tools; reads no arguments, no environment and no terminal, which are `cli`'s. An
//! [`AgentFile`] becomes an engine. Whatever comes from outside is kept free of the [`Secret`] before anybody records it.

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
pub use build::Surroundings;
pub use client::{Client, Endpoint, Timeouts};
pub use config::{AgentFile, EXAMPLE};
pub use inherited::Inherited;
pub use mcp::McpServers;
pub use retry::Retry;
pub use secret::{Scrubbed, Secret, close_process};
