//! Supervises the scan thread. It's restarted if it fails. If it's silent for too long or failed a
//! moment ago, the status says so.
//!
//! The thread gives a sign of life between any two of its activities.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::scan::Scanner;
use super::shared::{Mode, Options, Shared};

/// The interval between checks of the thread.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// The number of checks after which freed memory is given back.
const GIVE_BACK_EVERY: u32 = 10;
/// The delay before a failed thread is restarted.
const RESTART_AFTER: Duration = Duration::from_millis(500);

/// Follows roots on a thread that is supervised by another one. Both end once the library is
/// closed, and the returned channel then disconnects.
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
    let mut checks = 0_u32;
    while let Some((scan, end)) = scan(shared, roots, options) {
        while let Err(RecvTimeoutError::Timeout) =
            end.recv_timeout(CHECK_EVERY.min(shared.patience))
        {
            failed = failed.filter(|at: &Instant| at.elapsed() <= shared.patience);
            judge(shared, failed.is_some());
            checks = checks.wrapping_add(1);
            if checks.is_multiple_of(GIVE_BACK_EVERY) {
                give_back_memory();
            }
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

/// Lets the allocator return freed memory to the system.
///
/// mimalloc 2 returns it after a delay, but only when it next frees a block with a segment of its
/// own, which is one of more than 16 MiB. After a large run was evicted, no such block may be freed
/// for hours. Little of this block is touched, so it costs next to nothing.
fn give_back_memory() {
    const ABOVE_SEGMENT_BYTES: usize = 20 << 20;
    let mut block = Vec::<u8>::new();
    // If there's no memory for it, the next attempt may succeed.
    let _ = block.try_reserve_exact(ABOVE_SEGMENT_BYTES);
    drop(std::hint::black_box(block));
}

/// Starts the scan thread. The receiver disconnects when the thread ends.
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
    let why = format!("can't start the watching thread: {error}");
    shared
        .set_status(|status| (status.mode, status.stalled) = (Mode::Poll(why.clone()), Some(why)));
}

/// Publishes whether updates arrive, and notifies current readers.
fn judge(shared: &Shared, failed: bool) {
    let overdue = shared.beat.overdue(shared.patience);
    let stalled = overdue.map(|doing| {
        format!(
            "no progress for more than {} s: {doing}",
            shared.patience.as_secs()
        )
    });
    let stalled = stalled
        .or_else(|| failed.then(|| "reading the runs failed and is being restarted".to_owned()));
    shared.say_stalled(stalled);
}
