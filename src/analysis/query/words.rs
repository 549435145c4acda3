//! The values that query terms compare fields with.

use std::fmt;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::analysis::columns::{Column, Kind};

/// A text to search for, ignoring letter case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needle {
    text: String,
    folded: String,
}

impl Needle {
    /// Creates a needle from `text`.
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            folded: text.to_lowercase(),
            text,
        }
    }

    /// Returns the text as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn same(&self, other: &Needle) -> bool {
        self.folded == other.folded
    }

    pub(super) fn fits(&self, text: &str, whole: bool) -> bool {
        if whole {
            self.equals(text)
        } else {
            self.within(text)
        }
    }

    fn equals(&self, text: &str) -> bool {
        text.eq_ignore_ascii_case(&self.folded)
            || (!text.is_ascii() && text.to_lowercase() == self.folded)
    }

    /// Returns whether `text` contains the needle. Short needles in ASCII text are found without
    /// copying the text. Long ones use a linear-time search.
    pub fn within(&self, text: &str) -> bool {
        const SHORT: usize = 64;
        let needle = self.folded.as_bytes();
        let Some((&first, _)) = needle.split_first() else {
            return true;
        };
        if needle.len() > SHORT || !text.is_ascii() {
            return text.to_lowercase().contains(&self.folded);
        }
        memchr::memchr2_iter(first, first.to_ascii_uppercase(), text.as_bytes()).any(|at| {
            text.as_bytes()
                .get(at..at + needle.len())
                .is_some_and(|part| part.eq_ignore_ascii_case(needle))
        })
    }
}

/// Writes the value of a field, quoted if it would otherwise parse as something else.
impl fmt::Display for Needle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text.as_str();
        let special = |c: char| c.is_whitespace() || c == ',' || c == '"';
        if text.is_empty()
            || text.eq_ignore_ascii_case("none")
            || text.starts_with(['<', '>', '='])
            || text.contains("..")
            || text.contains(special)
        {
            quoted(text, f)
        } else {
            f.write_str(text)
        }
    }
}

pub(super) fn quoted(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A key of the state, quoted on display if necessary.
pub(super) struct Key<'a>(pub(super) &'a str);

impl Key<'_> {
    /// Returns whether `c` ends an unquoted key.
    pub(super) fn ends(c: char) -> bool {
        c.is_whitespace() || matches!(c, '"' | ':' | '<' | '>' | '=' | ',')
    }
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.contains(Key::ends) {
            quoted(self.0, f)
        } else {
            f.write_str(self.0)
        }
    }
}

/// The current time and the time zone, which relative dates such as `today` and `7d` need.
#[derive(Debug, Clone)]
pub struct Clock {
    now: Zoned,
}

impl Clock {
    /// Creates a clock that shows `micros` since the epoch in `zone`. A time that can't be
    /// represented counts as the epoch.
    pub fn at(micros: i64, zone: &TimeZone) -> Self {
        let now = Timestamp::from_microsecond(micros).unwrap_or_default();
        Self {
            now: now.to_zoned(zone.clone()),
        }
    }

    /// Creates a clock that shows the current time in the zone of the system.
    pub fn system() -> Self {
        Self { now: Zoned::now() }
    }

    /// Returns the zone of the clock.
    pub fn zone(&self) -> &TimeZone {
        self.now.time_zone()
    }

    /// Returns the current day.
    pub fn today(&self) -> Date {
        self.now.date()
    }

    fn micros(&self) -> i64 {
        self.now.timestamp().as_microsecond()
    }

    /// Returns the first and last microsecond of the day that is `back` days before today.
    fn day(&self, back: i64) -> Option<(f64, f64)> {
        let day = self.now.date().checked_sub(jiff::Span::new().days(back));
        whole_day(day.ok()?, self.zone())
    }

    /// Returns the time that lies `text` before now: `90s`, `30m`, `2h`, `7d` or `2w`.
    fn ago(&self, text: &str) -> Option<f64> {
        let units = [
            ("s", 1.0),
            ("min", 60.0),
            ("m", 60.0),
            ("h", 3_600.0),
            ("d", 86_400.0),
            ("w", 604_800.0),
        ];
        let (digits, seconds) = units
            .into_iter()
            .find_map(|(name, seconds)| Some((text.strip_suffix(name)?, seconds)))?;
        let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.parse::<f64>().ok().filter(|_| is_whole)?;
        Some(self.micros() as f64 - number * seconds * 1e6)
    }
}

/// The notation of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// `k` for thousands, `M` for millions.
    Count,
    /// `ms`, `s`, `m` or `h`; seconds without a unit.
    Seconds,
    /// A day, minute or second, `today`, `yesterday`, or a time before now such as `7d`.
    Moment,
}

impl Unit {
    /// Returns the notation of the numbers in `field`, or `None` if it has no numbers.
    pub(super) fn of(field: &Column) -> Option<Self> {
        match field.kind {
            Kind::Count(_) | Kind::Score(_) | Kind::Usd(_) => Some(Unit::Count),
            Kind::Millis(_) => Some(Unit::Seconds),
            Kind::Time(_) => Some(Unit::Moment),
            Kind::Word(_) | Kind::Text(_) | Kind::List(_) | Kind::Flag(_) => None,
        }
    }
}

/// A number as written, and its value. A day or a minute covers all of its microseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Amount {
    text: String,
    value: f64,
    last: f64,
    /// Whether this is a time before now, such as `7d`. Alone it means the time since then.
    is_ago: bool,
    /// Whether this depends on the current time.
    is_relative: bool,
}

impl Amount {
    /// Returns the value: seconds for durations, microseconds since the epoch for times.
    pub fn value(&self) -> f64 {
        self.value
    }

    pub(super) fn is_ago(&self) -> bool {
        self.is_ago
    }

    pub(super) fn parse(text: &str, unit: Unit, clock: &Clock) -> Option<Self> {
        let (digits, factor) = match unit {
            Unit::Moment => {
                let ago = clock.ago(text);
                let (is_relative, (value, last)) = match ago {
                    Some(ago) => (true, (ago, ago)),
                    None if text.eq_ignore_ascii_case("today") => (true, clock.day(0)?),
                    None if text.eq_ignore_ascii_case("yesterday") => (true, clock.day(1)?),
                    None => (false, moment(text, clock.zone())?),
                };
                return Some(Self {
                    text: text.to_owned(),
                    value,
                    last,
                    is_ago: ago.is_some(),
                    is_relative,
                });
            }
            Unit::Count => match text.strip_suffix(['k', 'K']) {
                Some(digits) => (digits, 1e3),
                None => text
                    .strip_suffix(['m', 'M'])
                    .map_or((text, 1.0), |digits| (digits, 1e6)),
            },
            Unit::Seconds => {
                let units = [
                    ("ms", 1e-3),
                    ("s", 1.0),
                    ("min", 60.0),
                    ("m", 60.0),
                    ("h", 3600.0),
                    ("d", 86_400.0),
                ];
                let known = units
                    .into_iter()
                    .find_map(|(name, factor)| Some((text.strip_suffix(name)?, factor)));
                known.unwrap_or((text, 1.0))
            }
        };
        // Rust also parses "inf" and "nan", and "5." would run into the dots of a range.
        let spelled = digits
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
        if !spelled || !digits.ends_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let value = digits.parse::<f64>().ok()? * factor;
        value.is_finite().then(|| Self {
            text: text.to_owned(),
            value,
            last: value,
            is_ago: false,
            is_relative: false,
        })
    }
}

/// Returns the first and last microsecond of a day.
fn whole_day(day: Date, zone: &TimeZone) -> Option<(f64, f64)> {
    // A day of a time zone may have 23 or 25 hours.
    let start = |day: Date| {
        let start = day.to_zoned(zone.clone()).ok()?;
        Some(start.timestamp().as_microsecond())
    };
    let (first, next) = (start(day)?, start(day.tomorrow().ok()?)?);
    Some((first as f64, next.saturating_sub(1) as f64))
}

/// Returns the first and last microsecond of the day, minute or second that `text` names: in this
/// zone, or in UTC if it ends with a `Z`.
fn moment(text: &str, zone: &TimeZone) -> Option<(f64, f64)> {
    let (text, zone) = match text.strip_suffix(['Z', 'z']) {
        Some(text) => (text, &TimeZone::UTC),
        None => (text, zone),
    };
    let time = text.parse::<DateTime>().ok()?;
    let length = match (text.contains(['T', 't']), text.matches(':').count()) {
        (false, _) => return whole_day(time.date(), zone),
        (true, 1) => 60_000_000_i64,
        (true, 2) if !text.contains('.') => 1_000_000,
        _ => 1,
    };
    let start = time
        .to_zoned(zone.clone())
        .ok()?
        .timestamp()
        .as_microsecond();
    Some((start as f64, start.saturating_add(length - 1) as f64))
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A condition on a number.
#[derive(Debug, Clone, PartialEq)]
pub enum Bound {
    /// Exactly this number.
    Is(Amount),
    /// `<`
    Less(Amount),
    /// `<=`
    AtMost(Amount),
    /// `>`
    More(Amount),
    /// `>=`
    AtLeast(Amount),
    /// From the first to the second, both included. `None` leaves that side open.
    Between(Option<Amount>, Option<Amount>),
}

impl Bound {
    /// Returns the amounts that depend on the current time.
    pub(super) fn relative(&self) -> impl Iterator<Item = &Amount> {
        let amounts = match self {
            Bound::Is(amount)
            | Bound::Less(amount)
            | Bound::AtMost(amount)
            | Bound::More(amount)
            | Bound::AtLeast(amount) => [Some(amount), None],
            Bound::Between(low, high) => [low.as_ref(), high.as_ref()],
        };
        let amounts = amounts.into_iter().flatten();
        amounts.filter(|amount| amount.is_relative)
    }

    pub(super) fn holds(&self, number: f64) -> bool {
        match self {
            Bound::Is(amount) => (amount.value..=amount.last).contains(&number),
            Bound::Less(amount) => number < amount.value,
            Bound::AtMost(amount) => number <= amount.last,
            Bound::More(amount) => number > amount.last,
            Bound::AtLeast(amount) => number >= amount.value,
            Bound::Between(low, high) => {
                !number.is_nan()
                    && low.as_ref().is_none_or(|low| number >= low.value)
                    && high.as_ref().is_none_or(|high| number <= high.last)
            }
        }
    }

    /// Returns whether the bound starts with an operator, so that it can follow the field's name
    /// directly.
    pub(super) fn is_comparison(&self) -> bool {
        !matches!(self, Bound::Is(_) | Bound::Between(..))
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::Is(amount) => write!(f, "{amount}"),
            Bound::Less(amount) => write!(f, "<{amount}"),
            Bound::AtMost(amount) => write!(f, "<={amount}"),
            Bound::More(amount) => write!(f, ">{amount}"),
            Bound::AtLeast(amount) => write!(f, ">={amount}"),
            Bound::Between(low, high) => {
                let text =
                    |end: &Option<Amount>| end.as_ref().map(Amount::to_string).unwrap_or_default();
                write!(f, "{}..{}", text(low), text(high))
            }
        }
    }
}
