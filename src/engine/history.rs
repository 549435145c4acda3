//! Selects which part of the conversation is sent to the model.

use super::chat::Message;

/// Selects the part of the conversation that is sent with a request. [`Keep`] provides the usual
/// policies.
///
/// Many servers refuse a tool result without its call, so keep or drop a turn as a whole. A panic
/// ends the run like a panic of the agent.
pub trait HistoryPolicy: Send + Sync {
    /// Returns the messages to send before the new ones, oldest first.
    ///
    /// `turns` is sorted oldest first. A turn has the messages to the model, its reply, and the
    /// results of its calls. The first message of all contains the task. After requests that were
    /// too long, the older turns are missing, and the first turn contains only the task.
    fn select(&self, turns: &[&[Message]]) -> Vec<Message>;
}

/// How much of the conversation is sent. The first message, which contains the task, and the newest
/// turn are always sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keep {
    /// The whole conversation.
    All,
    /// The newest turns, up to a number of messages.
    Window {
        /// Maximum number of messages.
        messages: usize,
    },
    /// The newest turns, up to an estimated number of tokens.
    TokenBudget {
        /// Maximum number of tokens.
        tokens: u64,
    },
}

impl Default for Keep {
    /// Returns a window of 24 messages, as in QitOS.
    fn default() -> Self {
        Keep::Window { messages: 24 }
    }
}

impl HistoryPolicy for Keep {
    fn select(&self, turns: &[&[Message]]) -> Vec<Message> {
        let task = turns.first().and_then(|turn| turn.first());
        let weight = |messages: &[Message]| match self {
            Keep::All => 0,
            Keep::Window { .. } => messages.len() as u64,
            Keep::TokenBudget { .. } => messages.iter().map(Message::estimated_tokens).sum(),
        };
        let limit = match *self {
            Keep::All => 0,
            Keep::Window { messages } => messages as u64,
            Keep::TokenBudget { tokens } => tokens,
        };
        let mut used = task.map_or(0, |task| weight(std::slice::from_ref(task)));
        let fitting = turns.iter().rev().take_while(|turn| {
            used = used.saturating_add(weight(turn));
            used <= limit
        });
        // Without the newest turn, a model would repeat what it just did.
        let kept = fitting.count().max(1).min(turns.len());
        let kept = turns.get(turns.len() - kept..).unwrap_or_default();
        let is_whole = kept.len() == turns.len();
        task.filter(|_| !is_whole)
            .into_iter()
            .chain(kept.iter().copied().flatten())
            .cloned()
            .collect()
    }
}

/// The conversation. A turn is kept or dropped as a whole, since many servers refuse a tool result
/// without its call.
#[derive(Debug, Default)]
pub(super) struct History {
    turns: Vec<Vec<Message>>,
    /// Number of turns dropped because a request was too long.
    given_up: usize,
}

impl History {
    pub(super) fn push(&mut self, turn: Vec<Message>) {
        if !turn.is_empty() {
            self.turns.push(turn);
        }
    }

    /// Appends to the newest turn.
    pub(super) fn extend(&mut self, messages: impl IntoIterator<Item = Message>) {
        match self.turns.last_mut() {
            Some(turn) => turn.extend(messages),
            None => self.push(messages.into_iter().collect()),
        }
    }

    /// Returns the newest message.
    pub(super) fn last(&self) -> Option<&Message> {
        self.turns.last()?.last()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Returns the remaining turns, oldest first. If some were dropped, the task comes first.
    pub(super) fn turns(&self) -> Vec<&[Message]> {
        let left = self.turns.get(self.given_up..).unwrap_or_default();
        let task = self
            .turns
            .first()
            .and_then(|turn| turn.get(..1))
            .filter(|_| self.given_up > 0);
        task.into_iter()
            .chain(left.iter().map(Vec::as_slice))
            .collect()
    }

    /// Drops the older half of the turns, but never the newest one. Returns false if there is
    /// nothing left to drop.
    pub(super) fn shrink(&mut self) -> bool {
        let left = self.turns.len().saturating_sub(1 + self.given_up);
        self.given_up += left.div_ceil(2);
        left > 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::chat::Role;
    use super::*;

    fn history(turns: usize) -> History {
        let mut history = History::default();
        for turn in 0..turns {
            history.push(vec![
                Message::user(format!("question {turn}")),
                Message::assistant("x".repeat(40)),
            ]);
        }
        history
    }

    fn kept(history: &History, policy: Keep) -> Vec<String> {
        let users = policy
            .select(&history.turns())
            .into_iter()
            .filter(|message| message.role == Role::User);
        users
            .map(|message| message.content.rsplit(' ').next().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn the_task_and_the_newest_turns_stay() {
        let history = history(6);
        assert_eq!(kept(&history, Keep::All), ["0", "1", "2", "3", "4", "5"]);
        assert_eq!(
            kept(&history, Keep::Window { messages: 5 }),
            ["0", "4", "5"]
        );
        assert_eq!(kept(&history, Keep::Window { messages: 0 }), ["0", "5"]);
        // By the estimate of a quarter of the bytes, a question has 3 tokens and a turn 13.
        assert_eq!(
            kept(&history, Keep::TokenBudget { tokens: 30 }),
            ["0", "4", "5"]
        );
    }

    #[test]
    fn a_turn_that_is_too_large_stays_while_it_is_the_newest() {
        let mut history = history(1);
        history.push(vec![Message::assistant("calls"); 30]);
        assert_eq!(Keep::default().select(&history.turns()).len(), 31);
    }

    #[test]
    fn an_overflow_gives_up_the_older_half_each_time() {
        let mut history = history(6);
        assert!(history.shrink());
        assert_eq!(kept(&history, Keep::All), ["0", "3", "4", "5"]);
        assert!(history.shrink() && history.shrink());
        assert_eq!(kept(&history, Keep::All), ["0", "5"]);
        assert!(!history.shrink());
    }
}
