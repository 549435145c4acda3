//! Defines the sources of a run's bytes: a file, a compressed file's text, or a file after records from
//! elsewhere.

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::beneath::refused;
use super::read_at::{ReadAt, ReadFrom};
use super::unpacked::Unpacked;

/// A source of bytes.
#[derive(Debug)]
pub(super) enum Content {
    /// A file's own bytes.
    File(File),
    /// The decompressed bytes of a compressed file.
    Text(Arc<Unpacked>),
    /// Records that were made from other files, and then the file's own bytes.
    Continued(Arc<Unpacked>, File),
}

impl ReadAt for Content {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Content::File(file) => file.read_at(buffer, offset),
            Content::Text(text) => text.read_at(buffer, offset),
            Content::Continued(before, file) => match offset.checked_sub(before.len()) {
                Some(offset) => file.read_at(buffer, offset),
                None => match before.read_at(buffer, offset)? {
                    // At the end of the file, fewer bytes would be an end, too.
                    read if read < buffer.len() => {
                        let rest = buffer.get_mut(read..).unwrap_or_default();
                        Ok(read + file.read_at(rest, 0)?)
                    }
                    read => Ok(read),
                },
            },
        }
    }
}

impl Content {
    /// Returns the file itself.
    ///
    /// # Errors
    /// Fails if it was decompressed.
    pub(super) fn into_file(self) -> io::Result<File> {
        match self {
            Content::File(file) => Ok(file),
            Content::Text(_) | Content::Continued(..) => {
                Err(refused("a compressed file contains no archive"))
            }
        }
    }

    /// Returns why the text couldn't be decompressed completely, if that's so.
    pub(super) fn fault(&self) -> Option<&str> {
        match self {
            Content::File(_) => None,
            Content::Text(text) | Content::Continued(text, _) => text.fault(),
        }
    }

    /// Returns a reader that starts at `offset`.
    pub(super) fn from(self, offset: u64) -> ReadFrom<Self> {
        ReadFrom::new(self, offset)
    }

    /// Returns a reader that starts at the beginning.
    pub(super) fn reader(&self) -> ReadFrom<&Self> {
        ReadFrom::new(self, 0)
    }
}
