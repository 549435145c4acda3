//! Reads the memory usage of a process. Only Linux is supported.

/// Returns the resident memory of process `pid`, in KiB.
pub(crate) fn now_kib(pid: u32) -> Option<u64> {
    kib(pid, "VmRSS:")
}

/// Returns the peak resident memory of process `pid`, in KiB.
pub(crate) fn most_kib(pid: u32) -> Option<u64> {
    kib(pid, "VmHWM:")
}

fn kib(pid: u32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
