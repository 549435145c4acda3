//! Terms on the calendar: the day of the week and the hour at which a run started, in the zone of the
//! reader. They aren't columns, because a run doesn't know that zone.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The days of the week as terms write them.
const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// A field of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CalendarField {
    /// The day of the week.
    Weekday,
    /// The hour of the day.
    Hour,
}

impl CalendarField {
    /// All of them.
    pub const ALL: [CalendarField; 2] = [CalendarField::Weekday, CalendarField::Hour];

    /// Returns the field with this name. Ignores ASCII case.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|field| field.name().eq_ignore_ascii_case(name))
    }

    /// Returns the name in queries.
    pub fn name(self) -> &'static str {
        match self {
            CalendarField::Weekday => "weekday",
            CalendarField::Hour => "hour",
        }
    }

    /// Describes the field, without a full stop.
    pub fn about(self) -> &'static str {
        match self {
            CalendarField::Weekday => {
                "The day of the week on which the run started, in your time zone: mon..fri, sat"
            }
            CalendarField::Hour => {
                "The hour at which the run started, in your time zone: 0 to 23, 9..17, 22..4"
            }
        }
    }

    /// Returns the number of values.
    pub fn count(self) -> u32 {
        match self {
            CalendarField::Weekday => 7,
            CalendarField::Hour => 24,
        }
    }

    /// Returns the word for a value, counted from 0: `mon`, `9`.
    pub fn word(self, value: u32) -> String {
        match self {
            CalendarField::Weekday => {
                let word = WEEKDAYS.get(value as usize).copied();
                word.unwrap_or_default().to_owned()
            }
            CalendarField::Hour => value.to_string(),
        }
    }

    /// Parses what [`word`](Self::word) writes. Days may be spelled out.
    pub(super) fn value(self, text: &str) -> Option<u32> {
        match self {
            CalendarField::Weekday => {
                let names = [
                    "monday",
                    "tuesday",
                    "wednesday",
                    "thursday",
                    "friday",
                    "saturday",
                    "sunday",
                ];
                let text = text.to_ascii_lowercase();
                let is = |name: &&str| text.len() >= 3 && name.starts_with(&text);
                names.iter().position(is).map(|at| at as u32)
            }
            CalendarField::Hour => {
                let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
                let hour = text.parse().ok().filter(|_| is_number);
                hour.filter(|hour| *hour < self.count())
            }
        }
    }

    /// Returns the value at a time in microseconds since the epoch.
    pub fn at(self, micros: i64, zone: &TimeZone) -> Option<u32> {
        let local = zone.to_datetime(Timestamp::from_microsecond(micros).ok()?);
        Some(match self {
            CalendarField::Weekday => local.weekday().to_monday_zero_offset() as u32,
            CalendarField::Hour => local.hour() as u32,
        })
    }
}

/// Some values of a field of the calendar.
#[derive(Debug, Clone, PartialEq)]
pub struct CalendarValues {
    /// The field.
    pub field: CalendarField,
    /// A bit for each value.
    pub(super) values: u32,
    /// The zone of the reader.
    pub(super) zone: TimeZone,
}

impl CalendarValues {
    pub(super) fn hold(&self, micros: f64) -> bool {
        let value = self.field.at(micros as i64, &self.zone);
        value.is_some_and(|value| self.values >> value & 1 == 1)
    }
}

/// Returns a bit for each value from `low` to `high`. If `high` is the lower one, the range continues
/// past the end of the week or the day.
pub(super) fn between(field: CalendarField, low: u32, high: u32) -> u32 {
    let is_within = |value: u32| match low <= high {
        true => (low..=high).contains(&value),
        false => value >= low || value <= high,
    };
    (0..field.count())
        .filter(|value| is_within(*value))
        .fold(0, |bits, value| bits | 1 << value)
}

/// Writes the term, with consecutive values as a range: `hour:9..17,20`.
impl fmt::Display for CalendarValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |value| self.field.word(value);
        let mut parts = Vec::new();
        let mut from = None;
        for value in 0..=self.field.count() {
            let is_in = value < self.field.count() && self.values >> value & 1 == 1;
            match (from, is_in) {
                (None, true) => from = Some(value),
                (Some(first), false) => {
                    parts.push(match value - first {
                        1 => word(first),
                        _ => format!("{}..{}", word(first), word(value - 1)),
                    });
                    from = None;
                }
                _ => {}
            }
        }
        write!(f, "{}:{}", self.field.name(), parts.join(","))
    }
}
