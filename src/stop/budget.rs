//! What may a run use up at most? The limits asked before each step, and a table of what each counts.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::code::{Code, Origin};
use super::rules::{Counts, MaxRuntime, MaxSteps, Row, TokenBudget, measure, row};
use super::stats::Stats;
use super::verdict::{Check, Op, Reading};

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

/// One limit of a [`Budget`].
#[derive(Debug)]
pub struct BudgetRow {
    /// Its id among the rules of a set.
    pub(crate) id: &'static str,
    /// How it is written with its limit, which has the unit of the record.
    pub(crate) written: &'static str,
    /// The code of its stops.
    pub(crate) code: &'static str,
    /// What people call it.
    pub(crate) label: &'static str,
    /// The rule that counts the same.
    pub(crate) rule: &'static Row,
    /// The limit, where there is one.
    pub(crate) limit: fn(&Budget) -> Option<Limit>,
    /// Compares a limit with what was used.
    pub(crate) check: fn(&Stats, u64) -> Check,
}

impl PartialEq for BudgetRow {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

/// The limits of a [`Budget`], in the order in which they are asked.
pub(crate) static BUDGETS: [BudgetRow; 3] = [
    BudgetRow {
        id: "budget.steps",
        written: "budget.steps",
        code: "budget_steps",
        label: "Step budget",
        rule: MaxSteps::ROW,
        limit: |budget| budget.steps,
        check: |stats, limit| measure::steps("budget_steps", stats, limit),
    },
    BudgetRow {
        id: "budget.time",
        written: "budget.time_ms",
        code: "budget_time",
        label: "Time budget",
        rule: MaxRuntime::ROW,
        limit: |budget| budget.time_ms,
        check: |stats, limit| match limit {
            // No time at all is used up from the start, whatever the clock says.
            0 => Check::Stop {
                code: Code::BudgetTime,
                reading: Reading::compare(stats.elapsed_ms.unwrap_or(0), Op::AtLeast, 0, "ms")
                    .detail("a budget of 0 ms lets nothing run"),
            },
            limit => measure::time("budget_time", stats, Op::Above, limit),
        },
    },
    BudgetRow {
        id: "budget.tokens",
        written: "budget.tokens",
        code: "budget_tokens",
        label: "Token budget",
        rule: TokenBudget::ROW,
        limit: |budget| budget.tokens,
        check: |stats, limit| measure::tokens("budget_tokens", stats, Op::AtLeast, limit),
    },
];

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

/// What people call the rule or the limit whose stops have this code.
pub(crate) fn label(code: &str) -> Option<&'static str> {
    let budget = || Some(BUDGETS.iter().find(|row| row.code == code)?.label);
    row(code).map(|row| row.label).or_else(budget)
}

/// What the rule or the limit counts whose stops have this code.
pub(crate) fn counts(code: &str) -> Counts {
    let budget = || Some(BUDGETS.iter().find(|row| row.code == code)?.rule);
    row(code).or_else(budget).map_or(Counts::Other, |row| row.counts)
}
