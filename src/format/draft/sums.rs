//! What do the steps of a draft add up to? Knows no records: what a step took is told to it, and told anew where it changed.

use super::Tokens;

/// The sums over some steps; of one step, what it adds to them.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Sums {
    tokens: u64,
    cached: u64,
    /// How many steps tell of tokens, how many of them tell all, and how many say how many their cache held.
    tell: u64,
    tell_all: u64,
    tell_cached: u64,
}

impl Sums {
    /// Of a step that took `all`, and told of it apart.
    pub(super) fn of(all: Option<u64>, apart: Tokens) -> Self {
        Self {
            tokens: all.unwrap_or_default(),
            cached: apart.cached.unwrap_or_default(),
            tell: u64::from(all.is_some() || apart != Tokens::default()),
            tell_all: u64::from(all.is_some()),
            tell_cached: u64::from(apart.cached.is_some()),
        }
    }

    /// What a step adds is `now`, and was `before`.
    pub(super) fn replace(&mut self, before: Self, now: Self) {
        for (sum, before, now) in [
            (&mut self.tokens, before.tokens, now.tokens),
            (&mut self.cached, before.cached, now.cached),
            (&mut self.tell, before.tell, now.tell),
            (&mut self.tell_all, before.tell_all, now.tell_all),
            (&mut self.tell_cached, before.tell_cached, now.tell_cached),
        ] {
            *sum = sum.saturating_sub(before).saturating_add(now);
        }
    }

    /// All tokens, where any step tells of some.
    pub(super) fn tokens(&self) -> Option<u64> {
        Some(self.tokens).filter(|tokens| *tokens > 0)
    }

    /// All tokens, where each of `steps` steps tells all of its own.
    pub(super) fn tokens_of_all(&self, steps: usize) -> Option<u64> {
        self.tokens().filter(|_| self.tell_all == steps as u64)
    }

    /// Those that caches held, where each step that tells of tokens says it.
    pub(super) fn cached(&self) -> Option<u64> {
        Some(self.cached).filter(|_| self.tell > 0 && self.tell == self.tell_cached)
    }
}
