//! How is a set of rules kept? `manifest.stop_rules`, a loaded file, and back.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::code::Origin;
use super::facts::GateSet;
use super::spec::StopSpec;

/// The limits asked before each step. They are part of every set, and no hook or filter removes them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Budget {
    /// Completed steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<Limit>,
    /// Milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<Limit>,
    /// Tokens sent and received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Limit>,
}

impl Budget {
    /// Sets the limit of steps.
    #[must_use]
    pub fn steps(mut self, limit: u64, from: Origin) -> Self {
        self.steps = Some(Limit { limit, from });
        self
    }

    /// Sets the limit of time.
    #[must_use]
    pub fn time(mut self, limit: Duration, from: Origin) -> Self {
        let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        self.time_ms = Some(Limit { limit, from });
        self
    }

    /// Sets the limit of tokens.
    #[must_use]
    pub fn tokens(mut self, limit: u64, from: Origin) -> Self {
        self.tokens = Some(Limit { limit, from });
        self
    }

    /// This budget, with the other's limits where it has some: a task's over the engine's.
    #[must_use]
    pub fn overridden_by(self, other: Budget) -> Self {
        Self {
            steps: other.steps.or(self.steps),
            time_ms: other.time_ms.or(self.time_ms),
            tokens: other.tokens.or(self.tokens),
        }
    }
}

/// One limit of the budget; 0 lets nothing run. Written as a bare number where nobody is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// The limit.
    pub limit: u64,
    /// Who set it.
    pub from: Origin,
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Full {
            limit: u64,
            #[serde(default)]
            from: Origin,
        }
        let value = Value::deserialize(deserializer)?;
        let read = match value {
            Value::Object(_) => Full::deserialize(value).map(|full| Self { limit: full.limit, from: full.from }),
            bare => u64::deserialize(bare).map(|limit| Self { limit, from: Origin::default() }),
        };
        read.map_err(serde::de::Error::custom)
    }
}

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
        Self { id: Some(id.into()), ..self }
    }
}

impl From<StopSpec> for RuleEntry {
    fn from(spec: StopSpec) -> Self {
        Self { id: None, rule: EntryRule::Spec(spec), from: Origin::default() }
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
            Some(_) => Opaque::deserialize(value).map(|rule| EntryRule::Opaque { opaque: rule.opaque }),
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
            Some(_) => Full::deserialize(value).map(|full| Self { id: full.id, rule: full.rule, from: full.from }),
            None => StopSpec::deserialize(value).map(RuleEntry::from),
        };
        read.map_err(serde::de::Error::custom)
    }
}
