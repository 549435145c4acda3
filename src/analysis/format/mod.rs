//! Formats durations, times, counts and sizes, with one function each, for pages and the terminal.
//!
//! Must not read the clock or the system's time zone. Both are parameters, so that the same call
//! always gives the same words.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

pub(crate) use crate::analysis::number::{counted, grouped as count};
pub(crate) use crate::model::names::lowered;
use crate::model::time::Stamp;

#[cfg(test)]
mod tests;
mod visible;

pub use visible::visible;
pub(crate) use visible::{json_visible, visible_line};

/// The text for a value that isn't recorded.
pub(crate) const MISSING: &str = "–";

/// The sign of a negative number.
pub(crate) const MINUS: char = '−';

/// Shows a value, or [`MISSING`].
pub(crate) fn or_missing<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| MISSING.to_owned(), show)
}

/// Formats a duration recorded as a number of milliseconds.
pub(crate) fn millis(ms: f64) -> String {
    match Duration::try_from_secs_f64(ms / 1000.0) {
        Ok(shown) => duration(shown),
        // A negative or too large number is shown as recorded.
        Err(_) => format!("{ms} ms"),
    }
}

/// Formats a duration: `26.0 ms`, `412 ms`, `3.4 s`, `5 min 9 s`, `2 h 7 min`, `3 d 4 h`.
///
/// Rounds to the last digit shown. A duration that rounds up to the next unit is shown in that
/// unit.
pub(crate) fn duration(duration: Duration) -> String {
    let micros = duration.as_micros();
    let rounded = |unit: u128| (micros + unit / 2) / unit;
    let (tenths_ms, ms, tenths_s) = (rounded(100), rounded(1000), rounded(100_000));
    let (s, min, h) = (
        rounded(1_000_000),
        rounded(60_000_000),
        rounded(3_600_000_000),
    );
    if duration.is_zero() {
        "0 ms".to_owned()
    } else if tenths_ms == 0 {
        "<0.1 ms".to_owned()
    } else if tenths_ms < 1000 {
        format!("{}.{} ms", tenths_ms / 10, tenths_ms % 10)
    } else if ms < 1000 {
        format!("{ms} ms")
    } else if tenths_s < 600 {
        format!("{}.{} s", tenths_s / 10, tenths_s % 10)
    } else if s < 3600 {
        two_units((s / 60, "min"), (s % 60, "s"))
    } else if min < 24 * 60 {
        two_units((min / 60, "h"), (min % 60, "min"))
    } else {
        two_units((h / 24, "d"), (h % 24, "h"))
    }
}

/// Formats `4 min 5 s`, or `4 min` without a rest.
fn two_units((whole, unit): (u128, &str), (rest, smaller): (u128, &str)) -> String {
    match rest {
        0 => format!("{whole} {unit}"),
        rest => format!("{whole} {unit} {rest} {smaller}"),
    }
}

/// Formats a time in a run relative to its start: `+17.442 s`, `+5 min 09.442 s`, or `−0.003 s` if
/// clocks disagree.
pub(crate) fn offset(micros: i64) -> String {
    offset_to(micros, 1000, 3)
}

/// Formats like [`offset`] with one decimal, for narrow columns: `+17.4 s`.
pub(crate) fn offset_short(micros: i64) -> String {
    offset_to(micros, 100_000, 1)
}

fn offset_to(micros: i64, unit: u64, digits: usize) -> String {
    let parts = (micros.unsigned_abs() + unit / 2) / unit;
    let sign = if micros < 0 && parts > 0 { MINUS } else { '+' };
    let per_second = 1_000_000 / unit;
    let (seconds, fraction) = (parts / per_second, parts % per_second);
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{sign}{s}.{fraction:0digits$} s"),
        (0, min, s) => format!("{sign}{min} min {s:02}.{fraction:0digits$} s"),
        (h, min, s) => format!(
            "{sign}{} h {min:02} min {s:02}.{fraction:0digits$} s",
            count(h)
        ),
    }
}

/// Formats an age: `4 s ago`, `4 min ago`, `3 h ago`, `5 d ago`. After a week it's a date: `22
/// Feb`, or `22 Feb 2025` in another year.
///
/// Both times are microseconds since the Unix epoch. A time in the future reads `in 4 s`, so that
/// readers notice when the clocks of two machines disagree.
pub(crate) fn age(micros: i64, now: i64, zone: &TimeZone) -> String {
    let seconds = now.abs_diff(micros) / 1_000_000;
    let words = match seconds {
        0 => return "now".to_owned(),
        1..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        86_400..604_800 => format!("{} d", seconds / 86_400),
        _ => return date(micros, now, zone),
    };
    if micros > now {
        format!("in {words}")
    } else {
        format!("{words} ago")
    }
}

/// Formats a date: `22 Feb`, or `22 Feb 2025` if `now` is in another year.
pub(crate) fn date(micros: i64, now: i64, zone: &TimeZone) -> String {
    let local = |micros| {
        Timestamp::from_microsecond(micros)
            .ok()
            .map(|at| at.to_zoned(zone.clone()))
    };
    match (local(micros), local(now)) {
        (Some(at), Some(now)) if at.year() == now.year() => at.strftime("%-d %b").to_string(),
        (Some(at), _) => at.strftime("%-d %b %Y").to_string(),
        _ => MISSING.to_owned(),
    }
}

/// The texts of a `<time>` element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Clock {
    /// The local 24-hour time: `09:15:02`.
    pub text: String,
    /// The full time, with the name of the zone: `22 Feb 2026, 09:15:02.123 Europe/Berlin
    /// (+01:00)`.
    pub title: String,
    /// The value of `datetime`: `2026-02-22T09:15:02.123456+01:00`.
    pub iso: String,
}

/// Formats a time in `zone`. A time without a recorded zone is shown as written, and the title says
/// so. Returns `None` for years outside the supported range.
pub(crate) fn clock(stamp: Stamp, zone: &TimeZone) -> Option<Clock> {
    let zone = if stamp.zoned {
        zone.clone()
    } else {
        TimeZone::UTC
    };
    let at = Timestamp::from_microsecond(stamp.micros)
        .ok()?
        .to_zoned(zone);
    let text = |format: &str| at.strftime(format).to_string();
    Some(Clock {
        text: text("%H:%M:%S"),
        title: match at.time_zone().iana_name() {
            _ if !stamp.zoned => text("%-d %b %Y, %H:%M:%S.%3f, zone not recorded"),
            // A system may name the zone either way.
            Some("UTC" | "Etc/UTC") => text("%-d %b %Y, %H:%M:%S.%3f UTC"),
            Some(name) => format!(
                "{} {name} ({})",
                text("%-d %b %Y, %H:%M:%S.%3f"),
                text("%:z")
            ),
            None => text("%-d %b %Y, %H:%M:%S.%3f (%:z)"),
        },
        iso: text(if stamp.zoned {
            "%Y-%m-%dT%H:%M:%S.%6f%:z"
        } else {
            "%Y-%m-%dT%H:%M:%S.%6f"
        }),
    })
}

/// The explanation of the `≈` prefix.
pub(crate) const SOME_ESTIMATED: &str = "some tokens are estimated";

/// Returns the prefix of a number: `≥` for a lower bound, `≈` if part of it is estimated.
pub(crate) fn bound(is_lower_bound: bool, is_estimate: bool) -> &'static str {
    match (is_lower_bound, is_estimate) {
        (false, false) => "",
        (false, true) => "≈",
        (true, false) => "≥",
        (true, true) => "≥≈",
    }
}

/// Formats a number of tokens for a table: `9,686`, `17.2k` above 10,000, `1.2M` above a million.
///
/// Use [`count`] to show all digits.
pub(crate) fn tokens(number: u64) -> String {
    match number {
        ..10_000 => count(number),
        10_000..99_950 => tenths_of(number, 1000, "k").replace(".0k", "k"),
        99_950..999_500 => format!("{}k", count((number + 500) / 1000)),
        _ => tenths_of(number, 1_000_000, "M"),
    }
}

/// Formats a size: `248 bytes`, `4.1 KB`, `1.2 MB`. A KB is 1,000 bytes.
pub(crate) fn bytes(number: u64) -> String {
    match number {
        1 => "1 byte".to_owned(),
        0 | 2..1000 => format!("{number} bytes"),
        1000..999_950 => tenths_of(number, 1000, " KB"),
        999_950..999_950_000 => tenths_of(number, 1_000_000, " MB"),
        _ => tenths_of(number, 1_000_000_000, " GB"),
    }
}

/// Formats `number` in multiples of `unit` with one decimal, followed by `suffix`.
fn tenths_of(number: u64, unit: u64, suffix: &str) -> String {
    let tenths = (u128::from(number) * 10 + u128::from(unit) / 2) / u128::from(unit);
    format!(
        "{}.{}{suffix}",
        count(u64::try_from(tenths / 10).unwrap_or(u64::MAX)),
        tenths % 10
    )
}

/// Formats a score with two decimals: `0.90`, `−0.50`. Returns [`MISSING`] for a score that isn't
/// finite. The recorded values of the step show such a score.
pub(crate) fn score(score: f64) -> String {
    /// The decimals of larger scores are noise.
    const LARGE: f64 = 1e6;
    if !score.is_finite() {
        return MISSING.to_owned();
    }
    let text = if score.abs() < LARGE {
        format!("{:.2}", score.abs())
    } else {
        format!("{:.2e}", score.abs())
    };
    if score < 0.0 && text != "0.00" {
        format!("{MINUS}{text}")
    } else {
        text
    }
}

/// Formats an exit code: `1`, `−1`.
pub(crate) fn exit_code(code: i64) -> String {
    let sign = if code < 0 { "\u{2212}" } else { "" };
    format!("{sign}{}", code.unsigned_abs())
}

/// Formats an amount in US dollars: `$12.50`, below a dollar `$0.0042`. An amount other than zero
/// never reads as zero: `<$0.0001`.
pub(crate) fn usd(amount: f64) -> String {
    /// No run costs this much. The digits of such a number mean nothing, and there may be 309 of
    /// them.
    const LARGE: f64 = 1e9;
    let (size, sign) = (amount.abs(), if amount < 0.0 { "\u{2212}" } else { "" });
    match size {
        _ if !size.is_finite() => MISSING.to_owned(),
        0.0 => "$0".to_owned(),
        _ if size < 0.0001 => format!("<{sign}$0.0001"),
        _ if size < 0.99995 => format!("{sign}${size:.4}"),
        _ if size < LARGE => format!("{sign}${size:.2}"),
        _ => format!("{sign}${size:.2e}"),
    }
}

/// Formats a cost with its marks: `≥≈$1.20`.
pub(crate) fn cost(cost: Option<f64>, is_estimated: bool, is_lower_bound: bool) -> String {
    let Some(cost) = cost else {
        return MISSING.to_owned();
    };
    let words = usd(cost);
    // A tiny amount is already inexact.
    let is_tiny = words.starts_with('<');
    let mark = bound(is_lower_bound, is_estimated && !is_tiny);
    format!("{mark}{words}")
}

/// Formats a share in whole percent: `11%`. A share other than zero or all never reads as such:
/// `<1%`, `>99%`.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return MISSING.to_owned();
    }
    let (part, whole) = (u128::from(part), u128::from(whole));
    match (part * 100 + whole / 2) / whole {
        0 if part > 0 => "<1%".to_owned(),
        100 if part < whole => ">99%".to_owned(),
        share => format!("{share}%"),
    }
}

/// Returns the last component of a path.
pub(crate) fn last_part(path: &str) -> &str {
    let trimmed = path.trim_end_matches(['/', '\\']);
    let name = trimmed.rsplit(['/', '\\']).next().unwrap_or_default();
    if name.is_empty() { path } else { name }
}

/// Formats a difference with its sign: `+3`, `−1,200`, `0`.
pub(crate) fn signed(number: i64) -> String {
    match number {
        0 => "0".to_owned(),
        1.. => format!("+{}", count(number.unsigned_abs())),
        _ => format!("{MINUS}{}", count(number.unsigned_abs())),
    }
}

/// Formats a range: `7–13`, or `7` if both ends are equal.
pub(crate) fn range(from: u64, to: u64) -> String {
    if from == to {
        count(from)
    } else {
        format!("{}–{}", count(from), count(to))
    }
}

/// Formats a number: `1,000`, `0.25`.
pub(crate) fn number(value: f64) -> String {
    if value >= 0.0 && value.fract() == 0.0 && value < 9e15 {
        count(value as u64)
    } else {
        value.to_string()
    }
}

/// Formats a measured number with its unit.
pub(crate) fn amount(value: f64, unit: &str) -> String {
    match unit {
        "ms" => millis(value),
        "usd" => usd(value),
        "" => number(value),
        // The recorded unit of loop detection.
        "equal texts" => amount(value, "identical replies"),
        // Units are recorded in the plural.
        _ if value == 1.0 => format!("1 {}", unit.strip_suffix('s').unwrap_or(unit)),
        _ => format!("{} {unit}", number(value)),
    }
}

/// Makes the first letter uppercase.
pub(crate) fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(chars).collect()
    })
}
