//! Does the scan thread go on? It says so between any two things it does. Where it fails it is started again, and where
//! it is silent for too long, or failed a moment ago, that is said instead of "all is well".

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::scan::Scanner;
use super::{Mode, Options, Shared};

/// The thread is asked this often whether it goes on.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// A thread that failed is started again after this long.
const RESTART_AFTER: Duration = Duration::from_millis(500);

/// The last sign of life of the scan thread, and what it began to do then.
#[derive(Debug)]
pub(super) struct Beat(Mutex<(Instant, String)>);

impl Beat {
    pub(super) fn new() -> Self {
        Self(Mutex::new((Instant::now(), "starting".to_owned())))
    }

    /// The thread goes on, with what `doing` says.
    pub(super) fn beat(&self, doing: &str) {
        let mut beat = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        beat.0 = Instant::now();
        beat.1.clear();
        beat.1.push_str(doing);
    }

    /// What it has been doing for longer than `patience`.
    fn overdue(&self, patience: Duration) -> Option<String> {
        let beat = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (beat.0.elapsed() > patience).then(|| beat.1.clone())
    }
}

/// Follows roots on a thread that is watched by another one; both end once the library is closed, which is when the
/// channel that is returned breaks.
pub(super) fn start(
    shared: &Arc<Shared>,
    roots: Vec<PathBuf>,
    options: Options,
) -> mpsc::Receiver<()> {
    let (ended, end) = mpsc::channel();
    let of_supervisor = Arc::clone(shared);
    let supervise = move || {
        let _ended = ended;
        supervise(&of_supervisor, &roots, &options);
    };
    if let Err(error) = Builder::new()
        .name("board-watch".to_owned())
        .spawn(supervise)
    {
        not_started(shared, &error);
    }
    end
}

fn supervise(shared: &Arc<Shared>, roots: &[PathBuf], options: &Options) {
    let mut failed = None;
    while let Some((scan, end)) = scan(shared, roots, options) {
        while let Err(RecvTimeoutError::Timeout) =
            end.recv_timeout(CHECK_EVERY.min(shared.patience))
        {
            failed = failed.filter(|at: &Instant| at.elapsed() <= shared.patience);
            judge(shared, failed.is_some());
        }
        if scan.join().is_ok() {
            return;
        }
        failed = Some(Instant::now());
        shared.set_status(|status| status.restarts += 1);
        judge(shared, true);
        std::thread::sleep(RESTART_AFTER);
        shared.forget_runs();
    }
}

/// Starts the thread; what is received ends with it.
fn scan(
    shared: &Arc<Shared>,
    roots: &[PathBuf],
    options: &Options,
) -> Option<(JoinHandle<()>, mpsc::Receiver<()>)> {
    let (ended, end) = mpsc::channel();
    let (of_scan, roots, options) = (Arc::clone(shared), roots.to_vec(), options.clone());
    let scan = move || {
        let _ended = ended;
        of_scan.beat.beat("starting");
        Scanner::new(of_scan, roots, options).follow();
    };
    match Builder::new().name("board-scan".to_owned()).spawn(scan) {
        Ok(thread) => Some((thread, end)),
        Err(error) => {
            not_started(shared, &error);
            None
        }
    }
}

fn not_started(shared: &Shared, error: &std::io::Error) {
    let why = format!("the watching thread did not start: {error}");
    shared
        .set_status(|status| (status.mode, status.stalled) = (Mode::Poll(why.clone()), Some(why)));
}

/// Says whether news come, to those too who listen already.
fn judge(shared: &Shared, failed: bool) {
    let overdue = shared.beat.overdue(shared.patience);
    let stalled = overdue.map(|doing| {
        format!(
            "no news for longer than {} s: {doing}",
            shared.patience.as_secs()
        )
    });
    let stalled = stalled
        .or_else(|| failed.then(|| "reading the runs failed and is started again".to_owned()));
    shared.say_stalled(stalled);
}

/// Does `work`, which may fail on what is in a file; says whether it did not.
pub(super) fn contained<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}
