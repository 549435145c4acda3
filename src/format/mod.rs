//! Reads the traces of each tool: bytes in, the types of `model` out.
//!
//! Each format has one file here and one row in `TOOLS`. No code outside this room depends on which
//! tool wrote a run. A record becomes a [`Step`], an [`Event`] or a [`Manifest`].
//! [`Capabilities`](crate::model::Capabilities) state what a format can't record at all. Must not
//! know the disk, pages or rules.
//!
//! QitOS and board's engine write a directory of three files, in dialects that one reader
//! handles. The file of every other tool defines how to recognize the tool's files, and how to read
//! one of their records (a line, or an element of a document). Its [`Reader`] reports to a
//! [`Draft`] what the record means for the run, which step it belongs to, and the [`Part`] of that
//! step that it holds. If the records are messages, a `Conversation` pairs results with calls. A
//! table of `ends!` maps the tool's words for an end to outcomes. Each record is an event of the
//! run. A step is assembled from the parts in its records, as a line in this crate's own layout.
//! This happens at index time, to make the step's head, and again for a page. Both use the same
//! records and the same function, so they can't disagree.

/// Defines structs that hold the members of an object, each as JSON text. If a key is repeated, the
/// last member counts. A member whose key isn't a valid field name is written `field = "key"`.
macro_rules! fields {
    ($(struct $name:ident { $($field:ident $(= $key:literal)?),* $(,)? })*) => { $(
        #[derive(Debug, Clone, Copy, Default)]
        struct $name<'a> {
            $($field: Option<&'a str>,)*
            /// The number of members, including those that are not read.
            #[allow(dead_code, reason = "only some formats use it")]
            members: usize,
        }

        impl<'a> $name<'a> {
            #[allow(dead_code, reason = "some objects are read member by member instead")]
            fn of(object: &'a str) -> Self {
                let mut out = Self::default();
                for (key, value) in crate::model::json::walk::members(object) {
                    out.members += 1;
                    if let Some(key) = crate::model::json::walk::string(key) {
                        out.take(&key, value);
                    }
                }
                out
            }

            /// Takes in a member. Returns whether it replaces one.
            fn take(&mut self, key: &str, value: &'a str) -> bool {
                $(if key == fields!(@key $field $($key)?) {
                    return self.$field.replace(value).is_some();
                })*
                false
            }
        }
    )* };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
}

mod atif;
mod board;
mod claude;
mod codex;
mod conversation;
mod draft;
mod ends;
mod gemini;
mod harbor;
mod inspect;
mod lines;
mod mini_swe_agent;
mod openhands;
mod origin;
mod otlp;
mod part;
mod qitos;
mod qwen;
mod recent;
mod swe_agent;
mod tau2;
mod turns;
mod value;
mod watch;

#[cfg(test)]
pub(crate) use qitos::event_kind;

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;

pub use draft::{Draft, EventDraft, Open, RecordPlace};
pub use lines::is_record;
pub(crate) use origin::is_lines;
pub use origin::{EMPTY, Origin, UNKNOWN, may_be_skipped, origin};
pub use part::{Answer, CallDraft, Part, Tokens, is_at_limit};
pub use value::uncut;
pub use watch::{Values, WatchedValue};

use crate::model::event::Event;
use crate::model::issue::Remark;
use crate::model::repair::has_half_pair;
use crate::model::{EventHead, EventNote, Format, Manifest, Names, Record, Step, StepHead};

/// A row of `FORMATS`.
struct Row {
    format: Format,
    /// Whether the text of a manifest is of this format. The rows are tried in order.
    recognise: fn(&str) -> bool,
}

/// The formats of directories with a manifest.
static FORMATS: [&Row; 4] = [&board::BOARD, &qitos::V06, &qitos::V03, &qitos::V01];

/// A tool whose traces are read.
#[derive(Debug)]
pub struct Tool {
    /// The name of its traces, and what they can record.
    pub format: Format,
    /// How its files are split into records.
    pub shape: Shape,
    /// Whether a file with this name and beginning (at most [`HEAD_BYTES`]) is one of its traces.
    is: fn(name: &str, head: &[u8]) -> bool,
    /// Creates a reader for one trace.
    reader: fn() -> Box<dyn Reader>,
}

/// How a file is split into records.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// One record per line; the file grows by appending.
    Lines,
    /// One JSON document, replaced as a whole. Its records are the values at these paths; `*`
    /// matches any item of a list: `&["trajectory", "*"]`.
    Document(Paths),
    /// A directory. The records are in a document in a subdirectory. A second document, in the
    /// directory itself, has the other facts about the run.
    Directory {
        /// The paths of the records, as for a document.
        paths: Paths,
        /// The subdirectory with the records.
        below: &'static str,
        /// The name of the document with the records.
        records: &'static str,
        /// The name of the second document, which may be missing.
        beside: &'static str,
    },
    /// Several runs in one file, which is replaced as a whole.
    Several(&'static Several),
    /// A directory. The records are the lines of a file in a subdirectory. A document in the
    /// directory itself has further facts about the run.
    LinesBelow {
        /// The subdirectory with the records.
        below: &'static str,
        /// The name of the file with the records.
        records: &'static str,
        /// The name of the document, which may be missing.
        beside: &'static str,
    },
    /// A directory. Each record is a separate file in a subdirectory. A document in the directory
    /// itself, replaced as a whole, has the other facts about the run.
    Files {
        /// The subdirectory with the records.
        below: &'static str,
        /// How the names of the records' files begin.
        numbering: Numbering,
        /// The name of the document.
        beside: &'static str,
    },
}

impl Shape {
    /// Returns whether a run is a directory rather than a file.
    pub fn is_directory(self) -> bool {
        matches!(
            self,
            Self::Directory { .. } | Self::LinesBelow { .. } | Self::Files { .. }
        )
    }

    /// Returns whether the directory that contains a file of this shape is a run. `is_dir` checks
    /// whether a subdirectory exists.
    pub fn is_whole(self, is_dir: impl Fn(&str) -> bool) -> bool {
        match self {
            Self::Lines | Self::Document(_) | Self::Several(_) => false,
            Self::Directory { .. } | Self::LinesBelow { .. } => true,
            // Before the first record is written, and in a copy without the records, the document
            // alone is not a run.
            Self::Files { below, .. } => is_dir(below),
        }
    }
}

/// How the file of a record is named: this prefix, the number of the record, and any further text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbering(pub &'static str);

impl Numbering {
    /// Returns the number of the record in a file with this name.
    pub fn of(self, name: &str) -> Option<u64> {
        let rest = name.strip_prefix(self.0)?.strip_suffix(".json")?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest.get(..digits)?.parse().ok()
    }
}

/// How one file holds several runs: as values of one JSON document, or as members of a zip archive.
/// Each run is then treated as a separate document. A shared document holds the facts about all of
/// them.
#[derive(Debug)]
pub struct Several {
    /// The paths of the records in a run's document.
    pub paths: Paths,
    /// The paths of the runs in a JSON document. Everything before the first run applies to all of
    /// them.
    pub runs: Paths,
    /// The paths, in that JSON document, of the values that name a run.
    pub named_by: Paths,
    /// Builds the name of a run from the values that name it, as JSON.
    pub name: fn(&[Option<String>]) -> Option<String>,
    /// Returns the name of the run in this member of an archive.
    pub member: fn(&str) -> Option<&str>,
    /// The members of an archive that describe all runs. The first one that exists is read.
    pub beside: &'static [&'static str],
    /// Whether a JSON document that holds no run yet is listed anyway.
    pub is_run_alone: bool,
    /// Set if each line of the file is a run's document. The paths of the names then apply to a
    /// line.
    pub lines: Option<&'static Lines>,
    /// Set if the records of the runs are interleaved. A run's document is then a list of its
    /// records.
    pub apart: Option<&'static Apart>,
}

/// Runs that are one line of a file each.
#[derive(Debug)]
pub struct Lines {
    /// The noun for a line: "instance".
    pub what: &'static str,
}

/// Interleaved records of several runs, in one JSON document or one document per line.
#[derive(Debug)]
pub struct Apart {
    /// The paths of the records in each document.
    pub paths: Paths,
    /// How a line begins if it is a separate document.
    pub begins: &'static str,
    /// Returns the run that a record belongs to. Takes the record as JSON text.
    pub of: fn(&str) -> Option<Belongs>,
}

/// The run that a record belongs to.
#[derive(Debug)]
pub struct Belongs {
    /// The name of its run.
    pub run: String,
    /// Position within the run, by start time.
    pub order: u64,
    /// A run is listed if any of its records has this set.
    pub shown: bool,
}

/// Paths to values of a document: `*` matches any item of a list, `{}` any member of an object.
pub type Paths = &'static [&'static [&'static str]];

/// Reads the records of one trace in order.
pub trait Reader: std::fmt::Debug + Send {
    /// Takes in a record: an object as JSON text, or any value in a document. Every record that is
    /// an object must become exactly one event.
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>);

    /// Takes in the second document of the run, if it has one, as JSON text.
    fn beside(&mut self, _text: &str) {}

    /// Called after the last available record was taken in. Records facts that depend on all
    /// records, such as how the run ended.
    fn look(&mut self, draft: &mut Draft<'_>);
}

/// A record and its origin.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// Its JSON text.
    pub text: &'a str,
    /// The index of its path among the paths of [`Shape::Document`].
    pub path: usize,
    /// Its key, if that path matches any member of an object.
    pub key: &'a str,
    /// The path of the file.
    pub file: &'a Path,
}

impl<'a> Source<'a> {
    /// The name of the file, without directories.
    fn name(&self) -> &'a str {
        self.file
            .file_name()
            .and_then(OsStr::to_str)
            .unwrap_or_default()
    }

    /// The name of its directory.
    fn folder(&self) -> &'a str {
        self.file
            .parent()
            .and_then(Path::file_name)
            .and_then(OsStr::to_str)
            .unwrap_or_default()
    }
}

/// Bytes at the beginning of a file that are used to detect its format.
pub const HEAD_BYTES: usize = 64 << 10;

/// Where to find the files of a session's child runs.
#[derive(Debug, Clone, Copy)]
pub struct ChildFiles {
    /// The directory, relative to the directory of the session's file or to the parent of that.
    /// `{}` is replaced by the name of the session.
    pub below: &'static str,
    /// Whether it is relative to the parent of the session's directory.
    pub is_beside_directory: bool,
    /// Whether the name of the session is its id rather than the name of its file.
    pub by_id: bool,
    /// How the names of the files begin.
    pub begins: &'static str,
}

/// The issue for a second session in one stream. Its usage is added to that of the first.
const OTHER_SESSION: &str = "another session starts here, and the usage of both is added up";

/// The tools whose traces are read. They are tried in this order.
static TOOLS: &[&Tool] = &[
    &qwen::SESSION,
    &claude::SESSION,
    &claude::stream::CLAUDE,
    &claude::stream::QWEN,
    &codex::ROLLOUT,
    &codex::exec::STREAM,
    &gemini::SESSION,
    &gemini::DOCUMENT,
    &gemini::stream::STREAM,
    &swe_agent::TRAJECTORY,
    &mini_swe_agent::TRAJECTORY,
    &harbor::TRIAL,
    &harbor::CLAUDE_TRIAL,
    &harbor::CODEX_TRIAL,
    &harbor::MINI_TRIAL,
    &inspect::LOG,
    &atif::TRAJECTORY,
    &openhands::CONVERSATION,
    &openhands::EVENTS,
    &openhands::exported::TRAJECTORY,
    &openhands::instance::INSTANCES,
    &otlp::TRACES,
    &tau2::RESULTS,
    &tau2::SIMULATION,
];

/// Returns whether a file of this name may be a trace, so that it is worth opening.
pub fn may_be_trace(name: &str) -> bool {
    origin::has_ending(
        name,
        &[
            ".jsonl",
            ".jsonl.zst",
            ".jsonl.gz",
            ".json",
            ".traj",
            ".eval",
        ],
    )
}

/// Returns the tool that wrote a file with this name and beginning.
pub fn tool(name: &str, head: &[u8]) -> Option<&'static Tool> {
    tool_of(name, &lines::mended(head, origin::is_lines(name)))
}

/// Returns the tool that wrote a file with this name and beginning. The beginning must not end in a
/// torn line. `A.JSONL` is treated as `A.jsonl`.
fn tool_of(name: &str, head: &[u8]) -> Option<&'static Tool> {
    let name = &*match name.rsplit_once('.') {
        Some((start, ending)) => Cow::Owned(format!("{start}.{}", ending.to_ascii_lowercase())),
        None => Cow::Borrowed(name),
    };
    TOOLS.iter().find(|tool| (tool.is)(name, head)).copied()
}

/// Returns the number of a tool in this build.
#[cfg(feature = "board")]
pub fn number_of(tool: &'static Tool) -> Option<usize> {
    TOOLS.iter().position(|known| std::ptr::eq(*known, tool))
}

/// Returns the tool with this number.
#[cfg(feature = "board")]
pub fn numbered(number: usize) -> Option<&'static Tool> {
    TOOLS.get(number).copied()
}

impl Tool {
    /// Returns where in a run's directory to find further runs: the directories on the way; `*`
    /// matches any.
    pub fn runs_inside(&self) -> Option<&'static [&'static str]> {
        (self.format == harbor::TRIAL.format).then_some(harbor::RUNS_INSIDE)
    }

    /// Returns the tool that reads a directory of this one. `has` checks whether a file exists. If
    /// the document with the steps is missing, the steps are read from the agent's output.
    pub fn for_directory(&'static self, has: impl Fn(&str) -> bool) -> &'static Self {
        let is_trial = std::ptr::eq(self, &raw const harbor::TRIAL);
        if is_trial {
            harbor::with_records(has).unwrap_or(self)
        } else {
            self
        }
    }

    /// Returns where to find the files of child runs, for tools that store them in a directory
    /// named after the session.
    pub fn child_files(&self) -> Option<ChildFiles> {
        let files = |below, is_beside_directory, by_id, begins| ChildFiles {
            below,
            is_beside_directory,
            by_id,
            begins,
        };
        match self.format {
            format if format == claude::SESSION.format => {
                Some(files("{}/subagents", false, false, "agent-"))
            }
            format if format == gemini::SESSION.format => Some(files("{}", false, true, "")),
            format if format == qwen::SESSION.format => {
                Some(files("subagents/{}", true, true, "agent-"))
            }
            _ => None,
        }
    }

    /// Creates a reader for one trace.
    pub fn reader(&self) -> Box<dyn Reader> {
        (self.reader)()
    }
}

/// Reads a manifest.
///
/// # Errors
/// Returns an issue if no part of the manifest can be used: it is torn, not JSON, or not an object.
pub fn manifest(text: &[u8]) -> Result<(Manifest, Vec<Remark>), Remark> {
    let format = |text: &str| {
        let row = FORMATS.iter().find(|row| (row.recognise)(text));
        row.map_or(&Format::UNKNOWN, |row| &row.format)
    };
    qitos::manifest(text, format)
}

/// Reads a line of steps into the form that the index keeps. Never fails. The caller fills in the
/// offset.
pub fn step_head(line: &[u8], names: &mut Names) -> (StepHead, Vec<Remark>) {
    let mut head = StepHead::default();
    let text = std::str::from_utf8(line)
        .ok()
        .filter(|text| !has_half_pair(text));
    // Nearly all lines parse directly. Only the others take the slower path that finds out what is
    // wrong.
    if let Some(step) = text.and_then(qitos::step) {
        head.absorb(&step, names);
        return (head, step.remarks);
    }
    let record = Record::whole(line);
    let Some(step) = step(&record) else {
        return (StepHead::unread(record.fate, line), record.remarks);
    };
    let mut remarks = record.remarks.clone();
    head.fate = record.fate;
    head.absorb(&step, names);
    remarks.extend(step.remarks);
    (head, remarks)
}

/// Reads a line of events into the form that the index keeps. Never fails. The caller fills in the
/// offset.
pub fn event_head(line: &[u8], names: &mut Names) -> (EventHead, Option<EventNote>, Vec<Remark>) {
    qitos::event_head(line, names)
}

/// Returns the step in a record, if there is one.
pub fn step<'a>(record: &'a Record<'_>) -> Option<Step<'a>> {
    qitos::step(&record.text).filter(|_| record.fate.is_readable())
}

#[cfg(all(test, feature = "board"))]
pub(crate) use qitos::{event as event_in, step as step_in};

/// Returns the fields of an event that its head doesn't have.
pub fn event<'a>(record: &'a Record<'_>) -> Event<'a> {
    if record.fate.is_readable() {
        qitos::event(&record.text)
    } else {
        Event::default()
    }
}

#[cfg(test)]
mod tests;
