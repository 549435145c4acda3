//! How are many runs read, one after the other, on all processors? What comes out is in their order.

use std::sync::mpsc::sync_channel;
use std::thread;

use crate::analysis::copies::Keys;
use crate::cli::Failure;
use crate::error::{Error, Kind};
use crate::live::Listed;
use crate::trace::{RunDir, Stamps};

/// Each thread holds at most this many pieces that nobody has taken yet.
const AHEAD: usize = 4;
/// More threads than this would read faster than one can write.
pub(super) const MAX_THREADS: usize = 8;

/// What comes out of a run, in this order: its rows in pieces of whole rows, then what is known about it.
#[derive(Debug)]
pub(super) enum Piece {
    Rows(Vec<u8>),
    Done(Box<Made>),
}

/// What became of a run.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// How many rows it has.
    pub(super) count: u64,
    /// When it began; microseconds since the epoch.
    pub(super) started: Option<i64>,
    /// What its files looked like, where its rows hold until one of them changes.
    pub(super) stamps: Option<Stamps>,
    /// Bytes of its files.
    pub(super) size: u64,
    /// What it shares with runs that may hold the same records.
    pub(super) keys: Keys,
}

/// Bytes of the files of a run.
pub(super) fn size(dir: &RunDir) -> u64 {
    let [manifest, steps, events] = Stamps::of(dir).map_or([None; 3], |stamps| stamps.sizes());
    // The steps of another tool's run are its records once more.
    let files = if dir.tool().is_some() {
        [None, None, events]
    } else {
        [manifest, steps, events]
    };
    files.into_iter().flatten().sum()
}

/// Calls `make` for the runs on several threads, and `take` with what comes of them, in order. `make` hands over rows as it
/// writes them, so that a run of many steps is never held as a whole.
///
/// # Errors
/// Of `take`; nothing is read any more after it.
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
                    // After an error nobody takes any more: the channel is closed, and the next send ends the thread.
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
                        .hint("`board check` says what is odd in it")
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
