//! Selects the steps of the newest run in a directory, and answers questions about its answer and
//! the records after its end.

use crate::model::index::{Answer, AnswerSort};
use crate::model::{Agreement, EventHead, Index, Issue, IssueKind, Stated, StepHead, TraceFile};

/// Returns the steps of the newest run in the directory, with their ordinals. Empty until the run
/// reaches its first step. A line that was written twice counts once.
pub fn newest_run(index: &Index) -> impl DoubleEndedIterator<Item = (usize, &StepHead)> + Clone {
    index
        .steps()
        .iter()
        .enumerate()
        .skip(index.newest_start())
        .filter(|(n, _)| !index.is_repeat(*n))
}

/// Returns the number of steps at the start that were copied from the parent, if the run is a
/// branch.
pub fn copied(index: &Index) -> Option<usize> {
    let steps = index
        .manifest()
        .get()?
        .branched_after
        .filter(|steps| *steps > 0)?;
    usize::try_from(steps).ok()
}

/// Returns whether the records don't show how many steps the run had.
pub(super) fn are_steps_unknown(index: &Index) -> bool {
    index
        .manifest()
        .get()
        .is_some_and(|manifest| manifest.steps_unknown)
}

/// Returns the answer of the newest run that all its records agree on; `None` if it's empty.
pub(super) fn kept_answer(index: &Index) -> Option<&str> {
    let answer = index
        .answer()
        .agreed()
        .copied()
        .filter(|answer| answer.sort == AnswerSort::Text)?;
    Some(answer.text).filter(|text| !text.trim().is_empty())
}

/// Returns whether any record holds an answer of the newest run, even if other records disagree.
pub(super) fn has_answer(index: &Index) -> bool {
    let is_filled = |stated: &Stated<Answer<'_>>| stated.value.is_filled();
    match index.answer() {
        Agreement::Unknown => false,
        // The index keeps only a hash of a step's answer. The other records have the same answer.
        Agreement::Agreed(stated) => stated.first().is_some_and(is_filled),
        Agreement::Disputed(stated) => stated.iter().any(is_filled),
    }
}

/// Returns whether all records agree that the answer is a text of only white space.
pub(super) fn is_answer_blank(index: &Index) -> bool {
    let is_own = !index.format().is_one_file();
    index
        .answer()
        .agreed()
        .is_some_and(|answer| is_own && answer.sort == AnswerSort::Text && !answer.is_filled())
}

/// Returns whether all records agree that the answer is `null`.
pub(super) fn is_answer_null(index: &Index) -> bool {
    index
        .answer()
        .agreed()
        .is_some_and(|answer| answer.sort == AnswerSort::Null)
}

/// Returns whether the file of a session ends with a truncated or unreadable line after its last
/// turn. That line may be the user's next message.
pub(super) fn has_unreadable_tail(index: &Index) -> bool {
    let is_over = index
        .manifest()
        .get()
        .is_some_and(|manifest| manifest.ended.is_some() || manifest.awaits_user);
    let is_cut = |issue: &Issue| issue.kind == IssueKind::Torn && issue.file == TraceFile::Events;
    let is_unread = |event: &EventHead| !event.fate.is_readable();
    let last = index.events().iter().next_back();
    index.format().is_session
        && is_over
        && (index.passing_issues().iter().any(is_cut) || last.is_some_and(is_unread))
}

/// Returns "step 5", with the recorded id or else the ordinal.
pub(super) fn label((ordinal, step): (usize, &StepHead)) -> String {
    format!("step {}", step.step_id.unwrap_or(ordinal as i64))
}

/// Returns the number of lines at the end of `steps.jsonl` that are of later steps than the one
/// that the END event names, and that have no events before it.
pub(super) fn after_the_end(index: &Index) -> usize {
    let end = index
        .segment()
        .and_then(|segment| segment.end.as_ref())
        .map(|(at, ..)| *at);
    let Some((at, id)) = end.and_then(|at| Some((at, index.events().get(at)?.step_id?))) else {
        return 0;
    };
    let is_later = |(n, step): &(usize, &StepHead)| {
        step.step_id.is_some_and(|step| step > id)
            && index.round_of(*n).is_none_or(|round| round.first > at)
    };
    newest_run(index).rev().take_while(is_later).count()
}
