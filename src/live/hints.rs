//! Collects the paths that may have changed, as file system events report them, until the scanner
//! takes them.
//!
//! Events are only hints. New directories often produce none for the files inside, and some file
//! systems produce none at all.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use notify::event::{EventKind, ModifyKind};

use crate::trace::store_of;

/// If more paths than this are pending, everything is checked instead.
const MAX_PATHS: usize = 10_000;

/// The mailbox between file system events and the scanner.
#[derive(Debug, Default)]
pub(super) struct Hints {
    inbox: Mutex<Inbox>,
    arrived: Condvar,
}

/// Everything that arrived since the scanner last took it.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// Files that may have changed.
    pub(super) paths: HashSet<PathBuf>,
    /// Whether directories appeared, disappeared or moved, or events were lost.
    pub(super) rescan: bool,
    /// Whether events were lost, so that any file may have changed.
    pub(super) lost: bool,
    /// Why the system can no longer report all changes.
    pub(super) fault: Option<String>,
    /// Whether something other than a file system event needs attention.
    pub(super) woken: bool,
    /// Whether the library is closing.
    pub(super) stop: bool,
}

impl Hints {
    /// Adds a file system event.
    pub(super) fn take(&self, event: notify::Result<notify::Event>) {
        let mut inbox = self.lock();
        match event {
            // Board's own reads cause these.
            Ok(event) if matches!(event.kind, EventKind::Access(_)) => return,
            Ok(event) => {
                let moves = matches!(
                    event.kind,
                    EventKind::Create(_)
                        | EventKind::Remove(_)
                        | EventKind::Modify(ModifyKind::Name(_))
                );
                inbox.lost |= event.need_rescan();
                inbox.rescan |= event.need_rescan() || moves;
                inbox.paths.extend(event.paths.into_iter().map(store_of));
            }
            Err(error) => {
                (inbox.rescan, inbox.lost) = (true, true);
                // Directories created from now on can't be watched.
                if matches!(error.kind, notify::ErrorKind::MaxFilesWatch) {
                    inbox.fault = Some(in_words(&error));
                }
            }
        }
        if inbox.paths.len() > MAX_PATHS {
            inbox.paths.clear();
            (inbox.rescan, inbox.lost) = (true, true);
        }
        drop(inbox);
        self.arrived.notify_one();
    }

    /// Ends the scanner's wait.
    pub(super) fn wake(&self) {
        self.lock().woken = true;
        self.arrived.notify_one();
    }

    /// Tells the scanner to stop.
    pub(super) fn stop(&self) {
        self.lock().stop = true;
        self.arrived.notify_one();
    }

    /// Waits until something arrives, or until `due`, and empties the mailbox.
    pub(super) fn wait(&self, due: Instant) -> Inbox {
        let mut inbox = self.lock();
        while inbox.paths.is_empty() && !inbox.rescan && !inbox.woken && !inbox.stop {
            let left = due.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                break;
            }
            inbox = match self.arrived.wait_timeout(inbox, left) {
                Ok((inbox, _)) => inbox,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        let stop = inbox.stop;
        Inbox {
            stop,
            ..std::mem::replace(
                &mut *inbox,
                Inbox {
                    stop,
                    ..Inbox::default()
                },
            )
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inbox> {
        // The set is consistent after every statement, so the content of a poisoned lock is valid.
        self.inbox
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Returns why the system doesn't report changes.
pub(super) fn in_words(error: &notify::Error) -> String {
    match error.kind {
        notify::ErrorKind::MaxFilesWatch => {
            "the system's limit on file watches is reached".to_owned()
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_on_watches_is_told_when_a_later_directory_meets_it() {
        let hints = Hints::default();
        hints.take(Err(notify::Error::new(notify::ErrorKind::PathNotFound)));
        let inbox = hints.wait(Instant::now());
        assert_eq!((inbox.rescan, inbox.fault), (true, None));
        hints.take(Err(notify::Error::new(notify::ErrorKind::MaxFilesWatch)));
        assert!(
            hints
                .wait(Instant::now())
                .fault
                .is_some_and(|fault| fault.contains("limit"))
        );
    }
}
