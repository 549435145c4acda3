//! Adds the totals that another tool recorded for a run as a whole to those of its steps.

use crate::stop::{Stats, StepFacts, Took, without_noise};

/// Totals that another tool recorded for a run as a whole, in addition to its steps.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Whole {
    /// Tokens.
    pub tokens: Option<u64>,
    /// US dollars.
    pub cost_usd: Option<f64>,
    /// Duration in milliseconds.
    pub took_ms: Option<u64>,
    /// Whether the end time of the last step is missing although another of its times is recorded.
    pub end_unknown: bool,
    /// The judges that scored the run.
    pub judges: Vec<String>,
    /// Number of replies of sub-agents without recorded tokens.
    pub unknown_tokens: u64,
    /// Number of replies of sub-agents without a recorded cost.
    pub unknown_cost: u64,
}

impl Whole {
    /// Adds these totals to `stats`, as far as the steps don't cover them. `steps` must hold all of
    /// the run's own steps.
    pub(super) fn added_to(&self, mut stats: Stats, steps: &[StepFacts]) -> Stats {
        let add = |sum: Option<u64>, facts: &StepFacts| {
            Some(sum?.saturating_add(facts.usage?.plus(facts.late_usage).total()))
        };
        // If one of the steps has no count, the missing amount may be its own.
        if let Some(told) = steps.iter().fold(Some(0), add) {
            match self.tokens {
                Some(all) => stats.tokens_apart = all.saturating_sub(told),
                None => stats.usage_missing += self.unknown_tokens,
            }
        }
        if let Some(told) = steps.iter().map(StepFacts::cost).sum::<Option<f64>>() {
            match self.cost_usd {
                Some(all) => stats.cost_apart = without_noise(all - told).max(0.0),
                None => stats.cost_missing += self.unknown_cost,
            }
        }
        let newest = steps
            .iter()
            .filter_map(|facts| Some((facts.latest_ms()?, facts.step)))
            .max();
        let newest = newest.filter(|_| self.took_ms.is_some() || self.end_unknown);
        stats.took = newest.map(|(until_ms, step)| Took {
            step,
            until_ms,
            ms: self.took_ms,
        });
        stats.judges.clone_from(&self.judges);
        stats
    }
}
