//! Represents the issues found in a run's files. Every issue is a value with its position, never a
//! log line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::files::TraceFile;
use super::words::words;

/// Maximum number of issues listed per run. All are counted. A file of a million broken lines has one cause.
const MAX_LISTED: usize = 1_000;

/// An issue and its position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issue {
    /// The kind of issue.
    pub kind: IssueKind,
    /// The file that has the issue.
    pub file: TraceFile,
    /// The 1-based line.
    pub line: Option<u64>,
    /// The byte offset of the line's start.
    pub offset: Option<u64>,
    /// One sentence that explains the issue.
    pub reason: String,
}

words! {
    /// The kinds of issue, and their names in JSON.
    pub enum IssueKind {
        /// A file of the run doesn't exist.
        Missing = "missing file",
        /// A file can't be read as long as it doesn't change, because it isn't a regular file or is too
        /// large.
        Unreadable = "unreadable file",
        /// A file can't be read right now, for a reason that may not be the file's: missing
        /// permissions, no space to decompress it, a failing device. Its content is unknown.
        Away = "unreadable now",
        /// A line or a manifest is truncated.
        Torn = "torn",
        /// A line or a manifest isn't JSON.
        NotJson = "not JSON",
        /// A line or a manifest is JSON, but not an object.
        Foreign = "not an object",
        /// A line is blank.
        Blank = "blank line",
        /// A line is JSON only after a repair: bare `NaN`, invalid UTF-8, a lone surrogate.
        Repaired = "repaired",
        /// A field has a type or a value that no known writer uses.
        Field = "unexpected field",
        /// A line is longer than board parses.
        TooLong = "too long",
        /// A line contains several complete records.
        Joined = "joined lines",
        /// The last line has no line terminator.
        Unterminated = "no line end",
        /// Step ids repeat, or events can't be joined to steps with certainty.
        Join = "repeated ids",
        /// Events name a step that has no line.
        NoStepLine = "no step line",
        /// Counts or names in the manifest differ from the files.
        Count = "count differs",
        /// The program's own count differs from the steps, as expected: it counts something else.
        CountsOther = "different count",
        /// The directory's name differs from the run's name in the manifest.
        Renamed = "renamed",
        /// Several runs wrote to the same directory.
        Segments = "several runs",
        /// Records of another run were copied into the file.
        Copied = "copied",
        /// The conversation was rewound, so some of the steps didn't lead to the end.
        Left = "branch left",
        /// The writer redacted a value.
        Redacted = "redacted",
        /// Time goes backwards between events.
        Time = "time goes back",
        /// Times have no UTC offset.
        Offset = "no time zone",
        /// board doesn't know the schema version.
        Version = "unknown version",
        /// A step begins with a different state than the previous one left, although its writer rules
        /// that out.
        State = "state breaks",
        /// The state changed between two steps.
        Outside = "changed outside",
        /// Step ids jump: lines between them are missing.
        Gap = "missing ids",
        /// Lines are counted but not kept, because they contain no record or the run has more than the
        /// board keeps.
        Skipped = "skipped",
    }
}

impl IssueKind {
    /// Returns whether the issue costs data (a problem) or is only worth knowing (a note).
    pub fn is_problem(self) -> bool {
        use IssueKind::{
            Away, Count, Field, Foreign, Gap, Missing, NotJson, Repaired, Skipped, State, TooLong,
            Torn, Unreadable,
        };
        let of_a_file = matches!(self, Missing | Unreadable | Away | Torn | NotJson | TooLong);
        of_a_file
            || matches!(
                self,
                Foreign | Field | Repaired | Count | State | Gap | Skipped
            )
    }

    /// Describes the kind in a word or two, for readers.
    pub fn words(self) -> &'static str {
        match self {
            IssueKind::Torn => "truncated line",
            IssueKind::Repaired => "repaired line",
            IssueKind::Field => "unexpected value",
            IssueKind::TooLong => "line too long",
            IssueKind::Unterminated => "missing final newline",
            IssueKind::NoStepLine => "missing step line",
            IssueKind::Count => "counts differ",
            IssueKind::CountsOther => "count of something else",
            IssueKind::Renamed => "renamed run",
            IssueKind::Copied => "copied records",
            IssueKind::Left => "abandoned steps",
            IssueKind::Redacted => "redacted value",
            IssueKind::Time => "timestamps out of order",
            IssueKind::Offset => "no UTC offset",
            IssueKind::State => "state mismatch",
            IssueKind::Outside => "change between steps",
            IssueKind::Gap => "gap in step ids",
            IssueKind::Skipped => "skipped lines",
            other => other.as_str(),
        }
    }

    /// Describes `count` issues of the kind: `1 count differs`, `2 counts differ`.
    pub fn counted(self, count: usize) -> String {
        match (self, count) {
            (IssueKind::Count, 1) => "1 count differs".to_owned(),
            (IssueKind::CountsOther, 2..) => format!("{count} counts of something else"),
            _ => format!("{count} {}", self.words()),
        }
    }
}

/// The issues of a run. All are counted, and the first ones are listed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issues {
    counts: BTreeMap<IssueKind, usize>,
    listed: Vec<Issue>,
}

impl Issues {
    /// Counts an issue, and lists it if there's room.
    pub fn push(&mut self, issue: Issue) {
        *self.counts.entry(issue.kind).or_default() += 1;
        if self.listed.len() < MAX_LISTED {
            self.listed.push(issue);
        }
    }

    /// Returns how many issues there are, listed or not.
    pub fn total(&self) -> usize {
        self.counts.values().sum()
    }

    /// Returns how many issues cost data.
    pub fn problems(&self) -> usize {
        self.counts
            .iter()
            .filter(|(kind, _)| kind.is_problem())
            .map(|(_, count)| count)
            .sum()
    }

    /// Returns the listed issues, in order of discovery.
    pub fn listed(&self) -> &[Issue] {
        &self.listed
    }

    /// Returns the number of issues of each kind.
    pub fn counts(&self) -> impl Iterator<Item = (IssueKind, usize)> {
        self.counts.iter().map(|(kind, count)| (*kind, *count))
    }

    /// Returns the number of issues of one kind.
    pub fn count(&self, kind: IssueKind) -> usize {
        self.counts.get(&kind).copied().unwrap_or_default()
    }
}

impl Extend<Issue> for Issues {
    fn extend<T: IntoIterator<Item = Issue>>(&mut self, issues: T) {
        issues.into_iter().for_each(|issue| self.push(issue));
    }
}

/// A remark on a line, without a position, which the reader knows.
pub type Remark = (IssueKind, String);
