//! Formats times as RFC 3339 in UTC with six fractional digits, computing the calendar date at most
//! once per second.

use std::io::Write as _;

use jiff::Timestamp;
use jiff::tz::Offset;

const MICROS: i64 = 1_000_000;

/// Formats times, and caches the last second, because a run writes many lines per second.
#[derive(Debug, Default)]
pub(super) struct Stamper {
    second: Option<i64>,
    /// The cached second, such as `2026-11-22T00:57:00`.
    text: Vec<u8>,
}

impl Stamper {
    /// Appends `ts`, in microseconds since the epoch, as `2026-11-22T00:57:00.123456Z`. Returns
    /// false and appends nothing if the time isn't in the years 0 to 9999, which is all that RFC
    /// 3339 can express.
    #[must_use]
    pub(super) fn write(&mut self, ts: i64, out: &mut Vec<u8>) -> bool {
        let second = ts.div_euclid(MICROS);
        if self.second != Some(second) && self.spell(second).is_none() {
            return false;
        }
        out.extend_from_slice(&self.text);
        out.push(b'.');
        let fraction = ts.rem_euclid(MICROS);
        let digit = |unit: i64| b'0' + (fraction / unit % 10) as u8;
        out.extend([100_000, 10_000, 1_000, 100, 10, 1].map(digit));
        out.push(b'Z');
        true
    }

    /// Returns the time as a string. `None` where [`write`](Self::write) returns false.
    pub(super) fn text(&mut self, ts: i64) -> Option<String> {
        let mut out = Vec::new();
        let is_written = self.write(ts, &mut out);
        is_written.then(|| String::from_utf8_lossy(&out).into_owned())
    }

    fn spell(&mut self, second: i64) -> Option<()> {
        let at = Timestamp::from_second(second).ok()?;
        let at = Offset::UTC.to_datetime(at);
        if at.year() < 0 {
            return None;
        }
        self.second = None;
        self.text.clear();
        let (year, month, day) = (at.year(), at.month(), at.day());
        let (hour, minute, seconds) = (at.hour(), at.minute(), at.second());
        write!(
            self.text,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{seconds:02}"
        )
        .ok()?;
        self.second = Some(second);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::time::parse_ts;

    #[test]
    fn a_second_is_spelled_once_and_stays_right() {
        let mut stamper = Stamper::default();
        assert_eq!(
            stamper.text(1_795_309_020_123_456).unwrap(),
            "2026-11-22T00:57:00.123456Z"
        );
        assert_eq!(
            stamper.text(1_795_309_020_000_007).unwrap(),
            "2026-11-22T00:57:00.000007Z"
        );
        assert_eq!(
            stamper.text(1_795_309_021_000_000).unwrap(),
            "2026-11-22T00:57:01.000000Z"
        );
        assert_eq!(stamper.text(-1).unwrap(), "1969-12-31T23:59:59.999999Z");
    }

    #[test]
    fn what_no_reader_takes_for_a_time_is_left_out() {
        let mut stamper = Stamper::default();
        for ts in [i64::MIN, i64::MAX, -62_167_219_200_000_001] {
            let mut out = Vec::new();
            assert!(!stamper.write(ts, &mut out));
            assert!(out.is_empty());
        }
        assert_eq!(
            stamper.text(-62_167_219_200_000_000).unwrap(),
            "0000-01-01T00:00:00.000000Z"
        );
    }

    proptest! {
        #[test]
        fn every_moment_reads_back(ts in -62_167_219_200_000_000..=Timestamp::MAX.as_microsecond()) {
            let stamp = parse_ts(&Stamper::default().text(ts).unwrap()).unwrap();
            prop_assert_eq!((stamp.micros, stamp.zoned), (ts, true));
        }
    }
}
