//! What does a limit measure? The comparisons that a rule and the budget share, each under its own code.

use std::borrow::Cow;

use serde_json::Number;

use crate::model::{Code, Evidence, Op, Reading};
use crate::stop::check::Check;
use crate::stop::rules::plain;
use crate::stop::stats::{Stats, waited_for_people, without_noise};

/// A limit on completed steps.
pub(in crate::stop) fn steps(code: &str, stats: &Stats, limit: u64) -> Check {
    at_least(code, stats.steps, limit, "steps")
}

/// A counter that stops at its limit.
pub(super) fn at_least(code: &str, measured: u64, limit: u64, unit: &'static str) -> Check {
    let reading = Reading::compare(measured, Op::AtLeast, limit, unit);
    Check::of(Code::from(code), reading, measured >= limit, || {
        format!("{measured} {unit} >= {limit}")
    })
}

/// A limit on elapsed time; the slowest step is the place to look. Where a run as a whole took longer than its steps tell,
/// what went by after the newest of their times may have come to the limit; where it took less than its records span, some
/// of that does not count, and nobody knows which.
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
            let more = took
                .ms
                .map(|ms| format!("{} ms", ms.saturating_sub(took.until_ms)));
            Check::Unknown(more.map_or("when the last step was over".into(), |more| {
                apart("took", &more)
            }))
        });
    }
    let more = stats.took.map_or(0, |took| {
        took.ms.map_or(0, |ms| took.until_ms.saturating_sub(ms))
    });
    if !holds(elapsed.saturating_sub(more)) {
        let when = format!(
            "when the {more} ms went by that its records span beyond the time that it is said to have taken"
        );
        return Check::Unknown(when.into());
    }
    let slowest = stats
        .slowest
        .map(|(step, took_ms)| Evidence::Slow { step, took_ms });
    let waited = waited_for_people(stats.waited_ms);
    let detail = format!("{elapsed} ms {} {limit_ms}{waited}", op.as_str());
    Check::Stop {
        code: Code::from(code),
        reading: reading.detail(detail).evidence(slowest),
    }
}

/// A limit on what completed steps cost. What is known may be enough to stop; what is missing leaves a pass uncertain.
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
            let detail = format!("${spent}{kind} {} ${limit}", op.as_str());
            Check::Stop {
                code: Code::from(code),
                reading: reading.detail(detail),
            }
        }
        false if stats.cost_missing > 0 => Check::Unknown("the cost of every step".into()),
        false if holds(without_noise(spent + stats.cost_apart)) => {
            Check::Unknown(apart("spent", &format!("${}", plain(stats.cost_apart))))
        }
        false => Check::Pass(reading),
    }
}

/// A limit on tokens. What is known may be enough to stop; what is missing leaves a pass uncertain.
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
        let detail = format!("{total} {kind} {} {limit}", op.as_str());
        return Check::Stop {
            code: Code::from(code),
            reading: reading.detail(detail).evidence(last),
        };
    }
    match stats.tokens_apart {
        _ if stats.usage_missing > 0 => Check::Unknown("the token usage of every step".into()),
        more if op.holds(total.saturating_add(more), limit) => {
            Check::Unknown(apart("used", &format!("{more} tokens")))
        }
        _ if stats.tokens.estimated => Check::Pass(reading.detail("partly estimated")),
        _ => Check::Pass(reading),
    }
}

/// The fact that is missing where a run took more as a whole than its steps say, and that may have come to the limit.
fn apart(took: &str, what: &str) -> Cow<'static, str> {
    format!("when the run {took} the {what} that none of its steps says").into()
}
