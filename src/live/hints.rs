//! What may have changed? A set of paths that the system told of, folded while nobody looks.
//!
//! Events are hints: new directories often bring none for the files inside, and some file systems bring none at all.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use notify::event::{EventKind, ModifyKind};

/// More dirty paths than this are one fact: look at everything.
const MAX_PATHS: usize = 10_000;

/// The mailbox between the system's events and the scanner.
#[derive(Debug, Default)]
pub(super) struct Hints {
    inbox: Mutex<Inbox>,
    arrived: Condvar,
}

/// What arrived since the last look.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// Files that may have changed.
    pub(super) paths: HashSet<PathBuf>,
    /// Directories came, went or moved, or events were lost.
    pub(super) rescan: bool,
    /// Events were lost: any file may have changed.
    pub(super) lost: bool,
    /// Why the system cannot tell of all changes any more.
    pub(super) fault: Option<String>,
    /// Something else than the system's events is to be looked at.
    pub(super) woken: bool,
    /// The library is closing.
    pub(super) stop: bool,
}

impl Hints {
    /// Takes in an event of the system.
    pub(super) fn take(&self, event: notify::Result<notify::Event>) {
        let mut inbox = self.lock();
        match event {
            // The board's own reading causes these.
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
                inbox.paths.extend(event.paths);
            }
            Err(error) => {
                (inbox.rescan, inbox.lost) = (true, true);
                // A directory that came later could not be watched any more.
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

    /// Ends the scanner.
    pub(super) fn stop(&self) {
        self.lock().stop = true;
        self.arrived.notify_one();
    }

    /// Waits until something arrives, or until `due`; empties the mailbox.
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
        // The set is whole after every statement, so a poisoned lock holds a good one.
        self.inbox
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Why the system does not tell of changes.
pub(super) fn in_words(error: &notify::Error) -> String {
    match error.kind {
        notify::ErrorKind::MaxFilesWatch => "the system's limit on watches is reached".to_owned(),
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
