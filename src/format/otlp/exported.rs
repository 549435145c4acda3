//! What does a trace say beyond what happened: how was it judged, and what did `board export` say of its end?

use super::super::value::{exported_end, filled, number};
use super::{Message, Span, SpanEvent, attributes, plain, said};
use crate::model::Ended;
use crate::model::json::walk;

impl Span<'_> {
    /// What those said who judged it: name, score, explanation.
    pub(super) fn scores(&self) -> impl Iterator<Item = (String, Option<f64>, Option<String>)> {
        let events = self.raw.events.into_iter().flat_map(walk::items).map(SpanEvent::of);
        let judged = events.filter(|event| event.name == Some("\"gen_ai.evaluation.result\""));
        judged.filter_map(|event| {
            let all = attributes(event.attributes);
            let of = |key: &str| all.get(key).map(|value| plain(value, 0));
            let named = |key: &str| filled(of(key).as_deref());
            let score = number(of("gen_ai.evaluation.score.value").as_deref());
            Some((named("gen_ai.evaluation.name")?, score, named("gen_ai.evaluation.explanation")))
        })
    }

    /// The end of a run that `board export` wrote, where the run said that it ended.
    pub(super) fn exported_end(&self) -> Option<Ended> {
        let word = |key: &str| self.text(&[key]).unwrap_or_default();
        let reason = self.text(&["board.stop_reason"])?;
        exported_end(&word("board.outcome"), &word("board.certainty"), &reason, &word("board.verdict"))
    }

    /// The answer of such a run.
    pub(super) fn exported_answer(&self) -> Option<String> {
        let messages = self.json(&["gen_ai.output.messages"])?;
        walk::items(&messages).map(Message::of).map(|message| said(&message).0).find(|said| !said.is_empty())
    }
}
