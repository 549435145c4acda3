//! How is a set of rules kept? `manifest.stop_rules`, a loaded file, and back.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::facts::GateSet;
use super::rules::StopSpec;
use crate::model::{Budget, Origin};

/// A set of rules as it is written down.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct StopRules {
    /// The budget.
    #[serde(default)]
    pub budget: Budget,
    /// The rules that accept answers, in order; none means that a final decision is enough.
    #[serde(default)]
    pub completion: Vec<RuleEntry>,
    /// All others, in order.
    #[serde(default)]
    pub policies: Vec<RuleEntry>,
}

/// One rule of a list: bare, or `{"id": .., "rule": {..}, "from": ..}`. The id stands beside the rule, since a rule
/// refuses unknown keys.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RuleEntry {
    /// Its id; its place in the list (`stop[2]`, `accept[0]`) where none is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The rule.
    pub rule: EntryRule,
    /// Who set it.
    pub from: Origin,
}

/// A rule of an entry.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum EntryRule {
    /// A built-in rule.
    Spec(StopSpec),
    /// A rule in code, of which only the answers can be recorded.
    Opaque {
        /// The gates at which it was asked.
        opaque: GateSet,
    },
}

impl RuleEntry {
    /// The entry under an id of its own.
    #[must_use]
    pub fn named(self, id: impl Into<String>) -> Self {
        Self {
            id: Some(id.into()),
            ..self
        }
    }
}

impl From<StopSpec> for RuleEntry {
    fn from(spec: StopSpec) -> Self {
        Self {
            id: None,
            rule: EntryRule::Spec(spec),
            from: Origin::default(),
        }
    }
}

// By hand, so that a mistake in a rule is named; an untagged enum would only say that nothing matches.
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
