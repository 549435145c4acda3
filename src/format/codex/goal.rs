//! Reads the token budget of a Codex goal. The tools that create and change a goal return it as
//! JSON, and the program writes it into a message for the model once the budget is used up.

use super::item::Payload;
use crate::format::value::{count, limit, member, spoken};
use crate::model::ToolLimit;

/// How the program's messages about a goal begin.
const OF_GOAL: &str = "<codex_internal_context source=\"goal\">";

/// The budget of the newest goal.
#[derive(Debug, Default)]
pub(super) struct Goal {
    budget: Option<u64>,
    used: Option<u64>,
}

impl Goal {
    /// Reads the output of a call.
    pub(super) fn given(&mut self, payload: &Payload<'_>) {
        let said = spoken(payload.output);
        let Some(goal) = Some(&*said)
            .filter(|said| said.starts_with('{'))
            .and_then(|said| member(said, "goal"))
        else {
            return;
        };
        let Some(budget) = member(goal, "tokenBudget") else {
            return;
        };
        (self.budget, self.used) = (count(Some(budget)), count(member(goal, "tokensUsed")));
    }

    /// Reads a message with the role of the user.
    pub(super) fn told(&mut self, said: &str) {
        if !said.starts_with(OF_GOAL) {
            return;
        }
        let number = |line: &str, of: &str| line.trim().strip_prefix(of)?.trim().parse().ok();
        for line in said.lines() {
            self.budget = number(line, "- Token budget:").or(self.budget);
            self.used = number(line, "- Tokens used:").or(self.used);
        }
    }

    /// Returns the budget as a limit, with the usage by the newest record.
    pub(super) fn limit(&self) -> Option<ToolLimit> {
        let budget = self.budget.filter(|budget| *budget > 0);
        limit(
            "goal's token budget",
            budget.map(|budget| budget as f64),
            "tokens",
            self.used.map(|used| used as f64),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goals_budget_is_what_its_newest_record_says() {
        let mut goal = Goal::default();
        assert_eq!(goal.limit(), None);
        let output = r#"{"output":"{\"goal\":{\"tokenBudget\":9000,\"tokensUsed\":0},\"remainingTokens\":9000}"}"#;
        goal.given(&Payload::of(output));
        let limit = goal.limit().map(|limit| (limit.limit, limit.used));
        assert_eq!(limit, Some((9000.0, Some(0.0))));
        goal.told("- Tokens used: 5");
        goal.told("<codex_internal_context source=\"goal\">\nBudget:\n- Tokens used: 11100\n- Token budget: 9000\n");
        let limit = goal.limit().map(|limit| (limit.limit, limit.used));
        assert_eq!(limit, Some((9000.0, Some(11100.0))));
        goal.given(&Payload::of(
            r#"{"output":"{\"goal\":{\"tokenBudget\":null,\"tokensUsed\":3}}"}"#,
        ));
        assert_eq!(goal.limit(), None, "a newer goal without a budget");
    }
}
