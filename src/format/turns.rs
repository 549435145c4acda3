//! Keeps the end of a session's last turn that has steps.
//!
//! A session may begin a turn and end it before the model replied: a goal starts one that its program stops, or a request
//! fails at once. Such a turn doesn't replace the end of the turn before it. The end names it instead.

use super::value::cut;
use crate::model::{Ended, Outcome};

/// The turns of a session: what held before the newest one.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// How many steps the session had when the newest turn began.
    steps: usize,
    /// The end and the answer of the turn before.
    before: Option<(Ended, Option<Box<str>>)>,
    /// What started the newest turn instead of a prompt, in the tool's word; empty for a prompt.
    trigger: Box<str>,
}

impl Turns {
    /// A turn begins when the session has `steps` steps. `end` and `answer` are those of the turn before; `trigger` is what
    /// started this one, in the tool's word.
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

    /// Whether the newest turn was started by something else than a prompt.
    pub(super) fn is_triggered(&self) -> bool {
        !self.trigger.is_empty()
    }

    /// The end and the answer of the session, where its newest turn ended with `end` and `answer`. `ms` is how long that
    /// turn took, where it is recorded.
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

    /// What became of the newest turn, which has no steps.
    fn words(&self, end: &Ended, ms: Option<f64>) -> String {
        let turn = match &*self.trigger {
            "" => "a further turn".to_owned(),
            "goal" => "a turn that its goal started (turn_trigger goal)".to_owned(),
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

/// The text with a small first letter.
fn lowered(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(letters).collect()
    })
}
