//! Defines the limits of a budget and what each one counts.

use super::check::Check;
use super::rules::{Counts, MaxRuntime, MaxSteps, Row, TokenBudget, measure, row};
use super::stats::Stats;
use crate::model::{Budget, Code, Limit, Op, Reading, StopReason};

/// One limit of a [`Budget`].
#[derive(Debug)]
pub(crate) struct BudgetRow {
    /// The limit's id in a rule set.
    pub(crate) id: &'static str,
    /// How the limit is written, in the unit in which it is recorded.
    pub(crate) written: &'static str,
    /// The code of this limit's stops.
    pub(crate) code: &'static str,
    /// The stop reason of this limit's stops.
    pub(crate) reason: StopReason,
    /// The display name.
    pub(crate) label: &'static str,
    /// The start of the sentence about a run that this limit ended.
    pub(crate) headline: &'static str,
    /// The same as a clause.
    pub(crate) clause: &'static str,
    /// The rule that counts the same quantity.
    pub(crate) rule: &'static Row,
    /// Returns the limit, if the budget sets it.
    pub(crate) limit: fn(&Budget) -> Option<Limit>,
    /// Compares the limit with the amount used.
    pub(crate) check: fn(&Stats, u64) -> Check,
}

impl PartialEq for BudgetRow {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

/// The limits of a [`Budget`], in the order in which they are checked.
pub(crate) static BUDGETS: [BudgetRow; 3] = [
    BudgetRow {
        id: "budget.steps",
        written: "budget.steps",
        code: "budget_steps",
        reason: StopReason::BudgetSteps,
        label: "Step limit",
        headline: headline(MaxSteps::ROW),
        clause: "the step limit was reached",
        rule: MaxSteps::ROW,
        limit: |budget| budget.steps,
        check: |stats, limit| measure::steps("budget_steps", stats, limit),
    },
    BudgetRow {
        id: "budget.time",
        written: "budget.time_ms",
        code: "budget_time",
        reason: StopReason::BudgetTime,
        label: "Time limit",
        headline: headline(MaxRuntime::ROW),
        clause: "the time limit was reached",
        rule: MaxRuntime::ROW,
        limit: |budget| budget.time_ms,
        check: |stats, limit| match limit {
            // A time budget of 0 is used up from the start, even if the clock reads 0.
            0 => Check::Stop {
                code: Code::BudgetTime,
                reading: Reading::compare(stats.elapsed_ms.unwrap_or(0), Op::AtLeast, 0, "ms")
                    .detail("a budget of 0 ms allows nothing to run"),
            },
            limit => measure::time("budget_time", stats, Op::Above, limit),
        },
    },
    BudgetRow {
        id: "budget.tokens",
        written: "budget.tokens",
        code: "budget_tokens",
        reason: StopReason::BudgetTokens,
        label: "Token limit",
        headline: "Token limit reached",
        clause: "the token limit was reached",
        rule: TokenBudget::ROW,
        limit: |budget| budget.tokens,
        check: |stats, limit| measure::tokens("budget_tokens", stats, Op::AtLeast, limit),
    },
];

/// Returns the headline of a rule that counts the same as a limit.
const fn headline(row: &Row) -> &'static str {
    match row.headline {
        Some(headline) => headline,
        None => row.label,
    }
}

/// Returns the limit that ends runs with this stop reason.
pub(crate) fn budget_of(reason: StopReason) -> Option<&'static BudgetRow> {
    BUDGETS.iter().find(|row| row.reason == reason)
}

/// Returns the display name of the rule or budget limit whose stops have this code.
pub(crate) fn label(code: &str) -> Option<&'static str> {
    let budget = || Some(BUDGETS.iter().find(|row| row.code == code)?.label);
    row(code).map(|row| row.label).or_else(budget)
}

/// Returns the quantity counted by the rule or budget limit whose stops have this code.
pub(crate) fn counts(code: &str) -> Counts {
    let budget = || Some(BUDGETS.iter().find(|row| row.code == code)?.rule);
    row(code)
        .or_else(budget)
        .map_or(Counts::Other, |row| row.counts)
}
