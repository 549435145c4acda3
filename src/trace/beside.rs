//! Reads the content of a document outside of its records.

use std::io::{self, Read as _};

use super::RunDir;
use super::limits::MAX_MANIFEST_BYTES;
use super::patience::Patience;
use super::stamp::Stamp;
use crate::format::{Reader, Shape};
use crate::model::{Delta, Index, Issue, IssueKind, Record, Span, TraceFile};

/// Follows the extra document of runs whose records have their own files or lines.
#[derive(Debug, Default)]
pub(super) struct BesideFile {
    seen: Option<Stamp>,
    is_torn: bool,
}

impl BesideFile {
    /// Returns the stamp of the document at the last read.
    pub(super) fn seen(&self) -> Option<Stamp> {
        self.seen
    }

    /// Returns whether the document is incomplete.
    pub(super) fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// Passes the newest lines of the file that repeats the records to `reader` if it changed.
    /// Returns whether the records must be read again.
    pub(super) fn look_at_clock(&mut self, dir: &RunDir, reader: &mut dyn Reader) -> bool {
        let lines = match dir.stat(TraceFile::Manifest) {
            Ok(stamp) if self.seen == Some(stamp) && stamp.is_settled() => return false,
            Ok(stamp) => dir.clock().map(|lines| (Some(stamp), lines)),
            Err(error) => Err(error),
        };
        let (seen, lines) = match lines {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            // The records can be read without it. The reader reports what it doesn't know.
            read => read.unwrap_or_default(),
        };
        self.seen = seen;
        reader.clock(&lines)
    }

    /// Passes the document to `reader` if it changed.
    ///
    /// # Errors
    /// Fails if the document can't be read.
    pub(super) fn look(&mut self, dir: &RunDir, reader: &mut dyn Reader) -> io::Result<()> {
        let stamp = match dir.stat(TraceFile::Manifest) {
            Ok(stamp) => stamp,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.seen = None;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if self.seen == Some(stamp) && stamp.is_settled() && !self.is_torn {
            return Ok(());
        }
        let bytes = match dir.read_all(TraceFile::Manifest, MAX_MANIFEST_BYTES) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::WouldBlock
                ) =>
            {
                return Ok(());
            }
            read => read?,
        };
        let read = Record::whole(&bytes);
        self.seen = Some(stamp);
        self.is_torn = !read.fate.is_readable();
        if !self.is_torn {
            reader.beside(&read.text);
        }
        Ok(())
    }

    /// Reports the current issues of the document.
    pub(super) fn passing(&self, delta: &mut Delta) {
        let reason = self
            .is_torn
            .then(|| "the file is incomplete; showing its last complete version".to_owned());
        let (kind, file) = (IssueKind::Torn, TraceFile::Manifest);
        delta.passing.extend(reason.map(|reason| Issue {
            kind,
            file,
            line: None,
            offset: None,
            reason,
        }));
    }
}

/// A document without its records.
#[derive(Debug)]
pub struct BesideRecords {
    /// Valid JSON if the document is. An empty string replaces each record.
    pub bytes: Vec<u8>,
    /// The number of bytes outside of records.
    pub len: u64,
    /// The document's offset in its file.
    pub offset: u64,
}

impl RunDir {
    /// Returns the content of the run's document outside of the records in `index`. Returns `None`
    /// if records have their own files or lines.
    ///
    /// # Errors
    /// Fails if the document can't be read, or has more than `max` bytes.
    pub fn beside_records(&self, index: &Index, max: u64) -> io::Result<Option<BesideRecords>> {
        let is_document = |shape| {
            matches!(
                shape,
                Shape::Document(_)
                    | Shape::Directory { .. }
                    | Shape::Several(_)
                    | Shape::Composed(_)
            )
        };
        if !self.tool().is_some_and(|tool| is_document(tool.shape)) || self.has_no_records() {
            return Ok(None);
        }
        let document = self.document(TraceFile::Events, Patience::Wait)?;
        let (mut bytes, offset) = (Vec::new(), document.start.0);
        document
            .input
            .take(max.saturating_add(1))
            .read_to_end(&mut bytes)?;
        if bytes.len() as u64 > max {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("it has more than {max} bytes"),
            ));
        }
        let mut spans: Vec<Span> = index.events().iter().map(|event| event.span).collect();
        spans.sort_unstable_by_key(|span| span.offset);
        let (mut until, mut len) = (0, bytes.len() as u64);
        for span in spans {
            let from = span.offset.saturating_sub(offset);
            // One record may be several events.
            if from < until || span.len < 2 {
                continue;
            }
            until = from.saturating_add(span.len);
            let range = usize::try_from(from)
                .ok()
                .zip(usize::try_from(until).ok())
                .map(|(from, until)| from..until);
            if let Some(record) = range.and_then(|range| bytes.get_mut(range)) {
                record.fill(b' ');
                record.iter_mut().take(2).for_each(|byte| *byte = b'"');
                len -= span.len;
            }
        }
        Ok(Some(BesideRecords { bytes, len, offset }))
    }
}
