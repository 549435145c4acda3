//! Reads bytes at an offset, so that several readers of one file don't affect each other.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

/// Reads bytes at an offset, without a position that readers would share.
pub(super) trait ReadAt {
    /// Reads up to `buffer.len()` bytes at `offset`, and fewer only at the end.
    ///
    /// # Errors
    /// Returns the I/O error.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reads exactly `buffer.len()` bytes at `offset`.
    ///
    /// # Errors
    /// Returns the I/O error, or an unexpected end.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        if self.read_at(buffer, offset)? == buffer.len() {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the file was truncated while it was being read",
        ))
    }
}

impl ReadAt for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match read_once(self, rest, offset.saturating_add(filled as u64)) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

impl<R: ReadAt + ?Sized> ReadAt for &R {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buffer, offset)
    }
}

impl<R: ReadAt + ?Sized> ReadAt for Arc<R> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buffer, offset)
    }
}

/// A sequential reader. Several readers of the same content don't affect each other.
#[derive(Debug)]
pub(super) struct ReadFrom<C> {
    content: C,
    offset: u64,
}

impl<C> ReadFrom<C> {
    /// Returns a reader that starts at `offset`.
    pub(super) fn new(content: C, offset: u64) -> Self {
        Self { content, offset }
    }
}

impl<C: ReadAt> Read for ReadFrom<C> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read_at(buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

#[cfg(unix)]
fn read_once(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_once(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset)
}

#[cfg(not(any(unix, windows)))]
fn read_once(mut file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    io::Seek::seek(&mut file, io::SeekFrom::Start(offset))?;
    file.read(buffer)
}
