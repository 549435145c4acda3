//! Traces of agent runs: read them, follow them while they grow, explain why they stopped, show them.
//!
//! A run is a directory with `manifest.json`, `steps.jsonl` and `events.jsonl`. The rooms of this crate
//! each answer one question, and arrows between them point one way:
//!
//! | room | question |
//! |---|---|
//! | [`model`] | what is a trace? |
//! | `format` | how does each tool write it? |
//! | [`trace`] | how does it touch the disk? |
//! | [`stop`] | when to stop? |
//! | [`engine`] | how is a trace made? |
//! | `tools` | what can an agent touch? |
//! | `llm` | how is a real model asked, and by whom? |
//! | `analysis` | what does it mean? |
//! | `mirror` | what is in the bucket? |
//! | `live` | what changed? |
//! | `page` | what is asked, and what is shown? |
//! | `lines` | where does a line end? |
//! | `serve` | how is it served? |
//! | `cli` | how is it typed? |
//!
//! The rooms above `tools` are always there; each of the others is behind a feature: its own name, or `serve` for
//! `live`, `mirror` and `page`. `cli`, `serve`, `llm`, `mcp` and `s3`, which has `mirror` follow object stores, are on by default;
//! `mcp` gives agents of files the tools of Model Context Protocol servers. The feature `schema` brings the JSON Schema validator of
//! `structured_output`; `archives`, which `serve` has, unpacks what is packed. Without features the crate makes traces and reads
//! those that lie in plain files, its own and every tool's of [`mod@format`]; of a packed one (Inspect's `.eval`, Codex's `.jsonl.zst`) it says
//! that it cannot. It neither explains nor shows them.
//!
//! Running an agent takes an agent, tools, and rules that say when to stop; it leaves a trace and a verdict. This is a
//! whole program, for the dependencies that docs/agents.md lists:
//!
//! ```standalone_crate
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use trace_board::engine::{Action, Agent, AgentError, Decision, Engine, State, StepCx, Task, Tool, ToolCx, ToolError};
//! use trace_board::trace::RunWriter;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Sum { numbers: Vec<i64> }
//! struct Add;
//! impl Tool for Add {
//!     type Args = Sum;
//!     type Output = i64;
//!     fn name(&self) -> &str { "add" }
//!     fn description(&self) -> &str { "Adds numbers." }
//!     async fn call(&self, args: Sum, _: ToolCx<'_>) -> Result<i64, ToolError> { Ok(args.numbers.iter().sum()) }
//! }
//!
//! struct Clerk;
//! impl Agent for Clerk {
//!     type Data = ();
//!     fn name(&self) -> &str { "clerk" }
//!     fn init_state(&mut self, task: &Task) -> Result<State<()>, AgentError> { Ok(State::new(&*task.objective, ())) }
//!     async fn decide(&mut self, _: &State<()>, cx: &StepCx<'_>) -> Result<Option<Decision>, AgentError> {
//!         Ok(Some(match cx.last.first() {
//!             None => Decision::act([Action::new("add").arg("numbers", vec![19, 23])]).because("two numbers are given"),
//!             Some(sum) => Decision::final_answer(sum.text()),
//!         }))
//!     }
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> trace_board::Result<()> {
//! #   let scratch = tempfile::tempdir().expect("a directory");
//! #   std::env::set_current_dir(&scratch).expect("it is there");
//!     let writer = RunWriter::create("runs", "first")?; // runs/first; `board serve runs` shows it
//!     let engine = Engine::builder(Clerk).tool(Add).max_steps(5).record(writer).build()?;
//!     let result = engine.run("What is 19 + 23?").await;
//!     println!("{}: {}", result.verdict.code, result.require_answer()?);
//! #   assert_eq!((result.verdict.code.as_str(), result.verdict.step, result.answer()), ("final", Some(1), Some("42")));
//! #   assert!(std::path::Path::new("runs/first/manifest.json").exists());
//!     Ok(())
//! }
//! ```
//!
//! A name is taken once: the second time `runs/first` holds a trace and is refused. An error that `main` returns is printed
//! with its causes and hints; see [`Error`].
//!
//! Four programs in `examples` go further, each one file that is read in a few minutes: `coding_agent` (a model with tools,
//! and a critic that sends it back), `judge_and_retry` (a model that scores another one), `custom_rule` (a stop rule and a
//! critic of one's own) and `environment`. `cargo run --example NAME` leaves its run in `./runs`.
//!
//! Reading a run takes a directory, a reader and an index; `analysis` then says from the index why it ended:
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
//! let dir = RunDir::alone(Path::new("sample_runs/qitos/q060_critic_stop"));
//! // Nobody writes there any more, so an unfinished last line need not be waited for.
//! let mut reader = RunReader::settling(dir, Duration::ZERO);
//! let mut index = Index::default();
//! index.apply(reader.refresh(u64::MAX));
//!
//! let life = life(&index, Outside::default());
//! assert_eq!(index.steps().len(), 4);
//! assert!(verdict(&index, &life).sentence.starts_with("Stopped by PolicyCritic at 0.05"));
//! ```

// Where docs.rs builds the documentation, whatever is behind a feature says so.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "board")]
pub mod analysis;
pub mod engine;
pub mod error;
pub mod format;
#[cfg(feature = "board")]
pub mod llm;
pub mod model;
pub mod stop;
#[cfg(feature = "board")]
pub mod tools;
pub mod trace;

#[cfg(feature = "board")]
#[doc(hidden)]
pub mod cli;
#[cfg(feature = "board")]
pub(crate) mod lines;
#[cfg(feature = "board")]
pub mod live;
#[cfg(feature = "board")]
pub mod mirror;
#[cfg(feature = "board")]
pub(crate) mod own;
#[cfg(feature = "board")]
pub(crate) mod page;
#[cfg(feature = "board")]
pub mod serve;
#[cfg(feature = "board")]
pub(crate) mod wire;

#[cfg(test)]
#[path = "../tests/support/soak.rs"]
mod soak;

pub use error::{Error, Kind, Result};
