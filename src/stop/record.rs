//! Stores a set of rules in `manifest.stop_rules` or a file, and loads it again.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::facts::GateSet;
use super::rules::StopSpec;
use crate::model::{Budget, Origin};

/// A set of rules as recorded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct StopRules {
    /// The budget.
    #[serde(default)]
    pub budget: Budget,
    /// The rules that accept answers, in order. If empty or all off, a final decision is enough.
    #[serde(default)]
    pub completion: Vec<RuleEntry>,
    /// All other rules, in order.
    #[serde(default)]
    pub policies: Vec<RuleEntry>,
}

/// One rule of a list: a bare rule, or `{"id": .., "rule": {..}, "from": ..}`. The id is next to
/// the rule because a rule refuses unknown keys.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RuleEntry {
    /// The rule's id. Defaults to its position in the list, such as `stop[2]` or `accept[0]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The rule.
    pub rule: EntryRule,
    /// Who set the rule.
    pub from: Origin,
}

/// The rule of an entry.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum EntryRule {
    /// A built-in rule.
    Spec(StopSpec),
    /// A custom rule. Only its results can be recorded.
    Opaque {
        /// The gates at which the rule was checked.
        opaque: GateSet,
    },
}

impl RuleEntry {
    /// Returns the entry with this id.
    #[must_use]
    pub fn named(self, id: impl Into<String>) -> Self {
        Self {
            id: Some(id.into()),
            ..self
        }
    }
}

/// Accepts [`StopSpec`] and every rule that converts to it.
impl<R: Into<StopSpec>> From<R> for RuleEntry {
    fn from(rule: R) -> Self {
        Self {
            id: None,
            rule: EntryRule::Spec(rule.into()),
            from: Origin::default(),
        }
    }
}

// Implemented by hand so that errors name the mistake in a rule. An untagged enum would only report
// that no variant matches.
impl<'de> Deserialize<'de> for EntryRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Opaque {
            opaque: GateSet,
        }
        let value = Value::deserialize(deserializer)?;
        let read = match value.get("opaque") {
            Some(_) => Opaque::deserialize(value).map(|rule| EntryRule::Opaque {
                opaque: rule.opaque,
            }),
            None => StopSpec::deserialize(value).map(EntryRule::Spec),
        };
        read.map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for RuleEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Full {
            id: Option<String>,
            rule: EntryRule,
            #[serde(default)]
            from: Origin,
        }
        let value = Value::deserialize(deserializer)?;
        let read = match value.get("rule") {
            Some(_) => Full::deserialize(value).map(|full| Self {
                id: full.id,
                rule: full.rule,
                from: full.from,
            }),
            None => StopSpec::deserialize(value).map(RuleEntry::from),
        };
        read.map_err(serde::de::Error::custom)
    }
}
