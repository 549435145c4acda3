//! Is a file what it was? What the system says of it without opening it.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::dir::RunDir;
use crate::model::TraceFile;

/// The identity of a file on disk: another one under the same name is another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct FileId(u64, u64);

/// What the system says of a file without opening it. Equal stamps mean equal bytes, once the file was quiet for
/// longer than its file system's clock ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Stamp {
    pub(super) id: FileId,
    pub(super) size: u64,
    pub(super) modified: Option<SystemTime>,
    /// Seconds and nanoseconds of the last change of anything about the file. Nobody can set it back, unlike
    /// `modified`; (0, 0) where the system has none.
    changed: (i64, i64),
}

/// The three files of a run, as they were when it was read. Files that are not there have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamps(pub(super) [Option<Stamp>; 3]);

/// A file changed more recently than this may change again within one tick of its file system's clock.
pub(super) const TICK: Duration = Duration::from_secs(2);

impl Stamp {
    #[cfg(unix)]
    #[allow(
        clippy::unnecessary_cast,
        reason = "their widths differ between systems"
    )]
    pub(super) fn of(stat: &rustix::fs::Stat) -> Self {
        let nanos = Duration::from_nanos(stat.st_mtime_nsec as u64);
        let seconds = Duration::from_secs((stat.st_mtime as i64).unsigned_abs());
        let whole = if stat.st_mtime < 0 {
            UNIX_EPOCH.checked_sub(seconds)
        } else {
            UNIX_EPOCH.checked_add(seconds)
        };
        Self {
            id: FileId(stat.st_dev as u64, stat.st_ino as u64),
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            modified: whole.and_then(|whole| whole.checked_add(nanos)),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }

    #[cfg(not(unix))]
    pub(super) fn of(metadata: &std::fs::Metadata) -> Self {
        Self {
            id: FileId(0, 0),
            size: metadata.len(),
            modified: metadata.modified().ok(),
            changed: (0, 0),
        }
    }

    /// That of bytes which are known by their checksum and lengths, wherever they lie.
    pub(super) fn of_bytes(crc: u32, packed: u64, size: u64) -> Self {
        // Who writes other bytes writes another checksum, so they are as old as can be.
        Self {
            id: FileId(u64::from(crc), packed),
            size,
            modified: Some(UNIX_EPOCH),
            changed: (0, 0),
        }
    }

    /// That of a directory with a file in it: the newest times of both, and their bytes together. A change of any file shows
    /// in it, as long as the system's clock is not put back.
    pub(super) fn and(self, file: Self) -> Self {
        let size = self.size.saturating_add(file.size);
        Self {
            size,
            modified: self.modified.max(file.modified),
            changed: self.changed.max(file.changed),
            ..self
        }
    }

    /// That of something in a file about which `fault` is said.
    pub(super) fn with_fault(self, fault: &str) -> Self {
        self.mixed(fault)
    }

    /// That of something in the file `whole`: any change of that shows in it.
    pub(super) fn within(self, whole: Self) -> Self {
        self.mixed(whole)
    }

    fn mixed(self, with: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        (with, self.changed).hash(&mut hasher);
        // No time of a file has such a number of nanoseconds.
        Self {
            changed: (hasher.finish().cast_signed(), -1),
            ..self
        }
    }

    /// That of a part of the file.
    pub(super) fn with_size(self, size: u64) -> Self {
        Self { size, ..self }
    }

    /// For how long the file has been as it is, by its own word; a time in the future says nothing.
    pub(super) fn age(&self) -> Option<Duration> {
        self.modified?.elapsed().ok()
    }

    /// Whether any change from now on shows in the stamp.
    pub(super) fn is_settled(&self) -> bool {
        self.age().is_some_and(|age| age > TICK)
    }
}

impl Stamps {
    /// What the files look like now; `None` where one of them cannot be asked.
    pub fn of(dir: &RunDir) -> Option<Self> {
        let handle = dir.handle();
        let stamp = |file| match handle.as_ref().map(|handle| dir.look(handle, file)) {
            Ok(Ok(stamp)) => Some(Some(stamp)),
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Some(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(None),
            Ok(Err(_)) | Err(_) => None,
        };
        Some(Self([
            stamp(TraceFile::Manifest)?,
            stamp(TraceFile::Steps)?,
            stamp(TraceFile::Events)?,
        ]))
    }

    /// How long the three files are.
    pub fn sizes(&self) -> [Option<u64>; 3] {
        self.0.map(|stamp| Some(stamp?.size))
    }

    /// Whether any change from now on shows in the stamps.
    pub fn are_settled(&self) -> bool {
        self.0.iter().flatten().all(Stamp::is_settled)
    }
}
