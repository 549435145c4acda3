//! Lists the runs of large files on background threads, so that board doesn't have to wait.

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Files of at most this many bytes are scanned in the calling thread.
pub(super) const SMALL_BYTES: u64 = 1 << 20;
/// How many files are scanned at a time.
const MAX_THREADS: usize = 2;
/// If scanning a file took longer than `LONG`, its next scan starts after `REST` times that
/// duration at the earliest. Otherwise a file that changes all the time would keep a core busy
/// forever.
const LONG: Duration = Duration::from_millis(100);
const REST: u32 = 4;

/// A file that takes long to scan.
pub(super) trait LargeFile: Send + Sync {
    /// Returns the path.
    fn path(&self) -> PathBuf;

    /// Scans the file if it has changed.
    fn look_through(&self);

    /// Returns the earliest time of the next scan.
    fn rests_until(&self) -> Option<Instant>;

    /// Sets the earliest time of the next scan.
    fn rest(&self, until: Option<Instant>);
}

/// The files whose runs are being listed.
pub struct Lister {
    state: Mutex<State>,
    changed: Condvar,
    /// Called after each scan.
    wake: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
    /// The files in the queue, and the earliest time to scan each.
    queue: VecDeque<(Arc<dyn LargeFile>, Instant)>,
    under_way: Vec<Arc<dyn LargeFile>>,
    /// Files scanned since the last [`Lister::take_finished`].
    finished: Vec<Arc<dyn LargeFile>>,
    threads: usize,
}

impl fmt::Debug for Lister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lister")
            .field("pending", &self.pending())
            .finish_non_exhaustive()
    }
}

impl Lister {
    /// Creates a lister that calls `wake` after each scan.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            wake: Box::new(wake),
        })
    }

    /// Returns how many files are queued, being scanned, or scanned but not yet taken.
    pub fn pending(&self) -> usize {
        let state = self.state();
        state.queue.len() + state.under_way.len() + state.finished.len()
    }

    /// Returns the files scanned since the last call.
    pub fn take_finished(&self) -> Vec<PathBuf> {
        let finished = std::mem::take(&mut self.state().finished);
        finished.iter().map(|file| file.path()).collect()
    }

    /// Queues a file, unless it is queued already or being scanned.
    pub(super) fn ask(self: &Arc<Self>, file: Arc<dyn LargeFile>) {
        let mut state = self.state();
        let is_it = |known: &Arc<dyn LargeFile>| Arc::ptr_eq(known, &file);
        if state.under_way.iter().any(is_it) || state.queue.iter().any(|(known, _)| is_it(known)) {
            return;
        }
        let due = file.rests_until().unwrap_or_else(Instant::now);
        state.queue.push_back((file, due));
        if state.threads < MAX_THREADS {
            let lister = Arc::clone(self);
            let thread = std::thread::Builder::new().name("board-list".to_owned());
            state.threads += usize::from(thread.spawn(move || lister.work()).is_ok());
        }
        drop(state);
        self.changed.notify_one();
    }

    fn work(&self) {
        while let Some(file) = self.next() {
            let begun = Instant::now();
            // A panic in the scan must not leave the file in progress forever.
            let looked =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| file.look_through()));
            let took = begun.elapsed();
            file.rest(
                (took > LONG || looked.is_err()).then(|| Instant::now() + took.max(LONG) * REST),
            );
            let mut state = self.state();
            state.under_way.retain(|known| !Arc::ptr_eq(known, &file));
            state.finished.push(file);
            drop(state);
            (self.wake)();
        }
    }

    /// Waits for the next file. Returns `None` if the queue is empty.
    fn next(&self) -> Option<Arc<dyn LargeFile>> {
        let mut state = self.state();
        loop {
            let now = Instant::now();
            if let Some(at) = state.queue.iter().position(|(_, due)| *due <= now)
                && let Some((file, _)) = state.queue.remove(at)
            {
                state.under_way.push(Arc::clone(&file));
                return Some(file);
            }
            let Some(due) = state.queue.iter().map(|(_, due)| *due).min() else {
                state.threads -= 1;
                return None;
            };
            state = match self
                .changed
                .wait_timeout(state, due.saturating_duration_since(now))
            {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc::channel;

    use super::super::RootScanner;
    use super::*;

    /// Returns a tau2 file with this many runs, larger than [`SMALL_BYTES`].
    fn results(runs: usize) -> String {
        let run = |n: usize| format!(r#"{{"id":"s{n}","task_id":"t{n}","trial":0,"messages":[]}}"#);
        let runs: Vec<String> = (0..runs).map(run).collect();
        let padding = " ".repeat(SMALL_BYTES as usize);
        format!(
            r#"{{"timestamp":"2026-03-02T10:00:59","info":{{"user_info":{{}},"agent_info":{{}}}},"tasks":[],"simulations":[{}]{padding}}}"#,
            runs.join(",")
        )
    }

    #[test]
    fn runs_of_a_large_file_are_listed_in_the_background() {
        let root = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(root.path()).unwrap().join("results.json");
        fs::write(&path, results(2)).unwrap();
        let (wake, woken) = channel();
        let lister = Lister::new(move || wake.send(()).unwrap());
        let mut scanner = RootScanner::new(root.path().to_owned());
        scanner.look_aside_with(&lister);
        let found = scanner.scan();
        assert_eq!(found.runs.len(), 0);
        assert_eq!(found.skipped[0].reason, "its runs are still being listed");
        woken.recv().unwrap();
        assert_eq!(lister.pending(), 1);
        assert_eq!(lister.take_finished(), std::slice::from_ref(&path));
        assert_eq!(lister.pending(), 0);
        let found = scanner.scan();
        assert_eq!((found.runs.len(), found.skipped.len()), (2, 0));

        fs::write(&path, results(3)).unwrap();
        let found = scanner.scan();
        assert_eq!(
            (found.runs.len(), found.skipped.len()),
            (2, 0),
            "the old runs stay until the new ones are known"
        );
        woken.recv().unwrap();
        assert_eq!(lister.take_finished(), [path]);
        assert_eq!(scanner.scan().runs.len(), 3);
    }

    #[test]
    fn an_unlistable_large_file_is_tried_once() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("log.eval");
        let mut bytes = fs::read(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/sample_runs/tools/inspect/ledger.eval"
        ))
        .unwrap();
        // An archive without the list of members at its end yields no members. Only a change of the
        // file can fix that.
        bytes.truncate(bytes.len() / 2);
        bytes.resize(bytes.len() + SMALL_BYTES as usize, 0);
        fs::write(path, bytes).unwrap();
        let (wake, woken) = channel();
        let lister = Lister::new(move || wake.send(()).unwrap());
        let mut scanner = RootScanner::new(root.path().to_owned());
        scanner.look_aside_with(&lister);
        scanner.scan();
        woken.recv().unwrap();
        lister.take_finished();
        let found = scanner.scan();
        assert_eq!(lister.pending(), 0, "{found:?}");
        assert!(found.skipped[0].reason.contains("archive"), "{found:?}");
    }
}
