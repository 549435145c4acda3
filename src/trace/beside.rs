//! What does a document say beside its records? Its bytes, with the records left out.

use std::io::{self, Read as _};

use super::RunDir;
use crate::format::Shape;
use crate::model::{Index, Span, TraceFile};

/// A document without its records.
#[derive(Debug)]
pub struct BesideRecords {
    /// JSON where the document is: an empty string stands in the place of each record.
    pub bytes: Vec<u8>,
    /// How many bytes were no record's.
    pub len: u64,
    /// Where in its file the document begins.
    pub offset: u64,
}

impl RunDir {
    /// What the document of the run says beside the records that `index` has; `None` where records have files or lines of
    /// their own.
    ///
    /// # Errors
    /// It cannot be read, or has more than `max` bytes.
    pub fn beside_records(&self, index: &Index, max: u64) -> io::Result<Option<BesideRecords>> {
        let is_document = |shape| matches!(shape, Shape::Document(_) | Shape::Directory { .. } | Shape::Several(_));
        if !self.tool().is_some_and(|tool| is_document(tool.shape)) || self.has_no_records() {
            return Ok(None);
        }
        let document = self.document(TraceFile::Events)?;
        let (mut bytes, offset) = (Vec::new(), document.start.0);
        document.input.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > max {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("more than {max} bytes")));
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
            let range = usize::try_from(from).ok().zip(usize::try_from(until).ok()).map(|(from, until)| from..until);
            if let Some(record) = range.and_then(|range| bytes.get_mut(range)) {
                record.fill(b' ');
                record.iter_mut().take(2).for_each(|byte| *byte = b'"');
                len -= span.len;
            }
        }
        Ok(Some(BesideRecords { bytes, len, offset }))
    }
}
