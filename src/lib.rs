//! Traces of agent runs: read them, follow them while they grow, explain why they stopped, show them.
//!
//! A run is a directory with `manifest.json`, `steps.jsonl` and `events.jsonl`. The rooms of this crate
//! each answer one question, and arrows between them point one way:
//!
//! | room | question |
//! |---|---|
//! | [`model`] | what is a trace? |
//! | [`trace`] | how does it touch the disk? |
//! | [`stop`] | when to stop? |
//! | [`analysis`] | what does it mean? |
//! | `live` | what changed? |
//! | `view` | how does it look? |
//! | `web` | how is it asked for? |
//! | `cli` | how is it typed? |

pub mod analysis;
pub mod error;
pub mod model;
pub mod stop;
pub mod trace;

#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
#[cfg(feature = "serve")]
pub mod live;
#[cfg(feature = "view")]
#[doc(hidden)]
pub mod view;
#[cfg(feature = "serve")]
pub mod web;

pub use error::{Error, Kind, Result};
