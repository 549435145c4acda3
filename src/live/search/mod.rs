//! Searches the files of a run for a text.
//!
//! It reads all three files, because an index contains no texts. The index only maps lines to steps
//! and events. In a document, the records are read one by one, and the rest at once.

use std::sync::Arc;

use crate::analysis::format::counted;
use crate::analysis::search::{InLine, LineMatch, LinePlace, Needle};
use crate::model::{EventHead, Index, MAX_LINE_BYTES, TraceFile};
use crate::trace::RunDir;

/// Larger manifests aren't searched, nor is the rest of a larger document. Locating a match in them
/// takes about twenty times their size.
const MAX_MANIFEST_SEARCHED: u64 = 16 << 20;

/// Receives the progress and the results of a search.
pub(crate) trait HitSink {
    /// Reports that `bytes` more bytes were searched. Returning false ends the search.
    fn read(&mut self, bytes: u64) -> bool;
    /// Reports a line that contains the text. Returning false ends the search.
    fn found(&mut self, found: LineMatch) -> bool;
    /// Reports something that couldn't be searched, and why.
    fn left_out(&mut self, file: TraceFile, why: String);
}

/// Searches a run. `index` is called once something is found. A line that the index doesn't contain
/// is located by its offset. Returns false if the listener ended the search.
pub(crate) fn search(
    dir: &RunDir,
    needle: &Needle,
    index: &mut dyn FnMut() -> Arc<Index>,
    sink: &mut dyn HitSink,
) -> bool {
    if dir.is_document() {
        let index = index();
        return manifest(dir, needle, sink)
            && records(dir, needle, &index, sink)
            && beside_records(dir, needle, &index, sink);
    }
    manifest(dir, needle, sink)
        && dir
            .line_files()
            .iter()
            .all(|file| lines(dir, *file, needle, index, sink))
}

/// Searches the manifest, which is one document over many lines.
fn manifest(dir: &RunDir, needle: &Needle, sink: &mut dyn HitSink) -> bool {
    let file = TraceFile::Manifest;
    let bytes = match dir.read_all(file, MAX_MANIFEST_SEARCHED) {
        Ok(bytes) => bytes,
        Err(error) => return missing(file, &error, sink),
    };
    let line = if needle.candidates(&bytes).next().is_some() {
        needle.look(&bytes)
    } else {
        InLine::default()
    };
    let goes_on = line.found == 0
        || sink.found(LineMatch {
            file,
            place: LinePlace::default(),
            line,
        });
    goes_on && sink.read(bytes.len() as u64)
}

fn lines(
    dir: &RunDir,
    file: TraceFile,
    needle: &Needle,
    index: &mut dyn FnMut() -> Arc<Index>,
    sink: &mut dyn HitSink,
) -> bool {
    let mut blocks = match dir.blocks(file) {
        Ok(blocks) => blocks,
        Err(error) => return missing(file, &error, sink),
    };
    loop {
        let block = match blocks.read() {
            Ok(Some(block)) => block,
            Ok(None) => break,
            Err(error) => return missing(file, &error, sink),
        };
        for range in needle.candidates(block.bytes) {
            let offset = block.offset + range.start as u64;
            let line = needle.look(block.bytes.get(range).unwrap_or_default());
            if line.found > 0
                && !sink.found(LineMatch {
                    file,
                    place: place(&index(), file, offset),
                    line,
                })
            {
                return false;
            }
        }
        if !sink.read(block.bytes.len() as u64) {
            return false;
        }
    }
    if blocks.too_long() > 0 {
        sink.left_out(
            file,
            format!(
                "{} longer than {MAX_LINE_BYTES} bytes",
                counted(blocks.too_long(), "line")
            ),
        );
    }
    true
}

/// Searches the records of a document one by one.
fn records(dir: &RunDir, needle: &Needle, index: &Index, sink: &mut dyn HitSink) -> bool {
    let file = TraceFile::Events;
    let is_too_long = |event: &&EventHead| event.span.len > MAX_LINE_BYTES;
    for event in index.events().iter().filter(|event| !is_too_long(event)) {
        let bytes = match dir.read_span(file, event.span) {
            Ok(bytes) => bytes,
            Err(error) => return missing(file, &error, sink),
        };
        let line = if needle.candidates(&bytes).next().is_some() {
            needle.look(&bytes)
        } else {
            InLine::default()
        };
        let place = || place(index, file, event.span.offset);
        if line.found > 0
            && !sink.found(LineMatch {
                file,
                place: place(),
                line,
            })
        {
            return false;
        }
        if !sink.read(bytes.len() as u64) {
            return false;
        }
    }
    let too_long = index.events().iter().filter(is_too_long).count();
    if too_long > 0 {
        sink.left_out(
            file,
            format!(
                "{} longer than {MAX_LINE_BYTES} bytes",
                counted(too_long, "record")
            ),
        );
    }
    true
}

/// Searches the content of a document outside of its records, such as how the run ended.
fn beside_records(dir: &RunDir, needle: &Needle, index: &Index, sink: &mut dyn HitSink) -> bool {
    let file = TraceFile::Events;
    let beside = match dir.beside_records(index, MAX_MANIFEST_SEARCHED) {
        Ok(Some(beside)) => beside,
        Ok(None) => return true,
        Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
            sink.left_out(file, format!("the rest of the document ({error})"));
            return true;
        }
        Err(error) => return missing(file, &error, sink),
    };
    let holds = needle.candidates(&beside.bytes).next().is_some();
    let line = if holds {
        needle.look(&beside.bytes)
    } else {
        InLine::default()
    };
    let place = LinePlace {
        offset: beside.offset,
        beside_records: true,
        ..LinePlace::default()
    };
    let goes_on = line.found == 0 || sink.found(LineMatch { file, place, line });
    goes_on && sink.read(beside.len)
}

/// Reports a file that can't be read. A missing file contains nothing and isn't reported.
fn missing(file: TraceFile, error: &std::io::Error, sink: &mut dyn HitSink) -> bool {
    if error.kind() != std::io::ErrorKind::NotFound {
        sink.left_out(file, error.to_string());
    }
    true
}

/// Returns the step or event of the line at `offset`.
fn place(index: &Index, file: TraceFile, offset: u64) -> LinePlace {
    match file {
        TraceFile::Manifest => LinePlace::default(),
        TraceFile::Steps => {
            let step = index.steps().position(&offset, |step| step.span.offset);
            LinePlace {
                offset,
                step,
                ..LinePlace::default()
            }
        }
        TraceFile::Events => {
            let event = index.events().position(&offset, |event| event.span.offset);
            let step = event
                .and_then(|event| index.group_at(event))
                .and_then(|group| index.step_of(group));
            LinePlace {
                offset,
                event,
                step,
                ..LinePlace::default()
            }
        }
    }
}

#[cfg(test)]
mod tests;
