//! Opens files and directories below a root safely, even if someone renames things concurrently. It
//! starts from a handle of the root, goes part by part, and follows no links. The type of a file is
//! checked after opening it, because its name may refer to something else by then.
//!
//! Nothing here blocks on others: neither on the other end of a pipe nor on a writer that holds a
//! lease on its file. Must not know about runs.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Component, Path};

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
/// directory was renamed or moved.
#[derive(Debug)]
pub(super) struct Dir(system::Handle);

impl Dir {
    /// Opens the directory `below` the canonical path `root`.
    ///
    /// # Errors
    /// Fails if a part doesn't exist, isn't a directory, or is a link. Also returns other I/O
    /// errors.
    pub(super) fn open(root: &Path, below: &Path) -> io::Result<Self> {
        let mut handle = system::Handle::of(root)?;
        for part in below.components() {
            match part {
                Component::Normal(name) => handle = handle.below(name)?,
                Component::CurDir => {}
                _ => return Err(refused("not below the root")),
            }
        }
        Ok(Self(handle))
    }

    /// Returns the type and stamp of the entry `name`, without opening it.
    ///
    /// # Errors
    /// Fails if there is no such entry. Also returns other I/O errors.
    pub(super) fn look(&self, name: &OsStr) -> io::Result<(Kind, Stamp)> {
        self.0.look(name)
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// Fails if the entry is something else. Returns a would-block error if another program holds a
    /// lease on it. Also returns other I/O errors.
    pub(super) fn file(&self, name: &OsStr) -> io::Result<(File, Stamp)> {
        let file = self.0.file(name)?;
        match system::of_open(&file)? {
            (Kind::File, stamp) => Ok((file, stamp)),
            _ => Err(refused("not a regular file")),
        }
    }

    /// Returns the names in the directory, with the type of each entry.
    ///
    /// # Errors
    /// Returns the I/O error.
    pub(super) fn names(&self) -> io::Result<Vec<(OsString, Kind)>> {
        self.0.names()
    }
}

/// Returns the stamp of `path`, without following a link at its end.
///
/// # Errors
/// Fails if there is no such file. Also returns other I/O errors.
pub(super) fn stamp(path: &Path) -> io::Result<Stamp> {
    system::stamp(path)
}

pub(super) fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why.to_owned())
}

#[cfg(unix)]
mod system {
    use std::os::fd::OwnedFd;
    use std::os::unix::ffi::OsStrExt as _;

    use rustix::fs::{AtFlags, FileType, Mode, OFlags, open, openat, statat};

    use super::*;

    /// Looking something up in a directory requires no permission to list it.
    #[cfg(target_os = "linux")]
    const LOOKUP: OFlags = OFlags::PATH;
    #[cfg(not(target_os = "linux"))]
    const LOOKUP: OFlags = OFlags::RDONLY;
    const DIR: OFlags = OFlags::DIRECTORY
        .union(OFlags::NOFOLLOW)
        .union(OFlags::CLOEXEC);
    const FILE: OFlags = OFlags::NOFOLLOW
        .union(OFlags::NONBLOCK)
        .union(OFlags::NOCTTY)
        .union(OFlags::CLOEXEC);

    #[derive(Debug)]
    pub(super) struct Handle(OwnedFd);

    impl Handle {
        pub(super) fn of(path: &Path) -> io::Result<Self> {
            Ok(Self(open(path, LOOKUP.union(DIR), Mode::empty())?))
        }

        pub(super) fn below(&self, name: &OsStr) -> io::Result<Self> {
            Ok(Self(openat(
                &self.0,
                name,
                LOOKUP.union(DIR),
                Mode::empty(),
            )?))
        }

        pub(super) fn look(&self, name: &OsStr) -> io::Result<(Kind, Stamp)> {
            let stat = statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
            Ok((
                kind(FileType::from_raw_mode(stat.st_mode)),
                Stamp::of(&stat),
            ))
        }

        pub(super) fn file(&self, name: &OsStr) -> io::Result<File> {
            match openat(&self.0, name, OFlags::RDONLY.union(FILE), Mode::empty()) {
                Err(rustix::io::Errno::WOULDBLOCK) => Err(io::Error::new(
                    io::ErrorKind::WouldBlock,
                    "another program has locked it",
                )),
                opened => Ok(opened?.into()),
            }
        }

        pub(super) fn names(&self) -> io::Result<Vec<(OsString, Kind)>> {
            let listed = openat(&self.0, ".", OFlags::RDONLY.union(DIR), Mode::empty())?;
            let mut names = Vec::new();
            for entry in rustix::fs::Dir::new(listed)? {
                let entry = entry?;
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                if name == "." || name == ".." {
                    continue;
                }
                // Some file systems don't return the type with the name.
                let kind = match entry.file_type() {
                    FileType::Unknown => self.look(name).map_or(Kind::Other, |(kind, _)| kind),
                    known => kind(known),
                };
                names.push((name.to_owned(), kind));
            }
            Ok(names)
        }
    }

    pub(super) fn of_open(file: &File) -> io::Result<(Kind, Stamp)> {
        let stat = rustix::fs::fstat(file)?;
        Ok((
            kind(FileType::from_raw_mode(stat.st_mode)),
            Stamp::of(&stat),
        ))
    }

    pub(super) fn stamp(path: &Path) -> io::Result<Stamp> {
        Ok(Stamp::of(&rustix::fs::lstat(path)?))
    }

    fn kind(file_type: FileType) -> Kind {
        match file_type {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Dir,
            FileType::Symlink => Kind::Link,
            _ => Kind::Other,
        }
    }
}

/// Without directory handles, a name is checked and then used.
#[cfg(not(unix))]
mod system {
    use std::fs::{self, Metadata};
    use std::path::PathBuf;

    use super::*;

    #[derive(Debug)]
    pub(super) struct Handle(PathBuf);

    impl Handle {
        pub(super) fn of(path: &Path) -> io::Result<Self> {
            let is_dir = fs::symlink_metadata(path)?.is_dir();
            if is_dir {
                Ok(Self(path.to_owned()))
            } else {
                Err(io::ErrorKind::NotADirectory.into())
            }
        }

        pub(super) fn below(&self, name: &OsStr) -> io::Result<Self> {
            Self::of(&self.0.join(name))
        }

        pub(super) fn look(&self, name: &OsStr) -> io::Result<(Kind, Stamp)> {
            let metadata = fs::symlink_metadata(self.0.join(name))?;
            Ok((kind(&metadata), Stamp::of(&metadata)))
        }

        pub(super) fn file(&self, name: &OsStr) -> io::Result<File> {
            match self.look(name)? {
                (Kind::File, _) => File::open(self.0.join(name)),
                _ => Err(refused("not a regular file")),
            }
        }

        pub(super) fn names(&self) -> io::Result<Vec<(OsString, Kind)>> {
            let named = |entry: io::Result<fs::DirEntry>| {
                let entry = entry?;
                let kind = entry
                    .metadata()
                    .map_or(Kind::Other, |metadata| kind(&metadata));
                Ok((entry.file_name(), kind))
            };
            fs::read_dir(&self.0)?.map(named).collect()
        }
    }

    pub(super) fn of_open(file: &File) -> io::Result<(Kind, Stamp)> {
        let metadata = file.metadata()?;
        Ok((kind(&metadata), Stamp::of(&metadata)))
    }

    pub(super) fn stamp(path: &Path) -> io::Result<Stamp> {
        Ok(Stamp::of(&fs::symlink_metadata(path)?))
    }

    fn kind(metadata: &Metadata) -> Kind {
        match metadata.file_type() {
            kind if kind.is_file() => Kind::File,
            kind if kind.is_dir() => Kind::Dir,
            kind if kind.is_symlink() => Kind::Link,
            _ => Kind::Other,
        }
    }
}
