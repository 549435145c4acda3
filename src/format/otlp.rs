//! How do agents write traces of OpenTelemetry? A collector's file exporter writes spans in OTLP JSON, an export a line or
//! one document; those of many traces stand among each other, each written when it ends. A trace is a run.
//!
//! Attributes are those of the semantic conventions for generative AI, in their older spellings too, and those of
//! OpenInference. A span of a reply of the model is a step, the spans of tools behind it are its results. Texts and arguments
//! are there only where the program chose to record them. No attribute tells of a limit: what raised may.

mod exported;
mod raised;

use std::collections::{HashMap, HashSet};

use exported::Exported;
use raised::{quiet, raised};

use super::part::{self, text};
use super::value::{cut, filled, number, unpacked};
use super::{Answer, Apart, Belongs, CallDraft, Draft, EventDraft, Part, Reader, Several, Shape, Source, Tokens, Tool};
use crate::model::json::walk;
use crate::model::step::{NO_WORDS, NOT_RECORDED};
use crate::model::{Can, Capabilities, EventKind, EventNote, Format, Outcome};

/// A file of spans.
pub(super) static TRACES: Tool = Tool {
    format: Format {
        name: "OpenTelemetry trace",
        can: Capabilities { times: Can::Yes, tokens: Can::Partly, cost: Can::Partly, ..Capabilities::NONE },
        file: "trace",
        assemble: Some(|n, records| part::line(n, records.iter().map(|record| part_of(&Span::of(record))))),
        ..Format::UNKNOWN
    },
    shape: Shape::Several(&Several {
        paths: &[&["*"]],
        runs: &[],
        named_by: &[],
        name: |_| None,
        member: |_| None,
        beside: &[],
        is_run_alone: false,
        apart: Some(&Apart {
            paths: &[&["resourceSpans", "*", "scopeSpans", "*", "spans", "*"]],
            begins: BEGINS,
            of: belongs,
        }),
    }),
    is: |name, head| {
        let text = String::from_utf8_lossy(head);
        let start = text.trim_start().strip_prefix('{').unwrap_or_default().trim_start();
        (name.ends_with(".jsonl") || name.ends_with(".json"))
            && start.starts_with("\"resourceSpans\"")
            && PREFIXES.iter().any(|prefix| text.contains(prefix))
    },
    reader: || Box::new(Trace::default()),
};

/// How a line of a collector begins.
const BEGINS: &str = "{\"resourceSpans\"";

/// Attributes that tell of an agent or a model begin with one of these.
const PREFIXES: [&str; 4] = ["\"gen_ai.", "\"openinference.", "\"llm.", "\"traceloop."];

/// Deeper values are not taken apart.
const MAX_DEPTH: usize = 16;

fields! {
    struct Raw {
        trace = "traceId", id = "spanId", parent = "parentSpanId", name, start = "startTimeUnixNano",
        end = "endTimeUnixNano", attributes, status, events,
    }
    struct Attribute { key, value }
    struct Status { code, message }
    struct SpanEvent { name, attributes }
    struct Message { role, parts, content, finish_reason, calls = "tool_calls" }
    struct Piece { kind = "type", content, text, id, name, arguments }
    struct OldCall { id, function }
    struct Function { name, arguments }
}

/// A span, and what its attributes say.
struct Span<'a> {
    raw: Raw<'a>,
    attributes: HashMap<String, &'a str>,
}

/// What a span is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Reply,
    Tool,
    Agent,
    Other,
}

fn nanos(value: Option<&str>) -> Option<u64> {
    text(value).as_deref().or(value)?.parse().ok()
}

fn belongs(record: &str) -> Option<Belongs> {
    let raw = Raw::of(record);
    let run = filled(raw.trace)?;
    let shown = raw.attributes.is_some_and(|all| PREFIXES.iter().any(|prefix| all.contains(prefix)));
    Some(Belongs { run, order: nanos(raw.start).unwrap_or(u64::MAX), shown })
}

impl<'a> Span<'a> {
    fn of(record: &'a str) -> Self {
        let raw = Raw::of(record);
        Self { raw, attributes: attributes(raw.attributes) }
    }

    /// The text of the first of these attributes that is there; of a structured one as JSON.
    fn text(&self, keys: &[&str]) -> Option<String> {
        let value = keys.iter().find_map(|key| self.attributes.get(*key))?;
        let plain = plain(value, 0);
        text(Some(&plain)).or(Some(plain)).filter(|text| !text.is_empty())
    }

    /// The value of an attribute as JSON: some write it as text, others as it is.
    fn json(&self, keys: &[&str]) -> Option<String> {
        self.text(keys).map(|text| unpacked(&text))
    }

    fn count(&self, keys: &[&str]) -> Option<u64> {
        self.text(keys)?.parse().ok()
    }

    fn sort(&self) -> Sort {
        let kind = self.text(&["openinference.span.kind", "traceloop.span.kind", "langsmith.span.kind"]);
        match (self.text(&["gen_ai.operation.name"]).as_deref(), kind.as_deref()) {
            (Some("chat" | "text_completion" | "generate_content" | "completion"), _) => Sort::Reply,
            (Some("execute_tool"), _) => Sort::Tool,
            (Some("invoke_agent" | "invoke_workflow"), _) => Sort::Agent,
            (Some(_), _) => Sort::Other,
            (None, Some("LLM" | "llm")) => Sort::Reply,
            (None, Some("TOOL" | "tool")) => Sort::Tool,
            (None, Some("AGENT" | "agent" | "workflow")) => Sort::Agent,
            (None, _) if self.attributes.contains_key("llm.request.type") => Sort::Reply,
            _ => Sort::Other,
        }
    }

    fn micros(value: Option<&str>) -> Option<i64> {
        // 0 is said where a time is not known.
        nanos(value).filter(|nanos| *nanos > 0).and_then(|nanos| i64::try_from(nanos / 1_000).ok())
    }

    /// What went wrong: the name of the exception, and its words.
    fn fault(&self) -> Option<(String, String)> {
        let status = self.raw.status.map(Status::of).unwrap_or_default();
        matches!(status.code, Some("2" | "\"STATUS_CODE_ERROR\"")).then_some(())?;
        let raised = self.raw.events.into_iter().flat_map(walk::items).map(SpanEvent::of);
        let raised = raised.filter(|event| event.name == Some("\"exception\"")).last();
        let all = attributes(raised.and_then(|event| event.attributes));
        let of = |key: &str| all.get(key).and_then(|value| filled(Some(&plain(value, 0))));
        let kind = of("exception.type").or_else(|| self.text(&["error.type"]).filter(|kind| kind != "_OTHER"));
        let kind = kind.unwrap_or_default();
        let words = of("exception.message").or_else(|| filled(status.message)).unwrap_or_default();
        let name = kind.rsplit('.').next().unwrap_or_default().to_owned();
        Some((name, words))
    }
}

fn attributes(list: Option<&str>) -> HashMap<String, &str> {
    let all = list.into_iter().flat_map(walk::items).map(Attribute::of);
    all.filter_map(|attribute| Some((text(attribute.key)?, attribute.value?))).collect()
}

/// A value of an attribute as JSON: OTLP says the type of each.
fn plain(value: &str, depth: usize) -> String {
    let Some((kind, inner)) = walk::members(value).next() else { return "null".to_owned() };
    let values =
        || walk::members(inner).filter(|(key, _)| *key == "\"values\"").flat_map(|(_, list)| walk::items(list));
    match kind {
        // What has 64 bits is a text there.
        "\"intValue\"" => text(Some(inner)).unwrap_or_else(|| inner.to_owned()),
        "\"arrayValue\"" if depth < MAX_DEPTH => {
            let items: Vec<String> = values().map(|item| plain(item, depth + 1)).collect();
            format!("[{}]", items.join(","))
        }
        "\"kvlistValue\"" if depth < MAX_DEPTH => {
            let members = values().map(Attribute::of).filter_map(|member| {
                Some(format!("{}:{}", member.key?, plain(member.value.unwrap_or("{}"), depth + 1)))
            });
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        _ => inner.to_owned(),
    }
}

/// A trace under way. Its spans come in the order in which they began.
#[derive(Debug, Default)]
struct Trace {
    by_call: HashMap<String, usize>,
    /// The newest reply below each span.
    by_parent: HashMap<String, usize>,
    /// The spans of tools, and all below them.
    in_tools: HashSet<String>,
    last: Option<usize>,
    /// The span that all others are below has come, with what went wrong in it; none has as long as the trace goes on.
    root: Option<(Option<(String, String)>, usize)>,
    answer: Option<Box<str>>,
    /// What is said of the run in words of its own, where `board export` wrote the trace.
    exported: Option<Exported>,
    /// When the first span began and the last one ended.
    started: Option<i64>,
    ended: Option<i64>,
    /// How long the span took that all others are below.
    took: Option<f64>,
    /// What the replies cost that say so, and whether one does not.
    cost: Option<f64>,
    lacks_cost: bool,
    /// The tokens of the replies that say so.
    tokens: Option<u64>,
}

impl Reader for Trace {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        let span = Span::of(record.text);
        let name = text(span.raw.name).unwrap_or_default();
        let (start, end) = (Span::micros(span.raw.start), Span::micros(span.raw.end));
        let fault = span.fault();
        let mark = EventDraft { phase: &name, ts: start, failed: fault.is_some(), ..EventDraft::default() };
        // What is exported once more, after a word from the collector was lost.
        if filled(span.raw.id).is_some_and(|id| draft.is_again(&id)) {
            return draft.again(&mark);
        }
        self.started = self.started.into_iter().chain(start).min();
        self.ended = self.ended.max(end);
        let parent = filled(span.raw.parent);
        let sort = span.sort();
        if sort == Sort::Tool || parent.as_ref().is_some_and(|parent| self.in_tools.contains(parent)) {
            self.in_tools.extend(filled(span.raw.id));
        }
        match sort {
            Sort::Reply => self.reply(&span, parent.as_deref(), EventDraft { ts: end.or(start), ..mark }, draft),
            Sort::Tool => self.tool(&span, parent.as_deref(), &mark, draft),
            Sort::Agent | Sort::Other => {
                let task = asked(&span).filter(|_| !draft.has_task());
                let note = task.map(|words| draft.task(Some(&words)));
                let stage = if sort == Sort::Agent { "agent" } else { "" };
                draft.event(EventDraft { stage, note, ..mark });
            }
        }
        let run = draft.run();
        if run.run_id.is_none() {
            run.run_id = filled(span.raw.trace).map(|id| cut(&id));
        }
        if parent.is_none() {
            self.exported = span.exported();
            // Of a run that went on when it was exported, the span is not the end.
            let goes_on = self.exported.as_ref().is_some_and(|told| told.end.is_none());
            self.root = Some((fault, draft.newest())).filter(|_| !goes_on);
            let answer = span.text(&["final_result", "output.value"]);
            let answer = answer.or_else(|| span.exported_answer().filter(|_| self.exported.is_some()));
            self.answer = answer.map(|answer| cut(&answer));
            let run = draft.run();
            run.scores = span.scores().filter_map(|(name, score, _)| Some((cut(&name), score?))).collect();
            // What it did last may be no event at all.
            self.took = seconds_between(start, end);
            run.agent = span.text(&["gen_ai.agent.name", "agent_name", "gen_ai.workflow.name"]).map(|name| cut(&name));
        }
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        let told = self.exported.as_ref().and_then(|told| told.end.as_ref());
        let ended = self.root.as_ref().map(|(fault, at)| match (told, fault) {
            (Some(end), _) => end.clone().told_by(*at),
            (None, Some((kind, words))) => raised(kind, words).told_by(*at),
            (None, None) => quiet(self.last.and_then(|n| draft.step(n)), self.answer.is_some()),
        });
        let said = self.last.and_then(|n| draft.said(n));
        let is_answer = ended.as_ref().is_some_and(|end| end.outcome == Outcome::Completed);
        let answer = self.answer.clone().or(said).filter(|_| is_answer);
        let run = draft.run();
        run.latency_s = self.took.or_else(|| seconds_between(self.started, self.ended));
        (run.started_at, run.updated_at) = (self.started, self.ended.filter(|_| ended.is_some()));
        run.ended = ended.map(Box::new);
        run.final_result = answer;
        run.cost_usd = self.cost.filter(|_| !self.lacks_cost);
        if let Some(told) = &self.exported {
            told.tell(self.tokens, run);
            // Its span has to have an end: one without a length is of a run of which that is not known.
            run.latency_s = told.took.or(self.took.filter(|took| *took > 0.0));
        }
        run.tool = Some("OpenTelemetry".into());
    }
}

impl Trace {
    fn reply(&mut self, span: &Span<'_>, parent: Option<&str>, mark: EventDraft<'_>, draft: &mut Draft<'_>) {
        let asked = Span::micros(span.raw.start);
        let n = draft.reply(None, asked, EventDraft { kind: EventKind::Decided, ..mark });
        let is_nested = span.exported_nested() || parent.is_some_and(|parent| self.in_tools.contains(parent));
        let part = Part { is_nested, ..part_of(span) };
        if let Some(model) = &part.model {
            draft.run().model = Some(cut(model));
        }
        let spent =
            part.tokens.and_then(|tokens| Some(tokens.input?.saturating_add(tokens.output.unwrap_or_default())));
        self.tokens = spent.map(|spent| spent.saturating_add(self.tokens.unwrap_or_default())).or(self.tokens);
        self.lacks_cost |= part.cost.is_none();
        self.cost = part.cost.map(|cost| cost + self.cost.unwrap_or_default()).or(self.cost);
        self.by_call.extend(part.calls.iter().map(|call| (call.id.clone(), n)));
        if let Some(last) = self.by_parent.insert(parent.unwrap_or_default().to_owned(), n) {
            draft.close(last);
        }
        self.last = Some(n);
        draft.part(n, part);
    }

    /// A tool that ran: by the id of its call, else for the newest reply beside it.
    fn tool(&mut self, span: &Span<'_>, parent: Option<&str>, mark: &EventDraft<'_>, draft: &mut Draft<'_>) {
        let part = part_of(span);
        let called = part.calls.first().and_then(|call| self.by_call.get(&call.id)).copied();
        let beside = || self.by_parent.get(parent.unwrap_or_default()).copied();
        let step = called.or_else(beside).or(self.last);
        let note = Span::micros(span.raw.end).map(EventNote::Until);
        draft.event(EventDraft { kind: EventKind::Inside, stage: "tool", step, note, ..*mark });
        if !step.is_some_and(|n| draft.part(n, part.clone())) {
            draft.orphan(&part);
        }
    }
}

fn seconds_between(start: Option<i64>, end: Option<i64>) -> Option<f64> {
    end?.checked_sub(start?).filter(|micros| *micros >= 0).map(|micros| micros as f64 / 1e6)
}

/// What the user asked for, where the span says it.
fn asked(span: &Span<'_>) -> Option<String> {
    let messages = span.json(&["gen_ai.input.messages", "pydantic_ai.all_messages"]);
    let asked = messages.as_deref().and_then(|messages| {
        let mut users = walk::items(messages).map(Message::of).filter(|message| message.role == Some("\"user\""));
        users.find_map(|message| Some(said(&message).0).filter(|said| !said.is_empty()))
    });
    asked.or_else(|| span.text(&["input.value", "traceloop.entity.input"]))
}

/// What a message says, what was thought before it, and what it asks for.
fn said(message: &Message<'_>) -> (String, Vec<String>, Vec<CallDraft>) {
    let (mut words, mut thought, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    words.extend(filled(message.content));
    let inner = message.parts.or(message.content.filter(|content| content.starts_with('[')));
    for piece in inner.into_iter().flat_map(walk::items).map(Piece::of) {
        let words_of = || filled(piece.content).or_else(|| filled(piece.text));
        match piece.kind {
            Some("\"text\"") => words.extend(words_of()),
            Some("\"reasoning\"" | "\"thinking\"") => thought.extend(words_of()),
            Some("\"tool_call\"") => calls.push(call(piece.id, piece.name, piece.arguments)),
            _ => {}
        }
    }
    for old in message.calls.into_iter().flat_map(walk::items).map(OldCall::of) {
        let function = old.function.map(Function::of).unwrap_or_default();
        calls.push(call(old.id, function.name, function.arguments));
    }
    (words.join("\n"), thought, calls)
}

fn call(id: Option<&str>, name: Option<&str>, arguments: Option<&str>) -> CallDraft {
    let args = match text(arguments) {
        Some(inner) => unpacked(&inner),
        None => arguments.filter(|arguments| *arguments != "null").unwrap_or_default().to_owned(),
    };
    CallDraft { id: text(id).unwrap_or_default(), name: text(name).unwrap_or_default(), args }
}

/// What a span says of the step that it belongs to.
fn part_of(span: &Span<'_>) -> Part {
    let mut part = Part::default();
    match span.sort() {
        Sort::Reply => reply(span, &mut part),
        Sort::Tool => tool(span, &mut part),
        Sort::Agent | Sort::Other => {}
    }
    part
}

fn reply(span: &Span<'_>, part: &mut Part) {
    part.agent = span.text(&["gen_ai.agent.name"]);
    part.model = span.text(&["gen_ai.response.model", "gen_ai.request.model", "llm.model_name"]);
    let messages = span.json(&["gen_ai.output.messages"]);
    for message in messages.as_deref().into_iter().flat_map(walk::items).map(Message::of) {
        let (words, thought, calls) = said(&message);
        part.text.extend(Some(words).filter(|words| !words.is_empty()));
        part.thought.extend(thought);
        part.calls.extend(calls);
        part.finish = text(message.finish_reason).or(part.finish.take());
    }
    if messages.is_none() {
        older(span, part);
        // Whoever sends a trace chooses whether it holds what was said. The older attributes name what is there.
        part.is_text_untold = part.text.is_empty() && part.calls.is_empty();
    }
    let reasons = span.json(&["gen_ai.response.finish_reasons"]);
    part.finish = part.finish.take().or_else(|| {
        let reasons = reasons.as_deref()?;
        walk::items(reasons).next().and_then(|reason| text(Some(reason))).or_else(|| text(Some(reasons)))
    });
    let tokens = Tokens {
        input: span.count(&["gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"]),
        cached: span.count(&[
            "gen_ai.usage.cache_read.input_tokens",
            "gen_ai.usage.cache_read_input_tokens",
            "gen_ai.usage.details.cache_read_tokens",
            "llm.token_count.prompt_details.cache_read",
        ]),
        output: span.count(&[
            "gen_ai.usage.output_tokens",
            "gen_ai.usage.completion_tokens",
            "llm.token_count.completion",
        ]),
        reasoning: span.count(&[
            "gen_ai.usage.reasoning.output_tokens",
            "gen_ai.usage.details.reasoning_tokens",
            "llm.token_count.completion_details.reasoning",
        ]),
    };
    part.tokens = Some(tokens).filter(|tokens| *tokens != Tokens::default());
    part.scores = span.scores().collect();
    part.cost = number(span.text(&["operation.cost", "gen_ai.usage.cost", "llm.cost.total"]).as_deref());
    if let Some((kind, words)) = span.fault() {
        part.error = Some(shown(&kind, words));
    }
}

/// The reply in attributes of its own, one for each part: `gen_ai.completion.0.content`.
fn older(span: &Span<'_>, part: &mut Part) {
    for (message, name, args) in [
        ("gen_ai.completion.0", "name", "arguments"),
        ("llm.output_messages.0.message", "tool_call.function.name", "tool_call.function.arguments"),
    ] {
        part.text.extend(span.text(&[&format!("{message}.content")]));
        for at in 0..64 {
            let calls = format!("{message}.tool_calls.{at}.");
            let Some(tool) = span.text(&[&format!("{calls}{name}")]) else { break };
            let id = span.text(&[&format!("{calls}id"), &format!("{calls}tool_call.id")]).unwrap_or_default();
            let args = span.json(&[&format!("{calls}{args}")]).unwrap_or_default();
            part.calls.push(CallDraft { id, name: tool, args });
        }
    }
    if part.text.is_empty() && part.calls.is_empty() {
        part.text.extend(span.text(&["output.value"]));
    }
}

fn tool(span: &Span<'_>, part: &mut Part) {
    let name = span.text(&["gen_ai.tool.name", "tool.name", "traceloop.entity.name"]);
    let name = name.or_else(|| text(span.raw.name)).unwrap_or_default();
    // Without the id of its call it goes by its own.
    let id = span.text(&["gen_ai.tool.call.id"]).or_else(|| text(span.raw.id));
    let is_called = span.text(&["board.without_call"]).is_none();
    let id = id.filter(|_| is_called).unwrap_or_default();
    let args = span.json(&["gen_ai.tool.call.arguments", "tool.parameters", "input.value", "traceloop.entity.input"]);
    if is_called {
        part.calls.push(CallDraft { id: id.clone(), name, args: args.unwrap_or_default() });
    }
    let output = span.json(&["gen_ai.tool.call.result", "output.value", "traceloop.entity.output"]);
    let fault = span.fault();
    let exit = span.text(&["board.exit_code"]).and_then(|code| code.parse().ok());
    // What ended with a code of its own says no more than that.
    let fault = fault.filter(|(_, words)| exit.is_none() || !words.is_empty());
    let took = nanos(span.raw.start).zip(nanos(span.raw.end)).and_then(|(start, end)| end.checked_sub(start));
    part.answers.push(Answer {
        call: id,
        status: match fault.as_ref().map(|(kind, _)| kind.as_str()) {
            Some("cancelled" | "skipped") => Some("cancelled"),
            Some(_) => Some("error"),
            None if span.text(&["board.status"]).as_deref() == Some(NOT_RECORDED) => None,
            None => Some("success"),
        },
        output: output.unwrap_or_else(|| "null".to_owned()),
        error: fault.map(|(kind, words)| shown(&kind, words)),
        exit,
        ms: took.map(|nanos| nanos as f64 / 1e6),
    });
}

/// An exception in one line.
fn shown(kind: &str, words: String) -> String {
    match (kind, &*words) {
        ("", "") => NO_WORDS.to_owned(),
        (kind, "") => kind.to_owned(),
        ("", _) => words,
        _ if words.starts_with(kind) => words,
        _ => format!("{kind}: {words}"),
    }
}
