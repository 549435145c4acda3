//! Formats the differences of an experiment.

use crate::analysis::format::{self, MINUS, count};

/// Larger changes aren't told exactly. Few runs may have an interval up to many millions of percent, which
/// says no more.
const MAX_CHANGE: f64 = 100.0;

/// Formats a share of runs: `56%`.
pub(super) fn share_words(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        _ if percent > 0.0 && percent < 0.5 => "<1%".to_owned(),
        _ if (99.5..100.0).contains(&percent) => ">99%".to_owned(),
        _ => format!("{percent:.0}%"),
    }
}

/// Formats a number with its sign: `+6`, `−0.4`, `0`.
fn signed(value: f64, digits: impl Fn(f64) -> String) -> String {
    let text = digits(value.abs());
    let is_zero = text.bytes().all(|byte| !(b'1'..=b'9').contains(&byte));
    match value {
        _ if is_zero => digits(0.0),
        _ if value < 0.0 => format!("{MINUS}{text}"),
        _ => format!("+{text}"),
    }
}

/// Formats a number of tasks without its sign: `11`, below ten with a decimal if it has one.
pub(crate) fn tasks_digits(value: f64) -> String {
    let is_whole = (value - value.round()).abs() < 1e-6;
    if is_whole || value >= 9.95 {
        format!("{value:.0}")
    } else {
        let text = format!("{value:.1}");
        text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
    }
}

/// Formats a difference in tasks: `+6`, `−0.4`.
pub(crate) fn tasks_words(value: f64) -> String {
    signed(value, tasks_digits)
}

fn percent_digits(value: f64) -> String {
    let percent = value * 100.0;
    if percent > 0.0 && percent < 0.95 {
        format!("{percent:.1}%")
    } else if percent >= 1_000.0 {
        format!("{}%", count(percent.min(1e15) as u64))
    } else {
        format!("{percent:.0}%")
    }
}

/// Formats a relative change, or a difference in percentage points: `+12%`, `−0.4%`, `over +10,000%`.
pub(crate) fn change_words(value: f64) -> String {
    if value.abs() > MAX_CHANGE {
        let most = signed(MAX_CHANGE.copysign(value), percent_digits);
        return format!("over {most}");
    }
    signed(value, percent_digits)
}

/// Formats a difference of shares in percentage points: `+12`, `−0.4`.
pub(super) fn points_words(value: f64) -> String {
    change_words(value).replace('%', "")
}

/// Formats a difference of scores: `+0.09`, `+0.003`.
pub(super) fn score_words(value: f64) -> String {
    signed(value, |value| match value {
        _ if !(0.0005..0.0095).contains(&value) => format::score(value),
        _ => format!("{value:.3}"),
    })
}

/// Formats a percentage without its sign: `12%`.
pub(super) fn percent_words(value: f64) -> String {
    percent_digits(value.abs())
}

/// Formats a p-value: `0.017`, `<0.001`.
pub(super) fn p_words(p: f64) -> String {
    if p < 0.001 {
        "<0.001".to_owned()
    } else {
        format!("{p:.3}")
    }
}

/// Formats an interval: `+1 to +11`. An end that excludes zero never reads as zero.
pub(super) fn interval_words(low: f64, high: f64, words: fn(f64) -> String) -> String {
    let zero = words(0.0);
    let end = |value: f64| {
        let text = words(value);
        match value {
            _ if text != zero => text,
            _ if low > 0.0 => format!(">{zero}"),
            _ if high < 0.0 => format!("<{zero}"),
            _ => text,
        }
    };
    format!("{} to {}", end(low), end(high))
}
