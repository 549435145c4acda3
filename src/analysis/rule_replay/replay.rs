//! Replays rules over recorded steps, with the same totals and checks as the live engine.

use crate::model::{Origin, Source, StopVerdict};
use crate::stop::{Ask, Check, GateSet, Stats, StepFacts, StopSet, Unknown};

/// The result of replaying rules over a recorded run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct WhatIf {
    /// Where the rules stop the run. `None` if they don't within the record. What would have
    /// followed is unknown.
    pub verdict: Option<StopVerdict>,
    /// The totals up to that point: completed steps, tokens, time.
    pub stats: Stats,
    /// The reading of every rule at that point.
    pub readings: Vec<RuleReading>,
    /// For each rule, the first step at which it couldn't be evaluated. A verdict after that step
    /// is uncertain.
    pub unknown: Vec<Unknown>,
    /// The first step whose answer was refused. A refusal affects later prompts. If the recorded
    /// rules accepted the answer, or refused it with different feedback, the recorded steps after
    /// it may differ from what would have happened.
    pub refused: Option<u64>,
}

/// The state of one rule of a set.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RuleReading {
    /// The rule's id.
    pub id: String,
    /// The list the rule belongs to.
    pub source: Source,
    /// Who set the rule.
    pub limit_from: Origin,
    /// The result of checking the rule.
    pub check: Check,
}

/// Replays the rules over recorded steps, in order.
///
/// The rules that were recorded with the steps give the recorded verdict. A step that ended
/// early records that in [`StepFacts::reached`].
pub fn replay<'a, S>(set: &StopSet<S>, steps: impl IntoIterator<Item = &'a StepFacts>) -> WhatIf {
    replay_from(set, Stats::default(), steps)
}

/// Like [`replay`], for a run that was resumed with counters.
///
/// Ignores stops before the last step that is marked as [`StepFacts::resumed`], because the run
/// may have had other rules then.
pub fn replay_from<'a, S>(
    set: &StopSet<S>,
    mut stats: Stats,
    steps: impl IntoIterator<Item = &'a StepFacts>,
) -> WhatIf {
    let mut verdict = None;
    let mut unknown: Vec<Unknown> = Vec::new();
    let mut refused = None;
    let steps: Vec<_> = steps.into_iter().collect();
    let resumed = steps
        .iter()
        .rposition(|facts| facts.resumed)
        .unwrap_or_default();
    let mut last = None;
    'steps: for (at, facts) in steps.into_iter().enumerate() {
        last = Some(facts);
        for gate in facts.gates() {
            let (ruling, _) = set.evaluate(gate, &mut stats, facts, None);
            for new in ruling.unknown {
                if unknown.iter().all(|known| known.id != new.id) {
                    unknown.push(new);
                }
            }
            refused = refused.or(Some(facts.step).filter(|_| !ruling.refused.is_empty()));
            verdict = ruling.verdict.filter(|_| at >= resumed);
            if verdict.is_some() {
                break 'steps;
            }
        }
    }
    let readings = last
        .map(|facts| survey(set, &stats, facts))
        .unwrap_or_default();
    WhatIf {
        verdict,
        stats,
        readings,
        unknown,
        refused,
    }
}

/// Returns the state of every rule after `facts`, including rules that aren't checked at this
/// gate.
pub fn survey<S>(set: &StopSet<S>, stats: &Stats, facts: &StepFacts) -> Vec<RuleReading> {
    let budget = set
        .budget_checks(stats)
        .map(|(id, from, check)| RuleReading {
            id: id.to_owned(),
            source: Source::Budget,
            limit_from: from,
            check,
        });
    let lists = [
        (Source::Completion, &set.completion),
        (Source::Policy, &set.policies),
    ];
    let rules = lists.into_iter().flat_map(|(source, list)| {
        list.iter().map(move |entry| {
            let check = match &entry.ask {
                Ask::Built(rule) => rule.check(GateSet::ALL, stats, facts),
                _ => {
                    let mut answers = facts.opaque.iter().rev();
                    let answer = answers
                        .find(|answer| answer.id == entry.id)
                        .map(|answer| answer.check.clone());
                    answer.unwrap_or_else(|| Check::Unknown("its recorded answer".into()))
                }
            };
            RuleReading {
                id: entry.id.clone(),
                source: source.clone(),
                limit_from: entry.from,
                check,
            }
        })
    });
    budget.chain(rules).collect()
}
