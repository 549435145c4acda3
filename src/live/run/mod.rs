//! Holds the state of one run, and keeps it up to date.

mod evicted;
mod reload;

use std::io::{self, Read as _};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

pub(crate) use evicted::FETCH_PATIENCE;
use reload::{Held, Reload};

use crate::analysis::copies::{Fingerprint, Mark, Relation, marks};
use crate::analysis::life::{ExternalFacts, Liveness, life};
use crate::analysis::summary::{Summary, summary};
use crate::live::stored_indexes::StoredIndexes;
use crate::live::tags::FollowedTags;
use crate::mirror::Mirror;
use crate::model::price::Prices;
use crate::model::redact::without_private;
use crate::model::{
    Delta, InFile, Index, Issue, IssueKind, Lines, MAX_LINE_BYTES, RunKey, Span, TraceFile,
};
use crate::trace::{
    PIECE_BYTES, RedactedRun, RedactionPreview, RunDir, RunReader, SharedSecrets, Stamps,
    StampsHash, is_running,
};

/// A run that board follows.
///
/// A run that ended and has no viewers is *evicted*: only its summary stays in memory, with the
/// stamps of its files, which show whether the summary is still valid. Requesting its index reads
/// the files again, or the stored index if the run is large.
#[derive(Debug)]
pub(crate) struct Run {
    key: RunKey,
    path: Arc<str>,
    dir: RunDir,
    /// The store whose mirror contains its files.
    store: Option<Arc<Mirror>>,
    settle: Duration,
    /// Where its index is stored if the run is large.
    stored: Option<Arc<StoredIndexes>>,
    /// The tags that the user gave to runs.
    tags: Arc<FollowedTags>,
    held: Mutex<Held>,
    /// `None` while the run is evicted.
    index: RwLock<Option<Arc<Index>>>,
    summary: RwLock<Arc<Summary>>,
    /// `None` while no copies are known, as for most runs.
    copies: Mutex<Option<Box<Copies>>>,
    /// Set if the files no longer matched the summary when the index was reloaded.
    outdated: AtomicBool,
    /// How often a cached summary turned out to be wrong when the files were read again.
    corrections: AtomicU64,
    /// When the index was last requested, in microseconds since the epoch.
    used: AtomicI64,
    /// The library's revision at the run's last change, and the followers that get newer ones.
    changed: AtomicU64,
    followers: OnceLock<watch::Sender<u64>>,
    born: AtomicU64,
    known: AtomicBool,
    gone: AtomicBool,
    grew: AtomicI64,
    /// When the summary was made, in milliseconds since the first run was created.
    summed: AtomicU64,
    waking: OnceLock<Arc<tokio::sync::Mutex<()>>>,
    #[cfg(test)]
    fault: Mutex<Option<fn()>>,
}

/// The relation of a run to its copies.
#[derive(Debug, Default)]
struct Copies {
    relation: Relation,
    /// The summary without regard to other runs. `None` if that's the one shown.
    alone: Option<Arc<Summary>>,
    /// The steps in the form that is compared with copies, and the fingerprint they belong to.
    marks: Option<(Fingerprint, Arc<[Mark]>)>,
}

/// The error for a run whose files aren't on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Evicted;

impl Lines for Run {
    fn line(&self, file: TraceFile, span: Span) -> Result<Vec<u8>, String> {
        self.dir.line(|| self.index(), file, span)
    }

    fn manifest(&self) -> Result<Vec<u8>, String> {
        self.dir
            .read_all(TraceFile::Manifest, MAX_MANIFEST_SHOWN)
            .map_err(|error| error.to_string())
    }

    fn manifest_name(&self) -> String {
        let path = self.dir.file(TraceFile::Manifest);
        path.file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    fn has_asset(&self, recorded: &str) -> Result<(), String> {
        if recorded.contains("://") {
            return Err(
                "it's on another server, and board loads nothing from the network".to_owned(),
            );
        }
        self.dir
            .has_asset(recorded)
            .map_err(|error| error.to_string())
    }

    fn in_file(&self) -> Option<InFile> {
        self.dir.in_file()
    }
}

/// The shared index of all runs that haven't been read.
static NOTHING_READ: LazyLock<Arc<Index>> = LazyLock::new(Arc::default);

/// The shared tags of all runs that were given none.
static UNTAGGED: LazyLock<Arc<FollowedTags>> = LazyLock::new(Arc::default);

/// Runs with more bytes than this are read one at a time.
const LARGE_BYTES: u64 = 16 << 20;
/// So are runs with more steps and events than this. Their index takes as much memory as that of a
/// large file.
const LARGE_RECORDS: usize = 50_000;
/// How many times larger than its compressed file a log is assumed to be. Agent logs rarely reach
/// this ratio.
const TYPICAL_RATIO: u64 = 30;
/// Larger manifests aren't shown on a page. Their raw text can be downloaded.
const MAX_MANIFEST_SHOWN: u64 = MAX_LINE_BYTES;

/// The result of checking a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct News {
    /// Whether anything visible changed.
    pub(super) changed: bool,
    /// Whether there are more bytes to read.
    pub(super) more: bool,
    /// Whether there is more to read after decompression.
    pub(super) waits: bool,
    /// Whether a file was rewritten and is read from its start.
    pub(super) restarted: bool,
}

impl Run {
    /// Creates a run that hasn't been read. Its files count as quiet after `settle`.
    pub(super) fn new(
        key: &RunKey,
        path: impl Into<Arc<str>>,
        dir: RunDir,
        settle: Duration,
    ) -> Self {
        // Hundreds of thousands of runs may wait to be read, so they share an index and have no
        // reader.
        let index = Arc::clone(&NOTHING_READ);
        let unread = summary(
            key,
            path,
            &index,
            ExternalFacts {
                now: now(),
                ..ExternalFacts::default()
            },
        );
        let run = Self::holding(dir, settle, Held::Unread, unread.unread());
        Self {
            index: RwLock::new(Some(index)),
            ..run
        }
    }

    /// Creates a run from its cached summary. `stamps` are those of its files when the summary was
    /// made.
    pub(super) fn parked(
        dir: RunDir,
        settle: Duration,
        stamps: StampsHash,
        summary: Summary,
    ) -> Self {
        Self {
            known: AtomicBool::new(true),
            ..Self::holding(dir, settle, Held::Parked(stamps), summary)
        }
    }

    fn holding(dir: RunDir, settle: Duration, held: Held, summary: Summary) -> Self {
        Self {
            key: summary.key.clone(),
            path: summary.path.clone(),
            dir,
            store: None,
            settle,
            stored: None,
            tags: Arc::clone(&UNTAGGED),
            held: Mutex::new(held),
            index: RwLock::new(None),
            summary: RwLock::new(Arc::new(summary)),
            copies: Mutex::default(),
            outdated: AtomicBool::new(false),
            corrections: AtomicU64::new(0),
            used: AtomicI64::new(0),
            changed: AtomicU64::new(0),
            followers: OnceLock::new(),
            born: AtomicU64::new(0),
            known: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            grew: AtomicI64::new(0),
            summed: AtomicU64::new(uptime_ms()),
            waking: OnceLock::new(),
            #[cfg(test)]
            fault: Mutex::default(),
        }
    }

    /// Adds prices for estimating the run's cost.
    pub(super) fn priced(self, prices: &Arc<Prices>) -> Self {
        let summary = Summary::clone(&self.summary()).priced(prices);
        Self {
            summary: RwLock::new(Arc::new(summary)),
            ..self
        }
    }

    /// Stores the run's index in `stored` if it's large.
    pub(super) fn stored_in(self, stored: Option<Arc<StoredIndexes>>) -> Self {
        Self { stored, ..self }
    }

    /// Adds the tags that the user gave to runs.
    pub(super) fn tagged(self, tags: &Arc<FollowedTags>) -> Self {
        let run = Self {
            tags: Arc::clone(tags),
            ..self
        };
        run.tag();
        run
    }

    /// Applies the user's current tags to the row. Returns whether they changed.
    pub(super) fn tag(&self) -> bool {
        let mut summary = self.summary.write().unwrap_or_else(PoisonError::into_inner);
        let Some(tags) = self.tags.changed(&summary, &self.dir) else {
            return false;
        };
        Arc::make_mut(&mut summary).tags = tags;
        true
    }

    /// Returns the run's key in board.
    pub(crate) fn key(&self) -> &RunKey {
        &self.key
    }

    /// Returns the run's directory as the user would type it.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the run's directory.
    pub(crate) fn dir(&self) -> &RunDir {
        &self.dir
    }

    /// Returns the summary, which contains the facts of the run's row.
    pub(crate) fn summary(&self) -> Arc<Summary> {
        Arc::clone(&self.summary.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the summary without regard to other runs.
    pub(super) fn alone(&self) -> Arc<Summary> {
        let alone = self
            .copies()
            .as_ref()
            .and_then(|copies| copies.alone.clone());
        alone.unwrap_or_else(|| self.summary())
    }

    fn copies(&self) -> MutexGuard<'_, Option<Box<Copies>>> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the relation to other runs that was determined last.
    fn relation(&self) -> Relation {
        self.copies()
            .as_ref()
            .map(|copies| copies.relation.clone())
            .unwrap_or_default()
    }

    /// Returns the steps in the form that is compared with copies. They are cached until the run's
    /// fingerprint changes.
    pub(super) fn marks(&self) -> Arc<[Mark]> {
        let print = self.alone().fingerprint;
        if let Some(copies) = &*self.copies()
            && let Some((_, known)) = copies.marks.as_ref().filter(|(of, _)| *of == print)
        {
            return Arc::clone(known);
        }
        let fresh = marks(&self.index_now());
        self.copies().get_or_insert_default().marks = Some((print, Arc::clone(&fresh)));
        fresh
    }

    /// Sets the relation to other runs. Returns whether it changed.
    pub(super) fn relate(&self, relation: Relation) -> bool {
        let alone = self.alone();
        let is_alone = relation == Relation::default();
        let is_known = self.relation() == relation;
        if is_alone {
            *self.copies() = None;
        }
        if is_known {
            return false;
        }
        let summary = if is_alone {
            alone
        } else {
            let shown = Summary::clone(&alone).related(relation.clone(), || self.index_now());
            let mut copies = self.copies();
            let copies = copies.get_or_insert_default();
            (copies.alone, copies.relation) = (Some(alone), relation);
            Arc::new(shown)
        };
        self.set_summary(summary);
        true
    }

    /// Sets the row, with the user's current tags. Returns whether it changed.
    fn set_summary(&self, mut shown: Arc<Summary>) -> bool {
        let mut summary = self.summary.write().unwrap_or_else(PoisonError::into_inner);
        // With the lock, since the tags may change at any time.
        if let Some(tags) = self.tags.changed(&shown, &self.dir) {
            Arc::make_mut(&mut shown).tags = tags;
        }
        let differs = *summary != shown;
        *summary = shown;
        differs
    }

    /// Replaces the summary. Returns whether it changed.
    fn show(&self, fresh: Summary, index: &Arc<Index>) -> bool {
        let relation = self.relation();
        let shown = if relation == Relation::default() {
            Arc::new(fresh)
        } else {
            let alone = Arc::new(fresh);
            let shown = Summary::clone(&alone).related(relation, || Arc::clone(index));
            self.copies().get_or_insert_default().alone = Some(alone);
            Arc::new(shown)
        };
        self.set_summary(shown)
    }

    /// Returns the manifest's bytes, or its size if it's too large to load.
    ///
    /// # Errors
    /// Returns an error if the manifest doesn't exist or can't be read.
    pub(crate) fn whole_manifest(&self) -> io::Result<Result<Vec<u8>, u64>> {
        let (mut file, size) = self.dir.open_span(TraceFile::Manifest, None)?;
        if size > MAX_MANIFEST_SHOWN {
            return Ok(Err(size));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Ok(bytes))
    }

    /// Returns the lock that a task holds while it reads an evicted run. Other tasks wait for it
    /// without blocking a thread.
    pub(crate) fn waking(&self) -> &Arc<tokio::sync::Mutex<()>> {
        self.waking.get_or_init(Arc::default)
    }

    /// Returns the current index. If the run is evicted, reads its files and keeps it open for a
    /// while. Holding the index doesn't block updates, because the next change goes into a copy.
    pub(crate) fn index(&self) -> Arc<Index> {
        self.used.store(now(), Ordering::Relaxed);
        self.ask();
        self.open_index().unwrap_or_else(|| self.wake())
    }

    /// Returns the current index. If the run is evicted, reads it for this call only. For queries
    /// over many runs.
    pub(crate) fn index_once(&self) -> Arc<Index> {
        if let Some(index) = self.open_index() {
            return index;
        }
        let _turn = self.turn();
        self.read_once(RunReader::read_whole_in_turn)
    }

    /// Returns the index like [`Self::index_once`], but without waiting for other large runs. For
    /// the scan thread, which must not wait for a page.
    fn index_now(&self) -> Arc<Index> {
        self.read_once(RunReader::read_whole)
    }

    fn read_once(&self, read: fn(&mut RunReader) -> Index) -> Arc<Index> {
        if let Some(index) = self.open_index() {
            return index;
        }
        let Ok(_files) = self.hold() else {
            return Self::nothing_here();
        };
        let parked = match self.held.try_lock().as_deref() {
            Ok(Held::Parked(stamps)) => Some(*stamps),
            _ => None,
        };
        let stored = parked.and_then(|stamps| self.stored_index(stamps));
        let read_now = || read(&mut RunReader::settling(self.dir.clone(), self.settle));
        stored.unwrap_or_else(|| Arc::new(read_now()))
    }

    /// Returns the stored index of a large run whose files have these stamps, if there is one. It's
    /// no evidence: if it disagrees with the summary, the files have to be read.
    fn stored_index(&self, stamps: StampsHash) -> Option<Arc<Index>> {
        let stored = self.stored.as_ref().filter(|_| self.is_storable())?;
        let index = stored.load(&self.dir, stamps)?;
        let (known, fresh) = (self.alone(), self.untagged_summary_of(&index));
        let agrees = known.is_same_but_for_time(&fresh)
            || known.life.liveness != fresh.life.liveness && known.counts_lines_of(&index);
        // The files may have changed since the run was evicted.
        (agrees && self.stamps_now() == Some(stamps)).then_some(index)
    }

    /// Returns whether the index is worth storing. In tests, it always is. The index of a document
    /// isn't stored, because its lines can't be found without reading the document. That holds for
    /// records from other files, too.
    fn is_storable(&self) -> bool {
        let is_large = self.is_large() || cfg!(test);
        let is_made = self.dir.is_document() || self.dir.may_be_continued();
        is_large && !is_made && !self.dir.is_packed()
    }

    /// Keeps the run's files in place as long as the returned value lives. Returns an error if they
    /// were evicted.
    pub(crate) fn hold(&self) -> Result<Option<impl Sized + Send + use<>>, Evicted> {
        match &self.store {
            None => Ok(None),
            Some(store) => store.hold(&self.files()).map(Some).ok_or(Evicted),
        }
    }

    /// Returns whether reading the run takes much memory and time.
    pub(crate) fn is_large(&self) -> bool {
        let ratio = if self.dir.is_packed() {
            TYPICAL_RATIO
        } else {
            1
        };
        let records = |run: Arc<Summary>| run.steps_now.saturating_add(run.events);
        self.dir.bytes().saturating_mul(ratio) > LARGE_BYTES
            || records(self.summary()) > LARGE_RECORDS
    }

    /// Limits large runs to one read at a time. Otherwise a client that requests many pages and
    /// disconnects would cause many reads at once.
    fn turn(&self) -> Option<MutexGuard<'static, ()>> {
        static TURN: Mutex<()> = Mutex::new(());
        self.is_large()
            .then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the summary and the index of the same moment, so that all counts on a page agree. If
    /// the run grew since the last summary, the index is summarized for this page.
    pub(crate) fn shown(&self) -> (Arc<Summary>, Arc<Index>) {
        let (summary, index) = (self.summary(), self.index());
        let is_read = !index.steps().is_empty() || !index.events().is_empty();
        if is_read && !summary.counts_lines_of(&index) {
            let relation = self.relation();
            return (
                Arc::new(
                    self.summary_of(&index)
                        .related(relation, || Arc::clone(&index)),
                ),
                index,
            );
        }
        (summary, index)
    }

    /// Returns whether [`Self::index`] has to read files first.
    pub(crate) fn is_parked(&self) -> bool {
        self.open_index().is_none()
    }

    fn open_index(&self) -> Option<Arc<Index>> {
        self.index
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads an evicted run, or completes a reload that the scan thread started.
    fn wake(&self) -> Arc<Index> {
        // Before the lock: while this thread waited for its turn with it, the scan thread couldn't
        // finish a document of this run, for which the thread that has the turn may wait.
        let _turn = self.turn();
        let mut held = self.held();
        // Another thread may have done so while this one waited.
        if let Some(index) = self.open_index() {
            return index;
        }
        let Ok(_files) = self.hold() else {
            return Self::nothing_here();
        };
        #[cfg(test)]
        self.play_fault();
        self.used.store(now(), Ordering::Relaxed);
        if let Held::Parked(stamps) = *held
            && let Some(index) = self.stored_index(stamps)
        {
            // No reader is open. If the files change, they are read from the start.
            *self.index.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&index));
            return index;
        }
        // Readers of the index usually read lines as well.
        self.dir.unpack();
        let mut reload = self.begin_again(std::mem::take(&mut *held));
        while reload.read_in_turn(PIECE_BYTES) {}
        // Reading a large file may take longer than an unused run stays open.
        self.used.store(now(), Ordering::Relaxed);
        let index = Arc::clone(&reload.index);
        *held = self.catch_up(reload);
        self.check_summary(&index);
        index
    }

    /// Starts a reload, or continues one that was started.
    fn begin_again(&self, held: Held) -> Box<Reload> {
        let before = match held {
            Held::Reloading(reload) => return reload,
            Held::Parked(stamps) => Some(stamps),
            Held::Failed(stamps) => stamps,
            Held::Unread | Held::Open(_) => None,
        };
        let reader = RunReader::settling(self.dir.clone(), self.settle);
        Box::new(Reload {
            reader,
            index: Arc::default(),
            before,
            more: true,
        })
    }

    /// Publishes the reloaded index if it's complete.
    fn catch_up(&self, reload: Box<Reload>) -> Held {
        // If a file couldn't be read completely, the next check tries again.
        if reload.more || reload.reader.is_busy() {
            return Held::Reloading(reload);
        }
        let Reload {
            reader,
            index,
            before,
            ..
        } = *reload;
        let seen = StampsHash::from(reader.seen());
        if before != Some(seen) || self.summary().partial {
            self.outdated.store(true, Ordering::Relaxed);
        }
        // Changed permissions or times alone are no sign of life.
        if before.is_some_and(|before| !before.has_sizes_of(seen)) {
            self.grew.store(now(), Ordering::Relaxed);
        }
        *self.index.write().unwrap_or_else(PoisonError::into_inner) = Some(index);
        Held::Open(Box::new(reader))
    }

    /// Updates the summary after a reload. Until that's complete, the old summary stays, marked as
    /// partial.
    fn summarize_reload(&self, held: &Held) -> News {
        if let Held::Reloading(reload) = held {
            let mut summary = self.summary.write().unwrap_or_else(PoisonError::into_inner);
            let changed = !summary.partial;
            Arc::make_mut(&mut summary).partial = true;
            let waits = reload.reader.waits();
            return News {
                changed,
                more: reload.more && !waits,
                waits,
                ..News::default()
            };
        }
        let outdated = self.outdated.swap(false, Ordering::Relaxed);
        News {
            changed: self.sum_up() || outdated,
            ..News::default()
        }
    }

    /// Compares the summary with `index`, which was read from the current files. A summary may come
    /// from the cache, which others may have written to, so it's no evidence: if it differs, the
    /// files count.
    fn check_summary(&self, index: &Arc<Index>) {
        // Neither includes what other runs say about this one.
        let known = self.alone();
        let fresh = self.untagged_summary_of(index);
        // Changed files, a partially read run, and elapsed time explain a difference without a
        // fault of the cache.
        let is_known = !self.outdated.load(Ordering::Relaxed)
            && !index.is_partial()
            && known.life.liveness == fresh.life.liveness;
        if known.is_same_but_for_time(&fresh) {
            return;
        }
        if is_known {
            let (said, says) = (&known.verdict.sentence, &fresh.verdict.sentence);
            tracing::warn!(
                "{}: the index cache said \"{said}\", but the files say \"{says}\"",
                self.key
            );
            self.corrections.fetch_add(1, Ordering::Relaxed);
        }
        // The run's followers are notified at the next check.
        self.outdated.store(true, Ordering::Relaxed);
        self.show(fresh, index);
    }

    /// Returns how often a cached summary turned out to be wrong.
    pub(super) fn corrections(&self) -> u64 {
        self.corrections.load(Ordering::Relaxed)
    }

    /// Drops the index if the run ended, its files are settled, and it has no viewers. Returns
    /// whether it did.
    ///
    /// If memory is short, recent requests, recent growth and a possible continuation don't matter.
    /// If the run continues, its files are read again.
    ///
    /// An index that stays is packed unless it was requested lately.
    pub(super) fn park(&self, is_short: bool) -> bool {
        let is_used = self.used.load(Ordering::Relaxed) > now() - IN_USE_MICROS;
        let stays = if is_short {
            self.is_unsettled()
        } else {
            is_used || self.grew_lately() || self.may_change()
        };
        let is_parked = !stays && !self.is_looked_at() && self.drop_index();
        // While a run is being read, most of it would be packed in vain.
        if !is_parked && !is_used && !self.is_unsettled() {
            self.pack();
        }
        is_parked
    }

    /// Drops the index if all files were read. Returns whether it did.
    fn drop_index(&self) -> bool {
        // A reload holds this lock for as long as it takes, and the scan thread must not wait.
        let Ok(mut held) = self.held.try_lock() else {
            return false;
        };
        let fresh = match &*held {
            Held::Open(reader) => {
                let Some(stamps) = self.stamps_of(reader) else {
                    return false;
                };
                Some(stamps)
            }
            // The index is the stored one.
            Held::Parked(_) if !self.is_parked() => None,
            Held::Unread | Held::Parked(_) | Held::Reloading(_) | Held::Failed(_) => return false,
        };
        let mut shown = self.index.write().unwrap_or_else(PoisonError::into_inner);
        let index = shown.take();
        if let Some(stamps) = fresh {
            *held = Held::Parked(stamps);
            let stored = self.stored.as_ref().filter(|_| self.is_storable());
            if let (Some(stored), Some(index)) = (stored, index) {
                stored.store(&self.dir, stamps, index);
            }
        }
        true
    }

    /// Packs the index, unless somebody uses it right now.
    fn pack(&self) {
        let mut index = self.index.try_write().ok();
        let index = index.as_mut().and_then(|index| index.as_mut());
        if let Some(index) = index.and_then(Arc::get_mut) {
            index.pack();
        }
    }

    /// Returns the bytes that the heads of the index take, without waiting for a writer.
    pub(super) fn open_bytes(&self) -> u64 {
        let index = self.index.try_read().ok();
        index
            .and_then(|index| index.as_ref().map(|index| index.bytes()))
            .unwrap_or_default()
    }

    /// Returns when the index was last requested, in microseconds since the epoch.
    pub(super) fn last_used(&self) -> i64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns the stamps of the files that the summary was made from, if the summary is complete.
    /// Also returns `None` while the run is being reloaded, which takes long for a large one.
    pub(super) fn stamps(&self) -> Option<StampsHash> {
        self.stamps_unless(Self::may_change)
    }

    /// Returns the stamps of the files if they were read completely. Those of an open run count unless
    /// `is_pending`.
    fn stamps_unless(&self, is_pending: fn(&Self) -> bool) -> Option<StampsHash> {
        match &*self.held.try_lock().ok()? {
            Held::Parked(stamps) => Some(*stamps),
            Held::Open(reader) if !is_pending(self) => self.stamps_of(reader),
            Held::Unread | Held::Open(_) | Held::Reloading(_) | Held::Failed(_) => None,
        }
    }

    /// Returns a number that changes with the files. `None` if they weren't read completely.
    pub(crate) fn version(&self) -> Option<u64> {
        let stamps = self.stamps_unless(Self::is_unsettled);
        stamps.map(StampsHash::version)
    }

    /// Returns whether the run will probably grow soon: it hasn't ended, and it grew within this time.
    pub(crate) fn grows(&self, within: Duration) -> bool {
        let within = i64::try_from(within.as_micros()).unwrap_or(i64::MAX);
        self.summary().life.liveness.may_grow()
            && self.grew.load(Ordering::Relaxed) > now().saturating_sub(within)
    }

    /// Returns the stamps of the files that an open reader has read completely.
    fn stamps_of(&self, reader: &RunReader) -> Option<StampsHash> {
        // Evicted files can't become quiet any more.
        let evicted = || reader.last_stamps().filter(|_| self.is_evicted());
        reader.stamps().or_else(evicted).map(StampsHash::from)
    }

    /// Returns the current stamps of the files.
    fn stamps_now(&self) -> Option<StampsHash> {
        Stamps::of(&self.dir).map(StampsHash::from)
    }

    /// Returns whether the run may change beyond its summary.
    fn may_change(&self) -> bool {
        self.is_unsettled() || self.summary().life.liveness.may_grow()
    }

    /// Returns whether the summary is outdated or partial.
    fn is_unsettled(&self) -> bool {
        self.outdated.load(Ordering::Relaxed) || self.summary().partial
    }

    /// Returns a receiver of the library's revision at the run's last change.
    pub(crate) fn revision(&self) -> watch::Receiver<u64> {
        let followers = self
            .followers
            .get_or_init(|| watch::Sender::new(self.revision_now()));
        // Covers changes while the sender was being created.
        Self::send(followers, self.revision_now());
        followers.subscribe()
    }

    /// Returns the library's revision at the run's last change.
    pub(crate) fn revision_now(&self) -> u64 {
        self.changed.load(Ordering::SeqCst)
    }

    /// Returns the library's revision at which this run was found.
    pub(crate) fn born(&self) -> u64 {
        self.born.load(Ordering::Relaxed)
    }

    /// Returns whether the run's directory disappeared.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Returns whether the run was read at least in part.
    pub(crate) fn is_known(&self) -> bool {
        self.known.load(Ordering::Relaxed)
    }

    /// Checks the files and reads at most about `limit` bytes of each.
    pub(super) fn refresh(&self, limit: u64) -> News {
        #[cfg(test)]
        self.play_fault();
        // A document that is begun now would never be finished, and would block one of the slots
        // for reading.
        if self.is_gone() {
            return News::default();
        }
        // A run that wasn't read yet isn't being reloaded, so a request has the lock only for a
        // moment. Otherwise don't wait for a page that is reloading a large run. The run is checked
        // again within a second.
        let held = if self.is_known() {
            self.held.try_lock().ok()
        } else {
            Some(self.held())
        };
        let Some(mut held) = held else {
            return News::default();
        };
        // If the files were evicted, keep what was read from them.
        let Ok(_files) = self.hold() else {
            // A document that is being read would block one of the slots for reading.
            if held.is_under_way() {
                *held = Held::default();
            }
            return News {
                changed: self.grows_older(),
                ..News::default()
            };
        };
        if matches!(*held, Held::Unread) {
            *held = Held::Open(Box::new(RunReader::settling(self.dir.clone(), self.settle)));
        }
        let waits = match &*held {
            Held::Parked(stamps) => Some(Some(*stamps)),
            Held::Failed(stamps) => Some(*stamps),
            Held::Unread | Held::Open(_) | Held::Reloading(_) => None,
        };
        if let Some(stamps) = waits
            && self.stamps_now() == stamps
        {
            let is_stored = matches!(*held, Held::Parked(_)) && !self.is_parked();
            if is_stored && self.life_moved() {
                return News {
                    changed: self.sum_up(),
                    ..News::default()
                };
            }
            if !self.is_parked() || !self.life_moved() {
                return News::default();
            }
        }
        let (delta, touched, more, waits) = match &mut *held {
            Held::Open(reader) => {
                let seen = reader.seen();
                let delta = reader.refresh(limit);
                let waits = reader.waits();
                let more = (delta.more || reader.is_under_way()) && !waits;
                // A new modification time alone changes when the run was last written.
                (delta, seen != reader.seen(), more, waits)
            }
            other => {
                let mut reload = self.begin_again(std::mem::take(other));
                reload.read(limit);
                *other = self.catch_up(reload);
                return self.summarize_reload(other);
            }
        };
        drop(held);
        let outdated = self.outdated.swap(false, Ordering::Relaxed);
        let (news, restarted) = (outdated || self.is_news(&delta), delta.restarted);
        let grows = self.is_known()
            && (!delta.steps.is_empty() || !delta.events.is_empty() || self.sizes_differ(&delta));
        if grows && !self.current().is_partial() {
            self.grew.store(now(), Ordering::Relaxed);
        }
        let first = !self.known.load(Ordering::Relaxed);
        if news || first || self.sizes_differ(&delta) {
            let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
            Arc::make_mut(index.get_or_insert_default()).apply(delta);
        }
        self.known.store(true, Ordering::Relaxed);
        // While a large file is read, every slice changes the summary.
        if more && !first && !outdated && !self.is_sum_due() {
            return News {
                changed: false,
                more,
                waits,
                restarted,
            };
        }
        let differs = (news || first || touched || self.life_moved()) && self.sum_up();
        News {
            changed: news || first || differs,
            more,
            waits,
            restarted,
        }
    }

    /// Returns whether the summary is due although more is being read.
    fn is_sum_due(&self) -> bool {
        let summed = self.summed.load(Ordering::Relaxed);
        Duration::from_millis(uptime_ms().saturating_sub(summed)) >= SUM_EVERY
    }

    /// Triggers `fault` at the next read.
    #[cfg(test)]
    pub(crate) fn set_fault(&self, fault: fn()) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
    }

    #[cfg(test)]
    fn play_fault(&self) {
        let fault = self
            .fault
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        fault.into_iter().for_each(|fault| fault());
    }

    /// Stops reading the run until its files change, because board failed on them.
    pub(super) fn fail(&self) {
        let mut index = Index::default();
        let reason =
            "reading failed because of a bug in board. It tries again when the files change";
        let (kind, file, reason) = (IssueKind::Unreadable, TraceFile::Steps, reason.to_owned());
        let issue = Issue {
            kind,
            file,
            line: None,
            offset: None,
            reason,
        };
        index.apply(Delta {
            passing: vec![issue],
            ..Delta::default()
        });
        *self.index.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(index));
        *self.held() = Held::Failed(self.stamps_now());
        self.known.store(true, Ordering::Relaxed);
    }

    /// Returns the index if it's in memory, or an empty one.
    fn current(&self) -> Arc<Index> {
        self.open_index().unwrap_or_default()
    }

    fn is_news(&self, delta: &Delta) -> bool {
        let index = self.current();
        delta.restarted
            || delta.step_confirmed
            || delta.event_confirmed
            // A manifest that was read again may contain changes that the index doesn't keep.
            || delta.manifest.as_ref().is_some_and(|manifest| manifest.get().is_some() || manifest != index.manifest())
            || !(delta.steps.is_empty() && delta.events.is_empty() && delta.issues.is_empty())
            || delta.passing != index.passing_issues()
            || delta.more != index.is_partial()
    }

    fn sizes_differ(&self, delta: &Delta) -> bool {
        let index = self.current();
        delta.steps_file != index.steps_file() || delta.events_file != index.events_file()
    }

    /// Returns whether the passage of time alone changed the run's liveness.
    pub(super) fn life_moved(&self) -> bool {
        let before = self.summary();
        if before.life.liveness == Liveness::Finished {
            return false;
        }
        let after = match self.open_index() {
            Some(index) => life(&index, self.outside()),
            None => before.life.clone().at(now(), None),
        };
        let minutes = |silence: Option<i64>| silence.unwrap_or_default() / 60_000_000;
        after.liveness != before.life.liveness
            || after.sign != before.life.sign
            || (after.liveness == Liveness::Stalled
                && minutes(after.silence) != minutes(before.life.silence))
    }

    /// Recomputes the summary. Returns whether it changed.
    pub(super) fn sum_up(&self) -> bool {
        let index = self.current();
        let fresh = self.untagged_summary_of(&index);
        self.summed.store(uptime_ms(), Ordering::Relaxed);
        self.show(fresh, &index)
    }

    fn outside(&self) -> ExternalFacts {
        ExternalFacts {
            now: now(),
            written: self.dir.written(),
            process: process(&self.current()),
        }
    }

    /// Adds the run's secrets to those of the runs that it's saved with.
    ///
    /// # Errors
    /// Returns an error if the files can't be read.
    pub(crate) fn add_secrets(&self, shared: &mut SharedSecrets) -> io::Result<()> {
        shared.add(&self.dir)
    }

    /// Creates a copy of the run without its secrets and the `shared` ones. It exists as long as
    /// the returned value lives.
    ///
    /// # Errors
    /// Returns an error if the files can't be read or the copy can't be written.
    pub(crate) fn redacted(&self, shared: &mut SharedSecrets) -> io::Result<RedactedRun> {
        RedactedRun::with(&self.dir, shared)
    }

    /// Returns what redacted copies would blank in at most about `max` bytes of the run and of
    /// `others`, which may be saved with it.
    ///
    /// # Errors
    /// Fails if the files of this run can't be read.
    pub(crate) fn redaction_preview(
        &self,
        others: &[&Self],
        max: u64,
    ) -> io::Result<RedactionPreview> {
        let others: Vec<&RunDir> = others.iter().map(|run| &run.dir).collect();
        RedactionPreview::of(&self.dir, &others, max)
    }

    /// Returns the summary of a redacted copy. Its name and path don't tell who wrote it either.
    pub(crate) fn summary_of_copy(&self, copy: &RedactedRun) -> Summary {
        let fresh = self.untagged_summary_of(copy.index());
        Summary {
            key: RunKey::new(&without_private(self.key.as_str())),
            path: without_private(&self.path).into(),
            ..fresh
        }
    }

    /// Returns the summary that the run would have with another index.
    pub(crate) fn summary_of(&self, index: &Index) -> Summary {
        let mut summary = self.untagged_summary_of(index);
        self.tags.apply(&mut summary, &self.dir);
        summary
    }

    fn untagged_summary_of(&self, index: &Index) -> Summary {
        let prices = self.summary().prices.clone();
        Summary {
            prices,
            ..summary(&self.key, self.path.clone(), index, self.outside())
        }
    }

    /// Returns whether anyone follows this run.
    pub(super) fn is_looked_at(&self) -> bool {
        self.followers
            .get()
            .is_some_and(|followers| followers.receiver_count() > 0)
    }

    /// Notifies all followers of this run.
    pub(super) fn tell(&self, revision: u64) {
        self.changed.store(revision, Ordering::SeqCst);
        if let Some(followers) = self.followers.get() {
            Self::send(followers, revision);
        }
    }

    fn send(followers: &watch::Sender<u64>, revision: u64) {
        followers.send_if_modified(|sent| {
            let is_news = *sent < revision;
            *sent = revision.max(*sent);
            is_news
        });
    }

    /// Sets the revision at which the run was found.
    pub(super) fn begin(&self, revision: u64) {
        self.born.store(revision, Ordering::Relaxed);
        self.tell(revision);
    }

    pub(super) fn leave(&self, revision: u64) {
        self.gone.store(true, Ordering::Relaxed);
        // A page may hold the run for long, but the document is no longer read to its end.
        if let Ok(mut held) = self.held.try_lock()
            && held.is_under_way()
        {
            *held = Held::default();
        }
        self.tell(revision);
    }

    /// Returns whether the index in memory is a stored one.
    #[cfg(test)]
    pub(super) fn has_stored_index(&self) -> bool {
        !self.is_parked() && matches!(&*self.held(), Held::Parked(_))
    }

    /// Returns whether the run should be checked every second, because it may grow or its state
    /// isn't settled.
    pub(super) fn is_lively(&self) -> bool {
        let unsettled = match self.held.try_lock() {
            Ok(held) => match &*held {
                Held::Open(reader) => reader.is_unsettled(),
                Held::Reloading(_) => true,
                Held::Unread | Held::Parked(_) | Held::Failed(_) => false,
            },
            // Another thread is reloading it.
            Err(_) => true,
        };
        unsettled || self.grew_lately() || self.summary().life.liveness.may_grow()
    }

    fn grew_lately(&self) -> bool {
        self.grew.load(Ordering::Relaxed) > now() - LIVELY_MICROS
    }
}

/// A run that grew within the last two minutes is checked every second, even if it claims to have
/// ended.
const LIVELY_MICROS: i64 = 120_000_000;
/// A run that was requested within the last minute stays open.
const IN_USE_MICROS: i64 = 60_000_000;

/// Returns whether the recorded process exists. QitOS doesn't record one. Only checked for runs
/// without an end.
fn process(index: &Index) -> Option<bool> {
    let manifest = index
        .manifest()
        .get()
        .filter(|manifest| !manifest.is_final())?;
    is_running(manifest.host.as_deref()?, manifest.pid?)
}

/// How often the summary is updated and published while a large file is read.
pub(super) const SUM_EVERY: Duration = Duration::from_millis(500);

/// Returns how many milliseconds passed since the first call.
fn uptime_ms() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Returns the current time in microseconds since the Unix epoch.
pub(super) fn now() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or_default()
}
