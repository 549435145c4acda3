//! When is what looked at? One thread: hints at once, live runs every second, the roots every few seconds, the rest
//! now and then, and large files in pieces between all of these.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use notify::Watcher as _;

use super::hints::{Inbox, in_words};
use super::run::Run;
use super::{Mode, Options, Shared};
use crate::model::RunKey;
use crate::trace::{Found, Place, RootScanner, RunReader, SETTLE, is_trace_file};

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

pub(super) struct Scanner {
    shared: Arc<Shared>,
    roots: Vec<Root>,
    options: Options,
    watcher: Option<notify::RecommendedWatcher>,
    fault: Option<String>,
    by_dir: HashMap<PathBuf, Arc<Run>>,
    backlog: VecDeque<Arc<Run>>,
    settle: Duration,
    tick: u64,
}

struct Root {
    shown: PathBuf,
    prefix: String,
    scanner: RootScanner,
    /// What the system watches for it.
    watched: Option<Place>,
    /// Whether it could not be read at the last look.
    fault: bool,
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
        };
        Self {
            shared,
            roots: roots.into_iter().zip(prefixes).map(root).collect(),
            options,
            watcher: None,
            fault: None,
            by_dir: HashMap::new(),
            backlog: VecDeque::new(),
            settle: SETTLE,
            tick: 0,
        }
    }

    /// Reads everything once.
    pub(super) fn read_once(mut self) {
        self.settle = Duration::ZERO;
        self.look_at_roots();
        while self.read_piece() {}
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
                self.look_at_roots();
                wanted = false;
                rest_until = Instant::now() + now.elapsed() * ROOT_REST;
                // The system tells nothing of a root that is not there; to look for it costs next to nothing.
                let every = if self.roots.iter().any(|root| root.fault) { LIVE_EVERY } else { ROOT_EVERY };
                roots_due = Instant::now() + every.min(self.poll_every().unwrap_or(every));
            }
            if Instant::now() >= live_due {
                self.look_at_runs();
                live_due = Instant::now() + LIVE_EVERY.min(self.options.poll.unwrap_or(LIVE_EVERY));
            }
            let due = if self.backlog.is_empty() { live_due.min(roots_due) } else { Instant::now() };
            let due = if wanted { due.min(rest_until) } else { due };
            let inbox = self.shared.hints.wait(due);
            if inbox.stop {
                return;
            }
            wanted |= self.act_on(&inbox);
            self.read_piece();
        }
    }

    /// Looks at the runs that the hints name; says whether the roots should be looked at too.
    fn act_on(&mut self, inbox: &Inbox) -> bool {
        let mut runs: Vec<Arc<Run>> = Vec::new();
        let mut rescan = inbox.rescan;
        for path in &inbox.paths {
            match path.parent().and_then(|dir| self.by_dir.get(dir)) {
                Some(run) if runs.iter().any(|known| Arc::ptr_eq(known, run)) => {}
                Some(run) => runs.push(Arc::clone(run)),
                // The file came before its new directory was watched, so this is the first word of a run.
                None => rescan |= is_trace_file(path),
            }
            for root in &mut self.roots {
                // A root that is removed and made again at once is another directory under the same name.
                root.watched.take_if(|place| place.path == *path);
            }
        }
        runs.iter().for_each(|run| self.refresh(run));
        if inbox.fault.is_some() {
            self.fault.clone_from(&inbox.fault);
        }
        rescan
    }

    pub(super) fn look_at_roots(&mut self) {
        let mut found: HashMap<PathBuf, Arc<Run>> = HashMap::new();
        for at in 0..self.roots.len() {
            // What comes between the two is then seen by one of them.
            self.watch(at);
            let Some(root) = self.roots.get_mut(at) else { continue };
            let look = root.scanner.scan();
            root.fault = look.fault.is_some();
            self.take_in(at, look, &mut found);
        }
        let gone: Vec<Arc<Run>> =
            self.by_dir.extract_if(|dir, _| !found.contains_key(dir)).map(|(_, run)| run).collect();
        for run in gone {
            if let Ok(mut runs) = self.shared.runs.write() {
                // A root that is a link and leads elsewhere now may hold another run of the same name.
                if runs.get(run.key()).is_some_and(|known| Arc::ptr_eq(known, &run)) {
                    runs.remove(run.key());
                }
            }
            self.shared.raise(|revision| run.leave(revision));
        }
        self.by_dir = found;
        self.publish();
    }

    /// Adds the runs that were not known, in the order of their keys.
    fn take_in(&mut self, at: usize, look: Found, found: &mut HashMap<PathBuf, Arc<Run>>) {
        let Some(root) = self.roots.get(at) else { return };
        let (before, was_looked_at) = {
            let status = self.shared.status.read().map(|status| status.clone());
            status.map_or((None, false), |status| (status.roots.get(at).cloned(), status.first_look_done))
        };
        for (key, dir) in look.runs {
            let path = dir.path().to_owned();
            // Where roots overlap, the first one has the run.
            if found.contains_key(&path) {
                continue;
            }
            if let Some(run) = self.by_dir.get(&path) {
                found.insert(path, Arc::clone(run));
                continue;
            }
            let shown = if dir.is_root() { root.shown.clone() } else { root.shown.join(key.as_str()) };
            let shown = shown.to_string_lossy().into_owned();
            let key = if root.prefix.is_empty() { key } else { RunKey::new(&format!("{}/{key}", root.prefix)) };
            let reader = RunReader::settling(dir, self.settle);
            let run = Arc::new(Run::new(key.clone(), shown, reader));
            self.shared.raise(|revision| {
                run.begin(revision);
                if let Ok(mut runs) = self.shared.runs.write() {
                    runs.insert(key, Arc::clone(&run));
                }
            });
            self.backlog.push_back(Arc::clone(&run));
            found.insert(path, run);
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

    /// Looks at live runs, and at a slice of the others so that each has its turn.
    fn look_at_runs(&mut self) {
        self.tick += 1;
        let rounds = self.poll_every().unwrap_or(IDLE_EVERY).as_secs().max(1);
        let runs: Vec<Arc<Run>> = self.by_dir.values().cloned().collect();
        for (at, run) in runs.iter().enumerate() {
            let its_turn =
                (at as u64 + self.tick).is_multiple_of(rounds) || self.tick.saturating_sub(run.looked()) >= rounds;
            if run.is_known() && (its_turn || run.is_lively()) {
                run.set_looked(self.tick);
                self.refresh(run);
            }
        }
    }

    fn refresh(&mut self, run: &Arc<Run>) {
        let news = run.refresh(PIECE_BYTES);
        if news.changed {
            self.shared.raise(|revision| run.tell(revision));
        }
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
