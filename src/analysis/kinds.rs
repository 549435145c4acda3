//! Divides tokens and costs by kind of token.
//!
//! Traces record what a request cost, but not what each kind of token cost. So the division is
//! always an estimate, from prices. A recorded cost is divided in proportion to what the tokens cost
//! by the prices.

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::price::KindCosts;

/// The tokens of one kind and their cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct KindRow {
    /// `input` (neither read from a cache nor written to one), `cache_write`, `cache_read`,
    /// `output`, or `other`: tokens whose kind isn't recorded, and costs that can't be divided
    /// because the model has no price.
    pub kind: &'static str,
    /// The tokens.
    pub tokens: u64,
    /// The cost in US dollars, or `null` if none of these tokens has a known price. Estimated from
    /// prices, except recorded costs in `other`.
    pub cost: Option<f64>,
    /// The tokens whose cost is in `cost`.
    pub tokens_with_cost: u64,
}

impl KindRow {
    /// Returns the name of the kind on pages.
    pub(crate) fn name(&self) -> &'static str {
        match self.kind {
            "input" => "Input, not cached",
            "cache_write" => "Cache write",
            "cache_read" => "Cache read",
            "output" => "Output",
            _ => "Not broken down",
        }
    }

    /// Returns the mean cost of a million tokens in US dollars, if a cost is known. `None` for tokens
    /// that aren't broken down, because their cost includes that of runs without token counts.
    pub(crate) fn per_million(&self) -> Option<f64> {
        let cost = self.cost.filter(|_| self.kind != "other")?;
        (self.tokens_with_cost > 0).then(|| cost * 1e6 / self.tokens_with_cost as f64)
    }
}

/// The tokens of a part of a run by kind, in the order of [`Kinds::rows`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct KindTokens {
    pub uncached: u64,
    pub cache_write: u64,
    pub cache_read: u64,
    pub output: u64,
    pub other: u64,
}

impl KindTokens {
    pub(super) fn sum(self) -> u64 {
        [
            self.uncached,
            self.cache_write,
            self.cache_read,
            self.output,
            self.other,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }
}

/// Sums by kind of token.
#[derive(Debug, Clone, Default)]
pub(super) struct Kinds([Sum; 5]);

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    tokens: u64,
    cost: Option<f64>,
    tokens_with_cost: u64,
}

impl Kinds {
    /// Adds tokens with their recorded cost. `by_price` is the cost computed from prices, if those are
    /// known.
    pub(super) fn add(
        &mut self,
        tokens: KindTokens,
        cost: Option<f64>,
        by_price: Option<KindCosts>,
    ) {
        let [uncached, cache_write, cache_read, output, other] = &mut self.0;
        // The recorded cost divided by the computed one. Without prices, the whole cost goes to `other`.
        let scale = match (cost, by_price.map(KindCosts::usd)) {
            (Some(cost), Some(whole)) if whole > 0.0 => Some(cost / whole),
            (Some(0.0), Some(_)) => Some(0.0),
            _ => None,
        };
        let price = by_price.unwrap_or_default();
        for (sum, tokens, share) in [
            (uncached, tokens.uncached, price.input),
            (cache_write, tokens.cache_write, price.cache_write),
            (cache_read, tokens.cache_read, price.cache_read),
            (output, tokens.output, price.output),
        ] {
            sum.tokens = sum.tokens.saturating_add(tokens);
            if let Some(scale) = scale.filter(|_| tokens > 0) {
                *sum.cost.get_or_insert_default() += share / 1e6 * scale;
                sum.tokens_with_cost = sum.tokens_with_cost.saturating_add(tokens);
            }
        }
        other.tokens = other.tokens.saturating_add(tokens.other);
        if let Some(cost) = cost.filter(|cost| scale.is_none() && *cost > 0.0) {
            *other.cost.get_or_insert_default() += cost;
            other.tokens_with_cost = other.tokens_with_cost.saturating_add(tokens.other);
        }
    }

    /// Returns the kinds with known tokens or a known cost.
    pub(super) fn rows(&self) -> Vec<KindRow> {
        ["input", "cache_write", "cache_read", "output", "other"]
            .into_iter()
            .zip(self.0)
            .filter(|(_, sum)| sum.tokens > 0 || sum.cost.is_some())
            .map(|(kind, sum)| KindRow {
                kind,
                tokens: sum.tokens,
                cost: sum.cost,
                tokens_with_cost: sum.tokens_with_cost,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: KindTokens = KindTokens {
        uncached: 100,
        cache_write: 0,
        cache_read: 900,
        output: 50,
        other: 0,
    };
    const PRICE: KindCosts = KindCosts {
        input: 1e6,
        cache_write: 0.0,
        cache_read: 1e6,
        output: 2e6,
    };

    fn costs(kinds: &Kinds) -> Vec<(&'static str, u64, Option<f64>)> {
        let rows = kinds.rows().into_iter();
        rows.map(|row| (row.kind, row.tokens, row.cost)).collect()
    }

    #[test]
    fn an_estimate_is_divided_by_price_and_a_recorded_cost_in_proportion() {
        let mut kinds = Kinds::default();
        kinds.add(TOKENS, Some(4.0), Some(PRICE));
        kinds.add(TOKENS, Some(8.0), Some(PRICE));
        assert_eq!(
            costs(&kinds),
            [
                ("input", 200, Some(3.0)),
                ("cache_read", 1_800, Some(3.0)),
                ("output", 100, Some(6.0)),
            ]
        );
        assert_eq!(kinds.rows()[2].per_million(), Some(60_000.0));
    }

    #[test]
    fn what_has_no_price_keeps_its_tokens_and_its_cost_is_not_divided() {
        let mut kinds = Kinds::default();
        kinds.add(TOKENS, Some(4.0), None);
        kinds.add(TOKENS, None, None);
        let total = KindTokens {
            other: 7,
            ..KindTokens::default()
        };
        kinds.add(total, Some(1.0), None);
        assert_eq!(
            costs(&kinds),
            [
                ("input", 200, None),
                ("cache_read", 1_800, None),
                ("output", 100, None),
                ("other", 7, Some(5.0)),
            ]
        );
        assert_eq!(kinds.rows()[0].per_million(), None);
    }

    #[test]
    fn a_free_model_costs_nothing_by_kind() {
        let mut kinds = Kinds::default();
        kinds.add(TOKENS, Some(0.0), Some(KindCosts::default()));
        assert_eq!(kinds.rows()[0].cost, Some(0.0));
        assert_eq!(kinds.rows().len(), 3);
    }
}
