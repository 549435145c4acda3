//! Writes a run as an OpenTelemetry trace, following the semantic conventions for generative AI.
//! The run is an agent span, each step a chat span below it, and each tool call with a result a
//! tool span. Critic outputs are events.
//!
//! A span requires a start time. Where none is recorded, it's inferred from the preceding record
//! and marked with the attribute `board.time`. A run without any recorded times can't be exported.

mod span;

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::analysis::newest::newest_run;
use crate::analysis::timing::began;
use crate::error::{Error, Kind};
use crate::format;
use crate::model::index::Group;
use crate::model::json::{Json, walk};
use crate::model::step::{Call, CriticOutput, Outcome, Value as Recorded};
use crate::model::{EventKind, Outcome as Came, Step, StepHead, TraceFile};
use crate::page::run_view::RunView;
use crate::page::step::messages::{Prompted, prompts_before};
use span::{Ids, Span, Time, flag, number, text, whole};

/// The type of an error if no record states one.
const SOME_ERROR: &str = "_OTHER";

/// The trace of a run.
pub(crate) struct Trace<'a> {
    view: RunView<'a>,
    ids: Ids,
    /// When the run began and ended, as far as known.
    began: i64,
    ended: i64,
}

impl<'a> Trace<'a> {
    /// Prepares the newest run of `view`.
    ///
    /// # Errors
    /// The run records no times.
    pub(crate) fn new(view: RunView<'a>) -> Result<Self, Error> {
        let (summary, index) = (view.summary, view.index);
        let recorded = index
            .segments()
            .iter()
            .rev()
            .take(summary.parts.max(1))
            .filter_map(|segment| segment.span);
        let (first, last) = recorded.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unzip();
        let Some(began) = summary.started.into_iter().chain(first).min() else {
            let what = format!(
                "{} records no times, but a span needs a start time",
                view.key()
            );
            return Err(Error::new(Kind::Unreadable, what)
                .hint("--atif writes a trajectory, which needs no times"));
        };
        let took = summary
            .duration_ms
            .map(|ms| began.saturating_add((ms * 1e3) as i64));
        let ended = last
            .into_iter()
            .chain(took)
            .chain([began])
            .max()
            .unwrap_or(began);
        // Copies of a run produce the same trace. A run without an id is identified by its name and
        // start time.
        let name = summary.run_id.as_deref().unwrap_or(view.key());
        Ok(Self {
            ids: Ids::of(name, began),
            view,
            began,
            ended,
        })
    }

    /// Returns the trace's id.
    pub(crate) fn id(&self) -> &str {
        self.ids.trace()
    }

    /// Returns the parts of the document before and after the spans.
    pub(crate) fn around(&self) -> (String, &'static str) {
        let summary = self.view.summary;
        let service = summary
            .agents
            .first()
            .map_or(summary.format.as_str(), String::as_str);
        let resource = [
            text("service.name", service),
            text("board.format", &summary.format),
        ];
        let scope = json!({"name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION")});
        // Readers detect the format by the first field.
        let before = format!(
            "{{\"resourceSpans\":[{{\"resource\":{},\"scopeSpans\":[{{\"scope\":{scope},\"spans\":[",
            json!({ "attributes": resource })
        );
        (before, "]}]}]}")
    }

    /// Passes all spans as JSON to `each`, in the order in which they began.
    ///
    /// # Errors
    /// Returns errors from `each`.
    pub(crate) fn spans(&self, each: &mut dyn FnMut(String) -> io::Result<()>) -> io::Result<()> {
        each(self.root().json())?;
        let index = self.view.index;
        let (mut before, mut tokens) = ((self.began, self.began), None);
        for (n, head) in newest_run(index) {
            let record = self.view.lines.record(TraceFile::Steps, head.span).ok();
            let read = record.as_ref().and_then(format::step);
            let at = self.times(index.round_of(n), before);
            before = (at.began, at.ended);
            each(self.chat(n, head, read.as_ref(), tokens, &at).json())?;
            tokens = tokens.max(head.tokens_total);
            for (place, result) in read.iter().flat_map(|step| step.results.iter().enumerate()) {
                let call = read.as_ref().and_then(|step| step.calls.get(place));
                if let Some(span) = self.tool(n, place, call, result, &at) {
                    each(span.json())?;
                }
            }
        }
        Ok(())
    }

    /// Returns the span of the whole run.
    fn root(&self) -> Span {
        let summary = self.view.summary;
        let verdict = &summary.verdict;
        let agent = summary.agents.first().map(String::as_str);
        let mut span = Span::new(
            self.ids.root(),
            None,
            &named("invoke_agent", agent),
            self.began,
            self.ended,
        );
        span.ids(&self.ids);
        span.attribute(text("gen_ai.operation.name", "invoke_agent"));
        span.says_all([
            agent.map(|agent| text("gen_ai.agent.name", agent)),
            summary
                .run_id
                .as_deref()
                .map(|id| text("gen_ai.conversation.id", id)),
            summary
                .model
                .as_deref()
                .map(|model| text("gen_ai.request.model", model)),
            Some(text("board.verdict", &verdict.sentence)),
            Some(text("board.outcome", verdict.outcome.as_str())),
            verdict
                .stop_reason
                .as_deref()
                .map(|word| text("board.stop_reason", word)),
            Some(text("board.certainty", verdict.certainty.as_str())),
            Some(text("board.liveness", summary.life.liveness.word())),
            summary.partial.then(|| flag("board.partial", true)),
            summary
                .tokens
                .and_then(|tokens| whole("board.total_tokens", tokens)),
            summary
                .tokens_estimated
                .then(|| flag("board.tokens_estimated", true)),
            summary
                .usage
                .input
                .and_then(|count| whole("board.tokens_in", count)),
            summary
                .usage
                .cached
                .and_then(|count| whole("board.tokens_cached", count)),
            summary
                .usage
                .written
                .and_then(|count| whole("board.tokens_cache_write", count)),
            summary
                .usage
                .written_1h
                .and_then(|count| whole("board.tokens_cache_write_1h", count)),
            summary
                .usage
                .output
                .and_then(|count| whole("board.tokens_out", count)),
            summary
                .usage
                .reasoning
                .and_then(|count| whole("board.tokens_reasoning", count)),
            summary
                .cost_usd
                .and_then(|cost| number("board.cost_usd", cost)),
            summary
                .cost_by_run_usd
                .and_then(|cost| number("board.cost_estimated_usd", cost)),
            summary
                .duration_ms
                .and_then(|ms| number("board.duration_ms", ms)),
            summary
                .model_calls
                .and_then(|count| whole("board.model_calls", count)),
            summary
                .steps_unknown
                .then(|| flag("board.steps_untold", true)),
            summary
                .parent
                .as_deref()
                .map(|parent| text("board.parent", parent)),
            self.asked_of_run()
                .map(|asked| text("gen_ai.input.messages", &asked)),
            summary.answer.as_deref().map(|answer| {
                text(
                    "gen_ai.output.messages",
                    &message("assistant", &[said(answer)], Some("stop")),
                )
            }),
        ]);
        if verdict.outcome == Came::Failed {
            span.fails(
                verdict.stop_reason.as_deref().unwrap_or(SOME_ERROR),
                &verdict.sentence,
            );
        }
        for given in self
            .view
            .index
            .manifest()
            .get()
            .iter()
            .flat_map(|manifest| &manifest.scores)
        {
            let said =
                |key, words: &Option<Box<str>>| words.as_deref().map(|words| text(key, words));
            let score = given
                .score
                .and_then(|score| number("gen_ai.evaluation.score.value", score));
            span.judged(
                self.ended,
                [
                    Some(text("gen_ai.evaluation.name", &given.name)),
                    score,
                    said("gen_ai.evaluation.score.label", &given.grade),
                    said("gen_ai.evaluation.explanation", &given.reason),
                ],
            );
        }
        span
    }

    /// Returns the input of the run: its full task, and prompts that no step responds to.
    fn asked_of_run(&self) -> Option<String> {
        let (index, task) = (self.view.index, self.view.summary.task.as_deref());
        let mut prompts = prompts_before(&self.view, index.newest_start());
        prompts.truncate(1);
        if prompts.is_empty() {
            prompts.extend(task.map(|task| Prompted {
                event: None,
                ts: None,
                words: task.to_owned(),
                has_pictures: false,
            }));
        }
        if !index.steps().is_empty() {
            prompts.extend(prompts_before(&self.view, index.steps().len()));
        }
        asked(&prompts)
    }

    /// Returns the times of a step, given those of the previous one. No step begins before the
    /// previous one.
    fn times(&self, round: Option<&Group>, before: (i64, i64)) -> Time {
        let index = self.view.index;
        let recorded_start = round.and_then(|round| began(index, round));
        let began = recorded_start.unwrap_or(before.1).max(before.0);
        let until = round.and_then(|round| round.ended.max(round.until));
        let ended = until.unwrap_or(began).max(began);
        let of = |kinds: &[EventKind]| {
            let events = round.map(|round| index.events().range(round.first..round.end));
            let times = events
                .into_iter()
                .flatten()
                .filter(|event| kinds.contains(&event.kind));
            times
                .filter_map(|event| event.ts)
                .next_back()
                .filter(|at| (began..=ended).contains(at))
        };
        let decided = of(&[EventKind::Output, EventKind::Decided]);
        let acted = of(&[EventKind::Acting]).or(decided).unwrap_or(began);
        Time {
            began,
            decided: decided.unwrap_or(ended),
            acted,
            ended,
            is_inferred: recorded_start != Some(began),
        }
    }

    /// Returns the span of a step: the model's input and output.
    fn chat(
        &self,
        n: usize,
        head: &StepHead,
        step: Option<&Step<'_>>,
        tokens_before: Option<u64>,
        at: &Time,
    ) -> Span {
        let index = self.view.index;
        let of_run = || index.manifest().get()?.model_of_steps();
        let name = |symbol| Some(index.name(symbol)).filter(|name| !name.is_empty());
        let model = name(head.model).or_else(of_run);
        let has_calls = step.is_some_and(|step| !step.calls.is_empty());
        let mut span = Span::new(
            self.ids.step(n),
            Some(self.ids.root()),
            &named("chat", model),
            at.began,
            at.decided.max(at.began),
        );
        span.ids(&self.ids);
        let usage = head.usage_alone(tokens_before);
        // A step without a model call has no token count.
        let tokens = index.tokens_of(n).filter(|tokens| *tokens > 0);
        span.attribute(text("gen_ai.operation.name", "chat"));
        span.says_all([
            model.map(|model| text("gen_ai.request.model", model)),
            name(head.agent).map(|agent| text("gen_ai.agent.name", agent)),
            self.view
                .summary
                .run_id
                .as_deref()
                .map(|id| text("gen_ai.conversation.id", id)),
            whole("board.step", n as u64),
            name(head.mode).map(|mode| text("board.mode", mode)),
            at.is_inferred.then(|| text("board.time", "inferred")),
            head.is_abandoned.then(|| flag("board.left", true)),
            head.is_nested.then(|| flag("board.nested", true)),
            asked(&prompts_before(&self.view, n))
                .map(|asked| text("gen_ai.input.messages", &asked)),
            usage
                .input
                .and_then(|count| whole("gen_ai.usage.input_tokens", count)),
            usage
                .output
                .and_then(|count| whole("gen_ai.usage.output_tokens", count)),
            usage
                .cached
                .and_then(|count| whole("gen_ai.usage.cache_read.input_tokens", count)),
            usage
                .written
                .and_then(|count| whole("gen_ai.usage.cache_creation.input_tokens", count)),
            usage
                .written_1h
                .and_then(|count| whole("board.tokens_cache_write_1h", count)),
            usage
                .reasoning
                .and_then(|count| whole("gen_ai.usage.reasoning.output_tokens", count)),
            index
                .tokens_estimated(n)
                .then(|| flag("board.tokens_estimated", true)),
        ]);
        let Some(step) = step else {
            // An unreadable step keeps its position.
            span.attribute(flag("board.unreadable", true));
            return span;
        };
        let finish = step
            .rest
            .iter()
            .find(|(key, _)| key == "finish_reason")
            .and_then(|(_, value)| value.string());
        span.says_all([
            tokens
                .filter(|_| usage.input.is_none())
                .and_then(|count| whole("board.total_tokens", count)),
            step.cost_usd
                .and_then(|cost| number("gen_ai.usage.cost", cost)),
            finish.as_deref().map(|word| {
                json!({"key": "gen_ai.response.finish_reasons", "value":
                {"arrayValue": {"values": [{"stringValue": word}]}}})
            }),
        ]);
        let parts = self.parts(n, step);
        if !parts.is_empty() {
            let finish = finish
                .as_deref()
                .unwrap_or(if has_calls { "tool_call" } else { "stop" });
            span.attribute(text(
                "gen_ai.output.messages",
                &message("assistant", &parts, Some(finish)),
            ));
        }
        if let Some(error) = step.error {
            let (message_text, phase) = (
                error.get("message").and_then(walk::string),
                error.get("phase").and_then(walk::string),
            );
            span.fails(SOME_ERROR, &message_text.unwrap_or_else(|| error.plain()));
            span.says_all([phase.map(|phase| text("board.phase", &phase))]);
        } else if let Some((phase, words)) = index.error_of(n) {
            // The run continued after the error, and the step's line doesn't record it.
            span.fails(SOME_ERROR, words);
            span.says_all([name(*phase).map(|phase| text("board.phase", phase))]);
        }
        for critic in step.critics.iter() {
            span.judged(at.ended, judgement(critic));
        }
        span
    }

    /// Returns the parts of the output: reasoning, text and tool calls.
    fn parts(&self, n: usize, step: &Step<'_>) -> Vec<Value> {
        let decision = step.decision.as_ref();
        let text = |value: Option<Recorded<'_>>| {
            value
                .and_then(Recorded::string)
                .map(std::borrow::Cow::into_owned)
        };
        let thought = decision.and_then(|decision| text(decision.rationale));
        let words = text(step.text).or_else(|| decision.and_then(|decision| text(decision.answer)));
        let words = words.filter(|words| thought.as_ref() != Some(words) && !words.is_empty());
        let thought = thought.filter(|thought| !thought.is_empty());
        let mut parts: Vec<Value> = thought
            .map(|thought| json!({"type": "reasoning", "content": thought}))
            .into_iter()
            .collect();
        parts.extend(words.map(|words| said(&words)));
        parts.extend(step.calls.iter().enumerate().map(|(place, call)| {
            json!({
                "type": "tool_call",
                "id": self.ids.call(n, place),
                "name": call.name.as_deref().unwrap_or("unknown"),
                "arguments": call.args.map(|args| serde_json::from_str::<Value>(args.text).unwrap_or_else(|_| args.text.into())),
            })
        }));
        parts
    }

    /// Returns the span of a tool call with a result.
    fn tool(
        &self,
        n: usize,
        place: usize,
        call: Option<&Call<'_>>,
        result: &Outcome<'_>,
        at: &Time,
    ) -> Option<Span> {
        use crate::model::step::{NO_ANSWER, NOT_RECORDED};
        // A placeholder for a result that hasn't arrived.
        if result.status.as_deref() == Some(NO_ANSWER) {
            return None;
        }
        let name = call
            .and_then(|call| call.name.as_deref())
            .or(result.tool.as_deref());
        let took = result
            .effort
            .latency_ms
            .filter(|ms| *ms >= 0.0 && ms.is_finite());
        let ended = took.map_or(at.ended.max(at.acted), |ms| {
            at.acted.saturating_add((ms * 1e3) as i64)
        });
        let mut span = Span::new(
            self.ids.tool(n, place),
            Some(self.ids.step(n)),
            &named("execute_tool", name),
            at.acted,
            ended,
        );
        span.ids(&self.ids);
        span.attribute(text("gen_ai.operation.name", "execute_tool"));
        let args = call
            .and_then(|call| call.args)
            .map(|args| text("gen_ai.tool.call.arguments", args.text));
        let output = result.output.filter(|output| output.text != "null");
        span.says_all([
            name.map(|name| text("gen_ai.tool.name", name)),
            Some(match call {
                Some(_) => text("gen_ai.tool.call.id", &self.ids.call(n, place)),
                // This result belongs to no recorded call.
                None => text("board.without_call", "true"),
            }),
            recorded_id(call).map(|id| text("board.call_id", &id)),
            args,
            output.map(|output| text("gen_ai.tool.call.result", &output.plain())),
            result.exit.map(
                |code| json!({"key": "board.exit_code", "value": {"intValue": code.to_string()}}),
            ),
            took.is_none().then(|| text("board.time", "inferred")),
            (result.status.as_deref() == Some(NOT_RECORDED))
                .then(|| text("board.status", NOT_RECORDED)),
        ]);
        let stopped = result
            .status
            .as_deref()
            .filter(|word| matches!(*word, "cancelled" | "skipped"));
        if stopped.is_some() || result.has_failed() || result.exit.is_some() {
            let words = result.error.map(Recorded::plain).unwrap_or_default();
            span.fails(stopped.unwrap_or(SOME_ERROR), &words);
        }
        Some(span)
    }
}

/// Writes a trace as one document.
///
/// # Errors
/// Returns errors of the writer.
pub(crate) fn write(trace: &Trace<'_>, out: &mut dyn Write) -> io::Result<()> {
    let (before, after) = trace.around();
    write!(out, "{before}")?;
    let mut comma = "";
    trace.spans(&mut |span| {
        write!(out, "{comma}{span}")?;
        comma = ",";
        Ok(())
    })?;
    writeln!(out, "{after}")?;
    Ok(())
}

/// Returns a critic's output as attributes of its event.
fn judgement(critic: &CriticOutput<'_>) -> [Option<Value>; 4] {
    [
        Some(text("gen_ai.evaluation.name", &critic.name)),
        critic
            .score
            .and_then(|score| number("gen_ai.evaluation.score.value", score)),
        critic
            .word
            .map(|word| text("gen_ai.evaluation.score.label", &word.plain())),
        critic
            .reason
            .filter(|reason| !reason.is_empty())
            .map(|reason| text("gen_ai.evaluation.explanation", &reason.plain())),
    ]
}

fn recorded_id(call: Option<&Call<'_>>) -> Option<String> {
    let json = call?.value.json();
    json.get("action_id")
        .and_then(Json::as_str)
        .filter(|id| !id.is_empty())
        .map(str::to_owned)
}

/// Returns the name of a span: the operation and its subject.
fn named(operation: &str, of: Option<&str>) -> String {
    of.map_or_else(|| operation.to_owned(), |of| format!("{operation} {of}"))
}

/// Formats prompts as messages, or returns `None` without any.
fn asked(prompts: &[Prompted]) -> Option<String> {
    let messages: Vec<Value> = prompts
        .iter()
        .map(|prompt| json!({"role": "user", "parts": [said(&prompt.words)]}))
        .collect();
    (!messages.is_empty()).then(|| Value::Array(messages).to_string())
}

fn said(words: &str) -> Value {
    json!({"type": "text", "content": words})
}

/// Formats a message as the conventions require: JSON in a string, which every receiver keeps.
fn message(role: &str, parts: &[Value], finish: Option<&str>) -> String {
    let mut message = json!({"role": role, "parts": parts});
    if let (Some(members), Some(finish)) = (message.as_object_mut(), finish) {
        members.insert("finish_reason".to_owned(), finish.into());
    }
    json!([message]).to_string()
}
