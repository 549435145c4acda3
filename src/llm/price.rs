//! What does the file say that models take? A table of prices, by the name of the model.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::model::price::{Price, Prices};

/// What a model takes for a million tokens, as written.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PricePart {
    input: Usd,
    cached: Option<Usd>,
    output: Usd,
}

/// US dollars, from 0 on.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
struct Usd(f64);

impl TryFrom<f64> for Usd {
    type Error = &'static str;

    fn try_from(usd: f64) -> Result<Self, Self::Error> {
        let usd = Some(usd).filter(|usd| usd.is_finite() && *usd >= 0.0);
        usd.map(Self).ok_or("expected a price in US dollars from 0 on")
    }
}

/// The prices of the file at `path`.
pub(super) fn prices(parts: &BTreeMap<String, PricePart>, path: &Path) -> Prices {
    let price =
        |part: &PricePart| Price { input: part.input.0, cached: part.cached.map(|usd| usd.0), output: part.output.0 };
    let table = parts.iter().map(|(name, part)| (name.clone(), price(part))).collect();
    Prices::new(table, path.display().to_string())
}
