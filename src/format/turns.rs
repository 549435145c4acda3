//! Keeps the end of a session's last turn that has steps.
//!
//! A turn may end before the model replied: a goal starts one that the program stops, or a request
//! fails at once. Such a turn doesn't replace the end of the previous turn. That end mentions it
//! instead.

use super::draft::Draft;
use super::value::cut;
use crate::model::names::lowered;
use crate::model::{Ended, Outcome};

/// The state of a session before its newest turn.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The number of steps when the newest turn began.
    steps: usize,
    /// The end and the answer of the previous turn.
    before: Option<(Ended, Option<Box<str>>)>,
    /// The tool's word for what started the newest turn. Empty for a prompt.
    trigger: Box<str>,
}

impl Turns {
    /// Begins a turn when the session has `steps` steps. `end` and `answer` are those of the
    /// previous turn. `trigger` is the tool's word for what started the new one.
    pub(super) fn begin(
        &mut self,
        steps: usize,
        end: Option<Ended>,
        answer: Option<Box<str>>,
        trigger: Option<&str>,
    ) {
        let trigger = trigger
            .filter(|trigger| !matches!(*trigger, "exec" | "user"))
            .unwrap_or_default();
        *self = Self {
            steps,
            before: end.map(|end| (end, answer)),
            trigger: trigger.into(),
        };
    }

    /// Returns whether the newest turn was started by something other than a prompt.
    pub(super) fn is_triggered(&self) -> bool {
        !self.trigger.is_empty()
    }

    /// Returns the end and the answer of the session, given those of its newest turn. `ms` is the
    /// duration of that turn, if recorded.
    pub(super) fn settle(
        &self,
        end: Option<Ended>,
        answer: Option<Box<str>>,
        steps: usize,
        ms: Option<f64>,
    ) -> (Option<Ended>, Option<Box<str>>) {
        match (end, &self.before) {
            (Some(end), Some((before, kept))) if steps <= self.steps => {
                let later = self.words(&end, ms);
                let later = if before.later.is_empty() {
                    later
                } else {
                    format!("{}; {later}", before.later)
                };
                (
                    Some(Ended {
                        later: cut(&later),
                        ..before.clone()
                    }),
                    kept.clone(),
                )
            }
            (end, _) => (end, answer),
        }
    }

    /// Returns the end and the answer of the session, given the end and the last step of its newest
    /// turn. The step is the answer if the turn completed.
    pub(super) fn settle_said(
        &self,
        end: Option<Ended>,
        last: Option<usize>,
        draft: &Draft<'_>,
    ) -> (Option<Ended>, Option<Box<str>>) {
        let is_answer = end
            .as_ref()
            .is_some_and(|end| end.outcome == Outcome::Completed);
        let answer = last.filter(|_| is_answer).and_then(|n| draft.said(n));
        self.settle(end, answer, last.map_or(0, |last| last + 1), None)
    }

    /// Describes the newest turn, which has no steps.
    fn words(&self, end: &Ended, ms: Option<f64>) -> String {
        let turn = match &*self.trigger {
            "" => "a later turn".to_owned(),
            "goal" => "a turn started by its goal (turn_trigger goal)".to_owned(),
            other => format!("a turn with turn_trigger {other}"),
        };
        let headline = lowered(&end.headline);
        let detail = if end.detail.is_empty() || end.is_sentence {
            String::new()
        } else {
            format!(": {}", end.detail.trim_end_matches('.'))
        };
        if end.outcome == Outcome::Cancelled {
            let when = ms.map_or_else(String::new, |ms| format!(" {ms} ms later"));
            return format!("{turn} was {headline}{when}, before any step{detail}");
        }
        format!("{turn} has no steps: {headline}{detail}")
    }
}
