//! What does a trace mean? Pure functions over [`crate::model`].
//!
//! No files, no HTML, no clock of its own.

pub mod query;
