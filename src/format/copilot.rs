//! Reads sessions of GitHub Copilot CLI: one JSON object per line, appended to
//! `session-state/SESSION/events.jsonl`. The output of `copilot --output-format json` has the same
//! records, and others that the program doesn't keep.
//!
//! A reply has a record of its tokens and, if it is complete, one of its message. The program drops
//! the message of a reply that reached the output limit. Records of sub-agents have an `agentId`, and
//! are between those of the main agent. When the program exits, it records that, but not why the
//! last turn ended: the records before show it. This reader is based on version 1.0.102.

use std::collections::HashMap;

use super::ends::{End, ends};
use super::part::{self, is_at_limit, is_refusal, quoted, text};
use super::permissions::Permissions;
use super::recent::{Recent, RecentSet};
use super::turns::Turns;
use super::value::{
    above_zero, aside, below, contains, count, cut, filled, hunks, int, is_text, member, micros,
    objects, short,
};
use super::{Answer, CallDraft, Draft, EventDraft, Part, Reader, Shape, Source, Tokens, Tool};
use crate::model::json::walk;
use crate::model::step::NO_WORDS;
use crate::model::{
    CAPTURED, Can, Capabilities, Certainty, Compaction, Ended, EventKind, Format, Manifest,
    Outcome, Total,
};

/// A session file.
pub(super) static SESSION: Tool = Tool {
    format: Format {
        name: "Copilot CLI session",
        can: Capabilities {
            state: Can::Partly,
            times: Can::Yes,
            tokens: Can::Yes,
            cost: Can::Partly,
            ..Capabilities::NONE
        },
        file: "session file",
        is_session: true,
        resume: "copilot --resume",
        is_in_order: true,
        assemble: Some(assembled),
        ..Format::UNKNOWN
    },
    shape: Shape::Lines,
    is: |name, head| name.ends_with(".jsonl") && is_session(head),
    reader: || Box::new(Session::default()),
};

/// The output of the program.
pub(super) static STREAM: Tool = Tool {
    format: Format {
        name: "Copilot CLI stream",
        can: Capabilities {
            state: Can::Partly,
            times: Can::Yes,
            ..Capabilities::NONE
        },
        file: CAPTURED,
        assemble: Some(assembled),
        is_of_coding_agent: true,
        ..Format::UNKNOWN
    },
    shape: Shape::Lines,
    is: |name, head| name.ends_with(".jsonl") && !is_session(head) && is_stream(head),
    reader: || {
        Box::new(Session {
            is_stream: true,
            ..Session::default()
        })
    },
};

/// The classes of errors that ended a turn.
const ENDS: &[End] = ends! {
    "*quota*" | "*billing*" => Failed, "Provider usage limit reached";
    "*context*" => Failed, Ended::CONTEXT_FULL;
    "query" | "auth*" | "*rate_limit*" | "model*" => Failed, "API error";
};

/// The kinds of records that start a sub-agent, and that start a call.
const STARTED: Option<&str> = Some("\"subagent.started\"");
const CALLED: Option<&str> = Some("\"tool.execution_start\"");

/// The ids of the first prompts after this many starts are kept, of the oldest and the newest.
const MAX_STARTS: usize = 32;

/// The tools that only ask the user.
const QUESTIONS: &[&str] = &["ask_user"];

fields! {
    struct Line { kind = "type", data, agent = "agentId", id, parent = "parentId", timestamp, session = "sessionId", exit = "exitCode" }
    struct Data {
        session = "sessionId", version = "copilotVersion", context, model, selected = "selectedModel",
        new = "newModel", content, reasoning = "reasoningText", requests = "toolRequests",
        request = "apiCallId", usage, call = "toolCallId", success, result, error, shell = "shellExecution",
        edits = "fileEdits", class = "errorType", message, reason, shutdown = "shutdownType", agent = "agentName", shown = "agentDisplayName",
        source, metrics = "modelMetrics", nano = "totalNanoAiu", title, before = "preCompactionTokens", after = "postCompactionTokens",
        turn = "turnId", interaction = "interactionId", effort = "reasoningEffort", asked = "requestId",
        permission = "permissionRequest",
    }
    struct Request { id = "toolCallId", name, arguments }
    struct Usage {
        model, input = "inputTokens", output = "outputTokens", cached = "cacheReadTokens",
        written = "cacheWriteTokens", reasoning = "reasoningTokens", request = "apiCallId", finish = "finishReason",
        what = "interactionType",
    }
    struct Edit { path, kind }
}

impl<'a> Line<'a> {
    fn data(&self) -> Data<'a> {
        self.data.map(Data::of).unwrap_or_default()
    }
}

/// Returns whether a record has the tokens of a request that isn't a reply, such as for a summary.
fn is_aside(data: &Data<'_>) -> bool {
    let usage = data.usage.map(Usage::of).unwrap_or_default();
    filled(usage.what)
        .is_some_and(|what| !matches!(&*what, "conversation-agent" | "conversation-subagent"))
}

fn is_session(head: &[u8]) -> bool {
    let is_start = |line: Line<'_>| {
        matches!(line.kind, Some("\"session.start\"" | "\"session.resume\""))
            && is_text(line.data().session)
    };
    objects(head).next().map(Line::of).is_some_and(is_start)
}

fn is_stream(head: &[u8]) -> bool {
    let starts = ["session.", "user.message", "assistant.", "tool.execution"];
    let is_event = |line: Line<'_>| {
        let kind = line.kind.map(|kind| kind.trim_matches('"'));
        let is_known = kind.is_some_and(|kind| starts.iter().any(|start| kind.starts_with(start)));
        let has_parent = line
            .parent
            .is_some_and(|parent| parent == "null" || is_text(Some(parent)));
        is_known && is_text(line.id) && line.data.is_some() && has_parent
    };
    contains(head, &["\"parentId\""]) && objects(head).map(Line::of).any(is_event)
}

/// A session while it is being read.
#[derive(Debug, Default)]
struct Session {
    is_stream: bool,
    permissions: Permissions,
    /// The newest step of each agent. The name of the main agent is empty.
    newest: Recent<Box<str>, usize>,
    /// When each agent's newest request began; microseconds.
    asked: Recent<Box<str>, i64>,
    /// The step of each request, and whether a record of the step names its agent.
    by_request: Recent<Box<str>, (usize, bool)>,
    by_call: Recent<Box<str>, usize>,
    /// The calls of the program itself.
    own_calls: RecentSet<Box<str>>,
    /// The event that starts each call, and its time in microseconds.
    started: Recent<Box<str>, (usize, Option<i64>)>,
    children: RecentSet<Box<str>>,
    /// The event that names each sub-agent, and the name.
    names: Recent<Box<str>, (usize, String)>,
    /// The newest step of the main agent.
    last: Option<usize>,
    steps: usize,
    turns: u64,
    end: Option<Ended>,
    ends: Turns,
    /// Whether the program started and has no prompt yet.
    is_begun: bool,
    /// Whether the program exited.
    is_closed: bool,
    /// Whether the main agent's newest request, or the newest prompt, has neither tokens nor a
    /// message so far.
    is_open: bool,
    /// Whether the main agent's last request has neither, although it ended.
    is_hollow: bool,
    /// Whether earlier requests have neither, so that their replies aren't in the stream.
    lacks_replies: bool,
    /// The tokens of requests that aren't replies.
    aside: u64,
    /// The number of the event that names the agent's working directory, and that directory.
    project: Option<(usize, String)>,
}

impl Reader for Session {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        let line = Line::of(record.text);
        let data = line.data();
        let ts = draft.time(line.timestamp);
        let kind = text(line.kind).unwrap_or_default();
        let mark = EventDraft::new(&kind, ts);
        let lane = text(line.agent).unwrap_or_default();
        let is_main = lane.is_empty();
        if is_text(line.timestamp) && draft.is_again(record.text) {
            return draft.again(&mark);
        }
        match &*kind {
            "session.start" | "session.resume" => {
                let at = draft.event(mark);
                self.begin(at, &data, draft);
            }
            "user.message"
                if !is_main || filled(data.source).is_some_and(|it| it == "autopilot") =>
            {
                draft.event(mark.stage("note"));
                if is_main {
                    (self.end, self.is_open) = (None, true);
                }
            }
            "user.message" => {
                let (end, answer) = self.settled(draft);
                self.ends.begin(self.steps, end, answer, None);
                (self.end, self.is_open) = (None, true);
                (self.is_closed, self.is_hollow) = (false, false);
                // The stream of a program that was killed doesn't name its session, but it has the
                // same records from a start on.
                let ids = &mut draft.run().shared_ids;
                if std::mem::take(&mut self.is_begun) || ids.is_empty() {
                    if ids.len() >= MAX_STARTS {
                        ids.remove(1);
                    }
                    ids.extend(short(line.id));
                }
                draft.prompt(text(data.content).as_deref(), &mark);
                self.turns += 1;
            }
            "assistant.turn_start" => {
                draft.event(mark);
                self.asked.extend(ts.map(|ts| (Box::from(&*lane), ts)));
                if is_main {
                    (self.end, self.is_open) = (None, true);
                    self.lacks_replies |= std::mem::take(&mut self.is_hollow);
                }
            }
            "assistant.turn_end" => {
                draft.event(mark);
                self.is_hollow |= is_main && std::mem::take(&mut self.is_open);
            }
            "session.usage_record" if is_aside(&data) => {
                draft.event(mark);
                let usage = data.usage.map(Usage::of).unwrap_or_default();
                let sum = tokens(&usage).sum().unwrap_or_default();
                self.aside = self.aside.saturating_add(sum);
            }
            "assistant.message" if is_by_program(&data) => {
                draft.event(mark);
                let calls = data.requests.into_iter().flat_map(walk::items);
                for id in calls.filter_map(|call| filled(Request::of(call).id)) {
                    self.own_calls.insert(id.into());
                }
            }
            "tool.execution_complete"
                if filled(data.call).is_some_and(|id| self.own_calls.contains(&*id)) =>
            {
                draft.event(mark);
            }
            "session.usage_record" | "assistant.message" => {
                self.reply(&line, &lane, mark, record.text, draft);
            }
            "tool.execution_start" => {
                let at = draft.event(mark);
                let started = filled(data.call).map(|id| (id.into(), (at, ts)));
                self.started.extend(started);
            }
            "tool.execution_complete" => self.result(&line, mark, draft),
            "permission.requested" => {
                draft.event(mark);
                let of = |key| data.permission.and_then(|asked| member(asked, key));
                let call = text(of("toolCallId")).unwrap_or_default();
                let step = self.by_call.get(&*call);
                let tool = step.and_then(|n| draft.tool_of(*n, &call));
                self.permissions
                    .ask(short(data.asked), tool.unwrap_or("a tool"));
            }
            "permission.completed" => {
                draft.event(mark);
                self.permissions.answer(short(data.asked).as_deref());
            }
            "subagent.started" => {
                let at = draft.event(mark);
                self.names
                    .extend(name_of(&data).map(|name| (Box::from(&*lane), (at, name))));
                self.children.insert(lane.into());
            }
            "abort" if is_main => {
                let at = draft.event(mark);
                let reason = text(data.reason).unwrap_or_default();
                let headline = match &*reason {
                    "user_initiated" | "user_abort" => "Interrupted by the user",
                    _ => "Interrupted",
                };
                let end = Ended::new(&reason, headline, Outcome::Cancelled, Certainty::Recorded);
                (self.end, self.is_hollow, self.is_open) = (Some(end.at_event(at)), false, false);
                self.permissions.clear();
            }
            "session.error" => {
                let at = draft.event(mark.failed(true));
                if is_main {
                    let class = text(data.class).unwrap_or_else(|| "error".to_owned());
                    let end = End::of(ENDS, &class).unwrap_or_else(|| End::error(&class));
                    let end = end.detail(short(data.message).unwrap_or_default());
                    (self.end, self.is_hollow) = (Some(end.at_event(at)), false);
                }
            }
            "session.shutdown" => {
                let at = draft.event(mark);
                self.shut_down(at, &data, draft);
            }
            "result" if self.is_stream => {
                let at = draft.event(mark.failed(int(line.exit).is_some_and(|exit| exit != 0)));
                draft.run().run_id = short(line.session);
                self.exited(at, int(line.exit), draft);
            }
            "session.compaction_complete" => {
                let event = draft.event(mark);
                if is_main && data.success != Some("false") {
                    draft.compacted(Compaction {
                        event,
                        tokens: count(data.before),
                        tokens_after: count(data.after),
                        trigger: Box::default(),
                    });
                }
            }
            _ => {
                draft.event(mark);
                let run = draft.run();
                match &*kind {
                    "session.model_change" if is_main => {
                        run.model = short(data.new).or(run.model.take());
                    }
                    "session.title_changed" => run.titles = short(data.title).into_iter().collect(),
                    _ => {}
                }
            }
        }
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        let (ended, answer) = self.settled(draft);
        let open = self.last.filter(|_| ended.is_none());
        let permission = || {
            draft.waits_for(open?)?;
            self.permissions.pending()
        };
        let asks = open
            .and_then(|n| draft.asks(n, QUESTIONS))
            .or_else(permission);
        let at = draft.latest().filter(|_| ended.is_some());
        let run = draft.run();
        run.awaits_user = !self.is_closed && (asks.is_some() || ended.is_some());
        run.asks_user = asks;
        run.updated_at = at;
        run.ended = ended.map(Box::new);
        run.final_result = answer;
        run.turns = Some(self.turns);
        run.children = Some(self.children.len() as u64);
        run.replies_unknown = self.lacks_replies;
        run.notes = aside("requests", self.aside).into_iter().collect();
    }
}

impl Session {
    /// Takes the facts about the run from a record that begins or resumes the session.
    fn begin(&mut self, at: usize, data: &Data<'_>, draft: &mut Draft<'_>) {
        let cwd = data.context.and_then(|context| member(context, "cwd"));
        self.project = text(cwd).map(|cwd| (at, cwd)).or(self.project.take());
        (self.is_begun, self.is_closed) = (true, false);
        self.permissions.clear();
        let run = draft.run();
        run.run_id = run.run_id.take().or_else(|| short(data.session));
        run.project = run.project.take().or_else(|| short(cwd));
        run.model = short(data.selected).or(run.model.take());
        Manifest::add_name(&mut run.efforts, short(data.effort));
        let version = text(data.version);
        run.tool = version
            .map(|version| cut(&format!("Copilot CLI {version}")))
            .or(run.tool.take());
    }

    /// Handles the tokens or the message of a reply. They share the id of the request.
    fn reply(
        &mut self,
        line: &Line<'_>,
        lane: &str,
        mark: EventDraft<'_>,
        record: &str,
        draft: &mut Draft<'_>,
    ) {
        let data = line.data();
        let request = data
            .request
            .or_else(|| data.usage.and_then(|usage| member(usage, "apiCallId")));
        let request = filled(request);
        let found = request
            .as_ref()
            .and_then(|id| self.by_request.get(&**id).copied());
        let known = found.map(|(n, _)| n);
        let was_named = found.is_some_and(|(_, was_named)| was_named);
        let asked = self.asked.get(lane).copied().or(draft.latest());
        let kind = EventKind::Decided;
        let n = draft.reply(known, asked, EventDraft { kind, ..mark });
        if known.is_none() {
            self.steps = n + 1;
            if let Some(last) = self.newest.insert(lane.into(), n) {
                draft.close(last);
            }
        }
        let name = self.names.get(lane);
        let is_named = was_named || name.is_some();
        self.by_request
            .extend(request.map(|request| (request.into(), (n, is_named))));
        let part = reply_of(record, is_named);
        for call in &part.calls {
            self.by_call.insert((*call.id).into(), n);
        }
        if lane.is_empty() {
            let run = draft.run();
            run.model = part.model.as_deref().map(cut).or(run.model.take());
            (self.last, self.end, self.is_open) = (Some(n), None, false);
        }
        draft.part(n, part);
        if let Some((at, name)) = name.filter(|_| !was_named) {
            let agent = Some(name.clone());
            draft.add(
                n,
                *at,
                Part {
                    agent,
                    ..Part::default()
                },
            );
        }
    }

    fn result(&mut self, line: &Line<'_>, mark: EventDraft<'_>, draft: &mut Draft<'_>) {
        let data = line.data();
        let id = text(data.call).unwrap_or_default();
        let n = self.by_call.remove(&*id);
        let project = self.project.as_ref();
        let start = self.started.remove(&*id);
        let ms = took(start.and_then(|(_, ts)| ts), mark.ts);
        let part = result_of(&data, project.map(|(_, project)| &**project), ms);
        let start = start.map(|(at, _)| at).filter(|_| ms.is_some());
        let header = project
            .map(|(at, _)| *at)
            .filter(|_| !part.changes.is_empty());
        draft.results(n.as_slice(), mark, part);
        for event in start.into_iter().chain(header) {
            n.into_iter().for_each(|n| draft.refer(n, event));
        }
    }

    /// Handles the record of the program's exit, with its totals.
    fn shut_down(&mut self, at: usize, data: &Data<'_>, draft: &mut Draft<'_>) {
        self.is_closed = true;
        let word = text(data.shutdown).unwrap_or_default();
        if word == "error" {
            self.end = Some(End::error(&word).at_event(at));
        } else if self.end.is_none() {
            let end = match self.inferred(draft) {
                // The program exited after an answer.
                Some(end) if end.outcome == Outcome::Completed => {
                    Ended::new(&end.word, "Answered", end.outcome, Certainty::Recorded)
                }
                Some(end) => end,
                None => Ended::new(
                    &word,
                    "Session closed",
                    Outcome::Unknown,
                    Certainty::Recorded,
                ),
            };
            self.end = Some(end.at_event(at));
        }
        let models = data.metrics.into_iter().flat_map(walk::members);
        let tokens = models
            .filter_map(|(_, model)| tokens(&Usage::of(member(model, "usage")?)).sum())
            .reduce(u64::saturating_add);
        // More steps follow if the session is resumed.
        draft.totals();
        let run = draft.run();
        run.total = tokens.map(|tokens| Total {
            tokens,
            record: "session.shutdown",
            aside: if self.aside > 0 {
                "it includes requests that aren't replies".into()
            } else {
                Box::default()
            },
            counts_children: true,
            ..Total::default()
        });
        // A hundred billionth of a US dollar.
        run.cost_usd = above_zero(data.nano).map(|nano| nano / 1e11);
        run.cost_with_children = run.cost_usd.is_some();
    }

    /// Handles the last line of the output.
    fn exited(&mut self, at: usize, exit: Option<i64>, draft: &mut Draft<'_>) {
        self.is_closed = true;
        if self.end.is_some() {
            return;
        }
        let of = |headline, outcome| Ended::new("result", headline, outcome, Certainty::Recorded);
        let end = match exit {
            // A reply that isn't in the output reached the output limit, and the last one may have
            // too.
            Some(0) if self.lacks_replies || self.is_hollow => of("Turn ended", Outcome::Unknown),
            // Without a finish reason, a filter may have ended the reply.
            Some(0) if self.inferred(draft).is_some() => Ended::answered(Ended::NO_CALLS),
            Some(0) | None => of("Turn ended", Outcome::Unknown),
            Some(exit) => {
                of("Failed with an error", Outcome::Failed).detail(format!("exit code {exit}"))
            }
        };
        self.end = Some(end.at_event(at));
    }

    /// Returns the end that the main agent's last reply shows, or `None` if the run continues.
    fn inferred(&self, draft: &Draft<'_>) -> Option<Ended> {
        // A later request has no reply so far.
        if self.is_open || self.is_hollow {
            return None;
        }
        let reply = draft.step(self.last?)?;
        let finish = reply.finish.as_deref();
        match finish {
            _ if !reply.calls.is_empty() => None,
            Some(finish) if is_at_limit(finish) => Some(Ended::new(
                finish,
                Ended::CUT_REPLY,
                Outcome::Truncated,
                Certainty::Recorded,
            )),
            Some(finish) if is_refusal(finish) => Some(Ended::refused(finish)),
            _ if reply.text.is_empty() => None,
            finish => Some(Ended::answered(finish.unwrap_or(Ended::NO_CALLS))),
        }
    }

    /// Returns the end and the answer. A turn without steps keeps those of the previous turn.
    fn settled(&self, draft: &Draft<'_>) -> (Option<Ended>, Option<Box<str>>) {
        let end = self.end.clone().or_else(|| self.inferred(draft));
        self.ends.settle_said(end, self.last, draft)
    }
}

/// Returns the line of step `n`.
fn assembled(n: usize, records: &[String]) -> String {
    let project = records.iter().find_map(|record| {
        let line = Line::of(record);
        let context = line.data().context?;
        text(member(context, "cwd"))
    });
    let is_named = records
        .iter()
        .any(|record| Line::of(record).kind == STARTED);
    let lines = records.iter().map(|record| Line::of(record));
    let started = lines.filter(|line| line.kind == CALLED);
    let started =
        started.filter_map(|line| Some((text(line.data().call)?, micros(line.timestamp))));
    let started: HashMap<String, Option<i64>> = started.collect();
    part::line(
        n,
        records.iter().map(|record| {
            let line = Line::of(record);
            match line.kind {
                Some("\"tool.execution_complete\"") => {
                    let data = line.data();
                    let id = text(data.call).unwrap_or_default();
                    let start = started.get(&id).copied().flatten();
                    let ms = took(start, micros(line.timestamp));
                    result_of(&data, project.as_deref(), ms)
                }
                CALLED => Part::default(),
                STARTED => Part {
                    agent: name_of(&line.data()),
                    ..Part::default()
                },
                _ => reply_of(record, is_named),
            }
        }),
    )
}

/// Returns the name of the sub-agent that a record starts.
fn name_of(data: &Data<'_>) -> Option<String> {
    let name = filled(data.shown).or_else(|| filled(data.agent))?;
    Some(cut(&name).into())
}

/// Returns the part of a step that the record of a reply contains. `is_named` is whether another
/// record of the step names its agent.
fn reply_of(record: &str, is_named: bool) -> Part {
    let line = Line::of(record);
    let data = line.data();
    let usage = data.usage.map(Usage::of);
    let request = |request: Request<'_>| CallDraft {
        id: text(request.id).unwrap_or_default(),
        name: text(request.name).unwrap_or_default(),
        args: request.arguments.unwrap_or("{}").to_owned(),
    };
    let calls = data.requests.into_iter().flat_map(walk::items);
    Part {
        agent: text(line.agent).filter(|_| !is_named),
        is_nested: is_text(line.agent),
        model: usage.map_or_else(|| text(data.model), |usage| text(usage.model)),
        finish: usage.and_then(|usage| filled(usage.finish)),
        tokens: usage.map(|usage| tokens(&usage)),
        thought: filled(data.reasoning).into_iter().collect(),
        text: filled(data.content).into_iter().collect(),
        calls: calls.map(Request::of).map(request).collect(),
        ..Part::default()
    }
}

/// Returns the time between the start and the end of a call in milliseconds.
fn took(start: Option<i64>, end: Option<i64>) -> Option<f64> {
    let micros = end?.checked_sub(start?)?;
    (micros >= 0).then(|| micros as f64 / 1e3)
}

/// Returns whether the program wrote a message for the model: it reads the output of a command that
/// ended in the background.
fn is_by_program(data: &Data<'_>) -> bool {
    data.model.is_none()
        && data.request.is_none()
        && data.turn.is_none()
        && data.interaction.is_none()
        && data.requests.is_some()
}

/// Returns the part of a step that the record of a result contains. `ms` is how long the call took.
fn result_of(data: &Data<'_>, project: Option<&str>, ms: Option<f64>) -> Part {
    let exit = data.shell.and_then(|shell| int(member(shell, "exitCode")));
    let of_result = |key: &str| filled(data.result.and_then(|result| member(result, key)));
    let said = of_result("content");
    let message = data
        .error
        .and_then(|error| filled(member(error, "message")));
    // The flag is true for each command that could be started.
    let failed = data.success == Some("false") || exit.is_some_and(|exit| exit != 0);
    let code = data.error.and_then(|error| text(member(error, "code")));
    let status = match data.success {
        // The user didn't allow the call, or the program was killed during it. One that a rule denies, or that
        // nobody can allow, has failed.
        _ if matches!(code.as_deref(), Some("rejected" | "interrupted")) => Some("cancelled"),
        _ if failed => Some("error"),
        Some("true") => Some("success"),
        _ => None,
    };
    let bad = matches!(status, Some("error" | "cancelled"));
    let mut part = Part::default();
    if status == Some("success") {
        let diff = of_result("detailedContent");
        let edits: Vec<Edit<'_>> = data
            .edits
            .into_iter()
            .flat_map(walk::items)
            .map(Edit::of)
            .collect();
        // The diff covers all files of the call.
        let diff = diff
            .filter(|_| edits.len() == 1)
            .and_then(|diff| hunks(&diff));
        for edit in edits {
            let Some(path) = filled(edit.path) else {
                continue;
            };
            let after = (edit.kind == Some("\"delete\"")).then(|| "null".to_owned());
            part.diffs
                .extend(diff.clone().map(|diff| (part.changes.len(), diff)));
            let key = format!("files.{}", below(&path, project));
            part.changes.push((key, None, after));
        }
    }
    part.answers.push(Answer {
        call: text(data.call).unwrap_or_default(),
        status,
        error: bad.then(|| {
            message
                .or_else(|| said.clone())
                .unwrap_or_else(|| NO_WORDS.to_owned())
        }),
        output: said
            .filter(|_| !bad)
            .map_or_else(|| "null".to_owned(), |said| quoted(&said)),
        exit,
        ms,
    });
    part
}

/// Converts the tokens of a request. Copilot includes cached tokens in the input.
fn tokens(usage: &Usage<'_>) -> Tokens {
    Tokens {
        input: count(usage.input),
        cached: count(usage.cached),
        output: count(usage.output),
        reasoning: count(usage.reasoning),
        written: count(usage.written),
        written_1h: None,
    }
}
