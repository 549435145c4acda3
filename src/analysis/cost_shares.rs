//! Divides a recorded cost between a run and its child runs.
//!
//! The cost that Claude Code records covers the helpers that a session started, which have files of
//! their own. If a sum includes such a run and its helpers, each counts a share of the recorded
//! cost, so that the sum is what was recorded. A helper without its parent counts what its tokens
//! cost by the prices.

use std::collections::HashMap;

use super::summary::{Cost, Spent, Summary};

/// The shares in recorded costs among some runs.
#[derive(Debug, Default)]
pub(crate) struct CostShares<'a>(HashMap<&'a str, f64>);

/// A run whose recorded cost covers others, and those among the runs.
struct Family<'a> {
    parent: Option<&'a Summary>,
    children: Vec<&'a Summary>,
}

impl<'a> CostShares<'a> {
    /// Returns the shares of these runs.
    pub(crate) fn of(runs: impl Iterator<Item = &'a Summary> + Clone) -> Self {
        Self::among(runs, |_| true)
    }

    /// Returns the shares of those of the runs for which `is_chosen` is true. It's called for few of
    /// them.
    pub(crate) fn among(
        runs: impl Iterator<Item = &'a Summary> + Clone,
        is_chosen: impl Fn(&Summary) -> bool,
    ) -> Self {
        let mut families: HashMap<&'a str, Family<'a>> = HashMap::new();
        for run in runs.clone() {
            let payer = run.relation.paid_by.as_ref();
            if let Some(payer) = payer.filter(|_| run.counts() && is_chosen(run)) {
                let family = families.entry(payer.as_str()).or_insert_with(|| Family {
                    parent: None,
                    children: Vec::new(),
                });
                family.children.push(run);
            }
        }
        // Most boards have no such runs.
        if families.is_empty() {
            return Self::default();
        }
        for run in runs {
            let family = families.get_mut(run.key.as_str());
            if let Some(family) = family.filter(|_| run.counts() && is_chosen(run)) {
                family.parent = Some(run);
            }
        }
        let mut shares = Self::default();
        for family in families.into_values() {
            shares.divide(&family);
        }
        shares
    }

    fn divide(&mut self, family: &Family<'a>) {
        let Some((parent, whole)) = family
            .parent
            .and_then(|parent| Some((parent, parent.cost_usd?)))
        else {
            return;
        };
        let members = || family.children.iter().copied().chain([parent]);
        let by_price: Option<Vec<f64>> = members().map(by_price).collect();
        let weights = by_price
            .filter(|weights| weights.iter().sum::<f64>() > 0.0)
            .unwrap_or_else(|| {
                let tokens = |run: &Summary| run.tokens.unwrap_or(0) as f64;
                members().map(tokens).collect()
            });
        let sum: f64 = weights.iter().sum();
        for (run, weight) in members().zip(weights) {
            let share = match (sum > 0.0, std::ptr::eq(run, parent)) {
                (true, _) => whole * weight / sum,
                (false, true) => whole,
                (false, false) => 0.0,
            };
            self.0.insert(run.key.as_str(), share);
        }
    }

    /// Returns a run's share in US dollars, if its cost is divided.
    pub(crate) fn share(&self, run: &Summary) -> Option<f64> {
        self.0.get(run.key.as_str()).copied()
    }

    /// Returns what a run counts in a sum over the runs: its share, or else its own cost.
    pub(crate) fn cost(&self, run: &Summary) -> Option<Cost> {
        self.share(run).map(Cost::Recorded).or_else(|| run.cost())
    }
}

/// Returns what a run's tokens cost by the prices, if all are known.
fn by_price(run: &Summary) -> Option<f64> {
    let prices = run.prices.as_deref();
    let cost = |spent: &Spent| Some(spent.costs_by_price(prices)?.usd());
    run.spent
        .iter()
        .filter(|spent| spent.tokens() > 0)
        .map(cost)
        .sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::analysis::copies::Relation;
    use crate::analysis::select::sample;
    use crate::analysis::verdict::RunStatus;
    use crate::model::RunKey;
    use crate::model::price::{Price, Prices};

    fn run(
        key: &str,
        model: &str,
        tokens: u64,
        recorded: Option<f64>,
        payer: Option<&str>,
    ) -> Summary {
        let price = Price {
            input: 1_000.0,
            ..Price::default()
        };
        let prices = Prices::new([("m".to_owned(), price)].into(), "p".to_owned()).unwrap();
        let spent = Spent {
            model: model.into(),
            input: tokens,
            ..Spent::default()
        };
        let mut run = Summary {
            tokens: Some(tokens),
            spent: vec![spent].into(),
            ..sample::run(key, RunStatus::Answered, None)
        }
        .priced(&Arc::new(prices));
        run.rare.cost_usd = recorded;
        let relation = Relation {
            paid_by: payer.map(RunKey::new),
            ..Relation::default()
        };
        Summary {
            relation: relation.into(),
            ..run
        }
    }

    fn costs(runs: &[&Summary]) -> Vec<Option<f64>> {
        let shares = CostShares::of(runs.iter().copied());
        let cost = |run: &&Summary| Some(shares.cost(run)?.usd());
        runs.iter().map(cost).collect()
    }

    #[test]
    fn a_recorded_cost_is_divided_by_price() {
        let parent = run("p", "m", 100, Some(2.0), None);
        let (one, two) = (
            run("a", "m", 200, None, Some("p")),
            run("b", "m", 100, None, Some("p")),
        );
        assert_eq!(
            costs(&[&parent, &one, &two]),
            [Some(0.5), Some(1.0), Some(0.5)]
        );
    }

    #[test]
    fn tokens_decide_if_a_price_is_unknown() {
        let parent = run("p", "m", 100, Some(2.0), None);
        let other = run("a", "n", 300, None, Some("p"));
        assert_eq!(costs(&[&parent, &other]), [Some(0.5), Some(1.5)]);
    }

    #[test]
    fn a_run_alone_counts_its_own_cost() {
        let parent = run("p", "m", 100, Some(2.0), None);
        let child = run("a", "m", 100, None, Some("p"));
        assert_eq!(costs(&[&parent]), [Some(2.0)]);
        assert_eq!(costs(&[&child]), [Some(0.1)]);
    }
}
