//! What does the end of another tool's run say? One sentence of what its format read from the trace.

use super::recorded::amount;
use super::{Facts, RunStatus};
use crate::model::{Certainty, Ended, Outcome};

/// The mark and the sentence.
pub(super) fn read(facts: &Facts<'_>, ended: &Ended) -> (RunStatus, String) {
    let cut = facts.cut();
    let sentence = if ended.is_sentence { ended.detail.to_string() } else { sentence(facts, ended, cut.is_some()) };
    // No reader infers a failure for which it has no word: it was said so by a board, of a run that died.
    let is_dead = ended.outcome == Outcome::Failed && ended.certainty == Certainty::Inferred && ended.word.is_empty();
    let mark = if is_dead { RunStatus::Died } else { RunStatus::of(ended.outcome) };
    (mark, sentence + &cut.map_or_else(String::new, |cut| format!(" · {cut}")))
}

fn sentence(facts: &Facts<'_>, ended: &Ended, is_cut: bool) -> String {
    let at = if ended.outcome == Outcome::Completed { "at" } else { "after" };
    let step = if is_cut { String::new() } else { facts.step_after(at) };
    let mut sentence = format!("{}{step}", ended.headline);
    match (ended.measured, ended.limit) {
        (Some(measured), Some(limit)) if measured == limit => sentence += &format!(": {}", amount(limit, ended.unit)),
        (Some(measured), Some(limit)) => {
            sentence += &format!(": {}, limit {}", amount(measured, ended.unit), amount(limit, ended.unit));
        }
        (None, Some(limit)) => sentence += &format!(": limit {}", amount(limit, ended.unit)),
        (Some(measured), None) => sentence += &format!(": {}", amount(measured, ended.unit)),
        (None, None) => {}
    }
    if !ended.detail.is_empty() {
        sentence += &format!(": {}", ended.detail.trim_end_matches('.'));
    }
    if ended.certainty == Certainty::Inferred {
        sentence += &format!(" · inferred from {}", ended.word);
    }
    sentence
}

impl Facts<'_> {
    /// After the end of the last turn stands a line that is cut.
    pub(super) fn goes_on_unread(&self) -> String {
        let ended = self.manifest.and_then(|manifest| manifest.ended.as_deref());
        let turn = match ended {
            Some(ended) if ended.outcome == Outcome::Completed => {
                format!("{}{}", ended.headline, self.step_after("at"))
            }
            Some(ended) => format!("{}{}", ended.headline, self.step_after("after")),
            None => format!("Replied{}", self.step_after("at")),
        };
        format!("{turn}; a line follows that is cut: whether the session went on is not known")
    }
}
