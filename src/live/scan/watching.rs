//! Learns of changes through file system events where the system provides them, and through polling
//! otherwise.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use notify::Watcher as _;

use super::{LARGE_ROOT_REST, POLL_EVERY, Place, Scanner, WATCH_AGAIN_EVERY};
use crate::live::hints::in_words;
use crate::live::run::Run;
use crate::live::shared::Mode;

impl Scanner {
    /// Returns the runs in a directory or a file.
    pub(super) fn below<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a Arc<Run>> {
        let bytes = path.as_os_str().as_encoded_bytes();
        let from = (Bound::Included(path.as_os_str()), Bound::Unbounded);
        let alike = self.by_dir.range::<OsStr, _>(from);
        let alike = alike
            .take_while(move |(dir, _)| dir.0.as_os_str().as_encoded_bytes().starts_with(bytes));
        alike
            .filter(move |(dir, _)| dir.0.starts_with(path))
            .map(|(_, run)| run)
    }

    /// Returns the paths of the runs that stay without their files. If files come back during a
    /// scan, the next scan finds them.
    pub(super) fn evicted(&self) -> HashSet<Place> {
        self.by_dir
            .iter()
            .filter(|(_, run)| run.stays())
            .map(|(dir, _)| dir.clone())
            .collect()
    }

    /// Starts watching for file system events. The caller then adds the roots.
    pub(super) fn ask_for_events(&mut self) {
        // The old watcher's watches count toward the same limit.
        self.watcher = None;
        self.roots.iter_mut().for_each(|root| root.watched = None);
        self.fault = None;
        let hints = Arc::clone(&self.shared.hints);
        // A symlink may lead to a tree of millions of directories outside of the root.
        let config = notify::Config::default().with_follow_symlinks(false);
        match notify::RecommendedWatcher::new(move |event| hints.take(event), config) {
            Ok(watcher) => self.watcher = Some(watcher),
            Err(error) => self.fault = Some(in_words(&error)),
        }
    }

    /// Restarts the watch after the system failed to report all changes, because the obstacle may
    /// be gone.
    pub(in crate::live) fn ask_again(&mut self) {
        let start = Instant::now();
        self.ask_for_events();
        (0..self.roots.len()).for_each(|at| self.watch(at));
        self.watch_due = Instant::now() + WATCH_AGAIN_EVERY.max(start.elapsed() * LARGE_ROOT_REST);
        self.publish();
    }

    pub(super) fn watch(&mut self, at: usize) {
        self.shared.beat.beat("registering for file system events");
        let (Some(root), Some(watcher)) = (self.roots.get_mut(at), self.watcher.as_mut()) else {
            return;
        };
        match root.watch(watcher) {
            // Earlier changes produced no events.
            Ok(true) => self.rounds.mark_all_urgent(),
            Ok(false) => {}
            Err(fault) => self.fault = Some(fault),
        }
    }

    /// Publishes the state of watching.
    pub(super) fn publish(&self) {
        let mode = match (&self.fault, self.options.poll) {
            (_, Some(_)) => Mode::Poll("requested".to_owned()),
            (Some(fault), None) => Mode::Poll(fault.clone()),
            (None, None) => Mode::Native,
        };
        let left = self.unread();
        self.shared.set_status(|status| {
            status.mode = mode;
            status.looked = Instant::now();
            status.first_look_done = true;
            status.indexing = left;
        });
    }

    /// Returns how often everything is checked, if file system events are missing or disabled.
    pub(super) fn poll_every(&self) -> Option<Duration> {
        self.options
            .poll
            .or(self.fault.as_ref().map(|_| POLL_EVERY))
    }
}
