//! Computes a step's share of its run's tokens. Writers record either a running total or the tokens
//! of each step.
//!
//! This module sees one step at a time. The index provides the total before it.

use super::StepHead;
use crate::model::step::Usage;

impl StepHead {
    /// Returns the step's tokens, after steps that used `before` in total. A running total takes
    /// precedence, because a step may make several requests.
    ///
    /// board's engine counts all requests of a step, and omits the count if the step made none.
    pub fn tokens_alone(&self, before: Option<u64>) -> Option<u64> {
        match self.tokens_total {
            _ if self.facts.is_some() => Some(self.tokens.unwrap_or(0)),
            Some(_) => self.total_told()?.checked_sub(before.unwrap_or(0)),
            None => self.tokens,
        }
    }

    /// Returns the run's tokens up to and including this step, after steps that used `before` in
    /// total.
    pub fn tokens_with(&self, before: Option<u64>) -> Option<u64> {
        let more = self.tokens.filter(|_| self.tokens_total.is_none());
        self.total_told()
            .or(more.map(|tokens| tokens.saturating_add(before.unwrap_or(0))))
            .or(before)
    }

    /// Returns the running total if it's valid. QitOS writes 0 if a request failed.
    pub(in crate::model) fn total_told(&self) -> Option<u64> {
        self.tokens_total.filter(|total| *total > 0)
    }

    /// Returns the step's tokens by kind, after steps that used `before` in total. Returns nothing
    /// if the total shows that the step made more requests than the one whose tokens are recorded.
    pub fn usage_alone(&self, before: Option<u64>) -> Usage {
        let usage = self.usage.get();
        let told = usage
            .input
            .zip(usage.output)
            .map(|(input, output)| input.saturating_add(output));
        match (self.tokens_total, told) {
            _ if self.facts.is_some() => usage,
            (Some(total), Some(told)) if total.checked_sub(before.unwrap_or(0)) != Some(told) => {
                Usage::default()
            }
            _ => usage,
        }
    }
}
