//! Reads and writes traces on disk.
//!
//! To read, [`RootScanner`] finds runs below a directory, [`RunReader`] follows one run, and
//! [`read_index`] reads one as it is now. Reading never writes, and never fails because of the
//! content of a file: problems are returned as [`crate::model::Issue`]s. To write, [`RunWriter`]
//! rejects everything that a reader couldn't parse. It reads existing files only to resume a run.
//!
//! [`mod@format`] specifies the format of the engine's runs.

// The only module that opens trace files. It must not know what a trace means, who watches it or
// how it's shown. Its two halves don't know each other.

mod archive;
mod asset;
mod before;
mod beneath;
mod beside;
mod blocks;
mod children;
mod composed;
mod content;
mod dir;
mod document;
mod frames;
mod idle;
mod limits;
mod lister;
mod manifest;
mod numbered;
mod numbered_tail;
mod patience;
mod pieces;
mod process;
mod read;
mod read_at;
mod recognise;
mod records;
mod redact;
mod root;
mod sections;
mod several;
mod stamp;
#[cfg(feature = "board")]
mod store;
#[cfg(not(feature = "board"))]
#[path = "no_store.rs"]
mod store;
mod sums;
mod tail;
mod tool;
mod unpacked;
mod whole;
mod write;

#[cfg(feature = "board")]
pub(crate) use crate::format::name_stores;
pub use beside::BesideRecords;
pub use blocks::{Block, Blocks};
pub use dir::RunDir;
pub use dir::known::RunLocation;
pub use limits::MAX_MANIFEST_BYTES;
pub use lister::Lister;
pub use process::{host_name, is_running};
pub use read::{PIECE_BYTES, RunReader, SETTLE, read_index};
pub(crate) use recognise::holds_parts;
pub(crate) use recognise::store_of;
pub(crate) use recognise::{beginning, is_packed, may_be_lines};
pub use recognise::{is_trace_file, may_be_trace};
pub use redact::{RedactedRun, RedactionPreview, SharedSecrets};
pub use root::{
    MAX_DEPTH, MAX_SKIPPED, RootDir, RootScan, RootScanner, Skipped, SkippedKind, SkippedTotal,
};
pub use stamp::{Stamps, StampsHash};
#[cfg(feature = "board")]
pub(crate) use store::close_idle;
pub use whole::{Beginning, WholeLines, step_of};
pub use write::{
    EventLine, KeptSteps, RESERVE_FILE, RunEnd, RunInfo, RunWriter, UNKNOWN_TIME, WriteError,
};

#[doc = include_str!("FORMAT.md")]
pub mod format {}

#[cfg(test)]
mod tests;
