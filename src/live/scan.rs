//! When is what looked at? One thread: hints at once, live runs every second, the roots every few seconds, the rest
//! now and then, and large files in pieces between all of these.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use notify::Watcher as _;

use super::cache::{self, Entries};
use super::hints::{Inbox, in_words};
use super::rounds::Rounds;
use super::run::Run;
use super::{Mode, Options, Shared};
use crate::analysis::summary::Summary;
use crate::model::RunKey;
use crate::trace::{Found, Place, RootScanner, RunDir, SETTLE, Stamps, is_trace_file};

/// Bytes of each file read in one go, so that a hint never waits long behind a large file.
const PIECE_BYTES: u64 = 4 << 20;
/// Live runs are looked at this often.
const LIVE_EVERY: Duration = Duration::from_secs(1);
/// Roots are looked at this often; a look costs one `stat` a directory.
const ROOT_EVERY: Duration = Duration::from_secs(5);
/// Idle runs are looked at this often while the system tells of changes, in slices.
const IDLE_EVERY: Duration = Duration::from_secs(60);
/// Without events of the system, every file is looked at this often unless the person says otherwise.
const POLL_EVERY: Duration = Duration::from_secs(2);
/// After looking at the roots, at least this many times as long passes before a hint makes the board look again.
const ROOT_REST: u32 = 5;
/// The same where a look takes long, and before the next look that nothing asks for: it shall cost half a percent of a
/// core, however many directories there are. Hints tell of what comes and goes meanwhile.
const LARGE_ROOT_REST: u32 = 200;
/// A look at the roots that takes longer than this takes long.
const LONG_LOOK: Duration = Duration::from_millis(20);
/// What is known is noted at most this often, and once at the end.
const SAVE_EVERY: Duration = Duration::from_secs(60);
/// A new directory without a run in it is looked into every second for this long.
const YOUNG: Duration = Duration::from_secs(10);
/// Time in each second for runs that nothing tells of; without events of the system, they are all there is.
const IDLE_BUDGET: Duration = Duration::from_millis(5);
const POLL_BUDGET: Duration = Duration::from_millis(200);

pub(super) struct Scanner {
    shared: Arc<Shared>,
    roots: Vec<Root>,
    options: Options,
    watcher: Option<notify::RecommendedWatcher>,
    fault: Option<String>,
    /// Runs by the bytes of their directories' paths, so that those below a directory follow each other.
    by_dir: BTreeMap<OsString, Arc<Run>>,
    /// Directories that came lately and hold no run yet: what is written before the system watches them is told by nobody.
    young: Vec<(PathBuf, Instant)>,
    backlog: VecDeque<Arc<Run>>,
    rounds: Rounds,
    settle: Duration,
    /// When the cache is written next, if anything changed since it was.
    save_due: Instant,
    unsaved: bool,
    /// Whether the roots were looked at.
    looked: bool,
}

struct Root {
    shown: PathBuf,
    prefix: String,
    scanner: RootScanner,
    /// What the system watches for it.
    watched: Option<Place>,
    /// Whether it could not be read at the last look.
    fault: bool,
    /// What the last board knew of its runs; `None` before the first look at it.
    remembered: Option<Entries>,
}

impl Scanner {
    pub(super) fn new(shared: Arc<Shared>, roots: Vec<PathBuf>, options: Options) -> Self {
        let prefixes = prefixes(&roots);
        let root = |(shown, prefix): (PathBuf, String)| Root {
            scanner: RootScanner::new(shown.clone()),
            shown,
            prefix,
            watched: None,
            fault: false,
            remembered: None,
        };
        Self {
            shared,
            roots: roots.into_iter().zip(prefixes).map(root).collect(),
            options,
            watcher: None,
            fault: None,
            by_dir: BTreeMap::new(),
            young: Vec::new(),
            backlog: VecDeque::new(),
            rounds: Rounds::default(),
            settle: SETTLE,
            save_due: Instant::now(),
            unsaved: false,
            looked: false,
        }
    }

    /// The runs that wait to be read.
    #[cfg(test)]
    pub(super) fn backlog(&self) -> impl Iterator<Item = &Arc<Run>> {
        self.backlog.iter()
    }

    /// Reads everything once.
    pub(super) fn read_once(mut self) {
        self.settle = Duration::ZERO;
        self.look_at_roots();
        while self.read_piece() {}
        self.save();
    }

    /// Follows the roots until the library is closed.
    pub(super) fn follow(mut self) {
        if self.options.poll.is_none() {
            let hints = Arc::clone(&self.shared.hints);
            // A link may lead to a tree of millions of directories outside of the root.
            let config = notify::Config::default().with_follow_symlinks(false);
            match notify::RecommendedWatcher::new(move |event| hints.take(event), config) {
                Ok(watcher) => self.watcher = Some(watcher),
                Err(error) => self.fault = Some(in_words(&error)),
            }
        }
        let mut roots_due = Instant::now();
        let mut live_due = roots_due + LIVE_EVERY;
        let mut rest_until = roots_due;
        let mut wanted = false;
        loop {
            let now = Instant::now();
            if now >= roots_due || (wanted && now >= rest_until) {
                let again = !self.looked;
                self.look_at_roots();
                wanted = false;
                let took = now.elapsed();
                let long = took > LONG_LOOK && self.options.poll.is_none();
                let rest = took * if long { LARGE_ROOT_REST } else { ROOT_REST };
                rest_until = Instant::now() + rest;
                // The system tells nothing of a root that is not there; to look for it costs next to nothing.
                let every = if self.roots.iter().any(|root| root.fault) { LIVE_EVERY } else { ROOT_EVERY };
                let every = every.min(self.poll_every().unwrap_or(every));
                roots_due = if long { rest_until.max(now + every) } else { Instant::now() + every };
                if again {
                    roots_due = now;
                }
            }
            if Instant::now() >= live_due {
                self.look_at_runs();
                live_due = Instant::now() + LIVE_EVERY.min(self.options.poll.unwrap_or(LIVE_EVERY));
            }
            let due = if self.backlog.is_empty() { live_due.min(roots_due) } else { Instant::now() };
            let due = if wanted { due.min(rest_until) } else { due };
            let inbox = self.shared.hints.wait(due);
            if inbox.stop {
                self.save();
                return;
            }
            if self.unsaved && self.backlog.is_empty() && Instant::now() >= self.save_due {
                self.save();
            }
            wanted |= self.act_on(&inbox);
            self.read_piece();
        }
    }

    /// Looks at the runs and directories that the hints name; says whether the roots should be looked at too.
    fn act_on(&mut self, inbox: &Inbox) -> bool {
        let mut runs: Vec<Arc<Run>> = Vec::new();
        let mut dirs: HashSet<&Path> = HashSet::new();
        let mut rescan = inbox.rescan;
        for path in &inbox.paths {
            let parent = path.parent().unwrap_or(path);
            match self.by_dir.get(parent.as_os_str()) {
                Some(run) if runs.iter().any(|known| Arc::ptr_eq(known, run)) => {}
                Some(run) => runs.push(Arc::clone(run)),
                // The file came before its new directory was watched, so this is the first word of a run.
                None if is_trace_file(path) => {
                    rescan = true;
                    dirs.insert(parent);
                }
                None => {}
            }
            if inbox.rescan {
                let bytes = path.as_os_str().as_encoded_bytes();
                let from = (Bound::Included(path.as_os_str()), Bound::Unbounded);
                let alike = self.by_dir.range::<OsStr, _>(from);
                let alike = alike.take_while(|(dir, _)| dir.as_encoded_bytes().starts_with(bytes));
                let below = alike.filter(|(dir, _)| Path::new(dir).starts_with(path));
                runs.extend(below.map(|(_, run)| Arc::clone(run)));
                dirs.insert(path);
            }
            for root in &mut self.roots {
                // A root that is removed and made again at once is another directory under the same name.
                root.watched.take_if(|place| place.path == *path);
            }
        }
        for run in runs {
            if inbox.rescan && !run.dir().has_files() {
                self.by_dir.remove(run.dir().path().as_os_str());
                self.leave(&run);
            } else {
                self.refresh(&run);
            }
        }
        dirs.into_iter().for_each(|dir| self.look_below(dir, Instant::now()));
        if inbox.fault.is_some() {
            self.fault.clone_from(&inbox.fault);
        }
        rescan
    }

    /// Adds the runs in a directory that came, without a look at all the others.
    fn look_below(&mut self, dir: &Path, came: Instant) {
        if !dir.is_dir() {
            return;
        }
        let mut none = true;
        for at in 0..self.roots.len() {
            let Some(root) = self.roots.get_mut(at) else { continue };
            for (key, dir) in root.scanner.scan_below(dir) {
                none = false;
                if self.by_dir.contains_key(dir.path().as_os_str()) {
                    continue;
                }
                let key = self.key(at, key);
                // Two directories of one name are sorted out where all are known.
                if self.shared.runs.read().is_ok_and(|runs| !runs.contains_key(&key)) {
                    let path = dir.path().as_os_str().to_owned();
                    let run = self.follow_run(at, key, dir);
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
        let mut found: BTreeMap<OsString, Arc<Run>> = BTreeMap::new();
        for at in 0..self.roots.len() {
            // What comes between the two is then seen by one of them. Only the first look comes before: people wait for it,
            // and in a large root the watching takes longer than the look. The second one follows at once.
            if looked {
                self.watch(at);
            }
            let Some(root) = self.roots.get_mut(at) else { continue };
            let look = root.scanner.scan();
            root.fault = look.fault.is_some();
            if let (Some(cache), Some(place), None) = (&self.options.cache, root.scanner.place(), &root.remembered) {
                root.remembered = Some(cache::load(cache, &place.path));
            }
            self.take_in(at, look, &mut found);
            if let Some(remembered) = self.roots.get_mut(at).and_then(|root| root.remembered.as_mut()) {
                // What is left is of runs that are gone.
                *remembered = Entries::new();
            }
        }
        let before = std::mem::replace(&mut self.by_dir, found);
        for (dir, run) in before {
            if !self.by_dir.contains_key(&dir) {
                self.leave(&run);
            }
        }
        self.publish();
    }

    /// Takes a run from the board.
    fn leave(&self, run: &Arc<Run>) {
        if let Ok(mut runs) = self.shared.runs.write() {
            // A root that is a link and leads elsewhere now may hold another run of the same name.
            if runs.get(run.key()).is_some_and(|known| Arc::ptr_eq(known, run)) {
                runs.remove(run.key());
            }
        }
        self.shared.raise(|revision| run.leave(revision));
    }

    /// The name on the board of the run that root `at` calls `key`.
    fn key(&self, at: usize, key: RunKey) -> RunKey {
        match self.roots.get(at).filter(|root| !root.prefix.is_empty()) {
            Some(root) => RunKey::new(&format!("{}/{key}", root.prefix)),
            None => key,
        }
    }

    /// Begins to follow a run that was not known.
    fn follow_run(&mut self, at: usize, key: RunKey, dir: RunDir) -> Arc<Run> {
        let shown = self.roots.get(at).map_or_else(PathBuf::new, |root| {
            let below = dir.path().strip_prefix(dir.root()).unwrap_or(dir.path());
            if dir.is_root() { root.shown.clone() } else { root.shown.join(below) }
        });
        let shown = shown.to_string_lossy().into_owned();
        let run = Arc::new(match self.remembered(at, &dir) {
            Some((stamps, summary)) => Run::parked(dir, self.settle, stamps, Summary { key, path: shown, ..summary }),
            None => Run::new(&key, shown, dir, self.settle),
        });
        if !run.is_known() {
            self.backlog.push_back(Arc::clone(&run));
        }
        self.rounds.add(Arc::clone(&run));
        run
    }

    /// Puts runs on the board, all at once.
    fn show(&self, fresh: &[Arc<Run>]) {
        self.shared.raise(|revision| {
            fresh.iter().for_each(|run| run.begin(revision));
            if let Ok(mut runs) = self.shared.runs.write() {
                runs.extend(fresh.iter().map(|run| (run.key().clone(), Arc::clone(run))));
            }
        });
    }

    /// What the last board knew of the run in `dir`, if it still holds.
    fn remembered(&mut self, at: usize, dir: &RunDir) -> Option<(Stamps, Summary)> {
        let known = self.roots.get_mut(at)?.remembered.as_mut()?.remove(dir.path())?;
        (Stamps::of(dir).as_ref() == Some(&known.0)).then_some(known)
    }

    /// Notes what is known, for the next start.
    fn save(&mut self) {
        let Some(cache) = self.options.cache.clone().filter(|_| self.unsaved) else { return };
        let start = Instant::now();
        for root in &self.roots {
            let Some(place) = root.scanner.place() else { continue };
            let runs = self.by_dir.values().filter(|run| run.dir().root() == place.path);
            if let Err(error) = cache::save(&cache, &place.path, runs) {
                tracing::debug!("{}: {error}; the next start reads all runs", cache.display());
            }
        }
        self.unsaved = false;
        self.save_due = Instant::now() + SAVE_EVERY.max(start.elapsed() * LARGE_ROOT_REST);
    }

    /// Adds the runs that were not known, in the order of their keys.
    fn take_in(&mut self, at: usize, look: Found, found: &mut BTreeMap<OsString, Arc<Run>>) {
        let (before, was_looked_at) = {
            let status = self.shared.status.read().map(|status| status.clone());
            status.map_or((None, false), |status| (status.roots.get(at).cloned(), status.first_look_done))
        };
        let mut fresh = Vec::new();
        for (key, dir) in look.runs {
            let path = dir.path().as_os_str().to_owned();
            // Where roots overlap, the first one has the run.
            if found.contains_key(&path) {
                continue;
            }
            let known = self.by_dir.get(&path).cloned();
            let run = known.unwrap_or_else(|| {
                let run = self.follow_run(at, self.key(at, key), dir);
                fresh.push(Arc::clone(&run));
                run
            });
            found.insert(path, run);
        }
        if !fresh.is_empty() {
            self.show(&fresh);
        }
        let changed = before.is_none_or(|before| before.fault != look.fault || before.skipped != look.skipped);
        self.shared.set_status(|status| {
            if let Some(root) = status.roots.get_mut(at) {
                (root.fault, root.skipped) = (look.fault, look.skipped);
            }
        });
        if changed || !was_looked_at {
            self.shared.raise(|_| {});
        }
    }

    /// Asks the system for events below a root that came, or that is another directory than before.
    fn watch(&mut self, at: usize) {
        let (Some(root), Some(watcher)) = (self.roots.get_mut(at), self.watcher.as_mut()) else { return };
        let place = root.scanner.place();
        if root.watched == place {
            return;
        }
        if let Some(before) = root.watched.take() {
            // The directory may be gone, and its watch with it.
            let _ = watcher.unwatch(&before.path);
        }
        let Some(place) = place else { return };
        match watcher.watch(&place.path, notify::RecursiveMode::Recursive) {
            Ok(()) => root.watched = Some(place),
            // A directory went away on the way down; the next look tries again.
            Err(error) if matches!(error.kind, notify::ErrorKind::PathNotFound) => {}
            Err(error) => {
                // Events for the directories that fit still come, but nobody can rely on them.
                self.fault = Some(in_words(&error));
                root.watched = Some(place);
            }
        }
    }

    fn publish(&self) {
        let mode = match (&self.fault, self.options.poll) {
            (_, Some(_)) => Mode::Poll("asked for".to_owned()),
            (Some(fault), None) => Mode::Poll(fault.clone()),
            (None, None) => Mode::Native,
        };
        self.shared.set_status(|status| {
            status.mode = mode;
            status.looked = Instant::now();
            status.first_look_done = true;
            status.indexing = self.backlog.len();
        });
    }

    /// How often everything is looked at, where nothing else tells of changes.
    fn poll_every(&self) -> Option<Duration> {
        self.options.poll.or(self.fault.as_ref().map(|_| POLL_EVERY))
    }

    /// Looks at live runs, and at a slice of all so that each has its turn.
    fn look_at_runs(&mut self) {
        for (dir, came) in std::mem::take(&mut self.young) {
            self.look_below(&dir, came);
        }
        for run in self.rounds.lively() {
            self.refresh(&run);
        }
        let rounds = self.poll_every().unwrap_or(IDLE_EVERY).as_secs_f64().max(1.0);
        let slice = (self.rounds.len() as f64 / rounds).ceil() as usize;
        let budget = if self.poll_every().is_some() { POLL_BUDGET } else { IDLE_BUDGET };
        let start = Instant::now();
        for _ in 0..slice {
            match self.rounds.next() {
                Some(run) if run.is_known() => self.refresh(&run),
                Some(_) => {}
                None => break,
            }
            if self.options.poll.is_none() && start.elapsed() > budget {
                break;
            }
        }
    }

    fn refresh(&mut self, run: &Arc<Run>) {
        let news = run.refresh(PIECE_BYTES);
        if news.changed {
            self.shared.raise(|revision| run.tell(revision));
        }
        self.unsaved |= run.park();
        self.rounds.note(run);
        if news.more && !self.backlog.iter().any(|waiting| Arc::ptr_eq(waiting, run)) {
            self.backlog.push_back(Arc::clone(run));
        }
    }

    /// Reads one piece of the first run that waits; says whether more wait.
    fn read_piece(&mut self) -> bool {
        if let Some(run) = self.backlog.pop_front() {
            if !run.is_gone() {
                self.refresh(&run);
            }
            let left = self.backlog.len();
            self.shared.set_status(|status| status.indexing = left);
            if left == 0 {
                self.shared.raise(|_| {});
            }
        }
        !self.backlog.is_empty()
    }
}

/// What goes before the keys of each root: nothing for a single one, else its name, made distinct.
fn prefixes(roots: &[PathBuf]) -> Vec<String> {
    if roots.len() < 2 {
        return roots.iter().map(|_| String::new()).collect();
    }
    let mut taken: Vec<String> = Vec::new();
    for root in roots {
        let name = root.file_name().map_or_else(|| "root".into(), |name| name.to_string_lossy()).into_owned();
        let mut candidate = name.clone();
        let mut number = 2;
        while taken.contains(&candidate) {
            candidate = format!("{name}-{number}");
            number += 1;
        }
        taken.push(candidate);
    }
    taken
}
