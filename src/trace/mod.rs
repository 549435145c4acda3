//! How does a trace touch the disk? The only room that opens trace files.
//!
//! May not know what a trace means, who watches it or how it is shown. Reading never fails because of what is in a
//! file: oddities come back as [`crate::model::Issue`]s. Nothing here ever writes.

mod dir;
mod manifest;
mod read;
mod root;
mod tail;

pub use dir::RunDir;
pub use read::{RunReader, SETTLE};
pub use root::{Found, MAX_DEPTH, Place, RootScanner, Skipped, is_trace_file};

#[cfg(test)]
mod tests;
