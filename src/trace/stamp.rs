//! Detects whether a file changed, from its metadata and without opening it.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cap_std::fs::Metadata;
use serde::{Deserialize, Serialize};

/// The identity of a file on disk. A different file under the same name has a different identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct FileId(u64, u64);

/// A file's metadata. Equal stamps mean equal bytes, once the file was quiet for longer than its
/// file system's clock ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Stamp {
    pub(super) id: FileId,
    pub(super) size: u64,
    pub(super) modified: Option<SystemTime>,
    /// Seconds and nanoseconds of the last change of anything about the file. Unlike `modified`,
    /// this can't be set back. (0, 0) if the system doesn't provide it.
    changed: (i64, i64),
}

/// The stamps of the three files of a run when it was read. Missing files have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamps(pub(super) [Option<Stamp>; 3]);

/// A hash of [`Stamps`], which takes a fraction of the memory. A server keeps one for each run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StampsHash {
    stamps: u64,
    sizes: u64,
    bytes: u64,
}

impl From<Stamps> for StampsHash {
    fn from(stamps: Stamps) -> Self {
        fn hash(value: impl Hash) -> u64 {
            let mut hasher = DefaultHasher::new();
            value.hash(&mut hasher);
            hasher.finish()
        }
        let sizes = stamps.sizes();
        let bytes = sizes
            .iter()
            .flatten()
            .fold(0, |sum: u64, size| sum.saturating_add(*size));
        Self {
            stamps: hash(stamps.0),
            sizes: hash(sizes),
            bytes,
        }
    }
}

impl StampsHash {
    /// Returns whether the files have the sizes that they had then.
    pub fn has_sizes_of(self, other: Self) -> bool {
        self.sizes == other.sizes
    }

    /// Returns a number that differs between versions of the files.
    pub fn version(self) -> u64 {
        self.stamps
    }

    /// Returns the size of all files in bytes.
    pub fn bytes(self) -> u64 {
        self.bytes
    }
}

/// A file that changed more recently than this may change again within one tick of its file
/// system's clock.
pub(super) const TICK: Duration = Duration::from_secs(2);

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let (id, changed) = {
            use cap_std::fs::MetadataExt as _;
            let id = FileId(metadata.dev(), metadata.ino());
            (id, (metadata.ctime(), metadata.ctime_nsec()))
        };
        #[cfg(not(unix))]
        let (id, changed) = (FileId(0, 0), (0, 0));
        Self {
            id,
            size: metadata.len(),
            modified: metadata
                .modified()
                .ok()
                .map(cap_std::time::SystemTime::into_std),
            changed,
        }
    }

    /// Creates a stamp for bytes that are identified by their checksum and lengths, wherever they
    /// are.
    pub(super) fn of_bytes(crc: u32, packed: u64, size: u64) -> Self {
        // Different bytes have a different checksum, so the stamp counts as very old and therefore
        // settled.
        Self {
            id: FileId(u64::from(crc), packed),
            size,
            modified: Some(UNIX_EPOCH),
            changed: (0, 0),
        }
    }

    /// Creates a stamp for rows of a database that are identified by hashes: one of their place, and
    /// one that changes with any of them.
    pub(super) fn of_rows(place: u64, version: u64) -> Self {
        Self {
            id: FileId(place, version),
            size: 0,
            modified: Some(UNIX_EPOCH),
            changed: (0, -2),
        }
    }

    /// Combines the stamps of a directory and a file in it: the newest times of both, and the sum
    /// of their sizes. A change of any file shows in the result, unless the system's clock is set
    /// back.
    pub(super) fn and(self, file: Self) -> Self {
        let size = self.size.saturating_add(file.size);
        Self {
            size,
            modified: self.modified.max(file.modified),
            changed: self.changed.max(file.changed),
            ..self
        }
    }

    /// Returns a stamp for something in a file that has the issue `fault`.
    pub(super) fn with_fault(self, fault: &str) -> Self {
        self.mixed(fault)
    }

    /// Returns a stamp for something in the file `whole` that changes with any change of that file.
    pub(super) fn within(self, whole: Self) -> Self {
        self.mixed(whole)
    }

    fn mixed(self, with: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        (with, self.changed).hash(&mut hasher);
        // -1 is an impossible number of nanoseconds, so this equals no real file time.
        Self {
            changed: (hasher.finish().cast_signed(), -1),
            ..self
        }
    }

    /// Returns the stamp without the time of the last change of anything about the file.
    pub(super) fn without_change(self) -> Self {
        Self {
            changed: (0, 0),
            ..self
        }
    }

    /// Returns a stamp for a part of the file.
    pub(super) fn with_size(self, size: u64) -> Self {
        Self { size, ..self }
    }

    /// Returns the time since the last modification. Returns `None` if that's in the future.
    pub(super) fn age(&self) -> Option<Duration> {
        self.modified?.elapsed().ok()
    }

    /// Returns whether any future change shows in the stamp.
    pub(super) fn is_settled(&self) -> bool {
        self.age().is_some_and(|age| age > TICK)
    }
}

impl Stamps {
    /// Returns the sizes of the three files in bytes.
    pub fn sizes(&self) -> [Option<u64>; 3] {
        self.0.map(|stamp| Some(stamp?.size))
    }

    /// Returns whether every future change will show in the stamps.
    pub fn are_settled(&self) -> bool {
        self.0.iter().flatten().all(Stamp::is_settled)
    }
}
