//! Keeps files readable whatever happens: only whole lines are written, the manifest is replaced
//! atomically, and some space is reserved for the end on a full disk.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::BuildHasher as _;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};

use foldhash::quality::RandomState;

use super::super::whole::Beginning;
use super::error::WriteError;
use crate::model::TraceFile;

const MANIFEST_TEMP: &str = ".manifest.json.tmp";
/// The file that reserves some space while a run is written. A killed run leaves it behind.
pub const RESERVE_FILE: &str = ".reserve";
/// Enough for an END event and a manifest with some tool descriptions.
const RESERVE_BYTES: usize = 64 << 10;

/// Converts an error of the system into a [`WriteError`].
fn at(path: &Path) -> impl FnOnce(io::Error) -> WriteError + '_ {
    |source| WriteError::Io {
        path: path.to_owned(),
        source,
    }
}

/// A file to which whole lines are appended.
#[derive(Debug)]
pub(super) struct LineFile {
    path: PathBuf,
    file: File,
    /// The end of the last whole line.
    len: u64,
    /// Whether there may be a partial line after `len`.
    torn: bool,
    /// A hash of all lines. Its random key prevents anyone from constructing other lines with the
    /// same hash.
    sum: u64,
    keys: RandomState,
}

impl LineFile {
    /// Creates the file, which must not exist.
    pub(super) fn create(dir: &Path, file: TraceFile) -> Result<Self, WriteError> {
        let path = dir.join(file.name());
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&path)
            .map_err(at(&path))?;
        Ok(Self::over(path, file))
    }

    /// Continues a file. Truncates it after its beginning, and terminates an open line.
    pub(super) fn go_on(dir: &Path, file: TraceFile, from: Beginning) -> Result<Self, WriteError> {
        let path = dir.join(file.name());
        let open = || {
            // Windows can't truncate a file through an append-only handle.
            OpenOptions::new()
                .write(true)
                .open(&path)?
                .set_len(from.bytes)?;
            OpenOptions::new().append(true).open(&path)
        };
        let file = open().map_err(at(&path))?;
        Self::over(path, file).after(from)
    }

    /// Creates a file that starts with the beginning of another.
    pub(super) fn copy(
        dir: &Path,
        file: TraceFile,
        of: &Path,
        from: Beginning,
    ) -> Result<Self, WriteError> {
        let source = of.join(file.name());
        let mut lines = Self::create(dir, file)?;
        let copied = File::open(&source)
            .and_then(|source| io::copy(&mut source.take(from.bytes), &mut lines.file));
        copied.map_err(at(&source))?;
        lines.after(from)
    }

    fn after(mut self, from: Beginning) -> Result<Self, WriteError> {
        self.len = from.bytes;
        if from.is_open {
            self.file.write_all(b"\n").map_err(at(&self.path))?;
            self.len += 1;
        }
        self.sum = self.sum_there().map_err(at(&self.path))?;
        Ok(self)
    }

    fn over(path: PathBuf, file: File) -> Self {
        Self {
            path,
            file,
            len: 0,
            torn: false,
            sum: 0,
            keys: RandomState::default(),
        }
    }

    /// Appends whole lines, including their terminators, in one unbuffered write.
    ///
    /// # Errors
    /// Returns the I/O error. The file then ends with the line before these.
    pub(super) fn append(&mut self, lines: &[u8]) -> Result<(), WriteError> {
        self.mend()
            .and_then(|()| self.file.write_all(lines))
            .map_err(|source| {
                // If truncating fails now, it's tried again before the next line.
                self.torn = true;
                let _ = self.mend();
                WriteError::Io {
                    path: self.path.clone(),
                    source,
                }
            })?;
        self.len += lines.len() as u64;
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', lines) {
            let line = lines.get(start..=end).unwrap_or_default();
            self.sum = self.keys.hash_one((self.sum, line));
            start = end + 1;
        }
        Ok(())
    }

    /// Returns how the file at this path differs from the one that was written, if it does.
    pub(super) fn altered(&self) -> Option<String> {
        let name = self.path.file_name().unwrap_or_default().display();
        let there = match fs::symlink_metadata(&self.path) {
            Ok(there) => there,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Some(format!("{name} was removed"));
            }
            Err(error) => return Some(format!("{name} can't be inspected: {error}")),
        };
        match self.file.metadata() {
            Ok(ours) if Identity::of(&ours) == Identity::of(&there) => {}
            _ => return Some(format!("{name} isn't the file that was written")),
        }
        if there.len() != self.len {
            return Some(format!(
                "{name} has {} bytes, and {} were written",
                there.len(),
                self.len
            ));
        }
        match self.sum_there() {
            Ok(sum) if sum == self.sum => None,
            Ok(_) => Some(format!("{name} contains different lines than were written")),
            Err(error) => Some(format!("{name} can't be read again: {error}")),
        }
    }

    /// Returns the hash of the lines in the file.
    fn sum_there(&self) -> io::Result<u64> {
        let mut lines = BufReader::with_capacity(256 << 10, File::open(&self.path)?).take(self.len);
        let (mut sum, mut line) = (0, Vec::new());
        while lines.read_until(b'\n', &mut line)? > 0 {
            sum = self.keys.hash_one((sum, &*line));
            line.clear();
        }
        Ok(sum)
    }

    fn mend(&mut self) -> io::Result<()> {
        if self.torn {
            // Windows can't truncate a file through an append-only handle.
            OpenOptions::new()
                .write(true)
                .open(&self.path)?
                .set_len(self.len)?;
            self.torn = false;
        }
        Ok(())
    }
}

/// The identity of a file, independent of its name.
#[derive(PartialEq)]
struct Identity(u64, u64);

impl Identity {
    #[cfg(unix)]
    fn of(found: &fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        Self(found.dev(), found.ino())
    }

    /// Other systems provide no identity, but an open file can't be removed there.
    #[cfg(not(unix))]
    fn of(_: &fs::Metadata) -> Self {
        Self(0, 0)
    }
}

/// Replaces the manifest with `text` atomically: readers see the old or the new one.
///
/// The file isn't synced to disk. A killed process loses nothing, and a power failure may cost the
/// last seconds.
pub(super) fn replace_manifest(dir: &Path, text: &[u8]) -> Result<(), WriteError> {
    let (temp, path) = (
        dir.join(MANIFEST_TEMP),
        dir.join(TraceFile::Manifest.name()),
    );
    // Creates a new file, so that nothing is written through a symlink that someone put there.
    let fresh = || {
        match fs::remove_file(&temp) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&temp)?
            .write_all(text)
    };
    fresh()
        .and_then(|()| fs::rename(&temp, &path))
        .map_err(|source| {
            // A partial file would take the space that the next try needs.
            let _ = fs::remove_file(&temp);
            WriteError::Io { path, source }
        })
}

/// Disk space that is released when this is dropped. Meanwhile its file is locked, which shows
/// others that the run is being written.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    /// Holds the lock.
    file: File,
}

impl Reserve {
    /// Reserves the space in `dir`. If two writers try, one fails.
    pub(super) fn take(dir: &Path) -> Result<Self, WriteError> {
        let path = dir.join(RESERVE_FILE);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(at(&path))?;
        // On a file system without locks, a run can't be continued while its writer may be alive.
        let _ = file.try_lock();
        Self { path, file }.filled()
    }

    /// Reserves the space in the directory of an existing run. Returns `None` if someone else holds
    /// it.
    pub(super) fn take_over(
        dir: &Path,
        is_alive: impl FnOnce() -> bool,
    ) -> Result<Option<Self>, WriteError> {
        let path = dir.join(RESERVE_FILE);
        let open = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let file = open.map_err(at(&path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(_)) if is_alive() => return Ok(None),
            Err(TryLockError::Error(_)) => {}
        }
        // The previous holder may have removed the file between opening and locking.
        let ours = file.metadata().and_then(|ours| {
            Ok(Identity::of(&ours) == Identity::of(&fs::symlink_metadata(&path)?))
        });
        if !ours.unwrap_or(false) {
            return Ok(None);
        }
        file.set_len(0).map_err(at(&path))?;
        Self { path, file }.filled().map(Some)
    }

    fn filled(mut self) -> Result<Self, WriteError> {
        self.file
            .write_all(&noise(RESERVE_BYTES))
            .map_err(at(&self.path))?;
        Ok(self)
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        // If the file can't be removed, readers ignore its 64 KiB.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns bytes that a compressing file system can't shrink: the top bytes of a linear
/// congruential sequence with the multiplier and increment of Knuth's MMIX.
fn noise(len: usize) -> Vec<u8> {
    let next = |seed: &u64| {
        Some(
            seed.wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407),
        )
    };
    std::iter::successors(Some(1), next)
        .map(|seed: u64| (seed >> 56) as u8)
        .take(len)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append_only(path: &Path) -> LineFile {
        let file = OpenOptions::new().append(true).open(path).unwrap();
        LineFile::over(path.to_owned(), file)
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_that_takes_nothing_is_named() {
        let mut full = append_only(Path::new("/dev/full"));
        for _ in 0..2 {
            let WriteError::Io { path, source } = full.append(b"line\n").unwrap_err() else {
                panic!("no other error")
            };
            assert!(path.ends_with("full") && source.kind() != io::ErrorKind::NotFound);
        }
        assert_eq!(full.len, 0);
    }

    #[test]
    fn half_a_line_is_cut_off_before_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut lines = LineFile::create(dir.path(), TraceFile::Steps).unwrap();
        lines.append(b"one\n").unwrap();
        lines.file.write_all(b"tw").unwrap();
        lines.torn = true;
        lines.append(b"three\n").unwrap();
        assert_eq!(
            (fs::read(&lines.path).unwrap(), lines.len),
            (b"one\nthree\n".to_vec(), 10)
        );
    }

    #[test]
    fn noise_has_every_byte() {
        let bytes: std::collections::BTreeSet<u8> = noise(RESERVE_BYTES).into_iter().collect();
        assert_eq!(bytes.len(), 256);
    }
}
