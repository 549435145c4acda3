//! Decompresses files and members of archives, once for all readers.
//!
//! The caller decompresses the first slice. A background thread decompresses the rest, in slices
//! and in turns, so that neither a large file nor a decompression bomb blocks other readers. A
//! reader that must not wait comes back later. Small texts are kept in memory, and large ones in
//! unnamed files, which the system deletes with the program.
//!
//! The size of a text, its ratio to the compressed size, and the size of all texts on disk are
//! limited.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::archive::{self, Entry};
use super::patience::{self, Patience, pending};
use super::read_at::{ReadAt, ReadFrom};
use super::stamp::{FileId, Stamp};
use crate::model::Span;

/// The bytes decompressed at a time.
pub(super) const SLICE_BYTES: u64 = 4 << 20;
/// Longer texts are stored on disk.
const MAX_HELD_BYTES: usize = 8 << 20;
/// Maximum number of bytes of finished texts kept for later readers, in memory and on disk.
const MAX_KEPT_BYTES: [u64; 2] = [16 << 20, 1 << 30];
/// Maximum number of finished texts kept in memory, and on disk. A database may have many thousand small ones.
const MAX_KEPT: usize = 256;
/// Maximum number of bytes of all texts on disk, including those being read or decompressed.
const MAX_DISK_BYTES: u64 = 2 << 30;
/// If this many texts are being decompressed or wait for their first reader, a reader that doesn't
/// wait can't start another.
const MAX_UNDER_WAY: usize = 3;
/// A text no longer counts as waiting for its first reader after this long.
const READER_COMES_WITHIN: Duration = Duration::from_secs(10);
/// If a text took longer than `LONG`, readers that don't wait start decompressing it again after
/// `REST` times that duration at the earliest. Otherwise a file that changes twice a second would
/// keep the thread busy forever.
const LONG: Duration = Duration::from_millis(100);
const REST: u32 = 4;
/// How long to wait before a retry, if a text couldn't be decompressed for lack of space or
/// permissions.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(2);
/// The error message for a reader that doesn't wait.
const UNPACKED: &str = "it is still being decompressed";
/// The bytes read at a time.
const PIECE_BYTES: usize = 256 << 10;
/// No further read of a slice begins after this long. Rows of a database may take any time.
const SLICE_TIME: Duration = Duration::from_millis(250);
/// Maximum number of reads per slice. In a file of tiny frames, each read returns almost nothing and takes
/// as long as a large one.
const MAX_READS: usize = 512;

/// A decompressed text.
#[derive(Debug)]
pub(super) struct Unpacked {
    bytes: Bytes,
    len: u64,
    /// Why it's incomplete, if it is: the rest is damaged, or exceeds a limit.
    fault: Option<String>,
    /// The stamp of the file that it was decompressed from.
    packed: Stamp,
}

#[derive(Debug)]
enum Bytes {
    Held(Vec<u8>),
    OnDisk { file: File, _counted: OnDisk },
}

/// Counts the bytes of a text on disk while it exists.
#[derive(Debug, Default)]
struct OnDisk(u64);

static DISK_BYTES: AtomicU64 = AtomicU64::new(0);

impl OnDisk {
    fn add(&mut self, bytes: u64) -> u64 {
        self.0 += bytes;
        DISK_BYTES.fetch_add(bytes, Ordering::Relaxed) + bytes
    }
}

impl Drop for OnDisk {
    fn drop(&mut self) {
        DISK_BYTES.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Identifies a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    /// A member of an archive.
    Member(FileId, Entry),
    /// A file that is compressed as a whole.
    File(Stamp),
    /// A run of a database: a hash of its location, and the stamp of its rows.
    Rows(u64, Stamp),
}

impl Key {
    /// Returns a key that stays the same when the file changes.
    fn place(self) -> (FileId, u64) {
        match self {
            Key::Member(id, entry) => (id, entry.header),
            Key::File(stamp) => (stamp.id, 0),
            Key::Rows(place, stamp) => (Stamp::of_rows(place, 0).id, stamp.size),
        }
    }
}

impl Unpacked {
    /// Returns the text of the member `entry` of the archive `file`, whose stamp is `archive`.
    ///
    /// # Errors
    /// Fails if the text exceeds a limit or is encrypted, or there is no space for it. Returns a
    /// would-block error while it's being decompressed, unless the caller waits.
    pub(super) fn of(
        file: File,
        archive: Stamp,
        entry: Entry,
        patience: Patience,
    ) -> io::Result<Arc<Self>> {
        let open = || Ok(Box::new(archive::unpack(file, entry)?) as Box<dyn Read + Send>);
        get(Key::Member(archive.id, entry), archive, patience, open)
    }

    /// Returns the text of a compressed file with this stamp, which `input` reads.
    ///
    /// # Errors
    /// Fails like [`Self::of`].
    pub(super) fn of_file(
        stamp: Stamp,
        patience: Patience,
        input: impl FnOnce() -> Box<dyn Read + Send>,
    ) -> io::Result<Arc<Self>> {
        get(Key::File(stamp), stamp, patience, || Ok(input()))
    }

    /// Returns the document of a run whose rows in a database have this stamp, and whose place has
    /// this hash. `input` reads it.
    ///
    /// # Errors
    /// Fails like [`Self::of`].
    pub(super) fn of_rows(
        place: u64,
        stamp: Stamp,
        patience: Patience,
        input: impl FnOnce() -> io::Result<Box<dyn Read + Send>>,
    ) -> io::Result<Arc<Self>> {
        get(Key::Rows(place, stamp), stamp, patience, input)
    }

    /// Returns the length of the text in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns why the text is incomplete, if it is.
    pub(super) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Returns a reader for a part of the text.
    pub(super) fn part(self: Arc<Self>, span: Span) -> Box<dyn Read + Send> {
        Box::new(ReadFrom::new(self, span.offset).take(span.len))
    }
}

impl ReadAt for Unpacked {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match &self.bytes {
            Bytes::Held(bytes) => {
                let rest = usize::try_from(offset)
                    .ok()
                    .and_then(|at| bytes.get(at..))
                    .unwrap_or_default();
                (&*rest).read(buffer)
            }
            Bytes::OnDisk { file, .. } => file.read_at(buffer, offset),
        }
    }
}

/// Returns a reader for the member `entry` of the archive `file`. It uses the kept text if there is
/// one, and otherwise decompresses while reading.
///
/// # Errors
/// Returns a would-block error while the text is being decompressed, unless the caller waits. The
/// first read returns any other error.
pub(super) fn whole(
    file: File,
    archive: Stamp,
    entry: Entry,
    patience: Patience,
) -> io::Result<Box<dyn Read + Send>> {
    let key = Key::Member(archive.id, entry);
    // Damage in a member is found by decompressing it.
    let is_sound = |text: &Arc<Unpacked>| text.fault.is_none() && text.packed == archive;
    if let Some(text) = pool().find(key, archive).filter(is_sound) {
        let span = Span {
            offset: 0,
            len: text.len,
        };
        return Ok(text.part(span));
    }
    // A caller that doesn't wait must not decompress much by itself. Without space for the text,
    // it's decompressed piece by piece while it's read.
    if patience == Patience::Now && entry.size > SLICE_BYTES {
        match Unpacked::of(file.try_clone()?, archive, entry, patience) {
            Err(error) if patience::is_pending(&error) => return Err(error),
            Ok(text) if is_sound(&text) => {
                let span = Span {
                    offset: 0,
                    len: text.len,
                };
                return Ok(text.part(span));
            }
            Ok(_) | Err(_) => {}
        }
    }
    Ok(match archive::unpack(file, entry) {
        Ok(input) => Box::new(input),
        Err(error) => Box::new(Refused(Some(error))),
    })
}

/// A reader that only returns an error.
struct Refused(Option<io::Error>);

impl Read for Refused {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// A text that is being decompressed.
struct Job {
    key: Key,
    packed: Stamp,
    input: Box<dyn Read + Send>,
    out: Out,
    len: u64,
    fault: Option<String>,
    took: Duration,
    _begun: Begun,
}

enum Out {
    Held(Vec<u8>),
    OnDisk(File, OnDisk),
}

/// Marks a text as being decompressed until it's dropped.
struct Begun(Key);

impl Drop for Begun {
    fn drop(&mut self) {
        pool().begun.remove(&self.0);
        CHANGED.notify_all();
    }
}

impl Job {
    /// Decompresses a slice. Returns `None` if more follow.
    fn step(&mut self) -> Option<io::Result<()>> {
        let start = Instant::now();
        let outcome = self.unpack();
        self.took += start.elapsed();
        outcome
    }

    fn unpack(&mut self) -> Option<io::Result<()>> {
        let mut piece = vec![0; PIECE_BYTES];
        let (stop, start) = (self.len + SLICE_BYTES, Instant::now());
        for _ in 0..MAX_READS {
            if self.len >= stop || start.elapsed() > SLICE_TIME {
                break;
            }
            let read = match self.input.read(&mut piece) {
                Ok(0) => return Some(Ok(())),
                Ok(read) => piece.get(..read).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // Everything before the error is usable.
                Err(error) if patience::is_lasting(&error) => {
                    self.fault = Some(error.to_string());
                    return Some(Ok(()));
                }
                Err(error) => return Some(Err(error)),
            };
            if let Err(error) = self.out.write(read, self.len) {
                let dir = std::env::temp_dir();
                let what = format!(
                    "there is no space to decompress it in {}: {error}",
                    dir.display()
                );
                return Some(Err(io::Error::other(what)));
            }
            self.len += read.len() as u64;
        }
        None
    }

    /// Stores the text or the error.
    fn finish(self, outcome: io::Result<()>) {
        let Self {
            key,
            packed,
            out,
            len,
            fault,
            took,
            _begun: begun,
            input,
        } = self;
        drop(input);
        let bytes = match out {
            Out::Held(bytes) => Bytes::Held(bytes),
            Out::OnDisk(file, on_disk) => Bytes::OnDisk {
                file,
                _counted: on_disk,
            },
        };
        let text = Arc::new(Unpacked {
            bytes,
            len,
            fault,
            packed,
        });
        // Evicted texts are dropped after the lock is released.
        let mut old = Vec::new();
        {
            let mut pool = pool();
            let now = Instant::now();
            if took > LONG {
                pool.rests.retain(|_, until| *until > now);
                pool.rests.insert(key.place(), now + took * REST);
            }
            pool.failed
                .retain(|(failed, at, _)| *failed != key && at.elapsed() < TRY_AGAIN_AFTER);
            match outcome {
                Ok(()) => pool.keep(key, text, &mut old),
                Err(error) => pool
                    .failed
                    .push((key, now, (error.kind(), error.to_string()))),
            }
        }
        // Wakes the waiting readers, after the outcome is stored.
        drop(begun);
    }
}

impl Out {
    /// Appends a piece after the first `len` bytes.
    fn write(&mut self, piece: &[u8], len: u64) -> io::Result<()> {
        if let Out::Held(bytes) = self {
            if bytes.len() + piece.len() <= MAX_HELD_BYTES {
                bytes.extend_from_slice(piece);
                return Ok(());
            }
            let (mut file, mut on_disk) = (tempfile::tempfile()?, OnDisk::default());
            room(&mut on_disk, 0, bytes.len() as u64)?;
            file.write_all(bytes)?;
            *self = Out::OnDisk(file, on_disk);
        }
        if let Out::OnDisk(file, on_disk) = self {
            room(on_disk, len, piece.len() as u64)?;
            file.write_all(piece)?;
        }
        Ok(())
    }
}

/// Reserves space on disk for `more` bytes of a text that has `len`.
fn room(on_disk: &mut OnDisk, len: u64, more: u64) -> io::Result<()> {
    // Writing beyond this limit would kill the program.
    #[cfg(unix)]
    if let Some(most) = rustix::process::getrlimit(rustix::process::Resource::Fsize).current
        && len.saturating_add(more) > most
    {
        return Err(io::Error::new(
            io::ErrorKind::StorageFull,
            format!("the file size limit is {most} bytes"),
        ));
    }
    let _ = len;
    if on_disk.add(more) > MAX_DISK_BYTES {
        let mut old = Vec::new();
        pool().let_go(0, true, &mut old);
        drop(old);
        if DISK_BYTES.load(Ordering::Relaxed) > MAX_DISK_BYTES {
            let what = format!("decompressed files already take {MAX_DISK_BYTES} bytes");
            return Err(io::Error::new(io::ErrorKind::StorageFull, what));
        }
    }
    Ok(())
}

/// The texts that are being decompressed and those that are kept. There is one pool per program.
#[derive(Default)]
struct Pool {
    /// Unfinished texts, in the order of their turns.
    queue: VecDeque<Job>,
    begun: HashSet<Key>,
    /// The newest are last.
    kept: VecDeque<Kept>,
    /// When texts that took long may be decompressed again.
    rests: HashMap<(FileId, u64), Instant>,
    /// Recent failures and their reasons.
    failed: Vec<(Key, Instant, (io::ErrorKind, String))>,
    /// Whether the thread is running.
    works: bool,
}

struct Kept {
    key: Key,
    text: Arc<Unpacked>,
    since: Instant,
    /// Whether any reader used it.
    taken: bool,
}

static POOL: LazyLock<Mutex<Pool>> = LazyLock::new(Mutex::default);
static CHANGED: Condvar = Condvar::new();

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// Returns a kept text and makes it the newest. A damaged text is only valid while the file's
    /// stamp is the same.
    fn find(&mut self, key: Key, packed: Stamp) -> Option<Arc<Unpacked>> {
        let holds = |text: &Unpacked| text.fault.is_none() || text.packed == packed;
        let at = self
            .kept
            .iter()
            .rposition(|kept| kept.key == key && holds(&kept.text))?;
        let mut found = self.kept.remove(at)?;
        found.taken = true;
        let text = Arc::clone(&found.text);
        self.kept.push_back(found);
        Some(text)
    }

    fn keep(&mut self, key: Key, text: Arc<Unpacked>, old: &mut Vec<Arc<Unpacked>>) {
        self.kept.push_back(Kept {
            key,
            text,
            since: Instant::now(),
            taken: false,
        });
        for (on_disk, most) in [(false, MAX_KEPT_BYTES[0]), (true, MAX_KEPT_BYTES[1])] {
            self.let_go(most, on_disk, old);
        }
    }

    /// Evicts the oldest texts in memory, or on disk, until they have at most `most` bytes. Always
    /// keeps the newest, because its reader is about to use it.
    fn let_go(&mut self, most: u64, on_disk: bool, old: &mut Vec<Arc<Unpacked>>) {
        let alike = |kept: &Kept| matches!(kept.text.bytes, Bytes::OnDisk { .. }) == on_disk;
        let (mut bytes, mut count) = self
            .kept
            .iter()
            .filter(|kept| alike(kept))
            .fold((0, 0), |(bytes, count), kept| {
                (bytes + kept.text.len, count + 1)
            });
        while (bytes > most || count > MAX_KEPT)
            && count > 1
            && let Some(oldest) = self.kept.iter().position(alike)
            && let Some(dropped) = self.kept.remove(oldest)
        {
            bytes -= dropped.text.len;
            count -= 1;
            old.push(dropped.text);
        }
    }

    /// Returns the error if decompressing the text failed recently.
    fn failure(&self, key: Key) -> Option<io::Error> {
        let lately =
            |(failed, at, _): &&(Key, Instant, _)| *failed == key && at.elapsed() < TRY_AGAIN_AFTER;
        self.failed
            .iter()
            .find(lately)
            .map(|(_, _, (kind, what))| io::Error::new(*kind, what.clone()))
    }

    /// Returns whether too many texts are in progress to start another.
    fn is_busy(&self) -> bool {
        let comes = |kept: &&Kept| !kept.taken && kept.since.elapsed() < READER_COMES_WITHIN;
        self.begun.len() + self.kept.iter().filter(comes).count() >= MAX_UNDER_WAY
    }
}

fn get(
    key: Key,
    packed: Stamp,
    patience: Patience,
    open: impl FnOnce() -> io::Result<Box<dyn Read + Send>>,
) -> io::Result<Arc<Unpacked>> {
    if let Some(text) = await_outcome(key, packed, patience)? {
        return Ok(text);
    }
    // `await_outcome` marked it as begun.
    let begun = Begun(key);
    let (out, fault) = (Out::Held(Vec::new()), None);
    let mut job = Job {
        key,
        packed,
        input: open()?,
        out,
        len: 0,
        fault,
        took: Duration::ZERO,
        _begun: begun,
    };
    match job.step() {
        Some(outcome) => job.finish(outcome),
        None => hand_over(job)?,
    }
    match await_outcome(key, packed, patience)? {
        Some(text) => Ok(text),
        // The text was evicted before it could be read.
        None => {
            drop(Begun(key));
            Err(pending(UNPACKED))
        }
    }
}

/// Returns the text, or the error of decompressing it. If no other caller is decompressing it,
/// marks it as begun and returns `None`.
fn await_outcome(key: Key, packed: Stamp, patience: Patience) -> io::Result<Option<Arc<Unpacked>>> {
    let mut pool = pool();
    loop {
        if let Some(text) = pool.find(key, packed) {
            return Ok(Some(text));
        }
        if let Some(error) = pool.failure(key) {
            return Err(error);
        }
        if !pool.begun.contains(&key) {
            let rests = pool
                .rests
                .get(&key.place())
                .is_some_and(|until| *until > Instant::now());
            if patience == Patience::Now && (rests || pool.is_busy()) {
                return Err(pending(UNPACKED));
            }
            pool.begun.insert(key);
            return Ok(None);
        }
        if patience == Patience::Now {
            return Err(pending(UNPACKED));
        }
        pool = CHANGED.wait(pool).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Queues the rest for the thread, and starts the thread if needed.
fn hand_over(job: Job) -> io::Result<()> {
    let mut pool = pool();
    pool.queue.push_back(job);
    if pool.works {
        return Ok(());
    }
    match std::thread::Builder::new()
        .name("board-unpack".to_owned())
        .spawn(work)
    {
        Ok(_) => {
            pool.works = true;
            Ok(())
        }
        Err(error) => {
            let job = pool.queue.pop_back();
            drop(pool);
            drop(job);
            Err(error)
        }
    }
}

/// Decompresses a slice of each text in turn, until none is left.
fn work() {
    loop {
        let mut pool_now = pool();
        let Some(mut job) = pool_now.queue.pop_front() else {
            pool_now.works = false;
            return;
        };
        drop(pool_now);
        match catch_unwind(AssertUnwindSafe(|| job.step())) {
            Ok(None) => pool().queue.push_back(job),
            Ok(Some(outcome)) => job.finish(outcome),
            Err(_) => job.finish(Err(io::Error::other(
                "decompressing it failed because of a bug in board",
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::{Bounded, MAX_TEXT_BYTES, RATIO_FREE_BYTES, check_size};
    use super::*;

    /// Returns a text of `left` bytes.
    fn text(left: u64) -> Box<dyn Read + Send> {
        Box::new(io::repeat(b'x').take(left))
    }

    fn stamp(number: u32) -> Stamp {
        Stamp::of_bytes(number, 0, 0)
    }

    #[test]
    fn a_text_is_unpacked_once_for_all_its_readers() {
        let opened = AtomicU64::new(0);
        let input = || {
            opened.fetch_add(1, Ordering::Relaxed);
            text(10 << 20)
        };
        std::thread::scope(|scope| {
            let read = || {
                Unpacked::of_file(stamp(1), Patience::Wait, input)
                    .unwrap()
                    .len()
            };
            let readers: Vec<_> = (0..4).map(|_| scope.spawn(read)).collect();
            readers
                .into_iter()
                .for_each(|reader| assert_eq!(reader.join().unwrap(), 10 << 20));
        });
        assert_eq!(opened.into_inner(), 1);
        let mut last = [0; 8];
        let whole = Unpacked::of_file(stamp(1), Patience::Now, || unreachable!()).unwrap();
        assert_eq!(
            (
                whole.read_at(&mut last, (10 << 20) - 3).unwrap(),
                &last[..3]
            ),
            (3, &b"xxx"[..])
        );
    }

    #[test]
    fn a_reader_that_does_not_wait_gets_one_slice_now_and_the_rest_later() {
        let small = Unpacked::of_file(stamp(2), Patience::Wait, || text(SLICE_BYTES - 1)).unwrap();
        assert_eq!(small.len(), SLICE_BYTES - 1);
        let input = || text(40 << 20);
        // Other tests may keep the thread busy, so that the reading doesn't start.
        let first = Unpacked::of_file(stamp(3), Patience::Now, input);
        assert!(first.is_err_and(|error| patience::is_pending(&error)));
        assert_eq!(
            Unpacked::of_file(stamp(3), Patience::Wait, input)
                .unwrap()
                .len(),
            40 << 20
        );
    }

    #[test]
    fn decompression_bombs_are_cut_off_and_small_files_are_not() {
        let read = |packed, size| {
            let mut bytes = Bounded::new(io::repeat(0).take(size), packed);
            io::copy(&mut bytes, &mut io::sink())
        };
        assert_eq!(read(10, RATIO_FREE_BYTES).unwrap(), RATIO_FREE_BYTES);
        let error = read(35_000, 100 << 20).unwrap_err();
        let said =
            "its 35000 bytes expand to more than 200 times that size, as in a decompression bomb";
        assert_eq!(
            (error.kind(), error.to_string()),
            (io::ErrorKind::FileTooLarge, said.to_owned())
        );
        assert_eq!(read(1 << 20, 199 << 20).unwrap(), 199 << 20);
        assert!(check_size(u64::MAX, MAX_TEXT_BYTES + 1, MAX_TEXT_BYTES).is_err());
        let cut = Unpacked::of_file(stamp(4), Patience::Wait, || {
            Box::new(Bounded::new(text(100 << 20), 9))
        })
        .unwrap();
        assert!(
            cut.len() <= RATIO_FREE_BYTES && cut.fault().unwrap().contains("200 times"),
            "{cut:?}"
        );
    }

    /// Fails on every read.
    struct Fails;

    impl Read for Fails {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }

    #[test]
    fn temporary_failures_are_errors_and_are_retried() {
        for _ in 0..2 {
            let error =
                Unpacked::of_file(stamp(5), Patience::Wait, || Box::new(Fails)).unwrap_err();
            assert!(
                error.to_string().contains("the disk is gone") && !patience::is_lasting(&error)
            );
        }
        pool().failed.clear();
        assert_eq!(
            Unpacked::of_file(stamp(5), Patience::Wait, || text(5))
                .unwrap()
                .len(),
            5
        );
    }
}
