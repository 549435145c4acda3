//! The library of the program `board`, a local, read-only viewer for the traces of AI agents.
//!
//! It has two halves. [`recorded`] reads the trace of a run, which any supported program may have
//! written, and explains why the run stopped. [`engine`] runs agents and records each run as a
//! directory with `manifest.json`, `steps.jsonl` and `events.jsonl`.
//!
//! # Run an agent
//!
//! An agent needs a model and tools. The run leaves a trace and a verdict. This is a complete
//! program. `docs/agents.md` lists its dependencies:
//!
//! ```no_run,standalone_crate
//! use trace_board::engine::{Engine, ModelAgent};
//! use trace_board::llm::Client;
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Sum {
//!     numbers: Vec<i64>,
//! }
//!
//! #[tokio::main]
//! async fn main() -> trace_board::Result<()> {
//!     let engine = Engine::builder(ModelAgent::new("clerk", "You do sums."))
//!         .model(Client::from_env()?)
//!         .tool_fn("add", "Adds numbers.", async |sum: Sum| {
//!             Ok(sum.numbers.iter().sum::<i64>())
//!         })
//!         .record_in("runs")
//!         .build()?;
//!     let result = engine.run("What is 19 + 23?").await;
//!     println!("{}", result.require_answer()?);
//!     Ok(())
//! }
//! ```
//!
//! The model and the key come from the environment variables `OPENAI_MODEL` and `OPENAI_API_KEY`.
//! `OPENAI_BASE_URL` names a server other than OpenAI's; see
//! [`Endpoint::from_env`](llm::Endpoint::from_env). `board serve runs` shows the run. An error
//! returned from `main` is printed with its causes and hints; see [`Error`].
//!
//! Critics, guards, hooks and limits are methods of the [`Builder`](engine::Builder). An agent that
//! keeps a state, or that decides without a model, implements [`Agent`](engine::Agent):
//!
//! ```standalone_crate
//! use trace_board::engine::{Action, Agent, AgentError, Decision, Engine, State, StepCx};
//! use trace_board::trace::RunWriter;
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Sum {
//!     numbers: Vec<i64>,
//! }
//!
//! struct Clerk;
//! impl Agent for Clerk {
//!     type Data = ();
//!     fn name(&self) -> &str { "clerk" }
//!     async fn decide(&mut self, _: &State<()>, cx: &StepCx<'_>) -> Result<Option<Decision>, AgentError> {
//!         Ok(Some(match cx.last.first() {
//!             None => Decision::act([Action::new("add").arg("numbers", vec![19, 23])]).because("two numbers are given"),
//!             Some(sum) => Decision::final_answer(sum.text()),
//!         }))
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> trace_board::Result<()> {
//! #   let scratch = tempfile::tempdir().expect("a directory");
//! #   std::env::set_current_dir(&scratch).expect("it is there");
//!     let engine = Engine::builder(Clerk)
//!         .tool_fn("add", "Adds numbers.", async |sum: Sum| {
//!             Ok(sum.numbers.iter().sum::<i64>())
//!         })
//!         .max_steps(5)
//!         .record(RunWriter::create("runs", "first")?) // the name must be new
//!         .build()?;
//!     let result = engine.run("What is 19 + 23?").await;
//!     println!("{}: {}", result.verdict.code, result.require_answer()?);
//! #   assert_eq!((result.verdict.code.as_str(), result.verdict.step, result.answer()), ("final", Some(1), Some("42")));
//! #   assert!(std::path::Path::new("runs/first/manifest.json").exists());
//!     Ok(())
//! }
//! ```
//!
//! The single-file programs in `examples` go further:
//!
//! - `first_agent`: the first program above
//! - `coding_agent`: a model with tools, and a critic that rejects its answer
//! - `judge_and_retry`: a model that scores another model
//! - `custom_rule`: a custom stop rule and a custom critic
//! - `environment`: an environment with observations and rewards
//! - `guard_and_continue`: a guard, a hook and a resumed run
//!
//! `cargo run --example NAME` writes its run to `./runs`.
//!
//! # Explain a recorded run
//!
//! [`RecordedRun`](recorded::RecordedRun) reads a run of any supported program and explains why it
//! ended. The explanation is what `board why --json` prints:
//!
//! ```
//! use trace_board::recorded::RecordedRun;
//!
//! # fn main() -> trace_board::Result<()> {
//! let run = RecordedRun::open("sample_runs/qitos/q060_critic_stop")?;
//! let why = run.why();
//! assert_eq!((run.index().steps().len(), why.step), (4, Some(3)));
//! assert!(why.headline.starts_with("Stopped by the critic PolicyCritic (score 0.05)"));
//! # Ok(())
//! # }
//! ```
//!
//! [`trace::RunReader`] follows a run that is still being written.
//!
//! # Features
//!
//! `board`, which is on by default, contains the whole program and the built-in JSON Schema
//! validator of `structured_output`. `cloud` adds object stores, and `parquet` adds Parquet tables.
//! Without features, the crate runs agents, calls their models, writes traces and reads those of
//! every supported tool except databases, but can't explain or show them. It then depends on 94
//! crates instead of 228.
//!
//! # Modules
//!
//! | module | purpose | feature |
//! |---|---|---|
//! | [`engine`] | runs agents and records traces | |
//! | [`stop`] | decides when to stop | |
//! | [`trace`] | reads and writes trace files | |
//! | [`model`] | the types of a trace | |
//! | [`error`] | errors with causes and hints | |
//! | [`llm`] | calls models; with `board`, also runs agents that a file describes | |
//! | `recorded` | reads a recorded run and explains why it ended | `board` |
//! | `tools` | tools for agents: files and commands | `board` |
//!
//! Everything else belongs to the program, and may change in any release.

// On docs.rs, marks every item that needs a feature.
#![cfg_attr(docsrs, feature(doc_cfg))]
// The library without features keeps what only the program calls, so that few items need a `cfg`.
#![cfg_attr(
    not(feature = "board"),
    allow(dead_code, unreachable_pub, unused_imports)
)]

pub mod engine;
pub mod error;
pub mod llm;
pub mod model;
#[cfg(feature = "board")]
pub mod recorded;
pub mod stop;
#[cfg(feature = "board")]
pub mod tools;
pub mod trace;

// Parts of the program that its tests, fuzz targets and benchmarks use too.
#[cfg(feature = "board")]
#[doc(hidden)]
pub mod analysis;
#[cfg(feature = "board")]
#[doc(hidden)]
pub mod cli;
#[doc(hidden)]
pub mod format;
#[cfg(feature = "board")]
pub(crate) mod live;
#[cfg(feature = "board")]
#[cfg_attr(
    not(feature = "cloud"),
    allow(dead_code, reason = "only object stores read all options")
)]
pub(crate) mod mirror;
#[cfg(feature = "board")]
pub(crate) mod serve;

#[cfg(feature = "board")]
pub(crate) mod cache_file;
#[cfg(feature = "board")]
pub(crate) mod group;
#[cfg(feature = "board")]
pub(crate) mod in_order;
#[cfg(feature = "board")]
pub(crate) mod lines;
#[cfg(feature = "board")]
pub(crate) mod page;
#[cfg(feature = "board")]
pub(crate) mod text_index;
pub(crate) mod wire;

#[cfg(test)]
#[path = "../tests/support/soak.rs"]
mod soak;

pub use error::{Error, Kind, Result};
