//! Compares measurements with limits, for the rules and budget limits that count the same quantity.

use std::borrow::Cow;

use serde_json::Number;

use crate::model::{Code, Evidence, Op, Reading};
use crate::stop::check::Check;
use crate::stop::rules::plain;
use crate::stop::stats::{Stats, waited_for_people, without_noise};

/// Checks a limit on completed steps.
pub(in crate::stop) fn steps(code: &str, stats: &Stats, limit: u64) -> Check {
    at_least(code, stats.steps, limit, "steps")
}

/// Checks a counter that stops the run when it reaches its limit.
pub(super) fn at_least(code: &str, measured: u64, limit: u64, unit: &'static str) -> Check {
    let reading = Reading::compare(measured, Op::AtLeast, limit, unit);
    Check::of(Code::from(code), reading, measured >= limit, || {
        format!("{}, limit {limit}", counted(measured, unit))
    })
}

/// Checks a limit on elapsed time. Shows the slowest step as evidence.
///
/// Returns `Unknown` in two more cases than a missing time. If the recorded duration of the run is
/// longer than its steps' times show, the limit may have been reached after the latest recorded
/// time. If it is shorter than the span of the run's records, part of that span doesn't count, and
/// it's unknown which part.
pub(in crate::stop) fn time(code: &str, stats: &Stats, op: Op, limit_ms: u64) -> Check {
    let Some(elapsed) = stats.elapsed_ms else {
        return Check::Unknown("the time of this step".into());
    };
    let reading = Reading::compare(elapsed, op, limit_ms, "ms");
    let holds = |ms: u64| op.holds(ms, limit_ms);
    if !holds(elapsed) {
        let after = stats.took.filter(|took| stats.last_step >= Some(took.step));
        let after = after.filter(|took| !holds(took.until_ms) && took.ms.is_none_or(holds));
        return after.map_or(Check::Pass(reading), |took| {
            let more = took.ms.map(|ms| seconds(ms.saturating_sub(took.until_ms)));
            Check::Unknown(more.map_or("the end time of the last step".into(), |more| {
                apart("took", &more)
            }))
        });
    }
    let more = stats.took.map_or(0, |took| {
        took.ms.map_or(0, |ms| took.until_ms.saturating_sub(ms))
    });
    if !holds(elapsed.saturating_sub(more)) {
        let when = format!(
            "which {} between the run's records don't count toward its duration",
            seconds(more)
        );
        return Check::Unknown(when.into());
    }
    let slowest = stats
        .slowest
        .map(|(step, took_ms)| Evidence::Slow { step, took_ms });
    let waited = waited_for_people(stats.waited_ms);
    let detail = format!("{elapsed} ms, limit {limit_ms} ms{waited}");
    Check::Stop {
        code: Code::from(code),
        reading: reading.detail(detail).evidence(slowest),
    }
}

/// Checks a cost limit on completed steps. The known costs may be enough to stop. Otherwise, a
/// missing cost makes the result unknown.
pub(super) fn cost(code: &str, stats: &Stats, op: Op, limit_usd: f64) -> Check {
    let spent = stats.spent();
    let reading = Reading {
        measured: Number::from_f64(spent),
        limit: Number::from_f64(limit_usd),
        op: Some(op),
        unit: "usd".into(),
        ..Reading::default()
    };
    let holds = |spent: f64| {
        if op == Op::Above {
            spent > limit_usd
        } else {
            spent >= limit_usd
        }
    };
    match holds(spent) {
        true => {
            let kind = if stats.cost_estimated {
                " (estimated)"
            } else {
                ""
            };
            let (spent, limit) = (plain(spent), plain(limit_usd));
            let detail = format!("${spent}{kind}, limit ${limit}");
            Check::Stop {
                code: Code::from(code),
                reading: reading.detail(detail),
            }
        }
        false if stats.cost_missing > 0 => Check::Unknown("the cost of some steps".into()),
        false if holds(without_noise(spent + stats.cost_apart)) => {
            Check::Unknown(apart("spent", &format!("${}", plain(stats.cost_apart))))
        }
        false => Check::Pass(reading),
    }
}

/// Checks a limit on tokens. The known tokens may be enough to stop. Otherwise, a missing count
/// makes the result unknown.
pub(in crate::stop) fn tokens(code: &str, stats: &Stats, op: Op, limit: u64) -> Check {
    let total = stats.tokens.total();
    let reading = Reading::compare(total, op, limit, "tokens");
    if op.holds(total, limit) {
        let last = stats.last_usage;
        let last = last.map(|(step, usage)| Evidence::Usage {
            step,
            input: usage.input,
            output: usage.output,
        });
        let kind = if stats.tokens.estimated {
            "tokens (partly estimated)"
        } else {
            "tokens"
        };
        let detail = format!("{total} {kind}, limit {limit}");
        return Check::Stop {
            code: Code::from(code),
            reading: reading.detail(detail).evidence(last),
        };
    }
    match stats.tokens_apart {
        _ if stats.usage_missing > 0 => Check::Unknown("the token usage of some steps".into()),
        more if op.holds(total.saturating_add(more), limit) => {
            Check::Unknown(apart("used", &format!("{more} tokens")))
        }
        _ if stats.tokens.estimated => Check::Pass(reading.detail("partly estimated")),
        _ => Check::Pass(reading),
    }
}

/// Formats milliseconds as seconds: "4.581 s".
fn seconds(ms: u64) -> String {
    format!("{} s", plain(ms as f64 / 1e3))
}

/// Formats "1 step" and "3 steps" from a unit in the plural.
fn counted(number: u64, unit: &str) -> String {
    match number {
        1 => format!("1 {}", unit.strip_suffix('s').unwrap_or(unit)),
        _ => format!("{number} {unit}"),
    }
}

/// Names the missing fact when a run's recorded total exceeds the sum of its steps and the
/// difference may have reached the limit.
fn apart(took: &str, what: &str) -> Cow<'static, str> {
    format!("the step that {took} the remaining {what}").into()
}
