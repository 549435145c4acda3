//! Opens the files that board keeps for itself in a cache directory.
//!
//! Other users who can write to that directory may have replaced these files with a pipe that
//! blocks the reader, an endless device, or a link to a file elsewhere. This module must not know
//! what the files contain.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

/// The purpose of opening a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Read only.
    Read,
    /// Read, and append lines at the end.
    Append,
    /// Lock only. Creates the file if it doesn't exist.
    Lock,
}

/// Opens a regular file that this user owns. Never follows a link at the end of `path` and never
/// blocks.
///
/// # Errors
/// Returns the system's error, or `InvalidInput` if `path` isn't a regular file or another user
/// owns it.
pub(crate) fn open(path: &Path, access: Access) -> io::Result<File> {
    // Check the path before opening it, because opening a device can have side effects.
    match fs::symlink_metadata(path) {
        Ok(found) => check(&found)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound && access == Access::Lock => {}
        Err(error) => return Err(error),
    }
    let mut options = OpenOptions::new();
    match access {
        Access::Read => options.read(true),
        Access::Append => options.read(true).append(true),
        Access::Lock => options.write(true).create(true).truncate(false),
    };
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt as _;
        let flags = OFlags::NOFOLLOW
            .union(OFlags::NONBLOCK)
            .union(OFlags::NOCTTY);
        options.custom_flags(flags.bits().cast_signed()).mode(0o600);
    }
    let file = options.open(path)?;
    // The path may have been replaced since the first check.
    check(&file.metadata()?)?;
    Ok(file)
}

fn check(found: &fs::Metadata) -> io::Result<()> {
    let refused = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    if !found.is_file() {
        return refused("not a regular file");
    }
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::uid(found) != rustix::process::geteuid().as_raw() {
        return refused("another user owns it");
    }
    Ok(())
}

/// Returns the lines in the first `most` bytes of `file`, without their LF. Skips lines longer than
/// `longest` bytes without buffering them, and a last line without LF.
pub(crate) fn lines(file: File, longest: usize, most: u64) -> impl Iterator<Item = Vec<u8>> {
    let mut input = BufReader::new(file.take(most));
    std::iter::from_fn(move || {
        loop {
            let mut line = Vec::new();
            let read = input
                .by_ref()
                .take(longest as u64 + 1)
                .read_until(b'\n', &mut line)
                .ok()?;
            if line.pop_if(|last| *last == b'\n').is_some() {
                return Some(line);
            }
            if read <= longest || input.skip_until(b'\n').ok()? == 0 {
                return None;
            }
        }
    })
}

/// Identifies this build of the program. Another build may read runs differently.
pub(crate) fn build() -> Option<String> {
    let program = fs::metadata(std::env::current_exe().ok()?).ok()?;
    let made = program
        .modified()
        .ok()?
        .duration_since(std::time::UNIX_EPOCH)
        .ok()?;
    Some(format!(
        "{} {} {}",
        env!("CARGO_PKG_VERSION"),
        program.len(),
        made.as_nanos()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_pipe_a_device_and_a_link_are_refused_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let (pipe, link, file) = (
            dir.path().join("pipe"),
            dir.path().join("link"),
            dir.path().join("file"),
        );
        let made = std::process::Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap();
        assert!(made.success());
        fs::write(&file, "a\n").unwrap();
        for target in [Path::new("/dev/zero"), &file, &pipe] {
            std::os::unix::fs::symlink(target, &link).unwrap();
            for access in [Access::Read, Access::Append, Access::Lock] {
                let error = open(&link, access).unwrap_err();
                assert_eq!(
                    error.to_string(),
                    "not a regular file",
                    "{} {access:?}",
                    target.display()
                );
            }
            fs::remove_file(&link).unwrap();
        }
        for odd in [&*pipe, dir.path(), Path::new("/dev/zero")] {
            for access in [Access::Read, Access::Append, Access::Lock] {
                assert!(open(odd, access).is_err(), "{} {access:?}", odd.display());
            }
        }
        assert!(
            open(&file, Access::Read).is_ok()
                && open(&dir.path().join("none"), Access::Lock).is_ok()
        );
    }

    #[test]
    #[cfg(unix)]
    fn a_file_of_another_user_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        // Only root can change a file's owner.
        if std::os::unix::fs::chown(file.path(), Some(65_534), None).is_ok() {
            assert_eq!(
                open(file.path(), Access::Read).unwrap_err().to_string(),
                "another user owns it"
            );
        }
    }

    #[test]
    fn long_lines_are_skipped_and_a_torn_one_is_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |text: &str, longest, most| {
            fs::write(file.path(), text).unwrap();
            let found: Vec<_> = lines(File::open(file.path()).unwrap(), longest, most).collect();
            found
                .into_iter()
                .map(|line| String::from_utf8(line).unwrap())
                .collect::<Vec<_>>()
        };
        let long = "x".repeat(100_000);
        assert_eq!(
            read(&format!("a\n{long}\n\nb\nc"), 10, 1 << 20),
            ["a", "", "b"]
        );
        assert_eq!(read(&format!("a\n{long}"), 10, 1 << 20), ["a"]);
        assert_eq!(read("12345\n123456\n", 5, 1 << 20), ["12345"]);
        assert_eq!(read("a\nb\nc\n", 10, 4), ["a", "b"]);
        assert!(read("", 10, 10).is_empty());
    }
}
