//! What is known of one run, and how is it brought up to date?

mod behind;
mod evicted;

use std::io::{self, Read as _};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use behind::Held;
pub use evicted::FETCH_PATIENCE;

use crate::analysis::copies::{Fingerprint, Mark, Relation, marks};
use crate::analysis::life::{Liveness, Outside, life};
use crate::analysis::summary::{Summary, summary};
use crate::mirror::Mirror;
use crate::model::price::Prices;
use crate::model::{
    Delta, Index, Issue, IssueKind, Lines, MAX_LINE_BYTES, RunKey, Span, TraceFile,
};
use crate::trace::{PIECE_BYTES, RedactedRun, RunDir, RunReader, Stamps, is_running};

/// A run that the board follows.
///
/// A run that ended and that nobody looks at is *parked*: of what it holds only the summary stays in memory, and the
/// stamps of its files, which tell whether the summary still holds. Whoever asks for its index has it read again.
#[derive(Debug)]
pub struct Run {
    key: RunKey,
    path: Arc<str>,
    dir: RunDir,
    /// The mirror that its files lie in.
    store: Option<Arc<Mirror>>,
    settle: Duration,
    held: Mutex<Held>,
    /// `None` while it is parked.
    index: RwLock<Option<Arc<Index>>>,
    summary: RwLock<Arc<Summary>>,
    /// `None` while nothing is known of copies, as for most runs.
    copies: Mutex<Option<Box<Copies>>>,
    /// The files were not those of the summary when the index was read again.
    outdated: AtomicBool,
    /// How often the summary of the last board turned out wrong when the files were read again.
    corrections: AtomicU64,
    /// When the index was last asked for; microseconds since the epoch.
    used: AtomicI64,
    /// The library's revision at its last change, and who is told of newer ones.
    changed: AtomicU64,
    followers: OnceLock<watch::Sender<u64>>,
    born: AtomicU64,
    known: AtomicBool,
    gone: AtomicBool,
    grew: AtomicI64,
    /// When the summary was made.
    summed: Mutex<Instant>,
    waking: OnceLock<Arc<tokio::sync::Mutex<()>>>,
    #[cfg(test)]
    fault: Mutex<Option<fn()>>,
}

/// What is kept of a run's copies.
#[derive(Debug, Default)]
struct Copies {
    relation: Relation,
    /// The summary as it would be without the others; `None` where that is the one that is shown.
    alone: Option<Arc<Summary>>,
    /// Its steps as its copies have them, and of which fingerprint that is.
    marks: Option<(Fingerprint, Arc<[Mark]>)>,
}

impl Lines for Run {
    fn line(&self, file: TraceFile, span: Span) -> Result<Vec<u8>, String> {
        self.dir.line(|| self.index(), file, span)
    }

    fn manifest(&self) -> Result<Vec<u8>, String> {
        self.dir
            .read_all(TraceFile::Manifest, MAX_MANIFEST_SHOWN)
            .map_err(|error| error.to_string())
    }

    fn has_asset(&self, recorded: &str) -> Result<(), String> {
        if recorded.contains("://") {
            return Err(
                "it lies elsewhere, and the board loads nothing from the network".to_owned(),
            );
        }
        self.dir
            .has_asset(recorded)
            .map_err(|error| error.to_string())
    }
}

/// The index of every run that was not read yet.
static NOTHING_READ: LazyLock<Arc<Index>> = LazyLock::new(Arc::default);

/// One run of more bytes is read at a time.
const LARGE_BYTES: u64 = 16 << 20;
/// A larger manifest is not shown on a page; its raw text can be had.
const MAX_MANIFEST_SHOWN: u64 = MAX_LINE_BYTES;

/// What one look at a run brought.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct News {
    /// Something that people see changed.
    pub(super) changed: bool,
    /// There are more bytes to read.
    pub(super) more: bool,
    /// There is more to read once it is unpacked.
    pub(super) waits: bool,
    /// A file was written anew, and is read from its start.
    pub(super) restarted: bool,
}

impl Run {
    /// A run that is not read yet. Its files are taken for quiet after `settle`.
    pub(super) fn new(
        key: &RunKey,
        path: impl Into<Arc<str>>,
        dir: RunDir,
        settle: Duration,
    ) -> Self {
        // Runs by the hundred thousand may wait to be read: those share an index and have no reader.
        let index = Arc::clone(&NOTHING_READ);
        let unread = summary(
            key,
            path,
            &index,
            Outside {
                now: now(),
                ..Outside::default()
            },
        );
        let run = Self::holding(dir, settle, Held::Unread, unread.unread());
        Self {
            index: RwLock::new(Some(index)),
            ..run
        }
    }

    /// A run whose files are known to look like `stamps`, as they did when `summary` was made.
    pub(super) fn parked(dir: RunDir, settle: Duration, stamps: Stamps, summary: Summary) -> Self {
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
            summed: Mutex::new(Instant::now()),
            waking: OnceLock::new(),
            #[cfg(test)]
            fault: Mutex::default(),
        }
    }

    /// The same run, whose cost can be estimated by these prices.
    pub(super) fn priced(self, prices: &Arc<Prices>) -> Self {
        let summary = Summary::clone(&self.summary()).priced(prices);
        Self {
            summary: RwLock::new(Arc::new(summary)),
            ..self
        }
    }

    /// Its name on the board.
    pub fn key(&self) -> &RunKey {
        &self.key
    }

    /// Its directory as the person would type it.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Its directory.
    pub fn dir(&self) -> &RunDir {
        &self.dir
    }

    /// The facts of its row.
    pub fn summary(&self) -> Arc<Summary> {
        Arc::clone(&self.summary.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The facts of its row as they are without a look at other runs.
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

    /// How it relates to other runs, as noted last.
    fn relation(&self) -> Relation {
        self.copies()
            .as_ref()
            .map(|copies| copies.relation.clone())
            .unwrap_or_default()
    }

    /// Its steps as its copies have them. They are kept while it has the fingerprint that it has now.
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

    /// Notes how it relates to other runs; says whether that is something else than before.
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
        *self.summary.write().unwrap_or_else(PoisonError::into_inner) = summary;
        true
    }

    /// Shows a summary that was made anew; says whether it differs from the one before.
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
        let mut summary = self.summary.write().unwrap_or_else(PoisonError::into_inner);
        let differs = *summary != shown;
        *summary = shown;
        differs
    }

    /// The manifest's bytes; of one that is too large to be held, how many they are.
    ///
    /// # Errors
    /// It is not there or cannot be read.
    pub fn whole_manifest(&self) -> io::Result<Result<Vec<u8>, u64>> {
        let (mut file, size) = self.dir.open_span(TraceFile::Manifest, None)?;
        if size > MAX_MANIFEST_SHOWN {
            return Ok(Err(size));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Ok(bytes))
    }

    /// Held by whoever has the files of a parked run read: others wait without a thread.
    pub fn waking(&self) -> &Arc<tokio::sync::Mutex<()>> {
        self.waking.get_or_init(Arc::default)
    }

    /// The index as it is now; reads the files of a parked run, which then stays open for a while. Whoever holds it
    /// for long keeps nobody waiting: the next change goes into a copy.
    pub fn index(&self) -> Arc<Index> {
        self.used.store(now(), Ordering::Relaxed);
        self.ask();
        self.open_index().unwrap_or_else(|| self.wake())
    }

    /// The index as it is now; that of a parked run is read for this answer alone. For questions about many runs.
    pub fn index_once(&self) -> Arc<Index> {
        if let Some(index) = self.open_index() {
            return index;
        }
        let _turn = self.turn();
        self.index_now()
    }

    /// The same without waiting for other large runs. For the scan thread, which must not wait for a page.
    fn index_now(&self) -> Arc<Index> {
        self.open_index().unwrap_or_else(|| match self.hold() {
            Ok(_files) => Arc::new(RunReader::settling(self.dir.clone(), self.settle).read_whole()),
            Err(evicted::Evicted) => Self::nothing_here(),
        })
    }

    /// Whether reading it takes much memory and time.
    pub fn is_large(&self) -> bool {
        self.dir.bytes() > LARGE_BYTES
    }

    /// Reads one large run at a time: a client that requests many pages and leaves would otherwise have many read at once.
    fn turn(&self) -> Option<MutexGuard<'static, ()>> {
        static TURN: Mutex<()> = Mutex::new(());
        self.is_large()
            .then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The summary and the index of one moment, so that all counts of a page agree. Between two sums a run may grow; then
    /// the index is summed up for this page alone.
    pub fn shown(&self) -> (Arc<Summary>, Arc<Index>) {
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

    /// Whether [`Self::index`] has to read files first.
    pub fn is_parked(&self) -> bool {
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

    /// Reads a parked run again, from where the scan thread came to with it.
    fn wake(&self) -> Arc<Index> {
        let mut held = self.held();
        // Somebody else may have done so while this one waited.
        if let Some(index) = self.open_index() {
            return index;
        }
        let Ok(_files) = self.hold() else {
            return Self::nothing_here();
        };
        let _turn = self.turn();
        #[cfg(test)]
        self.play_fault();
        self.used.store(now(), Ordering::Relaxed);
        // Whoever asks for the index reads lines as well.
        self.dir.unpack();
        let mut behind = self.begin_again(std::mem::take(&mut *held));
        while behind.read_patiently(PIECE_BYTES) {}
        // Reading a large file may take longer than a run stays open that nobody asks about.
        self.used.store(now(), Ordering::Relaxed);
        let index = Arc::clone(&behind.index);
        *held = self.catch_up(behind);
        self.check_summary(&index);
        index
    }

    /// Compares the summary with `index`, which was read from the files as they are now. A summary may come from the cache,
    /// which anybody may have written to, and is no evidence: where it differs, the files count.
    fn check_summary(&self, index: &Arc<Index>) {
        // What other runs say about it is in neither.
        let known = self.alone();
        let fresh = self.summary_of(index);
        // Files that changed, a run that isn't wholly read, and time that passed explain a difference without the cache.
        let is_known = !self.outdated.load(Ordering::Relaxed)
            && !index.is_partial()
            && known.life.liveness == fresh.life.liveness;
        if known.is_same_but_for_time(&fresh) {
            return;
        }
        if is_known {
            let (said, says) = (&known.verdict.sentence, &fresh.verdict.sentence);
            tracing::warn!(
                "{}: the index cache said \"{said}\"; by its files: \"{says}\"",
                self.key
            );
            self.corrections.fetch_add(1, Ordering::Relaxed);
        }
        // Those who follow the run hear of it at the next look.
        self.outdated.store(true, Ordering::Relaxed);
        self.show(fresh, index);
    }

    /// How often the summary of the last board turned out wrong.
    pub(super) fn corrections(&self) -> u64 {
        self.corrections.load(Ordering::Relaxed)
    }

    /// Lets go of the index if the run ended, its files are settled, and nobody looks at it or has a page of it open. Says
    /// whether it did. While memory is short, it counts for nothing that somebody asked for the run a moment ago, that it
    /// grew lately, or that it may go on: if it does, its files are read again.
    pub(super) fn park(&self, is_short: bool) -> bool {
        let is_used = self.used.load(Ordering::Relaxed) > now() - IN_USE_MICROS;
        let stays = if is_short {
            self.is_unsettled()
        } else {
            is_used || self.grew_lately() || self.may_change()
        };
        if stays || self.is_looked_at() {
            return false;
        }
        // Whoever has the run read holds it for as long as that takes, and the scan thread waits for nobody.
        let Ok(mut held) = self.held.try_lock() else {
            return false;
        };
        if let Held::Open(reader) = &*held
            && let Some(stamps) = reader.stamps()
        {
            *held = Held::Parked(stamps);
            *self.index.write().unwrap_or_else(PoisonError::into_inner) = None;
            return true;
        }
        false
    }

    /// Bytes that the heads of its index take, without a wait for whoever writes it.
    pub(super) fn open_bytes(&self) -> u64 {
        let index = self.index.try_read().ok();
        index
            .and_then(|index| index.as_ref().map(|index| index.weight()))
            .unwrap_or_default()
    }

    /// When somebody last asked for its index; microseconds since the epoch.
    pub(super) fn last_used(&self) -> i64 {
        self.used.load(Ordering::Relaxed)
    }

    /// What its files looked like when its summary was made, if that is all there is to say of it. `None` also while
    /// somebody has it read, which takes long for a large one.
    pub(super) fn stamps(&self) -> Option<Stamps> {
        match &*self.held.try_lock().ok()? {
            Held::Parked(stamps) => Some(*stamps),
            Held::Open(reader) if !self.may_change() => reader.stamps(),
            Held::Unread | Held::Open(_) | Held::Behind(_) | Held::Failed(_) => None,
        }
    }

    /// Whether there may be more to say of it than its summary does.
    fn may_change(&self) -> bool {
        self.is_unsettled() || self.summary().life.liveness.may_grow()
    }

    /// Whether its summary is not that of its files, as far as they were read.
    fn is_unsettled(&self) -> bool {
        self.outdated.load(Ordering::Relaxed) || self.summary().partial
    }

    /// The library's revision at the last change of this run, and word of newer ones.
    pub fn revision(&self) -> watch::Receiver<u64> {
        let followers = self
            .followers
            .get_or_init(|| watch::Sender::new(self.revision_now()));
        // What changed while they were made counts as well.
        Self::send(followers, self.revision_now());
        followers.subscribe()
    }

    /// The library's revision at the last change of this run.
    pub fn revision_now(&self) -> u64 {
        self.changed.load(Ordering::SeqCst)
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
        #[cfg(test)]
        self.play_fault();
        // Nobody waits for a page that has a large run read; it is looked at again within a second.
        let Ok(mut held) = self.held.try_lock() else {
            return News::default();
        };
        // What was read of files that are not here any more stays.
        let Ok(_files) = self.hold() else {
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
            Held::Unread | Held::Open(_) | Held::Behind(_) => None,
        };
        if let Some(stamps) = waits
            && Stamps::of(&self.dir) == stamps
            && !(self.is_parked() && self.life_moved())
        {
            return News::default();
        }
        let (delta, touched, more, waits) = match &mut *held {
            Held::Open(reader) => {
                let seen = reader.seen();
                let delta = reader.refresh(limit);
                let waits = reader.waits();
                let more = (delta.more || reader.is_under_way()) && !waits;
                // Another time alone says something else of when the run was written.
                (delta, seen != reader.seen(), more, waits)
            }
            other => {
                let mut behind = self.begin_again(std::mem::take(other));
                behind.read(limit);
                *other = self.catch_up(behind);
                return self.tell_of_rereading(other);
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
        // While a large file is read, what is known of it changes with every slice.
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

    /// Whether what is known is to be summed up although more is being read.
    fn is_sum_due(&self) -> bool {
        self.summed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .elapsed()
            >= SUM_EVERY
    }

    /// Has `fault` happen when it is read the next time.
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

    /// Reads it no more before its files change: a part of the board failed on them.
    pub(super) fn fail(&self) {
        let mut index = Index::default();
        let reason = "reading it failed, which is a fault of the board; it is read again once its files change";
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
        *self.held() = Held::Failed(Stamps::of(&self.dir));
        self.known.store(true, Ordering::Relaxed);
    }

    /// The index, as far as there is one in memory.
    fn current(&self) -> Arc<Index> {
        self.open_index().unwrap_or_default()
    }

    fn is_news(&self, delta: &Delta) -> bool {
        let index = self.current();
        delta.restarted
            || delta.step_confirmed
            || delta.event_confirmed
            // Of a manifest that was read anew, something else is there to be shown.
            || delta.manifest.as_ref().is_some_and(|manifest| manifest.get().is_some() || manifest != index.manifest())
            || !(delta.steps.is_empty() && delta.events.is_empty() && delta.issues.is_empty())
            || delta.passing != index.passing_issues()
            || delta.more != index.is_partial()
    }

    fn sizes_differ(&self, delta: &Delta) -> bool {
        let index = self.current();
        delta.steps_file != index.steps_file() || delta.events_file != index.events_file()
    }

    /// Whether time alone changed what is said about the run.
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

    /// Makes the summary anew; says whether it differs.
    pub(super) fn sum_up(&self) -> bool {
        let index = self.current();
        let fresh = self.summary_of(&index);
        *self.summed.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.show(fresh, &index)
    }

    fn outside(&self) -> Outside {
        Outside {
            now: now(),
            written: self.dir.written(),
            process: process(&self.current()),
        }
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
        let prices = self.summary().prices.clone();
        Summary {
            prices,
            ..summary(&self.key, self.path.clone(), index, self.outside())
        }
    }

    /// Whether somebody follows this run.
    pub(super) fn is_looked_at(&self) -> bool {
        self.followers
            .get()
            .is_some_and(|followers| followers.receiver_count() > 0)
    }

    /// Tells everybody who follows this run.
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

    /// Notes the revision at which it was found.
    pub(super) fn begin(&self, revision: u64) {
        self.born.store(revision, Ordering::Relaxed);
        self.tell(revision);
    }

    pub(super) fn leave(&self, revision: u64) {
        self.gone.store(true, Ordering::Relaxed);
        // A page may hold the run for long, and nobody reads it to its end.
        if let Ok(mut held) = self.held.try_lock()
            && held.is_under_way()
        {
            *held = Held::default();
        }
        self.tell(revision);
    }

    /// Whether it should be looked at every second: it may grow, or something about it is not settled.
    pub(super) fn is_lively(&self) -> bool {
        let unsettled = match self.held.try_lock() {
            Ok(held) => match &*held {
                Held::Open(reader) => reader.is_unsettled(),
                Held::Behind(_) => true,
                Held::Unread | Held::Parked(_) | Held::Failed(_) => false,
            },
            // Somebody has it read.
            Err(_) => true,
        };
        unsettled || self.grew_lately() || self.summary().life.liveness.may_grow()
    }

    fn grew_lately(&self) -> bool {
        self.grew.load(Ordering::Relaxed) > now() - LIVELY_MICROS
    }
}

/// A run that grew within the last two minutes is looked at every second even if it says that it ended.
const LIVELY_MICROS: i64 = 120_000_000;
/// A run that was asked about within the last minute stays open.
const IN_USE_MICROS: i64 = 60_000_000;

/// Whether the recorded process exists; QitOS records none. Only asked while it matters.
fn process(index: &Index) -> Option<bool> {
    let manifest = index
        .manifest()
        .get()
        .filter(|manifest| !manifest.is_final())?;
    is_running(manifest.host.as_deref()?, manifest.pid?)
}

/// While a large file is read, what is known of it is summed up and told this often.
pub(super) const SUM_EVERY: Duration = Duration::from_millis(500);

/// The time now, in microseconds since the Unix epoch.
pub(super) fn now() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or_default()
}
