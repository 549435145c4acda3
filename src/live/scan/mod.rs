//! Schedules all checks on one thread: hints immediately, live runs every second, the roots every
//! few seconds, and the rest now and then. Large files are read in pieces in between.

mod copies;
mod notes;
mod watching;

use std::borrow::Borrow;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::hash::{Hash, Hasher};
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::cache::Cache;
use super::hints::Inbox;
use super::queue::Queue;
use super::roots::Root;
use super::rounds::Rounds;
use super::run::{News, Run, now};
use super::shared::{Options, Shared};
use super::stored_indexes::StoredIndexes;
use crate::analysis::summary::Summary;
use crate::in_order::{Results, in_order};
use crate::model::RunKey;
use crate::trace::{
    Lister, RootScan, RunDir, SETTLE, Skipped, close_idle, holds_parts, is_trace_file, may_be_trace,
};

/// The bytes of each file read at a time, so that a hint never waits long for a large file.
const PIECE_BYTES: u64 = 4 << 20;
/// How many runs are read at the same time, at most, and how long no further one is begun. Hints wait
/// until all of them are read.
const MAX_TOGETHER: usize = 64;
const TOGETHER_TIME: Duration = Duration::from_millis(10);
/// At the start, the newest runs are read first. Another thread finds out when each run was written,
/// which takes about 20 µs a run, and much longer on a cold or remote disk. After this time, for which
/// hints wait too, runs are read in any order until it has finished.
const ORDER_TIME: Duration = Duration::from_millis(50);
/// The interval between checks of live runs.
const LIVE_EVERY: Duration = Duration::from_secs(1);
/// The interval between scans of the roots. A scan costs one `stat` per directory.
const ROOT_EVERY: Duration = Duration::from_secs(5);
/// The interval between checks of idle runs while file system events arrive. The checks are spread
/// over the interval.
const IDLE_EVERY: Duration = Duration::from_secs(60);
/// The interval between attempts to restore missing file system events, because the obstacle may be
/// gone.
const WATCH_AGAIN_EVERY: Duration = Duration::from_secs(60);
/// The time for runs with an immediate check, before other work gets its turn.
const URGENT_BUDGET: Duration = Duration::from_millis(20);
/// The interval between checks of runs that wait for a file to be decompressed or for other
/// documents, and how many are checked at a time.
const WAITING_EVERY: Duration = Duration::from_millis(20);
const WAITING_AT_ONCE: usize = 8;
/// The default interval between checks of every file without file system events.
const POLL_EVERY: Duration = Duration::from_secs(2);
/// The time per second for runs that may change.
const LIVELY_BUDGET: Duration = Duration::from_millis(200);
/// If the heads in memory take more bytes than this, runs that ended and have no viewers are
/// evicted.
const MAX_OPEN_BYTES: u64 = 64 << 20;
/// After a scan of the roots, hints trigger no further scan for this many times as long as the scan
/// took.
const ROOT_REST: u32 = 5;
/// The same factor for slow scans, and for the next scan without a hint. It limits scans to half a
/// percent of a core, however many directories there are. In the meantime, hints report what
/// appears and disappears.
const LARGE_ROOT_REST: u32 = 200;
/// A scan of the roots that takes longer than this is slow.
const LONG_LOOK: Duration = Duration::from_millis(20);
/// The shortest interval between writes of the index cache. It's also written at the end.
const SAVE_EVERY: Duration = Duration::from_secs(60);
/// The shortest interval between rewrites of the cache, per run. A rewrite writes all runs, and
/// this limits its cost to half a percent of a core.
const SAVE_REST: Duration = Duration::from_millis(2);
/// How long a new directory without a run is checked every second.
const YOUNG: Duration = Duration::from_secs(10);
/// The activity shown while the roots are scanned.
const LOOKING: &str = "scanning the roots";
/// The activity shown while changed tags are applied.
const TAGGING: &str = "applying tags";
/// The time per second for runs without hints. Without file system events, this covers all runs.
const IDLE_BUDGET: Duration = Duration::from_millis(5);
const POLL_BUDGET: Duration = Duration::from_millis(200);

/// The path of a run, ordered by its bytes. It shares its text with the run's own path.
#[derive(Debug, Clone)]
struct Place(Arc<Path>);

impl Borrow<OsStr> for Place {
    fn borrow(&self) -> &OsStr {
        self.0.as_os_str()
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_os_str() == other.0.as_os_str()
    }
}

impl Eq for Place {}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.as_os_str().cmp(other.0.as_os_str())
    }
}

impl Hash for Place {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_os_str().hash(state);
    }
}

/// When runs were written, in microseconds since the epoch.
type Written = HashMap<RunKey, i64>;

fn written(runs: &[Arc<Run>]) -> Written {
    let written = runs.iter().filter_map(|run| {
        let (_, newest) = run.dir().written()?;
        Some((run.key().clone(), newest))
    });
    written.collect()
}

/// Which large files were listed.
#[derive(Debug, Clone, Copy)]
enum Listed {
    /// At least one whose runs aren't known yet.
    OfNewFile,
    /// Only files that were listed before.
    Again,
}

pub(super) struct Scanner {
    shared: Arc<Shared>,
    roots: Vec<Root>,
    threads: NonZero<usize>,
    options: Options,
    cache: Option<Arc<Cache>>,
    stored: Option<Arc<StoredIndexes>>,
    saver: Option<JoinHandle<()>>,
    /// Where the times at which the runs of the backlog were written will arrive.
    order: Option<Receiver<Written>>,
    watcher: Option<notify::RecommendedWatcher>,
    fault: Option<String>,
    /// The runs by the bytes of their directories' paths, so that those below a directory are
    /// adjacent.
    by_dir: BTreeMap<Place, Arc<Run>>,
    /// Recently created directories without a run. Anything written before the system watches them
    /// produces no event.
    young: Vec<(PathBuf, Instant)>,
    backlog: Queue,
    /// Documents that were read in part.
    begun: Vec<Arc<Run>>,
    /// Lists the runs of large files.
    lister: Arc<Lister>,
    /// Runs whose files are being decompressed. Those that have waited longest are first.
    waiting: Queue,
    /// When they are checked next.
    waiting_due: Instant,
    /// Whether a run of the backlog was rewritten from its start. Its file may be another tool's
    /// now.
    restarted: bool,
    rounds: Rounds,
    compared: copies::Compared,
    settle: Duration,
    /// Whether each run is read to its end before the next one begins. No one waits for the others
    /// then, and a file may hold many large runs.
    reads_once: bool,
    /// The bytes of heads read from documents since the last memory check.
    read_bytes: u64,
    /// When the cache is rewritten next, if anything changed.
    save_due: Instant,
    /// When the cache is appended to next, while runs are being read.
    add_due: Instant,
    unsaved: bool,
    /// Whether the roots were scanned.
    looked: bool,
    /// When to try again to get missing file system events.
    watch_due: Instant,
    /// The time of day at the last check of the runs.
    clock: i64,
}

impl Scanner {
    pub(super) fn new(shared: Arc<Shared>, roots: Vec<PathBuf>, options: Options) -> Self {
        let waker = Arc::clone(&shared);
        // Without inodes and change times that can't be forged, a changed file may look the same.
        let cache_dir = options.cache.as_deref().filter(|_| cfg!(unix));
        Self {
            lister: Lister::new(move || waker.hints.wake()),
            shared,
            roots: Root::all(roots, &options.mirrors),
            threads: options.threads(),
            cache: cache_dir.and_then(Cache::open).map(Arc::new),
            stored: cache_dir
                .and_then(|dir| StoredIndexes::open(dir, options.threads()))
                .map(Arc::new),
            saver: None,
            order: None,
            options,
            watcher: None,
            fault: None,
            by_dir: BTreeMap::new(),
            young: Vec::new(),
            backlog: Queue::default(),
            begun: Vec::new(),
            waiting: Queue::default(),
            waiting_due: Instant::now(),
            restarted: false,
            rounds: Rounds::default(),
            compared: copies::Compared::default(),
            settle: SETTLE,
            reads_once: false,
            read_bytes: 0,
            save_due: Instant::now(),
            add_due: Instant::now() + SAVE_EVERY,
            unsaved: false,
            looked: false,
            watch_due: Instant::now() + WATCH_AGAIN_EVERY,
            clock: now(),
        }
    }

    /// Returns how many runs wait to be read.
    #[cfg(test)]
    pub(super) fn backlog(&self) -> usize {
        self.backlog.len()
    }

    /// Simulates lost watch events.
    #[cfg(test)]
    pub(super) fn lose_events(&mut self, why: &str) {
        self.fault = Some(why.to_owned());
    }

    /// Simulates that the runs were last checked at `clock`.
    #[cfg(test)]
    pub(super) fn set_clock(&mut self, clock: i64) {
        self.clock = clock;
    }

    /// Returns whether runs wait for an immediate check.
    #[cfg(test)]
    pub(super) fn owes(&self) -> bool {
        self.rounds.has_urgent()
    }

    /// Reads everything once.
    pub(super) fn read_once(mut self) {
        self.settle = Duration::ZERO;
        self.reads_once = true;
        self.look_at_roots();
        while self.read_piece() {}
        self.compare_copies();
        self.save_at_the_end();
    }

    /// Follows the roots until the library is closed.
    pub(super) fn follow(mut self) {
        self.roots
            .iter_mut()
            .for_each(|root| root.scanner.look_aside_with(&self.lister));
        if self.options.poll.is_none() {
            self.ask_for_events();
        }
        let mut roots_due = Instant::now();
        let mut live_due = roots_due + LIVE_EVERY;
        let mut rest_until = roots_due;
        let mut wanted = false;
        loop {
            self.shared.beat.beat(LOOKING);
            #[cfg(test)]
            self.shared.play_fault();
            let now = Instant::now();
            if now >= roots_due || (wanted && now >= rest_until) {
                let first = !self.looked;
                self.look_at_roots();
                wanted = false;
                let took = now.elapsed();
                let long = took > LONG_LOOK && self.options.poll.is_none();
                let rest = took * if long { LARGE_ROOT_REST } else { ROOT_REST };
                rest_until = Instant::now() + rest;
                // The system reports nothing about a missing root, and checking for it is cheap.
                let every = if self.roots.iter().any(|root| root.fault) {
                    LIVE_EVERY
                } else {
                    ROOT_EVERY
                };
                let every = every.min(self.poll_every().unwrap_or(every));
                roots_due = if long {
                    rest_until.max(now + every)
                } else {
                    Instant::now() + every
                };
                if first {
                    roots_due = now;
                }
            }
            if Instant::now() >= live_due {
                self.look_at_runs();
                live_due = Instant::now() + LIVE_EVERY.min(self.options.poll.unwrap_or(LIVE_EVERY));
            }
            self.check_urgent();
            self.look_at_waiting();
            let due = if self.backlog.is_empty() && !self.rounds.has_urgent() {
                live_due.min(roots_due)
            } else {
                Instant::now()
            };
            let due = if wanted { due.min(rest_until) } else { due };
            let compare = self.compared.due(self.unread());
            let due = compare.map_or(due, |compare| due.min(compare));
            let due = if self.waiting.is_empty() {
                due
            } else {
                due.min(self.waiting_due)
            };
            self.shared.beat.beat("waiting for changes");
            let inbox = self.shared.hints.wait(due);
            if inbox.stop {
                self.save_at_the_end();
                return;
            }
            let save_due = if self.backlog.is_empty() {
                self.save_due
            } else {
                self.add_due
            };
            if self.unsaved && Instant::now() >= save_due {
                self.save();
            }
            wanted |= self.act_on(&inbox);
            match self.take_listed() {
                Some(Listed::OfNewFile) => roots_due = Instant::now(),
                Some(Listed::Again) => wanted = true,
                None => {}
            }
            self.read_piece();
            self.compare_copies();
            wanted |= std::mem::take(&mut self.restarted);
        }
    }

    /// Queues the runs of the large files that have been listed since the last call.
    fn take_listed(&mut self) -> Option<Listed> {
        let mut listed = None;
        for file in self.lister.take_finished() {
            let runs: Vec<_> = self.below(&file).cloned().collect();
            match listed {
                Some(Listed::OfNewFile) => {}
                _ if runs.is_empty() => listed = Some(Listed::OfNewFile),
                _ => listed = Some(Listed::Again),
            }
            for run in runs {
                self.waiting.remove(&run);
                self.backlog.push(run);
            }
        }
        listed
    }

    /// Checks the runs and directories in the hints. Returns whether the roots should be scanned,
    /// too.
    pub(super) fn act_on(&mut self, inbox: &Inbox) -> bool {
        let mut runs: Vec<Arc<Run>> = Vec::new();
        let mut dirs: HashSet<&Path> = HashSet::new();
        let mut rescan = inbox.rescan;
        if inbox.lost {
            self.rounds.mark_all_urgent();
        }
        for path in &inbox.paths {
            // The runs of a file that is being listed are checked once all of them are known. There
            // may be a hundred thousand.
            let is_being_listed = |run: &Arc<Run>| run.dir().is_being_listed(path);
            if self.below(path).next().is_some_and(is_being_listed) {
                continue;
            }
            let parent = path.parent().unwrap_or(path);
            let own = self.by_dir.get(path.as_os_str());
            // A run with one file per record has these files in a subdirectory.
            let around = || {
                self.by_dir
                    .get(parent.parent()?.as_os_str())
                    .filter(|run| run.dir().is_files())
            };
            // The messages of some runs are elsewhere.
            let apart = || {
                let above = parent.parent()?.parent().filter(|_| holds_parts(parent))?;
                self.below(above)
                    .find(|run| run.dir().has_messages_in(parent))
            };
            match own
                .or_else(|| self.by_dir.get(parent.as_os_str()))
                .or_else(around)
                .or_else(apart)
            {
                Some(run) if runs.iter().any(|known| Arc::ptr_eq(known, run)) => {}
                Some(run) => {
                    // A file without a run may contain some now.
                    rescan |= run.dir().has_no_records();
                    runs.push(Arc::clone(run));
                }
                // The file appeared before its new directory was watched, so this is the first sign
                // of a run.
                None if is_trace_file(path) => {
                    rescan = true;
                    dirs.insert(parent);
                }
                None if may_be_trace(path) => {
                    if inbox.rescan {
                        dirs.insert(parent);
                    } else if self.below(path).next().is_some() {
                        // A file that contains runs may contain different ones now.
                        runs.extend(self.below(path).cloned());
                        rescan = true;
                    }
                }
                None => {}
            }
            if inbox.rescan {
                runs.extend(self.below(path).cloned());
                dirs.insert(path);
            }
            for root in &mut self.roots {
                // If a root is removed and immediately recreated, it's a different directory under
                // the same name.
                root.watched.take_if(|place| place.path == *path);
            }
        }
        // One hint may concern all runs of an archive. Most of them are then queued with the
        // others.
        let start = Instant::now();
        for run in runs {
            if start.elapsed() > URGENT_BUDGET && !inbox.rescan {
                self.backlog.push(run);
                continue;
            }
            // The reader of a document detects changes when it reaches the end.
            if self.is_begun(&run) && run.dir().has_files() {
                continue;
            }
            // Checked twice, because the files may be evicted or come back between the two.
            if inbox.rescan && !run.stays() && !run.dir().has_files() && !run.stays() {
                self.by_dir.remove(run.dir().path().as_os_str());
                self.leave(&run);
            } else {
                // A file that was rewritten from its start may be another tool's now. Documents are
                // always rewritten.
                rescan |= self.refresh(&run) && !run.dir().is_document();
            }
        }
        dirs.into_iter()
            .for_each(|dir| self.look_below(dir, Instant::now()));
        if inbox.fault.is_some() {
            self.fault.clone_from(&inbox.fault);
        }
        rescan
    }

    /// Adds the runs in a new directory without scanning all the others.
    pub(super) fn look_below(&mut self, dir: &Path, came: Instant) {
        if !dir.is_dir() {
            return;
        }
        let mut none = true;
        for at in 0..self.roots.len() {
            let Some(root) = self.roots.get_mut(at) else {
                continue;
            };
            for (key, dir) in root.scanner.scan_below(dir) {
                none = false;
                if self.by_dir.contains_key(dir.path().as_os_str()) {
                    continue;
                }
                // Name conflicts between directories are resolved by a full scan.
                let shown = self.roots.get(at).map(|root| root.key(key.clone()));
                let taken = shown.is_none_or(|key| {
                    self.shared
                        .runs
                        .read()
                        .is_ok_and(|runs| runs.contains_key(&key))
                });
                let path = Place(dir.shared_path());
                if !taken && let Some(run) = self.follow_run(at, key, dir) {
                    self.show(std::slice::from_ref(&run));
                    self.by_dir.insert(path, run);
                }
            }
        }
        if none && came.elapsed() < YOUNG {
            self.young.push((dir.to_owned(), came));
        }
    }

    pub(super) fn look_at_roots(&mut self) {
        let looked = std::mem::replace(&mut self.looked, true);
        let stay = self.evicted();
        let mut found: BTreeMap<Place, Arc<Run>> = BTreeMap::new();
        for at in 0..self.roots.len() {
            // Watching before the scan ensures that one of them sees every change. Only the first
            // scan comes before watching, because users wait for it, and watching a large root
            // takes longer than scanning it. A second scan follows immediately.
            if looked {
                self.watch(at);
            }
            let Some(root) = self.roots.get_mut(at) else {
                continue;
            };
            let look = root.look(self.cache.as_deref(), &|| self.shared.beat.beat(LOOKING));
            self.take_in(at, look, &mut found);
            // The runs of a large file are listed later.
            if self.lister.pending() == 0 {
                self.roots
                    .iter_mut()
                    .skip(at)
                    .take(1)
                    .for_each(Root::forget);
            }
        }
        // Built at once, a map takes little more than half the memory.
        let found = found.into_iter().collect();
        let before = std::mem::replace(&mut self.by_dir, found);
        for (dir, run) in before {
            match self.by_dir.get(&dir) {
                Some(now) if Arc::ptr_eq(now, &run) => {}
                None if run.stays() || stay.contains(&dir) => drop(self.by_dir.insert(dir, run)),
                _ => self.leave(&run),
            }
        }
        self.publish();
        if !looked {
            self.shared.beat.beat(LOOKING);
            self.sort_backlog(ORDER_TIME);
        }
    }

    /// Moves the newest runs of the backlog to its front, if it's known within `time` which ones these
    /// are. Otherwise that is done later.
    pub(super) fn sort_backlog(&mut self, time: Duration) {
        let runs = self.backlog.first(usize::MAX);
        let shared = Arc::clone(&self.shared);
        let (sender, receiver) = mpsc::sync_channel(1);
        let look = move || {
            // Board may have ended.
            let _ = sender.send(written(&runs));
            shared.hints.wake();
        };
        // Without a thread, they are read in the order of their paths.
        let thread = std::thread::Builder::new().name("board-sort".to_owned());
        if thread.spawn(look).is_ok() {
            self.take_order(receiver, time);
        }
    }

    /// Sorts the backlog if it becomes known within `time` which of its runs are the newest.
    fn take_order(&mut self, order: Receiver<Written>, time: Duration) {
        match order.recv_timeout(time) {
            Ok(written) => self
                .backlog
                .sort_by_key(|run| Reverse(written.get(run.key()).copied())),
            Err(RecvTimeoutError::Timeout) => self.order = Some(order),
            // A panic in the thread was reported when it happened.
            Err(RecvTimeoutError::Disconnected) => {}
        }
    }

    /// Sorts the backlog if it became known which of its runs are the newest.
    fn take_late_order(&mut self) {
        if let Some(order) = self.order.take() {
            self.take_order(order, Duration::ZERO);
        }
    }

    /// Waits until it's known which runs of the backlog are the newest.
    #[cfg(test)]
    pub(super) fn wait_for_order(&mut self) {
        if let Some(order) = self.order.take() {
            self.take_order(order, Duration::MAX);
        }
    }

    /// Removes a run whose files are gone or belong to another tool's trace now.
    fn leave(&mut self, run: &Arc<Run>) {
        self.compared.outdate();
        self.begun.retain(|begun| !Arc::ptr_eq(begun, run));
        if let Ok(mut runs) = self.shared.runs.write() {
            // If a root is a symlink and its target changed, the key may already belong to another
            // run.
            if runs
                .get(run.key())
                .is_some_and(|known| Arc::ptr_eq(known, run))
            {
                runs.remove(run.key());
            }
        }
        self.shared.raise(|revision| run.leave(revision));
        self.rounds.note(run);
    }

    /// Creates a run and starts to follow it.
    fn follow_run(&mut self, at: usize, key: RunKey, dir: RunDir) -> Option<Arc<Run>> {
        let root = self.roots.get_mut(at)?;
        let (key, path) = (root.key(key), root.shown(&dir));
        let (prices, path) = (&self.options.prices, Arc::from(path));
        let run = match root.recall(&dir) {
            Some((stamps, summary)) => Run::parked(
                dir,
                self.settle,
                stamps,
                Summary {
                    key,
                    path,
                    ..summary
                }
                .priced(prices),
            ),
            None => Run::new(&key, path, dir, self.settle).priced(prices),
        };
        let run = run
            .in_store(root.mirror.clone())
            .stored_in(self.stored.clone());
        let run = Arc::new(run.tagged(&self.options.tags));
        if !run.is_known() {
            self.backlog.push(Arc::clone(&run));
        }
        self.rounds.add(Arc::clone(&run));
        Some(run)
    }

    /// Publishes runs, all at once.
    fn show(&mut self, fresh: &[Arc<Run>]) {
        self.compared.outdate();
        // Readers that see the new runs must also see that they are unread.
        let left = self.unread();
        self.shared.set_status(|status| {
            status.indexing = left;
            status.uncompared = true;
        });
        self.shared.raise(|revision| {
            fresh.iter().for_each(|run| run.begin(revision));
            if let Ok(mut runs) = self.shared.runs.write() {
                let fresh = fresh.iter().map(|run| (run.key().clone(), Arc::clone(run)));
                // Built at once, a map takes little more than half the memory.
                if runs.is_empty() {
                    *runs = fresh.collect();
                } else {
                    runs.extend(fresh);
                }
            }
        });
    }

    /// Adds the runs that a scan found, in the order of their keys.
    fn take_in(&mut self, at: usize, look: RootScan, found: &mut BTreeMap<Place, Arc<Run>>) {
        let (before, was_looked_at) = {
            let status = self.shared.status.read().map(|status| status.clone());
            status.map_or((None, false), |status| {
                (status.roots.get(at).cloned(), status.first_look_done)
            })
        };
        let mut fresh = Vec::new();
        for (key, dir) in look.runs {
            self.shared.beat.beat(LOOKING);
            let path = Place(dir.shared_path());
            // If roots overlap, the first one gets the run.
            if found.contains_key(&path) {
                continue;
            }
            let known = self
                .by_dir
                .get(&path)
                .filter(|run| run.dir().is_read_as(&dir))
                .cloned();
            let run = known.or_else(|| {
                let run = self.follow_run(at, key, dir)?;
                fresh.push(Arc::clone(&run));
                Some(run)
            });
            found.extend(run.map(|run| (path, run)));
        }
        if !fresh.is_empty() {
            self.show(&fresh);
        }
        let skipped: Arc<[Skipped]> = look.skipped.into();
        let total = look.skipped_total;
        let changed = before.is_none_or(|before| {
            before.fault != look.fault || before.skipped != skipped || before.skipped_total != total
        });
        self.shared.set_status(|status| {
            if let Some(root) = status.roots.get_mut(at) {
                (root.fault, root.skipped, root.skipped_total) = (look.fault, skipped, total);
            }
        });
        if changed || !was_looked_at {
            self.shared.raise(|_| {});
        }
    }

    /// Checks runs that may have changed, within a time budget.
    pub(super) fn check_urgent(&mut self) {
        let start = Instant::now();
        while start.elapsed() < URGENT_BUDGET
            && let Some(run) = self.rounds.next_urgent()
        {
            if run.is_known() {
                self.refresh(&run);
            }
        }
    }

    /// Checks live runs, and a slice of all runs so that each gets its turn.
    pub(super) fn look_at_runs(&mut self) {
        // If the clock was set back, every run's computed silence may be wrong.
        let clock = std::mem::replace(&mut self.clock, now());
        if self.clock < clock {
            self.rounds.mark_all_urgent();
        }
        if self.fault.is_some() && self.options.poll.is_none() && Instant::now() >= self.watch_due {
            self.ask_again();
        }
        for (dir, came) in std::mem::take(&mut self.young) {
            self.look_below(&dir, came);
        }
        self.look_at_tags();
        self.look_at_lively();
        close_idle();
        self.save_memory();
        let rounds = self
            .poll_every()
            .unwrap_or(IDLE_EVERY)
            .as_secs_f64()
            .max(1.0);
        let slice = (self.rounds.len() as f64 / rounds).ceil() as usize;
        let budget = if self.poll_every().is_some() {
            POLL_BUDGET
        } else {
            IDLE_BUDGET
        };
        let start = Instant::now();
        for _ in 0..slice {
            match self.rounds.next() {
                Some(run) if run.is_known() => drop(self.refresh(&run)),
                Some(_) => {}
                None => break,
            }
            if self.options.poll.is_none() && start.elapsed() > budget {
                break;
            }
        }
    }

    /// Shows the tags that the user gave to runs since the last check.
    fn look_at_tags(&self) {
        match self.options.tags.reload() {
            Ok(false) => return,
            Ok(true) => {}
            Err(error) => return tracing::warn!("the tags stay as they were: {error:#}"),
        }
        let mut changed = Vec::new();
        for run in self.by_dir.values() {
            self.shared.beat.beat(TAGGING);
            changed.extend(run.tag().then_some(run));
        }
        if !changed.is_empty() {
            self.shared
                .raise(|revision| changed.iter().for_each(|run| run.tell(revision)));
        }
    }

    /// Checks the runs that may change, within a time budget. Those that had no turn come first the
    /// next time.
    fn look_at_lively(&mut self) {
        let start = Instant::now();
        for run in self.rounds.lively() {
            if start.elapsed() > LIVELY_BUDGET {
                break;
            }
            // Documents that are read in part get their turns in the backlog.
            if !self.is_begun(&run) {
                self.refresh(&run);
            }
            self.rounds.had_turn(&run);
        }
    }

    /// Returns whether the run is a document that was read in part.
    pub(super) fn is_begun(&self, run: &Arc<Run>) -> bool {
        self.begun.iter().any(|begun| Arc::ptr_eq(begun, run))
    }

    /// Evicts runs while the indexes in memory take too much space. Those that haven't been
    /// requested for the longest time come first.
    fn save_memory(&mut self) {
        self.read_bytes = 0;
        let open = self.by_dir.values().map(|run| OpenRun {
            used: run.last_used(),
            is_lines: !run.dir().is_document(),
            bytes: run.open_bytes(),
            run,
        });
        let open: Vec<_> = open.filter(|open| open.bytes > 0).collect();
        let mut total: u64 = open.iter().map(|open| open.bytes).sum();
        if total <= MAX_OPEN_BYTES {
            return;
        }
        for OpenRun { bytes, run, .. } in parkable(open) {
            if total <= MAX_OPEN_BYTES {
                break;
            }
            if run.park(true) {
                total -= bytes;
                self.unsaved = true;
            }
        }
    }

    /// Checks a run. Returns whether one of its files was rewritten from its start.
    pub(super) fn refresh(&mut self, run: &Arc<Run>) -> bool {
        let checked = Checked::now(run, &self.shared);
        self.act_on_check(run, checked)
    }

    /// Shows what a check found. Returns whether one of the run's files was rewritten from its start.
    fn act_on_check(&mut self, run: &Arc<Run>, Checked { before, news }: Checked) -> bool {
        let Some(news) = news else {
            run.fail();
            contained(|| run.sum_up());
            self.shared.raise(|revision| run.tell(revision));
            return false;
        };
        if news.changed {
            self.shared.raise(|revision| run.tell(revision));
            self.compared.note(run, &before);
        }
        self.unsaved |= run.park(false);
        self.rounds.note(run);
        if run.dir().is_document() {
            self.begun.retain(|begun| !Arc::ptr_eq(begun, run));
            self.begun.extend(news.more.then(|| Arc::clone(run)));
            // Many documents may be completed between two memory checks.
            if news.changed && !news.more {
                self.read_bytes += run.open_bytes();
                if self.read_bytes > MAX_OPEN_BYTES / 4 {
                    self.save_memory();
                }
            }
        }
        if news.more && self.reads_once {
            self.backlog.push_front(Arc::clone(run));
        } else if news.more {
            self.backlog.push(Arc::clone(run));
        }
        match news.waits {
            true => self.waiting.push(Arc::clone(run)),
            false => self.waiting.remove(run),
        }
        news.restarted
    }

    /// Checks the runs that have waited longest for a file to be decompressed or for other documents.
    fn look_at_waiting(&mut self) {
        if self.waiting.is_empty() || Instant::now() < self.waiting_due {
            return;
        }
        // Runs that still wait keep their position.
        for run in self.waiting.first(WAITING_AT_ONCE) {
            if run.is_gone() {
                self.waiting.remove(&run);
            } else {
                self.restarted |= self.refresh(&run) && !run.dir().is_document();
            }
        }
        self.waiting_due = Instant::now() + WAITING_EVERY;
        self.tell_of_backlog();
    }

    /// Returns how many runs aren't completely read, plus the files whose runs are still being
    /// listed.
    pub(super) fn unread(&self) -> usize {
        self.backlog.len() + self.waiting.len() + self.lister.pending()
    }

    /// Compares runs that may contain the same records, if a comparison is due.
    fn compare_copies(&mut self) {
        let unread = self.unread();
        self.compared
            .compare(self.by_dir.values(), unread, &self.shared);
    }

    /// Compares runs without waiting.
    #[cfg(test)]
    pub(super) fn compare_now(&mut self) {
        self.compared.hurry();
        self.compare_copies();
    }

    /// Publishes how many runs aren't completely read.
    fn tell_of_backlog(&self) {
        let left = self.unread();
        self.shared.set_status(|status| status.indexing = left);
        if left == 0 {
            self.shared.raise(|_| {});
        }
    }

    /// Reads one piece of the first runs in the backlog. Returns whether more runs wait.
    pub(super) fn read_piece(&mut self) -> bool {
        if self.backlog.is_empty() {
            return false;
        }
        self.take_late_order();
        let runs = self.next_to_read();
        match &*runs {
            [] => {}
            [run] => self.restarted |= self.refresh(run) && !run.dir().is_document(),
            runs => self.read_together(runs),
        }
        self.tell_of_backlog();
        !self.backlog.is_empty()
    }

    /// Returns the next runs of the backlog that may be read at the same time. Documents are read one
    /// by one, because of the memory that takes.
    fn next_to_read(&mut self) -> Vec<Arc<Run>> {
        let most = if self.threads.get() > 1 {
            MAX_TOGETHER
        } else {
            1
        };
        let mut runs: Vec<Arc<Run>> = Vec::new();
        while runs.len() < most
            && let Some(run) = self.backlog.pop()
        {
            if run.is_gone() {
                continue;
            }
            let is_document = run.dir().is_document();
            if is_document && !runs.is_empty() {
                self.backlog.push_front(run);
                break;
            }
            runs.push(run);
            if is_document {
                break;
            }
        }
        runs
    }

    /// Reads one piece of each of these runs, as far as time permits. The others return to the
    /// backlog.
    fn read_together(&mut self, runs: &[Arc<Run>]) {
        let (began, shared) = (Instant::now(), Arc::clone(&self.shared));
        let underway: Mutex<Vec<usize>> = Mutex::default();
        let underway = || underway.lock().unwrap_or_else(PoisonError::into_inner);
        let read = |at: usize, results: &Results<Checked>| {
            if let Some(run) = runs.get(at).filter(|_| began.elapsed() < TOGETHER_TIME) {
                underway().push(at);
                results.send(Checked::now(run, &shared));
                let mut underway = underway();
                underway.retain(|other| *other != at);
                // If a run can't be read on, the last sign of life must name that one.
                if let Some(run) = underway.first().and_then(|at| runs.get(*at)) {
                    shared.beat.beat(run.path());
                }
            }
        };
        let (mut is_read, mut left) = (false, Vec::new());
        in_order(0..runs.len(), self.threads, read, |&at, checked| {
            let Some(run) = runs.get(at) else {
                return false;
            };
            match checked {
                Some(checked) => {
                    self.restarted |= self.act_on_check(run, checked);
                    is_read = true;
                }
                None if std::mem::take(&mut is_read) => {}
                None => left.push(Arc::clone(run)),
            }
            true
        });
        for run in left.into_iter().rev() {
            self.backlog.push_front(run);
        }
    }
}

/// The result of a check, and the run's row before it.
struct Checked {
    before: Arc<Summary>,
    /// `None` if the check failed because of a fault of board.
    news: Option<News>,
}

impl Checked {
    /// Checks a run now.
    fn now(run: &Run, shared: &Shared) -> Self {
        shared.beat.beat(run.path());
        Self {
            before: run.alone(),
            news: contained(|| run.refresh(PIECE_BYTES)),
        }
    }
}

/// A run whose index is in memory.
#[derive(Debug)]
struct OpenRun<R> {
    /// When it was last requested, in microseconds since the epoch; 0 if it never was.
    used: i64,
    /// Whether it consists of lines. Only new lines are read.
    is_lines: bool,
    bytes: u64,
    run: R,
}

/// Returns the runs that may be evicted if memory is short, the first one first. The one that was
/// requested last stays, whatever its size, because someone may be reading a page of it. If none
/// was requested, one of lines stays, so that a large file that grows isn't read from its start
/// each time. Documents always are.
fn parkable<R>(mut open: Vec<OpenRun<R>>) -> Vec<OpenRun<R>> {
    open.sort_by_key(|open| (open.used, open.is_lines));
    open.pop_if(|last| last.used > 0 || last.is_lines);
    open
}

/// Runs `work`, which may panic on the content of a file. Returns `None` if it did.
fn contained<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_that_was_requested_last_is_not_parked_and_an_unused_document_is() {
        let parked = |open: &[(i64, bool)]| {
            let open = open.iter().enumerate().map(|(run, (used, is_lines))| {
                let (used, is_lines, bytes) = (*used, *is_lines, 1);
                OpenRun {
                    used,
                    is_lines,
                    bytes,
                    run,
                }
            });
            let parked = parkable(open.collect()).into_iter();
            parked.map(|open| open.run).collect::<Vec<_>>()
        };
        assert_eq!(parked(&[(3, false), (0, true), (2, true)]), [1, 2]);
        assert_eq!(parked(&[(0, false), (0, false)]), [0, 1]);
        assert_eq!(parked(&[(0, true), (0, false), (0, true)]), [1, 0]);
    }
}
