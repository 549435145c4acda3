//! Caches the lists of changed files for the runs that were requested last.
//!
//! A new list reads all lines of a run. A cached list reads only the new lines. It first compares
//! every step with the step that it was built from, so old edits never appear for a run that
//! changed or was replaced under the same key.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::analysis::files::{Files, Followed};
use crate::model::RunKey;
use crate::page::run_view::RunView;

/// Maximum number of lists in the cache.
const MAX_LISTS: usize = 8;
/// Maximum number of steps and edits in all cached lists. Each takes 30 to 200 bytes. A longer list is
/// rebuilt for each request.
const MAX_SIZE: usize = 1_000_000;

/// The cached lists, the most recently requested last.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    kept: Mutex<Vec<(RunKey, Shared)>>,
}

/// A list that one request at a time updates.
type Shared = Arc<Mutex<Followed>>;

impl Lists {
    /// Returns the changed files of a run, up to date. Reads lines.
    pub(crate) fn of(&self, view: &RunView<'_>) -> Arc<Files> {
        let key = &view.summary.key;
        let list = self.list(key);
        let mut followed = list.lock().unwrap_or_else(PoisonError::into_inner);
        let files = followed.files(view.index, view.lines);
        let size = followed.size();
        drop(followed);
        self.make_room(key, size);
        files
    }

    /// Evicts the least recently requested lists until the total size fits.
    fn make_room(&self, key: &RunKey, size: usize) {
        let mut kept = self.kept();
        if size > MAX_SIZE {
            kept.retain(|(kept, _)| kept != key);
        }
        let mut left = MAX_SIZE.saturating_sub(size);
        let mut fits = Vec::new();
        for (other, list) in kept.iter().rev() {
            // A locked list is being built. Until it is done, its size counts as 0.
            let size = list.try_lock().map_or(0, |list| list.size());
            let is_kept = other == key || size <= left;
            if is_kept && other != key {
                left -= size;
            }
            fits.push(is_kept);
        }
        let mut fits = fits.into_iter().rev();
        kept.retain(|_| fits.next().unwrap_or(true));
    }

    fn list(&self, key: &RunKey) -> Shared {
        let mut kept = self.kept();
        let at = kept.iter().position(|(known, _)| known == key);
        let found = at.map_or_else(|| (key.clone(), Shared::default()), |at| kept.remove(at));
        let list = Arc::clone(&found.1);
        kept.push(found);
        let surplus = kept.len().saturating_sub(MAX_LISTS);
        kept.drain(..surplus);
        list
    }

    fn kept(&self) -> MutexGuard<'_, Vec<(RunKey, Shared)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_that_was_not_asked_for_longest_goes() {
        let lists = Lists::default();
        let key = |n: usize| RunKey::new(&format!("run{n}"));
        let first = lists.list(&key(0));
        (1..MAX_LISTS).for_each(|n| drop(lists.list(&key(n))));
        assert!(
            Arc::ptr_eq(&first, &lists.list(&key(0))),
            "it is kept, and now the newest"
        );
        drop(lists.list(&key(MAX_LISTS)));
        assert!(Arc::ptr_eq(&first, &lists.list(&key(0))));
        let kept: Vec<RunKey> = lists.kept().iter().map(|(key, _)| key.clone()).collect();
        assert_eq!(kept.len(), MAX_LISTS);
        assert!(!kept.contains(&key(1)), "{kept:?}");
    }
}
