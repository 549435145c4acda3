//! Looks up models in the built-in price list. `list.py` writes the list and describes its columns.

use std::sync::LazyLock;

use super::rates::{Price, Tier};

/// The list. Its first line holds the date and the source, and the names of the others are sorted.
const LIST: &str = include_str!("list.tsv");
/// The day on which the list was made.
pub const DATE: &str = date();

/// Names before a slash that only say who serves the model, not which model it is.
const GATEWAYS: [&str; 20] = [
    "anthropic",
    "azure",
    "bedrock",
    "dashscope",
    "deepseek",
    "gemini",
    "google",
    "litellm_proxy",
    "minimax",
    "mistral",
    "mistralai",
    "models",
    "moonshot",
    "moonshotai",
    "openai",
    "openrouter",
    "vertex_ai",
    "x-ai",
    "xai",
    "zai",
];

/// Returns the date in the first line: `# 2026-11-27`.
const fn date() -> &'static str {
    let (_, rest) = LIST.split_at(2);
    rest.split_at(10).0
}

/// The prices in the order of their names. Lists of many runs look up a price for each run, so the
/// lines are parsed only once.
static PRICES: LazyLock<Vec<(&str, Price)>> = LazyLock::new(|| {
    lines()
        .filter_map(|(name, columns)| Some((name, price(columns)?)))
        .collect()
});

/// Iterates over the lines of models: the name, and the other columns.
fn lines() -> impl Iterator<Item = (&'static str, &'static str)> {
    LIST.lines()
        .filter_map(|line| line.split_once('\t'))
        .filter(|(name, _)| !name.starts_with('#'))
}

/// Returns the price of a model. Letter case, a gateway before the name (`openrouter/`), a date after
/// `@` instead of `-`, and Claude Code's suffix `[1m]` make no difference.
pub(super) fn find(model: &str) -> Option<&'static Price> {
    let exact = |name: &str| {
        let at = PRICES.binary_search_by_key(&name, |(name, _)| name).ok()?;
        PRICES.get(at).map(|(_, price)| price)
    };
    if let Some(price) = exact(model) {
        return Some(price);
    }
    let name = model.to_ascii_lowercase().replace('@', "-");
    let mut name = name.strip_suffix("[1m]").unwrap_or(&name);
    loop {
        if let Some(price) = exact(name) {
            return Some(price);
        }
        let (gateway, rest) = name.split_once('/')?;
        name = Some(rest).filter(|_| GATEWAYS.contains(&gateway))?;
    }
}

/// Parses the columns after a name.
fn price(columns: &str) -> Option<Price> {
    let mut columns = columns.split('\t');
    let mut usd = || columns.next()?.parse().ok();
    let (input, output, cached, cache_write, cache_write_1h) = (usd(), usd(), usd(), usd(), usd());
    let window = columns.next()?.parse().ok();
    let tiers = columns.next()?.split(',').filter_map(tier).collect();
    Some(Price {
        input: input?,
        cached,
        cache_write,
        cache_write_1h,
        output: output?,
        window,
        tiers,
    })
}

/// Parses a tier: `200000:6/22.5/0.6//`.
fn tier(text: &str) -> Option<Tier> {
    let (above, prices) = text.split_once(':')?;
    let mut prices = prices.split('/');
    let mut usd = || prices.next()?.parse().ok();
    let (input, output) = (usd(), usd());
    Some(Tier {
        above: above.parse().ok()?,
        price: Price {
            input: input?,
            output: output?,
            cached: usd(),
            cache_write: usd(),
            cache_write_1h: usd(),
            ..Price::default()
        },
    })
}

#[cfg(test)]
mod tests {
    use super::super::rates::RequestSize;
    use super::*;

    #[test]
    fn every_line_of_the_list_is_well_formed() {
        let first = LIST.lines().next().unwrap();
        let (date, source) = first.split_once('\t').unwrap();
        assert_eq!(date, format!("# {DATE}"));
        assert!(source.starts_with("litellm "), "{source}");
        assert!(
            DATE.bytes().enumerate().all(|(at, byte)| match at {
                4 | 7 => byte == b'-',
                _ => byte.is_ascii_digit(),
            }),
            "{DATE}"
        );
        assert!(PRICES.len() > 1_000 && PRICES.len() + 1 == LIST.lines().count());
        assert!(PRICES.is_sorted_by(|a, b| a.0 < b.0));
        for (name, columns) in lines() {
            assert_eq!(name.to_ascii_lowercase(), name);
            let fields: Vec<&str> = columns.split('\t').collect();
            assert_eq!(fields.len(), 7, "{name}");
            let price = price(columns).unwrap_or_else(|| panic!("{name}"));
            let numbers = fields[..5].iter().filter(|field| !field.is_empty()).count();
            let read = [price.cached, price.cache_write, price.cache_write_1h];
            assert_eq!(numbers, 2 + read.iter().flatten().count(), "{name}");
            assert_eq!(price.window.is_some(), !fields[5].is_empty(), "{name}");
            let tiers = fields[6].split(',').filter(|tier| !tier.is_empty()).count();
            assert_eq!(price.tiers.len(), tiers, "{name}");
            assert!(price.tiers.is_sorted_by(|a, b| a.above < b.above), "{name}");
            for tier in &price.tiers {
                assert!(
                    RequestSize::LIMITS.contains(&tier.above),
                    "{name} {}",
                    tier.above
                );
            }
            let all = read
                .into_iter()
                .flatten()
                .chain([price.input, price.output]);
            assert!(
                all.into_iter().all(|usd| (0.0..100_000.0).contains(&usd)),
                "{name}"
            );
        }
    }

    /// The older packages list wrong prices, such as 6 for haiku, or none.
    #[test]
    fn an_old_cache_write_kept_for_an_hour_costs_twice_the_input() {
        let mut tiers = 0;
        for name in [
            "claude-3-haiku-20240307",
            "claude-3-5-haiku-20241022",
            "claude-3-7-sonnet-20250219",
            "claude-3-opus-20240229",
            "claude-opus-4-1-20250805",
            "claude-sonnet-4-20250514",
        ] {
            let price = find(name).unwrap();
            assert_eq!(price.cache_write_1h, Some(2.0 * price.input), "{name}");
            for tier in &price.tiers {
                let price = &tier.price;
                assert_eq!(price.cache_write_1h, Some(2.0 * price.input), "{name}");
            }
            tiers += price.tiers.len();
        }
        assert_eq!(tiers, 1);
        // OpenAI sells no cache writes.
        assert_eq!(find("gpt-4o-2024-05-13").unwrap().cache_write_1h, None);
    }

    #[test]
    fn a_name_may_differ_in_case_gateway_and_how_it_spells_its_date() {
        let sonnet = find("claude-sonnet-4-5-20250929").unwrap();
        for name in [
            "anthropic/claude-sonnet-4-5-20250929",
            "openrouter/anthropic/Claude-Sonnet-4-5-20250929",
            "claude-sonnet-4-5@20250929",
            "claude-sonnet-4-5-20250929[1m]",
        ] {
            assert_eq!(find(name), Some(sonnet), "{name}");
        }
        for name in [
            "",
            "claude",
            "ollama/gemini-2.5-pro",
            "mine/gemini-2.5-pro",
            "<synthetic>",
        ] {
            assert_eq!(find(name), None, "{name}");
        }
        assert_eq!(sonnet.cache_write, Some(3.75));
        let tiers = &find("gemini-2.5-pro").unwrap().tiers;
        assert_eq!((tiers[0].above, tiers[0].price.input), (200_000, 2.5));
    }
}
