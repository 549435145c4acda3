//! How is a real model asked? A client for OpenAI-compatible endpoints.
//!
//! Knows the engine; reads no arguments, no environment and no terminal, which are `cli`'s. Whatever comes from outside
//! is kept free of the [`Secret`] before anybody records it.

mod client;
mod http;
mod retry;
mod secret;
mod wire;

#[cfg(test)]
mod tests;

pub use client::{Client, Endpoint, Patience};
pub use retry::Retry;
pub use secret::{Scrubbed, Secret};
