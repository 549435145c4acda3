//! Suggests a few rules close to what a run did, for users who haven't asked yet.

use crate::analysis::summary::Summary;
use crate::model::Index;
use crate::stop::{
    ConsecutiveErrors, CriticBelow, LoopDetection, MaxRuntime, MaxSteps, Stagnation, StopSpec,
    TokenBudget,
};

/// Above this size, rules that read texts aren't suggested, since they would read all of the run.
const MAX_TEXT_BYTES: u64 = 16 << 20;

/// Returns rules close to the record: three quarters of its usage, and the common guards.
pub fn near(summary: &Summary, index: &Index) -> Vec<StopSpec> {
    let tokens = summary
        .tokens
        .map(three_quarters)
        .filter(|tokens| *tokens > 0);
    let seconds = summary
        .duration_ms
        .map(|ms| (ms * 0.75 / 1e3) as u64)
        .filter(|seconds| *seconds > 0);
    let small = index
        .steps_file()
        .size
        .saturating_add(index.events_file().size)
        <= MAX_TEXT_BYTES;
    let critic = |name: &String| {
        StopSpec::from(CriticBelow {
            critic: name.clone(),
            score: 0.5,
            steps: 3,
        })
    };
    let scored = index
        .steps()
        .iter()
        .flat_map(|step| &step.critics)
        .filter(|mark| mark.score.is_some());
    let scored: std::collections::BTreeSet<&str> =
        scored.map(|mark| index.name(mark.name)).collect();
    let rules = [
        Some(StopSpec::from(MaxSteps {
            steps: (summary.steps_now as u64 * 3 / 4).max(1),
        })),
        tokens.map(|max_total| StopSpec::from(TokenBudget { max_total })),
        seconds.map(|seconds| {
            StopSpec::from(MaxRuntime {
                seconds: seconds as f64,
            })
        }),
        Some(StopSpec::from(ConsecutiveErrors { max: 2 })),
        small.then_some(StopSpec::from(LoopDetection { window: 3 })),
        Some(StopSpec::from(Stagnation { steps: 3 })),
        summary
            .critics
            .iter()
            .find(|name| scored.contains(&***name))
            .map(critic),
    ];
    rules.into_iter().flatten().collect()
}

/// Returns three quarters with two significant digits, since no user would try 12,873.
fn three_quarters(number: u64) -> u64 {
    let part = number / 4 * 3;
    let unit = 10_u64.pow(part.checked_ilog10().unwrap_or_default().saturating_sub(1));
    part / unit * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_quarters_is_a_round_number() {
        let rounded = [0, 3, 100, 17_161, u64::MAX].map(three_quarters);
        assert_eq!(rounded, [0, 0, 75, 12_000, 13_000_000_000_000_000_000]);
    }
}
