//! Checks whether the process that writes a trace still exists. Uses Linux's `/proc`, so the answer
//! is unknown on other systems.

use std::fs;
use std::path::Path;

/// Returns the machine's name on Linux. On other systems the name is unknown, and readers then
/// don't check for the process.
pub fn host_name() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Returns whether a process with this number exists. Returns `None` if it ran on another machine,
/// or if that's unknown.
///
/// The number may belong to another process by now, which counts as running. Zombie processes count
/// as dead.
pub fn is_running(host: &str, pid: i64) -> Option<bool> {
    let here = host_name()? == host && Path::new("/proc/self").exists();
    if !here || pid <= 0 {
        return None;
    }
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return Some(Path::new(&format!("/proc/{pid}")).exists());
    };
    // "1234 (name) S ...": the name may contain anything, including parentheses.
    let state = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.trim_start().chars().next());
    Some(!matches!(state, Some('Z' | 'X')))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn this_process_runs_and_one_that_ended_does_not() {
        let host = host_name().unwrap();
        assert_eq!(is_running(&host, i64::from(std::process::id())), Some(true));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = i64::from(child.id());
        child.wait().unwrap();
        assert_eq!(is_running(&host, pid), Some(false));
        assert_eq!(is_running("elsewhere", pid), None);
        assert_eq!(is_running(&host, 0), None);
    }
}
