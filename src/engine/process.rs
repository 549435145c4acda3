//! Names the process that writes a trace.

/// The process that writes a trace. Lets a reader check whether the process still exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The process id.
    pub pid: u32,
    /// The host name, if known.
    pub host: Option<String>,
}

impl Process {
    /// Returns this process.
    pub fn this() -> Self {
        Self {
            pid: std::process::id(),
            host: crate::trace::host_name(),
        }
    }
}
