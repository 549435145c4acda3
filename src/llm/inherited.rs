//! Closes the files that this process inherited, except its standard streams.
//!
//! A shell opens `3<key` or `<(command)` for a program and for everything that the program starts.
//! Files that this process opens itself are closed in its children; inherited ones are not.

use std::io;

/// The file descriptors above 2 with which this process was started.
#[derive(Debug)]
pub struct Inherited {
    #[cfg(unix)]
    descriptors: Vec<std::os::fd::RawFd>,
}

impl Inherited {
    /// Finds the inherited descriptors. Must be called before this process opens a file that it
    /// keeps, so that all open files are inherited ones.
    ///
    /// # Errors
    /// Fails if the system has no list of open files.
    #[cfg(unix)]
    pub fn find() -> io::Result<Self> {
        let listed = std::fs::read_dir("/dev/fd")?;
        let mut descriptors = Vec::new();
        for entry in listed {
            let number = entry?
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<std::os::fd::RawFd>().ok());
            descriptors.extend(number.filter(|number| *number > 2));
        }
        // The list itself was open while it was read, and is closed now.
        descriptors.retain(|number| std::fs::symlink_metadata(format!("/dev/fd/{number}")).is_ok());
        Ok(Self { descriptors })
    }

    /// Finds nothing, because other systems pass on only the files that are named when a program is
    /// started.
    ///
    /// # Errors
    /// Never fails.
    #[cfg(not(unix))]
    pub fn find() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Closes the descriptors. Must be called after files named by a descriptor, such as
    /// `/dev/fd/3`, have been read, and before the first command is started.
    pub fn close(self) {
        #[cfg(unix)]
        for number in self.descriptors {
            // Linux closes the descriptor even if it reports an error, and nothing was written through it.
            let _ = nix::unistd::close(number);
        }
    }
}
