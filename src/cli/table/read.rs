//! Reads many runs on all processors and returns the results in the order of the runs.

use std::sync::mpsc::sync_channel;
use std::thread;

use crate::analysis::copies::Keys;
use crate::cli::command::Failure;
use crate::error::{Error, Kind};
use crate::live::Listed;
use crate::trace::{RunDir, Stamps};

/// The maximum number of pieces that each thread buffers.
const AHEAD: usize = 4;
/// The maximum number of threads. More would read faster than one can write.
pub(super) const MAX_THREADS: usize = 8;

/// A piece of a run's output. A run yields its rows in pieces of whole rows, and then its facts.
#[derive(Debug)]
pub(super) enum Piece {
    Rows(Vec<u8>),
    Done(Box<Made>),
}

/// The result of reading a run.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// The number of rows.
    pub(super) count: u64,
    /// When the run began, in microseconds since the epoch.
    pub(super) started: Option<i64>,
    /// The state of its files, if its rows are valid until one of them changes.
    pub(super) stamps: Option<Stamps>,
    /// The size of its files in bytes.
    pub(super) size: u64,
    /// The keys that it shares with runs that may have the same records.
    pub(super) keys: Keys,
}

/// Returns the size of a run's files in bytes.
pub(super) fn size(dir: &RunDir) -> u64 {
    let [manifest, steps, events] = Stamps::of(dir).map_or([None; 3], |stamps| stamps.sizes());
    // In another tool's run, the steps are the same file as the records.
    let files = if dir.tool().is_some() {
        [None, None, events]
    } else {
        [manifest, steps, events]
    };
    files.into_iter().flatten().sum()
}

/// Calls `make` for the runs on several threads, and `take` with the results in order. `make` sends
/// rows as it writes them, so that a run with many steps is never held in memory as a whole.
///
/// # Errors
/// Returns the error of `take`, after which no more runs are read.
pub(super) fn each<'a>(
    runs: &[&'a Listed],
    make: impl Fn(&Listed, &mut dyn FnMut(Vec<u8>)) -> Made + Sync,
    mut take: impl FnMut(&'a Listed, Piece) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let threads = thread::available_parallelism()
        .map_or(1, usize::from)
        .min(MAX_THREADS)
        .min(runs.len())
        .max(1);
    thread::scope(|scope| {
        let make = &make;
        let read = |at: usize| {
            let (sender, receiver) = sync_channel(AHEAD);
            scope.spawn(move || {
                let _ = runs.iter().skip(at).step_by(threads).all(|run| {
                    // After an error, the results are no longer received. The channel is closed,
                    // and the next send ends the thread.
                    let made = make(run, &mut |rows| drop(sender.send(Piece::Rows(rows))));
                    sender.send(Piece::Done(Box::new(made))).is_ok()
                });
            });
            receiver
        };
        let receivers: Vec<_> = (0..threads).map(read).collect();
        for (run, receiver) in runs.iter().zip(receivers.iter().cycle()) {
            loop {
                let piece = receiver.recv().map_err(|_| {
                    Error::new(Kind::Bug, format!("reading {} failed", run.path))
                        .hint("`board check` shows its issues")
                })?;
                let is_done = matches!(piece, Piece::Done(_));
                take(run, piece)?;
                if is_done {
                    break;
                }
            }
        }
        Ok(())
    })
}
