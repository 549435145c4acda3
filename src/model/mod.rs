//! Defines what a trace is, in types that every other module uses.
//!
//! No files, clock or async code: only serde, jiff's calendar and core. In memory, a trace is an
//! [`Index`], which contains what lists, charts and joins need, in a few hundred bytes per step.
//! The lines themselves are read only when a page shows them.

mod call;
pub mod end;
pub mod event;
mod fingerprint;
mod format;
pub mod head;
pub mod index;
pub mod issue;
pub mod json;
pub(crate) mod loose;
pub mod manifest;
pub mod names;
pub mod price;
pub mod recorded;
pub mod redact;
pub mod repair;
pub mod split;
pub mod stated;
pub mod step;
pub mod strict;
pub mod time;
pub(crate) mod words;

use std::fmt;

pub use call::{CallEnd, CallMark};
pub use end::{
    Bound, Budget, Candidate, Certainty, Code, EndKind, Ended, Evidence, Gate, Limit, Op, Origin,
    Outcome, Phase, Reached, Reading, Source, StopReason, StopVerdict,
};
pub use event::{EventHead, EventKind, EventNote};
pub use format::{CAPTURED, Can, Capabilities, Format, StateRecord};
pub use head::{CANCELLED, CriticMark, Fate, NO_REPLY, StepHead};
pub use index::{Delta, Index};
pub use issue::{Issue, IssueKind, Issues};
pub use manifest::{
    Compaction, Copied, Manifest, ManifestState, RunScore, ToolLimit, Total, Trial,
};
pub use names::{Names, Symbol};
pub use recorded::RecordedFacts;
pub use repair::Record;
pub use stated::{Agreement, Fact, Said, Stated, Statement};
pub use step::{CriticAction, Step};

/// A run's name on the board: its directory relative to the root, with `/` between parts.
///
/// Keys are looked up in a map and never joined to a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunKey(std::sync::Arc<str>);

impl RunKey {
    /// Creates a key from a relative path written with `/`.
    pub fn new(path: &str) -> Self {
        Self(path.into())
    }

    /// Returns the key's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the key's last part: the name of the directory or file.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }
}

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The position of a line in its file: byte offset and length, without the line terminator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// The offset in bytes from the start of the file.
    pub offset: u64,
    /// The length in bytes, without the line terminator.
    pub len: u64,
}

/// The longest line that the board parses. Longer lines only have a position. 8 MiB is forty times
/// as long as the longest line seen in real traces (220 KB).
pub const MAX_LINE_BYTES: u64 = 8 << 20;

/// A source of a run's lines, read on demand.
pub trait Lines {
    /// Returns the bytes of a line.
    ///
    /// # Errors
    /// Returns why the line can't be read, as a sentence.
    fn line(&self, file: TraceFile, span: Span) -> Result<Vec<u8>, String>;

    /// Returns the bytes of a line that the board parses.
    ///
    /// # Errors
    /// Fails like [`Lines::line`], and if the line is longer than [`MAX_LINE_BYTES`].
    fn short_line(&self, file: TraceFile, span: Span) -> Result<Vec<u8>, String> {
        if span.len > MAX_LINE_BYTES {
            return Err(format!(
                "it has {} bytes, more than the board parses",
                span.len
            ));
        }
        self.line(file, span)
    }

    /// Returns a line that the board parses, as text.
    ///
    /// # Errors
    /// Fails like [`Lines::short_line`].
    fn record(&self, file: TraceFile, span: Span) -> Result<Record<'static>, String> {
        self.short_line(file, span).map(Record::read)
    }

    /// Returns the manifest's bytes.
    ///
    /// # Errors
    /// Returns why the manifest can't be read, as a sentence.
    fn manifest(&self) -> Result<Vec<u8>, String>;

    /// Checks that a file that a line refers to is inside the run's directory.
    ///
    /// # Errors
    /// Returns why the file can't be shown, as a sentence.
    fn has_asset(&self, recorded: &str) -> Result<(), String>;
}

/// The three files of a run.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, schemars::JsonSchema,
)]
pub enum TraceFile {
    /// `manifest.json`
    #[serde(rename = "manifest.json")]
    Manifest,
    /// `steps.jsonl`
    #[serde(rename = "steps.jsonl")]
    Steps,
    /// `events.jsonl`
    #[serde(rename = "events.jsonl")]
    Events,
}

impl TraceFile {
    /// All three files.
    pub const ALL: [Self; 3] = [Self::Manifest, Self::Steps, Self::Events];

    /// Returns the file's name inside a run directory.
    pub fn name(self) -> &'static str {
        match self {
            TraceFile::Manifest => "manifest.json",
            TraceFile::Steps => "steps.jsonl",
            TraceFile::Events => "events.jsonl",
        }
    }
}
