//! Computes the cost of tokens from prices: the user's own table, and the built-in price list.
//!
//! No name is guessed. In the user's table, a model's price is the one under its exact name, or under
//! the longest prefix of the name that the table lists with a trailing `*`. The user's prices win
//! over the price list.

mod list;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer};

pub use list::DATE as LIST_DATE;

use super::step::Usage;

/// A model's price, in US dollars per million tokens. Each number read from a file is finite and
/// not negative.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// The price of input that is neither read from a cache nor written to one.
    #[serde(deserialize_with = "usd")]
    pub input: f64,
    /// The price of cached input, or `None` if the table doesn't have it.
    #[serde(default, deserialize_with = "usd_if_any")]
    pub cached: Option<f64>,
    /// The price of input that is written to a cache for five minutes. If `None`, it costs as much
    /// as other input.
    #[serde(default, deserialize_with = "usd_if_any")]
    pub cache_write: Option<f64>,
    /// The price of input that is written to a cache for an hour. If `None`, it costs as much as
    /// for five minutes.
    #[serde(default, deserialize_with = "usd_if_any")]
    pub cache_write_1h: Option<f64>,
    /// The price of output.
    #[serde(deserialize_with = "usd")]
    pub output: f64,
    /// The size of the context window in tokens.
    #[serde(default)]
    pub window: Option<u64>,
    /// The prices of large requests, the smallest limit first.
    #[serde(skip)]
    pub tiers: Vec<Tier>,
}

/// The price of requests with more than a number of input tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct Tier {
    /// The number of input tokens above which the tier applies. One of [`RequestSize::LIMITS`].
    pub above: u64,
    /// The prices. A missing one is the price of smaller requests.
    pub price: Price,
}

/// How many input tokens a request has, as far as prices distinguish it.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct RequestSize(u8);

impl RequestSize {
    /// The limits of tiers in the price list, in input tokens.
    pub const LIMITS: [u64; 7] = [32_000, 100_000, 128_000, 200_000, 256_000, 272_000, 512_000];

    /// Returns the size of a request with `input` tokens.
    pub fn of(input: Option<u64>) -> Self {
        let over = |limit: &&u64| input.is_some_and(|input| input > **limit);
        Self(Self::LIMITS.iter().take_while(over).count() as u8)
    }

    /// Returns whether such a request has more than `limit` input tokens.
    fn exceeds(self, limit: u64) -> bool {
        let last = usize::from(self.0).checked_sub(1);
        last.and_then(|last| Self::LIMITS.get(last))
            .is_some_and(|reached| *reached >= limit)
    }
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

impl Price {
    /// Returns the cost in US dollars of requests of this size, or `None` if a necessary number is
    /// unknown.
    fn cost(&self, usage: Usage, size: RequestSize) -> Option<f64> {
        let tier = self
            .tiers
            .iter()
            .rev()
            .find(|tier| size.exceeds(tier.above));
        let price = tier.map_or(self, |tier| &tier.price);
        let (input, output) = (usage.input?, usage.output?);
        let cached = usage.cached.unwrap_or(0).min(input);
        let written = usage.written.unwrap_or(0).min(input - cached);
        let hour = usage.written_1h.unwrap_or(0).min(written);
        let of_cached = if cached == 0 {
            0.0
        } else {
            cached as f64 * price.cached.or(self.cached)?
        };
        let write = price
            .cache_write
            .or(self.cache_write)
            .unwrap_or(price.input);
        let write_1h = price
            .cache_write_1h
            .or(self.cache_write_1h)
            .unwrap_or(write);
        Some(
            ((input - cached - written) as f64 * price.input
                + of_cached
                + (written - hour) as f64 * write
                + hour as f64 * write_1h
                + output as f64 * price.output)
                / MILLION,
        )
    }
}

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
    pub fn of(&self, model: &str) -> Option<(Price, PriceSource)> {
        let is_begun = |name: &str| !model.is_empty() && model.starts_with(name);
        let begun = || {
            self.beginnings
                .iter()
                .find(|(name, _)| is_begun(name))
                .map(|(_, price)| price)
        };
        let own = self.exact.get(model).or_else(begun);
        own.map(|price| (price.clone(), PriceSource::File))
            .or_else(|| {
                let listed = list::find(model).filter(|_| self.has_list)?;
                Some((listed, PriceSource::List))
            })
    }

    /// Returns the cost in US dollars of requests to `model`, or `None` if a price or the trace
    /// lacks a necessary value. `usage` may be the sum over requests of the same size.
    pub fn cost(&self, model: &str, usage: Usage, size: RequestSize) -> Option<f64> {
        self.of(model)?.0.cost(usage, size)
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
