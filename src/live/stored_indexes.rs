//! Stores the indexes of large runs, so that opening such a run doesn't have to wait until its files
//! were read again.
//!
//! A file begins with a line of JSON that names the run. The pieces of the index follow, each with its
//! length, so that several threads can read them, and a checksum. A file is valid for the build that
//! wrote it, while the run's files have the same stamps. The files may be deleted at any time. They
//! contain tasks and answers, so only their owner may read them.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::cache_file::{self, Access};
use crate::model::index::Piece;
use crate::model::{Format, Index};
use crate::trace::{RunDir, StampsHash};

/// The directory of the files, in the cache directory.
const FOLDER: &str = "indexes";
const ENDING: &str = ".index";
/// A larger file is neither written nor read. A step takes about 300 bytes, so this is enough for
/// 400,000.
const MAX_FILE_BYTES: u64 = 128 << 20;
/// If all files together are larger than this, the oldest ones are deleted.
const MAX_BYTES: u64 = 512 << 20;
/// A checksum is at the end of each file.
const SUM_BYTES: u64 = 8;
/// How much is read and written at a time.
const BLOCK_BYTES: usize = 64 << 10;
/// A longer first line isn't read.
const MAX_HEAD_BYTES: u64 = 64 << 10;

/// The first line of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Head {
    board: String,
    dir: PathBuf,
    stamps: StampsHash,
    /// The name of the run's format. The index refers to its row in a table.
    format: String,
}

/// The stored indexes.
#[derive(Debug)]
pub(super) struct StoredIndexes {
    dir: PathBuf,
    build: String,
    threads: NonZero<usize>,
    pub(super) max_bytes: u64,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// The index that was stored or loaded last, as long as it's in memory.
    last: Mutex<Option<(Head, Weak<Index>)>>,
}

impl StoredIndexes {
    /// Opens the store in the cache directory `dir`. An index is read on `threads` threads. Returns
    /// `None` if the build of this program can't be determined.
    pub(super) fn open(dir: &Path, threads: NonZero<usize>) -> Option<Self> {
        Some(Self {
            dir: dir.join(FOLDER),
            build: cache_file::build()?,
            threads,
            max_bytes: MAX_BYTES,
            writer: Mutex::default(),
            last: Mutex::default(),
        })
    }

    /// Stores the index of the run in `dir`, on another thread. Does nothing while another index is
    /// being written: that run is read again the next time it's opened.
    pub(super) fn store(self: &Arc<Self>, dir: &RunDir, stamps: StampsHash, index: Arc<Index>) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        let format = index.format();
        // A format that isn't found by its name can't be restored.
        let found = dir.format_named(format.name);
        if !std::ptr::eq(found, format) && *format != Format::UNKNOWN {
            return;
        }
        let head = self.head(dir, stamps, format.name);
        self.remember(&head, &index);
        let (store, place) = (Arc::clone(self), self.place(dir));
        let write = move || {
            if let Err(error) = store.write(&place, &head, &index) {
                tracing::debug!("can't store the index of {}: {error}", head.dir.display());
            }
        };
        *writer = thread::Builder::new()
            .name("board-indexes".to_owned())
            .spawn(write)
            .ok();
    }

    fn remember(&self, head: &Head, index: &Arc<Index>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((head.clone(), Arc::downgrade(index)));
    }

    /// Returns the index of the run in `dir` if it's in memory, because it's being written or somebody
    /// else uses it.
    fn in_memory(&self, dir: &RunDir, stamps: StampsHash) -> Option<Arc<Index>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (head, index) = last.as_ref()?;
        if *head != self.head(dir, stamps, &head.format) {
            return None;
        }
        index.upgrade()
    }

    fn write(&self, place: &Path, head: &Head, index: &Index) -> io::Result<()> {
        if self.read_head(place).as_ref() == Some(head) {
            return Ok(());
        }
        fs::create_dir_all(&self.dir)?;
        let mut first_line = serde_json::to_vec(head)?;
        first_line.push(b'\n');
        // A temporary file is readable by its owner only.
        let mut beside = tempfile::NamedTempFile::new_in(&self.dir)?;
        let content = Summed {
            target: beside.as_file_mut(),
            sum: DefaultHasher::new(),
            bytes: 0,
        };
        let mut content = BufWriter::with_capacity(BLOCK_BYTES, content);
        content.write_all(&first_line)?;
        for piece in index.pieces() {
            let bytes = postcard::to_stdvec(&piece).map_err(io::Error::other)?;
            content.write_all(&(bytes.len() as u64).to_le_bytes())?;
            content.write_all(&bytes)?;
        }
        let Summed { target, sum, .. } = content
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        target.write_all(&sum.finish().to_le_bytes())?;
        beside.persist(place).map_err(|error| error.error)?;
        self.make_room()
    }

    /// Returns the stored index of the run in `dir`, if it's valid.
    pub(super) fn load(&self, dir: &RunDir, stamps: StampsHash) -> Option<Arc<Index>> {
        if let Some(index) = self.in_memory(dir, stamps) {
            return Some(index);
        }
        let place = self.place(dir);
        let file = cache_file::open(&place, Access::Read).ok()?;
        let found = file.metadata().ok()?;
        if found.len() > MAX_FILE_BYTES || others_can_write(&found) {
            return None;
        }
        let content = Summed {
            target: file.take(found.len().saturating_sub(SUM_BYTES)),
            sum: DefaultHasher::new(),
            bytes: 0,
        };
        let mut content = BufReader::with_capacity(BLOCK_BYTES, content);
        let mut first_line = Vec::new();
        let mut line = content.by_ref().take(MAX_HEAD_BYTES);
        line.read_until(b'\n', &mut first_line).ok()?;
        let head: Head = serde_json::from_slice(&first_line).ok()?;
        if head != self.head(dir, stamps, &head.format) {
            return None;
        }
        let Some(mut index) = read(content, self.threads) else {
            let shown = place.display();
            tracing::warn!("the stored index {shown} is damaged; board reads the run again");
            // Otherwise it would count as stored.
            let _ = fs::remove_file(&place);
            return None;
        };
        index.set_format(dir.format_named(&head.format));
        let index = Arc::new(index);
        self.remember(&head, &index);
        Some(index)
    }

    fn read_head(&self, place: &Path) -> Option<Head> {
        let file = cache_file::open(place, Access::Read).ok()?;
        let line = cache_file::lines(file, BLOCK_BYTES, MAX_HEAD_BYTES).next()?;
        serde_json::from_slice(&line).ok()
    }

    fn head(&self, dir: &RunDir, stamps: StampsHash, format: &str) -> Head {
        Head {
            board: self.build.clone(),
            dir: dir.path().to_owned(),
            stamps,
            format: format.to_owned(),
        }
    }

    /// Returns the file for the run in `dir`. If two runs had the same hash, they would only replace
    /// each other, because the head names the run.
    fn place(&self, dir: &RunDir) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        dir.path().hash(&mut hasher);
        self.dir.join(format!("{:016x}{ENDING}", hasher.finish()))
    }

    /// Deletes the oldest files until the rest is within the limit.
    fn make_room(&self) -> io::Result<()> {
        let files = fs::read_dir(&self.dir)?.filter_map(|entry| {
            let entry = entry.ok()?;
            let found = entry.metadata().ok()?;
            let written = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            Some((written, found.len(), entry.path()))
        });
        let mut files: Vec<_> = files.collect();
        files.sort();
        let mut total: u64 = files.iter().map(|(_, size, _)| size).sum();
        for (_, size, path) in files {
            if total <= self.max_bytes {
                break;
            }
            fs::remove_file(path)?;
            total -= size;
        }
        Ok(())
    }
}

/// Returns whether other users may have written to a file. The numbers in an index have to fit each
/// other, which isn't checked.
fn others_can_write(found: &fs::Metadata) -> bool {
    #[cfg(unix)]
    {
        std::os::unix::fs::MetadataExt::mode(found) & 0o022 != 0
    }
    #[cfg(not(unix))]
    {
        let _ = found;
        false
    }
}

#[cfg(test)]
impl StoredIndexes {
    /// Waits until the index that was stored last is written.
    pub(super) fn wait(&self) {
        let writer = self.writer.lock().unwrap().take();
        writer.into_iter().for_each(|thread| thread.join().unwrap());
    }

    pub(super) fn places(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(&self.dir).unwrap();
        files.map(|entry| entry.unwrap().path()).collect()
    }

    pub(super) fn remove_all(&self) {
        fs::remove_dir_all(&self.dir).unwrap();
    }
}

type Content = BufReader<Summed<io::Take<File>>>;

/// Reads the pieces of an index on this many threads, and the checksum of everything before it.
fn read(content: Content, threads: NonZero<usize>) -> Option<Index> {
    let source = Mutex::new((0, content));
    let pieces = Mutex::new(Vec::new());
    let read_some = || -> Option<()> {
        loop {
            let (number, bytes) = {
                let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
                let (next, content) = &mut *source;
                let Some(bytes) = next_piece(content)? else {
                    return Some(());
                };
                *next += 1;
                (*next, bytes)
            };
            let (piece, rest) = postcard::take_from_bytes::<Piece<'static>>(&bytes).ok()?;
            if !rest.is_empty() {
                return None;
            }
            let mut pieces = pieces.lock().unwrap_or_else(PoisonError::into_inner);
            pieces.push((number, piece));
        }
    };
    let is_complete = thread::scope(|scope| {
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, read_some);
        // If no thread can be started, the others read more.
        let more: Vec<_> = (1..threads.get()).flat_map(spawn).collect();
        let is_complete = read_some().is_some();
        more.into_iter()
            .all(|thread| matches!(thread.join(), Ok(Some(()))))
            && is_complete
    });
    let (_, content) = source.into_inner().unwrap_or_else(PoisonError::into_inner);
    let Summed { target, sum, .. } = content.into_inner();
    let mut noted = [0; SUM_BYTES as usize];
    target.into_inner().read_exact(&mut noted).ok()?;
    if !is_complete || sum.finish().to_le_bytes() != noted {
        return None;
    }
    let mut pieces = pieces.into_inner().unwrap_or_else(PoisonError::into_inner);
    pieces.sort_unstable_by_key(|(number, _)| *number);
    Index::from_pieces(pieces.into_iter().map(|(_, piece)| piece))
}

/// Reads the bytes of the next piece. Returns the inner `None` at the end, and the outer one if the
/// piece isn't complete.
fn next_piece(content: &mut Content) -> Option<Option<Vec<u8>>> {
    if content.fill_buf().ok()?.is_empty() {
        return Some(None);
    }
    let mut length = [0; size_of::<u64>()];
    content.read_exact(&mut length).ok()?;
    let length = u64::from_le_bytes(length);
    let mut bytes = Vec::new();
    content.take(length).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 == length).then_some(Some(bytes))
}

/// Hashes what is written or read.
struct Summed<T> {
    target: T,
    sum: DefaultHasher,
    /// How many bytes were written.
    bytes: u64,
}

impl<T: Write> Write for Summed<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.target.write(bytes)?;
        self.sum.write(bytes.get(..written).unwrap_or_default());
        self.bytes += written as u64;
        if self.bytes + SUM_BYTES > MAX_FILE_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.target.flush()
    }
}

impl<T: Read> Read for Summed<T> {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        let read = self.target.read(space)?;
        self.sum.write(space.get(..read).unwrap_or_default());
        Ok(read)
    }
}
