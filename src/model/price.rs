//! Computes the cost of tokens from a price table that the user provides.
//!
//! There are no built-in prices, and no name is guessed. A model's price is the one under its exact
//! name, or under the longest prefix of the name that the table lists with a trailing `*`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer};

use super::step::Usage;

/// A model's price per million tokens, in US dollars. Each number read from a file is finite and
/// not negative.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// The price of uncached input.
    #[serde(deserialize_with = "usd")]
    pub input: f64,
    /// The price of cached input, or `None` if the table doesn't have it.
    #[serde(default, deserialize_with = "usd_if_any")]
    pub cached: Option<f64>,
    /// The price of output.
    #[serde(deserialize_with = "usd")]
    pub output: f64,
}

#[derive(Deserialize)]
#[serde(try_from = "f64")]
struct Usd(f64);

impl TryFrom<f64> for Usd {
    type Error = &'static str;

    fn try_from(usd: f64) -> Result<Self, &'static str> {
        if usd.is_finite() && usd >= 0.0 {
            Ok(Self(usd))
        } else {
            Err("a price must be a number ≥ 0")
        }
    }
}

fn usd<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Usd::deserialize(deserializer)?.0)
}

fn usd_if_any<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    Ok(Option::<Usd>::deserialize(deserializer)?.map(|usd| usd.0))
}

/// The prices of models, and the file they come from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Prices {
    exact: BTreeMap<String, Price>,
    /// Name prefixes, the longest first.
    beginnings: Vec<(String, Price)>,
    source: String,
}

/// A name in a price table with more than one `*`, or with a `*` before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OddName(pub String);

impl fmt::Display for OddName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name can contain one *, only at its end")
    }
}

impl std::error::Error for OddName {}

/// The number of tokens that a price covers.
const MILLION: f64 = 1e6;

impl Prices {
    /// Creates prices from `table`, which was read from `source`. A key is a model's name, or a
    /// prefix of names if it ends with `*`.
    ///
    /// # Errors
    /// Fails if a name has a `*` elsewhere, because it would match no model.
    pub fn new(table: BTreeMap<String, Price>, source: String) -> Result<Self, OddName> {
        let is_odd = |name: &&String| name.strip_suffix('*').unwrap_or(name).contains('*');
        if let Some(odd) = table.keys().find(is_odd) {
            return Err(OddName(odd.clone()));
        }
        let (beginnings, exact): (Vec<_>, Vec<_>) =
            table.into_iter().partition(|(name, _)| name.ends_with('*'));
        let mut beginnings: Vec<_> = beginnings
            .into_iter()
            .map(|(name, price)| (name.trim_end_matches('*').to_owned(), price))
            .collect();
        beginnings.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        Ok(Self {
            exact: exact.into_iter().collect(),
            beginnings,
            source,
        })
    }

    /// Returns the file of the prices, as the user typed it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns whether there are no prices.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.beginnings.is_empty()
    }

    /// Returns the price of `model`, or `None` if the table doesn't have it or the name is empty.
    pub fn of(&self, model: &str) -> Option<Price> {
        let is_begun = |name: &str| !model.is_empty() && model.starts_with(name);
        let begun = || {
            self.beginnings
                .iter()
                .find(|(name, _)| is_begun(name))
                .map(|(_, price)| price)
        };
        self.exact.get(model).or_else(begun).copied()
    }

    /// Returns the cost of `model`'s tokens in US dollars, or `None` if the table or the trace
    /// lacks a necessary value.
    pub fn cost(&self, model: &str, usage: Usage) -> Option<f64> {
        let price = self.of(model)?;
        let (input, output) = (usage.input?, usage.output?);
        let cached = usage.cached.unwrap_or(0).min(input);
        let held = if cached == 0 {
            0.0
        } else {
            cached as f64 * price.cached?
        };
        Some(
            ((input - cached) as f64 * price.input + held + output as f64 * price.output) / MILLION,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prices() -> Prices {
        let price = |input, cached, output| Price {
            input,
            cached,
            output,
        };
        let table = [
            ("opus-4", price(10.0, Some(1.0), 50.0)),
            ("opus-4-*", price(20.0, None, 60.0)),
            ("opus-*", price(1.0, Some(0.1), 2.0)),
            ("other*", price(7.0, None, 7.0)),
        ];
        Prices::new(
            table.map(|(name, price)| (name.to_owned(), price)).into(),
            "prices.toml".to_owned(),
        )
        .unwrap()
    }

    #[test]
    fn a_model_has_the_price_of_its_name_or_of_the_longest_beginning_with_a_star() {
        let prices = prices();
        let input = |model| prices.of(model).map(|price| price.input);
        assert_eq!(input("opus-4"), Some(10.0));
        assert_eq!(input("opus-4-20260101"), Some(20.0));
        assert_eq!(input("opus-3"), Some(1.0));
        for model in ["opus", "Opus-4", "provider/opus-4", ""] {
            assert_eq!(input(model), None, "{model}");
        }
        let named = |name: &str| {
            Prices::new(
                [(
                    name.to_owned(),
                    Price {
                        input: 1.0,
                        cached: None,
                        output: 1.0,
                    },
                )]
                .into(),
                String::new(),
            )
        };
        let any = named("*").unwrap();
        for odd in ["a*b", "*a", "a**", "a*b*"] {
            assert_eq!(named(odd), Err(OddName(odd.to_owned())));
        }
        assert!(any.of("opus").is_some() && any.of("").is_none());
        assert!(Prices::default().is_empty() && Prices::default().of("opus-4").is_none());
    }

    #[test]
    fn each_kind_of_token_has_its_price_and_unknown_tokens_have_no_cost() {
        let prices = prices();
        let usage = |input, cached, output| Usage {
            input,
            cached,
            output,
            reasoning: None,
        };
        let cost = |model, of| prices.cost(model, of);
        assert_eq!(
            cost(
                "opus-4",
                usage(Some(1_000_000), Some(400_000), Some(100_000))
            ),
            Some(11.4)
        );
        assert_eq!(
            cost("opus-4", usage(Some(1_000_000), None, Some(0))),
            Some(10.0)
        );
        assert_eq!(cost("opus-4", usage(Some(1), None, None)), None);
        assert_eq!(cost("opus-4", usage(None, None, Some(1))), None);
        assert_eq!(
            cost("opus-4-x", usage(Some(10), Some(5), Some(1))),
            None,
            "cached input has no price"
        );
        assert_eq!(
            cost("opus-4-x", usage(Some(1_000_000), Some(0), Some(0))),
            Some(20.0)
        );
        assert_eq!(cost("else", usage(Some(1), None, Some(1))), None);
        assert_eq!(
            cost("opus-4", usage(Some(5), Some(9), Some(0))),
            Some(5e-6),
            "more cached tokens than input tokens"
        );
    }
}
