//! Builds the steps of a conversation: a reply is a step, the next reply completes it, and a result
//! belongs to the step with its call.
//!
//! Several readers of messages, and of events in the order of messages, share this. They decide
//! which record is what. The [`Draft`] holds the steps themselves. Must not know the format of a record.

use super::recent::Recent;
use super::{Draft, EventDraft, Part};
use crate::model::EventKind;

/// A conversation so far.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    /// The newest step.
    last: Option<usize>,
    /// The steps by call id.
    by_call: Recent<Box<str>, usize>,
    turns: u64,
}

impl Conversation {
    /// Returns the newest step.
    pub(super) fn last(&self) -> Option<usize> {
        self.last
    }

    /// Returns the number of steps.
    pub(super) fn steps(&self) -> usize {
        self.last.map_or(0, |last| last + 1)
    }

    /// Returns the number of prompts.
    pub(super) fn turns(&self) -> u64 {
        self.turns
    }

    /// Adds the record as a reply: of step `known`, or of a new step that was requested at `asked`.
    /// A new step completes the one before it. Results find the step by the ids of its calls.
    /// Returns the ordinal of the step.
    pub(super) fn reply(
        &mut self,
        known: Option<usize>,
        asked: Option<i64>,
        mark: EventDraft<'_>,
        part: Part,
        draft: &mut Draft<'_>,
    ) -> usize {
        let n = self.begin(known, asked, mark, draft);
        for call in &part.calls {
            self.name_call(&call.id, n);
        }
        draft.part(n, part);
        n
    }

    /// Adds the record as a new step. Results don't find it by call ids.
    pub(super) fn step(
        &mut self,
        asked: Option<i64>,
        mark: EventDraft<'_>,
        part: Part,
        draft: &mut Draft<'_>,
    ) -> usize {
        let n = self.begin(None, asked, mark, draft);
        draft.part(n, part);
        n
    }

    fn begin(
        &mut self,
        known: Option<usize>,
        asked: Option<i64>,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) -> usize {
        let kind = EventKind::Decided;
        let n = draft.reply(known, asked, EventDraft { kind, ..mark });
        if known.is_none() {
            self.close(draft);
            self.last = Some(n);
        }
        n
    }

    /// Adds the record as a prompt, which begins a turn and completes the reply before it.
    pub(super) fn prompt(&mut self, words: &str, mark: &EventDraft<'_>, draft: &mut Draft<'_>) {
        if words.trim().is_empty() {
            // A picture without words. A later prompt may have the task.
            draft.event(EventDraft {
                stage: "prompt",
                note: None,
                ..*mark
            });
        } else {
            draft.prompt(Some(words), mark);
        }
        self.close(draft);
        self.turns += 1;
    }

    fn close(&self, draft: &mut Draft<'_>) {
        self.last.into_iter().for_each(|n| draft.close(n));
    }

    /// Adds an id by which results name a call of step `n`.
    pub(super) fn name_call(&mut self, id: &str, n: usize) {
        self.by_call.insert(id.into(), n);
    }

    /// Returns the step with the call of this id.
    pub(super) fn step_with(&self, id: &str) -> Option<usize> {
        self.by_call.get(id).copied()
    }

    /// Returns the step with the call of this id, and forgets the call. A second result of it then
    /// belongs to no step.
    pub(super) fn take(&mut self, id: &str) -> Option<usize> {
        self.by_call.remove(id)
    }

    /// Returns the step with the call of the first result whose call is known.
    pub(super) fn step_of(&self, part: &Part) -> Option<usize> {
        part.answers
            .iter()
            .find_map(|answer| self.step_with(&answer.call))
    }

    /// Returns the newest step if one of its calls has no result. In formats without call ids, the
    /// next result belongs to that call.
    pub(super) fn waiting(&self, draft: &Draft<'_>) -> Option<usize> {
        self.last.filter(|n| draft.unanswered(*n) > 0)
    }
}
