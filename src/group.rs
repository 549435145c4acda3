//! Kills the process group of a child process when it is no longer needed.

use tokio::process::Child;

/// A process group. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Group {
    #[cfg(unix)]
    leader: Option<rustix::process::Pid>,
}

impl Group {
    #[cfg(unix)]
    pub(crate) fn led_by(child: &Child) -> Self {
        let leader = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(rustix::process::Pid::from_raw);
        Self { leader }
    }

    #[cfg(not(unix))]
    pub(crate) fn led_by(_child: &Child) -> Self {
        Self {}
    }

    /// Gives the group up without killing it. Needed once its leader has been waited for: then its
    /// number may belong to another group.
    #[cfg(feature = "cloud")]
    pub(crate) fn release(mut self) {
        #[cfg(unix)]
        {
            self.leader = None;
        }
    }

    /// Kills the group, at most once: a group's number may be reused after its last member ends.
    pub(crate) fn kill(&mut self) {
        #[cfg(unix)]
        if let Some(leader) = self.leader.take() {
            // Fails if the group is already empty.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
