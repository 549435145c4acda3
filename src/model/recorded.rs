//! Defines the facts that a step of board's engine records for its stop rules, as far as they fit
//! an index.

use serde::{Deserialize, Serialize};

use super::json::{Json, walk};

/// Hashes a text (FNV-1a, 64 bits, with its authors' offset basis and prime). The hash is the same
/// in all versions and on all machines.
pub fn text_hash(text: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// The facts that a step of board's engine records for its stop rules, as far as they fit an index.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedFacts {
    /// The recorded `facts` member, or `None` if it's longer than an index keeps. The line contains
    /// it in any case.
    pub json: Option<Box<str>>,
    /// The recorded `error` member, if the step failed.
    pub error: Option<Box<str>>,
    /// The [`text_hash`] of the model's text, and the text's length in bytes.
    pub text: (u64, u64),
    /// The tokens of all model calls of the step, including those after the decision.
    pub tokens: Option<u64>,
    /// Whether any of the tokens were estimated.
    pub is_estimated: bool,
}

/// Longer facts are only kept on their line. Results of custom rules may carry long texts.
const MAX_FACTS_BYTES: usize = 4_096;

impl RecordedFacts {
    /// Creates the facts from a step's `facts` and `error` members and the model's text.
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

/// Returns the sum of input and output in the `usage` and `late_usage` members. The step's line
/// counts both, too.
fn tokens(facts: &str) -> Option<u64> {
    let member = |text: &str, name: &str| -> Option<String> {
        let mut members =
            walk::members(text).filter(|(key, _)| walk::string(key).as_deref() == Some(name));
        members.next().map(|(_, value)| value.to_owned())
    };
    let sum = |usage: &str| {
        let count = |name: &str| member(usage, name)?.parse::<u64>().ok();
        count("input")?.checked_add(count("output")?)
    };
    let late = match member(facts, "late_usage") {
        Some(late) => sum(&late)?,
        None => 0,
    };
    sum(&member(facts, "usage")?)?.checked_add(late)
}

/// Returns whether `usage` or `late_usage` is marked as estimated.
fn is_estimated(facts: &str) -> bool {
    // Most facts don't contain `true` and need not be parsed.
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
    fn tokens_are_estimated_if_either_usage_says_so() {
        let facts = |usage: bool, late: bool| {
            format!(
                r#"{{"cost_estimated":true,"usage":{{"estimated":{usage}}},"late_usage":{{"estimated": {late}}}}}"#
            )
        };
        assert!(
            !is_estimated(&facts(false, false)),
            "a cost from prices and counted tokens"
        );
        assert!(is_estimated(&facts(true, false)) && is_estimated(&facts(false, true)));
        assert!(!is_estimated(
            r#"{"final_answer":"\"usage\":{\"estimated\":true}"}"#
        ));
    }

    #[test]
    fn tokens_of_a_judge_are_tokens_of_the_step() {
        let usage = r#""usage":{"input":60,"output":9}"#;
        let late = r#""late_usage":{"input":40,"output":11}"#;
        assert_eq!(tokens(&format!("{{{usage}}}")), Some(69));
        assert_eq!(tokens(&format!("{{{usage},{late}}}")), Some(120));
        assert_eq!(tokens(&format!("{{{late}}}")), None);
        let unknown = r#""late_usage":{"input":"many","output":11}"#;
        assert_eq!(tokens(&format!("{{{usage},{unknown}}}")), None);
    }

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(text_hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(text_hash("a"), 0xaf63_dc4c_8601_ec8c);
    }
}
