//! Describes how the files of a tool are split into runs and records.

/// Reads files near that of a run, as far as it's allowed.
pub trait Nearby {
    /// Returns the names in a directory, or nothing if it doesn't exist.
    ///
    /// # Errors
    /// Fails if it can't be read now.
    fn names(&self, path: &[&str]) -> std::io::Result<Vec<String>>;

    /// Returns the text of a file. Returns `None` if it doesn't exist, isn't a regular file, has more
    /// than `most` bytes or more than any record, or isn't UTF-8.
    ///
    /// # Errors
    /// Fails if it can't be read now.
    fn text(&self, path: &[&str], most: usize) -> std::io::Result<Option<String>>;
}

/// Makes the records before those in a run's file from other files. The paths of those begin in the
/// directory of the run's companion.
#[derive(Debug)]
pub struct Before {
    /// Returns what identifies the records before those in the file of this name: if it's the same
    /// text, they are the same. `None` if there are none.
    pub snapshot: fn(&str, &dyn Nearby) -> std::io::Result<Option<String>>,
    /// Returns the records with this identity as lines.
    pub records: fn(&str, &dyn Nearby) -> std::io::Result<String>,
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
    /// A document that board makes from a file, which identifies the run, and from the files of its
    /// messages and their parts.
    Composed(&'static Composed),
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
            Self::Lines | Self::Document(_) | Self::Several(_) | Self::Composed(_) => false,
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

/// Where the files are from which the document of a run is made. The file of the run has its name
/// and a number of directories above it. Next to the uppermost of these are a directory with one of
/// the run's name, which has a file for each message, and a directory with one for each message, which
/// has a file for each part. All of them end in `.json`. The document is
/// `{"info":RUN,"messages":[{"info":MESSAGE,"parts":[PART, ...]}, ...]}`, in the order of the names.
#[derive(Debug)]
pub struct Composed {
    /// The paths of the records in the document.
    pub paths: Paths,
    /// How many directories are above the file of the run.
    pub levels: usize,
    /// The directory of the messages, and how the names of the runs in it begin.
    pub messages: (&'static str, &'static str),
    /// The directory of the parts, and how the names of the messages in it begin.
    pub parts: (&'static str, &'static str),
}

impl Composed {
    /// Returns whether the directory `name` in `folder` holds messages or parts.
    pub fn has(&self, folder: &str, name: &str) -> bool {
        let is = |(known, begins): (&str, &str)| folder == known && name.starts_with(begins);
        is(self.messages) || is(self.parts)
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
    /// Set if the file is an SQLite database whose rows are the runs and their records. A run's
    /// document is then made from its rows.
    pub rows: Option<&'static Rows>,
    /// Set if the runs are sections of a text. A run's document is then made from its lines.
    pub sections: Option<&'static Sections>,
}

impl Several {
    /// A file without runs. Rows of the table name what theirs have.
    pub const NONE: Self = Self {
        paths: &[],
        runs: &[],
        named_by: &[],
        name: |_| None,
        member: |_| None,
        beside: &[],
        is_run_alone: false,
        lines: None,
        apart: None,
        rows: None,
        sections: None,
    };
}

/// Runs that are sections of a text. Each goes from the line that begins it to the next such line.
#[derive(Debug)]
pub struct Sections {
    /// Returns the name of the run that a line begins.
    pub begins: fn(&[u8]) -> Option<String>,
    /// Returns whether a line shows that its section is a run.
    pub shows: fn(&[u8]) -> bool,
    /// Begins to make the document of a section.
    pub rewrite: fn() -> Box<dyn Rewrite>,
}

/// Makes a JSON document from the lines of a section.
pub trait Rewrite: std::fmt::Debug + Send {
    /// Takes the next line, and adds to `out` what is complete. `is_cut` if the line was too long to
    /// read as a whole.
    fn line(&mut self, line: &str, is_cut: bool, out: &mut Vec<u8>);

    /// Adds the rest of the document.
    fn end(&mut self, out: &mut Vec<u8>);
}

/// Runs that are rows of an SQLite database. Nothing but these tables and columns is ever read, so
/// that no credential in the same file is. A run's document is an object: its row in `run`, its
/// `children` and further rows, then its `messages`, each with its `parts`.
#[derive(Debug)]
pub struct Rows {
    /// The noun for the database, with its article: "an OpenCode store".
    pub what: &'static str,
    /// The rows of the runs, with a column `id`, and its name in the document.
    pub run: Table,
    /// The columns of the run's row that show whether any of its rows changed.
    pub versions: &'static [&'static str],
    /// Queries for the rest of what shows that: the id of a run first. The first one whose table
    /// exists is made.
    pub marks: &'static [Mark],
    /// The column of the run's row with the time of its last change, and how many microseconds its
    /// unit has. A mark may have a later time.
    pub written: (&'static str, f64),
    /// The column of the run's row with the id of its parent.
    pub parent: &'static str,
    /// The records.
    pub messages: Table,
    /// The table with the parts of messages, if they aren't in the message itself.
    pub parts: Option<Table>,
    /// Further rows of a run.
    pub beside: Option<Table>,
    /// The databases of other tools with the same name, whose runs aren't in them.
    pub strangers: &'static [Stranger],
    /// Returns whether a part is left out, because it has no facts and no mark shows its changes.
    /// Takes its JSON.
    pub leaves_out: fn(&str) -> bool,
}

/// A database of another tool with the same name. It lists runs that have their own files.
#[derive(Debug)]
pub struct Stranger {
    /// Columns by which it is recognized. They are in its table with the name of the runs' table.
    pub columns: &'static [&'static str],
    /// The reason for skipping it.
    pub reason: &'static str,
}

/// A table of an SQLite database.
#[derive(Debug)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Its name in the document.
    pub key: &'static str,
    /// The column with the id of the row that its rows belong to. Empty if they belong to none.
    pub of: &'static str,
    /// The columns by which its rows are sorted.
    pub order: &'static [&'static str],
    /// The columns that are read, if they exist.
    pub columns: &'static [&'static str],
    /// Those of them that contain JSON.
    pub json: &'static [&'static str],
    /// The JSON column whose members become members of the row, or an empty string.
    pub spread: &'static str,
}

/// A query for the state of each run's rows.
#[derive(Debug)]
pub struct Mark {
    /// The table that must exist.
    pub table: &'static str,
    /// The query. Its first column is the id of the run.
    pub query: &'static str,
    /// How many microseconds the unit of its last column has, if that is the time of the last change.
    pub written: Option<f64>,
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
    /// Returns whether a record that belongs to no run is expected in such a file.
    pub is_other: fn(&str) -> bool,
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
pub(crate) type Paths = &'static [&'static [&'static str]];
