//! Which processes did a program start? Those of its group, which end with it.

use tokio::process::Child;

/// The processes of a group; killed when nobody waits for it any more.
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

    /// Kills them once; a group keeps its number only as long as it has a member.
    pub(crate) fn kill(&mut self) {
        #[cfg(unix)]
        if let Some(leader) = self.leader.take() {
            // An empty group is gone, which is what was wanted.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
