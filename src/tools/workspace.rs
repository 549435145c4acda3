//! Limits an agent's file access to one directory.
//!
//! The directory is opened once, and `cap-std` resolves every path below that handle, component by
//! component. Checking a path first and opening it later would leave a gap in which the path could
//! be replaced with a link.

use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirEntry, File, OpenOptions};
#[cfg(unix)]
use cap_std::fs::{Metadata, MetadataExt as _};

use crate::engine::{OffLimits, ToolError};
use crate::error::{Error, Kind, Result};

/// Longer files aren't read into memory.
pub(super) const MAX_FILE_BYTES: u64 = 16 << 20;
/// A file is binary if it has a NUL in its first bytes. Git uses the same rule and number.
const BINARY_PROBE_BYTES: usize = 8000;

/// The directory in which an agent works.
#[derive(Debug, Clone)]
pub struct Workspace {
    dir: Arc<Dir>,
    root: PathBuf,
}

impl Workspace {
    /// Opens a directory as a workspace.
    ///
    /// # Errors
    /// Fails if the path doesn't exist, isn't a directory or can't be entered.
    pub fn open(root: &Path) -> Result<Self> {
        let cannot = |error: io::Error| {
            let kind = if error.kind() == io::ErrorKind::NotFound {
                Kind::NotFound
            } else {
                Kind::Unreadable
            };
            Error::new(kind, format!("can't use {} as a workspace", root.display())).because(error)
        };
        // Commands start in this directory. A relative path would change its meaning with the
        // process's working directory.
        let root = root.canonicalize().map_err(cannot)?;
        let dir = Dir::open_ambient_dir(&root, ambient_authority()).map_err(cannot)?;
        Ok(Self {
            dir: Arc::new(dir),
            root,
        })
    }

    /// Returns the directory's absolute path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Returns the path relative to the workspace. Models often write absolute paths.
    pub(super) fn inside<'a>(&self, path: &'a str) -> Result<&'a Path, ToolError> {
        let path = Path::new(path);
        if path.as_os_str().is_empty() {
            return Err(invalid("the path is empty; the workspace itself is `.`"));
        }
        let below = path.strip_prefix(&self.root).unwrap_or(path);
        Ok(if below.as_os_str().is_empty() {
            Path::new(".")
        } else {
            below
        })
    }

    /// Returns whether `dir` is off limits or inside a directory that is. `shown` is its path
    /// relative to the workspace. Checks the parent directories themselves rather than their names,
    /// so links and aliases don't help to get there.
    pub(super) fn is_off_limits(
        &self,
        dir: &Dir,
        shown: &Path,
        off_limits: &OffLimits,
    ) -> io::Result<bool> {
        if off_limits.is_empty() {
            return Ok(false);
        }
        #[cfg(unix)]
        {
            let _ = shown;
            let root = identity(&self.dir.dir_metadata()?);
            let mut dir = dir.try_clone()?;
            let mut here = identity(&dir.dir_metadata()?);
            // The workspace itself isn't checked: the agent was given it, even if it is inside a
            // directory that is off limits.
            while here != root {
                if off_limits.has(here.0, here.1) {
                    return Ok(true);
                }
                dir = dir.open_parent_dir(ambient_authority())?;
                let above = identity(&dir.dir_metadata()?);
                if above == here {
                    break;
                }
                here = above;
            }
            Ok(false)
        }
        #[cfg(not(unix))]
        {
            let _ = dir;
            let real = self.root.join(shown).canonicalize()?;
            let above = real.ancestors().take_while(|above| *above != self.root);
            Ok(above.into_iter().any(|above| off_limits.has_path(above)))
        }
    }

    /// Returns whether a directory entry is off limits.
    pub(super) fn is_entry_off_limits(
        &self,
        entry: &DirEntry,
        shown: &Path,
        off_limits: &OffLimits,
    ) -> bool {
        if off_limits.is_empty() {
            return false;
        }
        #[cfg(unix)]
        {
            let _ = shown;
            entry
                .metadata()
                .is_ok_and(|found| found.is_dir() && off_limits.has(found.dev(), found.ino()))
        }
        #[cfg(not(unix))]
        {
            let _ = entry;
            self.root
                .join(shown)
                .canonicalize()
                .is_ok_and(|real| off_limits.has_path(&real))
        }
    }

    /// Reads a whole file.
    pub(super) fn read(&self, path: &str) -> Result<Vec<u8>, ToolError> {
        let inside = self.inside(path)?;
        let file = open_file(&self.dir, inside).map_err(|error| failure(path, &error))?;
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| failure(path, &error))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            let limit = MAX_FILE_BYTES >> 20;
            return Err(ToolError::new(format!(
                "{path}: longer than {limit} MiB; look at parts of it with a command"
            )));
        }
        if is_binary(&bytes) {
            return Err(ToolError::new(format!(
                "{path}: a binary file of {} bytes, not text",
                bytes.len()
            )));
        }
        Ok(bytes)
    }
}

/// Identifies a directory independently of its name.
#[cfg(unix)]
fn identity(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

/// Opens a regular file for reading. Doesn't block on a pipe that has no writer.
pub(super) fn open_file(dir: &Dir, path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use cap_std::fs::OpenOptionsExt as _;
        let nonblock = rustix::fs::OFlags::NONBLOCK.bits();
        options.custom_flags(i32::try_from(nonblock).unwrap_or_default());
    }
    let file = dir.open_with(path, &options)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::other("neither a file nor a directory"));
    }
    Ok(file)
}

pub(super) fn is_binary(bytes: &[u8]) -> bool {
    memchr::memchr(0, bytes.get(..BINARY_PROBE_BYTES).unwrap_or(bytes)).is_some()
}

/// Describes an error for `path` in words that help a model.
pub(super) fn failure(path: &str, error: &io::Error) -> ToolError {
    let escapes = error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none();
    let absolute = Path::new(path)
        .components()
        .next()
        .is_some_and(|first| first != Component::CurDir)
        && Path::new(path).has_root();
    ToolError::new(match error.kind() {
        _ if escapes && absolute => {
            format!("{path}: outside the workspace; paths are relative to it")
        }
        _ if escapes => format!("{path}: leads outside the workspace"),
        io::ErrorKind::NotFound => format!("{path}: there is no such file or directory"),
        io::ErrorKind::IsADirectory => format!("{path}: a directory, not a file"),
        io::ErrorKind::NotADirectory => format!("{path}: a part of the path is not a directory"),
        _ => format!("{path}: {error}"),
    })
}

pub(super) fn invalid(message: impl Into<String>) -> ToolError {
    ToolError::new(message).category("invalid_arguments")
}

/// Runs blocking work on a thread for such work.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let lost =
        |error: &dyn std::fmt::Display| ToolError::new(format!("the work was lost: {error}"));
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // Boxed to have a single type, since tokio's task code is compiled for each type of work.
    let work: Box<dyn FnOnce() + Send> = Box::new(move || drop(sender.send(work())));
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| lost(&error))?;
    receiver.await.map_err(|error| lost(&error))?
}
