//! Keeps things that are costly to open for a short time after their use.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Things that wait for their next use.
#[derive(Debug)]
pub(super) struct Idle<T> {
    /// The newest are last.
    kept: Mutex<Vec<(Instant, T)>>,
    most: usize,
    time: Duration,
}

impl<T> Idle<T> {
    /// Keeps at most `most` things, each for at most `time`.
    pub(super) const fn new(most: usize, time: Duration) -> Self {
        Self {
            kept: Mutex::new(Vec::new()),
            most,
            time,
        }
    }

    /// Keeps a thing for its next use. Closes the oldest one if there are too many.
    pub(super) fn keep(&self, thing: T) {
        self.keep_since(Instant::now(), thing);
    }

    fn keep_since(&self, since: Instant, thing: T) {
        let mut kept = self.kept();
        kept.push((since, thing));
        let oldest = (kept.len() > self.most).then(|| kept.remove(0));
        // Closing it may take a while.
        drop(kept);
        drop(oldest);
    }

    /// Takes the newest thing that fits.
    pub(super) fn take(&self, fits: impl Fn(&T) -> bool) -> Option<T> {
        let mut kept = self.kept();
        let at = kept.iter().rposition(|(_, thing)| fits(thing))?;
        Some(kept.remove(at).1)
    }

    /// Closes what was kept for too long by the time `now`, and what doesn't pass `stays`.
    pub(super) fn close(&self, now: Instant, stays: impl Fn(&T) -> bool) {
        let all = std::mem::take(&mut *self.kept());
        // Checked without the lock, because a file system may take any time.
        for (since, thing) in all {
            if now.saturating_duration_since(since) < self.time && stays(&thing) {
                self.keep_since(since, thing);
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<(Instant, T)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_things_are_kept_for_a_short_time() {
        let idle = Idle::new(2, Duration::from_secs(5));
        (1..=3).for_each(|thing| idle.keep(thing));
        assert_eq!(idle.take(|thing| *thing == 1), None, "the oldest is closed");
        assert_eq!(idle.take(|_| true), Some(3), "the newest comes first");
        assert_eq!(idle.take(|thing| *thing == 3), None, "it's in use");
        idle.keep(4);
        let now = Instant::now();
        idle.close(now, |thing| *thing != 4);
        assert_eq!(
            idle.take(|thing| *thing == 4),
            None,
            "it isn't valid anymore"
        );
        idle.close(now + Duration::from_secs(5), |_| true);
        assert_eq!(idle.take(|_| true), None, "it was kept too long");
    }
}
