//! What is a trace? The types every other room speaks of.
//!
//! No files, no clock, no async: serde and core only.

pub mod json;
pub mod time;
