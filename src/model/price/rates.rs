//! Computes the cost of requests at one price.

use serde::{Deserialize, Deserializer};

use crate::model::step::Usage;

/// Prices are in dollars per million tokens, so a token costs that many millionths of a dollar.
const MILLION: f64 = 1e6;

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

/// The cost of requests by kind of token, in millionths of a US dollar.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct KindCosts {
    /// Input that is neither read from a cache nor written to one.
    pub input: f64,
    /// Input that is written to a cache.
    pub cache_write: f64,
    /// Input that is read from a cache.
    pub cache_read: f64,
    /// Output.
    pub output: f64,
}

impl KindCosts {
    /// Returns the cost of all kinds together, in US dollars.
    pub fn usd(self) -> f64 {
        (self.input + self.cache_read + self.cache_write + self.output) / MILLION
    }
}

impl Price {
    /// Returns the cost in US dollars of requests of this size, or `None` if a necessary number is
    /// unknown.
    pub(super) fn cost(&self, usage: Usage, size: RequestSize) -> Option<f64> {
        Some(self.costs(usage, size)?.usd())
    }

    /// Returns the cost as [`Price::cost`], by kind of token.
    pub(super) fn costs(&self, usage: Usage, size: RequestSize) -> Option<KindCosts> {
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
        Some(KindCosts {
            input: (input - cached - written) as f64 * price.input,
            cache_read: of_cached,
            cache_write: (written - hour) as f64 * write + hour as f64 * write_1h,
            output: output as f64 * price.output,
        })
    }
}
