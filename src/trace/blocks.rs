//! How is a whole file read fast? In large blocks of whole lines.
//!
//! Knows nothing of what a line says. Never holds more than the longest line that is taken.

use std::io::{self, Read as _};

use super::content::{Content, Patience, ReadFrom};
use super::dir::RunDir;
use crate::model::{MAX_LINE_BYTES, TraceFile};

/// Read at a time: it fits the processor's cache, where it is then looked through.
const BLOCK_BYTES: usize = 256 << 10;

/// A file, block by block.
#[derive(Debug)]
pub struct Blocks {
    file: ReadFrom<Content>,
    buffer: Vec<u8>,
    /// How much of the buffer is filled, and how much of that was handed out.
    filled: usize,
    given: usize,
    /// Where the buffer begins in the file.
    offset: u64,
    /// The line under way is too long and is left out up to its end.
    leaving_out: bool,
    too_long: usize,
}

/// Whole lines; the last one of a file may lack its end.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    /// The lines with their ends.
    pub bytes: &'a [u8],
    /// Where they begin in the file.
    pub offset: u64,
}

impl RunDir {
    /// How many bytes the three files have together, as far as they can be read.
    pub fn bytes(&self) -> u64 {
        TraceFile::ALL
            .iter()
            .filter_map(|file| self.stat(*file).ok())
            .map(|stamp| stamp.size)
            .sum()
    }

    /// Opens one of the three files to read all of it.
    ///
    /// # Errors
    /// Not there, or not a regular file inside the root.
    pub fn blocks(&self, file: TraceFile) -> io::Result<Blocks> {
        let (file, buffer) = (
            self.open(file, Patience::Wait)?.0.from(0),
            vec![0; BLOCK_BYTES],
        );
        Ok(Blocks {
            file,
            buffer,
            filled: 0,
            given: 0,
            offset: 0,
            leaving_out: false,
            too_long: 0,
        })
    }
}

impl Blocks {
    /// Lines that were left out because they are longer than [`MAX_LINE_BYTES`].
    pub fn too_long(&self) -> usize {
        self.too_long
    }

    /// The next lines; `None` at the end of the file.
    ///
    /// # Errors
    /// What the system says.
    pub fn read(&mut self) -> io::Result<Option<Block<'_>>> {
        self.forget(self.given);
        loop {
            if self.filled == self.buffer.len() && !self.make_room() {
                self.too_long += usize::from(!self.leaving_out);
                self.leaving_out = true;
                self.forget(self.filled);
            }
            let before = self.filled;
            let read = match self
                .file
                .read(self.buffer.get_mut(before..).unwrap_or_default())
            {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.filled += read;
            if self.leaving_out {
                let new = self.buffer.get(..self.filled).unwrap_or_default();
                let end = memchr::memchr(b'\n', new).map_or(self.filled, |end| end + 1);
                self.leaving_out = end == self.filled && new.last() != Some(&b'\n') && read > 0;
                self.forget(end);
            }
            let new = self
                .buffer
                .get(before.min(self.filled)..self.filled)
                .unwrap_or_default();
            let whole = memchr::memrchr(b'\n', new).map(|end| before.min(self.filled) + end + 1);
            self.given = match whole {
                Some(whole) => whole,
                // What is left at the end of the file is a line without an end.
                None if read == 0 => self.filled,
                None => continue,
            };
            let bytes = self.buffer.get(..self.given).unwrap_or_default();
            return Ok((!bytes.is_empty()).then_some(Block {
                bytes,
                offset: self.offset,
            }));
        }
    }

    /// Drops the first `bytes` of the buffer.
    fn forget(&mut self, bytes: usize) {
        self.buffer.copy_within(bytes..self.filled, 0);
        self.filled -= bytes;
        self.given = 0;
        self.offset += bytes as u64;
    }

    /// Makes the buffer larger for a long line; false where it is as large as it may be.
    fn make_room(&mut self) -> bool {
        let most = usize::try_from(MAX_LINE_BYTES)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        let larger = (self.buffer.len() * 2).min(most);
        let grows = larger > self.buffer.len();
        self.buffer.resize(larger, 0);
        grows
    }
}
