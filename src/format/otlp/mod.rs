//! Reads OpenTelemetry traces of agents. A collector's file exporter writes spans as OTLP JSON, one
//! export per line or as one document. Spans of many traces are interleaved, and each is written
//! when it ends. A trace is a run.
//!
//! Supports the semantic conventions for generative AI, including older attribute names, and
//! OpenInference. The span of a model's reply is a step, and the tool spans after it are its
//! results. Texts and arguments are recorded only if the program chose to. No attribute records a
//! limit, but an exception may.

mod exported;
mod raised;
mod said;
mod sdk;
mod span;

use std::collections::HashSet;

use exported::{Exported, Judged};
use raised::{quiet, raised};
pub(super) use sdk::SPANS;
use span::{Message, Raw, Sort, Span, nanos, said};

use super::part::text;
use super::recent::{Recent, RecentSet};
use super::value::{cut, filled};
use super::{
    Answer, Apart, Belongs, CallDraft, Draft, EventDraft, Part, Reader, Several, Shape, Source,
    Tokens, Tool,
};
use crate::model::json::walk;
use crate::model::step::{NO_WORDS, NOT_RECORDED};
use crate::model::words::grouped;
use crate::model::{
    Can, Capabilities, Certainty, Ended, EventKind, EventNote, Format, IssueKind, Outcome,
};

/// A file of spans.
pub(super) static TRACES: Tool = Tool {
    format: Format {
        name: "OpenTelemetry trace",
        can: Capabilities {
            times: Can::Yes,
            tokens: Can::Partly,
            cost: Can::Partly,
            ..Capabilities::NONE
        },
        file: "trace",
        assemble: Some(assembled),
        ..Format::UNKNOWN
    },
    shape: Shape::Several(&Several {
        paths: &[&["*"]],
        apart: Some(&Apart {
            paths: &[
                &["resourceSpans", "*", "scopeSpans", "*", "spans", "*"],
                &["resourceLogs", "*", "scopeLogs", "*", "logRecords", "*"],
            ],
            begins: BEGINS,
            of: belongs,
            is_other: |_| false,
        }),
        ..Several::NONE
    }),
    is: |name, head| {
        let text = String::from_utf8_lossy(head);
        let start = text
            .trim_start()
            .strip_prefix('{')
            .unwrap_or_default()
            .trim_start();
        (name.ends_with(".jsonl") || name.ends_with(".json"))
            && (start.starts_with("\"resourceSpans\"") || start.starts_with("\"resourceLogs\""))
            && PREFIXES.iter().any(|prefix| text.contains(prefix))
    },
    reader: || Box::new(Trace::default()),
};

/// The start of a line by a collector. One file may contain spans and log records.
const BEGINS: &str = "{\"resource";

/// The prefixes of attributes about agents and models.
const PREFIXES: [&str; 5] = [
    "\"gen_ai.",
    "\"openinference.",
    "\"llm.",
    "\"traceloop.",
    "\"langfuse.observation.",
];

/// At most this many scores of a run are kept.
const MAX_SCORES: usize = 256;

fn belongs(record: &str) -> Option<Belongs> {
    let raw = Raw::of(record);
    let run = filled(raw.trace)?;
    let shown = raw
        .attributes
        .is_some_and(|all| PREFIXES.iter().any(|prefix| all.contains(prefix)));
    // A log record alone isn't a run.
    let shown = shown && raw.start.is_some();
    let began = raw.start.or(raw.time).or(raw.observed);
    Some(Belongs {
        run,
        order: nanos(began).unwrap_or(u64::MAX),
        shown,
    })
}

/// A trace while it is being read. Its spans come in order of their start.
/// The name of an exception, and its message.
type Fault = (String, String);

#[derive(Debug, Default)]
struct Trace {
    by_call: Recent<String, usize>,
    /// The steps of reply spans, and of the spans below them that are neither tools nor agents.
    in_reply: Recent<String, usize>,
    /// The newest reply below each span.
    by_parent: Recent<String, usize>,
    /// The tool spans, and all spans below them.
    in_tools: RecentSet<String>,
    last: Option<usize>,
    /// The root span's error and event, once that span was read. It's written when the trace ends.
    root: Option<(Option<(String, String)>, usize)>,
    answer: Option<Box<str>>,
    /// The latest end of a span, with the error and the event of that span.
    newest_end: Option<(i64, Option<Fault>, usize)>,
    /// The tokens and the cost that the outermost agents record.
    of_agents: Option<(Tokens, Option<f64>)>,
    in_agents: RecentSet<String>,
    /// The ids of all spans, and those that spans name as their parents.
    ids: RecentSet<String>,
    parents: RecentSet<String>,
    has_inner_agents: bool,
    /// The facts about the run that `board export` wrote, if it wrote the trace.
    exported: Option<Exported>,
    /// The start of the first span and the end of the last one.
    started: Option<i64>,
    ended: Option<i64>,
    /// The duration of the root span in seconds.
    took: Option<f64>,
    /// The sum of the recorded costs of replies, and the steps without one.
    cost: Option<f64>,
    unpriced: HashSet<usize>,
    /// The sum of the recorded tokens of replies, and the steps without any.
    tokens: Option<u64>,
    uncounted: HashSet<usize>,
}

impl Reader for Trace {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        let span = Span::of(record.text);
        if span.is_log() {
            return self.log(&span, draft);
        }
        let name = text(span.raw.name).unwrap_or_default();
        let (start, end) = (Span::micros(span.raw.start), Span::micros(span.raw.end));
        let fault = span.fault();
        let mark = EventDraft {
            phase: &name,
            ts: start,
            failed: fault.is_some(),
            ..EventDraft::default()
        };
        // Spans are exported again if a confirmation by the collector was lost.
        let is_again = filled(span.raw.id).is_some_and(|id| draft.is_again(&id));
        let is_same = draft.is_again(record.text);
        if is_again {
            draft.again(&mark);
            if !is_same {
                draft.issue(
                    IssueKind::Join,
                    "this span has the id of an earlier span, but different content",
                );
            }
            return;
        }
        self.started = self.started.into_iter().chain(start).min();
        self.ended = self.ended.max(end);
        let parent = filled(span.raw.parent);
        self.ids.extend(filled(span.raw.id));
        self.parents.extend(parent.clone());
        let sort = span.sort();
        if sort == Sort::Tool
            || parent
                .as_ref()
                .is_some_and(|parent| self.in_tools.contains(parent))
        {
            self.in_tools.extend(filled(span.raw.id));
        }
        let around = parent
            .as_ref()
            .and_then(|parent| self.in_reply.get(parent))
            .copied();
        if let (Some(n), Sort::Other | Sort::Reply, Some(id)) = (around, sort, filled(span.raw.id))
        {
            self.in_reply.insert(id, n);
        }
        if sort == Sort::Agent || (sort == Sort::Other && parent.is_none()) {
            self.agent(&span, parent.as_ref());
        }
        match (sort, around) {
            // One model request, recorded by two instrumentations, or by its client and its server.
            (Sort::Reply, Some(n)) => {
                self.more(n, part_of(&span), &mark.stage("reply"), draft);
            }
            (Sort::Reply, None) => {
                self.reply(
                    &span,
                    parent.as_deref(),
                    &EventDraft {
                        ts: end.or(start),
                        ..mark
                    },
                    draft,
                );
            }
            (Sort::Tool, _) => self.tool(&span, parent.as_deref(), &mark, draft),
            (Sort::Agent | Sort::Other, _) => {
                let task = asked(&span)
                    .or_else(|| span.asked_in_events())
                    .filter(|_| !draft.has_task());
                let note = task.map(|words| draft.task(Some(&words)));
                let stage = if sort == Sort::Agent { "agent" } else { "" };
                draft.event(EventDraft {
                    stage,
                    note,
                    ..mark
                });
            }
        }
        if let Some(end) = end.or(start).filter(|end| {
            self.newest_end
                .as_ref()
                .is_none_or(|(last, ..)| end >= last)
        }) {
            self.newest_end = Some((end, fault.clone(), draft.newest()));
        }
        let run = draft.run();
        if run.run_id.is_none() {
            run.run_id = filled(span.raw.trace).map(|id| cut(&id));
        }
        if run.shared_ids.is_empty() {
            let id = span.text(&["gen_ai.conversation.id"]);
            run.shared_ids.extend(id.map(|id| cut(&id)));
        }
        if parent.is_none() {
            self.exported = span.exported();
            // If the run was still in progress when exported, the span isn't its end.
            let goes_on = self
                .exported
                .as_ref()
                .is_some_and(|told| told.end.is_none());
            // A span is written when it ends. A span without an end may still be in progress.
            let is_over = !goes_on && (end.is_some() || fault.is_some());
            self.root = Some((fault, draft.newest())).filter(|_| is_over);
            let answer = span.text(&[
                "final_result",
                "output.value",
                "langfuse.observation.output",
            ]);
            let answer =
                answer.or_else(|| span.exported_answer().filter(|_| self.exported.is_some()));
            self.answer = answer.map(|answer| cut(&answer));
            draft.run().scores = span
                .scores()
                .map(|given| given.of_run())
                .take(MAX_SCORES)
                .collect();
            // The run's last activity may not be an event.
            self.took = draft.between(
                start,
                end,
                "the outermost span's recorded end is before its start",
            );
            draft.run().agent = span
                .text(&["gen_ai.agent.name", "agent_name", "gen_ai.workflow.name"])
                .map(|name| cut(&name));
        }
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        let told = self.exported.as_ref().and_then(|told| told.end.as_ref());
        let ended = self.root.as_ref().map(|(fault, at)| match (told, fault) {
            (Some(end), _) => end.clone().at_event(*at),
            (None, Some((kind, words))) => raised(kind, words).at_event(*at),
            (None, None) => quiet(self.last.and_then(|n| draft.step(n)), self.answer.is_some()),
        });
        let said = self.last.and_then(|n| draft.said(n));
        let is_answer = ended
            .as_ref()
            .is_some_and(|end| end.outcome == Outcome::Completed);
        let answer = self.answer.clone().or(said).filter(|_| is_answer);
        // Without a root span, more spans may follow.
        let newest = self
            .newest_end
            .as_ref()
            .filter(|_| ended.is_none() && self.exported.is_none());
        let presumed = newest.and_then(|(_, fault, at)| {
            let (kind, words) = fault.as_ref()?;
            Some(Ended {
                certainty: Certainty::Inferred,
                ..raised(kind, words).at_event(*at)
            })
        });
        let (total, of_agents) = (self.of_run(), self.of_agents.unwrap_or_default());
        let difference = total
            .zip(self.tokens)
            .filter(|(total, steps)| total != steps && self.uncounted.is_empty());
        if let Some((total, steps)) = difference.filter(|_| self.exported.is_none()) {
            let reason = format!(
                "the agent's span records {total} tokens, but the replies add up to {steps}"
            );
            draft.issue_of_whole(IssueKind::Count, reason);
        }
        // In a trace with very many spans, a parent may have been forgotten.
        let lost = self.parents.missing_in(&self.ids).unwrap_or_default();
        if lost > 0 {
            let what = if lost == 1 {
                "a span names a parent that is"
            } else {
                "spans name parents that are"
            };
            draft.issue_of_whole(
                IssueKind::Join,
                format!("{what} not in this file; other files may contain the rest of the trace"),
            );
        }
        let run = draft.run();
        run.presumed_end = presumed.map(Box::new);
        run.latency_s = self
            .took
            .or_else(|| seconds_between(self.started, self.ended));
        (run.started_at, run.updated_at) = (self.started, self.ended.filter(|_| ended.is_some()));
        run.ended = ended.map(Box::new);
        run.final_result = answer;
        run.cost_usd = self
            .cost
            .filter(|_| self.unpriced.is_empty())
            .or(of_agents.1);
        // Without reply spans, the agent's own count shows that there were replies.
        let has_unseen = self.last.is_none() && total.is_some_and(|total| total > 0);
        run.steps_unknown |= has_unseen;
        if let Some(total) =
            total.filter(|_| !self.uncounted.is_empty() || difference.is_some() || has_unseen)
        {
            (run.tokens, run.usage) = (Some(total), of_agents.0.into());
        }
        if let Some(told) = &self.exported {
            told.tell(self.tokens, run);
            // A span must have an end. A zero length means that the duration is unknown.
            run.latency_s = told.took.or(self.took.filter(|took| *took > 0.0));
        }
        run.tool = Some("OpenTelemetry".into());
    }
}

impl Trace {
    fn reply(
        &mut self,
        span: &Span<'_>,
        parent: Option<&str>,
        mark: &EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        let is_nested =
            span.exported_nested() || parent.is_some_and(|parent| self.in_tools.contains(parent));
        let words = Some(is_nested).filter(|nested| !nested && !draft.has_task());
        if let Some(words) = words.and_then(|_| asked(span).or_else(|| span.asked_in_events())) {
            let note = Some(draft.task(Some(&words)));
            draft.event(EventDraft {
                stage: "prompt",
                note,
                failed: false,
                ..*mark
            });
        }
        let sent = Span::micros(span.raw.start);
        let n = draft.reply(
            None,
            sent,
            EventDraft {
                kind: EventKind::Decided,
                note: None,
                ..*mark
            },
        );
        let part = Part {
            is_nested,
            ..part_of(span)
        };
        self.in_reply.extend(filled(span.raw.id).map(|id| (id, n)));
        self.unpriced.insert(n);
        self.uncounted.insert(n);
        if let Some(last) = self
            .by_parent
            .insert(parent.unwrap_or_default().to_owned(), n)
        {
            draft.close(last);
        }
        self.last = Some(n);
        self.take(n, part, draft);
    }

    /// Adds the facts that another span or a log record has about the same reply.
    fn more(&mut self, n: usize, part: Part, mark: &EventDraft<'_>, draft: &mut Draft<'_>) {
        draft.event(EventDraft {
            kind: EventKind::Inside,
            step: Some(n),
            note: None,
            ..*mark
        });
        if let Some(known) = draft.step(n) {
            let differs = known.tokens.zip(part.tokens).filter(|(known, more)| {
                let (known, more) = (known.sum(), more.sum());
                known.is_some() && more.is_some() && known != more
            });
            let more = beyond(known, part);
            self.take(n, more, draft);
            if let Some((known, more)) = differs {
                let [known, more] =
                    [known, more].map(|tokens| grouped(tokens.sum().unwrap_or_default()));
                let reason = format!(
                    "another span of the same reply records {more} tokens, but the first one records {known}"
                );
                draft.issue(IssueKind::Count, reason);
            }
        }
    }

    /// Adds a part to a reply.
    fn take(&mut self, n: usize, part: Part, draft: &mut Draft<'_>) {
        if let Some(model) = &part.model {
            draft.run().model = Some(cut(model));
        }
        let spent = part.tokens.and_then(|tokens| {
            Some(
                tokens
                    .input?
                    .saturating_add(tokens.output.unwrap_or_default()),
            )
        });
        if let Some(spent) = spent {
            self.uncounted.remove(&n);
            self.tokens = Some(spent.saturating_add(self.tokens.unwrap_or_default()));
        }
        if let Some(cost) = part.cost {
            self.unpriced.remove(&n);
            self.cost = Some(cost + self.cost.unwrap_or_default());
        }
        self.by_call
            .extend(part.calls.iter().map(|call| (call.id.clone(), n)));
        draft.part(n, part);
    }

    /// Handles a log record. It belongs to the reply whose span it names.
    fn log(&mut self, record: &Span<'_>, draft: &mut Draft<'_>) {
        let name = filled(record.raw.event)
            .or_else(|| record.text(&["event.name"]))
            .unwrap_or_default();
        let ts = Span::micros(record.raw.time.or(record.raw.observed));
        let mark = EventDraft::new(&name, ts).stage("log");
        let step = filled(record.raw.id)
            .and_then(|id| self.in_reply.get(&id))
            .copied();
        if let Some(words) = record.asked_in_events().filter(|_| !draft.has_task()) {
            let note = Some(draft.task(Some(&words)));
            draft.event(EventDraft { note, ..mark });
            return;
        }
        match step {
            Some(n) => self.more(n, part_of(record), &mark, draft),
            None => drop(draft.event(mark)),
        }
    }

    /// Handles a tool's span. It belongs to the step with its call id, otherwise to the nearest
    /// reply.
    fn tool(
        &mut self,
        span: &Span<'_>,
        parent: Option<&str>,
        mark: &EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        let mut part = part_of(span);
        let called = part
            .calls
            .first()
            .and_then(|call| self.by_call.get(&call.id))
            .copied();
        let around = || self.in_reply.get(parent?).copied();
        let beside = || self.by_parent.get(parent.unwrap_or_default()).copied();
        let near = [called, around(), beside(), self.last];
        let joins = |n: &usize| {
            draft
                .step(*n)
                .is_some_and(|known| joined(known, &part, span).is_some())
        };
        let asked = near.into_iter().flatten().find(joins);
        let step = asked.or_else(|| near.into_iter().flatten().next());
        if let Some(joined) = step.and_then(|n| joined(draft.step(n)?, &part, span)) {
            part = joined;
        }
        let note = Span::micros(span.raw.end).map(EventNote::Until);
        draft.event(EventDraft {
            kind: EventKind::Inside,
            stage: "tool",
            step,
            note,
            ..*mark
        });
        if !step.is_some_and(|n| draft.part(n, part.clone())) {
            draft.orphan(&part);
        }
    }

    /// Adds the usage that an agent or the root span records.
    fn agent(&mut self, span: &Span<'_>, parent: Option<&String>) {
        let is_inner = parent.is_some_and(|parent| self.in_agents.contains(parent));
        self.in_agents.extend(filled(span.raw.id));
        self.has_inner_agents |= is_inner;
        let used = span.tokens();
        if is_inner || used == Tokens::default() {
            return;
        }
        let (before, cost) = self.of_agents.unwrap_or_default();
        let plus = |before: Option<u64>, more: Option<u64>| {
            before.into_iter().chain(more).reduce(u64::saturating_add)
        };
        let sum = Tokens {
            input: plus(before.input, used.input),
            cached: plus(before.cached, used.cached),
            output: plus(before.output, used.output),
            reasoning: plus(before.reasoning, used.reasoning),
            written: plus(before.written, used.written),
            written_1h: plus(before.written_1h, used.written_1h),
        };
        self.of_agents = Some((
            sum,
            cost.into_iter()
                .chain(span.cost())
                .reduce(|cost, more| cost + more),
        ));
    }

    /// Returns the tokens that the outermost agents record. Whether they include those of inner
    /// agents is undefined.
    fn of_run(&self) -> Option<u64> {
        let (used, _) = self.of_agents.filter(|_| !self.has_inner_agents)?;
        Some(used.input?.saturating_add(used.output?))
    }
}

/// Returns the part of a tool's span that doesn't name its call, as the result of the step's first
/// unanswered call of the same tool. Returns `None` if the span names its call, or if the step has
/// no such call.
fn joined(known: &Part, part: &Part, span: &Span<'_>) -> Option<Part> {
    let own = part.calls.first().filter(|_| span.call_id().is_none())?;
    let is_open = |call: &&CallDraft| {
        let answered = known.answers.iter().any(|answer| answer.call == call.id);
        call.name == own.name && !call.id.is_empty() && !answered
    };
    let is_same = |call: &&CallDraft| {
        call.args.is_empty() || own.args.is_empty() || same_args(&call.args, &own.args)
    };
    let call = known.calls.iter().filter(is_open).find(is_same)?;
    let answers = part.answers.iter().map(|answer| Answer {
        call: call.id.clone(),
        ..answer.clone()
    });
    Some(Part {
        calls: Vec::new(),
        answers: answers.collect(),
        ..part.clone()
    })
}

/// Returns whether two argument texts are equal as JSON.
fn same_args(one: &str, other: &str) -> bool {
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    one == other
        || value(one)
            .zip(value(other))
            .is_some_and(|(one, other)| one == other)
}

/// Returns what a second record of a reply adds to the first.
fn beyond(known: &Part, more: Part) -> Part {
    fn new<T>(is_known: bool, more: T, none: T) -> T {
        if is_known { none } else { more }
    }
    Part {
        agent: more.agent.filter(|_| known.agent.is_none()),
        model: more.model.filter(|_| known.model.is_none()),
        finish: more.finish.filter(|_| known.finish.is_none()),
        thought: new(!known.thought.is_empty(), more.thought, Vec::new()),
        text: new(!known.text.is_empty(), more.text, Vec::new()),
        calls: new(!known.calls.is_empty(), more.calls, Vec::new()),
        scores: new(!known.scores.is_empty(), more.scores, Vec::new()),
        tokens: more.tokens.filter(|_| known.tokens.is_none()),
        tokens_estimated: more.tokens_estimated,
        cost: more.cost.filter(|_| known.cost.is_none()),
        // A failed attempt within a request that succeeded isn't an error of the step.
        error: more
            .error
            .filter(|_| known.error.is_none() && known.tokens.is_none() && known.finish.is_none()),
        ..Part::default()
    }
}

/// Builds the line of a step from the spans of its reply and its tools, and from log records.
fn assembled(n: usize, records: &[String]) -> String {
    let (mut step, mut has_reply) = (Part::default(), false);
    for record in records {
        let span = Span::of(record);
        let (part, is_reply) = (part_of(&span), span.is_log() || span.sort() == Sort::Reply);
        let part = if is_reply && has_reply {
            beyond(&step, part)
        } else {
            part
        };
        let part = joined(&step, &part, &span).unwrap_or(part);
        step.add(part);
        has_reply |= is_reply;
    }
    step.line(n)
}

fn seconds_between(start: Option<i64>, end: Option<i64>) -> Option<f64> {
    end?.checked_sub(start?)
        .filter(|micros| *micros >= 0)
        .map(|micros| micros as f64 / 1e6)
}

/// Returns the user's request, if the span records it.
fn asked(span: &Span<'_>) -> Option<String> {
    let messages = span.json(&[
        "gen_ai.input.messages",
        "pydantic_ai.all_messages",
        "langfuse.observation.input",
    ]);
    let asked = messages.as_deref().and_then(|messages| {
        let mut users = walk::items(messages)
            .map(Message::of)
            .filter(|message| message.role == Some("\"user\""));
        users.find_map(|message| Some(said(&message).0).filter(|said| !said.is_empty()))
    });
    let numbered = || {
        // Older conventions have separate attributes for each message.
        let (prompts, messages) = ("gen_ai.prompt", "llm.input_messages");
        let content = |(at, list): (usize, &str)| {
            let of = |key: &str| {
                let inner = if list == messages { "message." } else { "" };
                span.text(&[&format!("{list}.{at}.{inner}{key}")])
            };
            of("content").filter(|_| of("role").as_deref() == Some("user"))
        };
        (0..64)
            .flat_map(|at| [(at, prompts), (at, messages)])
            .find_map(content)
    };
    let whole = || {
        span.text(&[
            "input.value",
            "traceloop.entity.input",
            "langfuse.observation.input",
        ])
    };
    asked.or_else(numbered).or_else(whole)
}

/// Returns the part of a step that a span contains.
fn part_of(span: &Span<'_>) -> Part {
    let mut part = Part::default();
    if span.is_log() {
        span.said_in_events(&mut part);
        return part;
    }
    match span.sort() {
        Sort::Reply => reply(span, &mut part),
        Sort::Tool => tool(span, &mut part),
        Sort::Agent | Sort::Other => {}
    }
    part
}

fn reply(span: &Span<'_>, part: &mut Part) {
    part.agent = span.text(&["gen_ai.agent.name"]);
    part.model = span.text(&[
        "gen_ai.response.model",
        "gen_ai.request.model",
        "llm.model_name",
        "langfuse.observation.model.name",
    ]);
    let messages = span.json(&["gen_ai.output.messages"]);
    for message in messages
        .as_deref()
        .into_iter()
        .flat_map(walk::items)
        .map(Message::of)
    {
        let (words, thought, calls) = said(&message);
        part.text
            .extend(Some(words).filter(|words| !words.is_empty()));
        part.thought.extend(thought);
        part.calls.extend(calls);
        part.finish = text(message.finish_reason).or(part.finish.take());
    }
    if messages.is_none() {
        older(span, part);
    }
    if part.text.is_empty() && part.calls.is_empty() {
        span.said_in_events(part);
    }
    // A result can only name a call that has an id.
    for (at, call) in part
        .calls
        .iter_mut()
        .enumerate()
        .filter(|(_, call)| call.id.is_empty())
    {
        call.id = at.to_string();
    }
    if messages.is_none() {
        // Recording the messages is optional.
        part.is_text_unknown =
            part.text.is_empty() && part.calls.is_empty() && span.fault().is_none();
    }
    let reasons = span.json(&["gen_ai.response.finish_reasons"]);
    part.finish = part.finish.take().or_else(|| {
        let reasons = reasons.as_deref()?;
        walk::items(reasons)
            .next()
            .and_then(|reason| text(Some(reason)))
            .or_else(|| text(Some(reasons)))
    });
    part.tokens = Some(span.tokens()).filter(|tokens| *tokens != Tokens::default());
    part.tokens_estimated = span.text(&["board.tokens_estimated"]).as_deref() == Some("true");
    part.scores = span.scores().map(Judged::of_step).collect();
    part.cost = span.cost();
    if let Some((kind, words)) = span.fault() {
        part.error = Some(shown(&kind, words));
    }
}

/// Reads a reply from separate attributes for each part, such as `gen_ai.completion.0.content`.
fn older(span: &Span<'_>, part: &mut Part) {
    for (message, name, args) in [
        ("gen_ai.completion.0", "name", "arguments"),
        (
            "llm.output_messages.0.message",
            "tool_call.function.name",
            "tool_call.function.arguments",
        ),
    ] {
        part.text
            .extend(span.text(&[&format!("{message}.content")]));
        part.finish = part
            .finish
            .take()
            .or_else(|| span.text(&[&format!("{message}.finish_reason")]));
        for at in 0..64 {
            let calls = format!("{message}.tool_calls.{at}.");
            let Some(tool) = span.text(&[&format!("{calls}{name}")]) else {
                break;
            };
            let id = span
                .text(&[&format!("{calls}id"), &format!("{calls}tool_call.id")])
                .unwrap_or_default();
            let args = span.json(&[&format!("{calls}{args}")]).unwrap_or_default();
            part.calls.push(CallDraft {
                id,
                name: tool,
                args,
            });
        }
    }
    if part.text.is_empty() && part.calls.is_empty() {
        part.text.extend(span.text(&["output.value"]));
    }
    if let Some(reply) = span
        .json(&["langfuse.observation.output"])
        .filter(|_| part.text.is_empty())
    {
        let (words, thought, calls) = match reply.starts_with('{') {
            true => said(&Message::of(&reply)),
            false => (
                filled(Some(&reply)).unwrap_or_default(),
                Vec::new(),
                Vec::new(),
            ),
        };
        part.text
            .extend(Some(words).filter(|words| !words.is_empty()));
        part.thought.extend(thought);
        if part.calls.is_empty() {
            part.calls.extend(calls);
        }
    }
}

fn tool(span: &Span<'_>, part: &mut Part) {
    let name = span.text(&["gen_ai.tool.name", "tool.name", "traceloop.entity.name"]);
    let name = name.or_else(|| text(span.raw.name)).unwrap_or_default();
    // Without a call id, the call has the span's id until it joins a call of a reply.
    let id = span.call_id().or_else(|| text(span.raw.id));
    let is_called = span.text(&["board.without_call"]).is_none();
    let id = id.filter(|_| is_called).unwrap_or_default();
    let args = span.json(&[
        "gen_ai.tool.call.arguments",
        "tool.parameters",
        "input.value",
        "traceloop.entity.input",
        "langfuse.observation.input",
    ]);
    if is_called {
        part.calls.push(CallDraft {
            id: id.clone(),
            name,
            args: args.unwrap_or_default(),
        });
    }
    let output = span.json(&[
        "gen_ai.tool.call.result",
        "output.value",
        "traceloop.entity.output",
        "langfuse.observation.output",
    ]);
    let output = output.or_else(|| span.gave_in_events());
    let fault = span.fault();
    let exit = span
        .text(&["board.exit_code", "process.exit.code"])
        .and_then(|code| code.parse().ok());
    // An exit code alone isn't an exception.
    let fault = fault.filter(|(_, words)| exit.is_none() || !words.is_empty());
    let took = nanos(span.raw.start)
        .zip(nanos(span.raw.end))
        .and_then(|(start, end)| end.checked_sub(start));
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

/// Formats an exception on one line.
fn shown(kind: &str, words: String) -> String {
    match (kind, &*words) {
        ("", "") => NO_WORDS.to_owned(),
        (kind, "") => kind.to_owned(),
        ("", _) => words,
        _ if words.starts_with(kind) => words,
        _ => format!("{kind}: {words}"),
    }
}
