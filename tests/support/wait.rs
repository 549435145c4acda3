//! How long to wait for something? Until it is so, with a deadline; never for a fixed time.

use std::time::{Duration, Instant};

/// Generous, because a loaded build machine is slow; a passing test does not wait for it.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Asks `probe` until it answers, and panics with `what` when it has not by the deadline.
pub(crate) fn until<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = probe() {
            return answer;
        }
        assert!(
            start.elapsed() < DEADLINE,
            "waited {DEADLINE:?} in vain: {what}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}
