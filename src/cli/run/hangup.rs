//! Was the terminal closed that a run was started on? Known by SIGHUP, which the system sends then.
//!
//! A program started with `nohup` is to live on: it finds the signal ignored, and listening for it would undo that.

/// Ends when the terminal is closed; never where that is to be ignored, or there is no such signal.
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

/// Whether whoever started this wants it to outlive the terminal.
#[cfg(unix)]
fn is_ignored() -> bool {
    use std::io::IsTerminal as _;

    match std::fs::read_to_string("/proc/self/status") {
        Ok(status) => ignores_hangup(&status),
        // Other systems than Linux do not tell. What `nohup` starts has no terminal on stderr.
        Err(_) => !std::io::stderr().is_terminal(),
    }
}

/// What Linux tells of a process: one bit for each signal, the first of which is SIGHUP.
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
