//! Computes the running totals after each step, so that callers can compare them with limits.
//!
//! A limit on steps or cost is checked after a step, a limit on tokens after the step's decision.
//! Comparing these numbers with a limit gives the same result as
//! [`first_stops`](super::first_stops) gives for the rule.

use crate::model::Gate;
use crate::stop::{GateSet, Stats, StepFacts};

/// The totals after one step.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Counted {
    /// The step's number, counted from 0.
    pub step: u64,
    /// Whether the step completed.
    pub completed: bool,
    /// Completed steps, including this one.
    pub steps: u64,
    /// Tokens up to the end of the step. `None` from the first step whose tokens aren't recorded.
    pub tokens: Option<u64>,
    /// Cost in US dollars up to the end of the step. `None` from the first step whose cost isn't
    /// recorded.
    pub cost_usd: Option<f64>,
    /// The gate of this step at which a token limit is checked.
    pub tokens_gate: Gate,
    /// Tokens when a token limit is checked. If the step didn't reach that gate, the value of the
    /// step before.
    pub tokens_asked: Option<u64>,
}

/// Returns the totals after each step that ran, starting from `stats`.
pub fn course<'a>(
    mut stats: Stats,
    steps: impl IntoIterator<Item = &'a StepFacts>,
) -> Vec<Counted> {
    let decided = GateSet::only(Gate::AfterDecide);
    let mut asked = stats.tokens_known();
    let mut course = Vec::new();
    for facts in steps {
        let mut tokens_gate = Gate::AfterDecide;
        for gate in facts.gates() {
            stats.fold(gate, facts);
            if facts.due(gate).meets(decided) {
                (tokens_gate, asked) = (gate, stats.tokens_known());
            }
        }
        if facts.reached > Gate::BeforeStep {
            course.push(Counted {
                step: facts.step,
                completed: facts.reached == Gate::AfterStep,
                steps: stats.steps,
                tokens: stats.tokens_known(),
                cost_usd: stats.cost().map(|_| stats.spent()),
                tokens_gate,
                tokens_asked: asked,
            });
        }
    }
    course
}

#[cfg(test)]
mod tests {
    use super::super::first_stops;
    use super::*;
    use crate::stop::{MaxCost, MaxSteps, StepError, StopSet, StopSpec, TokenBudget, Usage};
    use proptest::prelude::*;

    /// Returns the first step at which the limit is reached, judged by the numbers alone. Returns
    /// `Err` if an earlier number is unknown.
    fn first(
        course: &[Counted],
        reached: impl Fn(&Counted) -> Option<bool>,
    ) -> Result<Option<u64>, ()> {
        for counted in course {
            match reached(counted) {
                Some(true) => return Ok(Some(counted.step)),
                Some(false) => {}
                None => return Err(()),
            }
        }
        Ok(None)
    }

    fn facts() -> impl Strategy<Value = Vec<StepFacts>> {
        let usage = prop_oneof![9 => (0_u64..300, 0_u64..100).prop_map(Some), 1 => Just(None)];
        let cost = prop_oneof![9 => (0_u32..50).prop_map(Some), 1 => Just(None)];
        let step = (
            usage,
            cost,
            any::<bool>(),
            0_u64..40,
            prop::bool::weighted(0.15),
        );
        prop::collection::vec(step, 0..12).prop_map(|steps| {
            // If a step records only some of its usage, a rule may know that a limit is reached
            // although the total is unknown. So late usage is added only to complete records.
            let all_told = steps
                .iter()
                .all(|(usage, cost, ..)| usage.is_some() && cost.is_some());
            let facts = move |(n, (usage, cost, candidate, late, failed)): (
                usize,
                (_, Option<u32>, bool, u64, bool),
            )| {
                let usage: Option<(u64, u64)> = usage;
                let mut facts = StepFacts {
                    usage: usage.map(|(input, output)| Usage::reported(input, output)),
                    cost_usd: cost.map(|cents| f64::from(cents) / 100.0),
                    candidate,
                    ..StepFacts::unknown(n as u64)
                };
                if all_told {
                    facts.late(Usage::reported(late, 0), Some(0.01));
                }
                let phase = crate::stop::Phase::Decide;
                facts.error = failed.then(|| StepError {
                    phase,
                    message: String::new(),
                    recovered: true,
                });
                facts
            };
            steps.into_iter().enumerate().map(facts).collect()
        })
    }

    proptest! {
        #[test]
        fn the_numbers_say_what_the_rules_say(facts in facts(), steps in 1_u64..14, tokens in 1_u64..2_000, cents in 1_u32..300) {
            let usd = f64::from(cents) / 100.0;
            let specs: [StopSpec; 3] =
                [MaxSteps { steps }.into(), TokenBudget { max_total: tokens }.into(), MaxCost { usd }.into()];
            let mut set = StopSet::<()>::builder();
            for spec in specs {
                set = set.rule(spec);
            }
            let firsts = first_stops(&set.build_fail_closed().unwrap(), Stats::default(), &facts);
            let course = course(Stats::default(), &facts);
            let by_numbers = [
                first(&course, |at| Some(at.steps >= steps)),
                first(&course, |at| at.tokens_asked.map(|sum| sum > tokens)),
                first(&course, |at| at.cost_usd.map(|sum| sum >= usd)),
            ];
            for (rule, numbers) in firsts.rules.iter().zip(by_numbers) {
                let said = match (&rule.unknown, &rule.stop) {
                    (Some(_), _) => Err(()),
                    (None, stop) => Ok(stop.as_ref().and_then(|stop| stop.step)),
                };
                prop_assert_eq!(said, numbers, "{}", &rule.id);
            }
            prop_assert_eq!(course.len() as u64, firsts.end.ran);
            prop_assert_eq!(course.last().map_or(Some(0), |last| last.tokens), firsts.end.tokens);
        }
    }
}
