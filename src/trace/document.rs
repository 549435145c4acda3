//! Reads the single document of a run again whenever it changes, in pieces, and publishes it as a
//! whole.
//!
//! While a document is being written it may be incomplete. The previous version then remains, with
//! a passing issue about it. If no complete version was ever seen, the existing part is published.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher as _};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::dir::RunDir;
use super::limits::MAX_MANIFEST_BYTES;
use super::patience::{Patience, is_lasting, is_pending};
use super::several::Opened;
use super::stamp::Stamp;
use super::tail::Look;
use crate::format::{
    Draft, EventDraft, Open, Paths, Reader, RecordPlace, Shape, Source, Tool, Values, WatchedValue,
};
use crate::model::index::FileState;
use crate::model::{
    Delta, Fate, Index, Issue, IssueKind, MAX_LINE_BYTES, Names, Record, TraceFile,
};

/// Bytes read from the file at a time.
const PIECE_BYTES: usize = 64 << 10;
/// A read ends after this long, even if its byte limit allows more: tiny records take long for
/// their size, and other runs are waiting. The next read continues there. A read without a limit
/// reads everything.
const TURN: Duration = Duration::from_millis(100);
/// If a read takes longer than `LONG`, readers that don't wait start the next one after `REST`
/// times that duration at the earliest. Otherwise a document that changes all the time would keep
/// its reader busy forever.
const LONG: Duration = Duration::from_millis(250);
const REST: u32 = 4;

/// How many documents are read at the same time for readers that don't wait: those over 32 MiB,
/// over 2 MiB, and smaller. A document takes many times more memory while it is read than
/// afterwards.
const MAX_UNDER_WAY: [(u64, usize); 3] = [(32 << 20, 1), (2 << 20, 2), (0, 16)];

static UNDER_WAY: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

/// If the documents being read take more bytes of memory than this together, only one of them
/// continues. The others wait for it with what they have. Without this, a file with many runs of
/// tiny records would take many times the memory of one of them.
const MAX_UNDER_WAY_BYTES: usize = 32 << 20;
/// A request never waits with a document that takes fewer bytes of memory than this.
const SMALL_BYTES: usize = 4 << 20;
/// A request waits this long for other documents, and then reads its own in parallel. On a busy
/// machine, a document of 100 MB takes about 10 s.
const REQUEST_WAITS: Duration = Duration::from_secs(30);

/// The documents being read by this process.
static QUEUE: Queue = Queue::new();

/// The reader of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum For {
    /// The scan thread, which doesn't wait. It asks again.
    Scan,
    /// A request, whose thread waits for its turn.
    Request,
}

/// Decides which of the documents being read may continue.
#[derive(Debug)]
struct Queue {
    turns: Mutex<Turns>,
    /// Notified when a document is read.
    left: Condvar,
}

impl Queue {
    const fn new() -> Self {
        Self {
            turns: Mutex::new(Turns::new()),
            left: Condvar::new(),
        }
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The memory that documents take while they are being read.
#[derive(Debug)]
struct Turns {
    /// The bytes of all of them.
    bytes: usize,
    /// The document that continues if they take too much.
    first: Option<u64>,
    /// The number of the newest document.
    newest: u64,
    /// The documents of requests that wait, the oldest first.
    waiting: VecDeque<u64>,
    /// How many documents the scan thread is reading.
    scanned: usize,
    /// Whether one of these continues next, because the last turn was a request's.
    is_scans_turn: bool,
}

impl Turns {
    const fn new() -> Self {
        Self {
            bytes: 0,
            first: None,
            newest: 0,
            waiting: VecDeque::new(),
            scanned: 0,
            is_scans_turn: false,
        }
    }

    /// Adds a document and returns its number.
    fn enter(&mut self, reader: For) -> u64 {
        self.scanned += usize::from(reader == For::Scan);
        self.newest += 1;
        self.newest
    }

    /// Returns whether document `number` may continue. If it may not and belongs to a request, it
    /// gets its turn once another document is read.
    fn may_continue(&mut self, number: u64, reader: For) -> bool {
        let is_free = self.first.is_none() && (reader == For::Scan || !self.is_scans_turn);
        let may = self.bytes <= MAX_UNDER_WAY_BYTES || is_free || self.first == Some(number);
        if may {
            self.waiting.retain(|waits| *waits != number);
        } else if reader == For::Request && !self.waiting.contains(&number) {
            self.waiting.push_back(number);
        }
        if self.bytes > MAX_UNDER_WAY_BYTES && is_free {
            self.first = Some(number);
            self.is_scans_turn = false;
        }
        may
    }

    /// Updates the bytes that a document takes.
    fn weigh(&mut self, before: usize, now: usize) {
        self.bytes = self.bytes.saturating_sub(before).saturating_add(now);
    }

    /// Removes document `number`, which took this many bytes. Requests and the scan thread get
    /// turns alternately, so that neither waits for all documents of the other.
    fn leave(&mut self, number: u64, reader: For, bytes: usize) {
        self.weigh(bytes, 0);
        self.waiting.retain(|waits| *waits != number);
        self.scanned -= usize::from(reader == For::Scan && self.scanned > 0);
        if self.first == Some(number) {
            self.is_scans_turn = reader == For::Request;
            self.first = match reader {
                For::Scan => self.waiting.pop_front(),
                For::Request => None,
            };
        }
        self.is_scans_turn &= self.scanned > 0;
    }
}

/// Counts one document as being read, with the memory it takes.
#[derive(Debug)]
struct Place {
    queue: &'static Queue,
    /// The slot of a document that the scan thread reads.
    slot: Option<&'static AtomicUsize>,
    number: u64,
    bytes: usize,
    /// Until when a request waits for other documents, once it had to.
    waits_until: Option<Instant>,
}

impl Place {
    /// Reserves a slot for a document of this size in bytes, if one is free.
    fn take(bytes: u64) -> Option<Self> {
        let mut classes = UNDER_WAY.iter().zip(MAX_UNDER_WAY);
        let (taken, (_, most)) = classes.find(|(_, (above, _))| bytes > *above || *above == 0)?;
        let more = |taken: usize| (taken < most).then_some(taken + 1);
        taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()?;
        Some(Self::new(&QUEUE, Some(taken)))
    }

    /// Counts a document that a request reads. It needs no slot, because few requests read at a
    /// time.
    fn of_request() -> Self {
        Self::new(&QUEUE, None)
    }

    fn new(queue: &'static Queue, slot: Option<&'static AtomicUsize>) -> Self {
        let reader = slot.map_or(For::Request, |_| For::Scan);
        Self {
            queue,
            slot,
            number: queue.turns().enter(reader),
            bytes: 0,
            waits_until: None,
        }
    }

    fn reader(&self) -> For {
        self.slot.map_or(For::Request, |_| For::Scan)
    }

    /// Returns whether the document may be read further.
    fn may_continue(&self) -> bool {
        self.queue.turns().may_continue(self.number, self.reader())
    }

    /// Waits until the document may be read further, but no longer than [`REQUEST_WAITS`] in all.
    fn wait(&mut self) {
        if self.bytes < SMALL_BYTES {
            return;
        }
        let mut turns = self.queue.turns();
        while !turns.may_continue(self.number, self.reader()) {
            let now = Instant::now();
            let until = *self.waits_until.get_or_insert(now + REQUEST_WAITS);
            let rest = until.saturating_duration_since(now);
            if rest.is_zero() {
                return;
            }
            turns = match self.queue.left.wait_timeout(turns, rest) {
                Ok((turns, _)) => turns,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// Sets how many bytes the document takes.
    fn weigh(&mut self, bytes: usize) {
        self.queue.turns().weigh(self.bytes, bytes);
        self.bytes = bytes;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            slot.fetch_sub(1, Ordering::Relaxed);
        }
        let reader = self.reader();
        self.queue.turns().leave(self.number, reader, self.bytes);
        self.queue.left.notify_all();
    }
}

/// Follows one document.
#[derive(Debug, Default)]
pub(super) struct Document {
    /// The stamp at the last read.
    seen: Option<Stamp>,
    /// The stamp of the second document at the last read.
    seen_beside: Option<Stamp>,
    /// The hash of the published bytes, and whether they were a complete document.
    handed_out: Option<(u64, bool)>,
    /// Why the current document is not published, and the offset from which it cannot be read.
    waits: Option<(String, Option<u64>)>,
    /// Whether the file had been quiet long enough when it was read that any later change shows in
    /// its stamp.
    settled: bool,
    state: FileState,
    /// The unfinished pass.
    under_way: Option<Box<UnderWay>>,
    /// When the next pass may start for readers that don't wait, and whether an earlier read would
    /// have started one.
    rests_until: Option<Instant>,
    owed: bool,
}

/// A pass over the document, as far as it has come.
struct UnderWay {
    input: Box<dyn io::Read + Send>,
    /// The stamps of both documents at its start.
    stamps: [Option<Stamp>; 2],
    beside: Option<Vec<u8>>,
    exists: bool,
    is_closed: bool,
    expected: u64,
    values: Values,
    hasher: DefaultHasher,
    size: u64,
    damage: Option<String>,
    open: Open,
    reader: Box<dyn Reader>,
    names: Names,
    delta: Delta,
    /// Earlier parts, which already moved to an index to limit memory.
    index: Option<Box<Index>>,
    took: Duration,
    /// Released when the pass is over.
    place: Option<Place>,
}

impl std::fmt::Debug for UnderWay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnderWay")
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

/// The result of one pass over the file.
struct Pass {
    exists: bool,
    hash: u64,
    is_whole: bool,
    /// Why the document is incomplete.
    fault: String,
    /// The end of the last value that was read.
    end: u64,
    /// The offset from which the document cannot be read, if that is due to its own content.
    broken_at: Option<u64>,
    size: u64,
}

impl Document {
    /// Returns the stamp of the file at the last read.
    pub(super) fn seen(&self) -> Option<Stamp> {
        self.seen
    }

    /// Returns the stamp of the second document at the last read.
    pub(super) fn seen_beside(&self) -> Option<Stamp> {
        self.seen_beside
    }

    /// Returns whether any version of the document was published.
    pub(super) fn has_read(&self) -> bool {
        self.handed_out.is_some()
    }

    /// Returns whether another read may find something although the file doesn't change, or whether
    /// a new reader would report something else.
    pub(super) fn is_unsettled(&self) -> bool {
        (self.handed_out.is_some() && !self.settled)
            || self.waits.is_some()
            || self.owed
            || self.is_under_way()
    }

    /// Returns whether the document is being read.
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Publishes the content of the document if it has changed. Reads at most about `limit` bytes
    /// for that.
    ///
    /// # Errors
    /// Fails if the file can't be read now.
    pub(super) fn look(
        &mut self,
        dir: &RunDir,
        (tool, paths): (&'static Tool, Paths),
        (limit, patience): (u64, Patience),
        names: &mut Names,
        delta: &mut Delta,
    ) -> io::Result<Look> {
        let is_directory = matches!(tool.shape, Shape::Directory { .. } | Shape::Several(_));
        let stat = |file| match dir.stat(file) {
            Ok(stamp) => Ok(Some(stamp)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        let stamps = || {
            let beside = (is_directory || dir.has_companion())
                .then(|| stat(TraceFile::Manifest))
                .transpose()?;
            Ok((beside.flatten(), stat(TraceFile::Events)?))
        };
        // A pass that can't continue gives up its turn, for which other documents wait.
        let (beside, stamp) = stamps().inspect_err(|_: &io::Error| self.under_way = None)?;
        if stamp.is_none() && !is_directory {
            self.under_way = None;
            return Ok(Look {
                restarted: self.handed_out.is_some(),
                ..Look::default()
            });
        }
        let are_quiet = |stamps: [Option<Stamp>; 2]| stamps.iter().flatten().all(Stamp::is_settled);
        let is_news = self.handed_out.is_none() || (self.seen, self.seen_beside) != (stamp, beside);
        let rests = patience == Patience::Now
            && self.rests_until.is_some_and(|until| Instant::now() < until);
        self.owed = false;
        if self.under_way.is_none() && (is_news || (!self.settled && are_quiet([stamp, beside]))) {
            if rests {
                self.owed = true;
                return Ok(self.told(delta));
            }
            let size = stamp.map_or(0, |stamp| stamp.size);
            let place = match patience {
                Patience::Now => Some(Place::take(size)),
                Patience::Turn => Some(Some(Place::of_request())),
                Patience::Wait => None,
            };
            if matches!(place, Some(None)) {
                return Ok(self.waiting(size, delta));
            }
            let records = stamp
                .map(|_| dir.document(TraceFile::Events, patience))
                .transpose();
            let read_beside = || dir.read_all_as(TraceFile::Manifest, MAX_MANIFEST_BYTES, patience);
            let opened =
                records.and_then(|records| match beside.map(|_| read_beside()).transpose() {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((records, None)),
                    read => Ok((records, read?)),
                });
            let (opened, result) = match opened {
                Ok(opened) => opened,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if is_pending(&error) {
                        return Ok(self.waiting(size, delta));
                    }
                    self.seen = None;
                    return Ok(Look {
                        busy: true,
                        ..self.told(delta)
                    });
                }
                Err(error) => return Err(error),
            };
            let mut way = UnderWay::new(opened, result, beside, (tool, paths));
            way.place = place.flatten();
            self.under_way = Some(Box::new(way));
        }
        let Some(mut way) = self.under_way.take() else {
            return Ok(self.told(delta));
        };
        // Changes during this pass are read by the next one.
        let has_turn = match (&mut way.place, patience) {
            (Some(place), Patience::Now) => place.may_continue(),
            (Some(place), Patience::Turn) => {
                place.wait();
                true
            }
            (Some(_), Patience::Wait) | (None, _) => true,
        };
        let begun = Instant::now();
        let is_over = has_turn && way.read(limit, dir.path())?;
        way.took += begun.elapsed();
        if !is_over {
            way.weigh();
            let state = FileState {
                exists: true,
                size: way.expected.max(way.size),
                read: way.size,
            };
            self.under_way = Some(way);
            // During the first read, only part of the document is known.
            let is_first = self.handed_out.is_none();
            let look = Look {
                waits: !has_turn,
                ..self.told(delta)
            };
            return Ok(if is_first {
                Look {
                    state,
                    more: true,
                    ..look
                }
            } else {
                look
            });
        }
        self.rests_until = (way.took > LONG).then(|| Instant::now() + way.took * REST);
        let stamps = way.stamps;
        let (mut pass, new_names, new) = way.end();
        pass.exists |= dir.has_no_records();
        [self.seen, self.seen_beside] = stamps;
        self.settled = are_quiet(stamps);
        self.take(&pass, (names, new_names), (delta, new));
        Ok(self.told(delta))
    }

    /// Reports that the document, of this size in bytes, will be read once it's decompressed or
    /// once others were read. The previous version remains meanwhile.
    fn waiting(&mut self, size: u64, delta: &mut Delta) -> Look {
        self.seen = None;
        let look = Look {
            waits: true,
            ..self.told(delta)
        };
        let state = FileState {
            exists: true,
            size,
            read: 0,
        };
        if self.handed_out.is_none() {
            Look {
                state,
                more: true,
                ..look
            }
        } else {
            look
        }
    }

    /// Publishes the result of a pass, unless it is unchanged or worse.
    fn take(
        &mut self,
        pass: &Pass,
        (names, new_names): (&mut Names, Names),
        (delta, new): (&mut Delta, Delta),
    ) {
        match self.handed_out {
            Some((hash, _)) if hash == pass.hash => self.waits = None,
            Some((_, true)) if !pass.is_whole => {
                self.waits = Some((
                    format!("{}; showing the last complete version", pass.fault),
                    pass.broken_at,
                ));
            }
            before => {
                *names = new_names;
                *delta = Delta {
                    restarted: delta.restarted || before.is_some(),
                    ..new
                };
                self.handed_out = Some((pass.hash, pass.is_whole));
                self.waits = None;
                let read = if pass.is_whole { pass.size } else { pass.end };
                self.state = FileState {
                    exists: pass.exists,
                    size: pass.size,
                    read,
                };
                if !pass.is_whole {
                    let (line, offset, reason) = (None, pass.broken_at, pass.fault.clone());
                    delta.issues.push(Issue {
                        kind: IssueKind::Torn,
                        file: TraceFile::Events,
                        line,
                        offset,
                        reason,
                    });
                }
            }
        }
    }

    /// Returns the state of the file, and reports passing issues.
    fn told(&self, delta: &mut Delta) -> Look {
        let issue = |(reason, offset)| {
            let (kind, file, line) = (IssueKind::Torn, TraceFile::Events, None);
            Issue {
                kind,
                file,
                line,
                offset,
                reason,
            }
        };
        delta.passing.extend(self.waits.clone().map(issue));
        Look {
            state: self.state,
            ..Look::default()
        }
    }
}

impl UnderWay {
    /// Starts a pass at the beginning of the document.
    fn new(
        document: Option<Opened>,
        beside: Option<Vec<u8>>,
        beside_stamp: Option<Stamp>,
        (tool, paths): (&'static Tool, Paths),
    ) -> Self {
        let now = document.as_ref().map(|document| document.stamp);
        let is_closed = document.as_ref().is_some_and(|document| document.is_closed);
        let exists = document.is_some();
        let expected = document.as_ref().map_or(0, |document| document.end);
        let (start, input) = document.map_or_else(
            || ((0, 0), Box::new(io::empty()) as Box<dyn io::Read + Send>),
            |document| (document.start, document.input),
        );
        // A file that grows faster than it's read would never be read to its end. Only the texts of
        // archives may be longer than their archive says, which is a separate fault.
        let input = if is_closed {
            input
        } else {
            Box::new(io::Read::take(input, expected.saturating_sub(start.0)))
        };
        Self {
            input,
            stamps: [now, beside_stamp],
            beside,
            exists,
            is_closed,
            expected,
            values: Values::new(paths).from(start.0, start.1),
            hasher: DefaultHasher::new(),
            size: start.0,
            damage: None,
            open: Open::new(&tool.format, tool.shape),
            reader: tool.reader(),
            names: Names::default(),
            delta: Delta::default(),
            index: None,
            took: Duration::ZERO,
            place: None,
        }
    }

    /// Reads at most about `limit` bytes and adds their records to the draft. Returns whether it
    /// reached the end.
    ///
    /// # Errors
    /// Fails if the file can't be read now.
    fn read(&mut self, limit: u64, path: &Path) -> io::Result<bool> {
        let Self {
            input,
            values,
            hasher,
            size,
            damage,
            open,
            reader,
            names,
            delta,
            index,
            ..
        } = self;
        let mut draft = Draft::new(open, names, delta).since_flush();
        let mut piece = vec![
            0;
            usize::try_from(limit)
                .unwrap_or(PIECE_BYTES)
                .clamp(1, PIECE_BYTES)
        ];
        let stop = size.saturating_add(limit);
        let begun = Instant::now();
        while *size < stop && (limit == u64::MAX || begun.elapsed() < TURN) {
            let bytes = match input.read(&mut piece) {
                Ok(0) => return Ok(true),
                Ok(read) => piece.get(..read).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // Everything before the damage is usable. With an unknown compression method, no
                // part is.
                Err(error) if is_lasting(&error) => {
                    *damage = Some(error.to_string());
                    return Ok(true);
                }
                Err(error) => return Err(error),
            };
            hasher.write(bytes);
            *size += bytes.len() as u64;
            values.push(bytes, |found| {
                tell(
                    &mut draft,
                    found,
                    |source, draft| reader.record(source, draft),
                    path,
                )
            });
            if draft.is_full() {
                draft.flush(index.get_or_insert_default());
            }
        }
        Ok(false)
    }

    /// Updates the memory that the pass takes.
    fn weigh(&mut self) {
        let read = self.index.as_ref().map_or(0, |index| index.weight());
        let bytes = usize::try_from(read).unwrap_or(usize::MAX);
        let bytes = bytes.saturating_add(self.open.weight(&self.delta));
        if let Some(place) = &mut self.place {
            place.weigh(bytes);
        }
    }

    /// Finishes the pass and returns its results.
    fn end(self) -> (Pass, Names, Delta) {
        let Self {
            beside,
            exists,
            is_closed,
            expected,
            values,
            mut hasher,
            size,
            damage,
            ..
        } = self;
        let (mut open, mut reader, mut names, mut delta) =
            (self.open, self.reader, self.names, self.delta);
        let index = self.index;
        let mut draft = Draft::new(&mut open, &mut names, &mut delta).since_flush();
        let mut beside_is_whole = true;
        if let Some(bytes) = &beside {
            hasher.write(bytes);
            let read = Record::of(bytes);
            beside_is_whole = read.fate.is_readable();
            if beside_is_whole {
                reader.beside(&read.text);
            }
        }
        let fault = match (&damage, values.is_broken(), size) {
            (Some(damage), ..) => damage.clone(),
            (None, true, _) => "the file isn't a single JSON document".to_owned(),
            (None, false, 0) => "the file is empty".to_owned(),
            (None, false, read) => format!("the document is truncated after {read} bytes"),
        };
        let run = draft.run();
        run.is_cut = exists && size > 0 && !values.is_whole() && !values.is_broken();
        run.is_closed = is_closed;
        run.damage = Some(fault.as_str())
            .filter(|_| is_closed && !values.is_whole())
            .map(Box::from);
        reader.look(&mut draft);
        draft.end();
        if let Some(mut index) = index {
            let names = names.since(index.names().len()).to_vec();
            index.apply(Delta {
                names,
                ..std::mem::take(&mut delta)
            });
            delta.whole = Some(index);
        }
        // An archive records the full size.
        let size = if damage.is_some() { expected } else { size };
        let end = values.end();
        let (fault, broken_at, is_whole) = match (
            beside_is_whole,
            damage.is_none() && (values.is_whole() || !exists),
        ) {
            (false, true) => (
                "the document next to it is incomplete".to_owned(),
                None,
                false,
            ),
            (_, true) => (fault, None, true),
            (_, false) => (fault, Some(end), false),
        };
        (
            Pass {
                exists,
                hash: hasher.finish(),
                is_whole,
                fault,
                end,
                broken_at,
                size,
            },
            names,
            delta,
        )
    }
}

/// Passes a value to the reader, as far as it can be parsed.
pub(super) fn tell(
    draft: &mut Draft<'_>,
    found: WatchedValue<'_>,
    mut record: impl FnMut(Source<'_>, &mut Draft<'_>),
    file: &Path,
) {
    let WatchedValue {
        path,
        key,
        span,
        line,
        bytes,
    } = found;
    let Some(bytes) = bytes else {
        draft.at(RecordPlace {
            span,
            line,
            fate: Fate::Unreadable,
        });
        draft.event(EventDraft {
            failed: true,
            ..EventDraft::default()
        });
        let reason = format!(
            "a value of {} bytes wasn't parsed (the limit is {MAX_LINE_BYTES})",
            span.len
        );
        return draft.issue(IssueKind::TooLong, reason);
    };
    let read = Record::of(bytes);
    // The reader decides what to do with a value that isn't an object, because it knows the
    // structure of the document.
    let fate = if read.fate == Fate::Foreign {
        Fate::Good
    } else {
        read.fate
    };
    draft.at(RecordPlace { span, line, fate });
    for (kind, reason) in read
        .remarks
        .into_iter()
        .filter(|(kind, _)| *kind != IssueKind::Foreign)
    {
        draft.issue(kind, reason);
    }
    if fate.is_readable() {
        record(
            Source {
                text: &read.text,
                path,
                key,
                file,
            },
            draft,
        );
    } else {
        draft.event(EventDraft {
            failed: true,
            ..EventDraft::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::trace::RunReader;

    const WHOLE: &str = r#"{"trajectory": [{"action": "ls", "observation": "a.py"}, {"action": "submit"}],
        "info": {"exit_status": "submitted"}}"#;

    fn run(path: &Path) -> RunDir {
        let tool = crate::format::tool("a.traj", WHOLE.as_bytes()).unwrap();
        RunDir::of_tool(
            path.to_owned(),
            PathBuf::new(),
            OsString::from("a.traj"),
            tool,
        )
    }

    #[test]
    fn reading_a_document_in_pieces_gives_the_same_run() {
        let samples = crate::trace::RootScanner::new("sample_runs/tools".into())
            .scan()
            .runs;
        let documents: Vec<_> = samples
            .into_values()
            .filter(|dir| dir.is_document() && !dir.is_files())
            .collect();
        assert!(documents.len() > 10, "{}", documents.len());
        for dir in documents {
            let at_once = RunReader::settling(dir.clone(), Duration::ZERO).read_whole();
            let (mut reader, mut index, mut looks) =
                (RunReader::new(dir.clone()), Index::default(), 0);
            loop {
                index.apply(reader.refresh(100));
                looks += 1;
                if !index.is_partial() && !reader.is_under_way() {
                    break;
                }
            }
            // A trial whose sandbox failed has no trajectory, so there is nothing to read in
            // pieces.
            let has_records = dir.stat(TraceFile::Events).is_ok() && !dir.has_no_records();
            assert!(looks > 1 || !has_records, "{}", dir.path().display());
            assert!(
                index.steps().iter().eq(at_once.steps().iter()),
                "{}",
                dir.path().display()
            );
            assert!(
                index.events().iter().eq(at_once.events().iter()),
                "{}",
                dir.path().display()
            );
            assert_eq!(
                index.manifest(),
                at_once.manifest(),
                "{}",
                dir.path().display()
            );
            assert_eq!(
                index.passing_issues(),
                at_once.passing_issues(),
                "{}",
                dir.path().display()
            );
        }
    }

    fn look(reader: &mut RunReader, index: &mut Index) -> (usize, usize) {
        index.apply(reader.refresh(u64::MAX));
        (index.steps().len(), index.passing_issues().len())
    }

    #[test]
    fn a_replaced_document_is_reread_and_a_torn_one_waits() {
        let temp = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(temp.path()).unwrap();
        let write = |text: &str| fs::write(root.join("a.traj"), text).unwrap();
        write(&WHOLE[..WHOLE.find(", {").unwrap()]);
        let (mut reader, mut index) = (RunReader::new(run(&root)), Index::default());
        assert_eq!(
            look(&mut reader, &mut index),
            (1, 0),
            "the part of a document that was never complete"
        );
        assert_eq!(index.issues().count(IssueKind::Torn), 1);
        write(WHOLE);
        assert_eq!(
            (look(&mut reader, &mut index), index.issues().total()),
            ((2, 0), 0)
        );
        let more = WHOLE.replace("[{", r#"[{"action": "pwd"}, {"#);
        write(&more[..more.len() / 2]);
        assert_eq!(
            look(&mut reader, &mut index),
            (2, 1),
            "the last complete version stays, with an issue"
        );
        let issue = &index.passing_issues()[0];
        let at = usize::try_from(issue.offset.unwrap()).unwrap();
        assert!(
            at > 0 && at < more.len() / 2,
            "the offset where the readable part ends"
        );
        let step = index.steps().get(1).unwrap().span;
        let said = run(&root)
            .line(|| &index, TraceFile::Steps, step)
            .unwrap_err();
        let expected = format!(
            "the file was rewritten and can't be read from byte {at} onward: the document is truncated after {} bytes; \
             showing the last complete version",
            more.len() / 2
        );
        assert_eq!(said, expected, "a retry wouldn't help");
        assert!(
            reader.stamps().is_none(),
            "a reader that starts now would return something else"
        );
        write(&more);
        assert_eq!(look(&mut reader, &mut index), (3, 0));
        assert_eq!(index, crate::trace::read_index(&run(&root)));
        fs::remove_file(root.join("a.traj")).unwrap();
        assert_eq!(look(&mut reader, &mut index), (0, 0));
    }

    #[test]
    fn identical_bytes_change_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(temp.path()).unwrap();
        let write = || fs::write(root.join("a.traj"), WHOLE).unwrap();
        write();
        let mut reader = RunReader::new(run(&root));
        assert_eq!(reader.refresh(u64::MAX).steps.len(), 2);
        fs::remove_file(root.join("a.traj")).unwrap();
        write();
        let again = reader.refresh(u64::MAX);
        assert!(!again.restarted && again.events.is_empty());
    }

    #[test]
    fn a_document_that_grows_faster_than_it_is_read_has_an_end() {
        let temp = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(temp.path()).unwrap();
        let path = root.join("a.traj");
        fs::write(&path, WHOLE).unwrap();
        let mut reader = RunReader::new(run(&root));
        let mut index = Index::default();
        let mut looks = 0;
        while looks == 0 || index.is_partial() || reader.waits() {
            index.apply(reader.refresh(50));
            let mut file = fs::File::options().append(true).open(&path).unwrap();
            std::io::Write::write_all(&mut file, &[b' '; 200]).unwrap();
            looks += 1;
            assert!(looks <= 10 + WHOLE.len() / 50, "the reader never finishes");
        }
        assert_eq!(index.steps().len(), 2);
    }

    const MUCH: usize = MAX_UNDER_WAY_BYTES;

    #[test]
    fn of_documents_that_take_much_memory_one_continues() {
        let mut turns = Turns::new();
        let (a, b) = (turns.enter(For::Scan), turns.enter(For::Scan));
        let may = |turns: &mut Turns, number| turns.may_continue(number, For::Scan);
        turns.weigh(0, MUCH);
        assert!(may(&mut turns, a) && may(&mut turns, b));
        turns.weigh(0, 1);
        assert!(may(&mut turns, b) && !may(&mut turns, a));
        turns.weigh(1, 100);
        assert!(may(&mut turns, b), "the same one goes on to its end");
        turns.leave(b, For::Scan, 100);
        turns.weigh(0, 1);
        assert!(may(&mut turns, a), "then another one continues");
    }

    #[test]
    fn requests_and_the_scan_thread_take_turns() {
        let mut turns = Turns::new();
        let [a, b] = [(); 2].map(|()| turns.enter(For::Scan));
        let [page, other] = [(); 2].map(|()| turns.enter(For::Request));
        turns.weigh(0, 5 * MUCH);
        assert!(turns.may_continue(a, For::Scan));
        assert!(!turns.may_continue(page, For::Request));
        assert!(!turns.may_continue(other, For::Request));
        turns.leave(a, For::Scan, MUCH);
        assert!(!turns.may_continue(b, For::Scan), "a request waits");
        assert!(turns.may_continue(page, For::Request));
        turns.leave(page, For::Request, MUCH);
        let mut again = turns.enter(For::Request);
        assert!(!turns.may_continue(other, For::Request));
        assert!(!turns.may_continue(again, For::Request));
        assert!(turns.may_continue(b, For::Scan), "requests don't starve it");
        turns.leave(b, For::Scan, MUCH);
        assert!(turns.may_continue(other, For::Request));
        turns.leave(other, For::Request, 0);
        assert!(
            turns.may_continue(again, For::Request),
            "no document of the scan thread is left"
        );
        turns.leave(again, For::Request, 0);
        again = turns.enter(For::Request);
        let gone = turns.enter(For::Scan);
        assert!(turns.may_continue(again, For::Request));
        turns.leave(again, For::Request, 0);
        assert!(!turns.may_continue(other, For::Request));
        turns.leave(gone, For::Scan, 0);
        assert!(
            turns.may_continue(other, For::Request),
            "the run whose turn it was is gone"
        );
    }

    #[test]
    fn a_request_waits_for_the_document_that_the_scan_thread_reads() {
        static SLOT: AtomicUsize = AtomicUsize::new(1);
        let queue: &'static Queue = Box::leak(Box::new(Queue::new()));
        let mut scanned = Place::new(queue, Some(&SLOT));
        scanned.weigh(MUCH + 1);
        assert!(scanned.may_continue());
        let (mut small, mut large) = (Place::new(queue, None), Place::new(queue, None));
        small.weigh(SMALL_BYTES - 1);
        small.wait();
        large.weigh(SMALL_BYTES);
        std::thread::scope(|scope| {
            let page = scope.spawn(|| {
                large.wait();
                assert_eq!(
                    SLOT.load(Ordering::Relaxed),
                    0,
                    "the other document was read"
                );
            });
            while queue.turns().waiting.is_empty() {
                std::thread::yield_now();
            }
            assert!(scanned.may_continue(), "the scan thread doesn't wait");
            drop(scanned);
            page.join().unwrap();
        });
        // After the time is up, it reads in parallel with others.
        let mut scanned = Place::new(queue, Some(&SLOT));
        scanned.weigh(MUCH + 1);
        drop(large);
        assert!(scanned.may_continue());
        let mut late = Place::new(queue, None);
        late.weigh(SMALL_BYTES);
        late.waits_until = Some(Instant::now());
        late.wait();
        drop((scanned, late, small));
        let turns = queue.turns();
        assert_eq!((turns.bytes, turns.first), (0, None));
        assert!(turns.waiting.is_empty());
    }

    #[test]
    fn one_huge_document_is_read_at_a_time() {
        let huge = 40 << 20;
        // Other tests of documents take slots too, but none for so large a document.
        let first = Place::take(huge).unwrap();
        assert!(Place::take(huge).is_none());
        assert!(
            Place::take(100).is_some(),
            "a small document doesn't need a large one's slot"
        );
        drop(first);
        assert!(Place::take(huge).is_some());
    }
}
