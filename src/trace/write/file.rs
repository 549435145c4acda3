//! How does a file stay readable whatever happens? Whole lines or none, a whole manifest or the one before it, and
//! some room for the end on a full disk.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::BuildHasher as _;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};

use foldhash::quality::RandomState;

use super::super::whole::Beginning;
use super::WriteError;
use crate::model::TraceFile;

const MANIFEST_TEMP: &str = ".manifest.json.tmp";
/// The file that holds some space in reserve while a run is written; one that was killed leaves it behind.
pub const RESERVE_FILE: &str = ".reserve";
/// Enough for an END event and a manifest with some tool descriptions.
const RESERVE_BYTES: usize = 64 << 10;

/// Makes the writer's error of the system's.
fn at(path: &Path) -> impl FnOnce(io::Error) -> WriteError + '_ {
    |source| WriteError::Io {
        path: path.to_owned(),
        source,
    }
}

/// A file of lines, to which whole lines are appended.
#[derive(Debug)]
pub(super) struct LineFile {
    path: PathBuf,
    file: File,
    /// Up to here there are whole lines.
    len: u64,
    /// Whether part of a line may lie behind `len`.
    torn: bool,
    /// A sum over all lines, keyed by chance, so that nobody finds other lines with the same.
    sum: u64,
    keys: RandomState,
}

impl LineFile {
    /// Creates the file; it may not be there yet.
    pub(super) fn create(dir: &Path, file: TraceFile) -> Result<Self, WriteError> {
        let path = dir.join(file.name());
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&path)
            .map_err(at(&path))?;
        Ok(Self::over(path, file))
    }

    /// Goes on with a file: what stands after its beginning is cut off, and an open line gets its end.
    pub(super) fn go_on(dir: &Path, file: TraceFile, from: Beginning) -> Result<Self, WriteError> {
        let path = dir.join(file.name());
        let open = || {
            // Windows cuts no file through a handle that only appends.
            OpenOptions::new()
                .write(true)
                .open(&path)?
                .set_len(from.bytes)?;
            OpenOptions::new().append(true).open(&path)
        };
        let file = open().map_err(at(&path))?;
        Self::over(path, file).after(from)
    }

    /// Begins a file with the beginning of another.
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

    /// Appends `line`, its line end included, in one write; nothing is kept back.
    ///
    /// # Errors
    /// What the system says; the file then ends with the line before.
    pub(super) fn append(&mut self, line: &[u8]) -> Result<(), WriteError> {
        self.mend()
            .and_then(|()| self.file.write_all(line))
            .map_err(|source| {
                // Where the file cannot be cut back now, it is tried again before the next line.
                self.torn = true;
                let _ = self.mend();
                WriteError::Io {
                    path: self.path.clone(),
                    source,
                }
            })?;
        self.len += line.len() as u64;
        self.sum = self.keys.hash_one((self.sum, line));
        Ok(())
    }

    /// In what the file at this path is not the one that was written; `None` where it is.
    pub(super) fn altered(&self) -> Option<String> {
        let name = self.path.file_name().unwrap_or_default().display();
        let there = match fs::symlink_metadata(&self.path) {
            Ok(there) => there,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Some(format!("{name} was removed"));
            }
            Err(error) => return Some(format!("{name} cannot be looked at: {error}")),
        };
        match self.file.metadata() {
            Ok(ours) if Identity::of(&ours) == Identity::of(&there) => {}
            _ => return Some(format!("{name} is not the file that was written")),
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
            Ok(_) => Some(format!("{name} holds other lines than were written")),
            Err(error) => Some(format!("{name} cannot be read again: {error}")),
        }
    }

    /// The sum over the lines that are there.
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
            // Windows cuts no file through a handle that only appends.
            OpenOptions::new()
                .write(true)
                .open(&self.path)?
                .set_len(self.len)?;
            self.torn = false;
        }
        Ok(())
    }
}

/// What a file is, whatever it is called.
#[derive(PartialEq)]
struct Identity(u64, u64);

impl Identity {
    #[cfg(unix)]
    fn of(found: &fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        Self(found.dev(), found.ino())
    }

    /// Elsewhere nothing tells two files apart; a file that is open cannot be removed there.
    #[cfg(not(unix))]
    fn of(_: &fs::Metadata) -> Self {
        Self(0, 0)
    }
}

/// Replaces the manifest by `text` in one step: readers see the old one or this one.
///
/// It is not forced to the disk: a killed process loses nothing, and a power cut may cost the last seconds.
pub(super) fn replace_manifest(dir: &Path, text: &[u8]) -> Result<(), WriteError> {
    let (temp, path) = (
        dir.join(MANIFEST_TEMP),
        dir.join(TraceFile::Manifest.name()),
    );
    // What is put in the place of the file for a moment, a link for instance, is not written through.
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
            // Half a file would keep the space that the next try needs.
            let _ = fs::remove_file(&temp);
            WriteError::Io { path, source }
        })
}

/// Space on the disk that is given back when it is dropped. While it is held its file is locked: whoever wants to go on
/// with a run sees by that whether somebody writes it.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    /// Holds the lock.
    file: File,
}

impl Reserve {
    /// Takes the space in `dir`; of two takers one fails.
    pub(super) fn take(dir: &Path) -> Result<Self, WriteError> {
        let path = dir.join(RESERVE_FILE);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(at(&path))?;
        // A file system without locks has runs that nobody can go on with while they may be alive.
        let _ = file.try_lock();
        Self { path, file }.filled()
    }

    /// Takes the space in the directory of a run that was begun; `None` where somebody holds it.
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
        // Its holder may have removed it between the two.
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
        // A file that cannot be removed is 64 KiB that readers pass over.
        let _ = fs::remove_file(&self.path);
    }
}

/// Bytes that a compressing file system cannot make small: the top bytes of a linear congruential sequence, with the
/// multiplier and increment of Knuth's MMIX.
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
