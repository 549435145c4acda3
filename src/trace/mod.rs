//! How does a trace touch the disk? The only room that opens trace files.
//!
//! May not know what a trace means, who watches it or how it is shown. It has two halves that do not know each other.
//! The reading half never writes, and never fails because of what is in a file: oddities come back as
//! [`crate::model::Issue`]s. The writing half, [`RunWriter`], refuses what a reader would stumble over, and asks what stands
//! there only of the run that it goes on with.
//! [`mod@format`] says what both agree on.

mod archive;
mod asset;
mod beneath;
mod beside;
mod blocks;
mod children;
mod content;
mod dir;
mod document;
mod frames;
mod lister;
mod manifest;
mod numbered;
mod pieces;
mod process;
mod read;
mod recognise;
#[cfg(feature = "board")]
mod redact;
mod root;
mod several;
mod stamp;
mod sums;
mod tail;
mod tool;
mod unpacked;
mod whole;
mod write;

pub use beside::BesideRecords;
pub use blocks::{Block, Blocks};
pub use dir::RunDir;
#[cfg(feature = "board")]
pub use dir::known::RunLocation;
pub use lister::Lister;
pub use manifest::MAX_MANIFEST_BYTES;
pub use process::{host_name, is_running};
pub use read::{PIECE_BYTES, RunReader, SETTLE, read_index};
#[cfg(feature = "board")]
pub use redact::RedactedRun;
pub use root::{
    MAX_DEPTH, MAX_SKIPPED, RootDir, RootScan, RootScanner, Skipped, SkippedTotal, is_trace_file,
    may_be_trace,
};
pub use stamp::Stamps;
pub use whole::{Beginning, WholeLines, step_of};
pub use write::{EventLine, KeptSteps, RESERVE_FILE, RunEnd, RunInfo, RunWriter, WriteError};

#[doc = include_str!("FORMAT.md")]
pub mod format {}

#[cfg(test)]
mod tests;
