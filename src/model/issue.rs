//! What is odd about the files? Every oddity is a value with its place, never a log line.

use std::collections::BTreeMap;

use super::TraceFile;

/// At most this many issues of a run are listed; all are counted. A file of a million broken lines has one cause.
const MAX_LISTED: usize = 1_000;

/// One oddity and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// What sort of oddity it is.
    pub kind: IssueKind,
    /// The file it is in.
    pub file: TraceFile,
    /// The line, counted from 1.
    pub line: Option<u64>,
    /// The byte offset of the line's start.
    pub offset: Option<u64>,
    /// One sentence for a person.
    pub reason: String,
}

/// The sorts of oddity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IssueKind {
    /// A file of the run is not there.
    Missing,
    /// A file cannot be read, and that stays so as long as it does not change: it is not a regular file, or too large.
    Unreadable,
    /// A file cannot be read right now, though it may not be the file's fault: missing rights, no room to unpack it, a device
    /// that fails. Nothing is known of what it says.
    Away,
    /// A line or a manifest ends in the middle.
    Torn,
    /// A line or a manifest is not JSON.
    NotJson,
    /// A line or a manifest is JSON, but not an object.
    Foreign,
    /// A line is blank.
    Blank,
    /// A line is JSON only after a repair: bare `NaN`, bad UTF-8, a lone surrogate.
    Repaired,
    /// A field has a type or a value that no known writer gives it.
    Field,
    /// A line is longer than the board parses.
    TooLong,
    /// A line holds several complete records.
    Joined,
    /// A last line without its line end.
    Unterminated,
    /// Step ids repeat, or events cannot be joined to steps for certain.
    Join,
    /// Events name a step that has no line.
    NoStepLine,
    /// Counts or names in the manifest differ from the files.
    Count,
    /// The directory has another name than the run its manifest speaks of.
    Renamed,
    /// Several runs wrote into one directory.
    Segments,
    /// Records of another run were copied into the file.
    Copied,
    /// The run went back to before some of its steps.
    Left,
    /// A value was blanked by the writer.
    Redacted,
    /// Time goes backwards between events.
    Time,
    /// Times name no offset.
    Offset,
    /// A schema version the board does not know.
    Version,
    /// A step begins with another state than the one before it left, and its writer promises that it does not.
    State,
    /// The state was changed between two steps, by no step.
    Outside,
    /// Step ids jump: lines between them are missing.
    Gap,
    /// Lines are counted and not kept: they hold no record, or the run has more than the board keeps.
    Skipped,
}

impl IssueKind {
    /// Whether the oddity costs data (a problem) or is only worth knowing (a note).
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

    /// A word or two for tables.
    pub fn label(self) -> &'static str {
        match self {
            IssueKind::Missing => "missing file",
            IssueKind::Unreadable => "unreadable file",
            IssueKind::Away => "unreadable now",
            IssueKind::Torn => "torn",
            IssueKind::NotJson => "not JSON",
            IssueKind::Foreign => "not an object",
            IssueKind::Blank => "blank line",
            IssueKind::Repaired => "repaired",
            IssueKind::Field => "odd field",
            IssueKind::TooLong => "too long",
            IssueKind::Joined => "joined lines",
            IssueKind::Unterminated => "no line end",
            IssueKind::Join => "repeated ids",
            IssueKind::NoStepLine => "no step line",
            IssueKind::Count => "count differs",
            IssueKind::Renamed => "renamed",
            IssueKind::Segments => "several runs",
            IssueKind::Copied => "copied",
            IssueKind::Left => "branch left",
            IssueKind::Redacted => "redacted",
            IssueKind::Time => "time goes back",
            IssueKind::Offset => "no time zone",
            IssueKind::Version => "unknown version",
            IssueKind::State => "state breaks",
            IssueKind::Outside => "changed outside",
            IssueKind::Gap => "missing ids",
            IssueKind::Skipped => "skipped",
        }
    }
}

/// The issues of a run: all counted, the first ones listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Issues {
    counts: BTreeMap<IssueKind, usize>,
    listed: Vec<Issue>,
}

impl Issues {
    /// Counts an issue and lists it while there is room.
    pub fn push(&mut self, issue: Issue) {
        *self.counts.entry(issue.kind).or_default() += 1;
        if self.listed.len() < MAX_LISTED {
            self.listed.push(issue);
        }
    }

    /// How many there are, listed or not.
    pub fn total(&self) -> usize {
        self.counts.values().sum()
    }

    /// How many cost data.
    pub fn problems(&self) -> usize {
        self.counts
            .iter()
            .filter(|(kind, _)| kind.is_problem())
            .map(|(_, count)| count)
            .sum()
    }

    /// The listed ones, in order of discovery.
    pub fn listed(&self) -> &[Issue] {
        &self.listed
    }

    /// How many of each sort.
    pub fn counts(&self) -> impl Iterator<Item = (IssueKind, usize)> {
        self.counts.iter().map(|(kind, count)| (*kind, *count))
    }

    /// How many of one sort.
    pub fn count(&self, kind: IssueKind) -> usize {
        self.counts.get(&kind).copied().unwrap_or_default()
    }
}

impl Extend<Issue> for Issues {
    fn extend<T: IntoIterator<Item = Issue>>(&mut self, issues: T) {
        issues.into_iter().for_each(|issue| self.push(issue));
    }
}
