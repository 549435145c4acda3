//! Reads a whole file fast, in large blocks of whole lines.
//!
//! Knows nothing about the content of lines. Never holds more than the longest line that is parsed.

use std::io::{self, Read as _};

use super::content::Content;
use super::dir::RunDir;
use super::patience::Patience;
use super::read_at::ReadFrom;
use crate::model::{MAX_LINE_BYTES, TraceFile};

/// The bytes read at a time. A block fits the processor's cache, where it's then searched.
const BLOCK_BYTES: usize = 256 << 10;

/// A file, read block by block.
#[derive(Debug)]
pub struct Blocks {
    file: ReadFrom<Content>,
    buffer: Vec<u8>,
    /// How many bytes of the buffer are filled, and how many of these were returned.
    filled: usize,
    given: usize,
    /// The buffer's offset in the file.
    offset: u64,
    /// Whether the current line is too long, so that it's skipped up to its end.
    leaving_out: bool,
    too_long: usize,
}

/// A block of whole lines. The last line of a file may lack its line terminator.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    /// The lines with their line terminators.
    pub bytes: &'a [u8],
    /// Their offset in the file.
    pub offset: u64,
}

impl RunDir {
    /// Returns the total size of the run's files in bytes, as far as they can be read.
    pub fn bytes(&self) -> u64 {
        let files = [TraceFile::Manifest].iter().chain(self.line_files());
        files
            .filter_map(|file| self.stat(*file).ok())
            .map(|stamp| stamp.size)
            .sum()
    }

    /// Opens one of the three files to read all of it.
    ///
    /// # Errors
    /// Fails if the file doesn't exist, or isn't a regular file inside the root.
    pub fn blocks(&self, file: TraceFile) -> io::Result<Blocks> {
        let (content, stamp) = self.open(file, Patience::Wait)?;
        // Most files are small, and clearing a whole block takes longer than reading them. One more
        // byte shows that the file has ended.
        let size = usize::try_from(stamp.size).unwrap_or(usize::MAX);
        let buffer = vec![0; size.saturating_add(1).min(BLOCK_BYTES)];
        Ok(Blocks {
            file: content.from(0),
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
    /// Returns how many lines were skipped because they are longer than [`MAX_LINE_BYTES`].
    pub fn too_long(&self) -> usize {
        self.too_long
    }

    /// Returns the next lines, or `None` at the end of the file.
    ///
    /// # Errors
    /// Returns the I/O error.
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
                // The rest of the file is a line without a line terminator.
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

    /// Grows the buffer for a long line. Returns false if it already has the maximum size.
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
