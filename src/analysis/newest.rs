//! Which steps are the newest run's, what are they called in a sentence, how long did it take, and what comes after them?

use crate::model::index::Segment;
use crate::model::index::{Answer, AnswerSort};
use crate::model::{Agreement, EventHead, Index, Issue, IssueKind, Stated, StepHead, TraceFile};

/// The steps of the newest run in the directory, with their ordinals; none as long as it has not come to its first. A line
/// that its writer wrote twice counts once.
pub fn newest_run(index: &Index) -> impl DoubleEndedIterator<Item = (usize, &StepHead)> + Clone {
    index
        .steps()
        .iter()
        .enumerate()
        .skip(index.newest_start())
        .filter(|(n, _)| !index.is_repeat(*n))
}

/// How many steps at the beginning of the run are copies of its parent's, where it branched from that.
pub fn copied(index: &Index) -> Option<usize> {
    let steps = index
        .manifest()
        .get()?
        .branched_after
        .filter(|steps| *steps > 0)?;
    usize::try_from(steps).ok()
}

/// What a run that begins with copied steps did itself; none where the events do not tell where that begins.
fn own_segments(index: &Index, copied: usize) -> &[Segment] {
    let newest = index.newest_segments();
    let last = copied.checked_sub(1).and_then(|last| index.group_of(last));
    let from = last.and_then(|last| newest.iter().position(|segment| segment.first_group > last));
    from.and_then(|from| newest.get(from..)).unwrap_or_default()
}

/// When the run began itself, behind the steps that it copied; microseconds since the epoch. `None` where it copied none, or
/// where the events do not tell.
pub fn own_start(index: &Index) -> Option<i64> {
    own_segments(index, copied(index)?)
        .first()?
        .span
        .map(|(from, _)| from)
}

/// How long the newest run took itself, in milliseconds. Steps that it copied from another took their time there.
pub fn own_ms(index: &Index) -> Option<f64> {
    let Some(copied) = copied(index) else {
        return took_ms(index);
    };
    let own = own_segments(index, copied);
    let took: Option<i64> = own.iter().map(Segment::took).sum();
    took.filter(|_| !own.iter().all(|segment| segment.is_timed_once))
        .map(|took| took as f64 / 1e3)
}

/// How long the newest run took at least, in milliseconds, where its clock went back; `None` where it did not, or where
/// its times bound nothing.
pub fn own_least_ms(index: &Index) -> Option<f64> {
    let own = copied(index).map_or_else(
        || index.newest_segments(),
        |copied| own_segments(index, copied),
    );
    if own.iter().all(|segment| segment.goes_back.is_none()) {
        return None;
    }
    let ends = own
        .iter()
        .skip(1)
        .map(|next| next.first_event)
        .chain([index.events().len()]);
    let took = |(segment, end): (&Segment, usize)| match segment.goes_back {
        Some(_) => least(
            index
                .events()
                .range(segment.first_event..end)
                .filter_map(|event| event.ts),
        ),
        None => segment.took(),
    };
    let sum: i64 = own.iter().zip(ends).filter_map(took).sum();
    (sum > 0).then_some(sum as f64 / 1e3)
}

/// A lower bound of how long events took that have these times. From the first to the last: a wrong time between them
/// changes neither. Where the last lies before the first, the clock was put back, and what it ran since counts.
fn least(times: impl Iterator<Item = i64>) -> Option<i64> {
    let (mut first, mut since, mut last) = (None, None, None);
    for time in times {
        first = first.or(Some(time));
        if last.is_none_or(|last| time < last) {
            since = Some(time);
        }
        last = Some(time);
    }
    let whole = last? - first?;
    Some(if whole > 0 { whole } else { last? - since? })
}

/// How long the newest run took with what it went on from, as limits count it, in milliseconds; `None` where records
/// disagree.
pub fn took_ms(index: &Index) -> Option<f64> {
    super::stated::total(index, "ms").agreed().copied()
}

/// Whether the records of the run do not tell how many steps it had.
pub(super) fn is_untold(index: &Index) -> bool {
    index
        .manifest()
        .get()
        .is_some_and(|manifest| manifest.steps_untold)
}

/// The answer of the newest run that all records of it agree on; `None` also where it is empty.
pub(super) fn kept_answer(index: &Index) -> Option<&str> {
    let answer = index
        .answer()
        .agreed()
        .copied()
        .filter(|answer| answer.sort == AnswerSort::Text)?;
    Some(answer.text).filter(|text| !text.trim().is_empty())
}

/// Whether any record holds an answer of the newest run, whether the others agree or not.
pub(super) fn has_answer(index: &Index) -> bool {
    let is_filled = |stated: &Stated<Answer<'_>>| stated.value.is_filled();
    match index.answer() {
        Agreement::Unknown => false,
        // Of a step only a hash is kept, which the others have too.
        Agreement::Agreed(stated) => stated.first().is_some_and(is_filled),
        Agreement::Disputed(stated) => stated.iter().any(is_filled),
    }
}

/// Whether all records of the answer agree that it is a text without more than blanks.
pub(super) fn is_answer_blank(index: &Index) -> bool {
    let is_own = !index.format().is_one_file();
    index
        .answer()
        .agreed()
        .is_some_and(|answer| is_own && answer.sort == AnswerSort::Text && !answer.is_filled())
}

/// Whether all records of the answer agree on `null`.
pub(super) fn is_answer_null(index: &Index) -> bool {
    index
        .answer()
        .agreed()
        .is_some_and(|answer| answer.sort == AnswerSort::Nothing)
}

/// Whether the file of a session goes on after its last turn with a line that is cut: it may be what its user said next.
pub(super) fn goes_on_unread(index: &Index) -> bool {
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

/// "step 5", by the recorded id where there is one.
pub(super) fn label((ordinal, step): (usize, &StepHead)) -> String {
    format!("step {}", step.step_id.unwrap_or(ordinal as i64))
}

/// How many lines at the end of `steps.jsonl` are of later steps than the END event names, and of none before it.
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
