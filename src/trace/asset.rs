//! Reads files that a trace refers to, only if they are inside the run's directory.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::beneath::Dir;
use super::dir::RunDir;
use super::stamp::Stamp;

/// Larger files that a trace refers to aren't read.
const MAX_ASSET_BYTES: u64 = 32 << 20;

impl RunDir {
    /// Checks that a file that a trace refers to is inside the run directory.
    ///
    /// # Errors
    /// Fails if the file isn't inside the directory, or isn't a regular file.
    pub fn has_asset(&self, recorded: &str) -> io::Result<()> {
        self.open_asset(recorded).map(|_| ())
    }

    /// Opens a file that a trace refers to, if it's inside the run directory.
    ///
    /// The recorded path is tried below the directory, then its last part in `assets/`, because
    /// runs are moved.
    fn open_asset(&self, recorded: &str) -> io::Result<(PathBuf, File, Stamp)> {
        let inside = self.root().join(self.below());
        let recorded = Path::new(recorded);
        let base_name = recorded
            .file_name()
            .map(|name| inside.join("assets").join(name));
        for path in [Some(inside.join(recorded)), base_name]
            .into_iter()
            .flatten()
        {
            // Only a hint. The file is opened without following links.
            let Ok(path) = fs::canonicalize(path) else {
                continue;
            };
            let Ok(below) = path.strip_prefix(&inside) else {
                continue;
            };
            let Some((parent, name)) = below.parent().zip(below.file_name()) else {
                continue;
            };
            let opened =
                Dir::open(self.root(), &self.below().join(parent)).and_then(|dir| dir.file(name));
            if let Ok((file, stamp)) = opened {
                return Ok((path, file, stamp));
            }
        }
        Err(io::Error::new(
            io::ErrorKind::NotFound,
            "not inside the run directory",
        ))
    }

    /// Reads a file that a trace refers to, and returns its path.
    ///
    /// # Errors
    /// Fails like [`Self::has_asset`], and if the file is larger than 32 MiB or can't be read.
    pub fn read_asset(&self, recorded: &str) -> io::Result<(PathBuf, Vec<u8>)> {
        let (path, file, stamp) = self.open_asset(recorded)?;
        if stamp.size > MAX_ASSET_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "larger than 32 MiB",
            ));
        }
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(file, MAX_ASSET_BYTES), &mut bytes)?;
        Ok((path, bytes))
    }
}
