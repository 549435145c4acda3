//! Parses durations in seconds, with or without a fraction.

use std::time::Duration;

use serde::Deserialize;

/// A duration above 0.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
pub(in crate::llm) struct Seconds(pub(in crate::llm) Duration);

impl Seconds {
    pub(super) fn ten() -> Self {
        Self(Duration::from_secs(10))
    }

    pub(super) fn ten_minutes() -> Self {
        Self(Duration::from_secs(600))
    }
}

impl TryFrom<f64> for Seconds {
    type Error = &'static str;

    fn try_from(seconds: f64) -> std::result::Result<Self, &'static str> {
        let duration = Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|duration| !duration.is_zero());
        duration
            .map(Self)
            .ok_or("expected a number of seconds above 0")
    }
}
