//! Decides when to retry a request: after a delay that the server names, or after a growing delay
//! with jitter.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

use crate::engine::splitmix64;

/// How often to retry, and how long to wait in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Number of retries after the first attempt.
    pub retries: u32,
    /// The first delay. It doubles each time, and is shortened randomly by up to half.
    pub first: Duration,
    /// Maximum delay. Doesn't apply to delays that the server asks for.
    pub longest: Duration,
    /// Maximum time for all attempts and delays of one reply together, including delays that the
    /// server asks for.
    pub total: Duration,
    /// Seed of the random part.
    pub seed: u64,
}

impl Default for Retry {
    /// Returns four retries with delays from half a second up to 30 seconds, within two minutes.
    fn default() -> Self {
        let (first, longest) = (Duration::from_millis(500), Duration::from_secs(30));
        Self {
            retries: 4,
            first,
            longest,
            total: Duration::from_secs(120),
            seed: 0,
        }
    }
}

impl Retry {
    /// Returns the delay after failure number `failures`, which starts at 1. Each `draw` gives a
    /// different random part for the same seed.
    pub(super) fn wait(&self, failures: u32, draw: u64) -> Duration {
        let factor = 2_u32.saturating_pow(failures.saturating_sub(1));
        let full = self.first.saturating_mul(factor).min(self.longest);
        // The upper 53 bits give a uniform number from 0 to 1. The random part keeps clients that
        // failed together from retrying together.
        let even = (splitmix64(self.seed ^ splitmix64(draw)) >> 11) as f64 / (1_u64 << 53) as f64;
        full.mul_f64(1.0 - even / 2.0)
    }
}

/// Parses `Retry-After`, which holds seconds or a date. A date is compared with the response's own
/// `Date`, so a wrong clock on either side doesn't matter.
pub(super) fn retry_after(value: &str, date: Option<&str>) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let time = |text: &str| DateTimeParser::new().parse_timestamp(text.trim()).ok();
    let (until, now): (Timestamp, Timestamp) = (time(value)?, time(date?)?);
    Some(Duration::try_from(until.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_differ_and_have_an_end() {
        let retry = Retry {
            seed: 7,
            ..Retry::default()
        };
        let waits: Vec<_> = (1..=12)
            .map(|failures| retry.wait(failures, u64::from(failures)))
            .collect();
        for (failures, wait) in (0..).zip(&waits) {
            let full = Duration::from_millis(500)
                .saturating_mul(1 << failures)
                .min(retry.longest);
            assert!(
                full / 2 <= *wait && *wait <= full,
                "{failures}: {wait:?} of {full:?}"
            );
        }
        assert_eq!(
            waits,
            (1..=12)
                .map(|n| retry.wait(n, u64::from(n)))
                .collect::<Vec<_>>()
        );
        assert_ne!(retry.wait(1, 1), Retry { seed: 8, ..retry }.wait(1, 1));
        assert!(retry.wait(u32::MAX, 0) <= retry.longest);
    }

    #[test]
    fn a_server_asks_for_seconds_or_names_a_time() {
        let seconds = |n| Some(Duration::from_secs(n));
        assert_eq!(retry_after(" 7 ", None), seconds(7));
        assert_eq!(retry_after("0.25", None), Some(Duration::from_millis(250)));
        let now = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(
            retry_after("Sun, 06 Nov 1994 08:50:00 GMT", now),
            seconds(23)
        );
        assert_eq!(
            retry_after("Sun, 06 Nov 1994 08:00:00 GMT", now),
            seconds(0),
            "a time in the past requires no wait"
        );
        for nonsense in ["soon", "-1", "NaN", "inf", ""] {
            assert_eq!(retry_after(nonsense, now), None, "{nonsense}");
        }
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:50:00 GMT", None), None);
    }
}
