//! Defines the JSON documents of steps and events: heads from the index, and lines as recorded.

#[cfg(test)]
mod tests;

use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

use super::timing::{began, took};
use crate::model::json_line::Line;
use crate::model::time::utc;
use crate::model::{self, CallEnd, CriticAction, EventHead, Index, Symbol};

/// The summary of a step in lists.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "StepHead")]
pub(crate) struct StepSummary {
    pub n: usize,
    pub step_id: Option<i64>,
    pub agent_id: Option<String>,
    /// `act`, `final`, `wait` or `handoff`; null if there was no decision.
    pub(crate) mode: Option<String>,
    /// The names of the first 64 actions.
    pub actions: Vec<String>,
    pub action_count: u32,
    /// The first 64 actions with their results.
    pub calls: Vec<Call>,
    /// The displayed name of the step: the recorded id, or else the step counted from 0.
    pub label: String,
    /// The first action as a call on one line, or the answer, or the reason there is neither.
    pub call: Option<String>,
    /// Whether a decision was made and nothing failed.
    pub ok: bool,
    /// The first error: of a tool, or else of the engine.
    pub error: Option<String>,
    /// The first non-zero return code.
    pub returncode: Option<i64>,
    /// The shell command that failed first.
    pub failed_command: Option<String>,
    /// The most informative line of what the command printed, if it failed with a return code and no
    /// error.
    pub printed: Option<String>,
    /// Whether the deciding critic requested a retry.
    pub retry: bool,
    /// Whether the step was abandoned: the run went back to a point before it.
    pub left: bool,
    /// Whether this is a reply of a sub-agent within a call of another step, rather than the run's
    /// own reply.
    pub nested: bool,
    pub critics: Vec<Critic>,
    /// The first 64 state keys that changed.
    pub changed: Vec<String>,
    /// The tokens of this step's requests, if recorded. The sum over all steps is the run's total.
    pub tokens: Option<u64>,
    /// Whether the tokens include an estimate; null if there are none.
    pub tokens_estimated: Option<bool>,
    /// The cost in US dollars, if recorded.
    pub cost_usd: Option<f64>,
    /// The time of the first event.
    pub started_at: Option<String>,
    /// Milliseconds between the first and the last event.
    pub duration_ms: Option<f64>,
    /// The run within the directory, counted from 0, if events show it.
    pub segment: Option<usize>,
    /// How well the line could be read: `good`, `repaired`, `provisional`, `foreign` or
    /// `unreadable`.
    pub fate: &'static str,
    /// The line number in `steps.jsonl`, counted from 1.
    pub line: u64,
    /// The offset of the line in the file, in bytes.
    pub offset: u64,
    /// How many records the step's line omits, because the step has more than board reads for
    /// one step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records_left_out: Option<usize>,
}

/// A summary of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Call {
    pub name: Option<String>,
    /// Whether the call succeeded. Null if there is no result yet, the result doesn't say, or the
    /// call was stopped.
    pub ok: Option<bool>,
    /// Whether the call was stopped or never made, which doesn't count as a failure.
    pub stopped: bool,
    /// The recorded duration.
    pub duration_ms: Option<f32>,
}

/// A summary of a critic's output.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Critic {
    pub name: String,
    /// `continue`, `retry`, `stop`, `failed`, or `other` for any other action.
    pub action: &'static str,
    /// The score if it is a finite number.
    pub score: Option<f64>,
}

/// A page of the steps of a run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Steps {
    /// The number of steps. An unreadable line counts as a step. Consecutive skipped lines count as
    /// one.
    pub total: usize,
    pub steps: Vec<StepSummary>,
    /// The value of `after` for the next window.
    pub next: Option<usize>,
}

/// Returns up to `limit` steps after the ordinal `after`, or from the first step. Returns at least
/// one if there are more.
pub(crate) fn steps(index: &Index, after: Option<usize>, limit: usize) -> Steps {
    let total = index.steps().len();
    let start = after.map_or(0, |after| after.saturating_add(1)).min(total);
    let end = start.saturating_add(limit.max(1)).min(total);
    let steps = (start..end).filter_map(|n| summary(index, n)).collect();
    Steps {
        total,
        steps,
        next: end.checked_sub(1).filter(|_| end < total),
    }
}

pub(crate) fn summary(index: &Index, n: usize) -> Option<StepSummary> {
    let step = index.steps().get(n)?;
    let group = index.round_of(n);
    let names = |list: &[Symbol]| {
        list.iter()
            .map(|name| index.name(*name).to_owned())
            .collect()
    };
    let call = |mark: &model::CallMark| Call {
        name: recorded(index.name(mark.name)),
        ok: mark.is_ok().filter(|_| mark.end != CallEnd::Stopped),
        stopped: mark.end == CallEnd::Stopped,
        duration_ms: mark.ms(),
    };
    let critic = |mark: &model::CriticMark| Critic {
        name: index.name(mark.name).to_owned(),
        action: mark.action.as_str(),
        score: mark.score,
    };
    let of_failed = |text: fn(&model::FailedCall) -> Option<&str>| {
        let failed = step.failed_call.as_deref()?;
        text(failed).map(str::to_owned)
    };
    Some(StepSummary {
        n,
        step_id: step.step_id,
        agent_id: recorded(index.name(step.agent)),
        mode: recorded(index.name(step.mode)),
        actions: step
            .tools()
            .map(|tool| index.name(tool).to_owned())
            .collect(),
        action_count: step.actions,
        calls: step.calls.iter().map(call).collect(),
        label: step
            .step_id
            .map_or_else(|| n.to_string(), |id| id.to_string()),
        call: recorded(&step.call),
        ok: step.is_ok() && index.error_of(n).is_none(),
        error: index.failure_of(n).map(str::to_owned),
        returncode: step.returncode,
        failed_command: of_failed(|failed| failed.command.as_deref()),
        printed: of_failed(|failed| failed.printed.as_deref()),
        retry: step.requested(CriticAction::Retry),
        left: step.is_abandoned,
        nested: step.is_nested,
        critics: step.critics.iter().map(critic).collect(),
        changed: names(&step.changed),
        tokens: index.tokens_of(n),
        tokens_estimated: index.tokens_of(n).map(|_| index.tokens_estimated(n)),
        cost_usd: step.cost_usd,
        started_at: group.and_then(|group| began(index, group)).and_then(utc),
        duration_ms: group.and_then(took).map(|micros| micros as f64 / 1e3),
        segment: segment_of(index, n),
        fate: step.fate.as_str(),
        line: step.line,
        offset: step.span.offset,
        records_left_out: index
            .unassembled(n)
            .map(|left_out| left_out.all - left_out.read),
    })
}

/// Returns the indices of step `n`'s events in [`Index::events`]. Empty if they are unknown.
pub(crate) fn events_of(index: &Index, n: usize) -> Range<usize> {
    let group = index.round_of(n);
    group.map_or(0..0, |group| group.first..group.end)
}

/// A step with its line and the lines of its events. Lines that aren't valid JSON are repaired, so
/// they differ from the files.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Step<'a> {
    head: StepSummary,
    step: Line<'a>,
    events: Vec<Line<'a>>,
    /// Whether the line or an event is repaired.
    repaired: bool,
    /// The indices of the repaired events in `events`.
    repaired_events: Vec<usize>,
    /// The first of `events` among all events of the run, counted from 0.
    first_event: Option<usize>,
}

/// An event with its line.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Event<'a> {
    n: usize,
    /// The step that the event belongs to, counted from 0.
    step: Option<usize>,
    phase: Option<String>,
    stage: Option<String>,
    ok: bool,
    at: Option<String>,
    /// The line number in the file, counted from 1.
    line: u64,
    /// The offset of the line in the file, in bytes.
    offset: u64,
    event: Line<'a>,
    repaired: bool,
}

/// Builds step `n` from its line and the lines of [`events_of`].
pub(crate) fn step<'a>(
    index: &Index,
    n: usize,
    line: &'a [u8],
    events: &'a [Vec<u8>],
) -> Option<Step<'a>> {
    let head = summary(index, n)?;
    let step = Line::of(line);
    let events: Vec<_> = events.iter().map(|line| Line::of(line)).collect();
    let repaired: Vec<_> = events
        .iter()
        .enumerate()
        .filter(|(_, event)| event.is_changed())
        .map(|(at, _)| at)
        .collect();
    let (is_repaired, any) = (
        step.is_changed() || !repaired.is_empty(),
        !events.is_empty(),
    );
    Some(Step {
        head,
        step,
        events,
        repaired: is_repaired,
        repaired_events: repaired,
        first_event: Some(events_of(index, n).start).filter(|_| any),
    })
}

/// Builds event `n` from its line.
pub(crate) fn event<'a>(index: &Index, n: usize, line: &'a [u8]) -> Option<Event<'a>> {
    let EventHead {
        ok,
        phase,
        stage,
        ts,
        span,
        line: number,
        ..
    } = *index.events().get(n)?;
    let event = Line::of(line);
    let repaired = event.is_changed();
    Some(Event {
        n,
        step: index.group_at(n).and_then(|group| index.step_of(group)),
        phase: recorded(index.name(phase)),
        stage: recorded(index.name(stage)),
        ok,
        at: ts.and_then(utc),
        line: number,
        offset: span.offset,
        event,
        repaired,
    })
}

/// Returns the index of the run within the directory that step `n` belongs to.
pub(crate) fn segment_of(index: &Index, n: usize) -> Option<usize> {
    if index.segments().len() <= 1 {
        return Some(0).filter(|_| !index.segments().is_empty());
    }
    index.segment_of(index.group_of(n)?)
}

fn recorded(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}
