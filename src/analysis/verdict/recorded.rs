//! Describes a recorded verdict: one sentence for each code of board's engine. QitOS records only a
//! reason.

use super::RunStatus;
use super::cause::LimitFrom;
use super::facts::{Facts, steps};
use super::wording::{Note, NoteKind, Wording};
use crate::analysis::format::amount;
use crate::analysis::newest::{has_answer, newest_run};
use crate::analysis::retrace::{Retraced, limit_of_stop};
use crate::analysis::stated::compared;
use crate::model::{
    Code, CriticAction, Ended, Evidence, Gate, Index, Op, Outcome, Source, StopVerdict, Symbol,
};
use crate::stop::{self, BUDGETS};

/// The note about a verdict that its own rules contradict.
const DENIAL: &str = "but the recorded rules and steps contradict it";

/// How the detail begins if the agent set the stop reason. The reason follows.
const REASON_SET: &str = "the agent set its stop reason to ";

/// State fields that the engine itself changes, in every step or at the end.
pub(in crate::analysis) const ENGINE_KEYS: [&str; 4] =
    ["current_step", "metrics", "stop_reason", "final_result"];

/// Formats the comparison and the source of the limit: `10 steps, limit 10 (set by the task)`.
/// `None` if a number is missing, or if a score is compared, which the recorded detail describes.
pub(crate) fn reading(stop: &StopVerdict) -> Option<String> {
    let reading = &stop.reading;
    reading.op.filter(|op| *op != Op::Below)?;
    let compared = compared(reading.measured()?, reading.limit()?, &reading.unit);
    let by = stop.limit_from.map_or_else(String::new, |origin| {
        format!(" ({})", LimitFrom::SetBy(origin).words())
    });
    Some(format!("{compared}{by}"))
}

/// Returns the outcome, the status and the words.
pub(super) fn read(facts: &Facts<'_>, stop: &StopVerdict) -> (Outcome, RunStatus, Wording) {
    let disputed = limit_of_stop(facts.index, facts.retraced());
    let (reading, what) = (&stop.reading, headline(stop).unwrap_or("Limit reached"));
    let spent = (
        reading.measured(),
        reading.op.unwrap_or(Op::AtLeast),
        &*reading.unit,
    );
    let unit = match stop.code {
        Code::BudgetSteps => Some("steps"),
        Code::BudgetTokens => Some("tokens"),
        Code::BudgetTime => Some("ms"),
        _ => None,
    };
    let wording = borrowed_reason(stop).or_else(|| {
        facts
            .disputed_limit(what, &disputed, spent)
            .or_else(|| facts.disputed_total(what, unit?))
    });
    let wording = wording.unwrap_or_else(|| sentence(facts, stop));
    let is_refuted = disputed.disputed().is_none()
        && facts.retraced().is_some_and(|retraced| retraced.is_refuted);
    let denial = is_refuted.then(|| Note::new(NoteKind::Denial, DENIAL));
    let by_code = stop.implied_outcome();
    let outcome = if !is_outcome_agreed(facts.index, stop) {
        Outcome::Unknown
    } else if is_without_answer(facts, stop) {
        Outcome::Halted
    } else {
        stop.outcome
    };
    let wording = wording
        .note(facts.refusal(by_code))
        .noted(facts.asides(&stop.stop_reason))
        .noted(denial);
    let status = match mark(&stop.code, by_code) {
        RunStatus::Limit | RunStatus::Critic if stop.source == Source::Agent => RunStatus::Stopped,
        status => status,
    };
    (outcome, status, wording)
}

/// Returns whether the agent ended the run with the stop reason of a rule or of the engine, such as
/// `budget_steps`. Whether a limit was reached doesn't matter then.
pub(crate) fn is_reason_borrowed(stop: &StopVerdict) -> bool {
    let is_own = matches!(
        stop.code,
        Code::Final | Code::Success | Code::AgentCondition
    );
    stop.source == Source::Agent && !is_own
}

/// Describes an end with a borrowed stop reason.
fn borrowed_reason(stop: &StopVerdict) -> Option<Wording> {
    if !is_reason_borrowed(stop) {
        return None;
    }
    let detail = stop.reading.detail.strip_prefix(REASON_SET);
    let reason = detail.unwrap_or(&stop.stop_reason);
    let step = stop.step.map(|step| format!(" after step {step}"));
    let head = format!(
        "The agent ended the run as {reason}{}",
        step.unwrap_or_default()
    );
    Some(Wording::new(
        head,
        format!("Ended by the agent as {reason}"),
    ))
}

/// Returns whether a verdict of the agent or the environment says completed, although the run has
/// no answer. Versions up to 0.1 recorded that.
fn is_without_answer(facts: &Facts<'_>, stop: &StopVerdict) -> bool {
    stop.outcome == Outcome::Completed
        && matches!(stop.code, Code::AgentCondition | Code::EnvTerminal)
        && facts.manifest.is_some()
        && !has_answer(facts.index)
}

/// Returns whether all records of the verdict have the outcome that its code implies.
fn is_outcome_agreed(index: &Index, stop: &StopVerdict) -> bool {
    let by_code = stop.implied_outcome();
    index
        .recorded_stops()
        .iter()
        .all(|(recorded, _)| recorded.outcome == by_code)
}

/// Returns a sentence about the rules that were true at the same moment, or an empty string if
/// there were none. Omits rules that the recorded steps contradict.
pub(super) fn also(stop: &StopVerdict, retraced: Option<&Retraced>) -> String {
    let name = |id: &str| match BUDGETS.iter().find(|row| row.id == id) {
        Some(row) => row.clause.to_owned(),
        None if id == "decision" => "a final decision was accepted".to_owned(),
        None => format!("{id} was true"),
    };
    let is_denied =
        |id: &String| retraced.is_some_and(|retraced| retraced.was_true(id) == Some(false));
    // Work that was dropped at a limit ends the run under the limit's code, not under its rule.
    let is_same = |id: &String| {
        let mut rows = BUDGETS.iter();
        stop.source == Source::Budget
            && rows.any(|row| row.id == id && row.code == stop.code.as_str())
    };
    let others = stop.also.iter();
    let also: Vec<&String> = others.filter(|id| !is_denied(id) && !is_same(id)).collect();
    match &*also {
        [] => String::new(),
        [one] => format!("At the same time, {}.", name(one)),
        [one, others @ ..] => {
            let others: Vec<_> = others.iter().map(|id| name(id)).collect();
            format!(
                "At the same time, {} and {}.",
                name(one),
                others.join(" and ")
            )
        }
    }
}

fn mark(code: &Code, outcome: Outcome) -> RunStatus {
    match code {
        Code::ContextOverflow | Code::LoopDetection | Code::Stagnation => RunStatus::Limit,
        _ if outcome == Outcome::Truncated => RunStatus::Limit,
        Code::CriticStop | Code::CriticBelow => RunStatus::Critic,
        Code::AgentCondition | Code::EnvTerminal => RunStatus::Stopped,
        _ => RunStatus::of(outcome),
    }
}

/// Returns the headline of a limit.
fn headline(stop: &StopVerdict) -> Option<&'static str> {
    let code = stop.code.as_str();
    let budget = BUDGETS.iter().find(|row| row.code == code);
    stop::row(code)
        .and_then(|row| row.headline)
        .or(budget.map(|row| row.headline))
        .or(match stop.code {
            // Each of these has a row.
            Code::MaxSteps
            | Code::MaxRounds
            | Code::TokenBudget
            | Code::MaxRuntime
            | Code::Timeout => Some("Limit reached"),
            _ => None,
        })
}

fn sentence(facts: &Facts<'_>, stop: &StopVerdict) -> Wording {
    let detail = &*stop.reading.detail;
    let step = stop.step.map(|step| format!("step {step}"));
    let at = |word: &str| {
        step.as_ref()
            .map_or_else(String::new, |step| format!(" {word} {step}"))
    };
    let why = || {
        if detail.is_empty() {
            String::new()
        } else {
            format!(": {detail}")
        }
    };
    // The detail names what is missing, so it replaces the general reason.
    let not_started = |why: &str| match detail {
        "" => format!("Not started: {why}"),
        detail => format!("Not started: {detail}"),
    };
    let failed = |who: &str| match detail {
        "" => format!("Failed with an error{}: {who} failed", at("after")),
        detail => format!("Failed with an error{}: {detail}", at("after")),
    };
    let measured = stop.reading.measured();
    let many = |one: &str| {
        measured.map_or_else(
            || format!("too many {one}"),
            |measured| amount(measured, one),
        )
    };
    if let Some(headline) = headline(stop) {
        return limit(headline, stop);
    }
    let sentence = match &stop.code {
        code if is_answer(code) && stop.implied_outcome() != Outcome::Completed => {
            let rule = &stop.criterion;
            format!(
                "Stopped by the rule {rule}{}, without an answer{}",
                at("after"),
                why()
            )
        }
        Code::Final | Code::Success => format!("Answered{}", at("at")),
        Code::Keyword | Code::FinalResult => format!("Answered{}{}", at("at"), why()),
        Code::StructuredOutput => format!("Answered{} with the requested JSON", at("at")),
        Code::AgentCondition => format!("The agent's own stop condition was met{}", at("after")),
        Code::EnvTerminal => format!("The environment ended the episode{}", at("at")),
        // Each has a headline.
        Code::BudgetSteps
        | Code::BudgetTokens
        | Code::BudgetTime
        | Code::MaxSteps
        | Code::MaxRounds
        | Code::TokenBudget
        | Code::MaxRuntime
        | Code::Timeout => "Limit reached".to_owned(),
        Code::LoopDetection => {
            // If the detail doesn't start with calls, the rule compared texts.
            let what = if detail.starts_with("the same calls") {
                "identical calls"
            } else {
                "identical replies"
            };
            let replies = many(what);
            return Wording::new(format!("{replies} in a row"), replies);
        }
        Code::Stagnation => match measured {
            Some(idle) => {
                let steps = steps(idle as usize);
                let head = if changed_meanwhile(facts, stop) {
                    format!("The state that the agent compares didn't change for {steps} in a row")
                } else {
                    format!("State unchanged for {steps} in a row")
                };
                return Wording::new(head, format!("State unchanged for {steps}"));
            }
            None => "State unchanged for too long".to_owned(),
        },
        Code::StopOnTool => match called_tool(facts.index, stop) {
            Some(tool) => format!("Stopped because the agent requested {tool}"),
            None => format!(
                "Stopped because the agent requested a tool that ends the run{}",
                why()
            ),
        },
        Code::ContentMatch => format!("Stopped by text in the model's reply{}{}", at("at"), why()),
        Code::CriticStop => match facts.last {
            Some((_, step)) if step.requested(CriticAction::Stop) => {
                return facts.critic_stop();
            }
            _ => {
                return Wording::new(
                    format!("Stopped by a critic{}", why()),
                    format!("Critic stop: a critic{}", why()),
                );
            }
        },
        Code::CriticBelow => format!("Stopped by low critic scores{}", why()),
        Code::ConsecutiveErrors => format!("Stopped after {} in a row", many("failed steps")),
        Code::InvalidRegex => format!("Stopped by an invalid rule{}", why()),
        Code::CriterionError => failed("a rule or a critic"),
        Code::HookFailed => failed("a hook"),
        Code::EnvFailed if stop.source == Source::Preflight => {
            not_started("the environment failed")
        }
        Code::EnvFailed => failed("the environment"),
        Code::StepFailed | Code::RecoveryExhausted if facts.has_error() => facts.error(),
        Code::StepFailed | Code::RecoveryExhausted => failed("a step"),
        Code::AgentFailed if step.is_none() => {
            format!("Not started: the agent couldn't start{}", why())
        }
        Code::AgentFailed => format!("The agent's code failed{}{}", at("in"), why()),
        Code::TraceWriteFailed => format!("Ended because the trace couldn't be written{}", why()),
        Code::ContextOverflow => {
            let head = format!("{}{}{}", Ended::CONTEXT_FULL, at("at"), why());
            return Wording::new(head, Ended::CONTEXT_FULL.to_owned());
        }
        Code::TaskValidationFailed => not_started("the task failed validation"),
        Code::EnvCapabilityMismatch => not_started("the environment lacks a required capability"),
        Code::CancelledImmediate | Code::CancelledAfterStep if step.is_none() => {
            "Cancelled before the first step".to_owned()
        }
        // The verdict names the last step that ran.
        Code::CancelledImmediate if stop.gate == Some(Gate::BeforeStep) => {
            format!("Cancelled{}", at("after"))
        }
        Code::CancelledImmediate => format!("Cancelled{}", at("during")),
        Code::CancelledAfterStep => format!("Cancelled{}", at("after")),
        Code::Custom(name) if stop.outcome == Outcome::Completed => {
            format!("Answered{}, by {name}{}", at("at"), why())
        }
        Code::Custom(name) if is_plain_condition(detail) => {
            format!("Stopped by the custom rule {name}{}", at("after"))
        }
        Code::Custom(name) => {
            format!("Stopped by the custom rule {name}{}{}", at("after"), why())
        }
    };
    sentence.into()
}

/// Returns whether the code says that an answer was accepted.
fn is_answer(code: &Code) -> bool {
    matches!(
        code,
        Code::Final | Code::Success | Code::Keyword | Code::FinalResult | Code::StructuredOutput
    )
}

/// Returns the tool of the action that is a verdict's only evidence.
fn called_tool<'a>(index: &'a Index, stop: &StopVerdict) -> Option<&'a str> {
    let [Evidence::Action { step, action }] = &*stop.reading.evidence else {
        return None;
    };
    let id = i64::try_from(*step).ok()?;
    let (_, step) = newest_run(index)
        .rev()
        .find(|(_, step)| step.step_id == Some(id))?;
    let call = step.calls.get(usize::try_from(*action).ok()?)?;
    Some(index.name(call.name)).filter(|name| !name.is_empty())
}

/// Returns whether a detail only repeats that the condition of a rule in code was true, as this and
/// earlier versions word it.
fn is_plain_condition(detail: &str) -> bool {
    detail == "its condition is true"
        || detail.starts_with("the condition ") && detail.ends_with(" holds")
}

/// Returns whether steps counted as unchanged did change the state. An agent may compare only part
/// of it.
fn changed_meanwhile(facts: &Facts<'_>, stop: &StopVerdict) -> bool {
    // The first step of the row is the one that the others are compared with.
    let row = stop
        .reading
        .steps()
        .and_then(|(from, to)| Some(i64::try_from(from).ok()? + 1..=i64::try_from(to).ok()?));
    let own = |key: &Symbol| !ENGINE_KEYS.contains(&facts.index.name(*key));
    row.is_some_and(|row| {
        newest_run(facts.index).any(|(_, step)| {
            step.step_id.is_some_and(|id| row.contains(&id)) && step.changed.iter().any(own)
        })
    })
}

/// Formats "Step limit reached: 10 of 10 steps". The table of rules shows who set the limit.
fn limit(what: &str, stop: &StopVerdict) -> Wording {
    let early = if stop.step.is_none() {
        "before the first step"
    } else {
        ""
    };
    let reading = &stop.reading;
    let rest = match (reading.measured(), reading.limit()) {
        (Some(measured), Some(limit)) if reading.is_refuted() => {
            let (measured, limit) = (
                amount(measured, &reading.unit),
                amount(limit, &reading.unit),
            );
            format!(" after {measured}, though the recorded limit is {limit}")
        }
        (Some(measured), Some(limit)) => {
            return Wording::limit(what, "", Some((measured, limit, &reading.unit))).note(early);
        }
        _ if reading.detail.is_empty() => String::new(),
        _ => format!(": {}", reading.detail),
    };
    Wording::limit(what, &rest, None).note(early)
}
