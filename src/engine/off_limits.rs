//! Where does no tool write? In the directories of the run's own trace, known by what they are and not by their names.

use std::path::Path;
#[cfg(not(unix))]
use std::path::PathBuf;
use std::sync::Arc;

/// Directories that tools leave alone, with all below them. The engine puts the run's directory and the one that holds
/// it in here, so that no agent writes what is read as its trace.
///
/// On Unix a directory is known by device and inode: another name of it, or a link to it, is the same directory.
#[derive(Debug, Clone, Default)]
pub struct OffLimits(Arc<[Identity]>);

#[cfg(unix)]
type Identity = (u64, u64);
#[cfg(not(unix))]
type Identity = PathBuf;

impl OffLimits {
    /// These directories; one that is not there is left out.
    pub fn new<'a>(dirs: impl IntoIterator<Item = &'a Path>) -> Self {
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

    /// Whether nothing is off limits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the directory with this device and inode is one of them.
    #[cfg(unix)]
    pub fn has(&self, device: u64, inode: u64) -> bool {
        self.0.contains(&(device, inode))
    }

    /// Whether this canonical path is one of them.
    #[cfg(not(unix))]
    pub fn has_path(&self, path: &Path) -> bool {
        self.0.iter().any(|known| known == path)
    }
}
