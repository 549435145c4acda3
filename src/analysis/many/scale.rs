//! Divides a period into days, weeks or months, so that a chart has a bar for each.

use jiff::ToSpan as _;
use jiff::civil::Date;

use crate::analysis::calendar::monday;

/// Maximum number of bars of a chart. A longer period has wider ones.
const MAX_BARS: usize = 92;

/// The length of a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A day.
    Day,
    /// A week from Monday.
    Week,
    /// A month.
    Month,
}

impl Unit {
    /// Returns the word for it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Unit::Day => "day",
            Unit::Week => "week",
            Unit::Month => "month",
        }
    }

    fn start(self, day: Date) -> Date {
        match self {
            Unit::Day => day,
            Unit::Week => monday(day),
            Unit::Month => day.first_of_month(),
        }
    }

    fn next(self, start: Date) -> Option<Date> {
        let span = match self {
            Unit::Day => 1.day(),
            Unit::Week => 7.days(),
            Unit::Month => 1.month(),
        };
        start.checked_add(span).ok()
    }
}

/// The bars of a chart from left to right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scale {
    pub(super) unit: Unit,
    /// The first and the last day of each bar.
    pub(super) bars: Vec<(Date, Date)>,
}

impl Scale {
    /// Divides the days from `first` to `last`. If even months are too many, keeps the newest: one
    /// wrong clock must not squeeze a chart.
    pub(super) fn new(first: Date, last: Date) -> Self {
        let days = first
            .until(last)
            .map_or(0, |span| usize::try_from(span.get_days()).unwrap_or(0) + 1);
        let unit = match days {
            0..=MAX_BARS => Unit::Day,
            _ if days <= 7 * MAX_BARS => Unit::Week,
            _ => Unit::Month,
        };
        let earliest = match unit {
            Unit::Month => last.checked_sub((MAX_BARS as i32 - 1).months()),
            _ => Ok(first),
        };
        let mut start = unit.start(earliest.map_or(first, |earliest| earliest.max(first)));
        let mut bars = Vec::new();
        while start <= last && bars.len() <= MAX_BARS {
            let Some(next) = unit.next(start) else { break };
            let end = next.yesterday().unwrap_or(next).min(last);
            bars.push((start.max(first), end));
            start = next;
        }
        Self { unit, bars }
    }

    /// Returns the bar of a day.
    pub(super) fn bar(&self, day: Date) -> Option<usize> {
        let at = self.bars.partition_point(|(_, end)| *end < day);
        let (start, _) = self.bars.get(at)?;
        (*start <= day).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(first: &str, last: &str) -> Scale {
        Scale::new(first.parse().unwrap(), last.parse().unwrap())
    }

    #[test]
    fn a_bar_is_a_day_a_week_or_a_month() {
        let days = scale("2026-10-27", "2026-11-25");
        assert_eq!((days.unit, days.bars.len()), (Unit::Day, 30));
        assert_eq!(days.bar("2026-10-27".parse().unwrap()), Some(0));
        assert_eq!(days.bar("2026-11-25".parse().unwrap()), Some(29));
        assert_eq!(days.bar("2026-11-26".parse().unwrap()), None);
        assert_eq!(days.bar("2026-10-26".parse().unwrap()), None);
        // Both ends are in the middle of a week.
        let weeks = scale("2026-01-01", "2026-11-25");
        assert_eq!((weeks.unit, weeks.bars.len()), (Unit::Week, 48));
        assert_eq!(weeks.bars[0].1.to_string(), "2026-01-04");
        assert_eq!(weeks.bars[47].1.to_string(), "2026-11-25");
        let months = scale("2023-05-17", "2026-11-25");
        assert_eq!((months.unit, months.bars.len()), (Unit::Month, 43));
        assert_eq!(months.bar("2023-05-17".parse().unwrap()), Some(0));
    }

    #[test]
    fn a_wrong_clock_leaves_the_newest_bars() {
        let scale = scale("1970-01-01", "2026-11-25");
        assert_eq!(scale.bars.len(), MAX_BARS);
        assert_eq!(scale.bar("1970-01-01".parse().unwrap()), None);
        assert_eq!(scale.bar("2026-11-25".parse().unwrap()), Some(MAX_BARS - 1));
    }
}
