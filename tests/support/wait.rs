//! Waits for a condition with a deadline, never for a fixed time.

use std::time::{Duration, Instant};

/// Generous, because a loaded build machine is slow. A passing test doesn't wait this long.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Calls `probe` until it returns a value. Panics with `what` at the deadline.
pub(crate) fn until<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = probe() {
            return answer;
        }
        assert!(
            start.elapsed() < DEADLINE,
            "timed out after {DEADLINE:?}: {what}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}
