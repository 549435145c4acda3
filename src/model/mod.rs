//! Defines a trace: steps, events, the manifest and the end of a run.
//!
//! In memory, a trace is an [`Index`], which contains what lists, charts and joins need, in a few
//! hundred bytes per step. The lines themselves are read only when they are shown.

// Every other module uses these types. No files, clock or async code: only serde, jiff's calendar
// and core.

mod call;
pub(crate) mod edit_call;
pub mod end;
pub mod event;
pub mod failure;
mod fate;
mod files;
mod fingerprint;
mod format;
pub mod head;
pub mod index;
pub mod issue;
pub mod json;
pub(crate) mod json_line;
mod lines;
pub(crate) mod loose;
pub mod manifest;
pub mod names;
pub mod path;
pub mod price;
mod record;
pub mod recorded;
pub mod redact;
pub mod repair;
pub mod split;
pub mod stated;
pub mod step;
mod stored;
pub mod strict;
pub mod tags;
pub(crate) mod telling;
pub mod time;
pub(crate) mod words;

use std::fmt;

pub use call::{CallEnd, CallMark};
pub(crate) use end::counts_steps;
pub use end::{
    Bound, Budget, Candidate, Certainty, Code, EndKind, Ended, Evidence, Gate, Limit, Named, Op,
    Origin, Outcome, Phase, Reached, Reading, Source, StopReason, StopVerdict, ToolLimit, limit_of,
};
pub use event::{EventHead, EventKind, EventNote};
pub use fate::Fate;
pub use files::{MAX_LINE_BYTES, Span, TraceFile};
pub(crate) use format::tool_of;
pub use format::{CAPTURED, Can, Capabilities, Format, StateRecord};
pub(crate) use head::RUN_CANCELLED;
pub use head::{BROKEN_REPLY, CANCELLED, CriticMark, FailedCall, NO_REPLY, OtherFailure, StepHead};
pub use index::{Delta, Index};
pub use issue::{Issue, IssueKind, Issues};
pub use lines::{InFile, Lines};
pub use manifest::{Compaction, Copied, Earlier, Manifest, ManifestState, RunScore, Total, Trial};
pub use names::{Names, Symbol};
pub use record::Record;
pub use recorded::RecordedFacts;
pub use stated::{Agreement, Fact, Said, Stated, Statement};
pub use step::{CriticAction, Step};

/// A run's name in board: its directory relative to the root, with `/` between parts.
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
