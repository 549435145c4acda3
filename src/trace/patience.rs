//! Defines whether readers wait, and which errors may disappear while they do.

use std::io;

use crate::model::IssueKind;

/// What a reader waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// The reader waits until a text is decompressed.
    Wait,
    /// The reader also waits for its turn among documents that take much memory. For requests.
    Turn,
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

/// Returns why a file couldn't be read, and whether that may be temporary.
pub(super) fn unread(error: &io::Error) -> (IssueKind, String) {
    if is_lasting(error) {
        return (IssueKind::Unreadable, error.to_string());
    }
    (IssueKind::Away, format!("can't be read right now: {error}"))
}
