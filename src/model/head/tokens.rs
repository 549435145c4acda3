//! What did a step take of what its run took? Writers record a total that runs over the steps, or what each step took.
//!
//! Knows one step; which steps were before it is for the index to say.

use super::StepHead;
use crate::model::step::Usage;

impl StepHead {
    /// Its tokens, after steps that took `before` in all: by the total, since a step may ask more than once. Our own engine
    /// counts all requests of a step, and leaves the count out where no model was asked.
    pub fn tokens_alone(&self, before: Option<u64>) -> Option<u64> {
        match self.tokens_total {
            _ if self.facts.is_some() => Some(self.tokens.unwrap_or(0)),
            Some(_) => self.total_told()?.checked_sub(before.unwrap_or(0)),
            None => self.tokens,
        }
    }

    /// What its run had taken with this step, after steps that took `before` in all.
    pub fn tokens_with(&self, before: Option<u64>) -> Option<u64> {
        let more = self.tokens.filter(|_| self.tokens_total.is_none());
        self.total_told()
            .or(more.map(|tokens| tokens.saturating_add(before.unwrap_or(0))))
            .or(before)
    }

    /// The total, where it is one: QitOS writes 0 where a request failed.
    pub(in crate::model) fn total_told(&self) -> Option<u64> {
        self.tokens_total.filter(|total| *total > 0)
    }

    /// Its tokens apart, after steps that took `before` in all; nothing where a total tells of more requests than the one
    /// whose tokens are recorded.
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
