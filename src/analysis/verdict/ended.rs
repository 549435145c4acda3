//! What does the end of another tool's run say? One sentence of what its format read from the trace.

use super::recorded::amount;
use super::{Facts, RunStatus};
use crate::model::{Certainty, Ended, Outcome};

/// The mark and the sentence.
pub(super) fn read(facts: &Facts<'_>, ended: &Ended) -> (RunStatus, String) {
    let at = if ended.outcome == Outcome::Completed { "at" } else { "after" };
    let cut = facts.cut();
    let step = if cut.is_some() { String::new() } else { facts.step_after(at) };
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
    if let Some(cut) = cut {
        sentence += &format!(" · {cut}");
    }
    (RunStatus::of(ended.outcome), sentence)
}
