//! Provides the time of a run. All recorded times, waits between retries and seeds come from here,
//! so a run with a [`Stepping`] clock is reproducible. The timeouts of tools and the end of judging
//! use the machine's clock.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A clock that tells the time and waits.
pub trait Clock: Send + Sync {
    /// Returns the time since the run began. Never decreases.
    fn elapsed(&self) -> Duration;

    /// Returns microseconds since the Unix epoch.
    fn now_us(&self) -> i64;

    /// Waits for `time`.
    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Returns whether this clock follows real time, so that work in progress can be dropped at a
    /// time limit.
    fn is_real(&self) -> bool {
        false
    }
}

/// Lets an engine share its clock with the tools and critics of its run, so that their waits count
/// in the run's time.
impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn elapsed(&self) -> Duration {
        (**self).elapsed()
    }

    fn now_us(&self) -> i64 {
        (**self).now_us()
    }

    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        (**self).sleep(time)
    }

    fn is_real(&self) -> bool {
        (**self).is_real()
    }
}

/// The machine's clock.
#[derive(Debug)]
pub(crate) struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// Creates a clock whose elapsed time starts now.
    pub(crate) fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn now_us(&self) -> i64 {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }

    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(time))
    }

    fn is_real(&self) -> bool {
        true
    }
}

/// A clock that advances by a fixed amount each time the elapsed time is read, and by the full time
/// of each wait.
#[derive(Debug)]
pub struct Stepping {
    start_us: i64,
    tick_us: u64,
    elapsed_us: AtomicU64,
}

impl Stepping {
    /// Creates a clock that starts at `start_us` (microseconds since the Unix epoch) and advances
    /// by `tick` per read.
    pub fn new(start_us: i64, tick: Duration) -> Self {
        Self {
            start_us,
            tick_us: micros(tick),
            elapsed_us: AtomicU64::new(0),
        }
    }
}

impl Clock for Stepping {
    fn elapsed(&self) -> Duration {
        Duration::from_micros(self.elapsed_us.fetch_add(self.tick_us, Ordering::Relaxed))
    }

    fn now_us(&self) -> i64 {
        let elapsed = i64::try_from(self.elapsed_us.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
        self.start_us.saturating_add(elapsed)
    }

    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.elapsed_us.fetch_add(micros(time), Ordering::Relaxed);
        Box::pin(std::future::ready(()))
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the random seed of a step, which depends only on the run's seed and the step.
pub(super) fn step_seed(seed: u64, step: u64) -> u64 {
    splitmix64(seed.wrapping_add(step.wrapping_mul(SPLITMIX_STEP)))
}

/// The increment of SplitMix64's state.
const SPLITMIX_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the output of SplitMix64 (Steele, Lea and Flood, 2014) for the state `seed`.
pub(crate) fn splitmix64(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(SPLITMIX_STEP);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_clock_is_one_clock() {
        let clock: Arc<dyn Clock> = Arc::new(Stepping::new(1_000, Duration::from_micros(10)));
        let shared = Arc::clone(&clock);
        drop(Clock::sleep(&shared, Duration::from_micros(500)));
        assert_eq!(
            (clock.now_us(), Clock::elapsed(&shared).as_micros()),
            (1_500, 500)
        );
        assert_eq!(clock.elapsed().as_micros(), 510);
    }
}
