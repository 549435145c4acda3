//! What does a model remember? The conversation so far, as much of it as a policy lets through.

use super::chat::Message;

/// Says what of the conversation goes into a request; [`Keep`] holds the usual ways.
///
/// Many servers refuse an answer to a call that is not there, so that a turn is best kept or left out as a whole. A panic
/// ends the run as one of the agent does.
pub trait HistoryPolicy: Send + Sync {
    /// The messages that go before what is new, oldest first.
    ///
    /// Turns come oldest first: what was told to the model, what it said, and what its calls gave. The very first message
    /// holds the task. After requests that were too long the older turns are gone, and the first is the task alone.
    fn select(&self, turns: &[&[Message]]) -> Vec<Message>;
}

/// How much of the conversation goes into a request. The first message, which holds the task, and the newest turn always
/// do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keep {
    /// All of it.
    All,
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

impl Default for Keep {
    /// The newest 24 messages, as in QitOS.
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
        // Without the newest turn a model would do again what it did.
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

    /// The newest message.
    pub(super) fn last(&self) -> Option<&Message> {
        self.turns.last()?.last()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// The turns that are left, oldest first; where some were given up, the task stands before them.
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

    /// Gives up the older half of the turns, but never the newest; false where nothing is left to give up.
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
        // A question is 3 tokens and a turn 13, by a quarter of their bytes.
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
