//! Writes the index cache for the next start. While runs are being read, it appends the ones read
//! since the last write. Otherwise it rewrites all of them now and then. At the end, which has one
//! second, it appends what is missing.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use super::{SAVE_EVERY, SAVE_REST, Scanner};
use crate::live::roots::Root;
use crate::live::run::Run;

/// A root's directory, the prefix of its runs' keys, and the runs.
type Below = (PathBuf, String, Vec<Arc<Run>>);

impl Scanner {
    fn by_root(&self) -> Vec<Below> {
        let below = |root: &Root| {
            let place = root
                .scanner
                .place()
                .filter(|_| !root.scanner.is_file())?
                .path;
            let runs = self
                .by_dir
                .values()
                .filter(|run| run.dir().root() == place)
                .cloned()
                .collect::<Vec<_>>();
            Some((place, root.prefix.clone(), runs))
        };
        self.roots.iter().filter_map(below).collect()
    }

    /// Writes the index cache on a background thread, because many runs take a second.
    pub(super) fn save(&mut self) {
        let Some(cache) = self.cache.clone().filter(|_| self.unsaved) else {
            return;
        };
        if self
            .saver
            .as_ref()
            .is_some_and(|saver| !saver.is_finished())
        {
            return;
        }
        // While runs are being read, rewriting would write all of them again and again.
        let (all, is_anew) = (self.by_root(), self.backlog.is_empty());
        let save = move || {
            for (root, prefix, runs) in all {
                let saved = if is_anew {
                    cache.save(&root, &prefix, &runs)
                } else {
                    cache.add(&root, &prefix, &runs)
                };
                if let Err(error) = saved {
                    tracing::debug!(
                        "can't cache the runs of {}: {error}; the next start reads them all",
                        root.display()
                    );
                }
            }
        };
        // If no thread can be started, nothing is cached, and the next start takes longer.
        self.saver = std::thread::Builder::new()
            .name("board-notes".to_owned())
            .spawn(save)
            .ok();
        self.add_due = Instant::now() + SAVE_EVERY;
        if is_anew {
            self.unsaved = false;
            let rest = SAVE_REST * u32::try_from(self.by_dir.len()).unwrap_or(u32::MAX);
            self.save_due = Instant::now() + SAVE_EVERY.max(rest);
        }
    }

    /// Appends what the cache is missing, as far as there's time.
    pub(super) fn save_at_the_end(&mut self) {
        let Some(cache) = self.cache.clone() else {
            return;
        };
        cache.hurry();
        // A panic in the thread was reported when it happened.
        let _ = self.saver.take().map(JoinHandle::join);
        for (root, prefix, runs) in self.by_root() {
            if let Err(error) = cache.add(&root, &prefix, &runs) {
                tracing::debug!(
                    "can't cache the runs of {}: {error}; the next start reads more of them",
                    root.display()
                );
            }
        }
    }
}
