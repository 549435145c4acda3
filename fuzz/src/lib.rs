//! Invariants that must hold for any untrusted bytes. Each parser has one function, which panics on
//! a violation.
//!
//! The fuzz targets call these functions with libFuzzer's inputs. `tests/it/fuzzed.rs` calls them
//! with past findings and seeds.

mod analysis;
mod index;
mod llm;
mod model;
mod text;
mod tools;
mod trace;

pub use analysis::{key_path, query, rules};
pub use index::{first_difference, follow, meaning, read_at_once};
pub use llm::{agent_file, chat_wire};
pub use model::{lines, manifest, redact};
pub use text::model_text;
pub use tools::{stores, tools};
pub use trace::{state, tail};
