//! Computes the cost of tokens from prices: the user's own table, and the built-in price list.
//!
//! No name is guessed. In the user's table, a model's price is the one under its exact name, or under
//! the longest prefix of the name that the table lists with a trailing `*`. The user's prices win
//! over the price list.

mod list;
mod rates;

use std::collections::BTreeMap;
use std::fmt;

pub use list::DATE as LIST_DATE;
pub use rates::{KindCosts, Price, RequestSize, Tier};

use super::step::Usage;

/// The prices of models, and the file they come from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Prices {
    exact: BTreeMap<String, Price>,
    /// Name prefixes, the longest first.
    beginnings: Vec<(String, Price)>,
    source: String,
    /// Whether models that the user's table lacks have the price of the built-in list.
    has_list: bool,
}

/// Where the price of a model comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PriceSource {
    /// The user's table.
    File,
    /// The built-in price list.
    List,
}

/// A name in a price table with more than one `*`, or with a `*` before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidName(pub String);

impl fmt::Display for InvalidName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name can contain one *, only at its end")
    }
}

impl std::error::Error for InvalidName {}

impl Prices {
    /// Creates prices from `table`, which was read from `source`. A key is a model's name, or a
    /// prefix of names if it ends with `*`.
    ///
    /// # Errors
    /// Fails if a name has a `*` elsewhere, because it would match no model.
    pub fn new(table: BTreeMap<String, Price>, source: String) -> Result<Self, InvalidName> {
        let is_invalid = |name: &&String| name.strip_suffix('*').unwrap_or(name).contains('*');
        if let Some(name) = table.keys().find(is_invalid) {
            return Err(InvalidName(name.clone()));
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
            has_list: false,
        })
    }

    /// Adds the built-in price list for the models that the table lacks.
    #[must_use]
    pub fn with_list(self) -> Self {
        Self {
            has_list: true,
            ..self
        }
    }

    /// Returns whether there are no prices.
    pub fn is_empty(&self) -> bool {
        !self.has_list && self.exact.is_empty() && self.beginnings.is_empty()
    }

    /// Returns the price of `model` and its source, or `None` if there is no price or the name is
    /// empty.
    pub fn of(&self, model: &str) -> Option<(&Price, PriceSource)> {
        let is_begun = |name: &str| !model.is_empty() && model.starts_with(name);
        let begun = || {
            self.beginnings
                .iter()
                .find(|(name, _)| is_begun(name))
                .map(|(_, price)| price)
        };
        let own = self.exact.get(model).or_else(begun);
        own.map(|price| (price, PriceSource::File)).or_else(|| {
            let listed = self.has_list.then(|| list::find(model))??;
            Some((listed, PriceSource::List))
        })
    }

    /// Returns the cost in US dollars of requests to `model`, or `None` if a price or the trace
    /// lacks a necessary value. `usage` may be the sum over requests of the same size.
    pub fn cost(&self, model: &str, usage: Usage, size: RequestSize) -> Option<f64> {
        self.of(model)?.0.cost(usage, size)
    }

    /// Returns the cost as [`Prices::cost`], by kind of token.
    pub fn costs(&self, model: &str, usage: Usage, size: RequestSize) -> Option<KindCosts> {
        self.of(model)?.0.costs(usage, size)
    }

    /// Returns the cost of one request, as [`Prices::cost`].
    pub fn cost_of_request(&self, model: &str, usage: Usage) -> Option<f64> {
        self.cost(model, usage, RequestSize::of(usage.input))
    }

    /// Describes where the prices of these models come from: `list prices of 2026-11-27`.
    pub fn source_of<'a>(&self, models: impl IntoIterator<Item = &'a str>) -> String {
        let sources: std::collections::BTreeSet<PriceSource> = models
            .into_iter()
            .filter_map(|model| Some(self.of(model)?.1))
            .collect();
        let words = |source: &PriceSource| match source {
            PriceSource::File => self.source.clone(),
            PriceSource::List => format!("list prices of {LIST_DATE}"),
        };
        let words: Vec<String> = sources.iter().map(words).collect();
        words.join(" and ")
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
            ..Price::default()
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
        let input = |model| prices.of(model).map(|(price, _)| price.input);
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
                        output: 1.0,
                        ..Price::default()
                    },
                )]
                .into(),
                String::new(),
            )
        };
        let any = named("*").unwrap();
        for odd in ["a*b", "*a", "a**", "a*b*"] {
            assert_eq!(named(odd), Err(InvalidName(odd.to_owned())));
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
            ..Usage::default()
        };
        let cost = |model, of| prices.cost(model, of, RequestSize::default());
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

    #[test]
    fn cache_writes_and_large_requests_have_their_own_prices() {
        let large = Price {
            input: 6.0,
            output: 30.0,
            ..Price::default()
        };
        let price = Price {
            input: 3.0,
            cached: Some(0.3),
            cache_write: Some(3.75),
            cache_write_1h: Some(6.0),
            output: 15.0,
            window: Some(200_000),
            tiers: vec![Tier {
                above: 200_000,
                price: large,
            }],
        };
        let prices = Prices::new([("m".to_owned(), price)].into(), String::new()).unwrap();
        let usage = Usage {
            input: Some(10_000_000),
            cached: Some(4_000_000),
            output: Some(1_000_000),
            reasoning: None,
            written: Some(3_000_000),
            written_1h: Some(1_000_000),
        };
        let cost = |input| prices.cost("m", usage, RequestSize::of(Some(input)));
        let small = 3.0 * 3.0 + 4.0 * 0.3 + 2.0 * 3.75 + 6.0 + 15.0;
        assert_eq!(cost(200_000), Some(small));
        let large = 3.0 * 6.0 + 4.0 * 0.3 + 2.0 * 3.75 + 6.0 + 30.0;
        assert_eq!(cost(200_001), Some(large));
        assert_eq!(cost(900_000), Some(large));
        let without = Prices::new(
            [(
                "m".to_owned(),
                Price {
                    input: 2.0,
                    cached: Some(0.0),
                    ..Price::default()
                },
            )]
            .into(),
            String::new(),
        );
        assert_eq!(
            without.unwrap().cost("m", usage, RequestSize::default()),
            Some(12.0),
            "without a price, cache writes are ordinary input"
        );
    }

    #[test]
    fn the_users_prices_win_over_the_list() {
        let own = prices().with_list();
        let sonnet = "claude-sonnet-4-5-20250929";
        assert_eq!(own.of(sonnet).unwrap().1, PriceSource::List);
        assert_eq!(own.of("other-model").unwrap().1, PriceSource::File);
        assert_eq!(own.of("a model that no vendor has"), None);
        assert_eq!(
            own.source_of([sonnet, "other-model", "none"]),
            format!("prices.toml and list prices of {LIST_DATE}")
        );
        assert!(prices().of(sonnet).is_none(), "the list is not used");
    }
}
