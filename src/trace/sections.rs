//! Finds the runs of a text that are sections of it, and makes the document of one from its lines.
//!
//! A section goes from the line that begins it to the next such line. Only the last one grows. Must not
//! know what the lines mean.

use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, Read};

use super::read_at::ReadAt;
use crate::format::{Rewrite, Sections};
use crate::model::Span;

/// Bytes per read.
const PIECE_BYTES: usize = 256 << 10;
/// Only the beginning of a longer line is read; bytes.
const MAX_LINE_BYTES: usize = 1 << 20;
/// Lines that begin a section are shorter; bytes.
const MAX_START_BYTES: usize = 200;

/// The position of a section, a hash of its content, and whether it is the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) span: Span,
    pub(super) print: u64,
    pub(super) is_last: bool,
}

/// A section while it is being scanned.
struct UnderWay {
    name: String,
    start: u64,
    hasher: DefaultHasher,
    is_shown: bool,
}

/// Scans a text in one pass, and passes on each section that is a run with its name.
pub(super) fn list(
    file: &impl ReadAt,
    sections: &Sections,
    mut add: impl FnMut(&str, Section),
) -> io::Result<()> {
    let (mut at, mut start, mut line) = (0_u64, 0_u64, Vec::new());
    let mut open: Option<UnderWay> = None;
    let mut close = |open: Option<UnderWay>, end: u64, is_last: bool| {
        if let Some(section) = open.filter(|section| section.is_shown) {
            let span = Span {
                offset: section.start,
                len: end - section.start,
            };
            let print = section.hasher.finish();
            add(
                &section.name,
                Section {
                    span,
                    print,
                    is_last,
                },
            );
        }
    };
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = file.read_at(&mut piece, at)?;
        let bytes = piece.get(..read).unwrap_or_default();
        if bytes.is_empty() {
            break;
        }
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = MAX_START_BYTES - line.len();
            line.extend_from_slice(part.get(..room.min(part.len())).unwrap_or_default());
            at += part.len() as u64;
            if let Some(section) = &mut open {
                section.hasher.write(part);
            }
            if part.ends_with(b"\n") {
                if let Some(name) = (sections.begins)(&line) {
                    close(open.take(), start, false);
                    let mut hasher = DefaultHasher::new();
                    hasher.write(&line);
                    open = Some(UnderWay {
                        name,
                        start,
                        hasher,
                        is_shown: false,
                    });
                } else if let Some(section) = &mut open {
                    section.is_shown |= (sections.shows)(&line);
                }
                line.clear();
                start = at;
            }
        }
    }
    close(open, at, true);
    Ok(())
}

/// Returns the document of the section at `span`, made while it is read.
pub(super) fn document(
    file: impl ReadAt + Send + 'static,
    span: Span,
    sections: &Sections,
) -> Box<dyn Read + Send> {
    Box::new(Rewritten {
        file,
        at: span.offset,
        end: span.offset.saturating_add(span.len),
        line: Vec::new(),
        is_cut: false,
        rewrite: (sections.rewrite)(),
        ready: Vec::new(),
        taken: 0,
        is_over: false,
    })
}

struct Rewritten<C> {
    file: C,
    at: u64,
    end: u64,
    /// The beginning of a line whose end hasn't been read, and whether it's too long to keep.
    line: Vec<u8>,
    is_cut: bool,
    rewrite: Box<dyn Rewrite>,
    /// The part of the document that was made, and how much of it was read.
    ready: Vec<u8>,
    taken: usize,
    is_over: bool,
}

impl<C: ReadAt> Rewritten<C> {
    /// Makes the next part of the document.
    fn step(&mut self) -> io::Result<()> {
        self.taken = 0;
        self.ready.clear();
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let mut piece = vec![0; PIECE_BYTES.min(left)];
        let read = self.file.read_at(&mut piece, self.at)?;
        self.at += read as u64;
        let bytes = piece.get(..read).unwrap_or_default();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            let room = MAX_LINE_BYTES - self.line.len();
            self.is_cut |= text.len() > room;
            let text = text.get(..room.min(text.len())).unwrap_or_default();
            self.line.extend_from_slice(text);
            if part.ends_with(b"\n") {
                self.end_line();
            }
        }
        if read == 0 {
            if !self.line.is_empty() {
                self.end_line();
            }
            self.rewrite.end(&mut self.ready);
            self.is_over = true;
        }
        Ok(())
    }

    fn end_line(&mut self) {
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        let is_cut = std::mem::take(&mut self.is_cut);
        self.rewrite
            .line(&String::from_utf8_lossy(line), is_cut, &mut self.ready);
        self.line.clear();
    }
}

impl<C: ReadAt> Read for Rewritten<C> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken >= self.ready.len() && !self.is_over {
            self.step()?;
        }
        let mut rest = self.ready.get(self.taken..).unwrap_or_default();
        let read = rest.read(buffer)?;
        self.taken += read;
        Ok(read)
    }
}
