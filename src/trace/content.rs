//! Reads bytes at an offset of a file, or of a compressed file's text.

use std::borrow::Borrow;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use super::unpacked::Unpacked;

/// Whether a reader waits until a text is decompressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// The reader waits.
    Wait,
    /// The reader doesn't wait, and comes back later.
    Now,
}

/// The error for a reader that doesn't wait, while the text is being decompressed or the file is
/// being listed.
#[derive(Debug)]
struct Pending(&'static str);

impl std::fmt::Display for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Pending {}

/// Creates the error for a reader that doesn't wait. `what` describes what it would have to wait
/// for.
pub(super) fn pending(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::WouldBlock, Pending(what))
}

/// Returns whether `error` was made by [`pending`].
pub(super) fn is_pending(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Pending>())
}

/// Returns whether `error` persists until names or bytes change. Any other error may disappear
/// without a change: missing permissions, a full disk, a failing device, too many open files.
pub(super) fn is_lasting(error: &io::Error) -> bool {
    use io::ErrorKind::{
        FileTooLarge, InvalidData, InvalidInput, NotADirectory, NotFound, Unsupported,
    };
    #[cfg(unix)]
    let is_link = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    #[cfg(not(unix))]
    let is_link = false;
    is_link
        || matches!(
            error.kind(),
            FileTooLarge | InvalidData | InvalidInput | NotADirectory | NotFound | Unsupported
        )
}

/// A source of bytes.
#[derive(Debug)]
pub(super) enum Content {
    /// A file's own bytes.
    File(File),
    /// The decompressed bytes of a compressed file.
    Text(Arc<Unpacked>),
}

/// Reads bytes at an offset, without a position that readers would share.
pub(super) trait ReadAt {
    /// Reads up to `buffer.len()` bytes at `offset`, and fewer only at the end.
    ///
    /// # Errors
    /// Returns the system's error.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reads exactly `buffer.len()` bytes at `offset`.
    ///
    /// # Errors
    /// Returns the system's error, or an unexpected end.
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

impl ReadAt for Content {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Content::File(file) => file.read_at(buffer, offset),
            Content::Text(text) => text.read_at(buffer, offset),
        }
    }
}

impl Content {
    /// Returns why the text couldn't be decompressed completely, if that's so.
    pub(super) fn fault(&self) -> Option<&str> {
        match self {
            Content::File(_) => None,
            Content::Text(text) => text.fault(),
        }
    }

    /// Returns a reader that starts at `offset`.
    pub(super) fn from(self, offset: u64) -> ReadFrom<Self> {
        ReadFrom {
            content: self,
            offset,
        }
    }

    /// Returns a reader that starts at the beginning.
    #[cfg(feature = "board")]
    pub(super) fn reader(&self) -> ReadFrom<&Self> {
        ReadFrom {
            content: self,
            offset: 0,
        }
    }
}

/// A sequential reader. Several readers of the same content don't affect each other.
#[derive(Debug)]
pub(super) struct ReadFrom<C> {
    content: C,
    offset: u64,
}

impl<C: Borrow<Content>> Read for ReadFrom<C> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.content.borrow().read_at(buffer, self.offset)?;
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
