//! What is known of one run, and how is it brought up to date?

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, io};

use tokio::sync::watch;

use crate::analysis::life::{Liveness, Outside, life};
use crate::analysis::summary::{Summary, summary};
use crate::model::{Delta, Index, Lines, RunKey, Span, TraceFile};
use crate::trace::{RedactedRun, RunDir, RunReader, is_running};

/// A run that the board follows.
#[derive(Debug)]
pub struct Run {
    key: RunKey,
    path: String,
    dir: RunDir,
    reader: Mutex<RunReader>,
    index: RwLock<Arc<Index>>,
    summary: RwLock<Arc<Summary>>,
    revision: watch::Sender<u64>,
    born: AtomicU64,
    known: AtomicBool,
    gone: AtomicBool,
    grew: AtomicI64,
    looked: AtomicU64,
}

impl Lines for Run {
    fn line(&self, file: TraceFile, span: Span) -> Result<Vec<u8>, String> {
        self.dir.read_span(file, span).map_err(|error| error.to_string())
    }

    fn manifest(&self) -> Result<Vec<u8>, String> {
        self.dir.read_all(TraceFile::Manifest, MAX_MANIFEST_SHOWN).map_err(|error| error.to_string())
    }

    fn has_asset(&self, recorded: &str) -> Result<(), String> {
        if recorded.contains("://") {
            return Err("it lies elsewhere, and the board loads nothing from the network".to_owned());
        }
        self.dir.open_asset(recorded).map(|_| ()).map_err(|error| error.to_string())
    }
}

/// A larger manifest is offered as a file only.
const MAX_MANIFEST_SHOWN: u64 = 16 << 20;

/// What one look at a run brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct News {
    /// Something that people see changed.
    pub(super) changed: bool,
    /// There are more bytes to read.
    pub(super) more: bool,
}

impl Run {
    /// A run that is not read yet.
    pub(super) fn new(key: RunKey, path: String, reader: RunReader) -> Self {
        let index = Arc::<Index>::default();
        let unread = summary(&key, path.clone(), &index, Outside { now: now(), ..Outside::default() });
        let summary = Summary { partial: true, ..unread };
        Self {
            key,
            path,
            dir: reader.dir().clone(),
            reader: Mutex::new(reader),
            index: RwLock::new(index),
            summary: RwLock::new(Arc::new(summary)),
            revision: watch::Sender::new(0),
            born: AtomicU64::new(0),
            known: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            grew: AtomicI64::new(0),
            looked: AtomicU64::new(0),
        }
    }

    /// Its name on the board.
    pub fn key(&self) -> &RunKey {
        &self.key
    }

    /// Its directory.
    pub fn dir(&self) -> &RunDir {
        &self.dir
    }

    /// The facts of its row.
    pub fn summary(&self) -> Arc<Summary> {
        Arc::clone(&self.summary.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The index as it is now. Whoever holds it for long keeps nobody waiting: the next change goes into a copy.
    pub fn index(&self) -> Arc<Index> {
        Arc::clone(&self.index.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The library's revision at the last change of this run, and word of newer ones.
    pub fn revision(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// The library's revision at the last change of this run.
    pub fn revision_now(&self) -> u64 {
        *self.revision.borrow()
    }

    /// The library's revision at which this run was found.
    pub fn born(&self) -> u64 {
        self.born.load(Ordering::Relaxed)
    }

    /// Whether its directory went away.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Whether it was read at least in part.
    pub fn is_known(&self) -> bool {
        self.known.load(Ordering::Relaxed)
    }

    /// Looks at the files and takes in at most about `limit` bytes of each.
    pub(super) fn refresh(&self, limit: u64) -> News {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let delta = reader.refresh(limit);
        drop(reader);
        let (news, more) = (self.is_news(&delta), delta.more);
        let grows =
            self.is_known() && (!delta.steps.is_empty() || !delta.events.is_empty() || self.sizes_differ(&delta));
        if grows && !self.index().is_partial() {
            self.grew.store(now(), Ordering::Relaxed);
        }
        let first = !self.known.load(Ordering::Relaxed);
        if news || first || self.sizes_differ(&delta) {
            let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
            Arc::make_mut(&mut index).apply(delta);
        }
        self.known.store(true, Ordering::Relaxed);
        let differs = (news || first || self.life_moved()) && self.sum_up();
        News { changed: news || first || differs, more }
    }

    fn is_news(&self, delta: &Delta) -> bool {
        let index = self.index();
        delta.restarted
            || delta.step_confirmed
            || delta.event_confirmed
            || delta.manifest.as_ref().is_some_and(|manifest| manifest != index.manifest())
            || !(delta.steps.is_empty() && delta.events.is_empty() && delta.issues.is_empty())
            || delta.passing != index.passing_issues()
            || delta.more != index.is_partial()
    }

    fn sizes_differ(&self, delta: &Delta) -> bool {
        let index = self.index();
        delta.steps_file != index.steps_file() || delta.events_file != index.events_file()
    }

    /// Whether time alone changed what is said about the run.
    pub(super) fn life_moved(&self) -> bool {
        let before = self.summary();
        if !before.life.liveness.may_grow() {
            return false;
        }
        let after = life(&self.index(), self.outside());
        let minutes = |silence: Option<i64>| silence.unwrap_or_default() / 60_000_000;
        after.liveness != before.life.liveness
            || (after.liveness == Liveness::Stalled && minutes(after.silence) != minutes(before.life.silence))
    }

    /// Makes the summary anew; says whether it differs.
    pub(super) fn sum_up(&self) -> bool {
        let fresh = summary(&self.key, self.path.clone(), &self.index(), self.outside());
        let mut summary = self.summary.write().unwrap_or_else(PoisonError::into_inner);
        let differs = **summary != fresh;
        *summary = Arc::new(fresh);
        differs
    }

    fn outside(&self) -> Outside {
        let grew = Some(self.grew.load(Ordering::Relaxed)).filter(|grew| *grew > 0);
        let files = [TraceFile::Events, TraceFile::Steps, TraceFile::Manifest];
        let modified =
            files.iter().filter_map(|file| micros(fs::metadata(self.dir.file(*file)).ok()?.modified().ok()?)).max();
        Outside { now: now(), grew, modified, process: process(&self.index()) }
    }

    /// A copy of the run without its secrets, for as long as the value lives.
    ///
    /// # Errors
    /// The files cannot be read, or the copy cannot be written.
    pub fn redacted(&self) -> io::Result<RedactedRun> {
        RedactedRun::of(&self.dir)
    }

    /// What would be the facts of its row with another index, such as that of a copy.
    pub fn summary_of(&self, index: &Index) -> Summary {
        summary(&self.key, self.path.clone(), index, self.outside())
    }

    /// Tells everybody who follows this run.
    pub(super) fn tell(&self, revision: u64) {
        self.revision.send_replace(revision);
    }

    /// Notes the revision at which it was found.
    pub(super) fn begin(&self, revision: u64) {
        self.born.store(revision, Ordering::Relaxed);
        self.tell(revision);
    }

    pub(super) fn leave(&self, revision: u64) {
        self.gone.store(true, Ordering::Relaxed);
        self.tell(revision);
    }

    /// Whether it should be looked at every second: it may grow, or something about it is not settled.
    pub(super) fn is_lively(&self) -> bool {
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = self.grew.load(Ordering::Relaxed) > now() - LIVELY_MICROS;
        reader.is_unsettled() || recent || self.summary().life.liveness.may_grow()
    }

    pub(super) fn looked(&self) -> u64 {
        self.looked.load(Ordering::Relaxed)
    }

    pub(super) fn set_looked(&self, tick: u64) {
        self.looked.store(tick, Ordering::Relaxed);
    }
}

/// A run that grew within the last two minutes is looked at every second even if it says that it ended.
const LIVELY_MICROS: i64 = 120_000_000;

fn micros(time: SystemTime) -> Option<i64> {
    i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_micros()).ok()
}

/// Whether the recorded process exists; QitOS records none. Only asked while it matters.
fn process(index: &Index) -> Option<bool> {
    let manifest = index.manifest().get().filter(|manifest| !manifest.is_final())?;
    is_running(manifest.host.as_deref()?, manifest.pid?)
}

/// The time now, in microseconds since the Unix epoch.
pub(super) fn now() -> i64 {
    micros(SystemTime::now()).unwrap_or_default()
}
