//! Finds the days of times in the zone of the reader.

use std::collections::HashMap;

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

/// Seconds in a quarter of an hour. The offset of each time zone is a multiple of it.
pub(super) const QUARTER_SECONDS: i64 = 900;

/// Finds the day of a quarter of an hour. Remembers what it found, because a hundred thousand runs
/// share a few thousand quarters.
pub(super) struct Calendar<'a> {
    zone: &'a TimeZone,
    known: HashMap<i32, Option<Moment>>,
}

/// A day, and the hour of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) day: Date,
    /// From 0 to 23.
    pub(super) hour: usize,
}

impl<'a> Calendar<'a> {
    pub(super) fn new(zone: &'a TimeZone) -> Self {
        Self {
            zone,
            known: HashMap::new(),
        }
    }

    /// Returns the day of a quarter of an hour since the epoch.
    pub(super) fn day(&mut self, quarter: Option<i32>) -> Option<Date> {
        self.moment(quarter?).map(|moment| moment.day)
    }

    /// Returns the day and the hour of a time in microseconds since the epoch.
    pub(super) fn at(&mut self, micros: i64) -> Option<Moment> {
        self.moment(quarter(micros)?)
    }

    fn moment(&mut self, quarter: i32) -> Option<Moment> {
        let zone = self.zone;
        *self.known.entry(quarter).or_insert_with(|| {
            let at = Timestamp::from_second(i64::from(quarter) * QUARTER_SECONDS).ok()?;
            let local = zone.to_datetime(at);
            Some(Moment {
                day: local.date(),
                hour: usize::try_from(local.hour()).unwrap_or_default(),
            })
        })
    }
}

/// Returns the quarter of an hour since the epoch of a time in microseconds.
pub(super) fn quarter(micros: i64) -> Option<i32> {
    i32::try_from(micros.div_euclid(QUARTER_SECONDS * 1_000_000)).ok()
}

/// Returns the Monday of the week of `day`.
pub(super) fn monday(day: Date) -> Date {
    let past = i32::from(day.weekday().since(Weekday::Monday));
    day.checked_sub(past.days()).unwrap_or(day)
}
