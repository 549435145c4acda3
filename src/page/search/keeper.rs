//! Keeps the index of texts up to date: a thread adds the runs that changed, newest first.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::live::{Library, Run};
use crate::model::RunKey;
use crate::page::search::said;
use crate::text_index::{Fault, Put, TextIndex};

/// How long the thread works before it rests, so that pages and live runs take priority.
const SLICE: Duration = Duration::from_millis(10);
const REST: Duration = Duration::from_millis(2);
/// How often the thread looks for changes.
const PAUSE: Duration = Duration::from_millis(500);
/// How often it looks at all runs without any news. Files become settled without news.
const AGAIN: Duration = Duration::from_secs(4);
/// A run that may grow is added when it hasn't grown for this long, and for a second more for each of
/// these bytes, because all of it is added again each time.
const QUIET: Duration = Duration::from_secs(10);
const BYTES_PER_SECOND: u64 = 1 << 20;
/// How long the thread waits after an error, such as a full disk.
const RETRY: Duration = Duration::from_secs(30);
/// The thread rests this many times longer than it took to look for changes.
const REST_SHARE: u32 = 10;
/// A full index keeps this share of its runs, in percent, so that there is room for new ones.
const KEPT_PERCENT: usize = 80;

/// Opens the index of texts, which may take a while after a crash.
pub(crate) type Open = Box<dyn FnOnce() -> Option<TextIndex> + Send>;

/// Starts the thread, which opens the index and puts it into `texts`. It ends when the library is closed
/// or board is stopping.
///
/// # Errors
/// Fails if the system refuses a thread.
pub(crate) fn start(
    library: &Arc<Library>,
    open: Open,
    texts: Arc<OnceLock<Arc<TextIndex>>>,
    stopping: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let library = Arc::downgrade(library);
    let thread = std::thread::Builder::new().name("board-texts".to_owned());
    thread.spawn(move || {
        let Some(opened) = open() else {
            return;
        };
        let keeper = Keeper {
            library,
            texts: Arc::clone(texts.get_or_init(|| Arc::new(opened))),
            stopping,
            tried: HashMap::new(),
        };
        keeper.keep();
    })?;
    Ok(())
}

struct Keeper {
    library: Weak<Library>,
    texts: Arc<TextIndex>,
    stopping: watch::Receiver<bool>,
    /// The versions that couldn't be added.
    tried: HashMap<RunKey, u64>,
}

impl Keeper {
    fn keep(mut self) {
        let (mut seen, mut looked) = (None, Instant::now());
        while !*self.stopping.borrow() {
            let Some(library) = self.library.upgrade() else {
                return;
            };
            let revision = *library.revision().borrow();
            let status = library.status();
            // What is read first for the list of runs would be read a second time.
            let is_ready = status.first_look_done && status.indexing == 0;
            let began = Instant::now();
            if is_ready && (seen != Some(revision) || began - looked > AGAIN) {
                looked = began;
                match self.update(&library) {
                    Ok(()) => seen = Some(revision),
                    Err(error) => {
                        tracing::warn!("can't update the search index: {error}");
                        self.sleep(RETRY);
                    }
                }
            }
            drop(library);
            // With many runs, looking for changes takes a while.
            self.sleep(PAUSE.max((began.elapsed() * REST_SHARE).min(AGAIN)));
        }
    }

    /// Sleeps, unless board is stopping.
    fn sleep(&self, time: Duration) {
        let began = Instant::now();
        while began.elapsed() < time && !*self.stopping.borrow() {
            std::thread::sleep(PAUSE.min(time));
        }
    }

    /// Adds the runs that changed, and removes those that are gone.
    fn update(&mut self, library: &Library) -> Result<(), Fault> {
        let mut runs = library.counted();
        let keys: HashSet<&[u8]> = runs.iter().map(|run| owner(run)).collect();
        self.texts.retain(|name| keys.contains(name))?;
        self.tried
            .retain(|key, _| keys.contains(key.as_str().as_bytes()));
        runs.sort_by_cached_key(|run| std::cmp::Reverse(run.summary().updated));
        for at in 0..runs.len() {
            let Some(run) = runs.get(at) else {
                break;
            };
            if *self.stopping.borrow() {
                return Ok(());
            }
            let Some(version) = run.version() else {
                continue;
            };
            if self.texts.has(owner(run), version)
                || self.tried.get(run.key()) == Some(&version)
                || run.is_evicted()
                || run.grows(QUIET + Duration::from_secs(run.dir().bytes() / BYTES_PER_SECOND))
            {
                continue;
            }
            let mut put = self.add(run, version)?;
            // A run that is as large as many others doesn't replace them.
            let share = self.texts.max_bytes() / 100 * (100 - KEPT_PERCENT as u64);
            if put == Put::NoRoom && run.dir().bytes() < share {
                if !self.make_room(&runs, at)? {
                    // The others are older.
                    return Ok(());
                }
                put = self.add(run, version)?;
            }
            if put != Put::Stored {
                self.tried.insert(run.key().clone(), version);
            }
        }
        Ok(())
    }

    /// Adds the texts of a run.
    fn add(&self, run: &Run, version: u64) -> Result<Put, Fault> {
        let mut slice = Instant::now();
        let mut add = || {
            self.texts.put(owner(run), version, |put| {
                let index = run.index_once();
                let is_complete = said::texts(run, &run.summary(), &index, &mut |text| {
                    if slice.elapsed() > SLICE {
                        std::thread::sleep(REST);
                        slice = Instant::now();
                    }
                    put(text) && !*self.stopping.borrow()
                });
                // The files may have changed while they were read.
                is_complete && run.version() == Some(version)
            })
        };
        // The content of a file may reveal a fault of board. The other runs don't suffer from it.
        catch_unwind(AssertUnwindSafe(&mut add)).unwrap_or_else(|_| {
            tracing::error!("{}: adding it to the search index failed", run.key());
            Ok(Put::Incomplete)
        })
    }

    /// Removes the oldest of the `runs`, which are sorted, from a full index. Returns whether there is
    /// room for the one at `wanted`.
    fn make_room(&self, runs: &[Arc<Run>], wanted: usize) -> Result<bool, Fault> {
        let is_in = |run: &&Arc<Run>| {
            run.version()
                .is_some_and(|version| self.texts.has(owner(run), version))
        };
        let indexed = runs.iter().filter(is_in).count();
        let newest = runs.iter().filter(is_in).take(indexed * KEPT_PERCENT / 100);
        let kept: HashSet<&[u8]> = newest.clone().map(|run| owner(run)).collect();
        let oldest = newest.last();
        let is_newer = |oldest: &Arc<Run>| {
            let wanted = runs.get(wanted).map(|run| run.summary().updated);
            wanted > Some(oldest.summary().updated)
        };
        if !oldest.is_none_or(is_newer) {
            return Ok(false);
        }
        self.texts.retain(|name| kept.contains(name))?;
        self.texts.compact()?;
        Ok(true)
    }
}

/// Returns the name of a run in the index.
pub(super) fn owner(run: &Run) -> &[u8] {
    run.key().as_str().as_bytes()
}
