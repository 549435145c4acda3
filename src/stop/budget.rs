//! Which limits has a budget, and what does each count?

use super::check::Check;
use super::rules::{Counts, MaxRuntime, MaxSteps, Row, TokenBudget, measure, row};
use super::stats::Stats;
use crate::model::{Budget, Code, Limit, Op, Reading};

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

/// What people call the rule or the limit whose stops have this code.
pub(crate) fn label(code: &str) -> Option<&'static str> {
    let budget = || Some(BUDGETS.iter().find(|row| row.code == code)?.label);
    row(code).map(|row| row.label).or_else(budget)
}

/// What the rule or the limit counts whose stops have this code.
pub(crate) fn counts(code: &str) -> Counts {
    let budget = || Some(BUDGETS.iter().find(|row| row.code == code)?.rule);
    row(code)
        .or_else(budget)
        .map_or(Counts::Other, |row| row.counts)
}
