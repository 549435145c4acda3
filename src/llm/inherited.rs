//! Closes the files that this process inherited, except its standard streams.
//!
//! A shell opens `3<key` or `<(command)` for a program and for everything that the program starts. Files that this
//! process opens itself are closed in its children; inherited ones are not.

use std::io;

/// The descriptors above 2 that this process was started with.
#[derive(Debug)]
pub struct Inherited {
    #[cfg(unix)]
    descriptors: Vec<std::os::fd::RawFd>,
}

impl Inherited {
    /// Finds them. To be called before this process opens a file that it keeps: all that is open then was given to it.
    ///
    /// # Errors
    /// The system has no list of open files.
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

    /// Finds them; other systems hand over only what is named when a program is started.
    ///
    /// # Errors
    /// None.
    #[cfg(not(unix))]
    pub fn find() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Closes them. To be called once the files that are named by a descriptor, as in `/dev/fd/3`, were read, and before
    /// the first command is started.
    pub fn close(self) {
        #[cfg(unix)]
        for number in self.descriptors {
            // Linux closes the descriptor even if it reports an error, and nothing was written through it.
            let _ = nix::unistd::close(number);
        }
    }
}
