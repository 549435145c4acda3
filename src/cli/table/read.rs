//! How are many runs read, one after the other, on all processors? What comes out is in their order.

use std::sync::mpsc::sync_channel;
use std::thread;

use crate::analysis::copies::Keys;
use crate::cli::Failure;
use crate::error::{Error, Kind};
use crate::live::Listed;
use crate::trace::{RunDir, Stamps};

/// So many runs are read ahead by each thread.
const AHEAD: usize = 2;
/// More threads than this would read faster than one can write.
pub(super) const MAX_THREADS: usize = 8;

/// What became of a run.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// Its rows.
    pub(super) rows: Vec<u8>,
    /// How many they are.
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
    let files = if dir.tool().is_some() { [None, None, events] } else { [manifest, steps, events] };
    files.into_iter().flatten().sum()
}

/// Has `make` read runs, on several threads, and `take` have what comes of it, in order.
///
/// # Errors
/// Of `take`; nothing is read any more after it.
pub(super) fn each<'a>(
    runs: &[&'a Listed],
    make: impl Fn(&Listed) -> Made + Sync,
    mut take: impl FnMut(&'a Listed, Made) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS).min(runs.len()).max(1);
    thread::scope(|scope| {
        let make = &make;
        let read = |at: usize| {
            let (sender, receiver) = sync_channel(AHEAD);
            scope.spawn(move || {
                // Nobody takes any more after an error.
                let _ = runs.iter().skip(at).step_by(threads).all(|run| sender.send(make(run)).is_ok());
            });
            receiver
        };
        let receivers: Vec<_> = (0..threads).map(read).collect();
        for (run, receiver) in runs.iter().zip(receivers.iter().cycle()) {
            let made = receiver.recv().map_err(|_| {
                Error::new(Kind::Bug, format!("reading {} failed", run.path))
                    .hint("`board check` says what is odd in it")
            })?;
            take(run, made)?;
        }
        Ok(())
    })
}
