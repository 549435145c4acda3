//! Interprets traces with pure functions over [`crate::model`].
//!
//! Must not read files, produce HTML or read the clock.

mod chain;
pub mod closest;
pub mod columns;
pub mod compact;
pub mod compare;
pub mod copies;
pub mod diff;
pub mod digest;
mod edits;
pub mod experiment;
pub mod facts;
pub mod files;
pub mod format;
pub(crate) mod headline;
pub mod health;
mod in_brief;
pub mod lanes;
pub mod life;
mod lost;
pub mod newest;
pub mod number;
pub mod ordinals;
pub mod overview;
pub mod patch;
pub mod query;
pub mod related;
pub mod replay;
mod retrace;
pub mod run_result;
mod run_status;
pub mod scores;
pub mod search;
pub mod select;
pub mod state;
pub(crate) mod stated;
pub mod summary;
pub mod sweep;
pub mod table;
pub mod timing;
pub mod turns;
pub mod usage;
pub mod verdict;
pub mod whatif;
pub mod why;
pub mod window;
