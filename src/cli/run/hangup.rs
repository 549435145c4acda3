//! Detects that the terminal in which a run was started was closed, by SIGHUP.
//!
//! A program started with `nohup` must survive that. It inherits the signal as ignored, and
//! listening for it would undo that.

/// Completes when the terminal is closed. Never completes if that is to be ignored, or if the
/// system has no such signal.
pub(super) async fn hung_up() {
    #[cfg(unix)]
    if !is_ignored()
        && let Ok(mut hangup) =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())
        && hangup.recv().await.is_some()
    {
        return;
    }
    std::future::pending().await
}

/// Returns whether this process is meant to outlive the terminal.
#[cfg(unix)]
fn is_ignored() -> bool {
    use std::io::IsTerminal as _;

    match std::fs::read_to_string("/proc/self/status") {
        Ok(status) => ignores_hangup(&status),
        // Only Linux provides this. A process started by `nohup` has no terminal on stderr.
        Err(_) => !std::io::stderr().is_terminal(),
    }
}

/// Parses the process status of Linux, which has one bit per signal. SIGHUP is the first.
#[cfg(unix)]
fn ignores_hangup(status: &str) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u128::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 == 1)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_hangup_is_the_first_bit() {
        let status =
            |mask: &str| format!("Name:\tboard\nSigBlk:\t0000000000000001\nSigIgn:\t{mask}\n");
        assert!(ignores_hangup(&status("0000000000001001")));
        assert!(!ignores_hangup(&status("0000000000001000")));
        assert!(!ignores_hangup("Name:\tboard\n"));
    }
}
