//! What does a step of our own engine record for its stop rules, as far as it fits an index?

use super::json::{Json, walk};

/// Hashes a text for equality over versions and machines (FNV-1a, 64 bit, offset basis and prime of its authors).
pub fn text_hash(text: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// What a step of our own engine records for its stop rules, as far as it fits an index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedFacts {
    /// The `facts` key as written; `None` where it is longer than an index keeps, and the line has it.
    pub json: Option<Box<str>>,
    /// The `error` key as written, where the step failed.
    pub error: Option<Box<str>>,
    /// The [`text_hash`] of the model's text, and its length in bytes.
    pub text: (u64, u64),
    /// Tokens of all model calls up to the decision.
    pub tokens: Option<u64>,
    /// Whether tokens among them were estimated.
    pub is_estimated: bool,
}

/// Facts longer than this are left on their line: answers of rules in code may carry long texts.
const MAX_FACTS_BYTES: usize = 4_096;

impl RecordedFacts {
    /// Takes in the `facts` and the `error` of a step, and the model's text.
    pub(super) fn new(facts: &str, error: Option<&str>, text: &str) -> Self {
        let error = error.filter(|error| error.starts_with('{')).map(Into::into);
        let json = (facts.len() <= MAX_FACTS_BYTES).then(|| facts.into());
        let (text, tokens) = ((text_hash(text), text.len() as u64), tokens(facts));
        Self {
            json,
            error,
            text,
            tokens,
            is_estimated: is_estimated(facts),
        }
    }
}

/// Input and output of the `usage` key.
fn tokens(facts: &str) -> Option<u64> {
    let member = |text: &str, name: &str| -> Option<String> {
        let mut members =
            walk::members(text).filter(|(key, _)| walk::string(key).as_deref() == Some(name));
        members.next().map(|(_, value)| value.to_owned())
    };
    let usage = member(facts, "usage")?;
    let count = |name: &str| member(&usage, name)?.parse::<u64>().ok();
    count("input")?.checked_add(count("output")?)
}

/// Whether the tokens of one of both usages were.
fn is_estimated(facts: &str) -> bool {
    // Most say so of nothing, and need not be parsed.
    let facts = facts.contains("true").then(|| Json::parse(facts)).flatten();
    let of = |key: &str| {
        facts
            .as_ref()?
            .get(key)?
            .get("estimated")
            .map(|told| matches!(told, Json::Bool(true)))
    };
    ["usage", "late_usage"]
        .into_iter()
        .any(|key| of(key) == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_estimated_where_one_of_both_usages_says_so() {
        let facts = |usage: bool, late: bool| {
            format!(
                r#"{{"cost_estimated":true,"usage":{{"estimated":{usage}}},"late_usage":{{"estimated": {late}}}}}"#
            )
        };
        assert!(
            !is_estimated(&facts(false, false)),
            "a cost by prices of counted tokens"
        );
        assert!(is_estimated(&facts(true, false)) && is_estimated(&facts(false, true)));
        assert!(!is_estimated(
            r#"{"final_answer":"\"usage\":{\"estimated\":true}"}"#
        ));
    }

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(text_hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(text_hash("a"), 0xaf63_dc4c_8601_ec8c);
    }
}
