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
//! | [`engine`] | how is a trace made? |
//! | `tools` | what can an agent touch? |
//! | `demo` | what does a run look like? |
//! | [`analysis`] | what does it mean? |
//! | `live` | what changed? |
//! | `view` | how does it look? |
//! | `web` | how is it asked for? |
//! | `cli` | how is it typed? |
//!
//! Reading a run takes a directory, a reader and an index; the index then says what there is and why it ended:
//!
//! ```
//! use std::path::Path;
//! use std::time::Duration;
//!
//! use trace_board::analysis::life::{Outside, life};
//! use trace_board::analysis::verdict::verdict;
//! use trace_board::model::Index;
//! use trace_board::trace::{RunDir, RunReader};
//!
//! let dir = RunDir::alone(Path::new("sample_runs/q060_critic_stop"));
//! // Nobody writes there any more, so an unfinished last line need not be waited for.
//! let mut reader = RunReader::settling(dir, Duration::ZERO);
//! let mut index = Index::default();
//! index.apply(reader.refresh(u64::MAX));
//!
//! let life = life(&index, Outside::default());
//! assert_eq!(index.steps().len(), 4);
//! assert!(verdict(&index, &life).sentence.starts_with("Stopped by PolicyCritic at 0.05"));
//! ```

pub mod analysis;
#[cfg(feature = "demo")]
#[doc(hidden)]
pub mod demo;
pub mod engine;
pub mod error;
pub mod model;
pub mod stop;
#[cfg(feature = "tools")]
pub mod tools;
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
