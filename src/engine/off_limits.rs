//! Defines the directories that tools must not write to: those of the run's own trace. Directories
//! are compared by identity rather than by name.

use std::path::Path;
#[cfg(not(unix))]
use std::path::PathBuf;
use std::sync::Arc;

/// Directories that tools must not change, including everything below them. The engine adds the
/// run's directory and its parent, so that an agent can't change its own trace.
///
/// On Unix, a directory is identified by device and inode, so another name or a link for it is also
/// off limits.
#[derive(Debug, Clone, Default)]
pub(crate) struct OffLimits(Arc<[Identity]>);

#[cfg(unix)]
type Identity = (u64, u64);
#[cfg(not(unix))]
type Identity = PathBuf;

impl OffLimits {
    /// Creates a set of directories. Skips directories that don't exist.
    pub(crate) fn new<'a>(dirs: impl IntoIterator<Item = &'a Path>) -> Self {
        #[cfg(unix)]
        let known = |dir: &Path| {
            use std::os::unix::fs::MetadataExt as _;
            std::fs::metadata(dir)
                .ok()
                .map(|found| (found.dev(), found.ino()))
        };
        #[cfg(not(unix))]
        let known = |dir: &Path| dir.canonicalize().ok();
        Self(dirs.into_iter().filter_map(known).collect())
    }

    /// Returns whether the set is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the directory with this device and inode is in the set.
    #[cfg(unix)]
    pub(crate) fn has(&self, device: u64, inode: u64) -> bool {
        self.0.contains(&(device, inode))
    }

    /// Returns whether this canonical path is in the set.
    #[cfg(not(unix))]
    pub(crate) fn has_path(&self, path: &Path) -> bool {
        self.0.iter().any(|known| known == path)
    }
}
