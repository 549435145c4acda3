//! Names the three files of a run and the positions of lines in them.

/// The position of a line in its file: byte offset and length, without the line terminator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Span {
    /// The offset in bytes from the start of the file.
    pub offset: u64,
    /// The length in bytes, without the line terminator.
    pub len: u64,
}

/// The longest line that board parses. Longer lines only have a position. 8 MiB is forty times
/// the longest line seen in real traces (220 KB).
pub const MAX_LINE_BYTES: u64 = 8 << 20;

/// The three files of a run.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
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
