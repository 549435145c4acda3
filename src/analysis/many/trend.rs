//! Compares a period with the one before: which runs belong to each, and how a number changed.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

use crate::analysis::format;
use crate::analysis::usage::Days;

/// Numbers of things below this are compared as they are, because a percentage of them means little.
pub(super) const FEW: usize = 10;
/// From this ratio on, a factor says more than a percentage.
const FACTOR: f64 = 3.0;

/// A period and the one before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Periods {
    pub(super) days: Days,
    /// The days before, if the period has a first day.
    before: Option<Days>,
    /// The time at which the period before is cut, in microseconds since the epoch, if this one isn't
    /// over: the same time of day, so that a morning isn't compared with a whole day.
    cut: Option<i64>,
}

impl Periods {
    /// `now` is in microseconds since the epoch.
    pub(super) fn new(days: Days, now: i64, zone: &TimeZone) -> Self {
        let now = Timestamp::from_microsecond(now).unwrap_or_default();
        let now = now.to_zoned(zone.clone());
        let today = now.date();
        let is_open = days.until.is_none_or(|until| until >= today);
        let closed = Days {
            until: Some(days.until.map_or(today, |until| until.min(today))),
            ..days
        };
        let before = closed.before();
        let cut = before
            .zip(closed.since)
            .filter(|_| is_open)
            .and_then(|(before, since)| {
                let length = before.since?.until(since).ok()?.get_days();
                // A day of a time zone may have 23 or 25 hours, so days are subtracted, not hours.
                let cut = now.checked_sub(length.days()).ok()?;
                Some(cut.timestamp().as_microsecond())
            });
        Self { days, before, cut }
    }

    /// Returns whether a run that started at this time belongs to the period before.
    pub(super) fn was_before(&self, day: Option<Date>, started: Option<i64>) -> bool {
        let is_cut = || {
            self.cut
                .is_some_and(|cut| started.is_some_and(|at| at > cut))
        };
        self.before
            .is_some_and(|before| day.is_some() && before.has(day) && !is_cut())
    }

    /// Returns the days before, if they are complete: the first run of all is no later than their
    /// first day.
    pub(super) fn complete_before(&self, first: Option<Date>) -> Option<Days> {
        self.before.filter(|before| {
            before
                .since
                .is_some_and(|since| first.is_some_and(|first| first <= since))
        })
    }
}

/// Words a change as a percentage or a factor: `+67%`, `×4.2`. `None` if there was nothing before.
pub(crate) fn relative(now: f64, before: f64) -> Option<String> {
    if before <= 0.0 || !now.is_finite() {
        return None;
    }
    let ratio = now / before;
    Some(if ratio >= FACTOR {
        format!("×{ratio:.1}")
    } else {
        match ((ratio - 1.0) * 100.0).round() as i64 {
            0 => "±0%".to_owned(),
            percent => format!("{}%", format::signed(percent)),
        }
    })
}

/// Words the change of a number of things: `+67%`, or `was 7` if there were few.
pub(crate) fn counts(now: usize, before: usize) -> Option<String> {
    match before {
        0 => (now > 0).then(|| "new".to_owned()),
        1..FEW => Some(format!("was {before}")),
        _ => relative(now as f64, before as f64),
    }
}

/// Words the change of an amount over `runs` runs before: `+67%`, or `was $0.12` if there were few
/// runs.
pub(crate) fn amounts(
    now: f64,
    before: f64,
    runs: usize,
    words: impl Fn(f64) -> String,
) -> Option<String> {
    match runs {
        _ if before <= 0.0 => (now > 0.0).then(|| "new".to_owned()),
        ..FEW => Some(format!("was {}", words(before))),
        _ => relative(now, before),
    }
}
