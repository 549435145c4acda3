//! Parses the rules that a user typed, and explains what is wrong with the invalid ones.
//!
//! An invalid rule never hides the valid ones: each is parsed separately, and the question contains
//! those that are valid. Knows no forms, addresses or command lines. The caller reads schema files.

use serde_json::Value;

use super::{RuleSet, fault};
use crate::analysis::closest::closest;
use crate::stop::{self, RULES, SpecError, StopSpec};

/// The maximum number of rules evaluated at once.
const MAX_RULES: usize = 64;

/// A rule as typed.
#[derive(Debug, Clone, PartialEq)]
pub struct Typed {
    /// The text.
    pub text: String,
    /// The parsed rule, or why it's invalid.
    pub read: Result<StopSpec, Wrong>,
}

/// Why a typed rule is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// The problem, without a full stop.
    pub why: String,
    /// A valid example.
    pub example: &'static str,
}

impl Wrong {
    /// Returns whether the problem names the rule as typed.
    pub fn names(&self, text: &str) -> bool {
        self.why.contains(&format!("`{text}`"))
    }
}

/// Parses rules as typed, in short form or as JSON. `load` reads a schema that is referenced by its
/// file name.
pub fn typed(
    texts: impl IntoIterator<Item = String>,
    mut load: impl FnMut(&str) -> Result<Value, String>,
) -> Vec<Typed> {
    let read = |(place, text): (usize, String)| {
        let spec = StopSpec::parse_with(&text, &mut load).map_err(|wrong| wrong.to_string());
        let spec = spec.and_then(|spec| fault(&spec).map_or(Ok(spec), Err));
        let too_many = || format!("at most {MAX_RULES} rules can be evaluated at once");
        let read = spec.and_then(|spec| {
            if place < MAX_RULES {
                Ok(spec)
            } else {
                Err(too_many())
            }
        });
        Typed {
            read: read.map_err(|why| Wrong {
                example: example(&text),
                why,
            }),
            text,
        }
    };
    texts.into_iter().enumerate().map(read).collect()
}

/// Prepares the valid rules for evaluation.
///
/// # Errors
/// Each rule is valid separately, but they can't be evaluated together.
pub fn rule_set(typed: &[Typed]) -> Result<RuleSet, SpecError> {
    RuleSet::new(
        typed
            .iter()
            .filter_map(|typed| typed.read.as_ref().ok().cloned())
            .collect(),
    )
}

/// Returns a valid rule of the kind that was probably meant.
fn example(text: &str) -> &'static str {
    let text = text.trim();
    let json = || {
        serde_json::from_str::<Value>(text)
            .ok()?
            .get("type")?
            .as_str()
            .map(str::to_owned)
    };
    let name = text.split_once('=').map_or(text, |(name, _)| name.trim());
    let name = if text.starts_with('{') {
        json().unwrap_or_default()
    } else {
        name.to_owned()
    };
    let close = || {
        closest(
            &name.to_lowercase(),
            RULES.iter().map(|row| (row.name, *row)),
        )
        .next()
    };
    let row = stop::row(&name).or_else(close);
    row.map_or("max_steps=8", |row| row.correction.unwrap_or(row.example))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Typed {
        let no_files = |file: &str| Err(format!("{file} is not read"));
        typed([text.to_owned()], no_files).remove(0)
    }

    #[test]
    fn a_bad_rule_says_why_and_shows_a_right_one() {
        for (text, why, example) in [
            (
                "max_steps=-3",
                "max_steps must be a whole number",
                "max_steps=8",
            ),
            ("max_step=3", "unknown rule `max_step`", "max_steps=8"),
            ("max_stpes=3", "unknown rule `max_stpes`", "max_steps=8"),
            ("stagnatoin=3", "unknown rule `stagnatoin`", "stagnation=3"),
            ("budget=3", "unknown rule `budget`", "token_budget=1000"),
            ("nonsense", "unknown rule `nonsense`", "max_steps=8"),
            (
                "content_match=(",
                "the pattern \"(\" doesn't compile",
                "content_match=(?i)done",
            ),
            (
                "critic_below=tests",
                "critic_below needs NAME:SCORE",
                "critic_below=tests:0.5:2",
            ),
            (
                "structured_output=a.json",
                "a.json is not read",
                r#"{"type":"structured_output","schema":{"type":"object"}}"#,
            ),
            (
                r#"{"type":"any_of","of":[]}"#,
                "any_of needs at least one",
                r#"{"type":"any_of","of":[{"type":"max_steps","steps":8}]}"#,
            ),
            (
                r#"{"type":"timeout","seconds":1.5}"#,
                "the rule {\"type\":\"timeout\"",
                "timeout=60",
            ),
            (r#"{"type":"#, "the rule {\"type\":", "max_steps=8"),
        ] {
            let wrong = read(text).read.unwrap_err();
            assert!(wrong.why.starts_with(why), "{text}: {}", wrong.why);
            assert_eq!(wrong.example, example, "{text}");
            assert!(read(example).read.is_ok(), "{example} is right");
        }
    }

    #[test]
    fn the_good_ones_are_asked_all_the_same() {
        let texts = ["max_steps=4", "max_steps=x", " keyword=two "].map(str::to_owned);
        let typed = typed(texts, |_| Ok(Value::Null));
        let rule_set = rule_set(&typed).unwrap();
        assert_eq!(rule_set.specs().len(), 2);
        let many = super::typed((0..70).map(|n| format!("max_steps={n}")), |_| {
            Ok(Value::Null)
        });
        assert_eq!(
            many.iter().filter(|typed| typed.read.is_err()).count(),
            70 - MAX_RULES
        );
    }
}
