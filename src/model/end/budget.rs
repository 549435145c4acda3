//! Defines the limits that are checked before each step, with the origin of each.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::kinds::Origin;

/// The limits checked before each step. Every set of rules includes them, and no hook or filter can
/// remove them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Budget {
    /// The limit on completed steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<Limit>,
    /// The limit on time, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<Limit>,
    /// The limit on tokens sent and received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Limit>,
}

impl Budget {
    /// Sets the step limit.
    #[must_use]
    pub fn steps(mut self, limit: u64, from: Origin) -> Self {
        self.steps = Some(Limit { limit, from });
        self
    }

    /// Sets the time limit.
    #[must_use]
    pub fn time(mut self, limit: Duration, from: Origin) -> Self {
        let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        self.time_ms = Some(Limit { limit, from });
        self
    }

    /// Sets the token limit.
    #[must_use]
    pub fn tokens(mut self, limit: u64, from: Origin) -> Self {
        self.tokens = Some(Limit { limit, from });
        self
    }

    /// Reads the budget from recorded `stop_rules`. Skips limits that can't be parsed. Returns
    /// `None` if no limit is left.
    pub(crate) fn read(stop_rules: Option<&RawValue>) -> Option<Self> {
        let rules: Value = serde_json::from_str(stop_rules?.get()).ok()?;
        let limit = |key: &str| Limit::read(rules.get("budget")?.get(key)?);
        let budget = Self {
            steps: limit("steps"),
            time_ms: limit("time_ms"),
            tokens: limit("tokens"),
        };
        Some(budget).filter(|budget| *budget != Self::default())
    }

    /// Returns this budget with the limits of `other` where it sets some, such as a task's over the
    /// engine's.
    #[must_use]
    pub fn overridden_by(self, other: Budget) -> Self {
        Self {
            steps: other.steps.or(self.steps),
            time_ms: other.time_ms.or(self.time_ms),
            tokens: other.tokens.or(self.tokens),
        }
    }
}

/// One limit of the budget; 0 lets nothing run.
///
/// A bare number deserializes as a limit with the default origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// The limit.
    pub limit: u64,
    /// Who set the limit.
    pub from: Origin,
}

impl Limit {
    fn read(recorded: &Value) -> Option<Self> {
        let limit = recorded.get("limit").unwrap_or(recorded).as_u64()?;
        let from = recorded
            .get("from")
            .and_then(|from| Origin::deserialize(from).ok());
        Some(Self {
            limit,
            from: from.unwrap_or_default(),
        })
    }
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
            Value::Object(_) => Full::deserialize(value).map(|full| Self {
                limit: full.limit,
                from: full.from,
            }),
            bare => u64::deserialize(bare).map(|limit| Self {
                limit,
                from: Origin::default(),
            }),
        };
        read.map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_limit_is_the_engines() {
        let read = |text| Budget::read(Some(serde_json::from_str(text).unwrap()));
        let budget = read(
            r#"{"budget": {"steps": 8, "tokens": {"limit": 100, "from": "task"}, "time_ms": "x"}}"#,
        );
        let expected = Budget::default()
            .steps(8, Origin::Engine)
            .tokens(100, Origin::Task);
        assert_eq!(budget, Some(expected));
        let newer =
            read(r#"{"budget": {"steps": {"limit": 8, "from": "moon", "why": 1}}, "all": []}"#);
        assert_eq!(newer, Some(Budget::default().steps(8, Origin::Engine)));
        assert_eq!((read(r#"{"budget": {}}"#), read("null")), (None, None));
    }
}
