//! Where in the files of a run does a text stand?
//!
//! Reads all of the three files, since an index holds no texts. The index only tells which step or event a line is. Of a
//! document the records are read one by one, and what it says beside them at once.

use std::sync::Arc;

use crate::analysis::search::{InLine, LineMatch, LinePlace, Needle};
use crate::model::{EventHead, Index, MAX_LINE_BYTES, TraceFile};
use crate::trace::RunDir;

/// A larger manifest is not searched, nor what a larger document says beside its records: to say where in it a text stands
/// takes some twenty times its size.
const MAX_MANIFEST_SEARCHED: u64 = 16 << 20;

/// Who hears of a search while it goes on.
pub trait Listener {
    /// So many more bytes were looked through. False ends the search.
    fn read(&mut self, bytes: u64) -> bool;
    /// A line that holds the text. False ends the search.
    fn found(&mut self, found: LineMatch) -> bool;
    /// Something that could not be searched, and why.
    fn left_out(&mut self, file: TraceFile, why: String);
}

/// Searches a run. `index` is asked for once something is found; a line that it does not know has a place in its file.
/// False where the listener ended it.
pub fn search(
    dir: &RunDir,
    needle: &Needle,
    index: &mut dyn FnMut() -> Arc<Index>,
    listener: &mut dyn Listener,
) -> bool {
    if dir.is_document() {
        let index = index();
        return manifest(dir, needle, listener)
            && records(dir, needle, &index, listener)
            && beside_records(dir, needle, &index, listener);
    }
    manifest(dir, needle, listener)
        && dir
            .line_files()
            .iter()
            .all(|file| lines(dir, *file, needle, index, listener))
}

/// The manifest is one document over many lines.
fn manifest(dir: &RunDir, needle: &Needle, listener: &mut dyn Listener) -> bool {
    let file = TraceFile::Manifest;
    let bytes = match dir.read_all(file, MAX_MANIFEST_SEARCHED) {
        Ok(bytes) => bytes,
        Err(error) => return missing(file, &error, listener),
    };
    let line = if needle.candidates(&bytes).next().is_some() {
        needle.look(&bytes)
    } else {
        InLine::default()
    };
    let goes_on = line.found == 0
        || listener.found(LineMatch {
            file,
            place: LinePlace::default(),
            line,
        });
    goes_on && listener.read(bytes.len() as u64)
}

fn lines(
    dir: &RunDir,
    file: TraceFile,
    needle: &Needle,
    index: &mut dyn FnMut() -> Arc<Index>,
    listener: &mut dyn Listener,
) -> bool {
    let mut blocks = match dir.blocks(file) {
        Ok(blocks) => blocks,
        Err(error) => return missing(file, &error, listener),
    };
    loop {
        let block = match blocks.read() {
            Ok(Some(block)) => block,
            Ok(None) => break,
            Err(error) => return missing(file, &error, listener),
        };
        for range in needle.candidates(block.bytes) {
            let offset = block.offset + range.start as u64;
            let line = needle.look(block.bytes.get(range).unwrap_or_default());
            if line.found > 0
                && !listener.found(LineMatch {
                    file,
                    place: place(&index(), file, offset),
                    line,
                })
            {
                return false;
            }
        }
        if !listener.read(block.bytes.len() as u64) {
            return false;
        }
    }
    if blocks.too_long() > 0 {
        listener.left_out(
            file,
            format!(
                "{} lines longer than {MAX_LINE_BYTES} bytes",
                blocks.too_long()
            ),
        );
    }
    true
}

/// The records of a document, each by its place.
fn records(dir: &RunDir, needle: &Needle, index: &Index, listener: &mut dyn Listener) -> bool {
    let file = TraceFile::Events;
    let is_too_long = |event: &&EventHead| event.span.len > MAX_LINE_BYTES;
    for event in index.events().iter().filter(|event| !is_too_long(event)) {
        let bytes = match dir.read_span(file, event.span) {
            Ok(bytes) => bytes,
            Err(error) => return missing(file, &error, listener),
        };
        let line = if needle.candidates(&bytes).next().is_some() {
            needle.look(&bytes)
        } else {
            InLine::default()
        };
        let place = || place(index, file, event.span.offset);
        if line.found > 0
            && !listener.found(LineMatch {
                file,
                place: place(),
                line,
            })
        {
            return false;
        }
        if !listener.read(bytes.len() as u64) {
            return false;
        }
    }
    let too_long = index.events().iter().filter(is_too_long).count();
    if too_long > 0 {
        listener.left_out(
            file,
            format!("{too_long} records longer than {MAX_LINE_BYTES} bytes"),
        );
    }
    true
}

/// What a document says beside its records: how the run ended, and what the writer keeps of it besides.
fn beside_records(
    dir: &RunDir,
    needle: &Needle,
    index: &Index,
    listener: &mut dyn Listener,
) -> bool {
    let file = TraceFile::Events;
    let beside = match dir.beside_records(index, MAX_MANIFEST_SEARCHED) {
        Ok(Some(beside)) => beside,
        Ok(None) => return true,
        Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
            listener.left_out(
                file,
                format!("what the document says beside its records, since it has {error}"),
            );
            return true;
        }
        Err(error) => return missing(file, &error, listener),
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
    let goes_on = line.found == 0 || listener.found(LineMatch { file, place, line });
    goes_on && listener.read(beside.len)
}

/// A file that is not there holds nothing; any other that cannot be read is told.
fn missing(file: TraceFile, error: &std::io::Error, listener: &mut dyn Listener) -> bool {
    if error.kind() != std::io::ErrorKind::NotFound {
        listener.left_out(file, error.to_string());
    }
    true
}

/// What the line at `offset` is.
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
