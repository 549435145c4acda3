//! Finds the offset of a session's times in its file of events, which repeats each message with the time
//! in UTC at which it was written.
//!
//! A message is written after its own time: a prompt and a result a moment later, a reply after its
//! calls have run. So the smallest difference is the offset and that moment. Must not know the messages.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use crate::format::part::{quoted, text};
use crate::format::value::{listed, member};
use crate::model::time::parse_ts;

const SECOND: i64 = 1_000_000;
/// Offsets are multiples of this.
const UNIT: i64 = 900 * SECOND;
/// The smallest and the largest offset.
const OFFSETS: RangeInclusive<i64> = -12 * 3_600 * SECOND..=14 * 3_600 * SECOND;
/// A message that took longer to write shows no offset: another one would explain it, too.
const MOMENT: i64 = 60 * SECOND;
/// How many of the newest events are compared. Among these is a prompt or a result.
const EVENTS: usize = 16;

/// Returns what is added to UTC in the times of the messages, in microseconds, if it's certain.
pub(super) fn offset(lines: &str) -> Option<i64> {
    let ahead = events(lines)
        .filter_map(|event| {
            let (written, said) = (parse_ts(&event.written)?, parse_ts(&event.said)?);
            let is_local = written.zoned && !said.zoned;
            said.micros.checked_sub(written.micros).filter(|_| is_local)
        })
        .max()?;
    let offset = ahead
        .checked_add(UNIT - 1)?
        .div_euclid(UNIT)
        .checked_mul(UNIT)?;
    (OFFSETS.contains(&offset) && offset - ahead < MOMENT).then_some(offset)
}

/// Returns the same lines without anything but the times.
pub(crate) fn clock_times(lines: &str) -> String {
    let events: Vec<Event> = events(lines).collect();
    events.iter().rev().fold(String::new(), |mut out, event| {
        let (written, said) = (quoted(&event.written), quoted(&event.said));
        // Writing to a string doesn't fail.
        let _ = writeln!(
            out,
            r#"{{"ts":{written},"payload":{{"message":{{"timestamp":{said}}}}}}}"#
        );
        out
    })
}

/// When an event was written, and the time of its message.
struct Event {
    written: String,
    said: String,
}

/// Returns the newest events, the newest first.
fn events(lines: &str) -> impl Iterator<Item = Event> {
    lines.lines().rev().filter_map(event).take(EVENTS)
}

fn event(line: &str) -> Option<Event> {
    let payload = member(line, "payload")?;
    // A checkpoint has all messages so far. The last one is the newest.
    let message =
        member(payload, "message").or_else(|| listed(member(payload, "messages")).last())?;
    Some(Event {
        written: text(member(line, "ts"))?,
        said: text(member(message, "timestamp"))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lines of events that were written at these times in UTC, with messages of these
    /// times.
    fn lines(events: &[(&str, &str)]) -> String {
        let line = |(written, said): &(&str, &str)| {
            format!(
                r#"{{"seq":1,"ts":"2026-05-04T{written}+00:00","type":"message_append","payload":{{"message":{{"role":"user","content":"\"timestamp\": \"2026-05-04T01:00:00\"","timestamp":"2026-05-04T{said}"}}}}}}"#
            ) + "\n"
        };
        events.iter().map(line).collect()
    }

    #[test]
    fn the_offset_is_the_largest_difference_and_a_moment() {
        let hours =
            |events: &[(&str, &str)]| offset(&lines(events)).map(|offset| offset as f64 / 3_600e6);
        for (events, expected) in [
            (&[("09:00:00.2", "09:00:00.1")][..], Some(0.0)),
            (&[("09:00:07", "04:00:00")], Some(-5.0)),
            (&[("09:00:00", "09:00:00")], Some(0.0)),
            // Nepal.
            (&[("09:00:07", "14:45:00")], Some(5.75)),
            // A reply is written after its calls, which took ten minutes here.
            (
                &[("09:10:00", "11:00:00"), ("09:10:01", "11:10:00")],
                Some(2.0),
            ),
            (&[("09:10:00", "11:00:00")], None),
            (&[("09:00:00", "11:05:00")], None),
            // The time has an offset.
            (&[("09:00:01", "09:00:00Z")], None),
            (&[], None),
        ] {
            assert_eq!(hours(events), expected, "{events:?}");
        }
        let beyond = r#"{"ts":"2026-05-04T09:00:01+00:00","payload":{"message":{"timestamp":"2026-05-05T09:00:00"}}}"#;
        assert_eq!(offset(beyond), None);
        for torn in [
            "",
            "{",
            "{\"ts\":",
            "[]",
            "{\"ts\":1,\"payload\":{\"messages\":[]}}",
        ] {
            assert_eq!(offset(torn), None, "{torn}");
        }
    }

    #[test]
    fn a_checkpoint_counts_with_its_last_message() {
        let checkpoint = r#"{"seq":51,"ts":"2026-05-04T09:00:01+00:00","type":"checkpoint","payload":{"messages":[{"timestamp":"2026-05-04T03:00:00"},{"timestamp":"2026-05-04T04:00:00"}]}}"#;
        assert_eq!(offset(checkpoint), Some(-5 * 3_600 * SECOND));
    }

    #[test]
    fn a_copy_has_only_the_times() {
        let lines = lines(&[("09:00:00", "04:00:00"), ("09:00:07", "04:00:06")]);
        let copy = clock_times(&lines);
        assert_eq!(
            copy,
            concat!(
                r#"{"ts":"2026-05-04T09:00:00+00:00","payload":{"message":{"timestamp":"2026-05-04T04:00:00"}}}"#,
                "\n",
                r#"{"ts":"2026-05-04T09:00:07+00:00","payload":{"message":{"timestamp":"2026-05-04T04:00:06"}}}"#,
                "\n",
            )
        );
        assert_eq!(offset(&copy), offset(&lines));
    }
}
