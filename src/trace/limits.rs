//! Limits the size of manifests and of decompressed texts.

use std::io::{self, Read};

/// Larger manifests aren't read. The largest real ones, with four copies of a long tool list, are
/// about 100 KB.
pub const MAX_MANIFEST_BYTES: u64 = 64 << 20;

/// Longer texts aren't decompressed.
pub(super) const MAX_TEXT_BYTES: u64 = 1 << 30;
/// A text that is this many times as long as its compressed form counts as a bomb. Logs rarely
/// reach 30.
pub(super) const MAX_RATIO: u64 = 200;
/// A shorter text never counts as a bomb, however well it was compressed.
pub(super) const RATIO_FREE_BYTES: u64 = 16 << 20;

/// Reads the text of `packed` compressed bytes up to the limits on its length.
#[derive(Debug)]
pub(super) struct Bounded<R> {
    inner: R,
    packed: u64,
    read: u64,
    most: u64,
}

impl<R> Bounded<R> {
    pub(super) fn new(inner: R, packed: u64) -> Self {
        Self {
            inner,
            packed,
            read: 0,
            most: MAX_TEXT_BYTES,
        }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.read += read as u64;
        check_size(self.packed, self.read, self.most)?;
        Ok(read)
    }
}

/// Returns an error if a text of `size` bytes from `packed` compressed bytes exceeds a limit.
pub(super) fn check_size(packed: u64, size: u64, most: u64) -> io::Result<()> {
    let refused = |what| Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    if size > RATIO_FREE_BYTES && size > packed.saturating_mul(MAX_RATIO) {
        return refused(format!(
            "its {packed} bytes expand to more than {MAX_RATIO} times that size, as in a decompression bomb"
        ));
    }
    if size > most {
        return refused(format!("it expands to more than {most} bytes"));
    }
    Ok(())
}
