//! Estimates which limit will end a running run if it continues at its current pace.

use super::rules::{RuleStatus, Standing};
use crate::analysis::format::{count, counted, percent};
use crate::analysis::summary::Summary;
use crate::model::Index;
use crate::stop::{Counts, counts};

/// Formats "9 of 14 steps, 61 % of the tokens; at this pace, the token limit ends the run in about
/// 6 steps (estimate)".
///
/// The pace is the average of the recorded steps so far. Returns `None` if the run ended, has no
/// steps, or has no limit.
pub(super) fn pace(summary: &Summary, index: &Index, rules: &[RuleStatus]) -> Option<String> {
    let before = index
        .manifest()
        .get()
        .and_then(|manifest| manifest.resumed_after)
        .unwrap_or_default();
    let steps = summary.steps_now as f64 + before.max(0) as f64;
    if !summary.life.liveness.may_grow() || summary.steps_now == 0 {
        return None;
    }
    let mut parts = Vec::new();
    let mut first: Option<(f64, &RuleStatus)> = None;
    for wanted in [Counts::Steps, Counts::Tokens, Counts::Time] {
        let left =
            |rule: &RuleStatus| Some(rule.reading.headroom()? / (rule.reading.measured()? / steps));
        let held = rules
            .iter()
            .filter(|rule| rule.result == Standing::Held && counts(&rule.kind) == wanted);
        let usable =
            held.filter_map(|rule| Some((left(rule).filter(|left| left.is_finite())?, rule)));
        let Some((left, rule)) = usable.min_by(|(a, _), (b, _)| a.total_cmp(b)) else {
            continue;
        };
        let number = |number: Option<f64>| number.unwrap_or_default() as u64;
        let (measured, limit) = (
            number(rule.reading.measured()),
            number(rule.reading.limit()),
        );
        parts.push(match wanted {
            Counts::Steps => format!("{} of {}", count(measured), counted(limit as usize, "step")),
            Counts::Tokens => format!("{} of the tokens", percent(measured, limit)),
            _ => format!("{} of the time", percent(measured, limit)),
        });
        if first.is_none_or(|(least, _)| left < least) {
            first = Some((left, rule));
        }
    }
    let (left, rule) = first?;
    let name = rule.name().to_lowercase();
    let ends = match left.ceil().max(0.0) as usize {
        0 => format!("the {name} is reached"),
        // The number of steps is exact, not an estimate.
        left if counts(&rule.kind) == Counts::Steps => {
            format!(
                "the {name} ends the run in at most {}",
                counted(left, "step")
            )
        }
        left => format!(
            "at this pace, the {name} ends the run in about {} (estimate)",
            counted(left, "step")
        ),
    };
    Some(format!("{}; {ends}", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::life::{Life, Liveness};
    use crate::model::{Op, Reading};

    fn rule(kind: &str, measured: u64, limit: u64) -> RuleStatus {
        let reading = Reading::compare(measured, Op::AtLeast, limit, "");
        RuleStatus {
            kind: kind.to_owned(),
            result: Standing::Held,
            reading,
            ..RuleStatus::default()
        }
    }

    fn said(steps: usize, liveness: Liveness, rules: &[RuleStatus]) -> Option<String> {
        let index = Index::default();
        let key = crate::model::RunKey::new("r");
        let mut summary =
            crate::analysis::summary::summary(&key, String::new(), &index, Default::default());
        (summary.steps_now, summary.life) = (
            steps,
            Life {
                liveness,
                ..summary.life
            },
        );
        pace(&summary, &index, rules)
    }

    #[test]
    fn the_limit_that_comes_first_at_this_pace_is_named() {
        let rules = [
            rule("budget_steps", 9, 14),
            rule("budget_tokens", 6_100, 9_000),
        ];
        assert_eq!(
            said(9, Liveness::Running, &rules).unwrap(),
            "9 of 14 steps, 68% of the tokens; at this pace, the token limit ends the run in about 5 steps (estimate)"
        );
        let few = [
            rule("budget_steps", 9, 14),
            rule("budget_tokens", 10, 9_000),
        ];
        assert_eq!(
            said(9, Liveness::Running, &few).unwrap(),
            "9 of 14 steps, <1% of the tokens; the step limit ends the run in at most 5 steps"
        );
        let spent = [rule("budget_steps", 3, 3)];
        assert_eq!(
            said(3, Liveness::Stalled, &spent).unwrap(),
            "3 of 3 steps; the step limit is reached"
        );
    }

    #[test]
    fn nothing_is_guessed_without_a_step_or_a_limit_or_after_the_end() {
        let rules = [rule("budget_steps", 9, 14)];
        assert_eq!(said(0, Liveness::Running, &rules), None);
        assert_eq!(said(9, Liveness::Finished, &rules), None);
        let unknown = RuleStatus {
            result: Standing::Unknown,
            ..rule("budget_steps", 9, 0)
        };
        assert_eq!(said(9, Liveness::Running, &[unknown]), None);
        // Without any usage there's no pace.
        assert_eq!(
            said(9, Liveness::Running, &[rule("budget_tokens", 0, 100)]),
            None
        );
    }
}
