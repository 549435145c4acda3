//! How does each tool write a trace? Bytes in, the shapes of `model` out.
//!
//! A format is one file here and one row of `TOOLS`. Behind this room nobody asks who wrote a run: what a record says
//! is in [`Step`], [`Event`] and [`Manifest`], and what no record of that sort can say is in
//! [`Capabilities`](crate::model::Capabilities). Must not know the disk, pages or rules.
//!
//! QitOS and this crate's own engine write a directory of three files, in dialects that one reader takes. Every other tool
//! has a row in `TOOLS` and a file of its own, which says by what its files are known, and how to read one of their
//! records (a line, an element of a document): it tells a [`Draft`] what the record is to the run, and which part of
//! which step it holds ([`Part`]). Each record is an event of the run. A step is put together from the parts in its
//! records, as a line in this crate's own layout: at index time to make its head, and again for a page from the same
//! records by the same function, so that the two cannot disagree.

/// Defines structs of the members of an object that are read, each as JSON text; of a repeated one the last counts. A
/// member whose key is no name of a field is given as `field = "key"`.
macro_rules! fields {
    ($(struct $name:ident { $($field:ident $(= $key:literal)?),* $(,)? })*) => { $(
        #[derive(Debug, Clone, Copy, Default)]
        struct $name<'a> {
            $($field: Option<&'a str>,)*
            /// How many members there are, with those that are not read.
            #[allow(dead_code, reason = "few ask for it")]
            members: usize,
        }

        impl<'a> $name<'a> {
            #[allow(dead_code, reason = "the outermost object is taken in member by member")]
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

            /// Takes a member in; whether it replaces one.
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
mod draft;
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
mod raised;
mod recent;
mod swe_agent;
mod tau2;
mod turns;
mod value;
mod watch;

#[cfg(test)]
pub(crate) use qitos::event_kind;

use std::ffi::OsStr;
use std::path::Path;

pub use draft::{Draft, EventDraft, Open, RecordPlace};
pub use lines::is_record;
pub use origin::{EMPTY, Origin, may_be_skipped, origin};
pub use part::{Answer, CallDraft, Part, Tokens, is_at_limit};
pub use value::uncut;
pub use watch::{Values, WatchedValue};

use crate::model::event::Event;
use crate::model::repair::{Remark, has_half_pair};
use crate::model::{EventHead, EventNote, Format, Manifest, Names, Record, Step, StepHead};

/// One row of the table.
struct Row {
    format: Format,
    /// Whether the text of a manifest is of this format; asked in the order of the table.
    recognise: fn(&str) -> bool,
}

/// The formats of a directory with a manifest.
static FORMATS: [&Row; 4] = [&board::BOARD, &qitos::V06, &qitos::V03, &qitos::V01];

/// A tool whose traces are read.
#[derive(Debug)]
pub struct Tool {
    /// What its traces are called and can hold.
    pub format: Format,
    /// How a file of it is cut into records.
    pub shape: Shape,
    /// Whether a file with this name and beginning (at most [`HEAD_BYTES`]) is one of its traces.
    is: fn(name: &str, head: &[u8]) -> bool,
    /// A reader for one of them.
    reader: fn() -> Box<dyn Reader>,
}

/// How a file is cut into records.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// A record a line, appended.
    Lines,
    /// One JSON document, replaced as a whole. Its records are the values at these paths, `*` for any item of a list:
    /// `&["trajectory", "*"]`.
    Document(Paths),
    /// A directory: the records stand in a document below it, and what else is known of the run in one beside.
    Directory {
        /// As for a document.
        paths: Paths,
        /// The directory of the document with the records.
        below: &'static str,
        /// Its name.
        records: &'static str,
        /// The name of the other document, which need not be there.
        beside: &'static str,
    },
    /// Several runs in one file, which is replaced as a whole.
    Several(&'static Several),
    /// A directory: the records are the lines of a file below it, and further facts of the run in another document.
    LinesBelow {
        /// The directory of the file.
        below: &'static str,
        /// Its name.
        records: &'static str,
        /// The name of the document, which need not be there.
        beside: &'static str,
    },
    /// A directory: the records stand in files of their own in one below it, and what else is known of the run in a
    /// document beside, which is replaced.
    Files {
        /// The directory of the files.
        below: &'static str,
        /// How their names begin.
        numbering: Numbering,
        /// The name of the document.
        beside: &'static str,
    },
}

impl Shape {
    /// Whether a directory is the run, and not a file.
    pub fn is_directory(self) -> bool {
        matches!(
            self,
            Self::Directory { .. } | Self::LinesBelow { .. } | Self::Files { .. }
        )
    }

    /// Whether a directory is the run in which a file of this shape was found, where it has the directories that
    /// `is_dir` says.
    pub fn is_whole(self, is_dir: impl Fn(&str) -> bool) -> bool {
        match self {
            Self::Lines | Self::Document(_) | Self::Several(_) => false,
            Self::Directory { .. } | Self::LinesBelow { .. } => true,
            // Before its first record, and where it was copied alone, the document is no run.
            Self::Files { below, .. } => is_dir(below),
        }
    }
}

/// How the file of a record is named: by these words, its number, and anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbering(pub &'static str);

impl Numbering {
    /// The number of the record that a file of this name holds.
    pub fn of(self, name: &str) -> Option<u64> {
        let rest = name.strip_prefix(self.0)?.strip_suffix(".json")?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest.get(..digits)?.parse().ok()
    }
}

/// How several runs stand in one file: as values of one JSON document, or as members of a zip archive. Either way a run is
/// a document of its own, and what is said of all of them stands beside.
#[derive(Debug)]
pub struct Several {
    /// The records of a run, by their paths in its document.
    pub paths: Paths,
    /// Where in a JSON document the runs are. What stands before the first of them is said of all.
    pub runs: Paths,
    /// What names a run, by its paths in that JSON document.
    pub named_by: Paths,
    /// The name of a run, of the values that name it, as JSON.
    pub name: fn(&[Option<String>]) -> Option<String>,
    /// The name of the run that is this member of an archive.
    pub member: fn(&str) -> Option<&str>,
    /// The members of an archive that tell of all runs; the first one that is there is read.
    pub beside: &'static [&'static str],
    /// Whether a JSON document that holds no run yet tells of something all the same.
    pub is_run_alone: bool,
    /// Each line of the file is a run's document, and its runs are named by their paths in that.
    pub lines: Option<&'static Lines>,
    /// How the records of the runs are told apart, where they stand among each other. A run's document is a list of its
    /// own then.
    pub apart: Option<&'static Apart>,
}

/// Runs that are a line of a file each.
#[derive(Debug)]
pub struct Lines {
    /// The noun for a line: "instance".
    pub what: &'static str,
}

/// Records of several runs that stand among each other, in one JSON document or one a line.
#[derive(Debug)]
pub struct Apart {
    /// The records, by their paths in each document.
    pub paths: Paths,
    /// How a line begins that is a document of its own.
    pub begins: &'static str,
    /// What a record says of its run, as JSON text.
    pub of: fn(&str) -> Option<Belongs>,
}

/// Where a record belongs.
#[derive(Debug)]
pub struct Belongs {
    /// The name of its run.
    pub run: String,
    /// Its place in that run, by when it began.
    pub order: u64,
    /// A run with such a record is one to be shown.
    pub shown: bool,
}

/// Paths to values of a document: `*` for any item of a list, `{}` for any member of an object.
pub type Paths = &'static [&'static [&'static str]];

/// Reads the records of one trace in order.
pub trait Reader: std::fmt::Debug + Send {
    /// Takes in a record: an object as JSON text, in a document any value. Every record that is an object has to become an
    /// event, once.
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>);

    /// Takes in the document beside the records, where there is one: JSON text.
    fn beside(&mut self, _text: &str) {}

    /// All records that there are were taken in: says what can only be said of all of them, such as how the run ended.
    fn look(&mut self, draft: &mut Draft<'_>);
}

/// A record, and where it came from.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// Its JSON text.
    pub text: &'a str,
    /// Which of the paths of [`Shape::Document`] it stands at.
    pub path: usize,
    /// Its key, where that path takes any member of an object.
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

/// So much of a file's beginning is looked at to know whose it is.
pub const HEAD_BYTES: usize = 64 << 10;

/// Where the files of a session's child runs lie.
#[derive(Debug, Clone, Copy)]
pub struct ChildFiles {
    /// The directory, relative to that of the session's file or the one above it; `{}` stands for the session's name.
    pub below: &'static str,
    /// Whether it is relative to the directory above.
    pub is_beside_directory: bool,
    /// Whether the session's name is its id, and not the name of its file.
    pub by_id: bool,
    /// How the names of the files begin.
    pub begins: &'static str,
}

/// What a stream has of a second session counts beside the first one.
const OTHER_SESSION: &str = "another session begins here: what both took is added up";

/// The tools whose traces are read; asked in this order.
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

/// Whether a file of this name may be a trace of a tool, so that it is worth a look.
pub fn may_be_trace(name: &str) -> bool {
    [".jsonl", ".jsonl.zst", ".json", ".traj", ".eval"]
        .iter()
        .any(|end| name.ends_with(end))
}

/// The tool that wrote a file with this name and beginning.
pub fn tool(name: &str, head: &[u8]) -> Option<&'static Tool> {
    tool_of(name, &lines::mended(head, origin::is_lines(name)))
}

/// The tool that wrote a file with this name and a beginning in which no line is torn.
fn tool_of(name: &str, head: &[u8]) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| (tool.is)(name, head)).copied()
}

/// The place of a tool among all, in this build.
#[cfg(feature = "board")]
pub fn number_of(tool: &'static Tool) -> Option<usize> {
    TOOLS.iter().position(|known| std::ptr::eq(*known, tool))
}

/// The tool at that place.
#[cfg(feature = "board")]
pub fn numbered(number: usize) -> Option<&'static Tool> {
    TOOLS.get(number).copied()
}

impl Tool {
    /// Where in the directory of one of its runs there are further runs: the directories on the way, `*` for any.
    pub fn runs_inside(&self) -> Option<&'static [&'static str]> {
        (self.format == harbor::TRIAL.format).then_some(harbor::RUNS_INSIDE)
    }

    /// The tool that reads a directory of this one, which has the files that `has` says: what the agent printed holds its
    /// steps where the document with them isn't there.
    pub fn for_directory(&'static self, has: impl Fn(&str) -> bool) -> &'static Self {
        let is_trial = std::ptr::eq(self, &raw const harbor::TRIAL);
        if is_trial {
            harbor::with_records(has).unwrap_or(self)
        } else {
            self
        }
    }

    /// Where the files of child runs lie, for tools that give them files of their own in a directory named after the session.
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

    /// A reader for one of its traces.
    pub fn reader(&self) -> Box<dyn Reader> {
        (self.reader)()
    }
}

/// Reads a manifest. `Err` says why nothing of it can be used.
///
/// # Errors
/// A remark for the list of issues: torn, not JSON, or not an object.
pub fn manifest(text: &[u8]) -> Result<(Manifest, Vec<Remark>), Remark> {
    let format = |text: &str| {
        let row = FORMATS.iter().find(|row| (row.recognise)(text));
        row.map_or(&Format::UNKNOWN, |row| &row.format)
    };
    qitos::manifest(text, format)
}

/// Reads a line of steps as the index keeps it; never fails. Its place is left for the caller to fill.
pub fn step_head(line: &[u8], names: &mut Names) -> (StepHead, Vec<Remark>) {
    let mut head = StepHead::default();
    let text = std::str::from_utf8(line)
        .ok()
        .filter(|text| !has_half_pair(text));
    // Nearly all lines are read at once; what is wrong with the others is found out apart.
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

/// Reads a line of events as the index keeps it; never fails. Its place is left for the caller to fill.
pub fn event_head(line: &[u8], names: &mut Names) -> (EventHead, Option<EventNote>, Vec<Remark>) {
    qitos::event_head(line, names)
}

/// The step that a record holds; `None` where it holds none.
pub fn step<'a>(record: &'a Record<'_>) -> Option<Step<'a>> {
    qitos::step(&record.text).filter(|_| record.fate.is_readable())
}

#[cfg(all(test, feature = "board"))]
pub(crate) use qitos::{event as event_in, step as step_in};

/// What the text of a line of events says, beyond its head.
pub fn event<'a>(record: &'a Record<'_>) -> Event<'a> {
    if record.fate.is_readable() {
        qitos::event(&record.text)
    } else {
        Event::default()
    }
}

#[cfg(test)]
mod tests;
