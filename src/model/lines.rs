//! Defines how the lines of a run are read on demand.

use super::files::{MAX_LINE_BYTES, Span, TraceFile};
use super::record::Record;

/// A source of a run's lines, read on demand.
pub trait Lines {
    /// Returns the bytes of a line.
    ///
    /// # Errors
    /// Returns why the line can't be read, as a sentence.
    fn line(&self, file: TraceFile, span: Span) -> Result<Vec<u8>, String>;

    /// Returns the bytes of a line that board parses.
    ///
    /// # Errors
    /// As [`Lines::line`], and if the line is longer than [`MAX_LINE_BYTES`].
    fn short_line(&self, file: TraceFile, span: Span) -> Result<Vec<u8>, String> {
        if span.len > MAX_LINE_BYTES {
            return Err(format!("it has {} bytes, more than board parses", span.len));
        }
        self.line(file, span)
    }

    /// Returns a line that board parses, as text.
    ///
    /// # Errors
    /// As [`Lines::short_line`].
    fn record(&self, file: TraceFile, span: Span) -> Result<Record<'static>, String> {
        self.short_line(file, span).map(Record::read)
    }

    /// Returns the manifest's bytes.
    ///
    /// # Errors
    /// Returns why the manifest can't be read, as a sentence.
    fn manifest(&self) -> Result<Vec<u8>, String>;

    /// Returns the name of the file that contains the manifest. Other tools have their own names.
    fn manifest_name(&self) -> String {
        TraceFile::Manifest.name().to_owned()
    }

    /// Returns the manifest's text, or `None` if it can't be read.
    fn manifest_text(&self) -> Option<String> {
        let bytes = self.manifest().ok()?;
        Some(Record::read(bytes).text.into_owned())
    }

    /// Checks that a file that a line refers to is inside the run's directory.
    ///
    /// # Errors
    /// Returns why the file can't be shown, as a sentence.
    fn has_asset(&self, recorded: &str) -> Result<(), String>;

    /// Returns the place of the run in its file, if the file holds several runs.
    fn in_file(&self) -> Option<InFile> {
        None
    }
}

/// The place of a run in a file that holds several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InFile {
    /// The name of the run in the file.
    pub name: String,
    /// The member with its records, if the file is an archive.
    pub member: Option<String>,
}

impl InFile {
    /// Returns the path of the file. `path` is that of the run: the file's, followed by the run's
    /// name or its member.
    pub fn file_of<'a>(&self, path: &'a str) -> Option<&'a str> {
        let ends = [self.member.as_deref(), Some(&*self.name)];
        let mut ends = ends.into_iter().flatten();
        ends.find_map(|end| path.strip_suffix(end)?.strip_suffix('/'))
    }
}
