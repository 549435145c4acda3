//! Parses the times of a trace into microseconds since the Unix epoch.
//!
//! Uses neither a clock nor the local time zone. Callers provide "now" and the reader's zone.

use std::ops::RangeInclusive;
use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Longer texts aren't times. The cap bounds the work on hostile input.
const MAX_LEN: usize = 64;

const MICROS: i64 = 1_000_000;

/// The times that `jiff` can print. The last day of year 9999 exists in some time zones only.
static RANGE: LazyLock<RangeInclusive<i64>> =
    LazyLock::new(|| Timestamp::MIN.as_microsecond()..=Timestamp::MAX.as_microsecond());

/// A recorded time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// Microseconds since 1970-01-01T00:00:00Z, rounded down.
    pub micros: i64,
    /// Whether the text named its UTC offset. If not, `micros` treats the local time as UTC.
    pub zoned: bool,
}

/// Parses an ISO 8601 time. Returns `None` if the text isn't a valid time between the years 0 and
/// 9999.
///
/// The spelling that Python writes, `2026-08-04T09:15:02.123456+00:00`, is parsed here. All others
/// are left to `jiff`. Neither allocates.
pub fn parse_ts(text: &str) -> Option<Stamp> {
    let text = text.trim_ascii();
    if text.len() > MAX_LEN {
        return None;
    }
    let stamp = common(text.as_bytes()).or_else(|| spelled(text))?;
    RANGE.contains(&stamp.micros).then_some(stamp)
}

/// Parses `YYYY-MM-DDTHH:MM:SS`, an optional fraction, and `Z`, `±HH:MM` or nothing. Returns `None`
/// for all other spellings.
fn common(bytes: &[u8]) -> Option<Stamp> {
    let (head, tail) = bytes.split_first_chunk::<19>()?;
    let &[
        y1,
        y2,
        y3,
        y4,
        b'-',
        o1,
        o2,
        b'-',
        d1,
        d2,
        b'T' | b' ',
        h1,
        h2,
        b':',
        m1,
        m2,
        b':',
        s1,
        s2,
    ] = head
    else {
        return None;
    };
    let year = two(y1, y2)? * 100 + two(y3, y4)?;
    let (month, day) = (two(o1, o2)?, two(d1, d2)?);
    let (hour, minute, second) = (two(h1, h2)?, two(m1, m2)?, two(s1, s2)?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (fraction, tail) = fraction(tail)?;
    let (offset, zoned) = match *tail {
        [] => (0, false),
        [b'Z'] => (0, true),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (two(h1, h2)?, two(m1, m2)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let seconds = hours * 3600 + minutes * 60;
            (if sign == b'-' { -seconds } else { seconds }, true)
        }
        _ => return None,
    };
    let seconds =
        days_since_epoch(year, month, day)? * 86_400 + hour * 3600 + minute * 60 + second - offset;
    Some(Stamp {
        micros: seconds * MICROS + fraction,
        zoned,
    })
}

/// Formats microseconds since the epoch as RFC 3339 in UTC. Returns `None` outside the years 0 to
/// 9999.
pub fn rfc3339(micros: i64) -> Option<String> {
    let (seconds, fraction) = (micros.div_euclid(MICROS), micros.rem_euclid(MICROS));
    let (hour, minute, second) = (
        seconds.rem_euclid(86_400) / 3600,
        seconds.rem_euclid(3600) / 60,
        seconds.rem_euclid(60),
    );
    Some(format!(
        "{}T{hour:02}:{minute:02}:{second:02}.{fraction:06}Z",
        day(micros)?
    ))
}

/// Formats microseconds since the epoch in UTC for JSON, with a sign before years outside 0 to
/// 9999. Returns `None` if the year can't be represented as a date.
pub fn utc(micros: i64) -> Option<String> {
    rfc3339(micros).or_else(|| {
        let at = Timestamp::from_microsecond(micros).ok()?;
        Some(at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string())
    })
}

/// Returns the day of a time in UTC, as in `2026-02-22`. Returns `None` outside the years 0 to
/// 9999.
pub fn day(micros: i64) -> Option<String> {
    // In years that begin in March, a leap day is the last day.
    let days = micros.div_euclid(86_400 * MICROS) + DAYS_TO_1970 - 60;
    let (century, of_century) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_century - of_century / 1460 + of_century / 36_524 - of_century / 146_096) / 365;
    let of_year = of_century - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = century * 400 + year + next;
    (0..=9999)
        .contains(&year)
        .then(|| format!("{year:04}-{month:02}-{day:02}"))
}

/// Parses `.ffffff` of one to nine digits as microseconds, and returns the rest of the input.
fn fraction(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let Some((b'.', rest)) = bytes.split_first() else {
        return Some((0, bytes));
    };
    let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if !(1..=9).contains(&len) {
        return None;
    }
    let (digits, tail) = rest.split_at_checked(len)?;
    let padded = digits
        .iter()
        .copied()
        .chain(std::iter::repeat(b'0'))
        .take(6);
    Some((
        padded.fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')),
        tail,
    ))
}

fn two(tens: u8, ones: u8) -> Option<i64> {
    (tens.is_ascii_digit() && ones.is_ascii_digit())
        .then(|| i64::from(tens - b'0') * 10 + i64::from(ones - b'0'))
}

/// Returns the days from 1970-01-01 in the proleptic Gregorian calendar, or `None` if the month has
/// no such day.
fn days_since_epoch(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let (before, length) = match month {
        1 => (0, 31),
        2 => (31, if leap { 29 } else { 28 }),
        3 => (59, 31),
        4 => (90, 30),
        5 => (120, 31),
        6 => (151, 30),
        7 => (181, 31),
        8 => (212, 31),
        9 => (243, 30),
        10 => (273, 31),
        11 => (304, 30),
        12 => (334, 31),
        _ => return None,
    };
    if !(1..=length).contains(&day) {
        return None;
    }
    // Every earlier year has 365 days, plus a leap day by the rules of 4, 100 and 400. Year 0 has
    // one too.
    let past = year - 1;
    let leap_days = past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400) + 1;
    let from_year_0 = year * 365 + leap_days + before + i64::from(leap && month > 2) + day - 1;
    Some(from_year_0 - DAYS_TO_1970)
}

/// Days from 0000-01-01 to 1970-01-01: 1970 * 365 + 478 leap days.
const DAYS_TO_1970: i64 = 719_528;

fn spelled(text: &str) -> Option<Stamp> {
    let (at, zoned) = match text.parse::<Timestamp>() {
        Ok(at) => (at, true),
        // A civil time would ignore a time zone that the first parser rejected, so a text with one
        // ends here.
        Err(_) if names_zone(text) => return None,
        Err(_) => (
            text.parse::<DateTime>()
                .ok()?
                .to_zoned(TimeZone::UTC)
                .ok()?
                .timestamp(),
            false,
        ),
    };
    let micros = at.as_nanosecond().div_euclid(1000);
    Some(Stamp {
        micros: i64::try_from(micros).ok()?,
        zoned,
    })
}

fn names_zone(text: &str) -> bool {
    let clock = text
        .split_once(['T', 't', ' '])
        .map_or("", |(_, clock)| clock);
    clock.contains(['Z', 'z', '+', '-', '['])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn zoned(micros: i64) -> Option<Stamp> {
        Some(Stamp {
            micros,
            zoned: true,
        })
    }

    #[test]
    fn what_python_writes() {
        assert_eq!(parse_ts("1970-01-01T00:00:00+00:00"), zoned(0));
        assert_eq!(
            parse_ts("2026-02-22T04:41:38.940343+00:00"),
            zoned(1_771_735_298_940_343)
        );
        assert_eq!(
            parse_ts("2026-02-22T04:41:38.940343Z"),
            zoned(1_771_735_298_940_343)
        );
        assert_eq!(
            parse_ts("2026-02-22T05:41:38.940343+01:00"),
            zoned(1_771_735_298_940_343)
        );
        assert_eq!(
            parse_ts("2026-02-21T23:11:38.940343-05:30"),
            zoned(1_771_735_298_940_343)
        );
        assert_eq!(
            parse_ts(" 2026-02-22T04:41:38Z\n"),
            zoned(1_771_735_298_000_000)
        );
    }

    #[test]
    fn a_time_without_offset_is_flagged() {
        let stamp = |micros| {
            Some(Stamp {
                micros,
                zoned: false,
            })
        };
        assert_eq!(parse_ts("1970-01-01T00:00:01"), stamp(1_000_000));
        assert_eq!(parse_ts("1970-01-01 00:00:00.5"), stamp(500_000));
        assert_eq!(parse_ts("1970-01-02"), stamp(86_400_000_000));
    }

    #[test]
    fn fractions_are_cut_towards_the_past() {
        assert_eq!(parse_ts("1970-01-01T00:00:00.1Z"), zoned(100_000));
        assert_eq!(parse_ts("1970-01-01T00:00:00.1234567Z"), zoned(123_456));
        assert_eq!(parse_ts("1969-12-31T23:59:59.999999999Z"), zoned(-1));
        // The same through `jiff`, which also accepts a comma.
        assert_eq!(parse_ts("1969-12-31T23:59:59,999999999Z"), zoned(-1));
        assert_eq!(parse_ts("1970-01-01T00:00:00.Z"), None);
    }

    #[test]
    fn leap_days_and_leap_seconds() {
        assert!(parse_ts("2024-02-29T00:00:00Z").is_some());
        assert!(parse_ts("2000-02-29T00:00:00Z").is_some());
        assert_eq!(parse_ts("1900-02-29T00:00:00Z"), None);
        assert_eq!(parse_ts("2023-02-29T00:00:00Z"), None);
        assert_eq!(
            parse_ts("2016-12-31T23:59:60Z"),
            parse_ts("2016-12-31T23:59:59Z")
        );
    }

    #[test]
    fn what_is_no_time() {
        for text in [
            "",
            "now",
            "1771735298",
            "2026-02-30T00:00:00Z",
            "2026-04-31T00:00:00Z",
            "2026-00-10T00:00:00Z",
            "2026-13-10T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:61Z",
            "2026-01-01T00:00:00+99:00",
            "2026-01-01T00:00:00+00:60",
            "2026-01-01T00:00:00 noon",
            "2026-01-01T00:00:00Z!",
            "2026-01-01T00:00:00[Nowhere/Land]",
            "9999-12-31T23:59:59Z",
            "\u{664}026-01-01T00:00:00Z",
        ] {
            assert_eq!(parse_ts(text), None, "{text}");
        }
        assert_eq!(parse_ts(&"2026-01-01T00:00:00Z".repeat(100)), None);
    }

    #[test]
    fn other_spellings_go_through_jiff() {
        assert_eq!(
            parse_ts("20260222T044138.940343Z"),
            zoned(1_771_735_298_940_343)
        );
        assert_eq!(
            parse_ts("2026-02-22t04:41:38.940343z"),
            zoned(1_771_735_298_940_343)
        );
        assert_eq!(
            parse_ts("2026-02-22T04:41:38.940343+0000"),
            zoned(1_771_735_298_940_343)
        );
    }

    proptest! {
        #[test]
        fn the_short_way_agrees_with_jiff(
            year in 1i64..9998, month in 0i64..14, day in 0i64..33, hour in 0i64..25, minute in 0i64..61,
            second in 0i64..60, fraction in "|\\.[0-9]{1,9}", zone in "|Z|[+-]([01][0-9]|2[0-3]):[0-6][0-9]",
        ) {
            let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}{zone}");
            prop_assert_eq!(common(text.as_bytes()), spelled(&text), "{}", text);
        }

        #[test]
        fn every_moment_of_jiff_reads_back(micros in Timestamp::MIN.as_microsecond()..=Timestamp::MAX.as_microsecond()) {
            let at = Timestamp::from_microsecond(micros).unwrap();
            let text = at.strftime("%Y-%m-%dT%H:%M:%S.%6f+00:00").to_string();
            if !text.starts_with('-') {
                prop_assert_eq!(common(text.as_bytes()), zoned(micros));
                prop_assert_eq!(rfc3339(micros), Some(text.replace("+00:00", "Z")));
                prop_assert_eq!(day(micros), text.get(..10).map(str::to_owned));
            }
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            parse_ts(&text);
        }

        #[test]
        fn nothing_near_a_time_panics(text in "[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.,+Z\\[\\]-]{0,24}") {
            parse_ts(&text);
        }
    }
}
