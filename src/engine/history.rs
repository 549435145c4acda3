//! What does a model remember? The conversation so far, as much of it as a policy lets through.

use super::chat::Message;

/// How much of the conversation goes into a request. The first turn, which holds the task, always does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HistoryPolicy {
    /// All of it.
    KeepAll,
    /// The newest turns, with at most so many messages.
    Window {
        /// Messages.
        messages: usize,
    },
    /// The newest turns, with at most so many tokens, estimated.
    TokenBudget {
        /// Tokens.
        tokens: u64,
    },
}

impl Default for HistoryPolicy {
    /// The newest 24 messages, as in QitOS.
    fn default() -> Self {
        HistoryPolicy::Window { messages: 24 }
    }
}

/// The conversation. A turn is kept or dropped as a whole, since an answer to a call that is not there is refused by
/// many servers.
#[derive(Debug, Default)]
pub(super) struct History {
    turns: Vec<Vec<Message>>,
    /// Turns given up because a request was too long.
    given_up: usize,
}

impl History {
    pub(super) fn push(&mut self, turn: Vec<Message>) {
        if !turn.is_empty() {
            self.turns.push(turn);
        }
    }

    /// Adds to the newest turn.
    pub(super) fn extend(&mut self, messages: impl IntoIterator<Item = Message>) {
        match self.turns.last_mut() {
            Some(turn) => turn.extend(messages),
            None => self.push(messages.into_iter().collect()),
        }
    }

    /// The messages that the policy lets through, oldest first.
    pub(super) fn select(&self, policy: HistoryPolicy) -> Vec<Message> {
        let Some((first, rest)) = self.turns.split_first() else { return Vec::new() };
        let rest = rest.get(self.given_up.min(rest.len())..).unwrap_or_default();
        let weight = |turn: &Vec<Message>| match policy {
            HistoryPolicy::KeepAll => 0,
            HistoryPolicy::Window { .. } => turn.len() as u64,
            HistoryPolicy::TokenBudget { .. } => turn.iter().map(Message::estimated_tokens).sum(),
        };
        let limit = match policy {
            HistoryPolicy::KeepAll => 0,
            HistoryPolicy::Window { messages } => messages as u64,
            HistoryPolicy::TokenBudget { tokens } => tokens,
        };
        let mut used = weight(first);
        let fitting = rest.iter().rev().take_while(|turn| {
            used = used.saturating_add(weight(turn));
            used <= limit
        });
        let kept = fitting.count();
        let rest = rest.get(rest.len() - kept..).unwrap_or_default();
        std::iter::once(first).chain(rest).flatten().cloned().collect()
    }

    /// Gives up the older half of what is left after the first turn; false where nothing is.
    pub(super) fn shrink(&mut self) -> bool {
        let left = self.turns.len().saturating_sub(1 + self.given_up);
        self.given_up += left.div_ceil(2);
        left > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(turns: usize) -> History {
        let mut history = History::default();
        for turn in 0..turns {
            history.push(vec![Message::user(format!("question {turn}")), Message::assistant("x".repeat(40))]);
        }
        history
    }

    fn kept(history: &History, policy: HistoryPolicy) -> Vec<String> {
        let users = history.select(policy).into_iter().step_by(2);
        users.map(|message| message.content.rsplit(' ').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_first_turn_and_the_newest_stay() {
        let history = history(6);
        assert_eq!(kept(&history, HistoryPolicy::KeepAll), ["0", "1", "2", "3", "4", "5"]);
        assert_eq!(kept(&history, HistoryPolicy::Window { messages: 6 }), ["0", "4", "5"]);
        assert_eq!(kept(&history, HistoryPolicy::Window { messages: 0 }), ["0"]);
        // A turn is 3 + 10 tokens by a quarter of its bytes.
        assert_eq!(kept(&history, HistoryPolicy::TokenBudget { tokens: 40 }), ["0", "4", "5"]);
    }

    #[test]
    fn an_overflow_gives_up_the_older_half_each_time() {
        let mut history = history(6);
        assert!(history.shrink());
        assert_eq!(kept(&history, HistoryPolicy::KeepAll), ["0", "4", "5"]);
        assert!(history.shrink() && history.shrink());
        assert_eq!(kept(&history, HistoryPolicy::KeepAll), ["0"]);
        assert!(!history.shrink());
    }
}
