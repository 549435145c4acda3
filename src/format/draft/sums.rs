//! Sums the tokens of a draft's steps. Must not know records: the caller passes the usage of a
//! step, and passes it again if it changes.

use super::Tokens;

/// Sums over several steps, or one step's share of them.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Sums {
    tokens: u64,
    cached: u64,
    /// How many steps record any tokens, how many record all of them, and how many record cached
    /// tokens.
    tell: u64,
    tell_all: u64,
    tell_cached: u64,
}

impl Sums {
    /// Creates the share of a step that used `all` tokens. `apart` are its separate counts.
    pub(super) fn of(all: Option<u64>, apart: Tokens) -> Self {
        Self {
            tokens: all.unwrap_or_default(),
            cached: apart.cached.unwrap_or_default(),
            tell: u64::from(all.is_some() || apart != Tokens::default()),
            tell_all: u64::from(all.is_some()),
            tell_cached: u64::from(apart.cached.is_some()),
        }
    }

    /// Replaces a step's share `before` by `now`.
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

    /// Returns the sum of the tokens, if any step records some.
    pub(super) fn tokens(&self) -> Option<u64> {
        Some(self.tokens).filter(|tokens| *tokens > 0)
    }

    /// Returns the sum of the tokens, if each of `steps` steps records all of them.
    pub(super) fn tokens_of_all(&self, steps: usize) -> Option<u64> {
        self.tokens().filter(|_| self.tell_all == steps as u64)
    }

    /// Returns the sum of cached tokens, if each step that records tokens records those. If the
    /// provider reported no usage, programs write zeros.
    pub(super) fn cached(&self) -> Option<u64> {
        let is_reported = self.tokens > 0 || self.cached > 0;
        Some(self.cached).filter(|_| is_reported && self.tell > 0 && self.tell == self.tell_cached)
    }
}
