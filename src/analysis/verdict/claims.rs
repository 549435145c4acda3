//! Finds claims in the records that contradict the stop reason. Claims are success, the END event's
//! `ok`, the last stop check, the failure report and the limits.

use super::cause::Spent;
use super::criterion::{Criterion, Own, criterion};
use super::facts::Facts;
use crate::analysis::format::{self, amount};
use crate::analysis::lost::lost;
use crate::analysis::newest::{is_answer_blank, label, newest_run};
use crate::model::{
    Can, Code, CriticAction, EventHead, EventKind, Gate, Outcome, StepHead, StopReason,
};

/// Adds the claims that other records contradict.
pub(super) fn claims(facts: &Facts<'_>, found: &mut Vec<String>) {
    if facts.index.format().is_one_file() {
        return;
    }
    found.extend(of_the_success(facts));
    found.extend(of_the_blank_answer(facts));
    found.extend(of_the_end_event(facts));
    found.extend(of_the_last_check(facts));
    found.extend(of_the_criterion(facts));
    found.extend(of_the_failures(facts));
    found.extend(of_an_error(facts));
    found.extend(of_an_earlier_answer(facts));
    found.extend(of_the_budget(facts));
}

/// Success follows from the stop reason, or from the verdict in runs of board's engine.
fn of_the_success(facts: &Facts<'_>) -> Option<String> {
    let (word, success) = (facts.reason?, facts.manifest?.success?);
    if let Some(stop) = facts
        .stop
        .filter(|stop| !matches!(stop.code, Code::Custom(_)))
    {
        let is_completed = stop.implied_outcome() == Outcome::Completed;
        // An answer without success is reported with the stop reason.
        let is_named = !success && StopReason::parse(word).says_answered();
        let code = &stop.code;
        return (is_completed != success && !is_named)
            .then(|| format!("The verdict is {code}, but success is recorded as {success}"));
    }
    use StopReason as R;
    let expected = match StopReason::parse(word) {
        R::Success | R::Final => return None,
        // QitOS since 0.6 doesn't count this as success.
        R::AgentCondition => (facts.index.format().name == "QitOS 0.6").then_some(false),
        R::EnvTerminal => Some(true),
        R::Other => None,
        _ => Some(false),
    };
    let is_denied = facts.stop.is_none() && expected.is_some_and(|expected| expected != success);
    is_denied.then(|| format!("The stop reason is {word}, but success is recorded as {success}"))
}

/// QitOS doesn't accept an empty answer.
fn of_the_blank_answer(facts: &Facts<'_>) -> Option<String> {
    let word = facts
        .reason
        .filter(|word| facts.stop.is_none() && StopReason::parse(word).says_answered())?;
    is_answer_blank(facts.index)
        .then(|| format!("The stop reason {word} implies an answer, but the answer is empty"))
}

/// The END event is `ok` if a rule ended the run. It isn't after a budget, an error or a
/// cancellation.
fn of_the_end_event(facts: &Facts<'_>) -> Option<String> {
    let (at, _, is_ok) = facts.segment?.end.as_ref()?;
    let word = facts.reason.filter(|_| !is_ok)?;
    use StopReason as R;
    let is_in_order = matches!(
        StopReason::parse(word),
        R::Success | R::Final | R::CriticStop | R::Stagnation | R::AgentCondition | R::EnvTerminal
    );
    let by_verdict = facts
        .stop
        .is_none_or(|stop| stop.code.outcome(&stop.source) != Outcome::Failed);
    let line = facts.index.events().get(*at).map_or(0, |event| event.line);
    (is_in_order && by_verdict).then(|| {
        format!("The END event (events.jsonl:{line}) isn't ok, but the stop reason is {word}")
    })
}

/// If a rule of the stop check ended the run, the last stop check records the stop.
fn of_the_last_check(facts: &Facts<'_>) -> Option<String> {
    let index = facts.index;
    let (segment, word) = (
        facts.segment.filter(|_| !index.is_disordered())?,
        facts.reason?,
    );
    let last = index
        .groups()
        .last()
        .filter(|group| group.first >= segment.first_event)?;
    let events = index.events().range(last.first..last.end);
    let is_check =
        |event: &&EventHead| matches!(event.kind, EventKind::Checked | EventKind::Stopped);
    let check = events
        .rev()
        .find(is_check)
        .filter(|check| check.kind == EventKind::Checked)?;
    use StopReason as R;
    let by_check = matches!(
        StopReason::parse(word),
        R::Success | R::Final | R::Stagnation | R::AgentCondition | R::EnvTerminal | R::MaxSteps
    );
    let at_the_end = facts
        .stop
        .is_none_or(|stop| stop.gate == Some(Gate::AfterStep));
    (by_check && at_the_end).then(|| {
        format!(
            "The last stop check (events.jsonl:{}) continued the run, but the stop reason is {word}",
            check.line
        )
    })
}

/// Each criterion of QitOS uses one stop reason.
fn of_the_criterion(facts: &Facts<'_>) -> Option<String> {
    let word = facts.reason.filter(|_| facts.stop.is_none())?;
    let (_, Criterion { own, words }) = criterion(facts.index, word)?;
    use StopReason as R;
    let fits = match (StopReason::parse(word), own?) {
        (R::BudgetSteps | R::MaxSteps, own) => own == Own::Steps,
        (R::BudgetTime, own) => own == Own::Time,
        (R::BudgetTokens, own) => own == Own::Tokens,
        (R::Stagnation, own) => own == Own::Stagnation,
        (R::Success | R::Final, own) => own == Own::Result,
        _ => true,
    };
    (!fits)
        .then(|| format!("The stop reason is {word}, but the criterion behind it records {words}"))
}

/// A report with this many failures may not list all that it counts. board's engine lists no more.
const MAX_LISTED: usize = 100;

/// The report counts its failures, and each of them has a RECOVER event.
fn of_the_failures(facts: &Facts<'_>) -> Option<String> {
    let manifest = facts.manifest.filter(|manifest| manifest.is_final())?;
    let (counted, listed) = (manifest.failure_count?, manifest.failures_listed);
    let is_cut = listed >= MAX_LISTED && usize::try_from(counted).is_ok_and(|all| all > listed);
    if i64::try_from(listed) != Ok(counted) && !is_cut {
        return Some(format!(
            "The failure report counts {counted} but lists {listed} (manifest.json /summary/failure_report)"
        ));
    }
    let segment = facts
        .segment
        .filter(|segment| segment.unreadable == 0 && segment.init.is_some())?;
    let is_whole = facts.index.segments().len() <= 1
        && !facts.index.is_partial()
        && !facts.index.event_skips().is_cut();
    let events = segment.recoveries;
    let known = usize::try_from(counted).unwrap_or(listed);
    (is_whole && segment.end.is_some() && events > known).then(|| {
        let events = format::counted(events, "RECOVER event");
        format!("The failure report lists {listed} (manifest.json /summary/failure_report), but the trace has {events}")
    })
}

/// An error that ends a run is recorded with its message.
fn of_an_error(facts: &Facts<'_>) -> Option<String> {
    let index = facts.index;
    let word = facts
        .reason
        .filter(|word| StopReason::parse(word) == StopReason::UnrecoverableError)?;
    let segment = facts
        .segment
        .filter(|segment| segment.unreadable == 0 && segment.end.is_some())?;
    let is_whole = !index.is_partial() && !index.event_skips().is_cut() && lost(index).is_none();
    let by_step = newest_run(index).any(|(_, step)| step.is_failed());
    let by_event = index
        .events()
        .range(segment.first_event..index.events().len())
        .any(|event| !event.ok && event.kind != EventKind::RunEnd);
    let is_reported = facts
        .manifest
        .is_some_and(|manifest| manifest.failure_count == Some(0));
    let is_silent =
        facts.stop.is_none() && is_reported && !facts.has_error() && !by_step && !by_event;
    (is_whole && is_silent).then(|| {
        format!(
            "The stop reason {word} implies that an error ended the run, but no file records an error"
        )
    })
}

/// A final decision without a critic's refusal or a later error ends a run of QitOS.
fn of_an_earlier_answer(facts: &Facts<'_>) -> Option<String> {
    let index = facts.index;
    if facts.stop.is_some() || index.format().can.facts == Can::Yes || index.is_disordered() {
        return None;
    }
    let last = facts.last.and_then(|(_, step)| step.step_id)?;
    let ended = |(n, step): &(usize, &StepHead)| {
        let round = index.round_of(*n);
        let is_minded = step.requested(CriticAction::Retry) || step.requested(CriticAction::Stop);
        // Lines may be out of order.
        step.step_id.is_some_and(|id| id < last)
            && index.name(step.mode) == "final"
            && !is_minded
            && !step.is_failed()
            && round.is_some_and(|round| round.error.is_none() && !round.recovered)
    };
    let step = label(newest_run(index).find(ended)?);
    Some(format!(
        "In {step}, the decision is final and no critic rejected it, but the run continued"
    ))
}

/// The budget is checked before each step.
fn of_the_budget(facts: &Facts<'_>) -> Vec<String> {
    let index = facts.index;
    let budgets = [
        (StopReason::BudgetSteps, "step", "steps"),
        (StopReason::BudgetTime, "time", "ms"),
        (StopReason::BudgetTokens, "token", "tokens"),
    ];
    let past = budgets.into_iter().filter_map(|(budget, what, unit)| {
        let used = Spent::overrun(index, budget)?;
        let (used, limit) = (amount(used, unit), amount(*index.limit(unit).agreed()?, unit));
        Some(format!(
            "The {what} limit of {limit} was reached before the last step began ({used}), but the run continued"
        ))
    });
    past.collect()
}
