//! What would these rules have done? The same fold and the same checks over recorded facts.

use super::build::Ask;
use super::check::Check;
use super::facts::{GateSet, StepFacts};
use super::stats::Stats;
use super::{StopSet, Unknown};
use crate::model::{Origin, Source, StopVerdict};

/// What rules say about a recorded run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct WhatIf {
    /// Where they stop it; `None` where they do not, as far as the record goes. What would have followed is not known.
    pub verdict: Option<StopVerdict>,
    /// The fold up to there: completed steps, tokens, time.
    pub stats: Stats,
    /// Every rule as it stands there.
    pub readings: Vec<RuleReading>,
    /// Per rule the first step at which it could not be told; a verdict after that step is not certain.
    pub unknown: Vec<Unknown>,
    /// The first step whose answer was refused. A refusal shapes later prompts: where the recorded rules would have
    /// accepted, or refused with other words, what follows is not what would have been.
    pub refused: Option<u64>,
}

/// One rule of a set as it stands.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RuleReading {
    /// The rule.
    pub id: String,
    /// Its list.
    pub source: Source,
    /// Who set it.
    pub limit_from: Origin,
    /// What it says.
    pub check: Check,
}

impl<S> StopSet<S> {
    /// Asks the rules again over recorded steps, in order.
    ///
    /// The rules that were recorded with the steps give the recorded verdict. A step that ended early says so in
    /// [`StepFacts::reached`].
    pub fn replay<'a>(&self, steps: impl IntoIterator<Item = &'a StepFacts>) -> WhatIf {
        self.replay_from(Stats::default(), steps)
    }

    /// [`StopSet::replay`] of a run that was resumed with counters.
    ///
    /// What would have ended it before somebody went on with it, which a step says in [`StepFacts::resumed`], is no end:
    /// it may have run under other rules then.
    pub fn replay_from<'a>(
        &self,
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
                let (ruling, _) = self.evaluate(gate, &mut stats, facts, None);
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
            .map(|facts| self.survey(&stats, facts))
            .unwrap_or_default();
        WhatIf {
            verdict,
            stats,
            readings,
            unknown,
            refused,
        }
    }

    /// The counters of a recorded run, to go on from; nothing ends it.
    pub fn carried<'a>(&self, steps: impl IntoIterator<Item = &'a StepFacts>) -> Stats {
        let mut stats = Stats::default();
        for facts in steps {
            for gate in facts.gates() {
                self.fold(gate, &mut stats, facts);
            }
        }
        stats
    }

    /// Every rule as it stands after `facts`, whether it is its turn or not: limit, measure, off, unknown.
    pub fn survey(&self, stats: &Stats, facts: &StepFacts) -> Vec<RuleReading> {
        let budget = self
            .budget_checks(stats)
            .map(|(id, from, check)| RuleReading {
                id: id.to_owned(),
                source: Source::Budget,
                limit_from: from,
                check,
            });
        let lists = [
            (Source::Completion, &self.completion),
            (Source::Policy, &self.policies),
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
}
