//! Opens files and directories below a root safely, even if someone renames things concurrently. It
//! starts from a handle of the root, and follows no links in any part of a path. The type of a file is
//! checked after opening it, because its name may refer to something else by then.
//!
//! Nothing here blocks on others: neither on the other end of a pipe nor on a writer that holds a
//! lease on its file. Must not know about runs.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Component, Path};

use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _};
use cap_std::ambient_authority;
use cap_std::fs::{FileType, Metadata, OpenOptions};

use super::stamp::Stamp;

/// The type of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Dir,
    Link,
    /// A pipe, a socket, or a device.
    Other,
}

/// A directory that is held open. Anything opened by a name in it is really in it, even if the
/// directory was renamed or moved. Looking something up requires no permission to list it.
#[derive(Debug)]
pub(super) struct Dir(cap_std::fs::Dir);

impl Dir {
    /// Opens the directory `below` the canonical path `root`.
    ///
    /// # Errors
    /// Fails if a part doesn't exist, isn't a directory, or is a link. Also returns other I/O
    /// errors.
    pub(super) fn open(root: &Path, below: &Path) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if let Some(dir) = Self::open_at_once(root, below) {
            return Ok(dir);
        }
        let mut dir = match (root.parent(), root.file_name()) {
            (Some(parent), Some(name)) => {
                let parent = match parent.as_os_str().is_empty() {
                    true => Path::new("."),
                    false => parent,
                };
                cap_std::fs::Dir::open_ambient_dir(parent, ambient_authority())?
                    .open_dir_nofollow(name)?
            }
            _ => cap_std::fs::Dir::open_ambient_dir(root, ambient_authority())?,
        };
        for part in below.components() {
            match part {
                Component::Normal(name) => dir = dir.open_dir_nofollow(name)?,
                Component::CurDir => {}
                _ => return Err(refused("not below the root")),
            }
        }
        Ok(Self(dir))
    }

    /// Opens the directory with one call instead of one for each part. Returns `None` if that fails,
    /// as in kernels before 5.6. The other way then returns the error.
    #[cfg(target_os = "linux")]
    fn open_at_once(root: &Path, below: &Path) -> Option<Self> {
        use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        if !below.components().all(is_plain) {
            return None;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = open(root.parent()?, flags, Mode::empty()).ok()?;
        let path = Path::new(root.file_name()?).join(below);
        let links = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let resolve = ResolveFlags::BENEATH | links;
        let dir = openat2(
            parent,
            &path,
            flags | OFlags::NOFOLLOW,
            Mode::empty(),
            resolve,
        )
        .ok()?;
        Some(Self(cap_std::fs::Dir::from_std_file(dir.into())))
    }

    /// Returns the type and stamp of the entry `name`, without opening it.
    ///
    /// # Errors
    /// Fails if there is no such entry. Also returns other I/O errors.
    pub(super) fn look(&self, name: &OsStr) -> io::Result<(Kind, Stamp)> {
        let metadata = self.0.symlink_metadata(name)?;
        Ok((kind(metadata.file_type()), Stamp::of(&metadata)))
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// Fails if the entry is something else. Returns a would-block error if another program holds a
    /// lease on it. Also returns other I/O errors.
    pub(super) fn file(&self, name: &OsStr) -> io::Result<(File, Stamp)> {
        let mut options = OpenOptions::new();
        options.read(true).follow(FollowSymlinks::No);
        #[cfg(unix)]
        {
            use cap_std::fs::OpenOptionsExt as _;
            use rustix::fs::OFlags;
            let flags = OFlags::NONBLOCK.union(OFlags::NOCTTY);
            options.custom_flags(flags.bits().cast_signed());
        }
        let opened = self.0.open_with(name, &options).map_err(|error| {
            if error.kind() == io::ErrorKind::WouldBlock {
                io::Error::new(error.kind(), "another program has locked it")
            } else {
                error
            }
        });
        let file = opened?.into_std();
        let metadata = Metadata::from_file(&file)?;
        if !metadata.is_file() {
            return Err(refused("not a regular file"));
        }
        Ok((file, Stamp::of(&metadata)))
    }

    /// Returns the names in the directory, with the type of each entry.
    ///
    /// # Errors
    /// Returns the I/O error.
    pub(super) fn names(&self) -> io::Result<Vec<(OsString, Kind)>> {
        let named = |entry: io::Result<cap_std::fs::DirEntry>| {
            let entry = entry?;
            let name = entry.file_name();
            // Some file systems don't return the type with the name.
            let kind = match entry.file_type().map_or(Kind::Other, kind) {
                Kind::Other => self.look(&name).map_or(Kind::Other, |(kind, _)| kind),
                known => known,
            };
            Ok((name, kind))
        };
        self.0.entries()?.map(named).collect()
    }
}

/// Returns the stamp of `path`, without following a link at its end.
///
/// # Errors
/// Fails if there is no such file. Also returns other I/O errors.
pub(super) fn stamp(path: &Path) -> io::Result<Stamp> {
    let metadata = fs::symlink_metadata(path)?;
    Ok(Stamp::of(&Metadata::from_just_metadata(metadata)))
}

pub(super) fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why.to_owned())
}

fn kind(file_type: FileType) -> Kind {
    if file_type.is_file() {
        Kind::File
    } else if file_type.is_dir() {
        Kind::Dir
    } else if file_type.is_symlink() {
        Kind::Link
    } else {
        Kind::Other
    }
}
