//! Reads sessions of Kimi Code: one JSON object per line, appended to
//! `sessions/WORKSPACE/SESSION/agents/AGENT/wire.jsonl`. Sub-agents have separate files.
//!
//! A step of the program is one request to the model: its parts, calls and tokens come one by one, and
//! a record ends it. A failed request is a step without any of them. At the end of a turn, the
//! program records all messages of the turn again, which adds nothing. The end of a turn is recorded,
//! but a reply that reached the output limit completes it too. This reader is based on version 2.1.
//!
//! A session that was imported from Kimi CLI has messages without times instead of steps, and each
//! turn is completed.

use std::ffi::OsStr;
use std::path::Path;

use super::added::own_words;
use super::conversation::Conversation;
use super::ends::{End, ends};
use super::part::{self, is_at_limit, is_refusal, quoted, text};
use super::permissions::Permissions;
use super::recent::{Recent, RecentSet};
use super::turns::Turns;
use super::value::{
    aside, below, count, cut, filled, function_call, int, is_text, listed, member, millis, number,
    objects, short, silent, spoken,
};
use super::{Answer, CallDraft, Draft, EventDraft, Part, Reader, Shape, Source, Tokens, Tool};
use crate::model::step::NO_WORDS;
use crate::model::{Can, Capabilities, Certainty, Compaction, Ended, Format, Outcome};

/// A session file.
pub(super) static SESSION: Tool = Tool {
    format: Format {
        name: "Kimi Code session",
        can: Capabilities {
            state: Can::Partly,
            times: Can::Yes,
            tokens: Can::Yes,
            ..Capabilities::NONE
        },
        file: "session file",
        is_session: true,
        adds_to_prompts: false,
        assemble: Some(assembled),
        ..Format::UNKNOWN
    },
    shape: Shape::Lines,
    is: |name, head| {
        let is_header = |line: Line<'_>| {
            line.kind == Some("\"metadata\"")
                && is_text(line.protocol)
                && int(line.created).is_some()
        };
        name.ends_with(".jsonl") && objects(head).next().map(Line::of).is_some_and(is_header)
    },
    reader: || Box::new(Session::default()),
};

/// The errors that end a turn.
const ENDS: &[End] = ends! {
    "loop.max_steps_exceeded" => Truncated, "Step limit reached";
    "*context*" => Failed, Ended::CONTEXT_FULL;
    "*quota*" => Failed, "Provider usage limit reached";
    "provider.filtered" => Failed, Ended::REFUSED;
    "provider.*" => Failed, "API error";
};

/// The tools that only ask the user.
const QUESTIONS: &[&str] = &["AskUserQuestion"];

/// How the result of a call ends that the program or its user stopped. The output so far comes before.
const CANCELLED: [&str; 3] = [
    "Session closed",
    "Interrupted by user",
    "Aborted by the user",
];
/// How it begins for a tool without output.
const INTERRUPTED: &str = "The user manually interrupted ";
/// What the result of a call contains that the user didn't allow.
const REJECTED: [&str; 2] = [
    " was not run because the user rejected the approval request.",
    " was not run because the approval request was cancelled.",
];

/// What an imported session lacks.
const IMPORTED: &str = "The session was imported from Kimi CLI: its times are those of the import, and neither tokens nor \
                        the ends of turns are known.";

/// How the last line of a shell command's output names the exit code.
const EXIT: &str = "Command failed with exit code: ";

fields! {
    struct Line {
        kind = "type", protocol = "protocol_version", created = "created_at", time, event, message, model, usage,
        scope = "usageScope", reason, error, info, tail = "outputTail", child = "subagentId", parent = "parentAgentId", disclosure = "environmentDisclosure",
        before = "tokensBefore", after = "tokensAfter", what = "kind", id, request,
    }
    struct Event {
        kind = "type", uuid, step = "stepUuid", part, call = "toolCallId", name, args, result, finish = "finishReason",
        usage,
    }
    struct Message { role, content, origin, calls = "toolCalls", call = "toolCallId" }
    struct Call { id, function }
    struct Piece { kind = "type", text, think }
    struct Result { output, failed = "isError", ms = "durationMs" }
    struct Usage { other = "inputOther", output, cached = "inputCacheRead", written = "inputCacheCreation" }
    struct Fault { code, message }
    struct Task {
        id = "taskId", call = "parentToolCallId", status, exit = "exitCode", reason = "stopReason",
    }
}

/// A session while it is being read.
#[derive(Debug, Default)]
struct Session {
    conversation: Conversation,
    /// The program's newest step.
    step: Option<Begun>,
    children: RecentSet<Box<str>>,
    /// The finish reason of the newest step that ended.
    finish: Option<String>,
    /// Whether the user cancelled the turn.
    is_cancelled: bool,
    /// Whether the session was imported from Kimi CLI.
    is_imported: bool,
    /// Their calls aren't recorded yet.
    permissions: Permissions,
    end: Option<Ended>,
    ends: Turns,
    /// The number of the event that names the agent's working directory, and that directory.
    project: Option<(usize, String)>,
    /// The tokens of requests that belong to no step.
    aside: u64,
    /// The steps whose calls started tasks in the background, by task.
    tasks: Recent<Box<str>, usize>,
}

/// A step that began: its id, when, the event of its request with the model, and its number once a
/// part of the reply or its tokens are recorded.
#[derive(Debug)]
struct Begun {
    id: Box<str>,
    at: Option<i64>,
    request: Option<(usize, Option<String>)>,
    n: Option<usize>,
}

impl Reader for Session {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        let line = Line::of(record.text);
        let event = line.event.map(Event::of).unwrap_or_default();
        let ts = millis(line.time);
        let (kind, stage) = (
            text(line.kind).unwrap_or_default(),
            text(event.kind).unwrap_or_default(),
        );
        let mark = EventDraft::new(&kind, ts).stage(&stage);
        let is_header = kind == "metadata";
        if (ts.is_some() || is_header) && draft.is_again(record.text) {
            return draft.again(&mark);
        }
        if draft.run().run_id.is_none() {
            about(record.file, draft);
        }
        match (&*kind, &*stage) {
            ("context.append_loop_event", "step.begin") => {
                draft.event(mark);
                self.end = None;
                self.step = Some(Begun {
                    id: text(event.uuid).unwrap_or_default().into(),
                    at: ts,
                    request: None,
                    n: None,
                });
            }
            ("context.append_loop_event", "content.part" | "tool.call") => {
                self.reply(event.step, record.text, mark, draft);
            }
            ("context.append_loop_event", "step.end") => {
                self.finish = text(event.finish);
                if event.usage.is_some() || self.is_known(event.uuid) {
                    self.reply(event.uuid, record.text, mark, draft);
                    // Later tokens are those of another request.
                    self.step.take_if(|_| event.usage.is_some());
                } else {
                    let failed = event.finish == Some("\"error\"");
                    draft.event(mark.failed(failed));
                }
            }
            ("context.append_loop_event", "tool.result") => {
                self.result(&event, record.text, mark, draft);
            }
            ("usage.record", _) if self.step.is_some() && line.scope != Some("\"session\"") => {
                self.reply(None, record.text, mark, draft);
            }
            ("usage.record", _) => {
                draft.event(mark);
                let usage = line.usage.and_then(tokens).unwrap_or_default();
                self.aside = self.aside.saturating_add(usage.sum().unwrap_or_default());
            }
            ("llm.request", _) => {
                let at = draft.event(mark);
                draft.run().model = short(line.model).or(draft.run().model.take());
                if let Some(step) = self.step.as_mut().filter(|step| step.n.is_none()) {
                    step.request = Some((at, text(line.model)));
                }
            }
            ("context.append_message", _) if ts.is_none() && is_imported(&line) => {
                self.is_imported = true;
                self.imported(record.text, mark, draft);
            }
            ("context.append_message", _) => self.message(&line, mark, draft),
            ("turn.cancel", _) => {
                draft.event(mark);
                self.is_cancelled = text(line.reason).is_some_and(|why| why.starts_with("user"));
            }
            ("turn.ended", _) => self.ended(&line, mark, draft),
            ("task.started", _) => {
                draft.event(mark);
                let task = line.info.map(Task::of).unwrap_or_default();
                let call = text(task.call).unwrap_or_default();
                if let Some((id, n)) = filled(task.id).zip(self.conversation.step_with(&call)) {
                    draft.begin_task(n);
                    self.tasks.insert(id.into(), n);
                }
            }
            ("task.terminated", _) => self.task_ended(&line, record.text, mark, draft),
            ("subagent.spawned", _) => {
                draft.event(mark);
                self.spawned(&line, record.file, draft);
            }
            ("context.apply_compaction", _) => {
                let event = draft.event(mark);
                draft.compacted(Compaction {
                    event,
                    tokens: count(line.before),
                    tokens_after: count(line.after),
                    trigger: Box::default(),
                });
            }
            ("interaction.request", _) => {
                draft.event(mark);
                let of = |key| line.request.and_then(|request| member(request, key));
                if line.what == Some("\"approval\"") {
                    let tool = filled(of("toolName"));
                    self.permissions
                        .ask(short(line.id), tool.as_deref().unwrap_or("a tool"));
                }
            }
            ("interaction.resolved", _) => {
                draft.event(mark);
                self.permissions.answer(short(line.id).as_deref());
            }
            ("profile.bind", _) => {
                let at = draft.event(mark);
                let cwd = line.disclosure.and_then(|told| member(told, "cwd"));
                self.project = text(cwd).map(|cwd| (at, cwd)).or(self.project.take());
                let run = draft.run();
                run.project = run.project.take().or_else(|| short(cwd));
            }
            _ => {
                draft.event(mark.failed(kind == "turn.step.retrying"));
            }
        }
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        let (ended, answer) = self.settled(draft);
        let last = self.conversation.last();
        let asks = last
            .and_then(|n| draft.asks(n, QUESTIONS))
            .or_else(|| self.permissions.pending())
            .filter(|_| ended.is_none());
        let at = draft.latest().filter(|_| ended.is_some());
        let run = draft.run();
        run.awaits_user = run.parent.is_none() && (asks.is_some() || ended.is_some());
        run.asks_user = asks;
        run.updated_at = at;
        run.ended = ended.map(Box::new);
        run.final_result = answer;
        run.turns = Some(self.conversation.turns());
        run.children = Some(self.children.len() as u64);
        run.child_ids = self.children.listed();
        let imported = self.is_imported.then(|| IMPORTED.into());
        let aside = aside("summaries", self.aside);
        run.notes = aside.into_iter().chain(imported).collect();
    }
}

impl Session {
    /// Handles a reply or a result of an imported session.
    fn imported(&mut self, record: &str, mark: EventDraft<'_>, draft: &mut Draft<'_>) {
        let part = part_of(record, None, None);
        if part.answers.is_empty() {
            let asked = draft.latest();
            self.conversation.reply(None, asked, mark, part, draft);
            return;
        }
        let n = self.conversation.step_of(&part);
        draft.results(n.as_slice(), mark, part);
    }

    fn is_known(&self, id: Option<&str>) -> bool {
        let id = text(id);
        let is_it = |step: &Begun| step.n.is_some() && id.as_deref() == Some(&*step.id);
        self.step.as_ref().is_some_and(is_it)
    }

    /// Handles a record of a reply. The first one begins a step.
    fn reply(
        &mut self,
        id: Option<&str>,
        record: &str,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        let id = text(id);
        let is_own = |step: &&mut Begun| id.as_ref().is_none_or(|id| **id == *step.id);
        let part = part_of(record, None, None);
        let Some(step) = self.step.as_mut().filter(is_own) else {
            // Its beginning isn't in the file.
            let asked = draft.latest();
            let n = self.conversation.reply(None, asked, mark, part, draft);
            self.step = Some(Begun {
                id: id.unwrap_or_default().into(),
                at: None,
                request: None,
                n: Some(n),
            });
            return;
        };
        let is_new = step.n.is_none();
        let n = self.conversation.reply(step.n, step.at, mark, part, draft);
        step.n = Some(n);
        if let Some((request, model)) = step.request.take().filter(|_| is_new) {
            draft.add(
                n,
                request,
                Part {
                    model,
                    ..Part::default()
                },
            );
        }
    }

    fn result(
        &mut self,
        event: &Event<'_>,
        record: &str,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        let id = text(event.call).unwrap_or_default();
        let n = self.conversation.take(&id);
        let step = n.and_then(|n| draft.step(n));
        let project = self.project.as_ref();
        let part = part_of(record, step, project.map(|(_, project)| &**project));
        // The step is assembled from its records, so it needs the directory to shorten a path.
        let place = project
            .map(|(at, _)| *at)
            .filter(|_| !part.changes.is_empty());
        draft.results(n.as_slice(), mark, part);
        if let Some((n, place)) = n.zip(place) {
            draft.refer(n, place);
        }
    }

    /// Handles the end of a task in the background, which is part of the result of the call that
    /// started it.
    fn task_ended(
        &mut self,
        line: &Line<'_>,
        record: &str,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        let part = part_of(record, None, None);
        let failed = part
            .beside
            .iter()
            .any(|answer| answer.status == Some("error"));
        let id = line.info.and_then(|info| text(Task::of(info).id));
        let n = self.tasks.remove(&*id.unwrap_or_default());
        let Some(n) = n.filter(|n| draft.step(*n).is_some()) else {
            draft.event(mark.failed(failed));
            return;
        };
        draft.results(&[n], mark.failed(failed), part);
        draft.end_task(n);
    }

    /// Handles a message in the model's context: a prompt, or a reminder by the program.
    fn message(&mut self, line: &Line<'_>, mark: EventDraft<'_>, draft: &mut Draft<'_>) {
        let message = line.message.map(Message::of).unwrap_or_default();
        let origin = message
            .origin
            .and_then(|origin| text(member(origin, "kind")));
        let is_prompt = matches!(origin.as_deref(), Some("user" | "system_trigger") | None)
            && message.role == Some("\"user\"");
        if !is_prompt {
            draft.event(mark.stage("note"));
            return;
        }
        let words = spoken(message.content);
        // A message of the program may be a reminder and nothing else.
        let is_users = origin.as_deref() == Some("user");
        if !is_users && !words.is_empty() && own_words(&words).is_empty() {
            draft.event(mark.stage("note"));
            return;
        }
        let (end, answer) = self.settled(draft);
        self.ends
            .begin(self.conversation.steps(), end, answer, None);
        (self.end, self.finish, self.step, self.is_cancelled) = (None, None, None, false);
        self.permissions.clear();
        // The program writes the state of the repository before a sub-agent's task.
        let task = words
            .strip_prefix("<git-context>")
            .and_then(|rest| rest.split_once("</git-context>"))
            .map_or(&*words, |(_, task)| task.trim_start());
        self.conversation.prompt(task, &mark, draft);
    }

    /// Handles the end of a turn.
    fn ended(&mut self, line: &Line<'_>, mark: EventDraft<'_>, draft: &mut Draft<'_>) {
        let fault = line
            .error
            .filter(|error| error.starts_with('{'))
            .map(Fault::of);
        let at = draft.event(mark.failed(fault.is_some()));
        let reason = text(line.reason).unwrap_or_default();
        let of = |word: &str, headline, outcome| {
            Ended::new(word, headline, outcome, Certainty::Recorded)
        };
        let finish = self.finish.as_deref().unwrap_or_default();
        let end = match &*reason {
            // The import writes this word after each turn.
            "completed" if self.is_imported => {
                let step = self.conversation.last().and_then(|n| draft.step(n));
                match step.is_some_and(Part::is_answer) {
                    true => Ended::new(
                        Ended::NO_CALLS,
                        "Answered",
                        Outcome::Completed,
                        Certainty::Inferred,
                    ),
                    false => of("", Ended::NO_ANSWER, Outcome::Unknown),
                }
            }
            "completed" if is_at_limit(finish) => of(finish, Ended::CUT_REPLY, Outcome::Truncated),
            "completed" if is_refusal(finish) => of(finish, Ended::REFUSED, Outcome::Failed),
            "completed" if self.is_silent(draft) => of(&reason, Ended::NO_ANSWER, Outcome::Unknown),
            "completed" => of(&reason, "Answered", Outcome::Completed),
            "cancelled" if self.is_cancelled => {
                of(&reason, "Interrupted by the user", Outcome::Cancelled)
            }
            "cancelled" => of(&reason, "Interrupted", Outcome::Cancelled),
            _ => {
                let code = fault
                    .and_then(|fault| filled(fault.code))
                    .unwrap_or_else(|| reason.clone());
                let end = End::of(ENDS, &code).unwrap_or_else(|| End::error(&code));
                end.detail(
                    fault
                        .and_then(|fault| short(fault.message))
                        .unwrap_or_default(),
                )
            }
        };
        self.end = Some(end.at_event(at));
        self.step = None;
    }

    /// Returns whether the last reply has no text.
    fn is_silent(&self, draft: &Draft<'_>) -> bool {
        let step = self.conversation.last().and_then(|n| draft.step(n));
        step.is_some_and(|step| !step.has_text())
    }

    /// Handles the start of a sub-agent.
    fn spawned(&mut self, line: &Line<'_>, file: &Path, draft: &mut Draft<'_>) {
        let (_, agent) = names(file);
        let is_own = text(line.parent).is_none_or(|parent| Some(&*parent) == agent);
        let session = draft.run().parent.clone().or(draft.run().run_id.clone());
        if let Some((session, child)) = session.zip(text(line.child)).filter(|_| is_own) {
            self.children.insert(format!("{session}/{child}").into());
        }
    }

    /// Returns the end and the answer. A turn without steps keeps those of the previous turn.
    fn settled(&self, draft: &Draft<'_>) -> (Option<Ended>, Option<Box<str>>) {
        let last = self.conversation.last();
        self.ends.settle_said(self.end.clone(), last, draft)
    }
}

/// Returns the names of the session and of the agent in the path of a file:
/// `…/SESSION/agents/AGENT/wire.jsonl`.
fn names(file: &Path) -> (Option<&str>, Option<&str>) {
    let mut above = file
        .ancestors()
        .skip(1)
        .map(|dir| dir.file_name().and_then(OsStr::to_str));
    let (agent, agents, session) = (
        above.next().flatten(),
        above.next().flatten(),
        above.next().flatten(),
    );
    if agents == Some("agents") {
        (session, agent)
    } else {
        (None, None)
    }
}

/// Takes the ids of the run from the path of its file. A sub-agent's id is unique only in its
/// session.
fn about(file: &Path, draft: &mut Draft<'_>) {
    let run = draft.run();
    run.tool = Some("Kimi Code".into());
    let (Some(session), Some(agent)) = names(file) else {
        return;
    };
    if agent == "main" {
        run.run_id = Some(cut(session));
    } else {
        run.run_id = Some(cut(&format!("{session}/{agent}")));
        (run.agent, run.parent) = (Some(cut(agent)), Some(cut(session)));
    }
}

/// Returns the line of step `n`.
fn assembled(n: usize, records: &[String]) -> String {
    let project = records.iter().find_map(|record| {
        let line = Line::of(record);
        text(member(line.disclosure?, "cwd"))
    });
    part::line_of(n, records, |record, step| {
        part_of(record, Some(step), project.as_deref())
    })
}

/// Returns whether a message of an imported session is a reply or a result.
fn is_imported(line: &Line<'_>) -> bool {
    let message = line.message.map(Message::of).unwrap_or_default();
    matches!(message.role, Some("\"assistant\"" | "\"tool\""))
}

/// Returns the part of a step that a message of an imported session contains.
fn imported_part(message: &Message<'_>) -> Part {
    let mut part = Part::default();
    if message.role == Some("\"tool\"") {
        part.answers.push(imported_answer(message));
        return part;
    }
    for piece in listed(message.content).map(Piece::of) {
        part.text.extend(filled(piece.text));
        part.thought.extend(filled(piece.think));
    }
    for call in listed(message.calls).map(Call::of) {
        part.calls.push(function_call(call.id, call.function));
    }
    part
}

/// Returns the result in a message of an imported session. Its first text is the program's.
fn imported_answer(message: &Message<'_>) -> Answer {
    let mut words = listed(message.content).filter_map(|piece| filled(Piece::of(piece).text));
    let first = words.next().unwrap_or_default();
    let inside = first.strip_prefix("<system>");
    let own = inside.and_then(|own| own.strip_suffix("</system>"));
    let fault = own.and_then(|own| own.strip_prefix("ERROR: "));
    let rest: Vec<String> = words.collect();
    let said = match (own, rest.is_empty()) {
        (Some(_), false) => rest.join("\n"),
        (Some(own), true) => fault.unwrap_or(own).to_owned(),
        (None, _) => [vec![first.clone()], rest].concat().join("\n"),
    };
    let exit = fault.and_then(|fault| fault.strip_prefix(EXIT));
    Answer {
        call: text(message.call).unwrap_or_default(),
        status: Some(if fault.is_some() { "error" } else { "success" }),
        error: fault.map(|_| said.clone()),
        exit: exit.and_then(|code| code.trim_end_matches('.').parse().ok()),
        output: match fault {
            Some(_) => "null".to_owned(),
            None => quoted(&said),
        },
        ..Answer::default()
    }
}

/// Returns the part of a step that a record contains. `step` is the step so far, with the call of a
/// result.
fn part_of(record: &str, step: Option<&Part>, project: Option<&str>) -> Part {
    let line = Line::of(record);
    let event = line.event.map(Event::of).unwrap_or_default();
    let mut part = Part::default();
    match (line.kind, event.kind) {
        (Some("\"llm.request\""), _) => part.model = text(line.model),
        (Some("\"context.append_message\""), _) => {
            let message = line.message.map(Message::of).unwrap_or_default();
            part = imported_part(&message);
        }
        (Some("\"task.terminated\""), _) => part.beside.extend(task_in(&line)),
        (Some("\"usage.record\""), _) => part.tokens = line.usage.and_then(tokens),
        (_, Some("\"content.part\"")) => {
            let piece = event.part.map(Piece::of).unwrap_or_default();
            part.text.extend(filled(piece.text));
            part.thought.extend(filled(piece.think));
        }
        (_, Some("\"tool.call\"")) => part.calls.push(CallDraft {
            id: text(event.call).unwrap_or_default(),
            name: text(event.name).unwrap_or_default(),
            args: event.args.unwrap_or("{}").to_owned(),
        }),
        (_, Some("\"step.end\"")) => {
            part.tokens = event.usage.and_then(tokens);
            part.finish = text(event.finish);
        }
        (_, Some("\"tool.result\"")) => {
            let answer = answer_of(&event);
            let call = step
                .into_iter()
                .flat_map(|step| &step.calls)
                .find(|call| call.id == answer.call)
                .filter(|_| answer.status == Some("success"));
            part.changes
                .extend(call.and_then(|call| change(call, project)));
            part.answers.push(answer);
        }
        _ => {}
    }
    part
}

fn answer_of(event: &Event<'_>) -> Answer {
    let result = event.result.map(Result::of).unwrap_or_default();
    let said = spoken(result.output);
    let own = without_reference(&said);
    let last = own.trim_end().lines().next_back().unwrap_or_default();
    let exit = last
        .strip_prefix(EXIT)
        .and_then(|code| code.trim_end_matches('.').parse().ok());
    // Successful results have no flag.
    let status = match result.failed {
        Some("true") if exit.is_none() && is_cancelled(&said) => Some("cancelled"),
        Some("true") => Some("error"),
        Some("false") | None => event.result.map(|_| "success"),
        Some(_) => None,
    };
    let bad = matches!(status, Some("error" | "cancelled"));
    Answer {
        call: text(event.call).unwrap_or_default(),
        status,
        error: bad.then(|| match own {
            "" => NO_WORDS.to_owned(),
            own => own.to_owned(),
        }),
        exit: exit.filter(|_| bad),
        ms: number(result.ms),
        output: if bad {
            "null".to_owned()
        } else {
            quoted(&said)
        },
    }
}

/// Returns the file or the plan that a successful call changed.
fn change(
    call: &CallDraft,
    project: Option<&str>,
) -> Option<(String, Option<String>, Option<String>)> {
    if call.name == "TodoList" {
        // Without a list, the call only reads it.
        let todos = member(&call.args, "todos").filter(|todos| todos.starts_with('['))?;
        return Some(("todos".to_owned(), None, Some(todos.to_owned())));
    }
    let path = filled(member(&call.args, "path"))?;
    let key = format!("files.{}", below(&path, project));
    match &*call.name {
        "Write" => Some((key, None, member(&call.args, "content").map(str::to_owned))),
        "Edit" => Some((key, None, None)),
        _ => None,
    }
}

/// Returns whether the result of a failed call says that the program or its user stopped it, or that
/// the user didn't allow it.
fn is_cancelled(said: &str) -> bool {
    let is_rejected = || {
        let first = said.lines().next().unwrap_or_default();
        first.starts_with("Tool \"") && REJECTED.iter().any(|words| first.contains(words))
    };
    let is_aborted = || said.starts_with("Tool \"") && said.ends_with("\" was aborted");
    let last = said.trim_end().lines().next_back().unwrap_or_default();
    CANCELLED.contains(&last) || said.starts_with(INTERRUPTED) || is_rejected() || is_aborted()
}

/// Returns the output of a call without the lines at its end that tell the model where the whole
/// output is. The program adds them to a long one.
fn without_reference(said: &str) -> &str {
    let Some((output, reference)) = said.trim_end().rsplit_once("\ntask_id: ") else {
        return said;
    };
    let mut lines = reference.lines().skip(1);
    let is_reference = lines
        .next()
        .is_some_and(|line| line.starts_with("output_size_bytes: "))
        && lines.all(|line| line.starts_with("next_step: "));
    if is_reference {
        output.trim_end()
    } else {
        said
    }
}

/// Returns what the end of a task says about the call that started it.
fn task_in(line: &Line<'_>) -> Option<Answer> {
    let task = Task::of(line.info?);
    let exit = int(task.exit);
    let status = match &*text(task.status)? {
        "completed" => Some("success"),
        "failed" | "timed_out" => Some("error"),
        "killed" => Some("cancelled"),
        _ => None,
    };
    let bad = matches!(status, Some("error" | "cancelled"));
    let words = || {
        let said = filled(line.tail).map(|said| said.trim_end().to_owned());
        said.filter(|said| !said.is_empty())
            .or_else(|| filled(task.reason))
            .unwrap_or_else(|| silent(exit))
    };
    Some(Answer {
        call: text(task.call).unwrap_or_default(),
        status,
        output: String::new(),
        error: bad.then(words),
        exit,
        ms: None,
    })
}

/// Converts the tokens of a request. Kimi Code counts cached input separately from other input.
fn tokens(usage: &str) -> Option<Tokens> {
    let usage = Usage::of(usage);
    Tokens {
        input: count(usage.other),
        cached: count(usage.cached),
        output: count(usage.output),
        written: count(usage.written),
        ..Tokens::default()
    }
    .with_cache_as_input()
    .reported()
}
