//! What do the steps of a draft add up to? Knows no records: what a step took is told to it, and told anew where it changed.

use super::Tokens;
use crate::model::step::Usage;
use crate::model::{Issue, IssueKind, TraceFile};

/// What is said of tokens of which more came from a cache than were read at all.
pub(super) const IMPOSSIBLE: &str = "more tokens came from the cache than were read";

/// The sums over some steps; of one step, what it adds to them.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Sums {
    tokens: u64,
    cached: u64,
    /// How many steps tell of tokens, and how many of them say how many their cache held.
    tell: u64,
    tell_cached: u64,
}

impl Sums {
    /// Of a step that took `all`, and told of it apart.
    pub(super) fn of(all: Option<u64>, apart: Tokens) -> Self {
        Self {
            tokens: all.unwrap_or_default(),
            cached: apart.cached.unwrap_or_default(),
            tell: u64::from(all.is_some() || apart != Tokens::default()),
            tell_cached: u64::from(apart.cached.is_some()),
        }
    }

    /// What a step adds is `now`, and was `before`.
    pub(super) fn replace(&mut self, before: Self, now: Self) {
        for (sum, before, now) in [
            (&mut self.tokens, before.tokens, now.tokens),
            (&mut self.cached, before.cached, now.cached),
            (&mut self.tell, before.tell, now.tell),
            (&mut self.tell_cached, before.tell_cached, now.tell_cached),
        ] {
            *sum = sum.saturating_sub(before).saturating_add(now);
        }
    }

    /// All tokens, where any step tells of some.
    pub(super) fn tokens(&self) -> Option<u64> {
        Some(self.tokens).filter(|tokens| *tokens > 0)
    }

    /// Those that caches held, where each step that tells of tokens says it.
    pub(super) fn cached(&self) -> Option<u64> {
        Some(self.cached).filter(|_| self.tell > 0 && self.tell == self.tell_cached)
    }
}

/// The same of the totals of a run, once.
pub(super) fn of_totals(usage: Usage, is_said: &mut bool) -> Option<Issue> {
    if !is_impossible(usage.cached, usage.input) || std::mem::replace(is_said, true) {
        return None;
    }
    let (kind, file) = (IssueKind::Field, TraceFile::Manifest);
    Some(Issue { kind, file, line: None, offset: None, reason: IMPOSSIBLE.to_owned() })
}

/// Whether of so many tokens that were read so many cannot have come from the cache.
pub(super) fn is_impossible(cached: Option<u64>, read: Option<u64>) -> bool {
    cached.zip(read).is_some_and(|(cached, read)| cached > read)
}
