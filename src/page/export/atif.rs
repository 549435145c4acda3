//! Writes a run as a trajectory in the Agent Trajectory Interchange Format, version 1.7. Anything
//! the format has no field for is in `extra`: the verdict, how a step failed, when it began and
//! ended, and its scores.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::analysis::newest::newest_run;
use crate::analysis::timing::{began, took};
use crate::format;
use crate::model::index::Group;
use crate::model::json::Json;
use crate::model::step::{Call, CriticOutput, Outcome, Usage, Value as Recorded};
use crate::model::{EventKind, Index, RunScore, Step, TraceFile};
use crate::page::run_view::RunView;
use crate::page::step::messages::{Prompted, prompts_before};

/// The version written: the first one that identifies a trajectory separately from its session.
const VERSION: &str = "ATIF-v1.7";

/// Writes the newest run of `view`, one step at a time.
///
/// # Errors
/// Returns errors from writing.
pub(crate) fn write(view: &RunView<'_>, out: &mut dyn Write) -> io::Result<()> {
    let (summary, index) = (view.summary, view.index);
    let manifest = index.manifest().get();
    let agent = summary.agents.first().map_or_else(
        || manifest.map_or("unknown", |m| m.format.name),
        String::as_str,
    );
    let agent = filled(json!({
        "name": agent,
        "version": summary.tool.as_deref().unwrap_or("unknown"),
        "model_name": summary.model,
    }));
    // Readers detect the format by the first field.
    write!(out, "{{\"schema_version\":\"{VERSION}\",")?;
    if let Some(id) = &summary.run_id {
        write!(out, "\"session_id\":{},", json!(id))?;
    }
    write!(out, "\"agent\":{agent},\"steps\":[")?;
    let mut number = 0;
    let user = |number: usize, prompt: &Prompted| {
        let at = prompt.ts.map(|at| view.iso(at));
        filled(
            json!({"step_id": number, "timestamp": at, "source": "user", "message": prompt.words}),
        )
    };
    // Time limits count from the first record of the run, so the first prompt gets its time if the
    // prompt's record has none.
    let first_segment = index.newest_segments().first();
    let start = first_segment
        .and_then(|segment| segment.span)
        .map(|(start, _)| start);
    let mut prompts = prompts_before(view, index.newest_start());
    if let Some(first) = prompts.first_mut() {
        first.ts = first.ts.or(start);
    } else if let Some(task) = &summary.task {
        prompts.push(Prompted {
            event: None,
            ts: start,
            words: task.to_string(),
            has_pictures: false,
        });
    }
    for (n, head) in newest_run(index) {
        prompts.extend(
            prompts_before(view, n)
                .into_iter()
                .filter(|_| n > index.newest_start()),
        );
        for prompt in prompts.drain(..) {
            number += 1;
            let comma = if number > 1 { "," } else { "" };
            write!(out, "{comma}{}", user(number, &prompt))?;
        }
        let record = view.lines.record(TraceFile::Steps, head.span).ok();
        let read = record.as_ref().and_then(format::step);
        let times = index
            .round_of(n)
            .map(|round| Times::of(index, round))
            .unwrap_or_default();
        number += 1;
        let comma = if number > 1 { "," } else { "" };
        let written = match &read {
            Some(step) => agent_step(
                number,
                step,
                head.usage_alone(index.tokens_before(n)),
                times.map(|at| view.iso(at)),
            ),
            // An unreadable step keeps its position.
            None => {
                json!({"step_id": number, "source": "agent", "message": "", "extra": {"unreadable": true}})
            }
        };
        write!(out, "{comma}{written}")?;
    }
    // Prompts without a step that responds to them.
    if newest_run(index).next().is_some() {
        prompts = prompts_before(view, index.steps().len());
    }
    for prompt in prompts {
        number += 1;
        let comma = if number > 1 { "," } else { "" };
        write!(out, "{comma}{}", user(number, &prompt))?;
    }
    let verdict = &summary.verdict;
    let tail = json!({
        "final_metrics": filled(json!({
            "total_prompt_tokens": summary.usage.input,
            "total_completion_tokens": summary.usage.output,
            "total_cost_usd": summary.cost_usd,
            "total_cached_tokens": summary.usage.cached,
            "total_steps": number,
            "extra": filled(json!({"total_tokens": summary.tokens})),
        })),
        "extra": {"board": filled(json!({
            "verdict": verdict.sentence,
            "outcome": verdict.outcome.as_str(),
            "stop_reason": verdict.stop_reason,
            "certainty": verdict.certainty.as_str(),
            "answer": summary.answer,
            "scores": scores(view),
            "started_at": summary.started.map(|at| view.iso(at)),
            "duration_ms": summary.duration_ms,
            "steps_untold": summary.steps_unknown.then_some(true),
            "format": summary.format,
            "partial": summary.partial,
        }))},
    });
    writeln!(out, "],{}", tail.to_string().trim_start_matches('{'))
}

/// Returns the scores of the whole run. Scores of steps are in the steps.
fn scores(view: &RunView<'_>) -> Option<Value> {
    let whole = view
        .index
        .manifest()
        .get()
        .map(|manifest| manifest.scores.as_slice())
        .unwrap_or_default();
    (!whole.is_empty()).then(|| {
        whole
            .iter()
            .map(|given| (given.name.to_string(), written(given)))
            .collect()
    })
}

/// Returns the number, or the grade as recorded.
fn written(given: &RunScore) -> Value {
    given
        .score
        .map_or_else(|| json!(given.grade), |score| json!(score))
}

/// The times of a step, as far as they're recorded.
#[derive(Default)]
struct Times<T> {
    began: Option<T>,
    /// When its reply arrived. The format has only this time: its writers timestamp a step with the
    /// model's message.
    replied: Option<T>,
    ended: Option<T>,
}

impl Times<i64> {
    fn of(index: &Index, round: &Group) -> Self {
        let events = index.events().range(round.first..round.end);
        let decided =
            events.filter(|event| matches!(event.kind, EventKind::Output | EventKind::Decided));
        // In another tool's trace, a step begins with the record of its reply.
        let reply = index
            .events()
            .get(round.first)
            .filter(|_| index.format().is_one_file())
            .and_then(|event| event.ts);
        let ended = round
            .ended
            .max(round.until)
            .filter(|_| took(round).is_some());
        Self {
            began: began(index, round),
            replied: decided.filter_map(|event| event.ts).next_back().or(reply),
            ended,
        }
    }

    fn map(self, write: impl Fn(i64) -> String) -> Times<String> {
        let Self {
            began,
            replied,
            ended,
        } = self;
        Times {
            began: began.map(&write),
            replied: replied.map(&write),
            ended: ended.map(&write),
        }
    }
}

fn agent_step(number: usize, step: &Step<'_>, usage: Usage, at: Times<String>) -> Value {
    let decision = step.decision.as_ref();
    let text = |value: Option<Recorded<'_>>| {
        value
            .and_then(Recorded::string)
            .map(std::borrow::Cow::into_owned)
    };
    let thought = decision.and_then(|decision| text(decision.rationale));
    let said = text(step.text).or_else(|| decision.and_then(|decision| text(decision.answer)));
    let calls: Vec<(String, &Call<'_>)> = step
        .calls
        .iter()
        .enumerate()
        .map(|(at, call)| (id(call, number, at), call))
        .collect();
    let results: Vec<Value> = step
        .results
        .iter()
        .zip(
            calls
                .iter()
                .map(|(id, _)| Some(id.as_str()))
                .chain(std::iter::repeat(None)),
        )
        // A placeholder for a result that hasn't arrived.
        .filter(|(result, _)| result.status.as_deref() != Some("no answer"))
        .map(|(result, call)| outcome(result, call))
        .collect();
    let metrics = filled(json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "cached_tokens": usage.cached,
        "cost_usd": step.cost_usd,
    }));
    let score =
        |critic: &CriticOutput<'_>| Some(json!({"name": critic.name, "score": critic.score?}));
    let scores: Vec<Value> = step.critics.iter().filter_map(score).collect();
    let own = filled(json!({
        "began": at.began,
        "ended": at.ended,
        "scores": (!scores.is_empty()).then_some(scores),
    }));
    filled(json!({
        "step_id": number,
        "timestamp": at.replied.or(at.began),
        "source": "agent",
        // The format requires this field, even if it's empty.
        "message": said.as_deref().filter(|said| thought.as_deref() != Some(said)).unwrap_or_default(),
        "reasoning_content": thought,
        "tool_calls": (!calls.is_empty()).then(|| calls.iter().map(|(id, call)| json!({
            "tool_call_id": id,
            "function_name": call.name.as_deref().unwrap_or("unknown"),
            "arguments": arguments(call),
        })).collect::<Vec<_>>()),
        "observation": (!results.is_empty()).then(|| json!({"results": results})),
        "metrics": metrics.as_object().filter(|metrics| !metrics.is_empty()),
        "extra": own.as_object().filter(|own| !own.is_empty()).map(|own| json!({"board": own})),
    }))
}

/// Returns the recorded id of a call, or one derived from its position.
fn id(call: &Call<'_>, number: usize, at: usize) -> String {
    let recorded = call.value.json();
    let recorded = recorded
        .get("action_id")
        .and_then(Json::as_str)
        .filter(|id| !id.is_empty());
    recorded.map_or_else(|| format!("call_{number}_{at}"), str::to_owned)
}

/// Returns the arguments as an object, since the format allows nothing else.
fn arguments(call: &Call<'_>) -> Value {
    let read = call
        .args
        .map(|args| serde_json::from_str::<Value>(args.text));
    match read {
        Some(Ok(value @ Value::Object(_))) => value,
        Some(Ok(Value::Null)) | None => json!({}),
        Some(Ok(other)) => json!({ "value": other }),
        Some(Err(_)) => json!({ "value": call.args.map(|args| args.text) }),
    }
}

fn outcome(result: &Outcome<'_>, call: Option<&str>) -> Value {
    let output = result
        .output
        .filter(|output| output.text != "null")
        .map(|output| output.plain().into_owned());
    let error = result.error.map(|error| error.plain().into_owned());
    let failed = result.has_failed();
    filled(json!({
        "source_call_id": call,
        "content": output.or_else(|| error.clone()).unwrap_or_default(),
        "extra": (failed || result.exit.is_some()).then(|| filled(json!({
            "is_error": failed,
            "error": error,
            "exit_code": result.exit,
        }))),
    }))
}

/// Removes null members from an object.
fn filled(mut object: Value) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    object
}
