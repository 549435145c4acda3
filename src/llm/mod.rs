//! Calls models over OpenAI-compatible endpoints, and builds agents that a file describes.
//!
//! A [`Client`] is a model for any engine. With the feature `board`, an `AgentFile` becomes an
//! engine. The [`Secret`] is removed from the replies of a model, and from the results of tools
//! that are [`Scrubbed`].

// Uses the engine and the tools. Doesn't read arguments or the terminal, which `cli` does. Only
// `Endpoint::from_env` reads the environment.

#[cfg(feature = "board")]
mod build;
mod client;
#[cfg(feature = "board")]
mod config;
#[cfg(feature = "board")]
mod critics;
mod endpoint;
#[cfg(feature = "board")]
mod gate;
mod http;
#[cfg(feature = "board")]
mod inherited;
#[cfg(feature = "board")]
mod mcp;
mod retry;
mod secret;
mod surrogate;
mod wire;

#[cfg(test)]
#[cfg(feature = "board")]
mod tests;

#[cfg(feature = "board")]
pub use build::AgentContext;
pub use client::Client;
#[cfg(feature = "board")]
pub use config::{AgentFile, EXAMPLE};
pub use endpoint::{Endpoint, Timeouts};
#[cfg(feature = "board")]
pub use inherited::Inherited;
#[cfg(feature = "board")]
pub use mcp::McpServers;
pub use retry::Retry;
pub use secret::{Scrubbed, Secret, close_process};
