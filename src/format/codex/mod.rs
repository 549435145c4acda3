//! Reads sessions of Codex: one JSON object per line, appended to
//! `sessions/YYYY/MM/DD/rollout-*.jsonl`. Sub-agents have separate files, which name their parent.
//!
//! A line is `{timestamp, type, payload}`. The model's output and input are in `response_item`s.
//! `event_msg`s are events of the program, and repeat texts. No line records which items form one
//! reply: it ends with the record of its tokens, its first result, or a message by someone else.
//! This reader is based on versions 0.104 to 0.169.

mod copies;
pub(super) mod exec;
mod goal;
mod item;

use copies::Copies;
use goal::Goal;
use item::{
    Item, Line, Payload, Usage, failure, is_aborted, odd_flag, part_of, process_in, project_of,
};

use super::part::{self, text};
use super::recent::{Recent, RecentSet};
use super::turns::Turns;
use super::value::{USER_TEXT, count, cut, member, number, objects, short, spoken};
use super::{
    Answer, CallDraft, Draft, EventDraft, Part, Reader, Shape, Source, Tool, USER_SHELL, UserShell,
};
use crate::model::json::walk;
use crate::model::{
    Can, Capabilities, Certainty, Compaction, Ended, EventKind, EventNote, Format, IssueKind,
    Manifest, Outcome, Total,
};

/// A session file.
pub(super) static ROLLOUT: Tool = Tool {
    format: Format {
        name: "Codex session",
        can: Capabilities {
            state: Can::Partly,
            times: Can::Yes,
            tokens: Can::Yes,
            ..Capabilities::NONE
        },
        file: "session file",
        is_session: true,
        adds_to_prompts: false,
        resume: "codex resume",
        is_in_order: true,
        assemble: Some(|n, records| {
            let project = records.iter().find_map(|record| project_of(record));
            part::line(
                n,
                records
                    .iter()
                    .map(|record| part_of(record, project.as_deref())),
            )
        }),
        ..Format::UNKNOWN
    },
    shape: Shape::Lines,
    is: |name, head| {
        name.ends_with(".jsonl")
            && objects(head)
                .next()
                .is_some_and(|line| Line::of(line).kind == Some("\"session_meta\""))
    },
    reader: || Box::new(Rollout::default()),
};

/// The tool that returns the output of a command that continues, and its exit code.
const POLL: &str = "write_stdin";
/// The tools that only ask the user.
const QUESTIONS: &[&str] = &["request_user_input"];
/// The start of the note to the model that the user stopped the turn.
const STOPPED_BY_USER: &str = "<turn_aborted>\nThe user interrupted";
/// The events in which the program asks the user for approval or input.
const REQUESTS: [&str; 3] = [
    "exec_approval_request",
    "apply_patch_approval_request",
    "request_user_input",
];

/// At least this many of the newest turns can be rolled back.
const MAX_TURNS: usize = 10_000;

/// A session while it is being read.
#[derive(Debug, Default)]
struct Rollout {
    /// The newest step.
    last: Option<usize>,
    /// Whether the model's reply continues, so that its next item belongs to the newest step.
    replying: bool,
    /// Whether the tokens of the newest step were read.
    counted: bool,
    /// Whether the file records tokens separately, so that the running totals next to them add
    /// nothing.
    has_usage: bool,
    total: Option<u64>,
    /// The number of replies with recorded tokens, now and at the newest running total.
    replies: u64,
    replies_in_total: Option<u64>,
    /// The step of each call, and whether it waits for its result.
    calls: Recent<Box<str>, (usize, bool)>,
    /// The steps with calls whose commands continue, by process. Their ends may be recorded later.
    running: Recent<Box<str>, usize>,
    /// The processes that a call without a result polls, by call.
    polled: Recent<Box<str>, Box<str>>,
    children: RecentSet<Box<str>>,
    turns: u64,
    /// Whether the user ran a command in the newest turn.
    has_user_shell: bool,
    /// Whether the file records where turns begin and end. Older files don't.
    has_turns: bool,
    /// Whether a prompt or a result came after the last reply, so that another reply is due.
    due: bool,
    /// The end of the turn.
    end: Option<Ended>,
    answer: Option<Box<str>>,
    /// Lines at the beginning that are copied from another session.
    copies: Copies,
    /// The newest record that names the agent's working directory, and that directory.
    project: Option<(usize, String)>,
    /// The newest record that names the model of the next replies.
    model_at: Option<usize>,
    /// The turns that a person started and that weren't rolled back.
    asked: Vec<Turn>,
    /// Whether a person writes the prompts, if the first line records that.
    is_manned: Option<bool>,
    /// Whether the program asked the user for approval and has done nothing since.
    asks_leave: bool,
    /// When the program asked for approval of each call that hasn't begun, by the id of the call.
    asked_at: Recent<Box<str>, i64>,
    /// The end and the answer before the newest turn.
    before: (Option<Ended>, Option<Box<str>>),
    ends: Turns,
    goal: Goal,
    /// The model's context window in tokens.
    context_window: Option<u64>,
    /// The duration of the newest turn in milliseconds, if recorded.
    took_ms: Option<f64>,
    /// The first step of the newest turn.
    first: usize,
    /// Whether a person's prompt came in the newest turn, and whether the user stopped that turn.
    has_prompt: bool,
    is_stopped_by_user: bool,
}

/// The start of a turn.
#[derive(Debug)]
struct Turn {
    /// Its first step.
    first: usize,
    /// The end and the answer of the previous turn.
    before: (Option<Ended>, Option<Box<str>>),
}

impl Reader for Rollout {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        let line = Line::of(record.text);
        let payload = line.payload.map(Payload::of).unwrap_or_default();
        let ts = draft.time(line.timestamp);
        let before = draft.latest();
        let kind = text(line.kind).unwrap_or_default();
        let item = payload.item.map(Item::of).unwrap_or_default();
        let stage = text(item.kind)
            .or_else(|| text(payload.kind))
            .or_else(|| text(payload.role))
            .unwrap_or_default();
        let call = text(payload.call_id).or_else(|| text(item.id));
        let mark = EventDraft {
            note: self.approval(&stage, call.as_deref().unwrap_or_default(), ts),
            ..EventDraft::new(&kind, ts).stage(&stage)
        };
        // A line contains its time or its number, so different lines are never identical.
        let is_one_of_a_kind = line.timestamp.is_some() || line.ordinal.is_some();
        if is_one_of_a_kind && draft.is_again(record.text) {
            return draft.again(&mark);
        }
        if let Some(from) = self.copies.copied(&line, &payload) {
            return draft.copied(from, &mark);
        }
        match (&*kind, text(payload.kind).as_deref()) {
            ("session_meta", _) => {
                let at = draft.event(mark);
                self.project = project_of(record.text).map(|project| (at, project));
                self.about(&payload, line.timestamp, draft);
            }
            ("turn_context", _) => {
                let at = draft.event(mark);
                self.project = project_of(record.text)
                    .map(|project| (at, project))
                    .or(self.project.take());
                let (run, model) = (draft.run(), short(payload.model));
                run.model_changed |= run.model.is_some() && model.is_some() && run.model != model;
                run.model = model.or(run.model.take());
                self.model_at = run.model.is_some().then_some(at).or(self.model_at);
                Manifest::add_name(&mut run.efforts, short(payload.effort));
            }
            ("token_usage_record", _) => {
                self.has_usage = true;
                self.tokens(record.text, mark, draft);
            }
            ("event_msg", Some("token_count")) => {
                let told = payload
                    .info
                    .and_then(|info| member(info, "total_token_usage"))
                    .map(Usage::of);
                let total = told.and_then(|told| count(told.total_tokens));
                // If a request doesn't fit, the program records the size of the window in place of
                // the sum.
                let is_sum = told.is_some_and(|told| {
                    let parts = count(told.input_tokens).zip(count(told.output_tokens));
                    parts.map(|(read, wrote)| read.saturating_add(wrote)) == total
                });
                let window = payload
                    .info
                    .and_then(|info| count(member(info, "model_context_window")));
                self.context_window = window.or(self.context_window);
                self.replies_in_total = Some(self.replies).filter(|_| is_sum);
                let is_news = !self.has_usage && total.is_some() && total != self.total;
                self.total = total.or(self.total);
                if is_news && !self.counted && self.last.is_some() {
                    self.tokens(record.text, mark, draft);
                    self.replies_in_total = self.replies_in_total.map(|_| self.replies);
                } else {
                    draft.event(mark);
                }
            }
            ("response_item", kind) => self.item(kind, &payload, record.text, mark, before, draft),
            // The user ran it, so it belongs to no step.
            ("event_msg", Some("exec_command_end"))
                if text(payload.source).as_deref() == Some(USER_SHELL) =>
            {
                draft.event(mark);
            }
            ("event_msg", Some("item_completed")) => self.done(&item, record.text, mark, draft),
            ("event_msg", Some("exec_command_end" | "patch_apply_end" | "mcp_tool_call_end")) => {
                let id = Item {
                    id: payload.call_id,
                    result: payload.result,
                    ..Item::default()
                };
                self.done(&id, record.text, mark, draft);
            }
            ("event_msg", Some(word)) => self.event(word, &payload, mark, draft),
            ("compacted", _) => {
                let event = draft.event(mark);
                draft.compacted(Compaction {
                    event,
                    tokens: None,
                    tokens_after: None,
                    trigger: Box::default(),
                });
            }
            _ => {
                draft.event(mark);
            }
        }
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        let (turns, children) = (self.turns, self.children.len() as u64);
        let (ended, answer) = self.settled(draft);
        let at = draft.latest().filter(|_| ended.is_some());
        let answer = answer.filter(|_| ended.is_some());
        let asks = self.last.filter(|_| ended.is_none()).and_then(|n| {
            let leave = draft.waits_for(n).filter(|_| self.asks_leave).map(cut);
            leave.or_else(|| draft.asks(n, QUESTIONS))
        });
        // In a resumed or copied thread, the total includes earlier usage.
        let is_whole = self.replies_in_total == Some(self.replies)
            && !self.copies.is_any()
            && draft.run().continues.is_none();
        let total = self.total.filter(|_| is_whole);
        let run = draft.run();
        run.total = total.map(|tokens| Total {
            tokens,
            record: "token_count",
            ..Total::default()
        });
        let may_go_on = match self.is_manned {
            Some(is_manned) => is_manned && (asks.is_some() || ended.is_some()),
            None => asks.is_some() || ended.as_ref().is_some_and(Ended::is_inferred_answer),
        };
        run.awaits_user = may_go_on && run.parent.is_none();
        run.asks_user = asks;
        run.ended = ended.map(Box::new);
        run.updated_at = at;
        run.final_result = answer;
        run.turns = Some(turns);
        run.children = Some(children);
        run.child_ids = self.children.listed();
        run.limits = self.goal.limit().into_iter().collect();
        run.context_window = self.context_window;
    }
}

impl Rollout {
    /// Returns the wait for the user's approval that ends with an event of the program. A result
    /// doesn't tell it apart from the time of the call.
    fn approval(&mut self, stage: &str, call: &str, ts: Option<i64>) -> Option<EventNote> {
        match stage {
            "exec_approval_request" | "apply_patch_approval_request" => {
                if let Some(ts) = ts.filter(|_| !self.asked_at.contains_key(call)) {
                    self.asked_at.insert(call.into(), ts);
                }
                None
            }
            "exec_command_begin" | "patch_apply_begin" => {
                Some(EventNote::Approval(self.asked_at.remove(call)?, ts?))
            }
            stage if stage.ends_with("_end") || stage.ends_with("_output") => {
                self.asked_at.remove(call);
                None
            }
            _ => None,
        }
    }

    /// Returns the number of steps.
    fn steps(&self) -> usize {
        self.last.map_or(0, |last| last + 1)
    }

    /// Returns the end and the answer of the session. A turn without steps that nobody prompted
    /// keeps those of the previous turn.
    fn settled(&self, draft: &Draft<'_>) -> (Option<Ended>, Option<Box<str>>) {
        let (ended, answer) = (self.ended(draft), self.answer.clone());
        if self.has_prompt && !self.ends.is_triggered() {
            return (ended, answer);
        }
        self.ends.settle(ended, answer, self.steps(), self.took_ms)
    }

    /// Returns the end of the last turn: as recorded by a line, or inferred from the last reply.
    /// Returns `None` if the turn may continue.
    fn ended(&self, draft: &Draft<'_>) -> Option<Ended> {
        let reply = || draft.step(self.last.filter(|_| !self.has_turns && !self.due)?);
        self.end.clone().or_else(|| {
            reply()
                .filter(|reply| reply.is_answer())
                .map(|_| Ended::answered(Ended::NO_CALLS))
        })
    }

    /// Takes the facts about the session from its first line. A later such line belongs to another
    /// session whose history was copied.
    fn about(&mut self, payload: &Payload<'_>, timestamp: Option<&str>, draft: &mut Draft<'_>) {
        let run = draft.run();
        if run.run_id.is_some() {
            return;
        }
        run.run_id = short(payload.id);
        run.project = short(payload.cwd);
        Manifest::add_name(
            &mut run.branches,
            payload.git.and_then(|git| short(member(git, "branch"))),
        );
        run.commit = payload
            .git
            .and_then(|git| short(member(git, "commit_hash")));
        self.is_manned = payload
            .source
            .filter(|source| *source != "null")
            .map(|source| matches!(source, "\"cli\"" | "\"vscode\""));
        run.tool = text(payload.version).map(|version| cut(&format!("Codex {version}")));
        let spawn = payload.source.and_then(|source| member(source, "subagent"));
        let spawn = spawn.and_then(|source| member(source, "thread_spawn"));
        let of_spawn = |key: &str| spawn.and_then(|spawn| member(spawn, key));
        run.parent = short(payload.parent).or_else(|| short(of_spawn("parent_thread_id")));
        run.agent = short(of_spawn("agent_path")).or_else(|| short(of_spawn("agent_nickname")));
        run.continues = payload
            .base
            .and_then(|base| short(member(base, "thread_id")));
        self.copies = Copies::of(payload, run.parent.as_deref(), timestamp);
    }

    /// Handles an item of the model's output or input.
    fn item(
        &mut self,
        kind: Option<&str>,
        payload: &Payload<'_>,
        record: &str,
        mark: EventDraft<'_>,
        before: Option<i64>,
        draft: &mut Draft<'_>,
    ) {
        self.asks_leave = false;
        let is_model = text(payload.role).as_deref() == Some("assistant");
        match kind {
            Some("message") | None if is_model => self.reply(record, mark, before, draft),
            Some("reasoning") => self.reply(record, mark, before, draft),
            Some(kind) if kind.ends_with("_call") => self.reply(record, mark, before, draft),
            Some(kind) if kind.ends_with("_output") => self.result(payload, record, mark, draft),
            _ => {
                let said = spoken(payload.content);
                if text(payload.role).as_deref() == Some("user") && UserShell::is_in(&said) {
                    let stage = USER_SHELL;
                    draft.event(EventDraft { stage, ..mark });
                    self.has_user_shell = true;
                    return;
                }
                (self.replying, self.due) = (false, true);
                self.goal.told(&said);
                // The program writes the same when it stops a turn that wasn't started by a prompt.
                self.is_stopped_by_user |=
                    !self.ends.is_triggered() && said.starts_with(STOPPED_BY_USER);
                // A sub-agent's task is its parent's message, if no user writes to it.
                let is_task = kind == Some("agent_message") && draft.run().parent.is_some();
                let is_prompt = kind.is_none() && text(payload.role).as_deref() == Some("user");
                if (is_task || is_prompt) && !draft.has_task() {
                    let task = Some(&said).filter(|_| is_task);
                    let task = task.and_then(|said| given_task(said, payload.content));
                    self.prompt(task.as_deref().unwrap_or(&said), &mark, draft);
                } else {
                    // In some versions, no other record contains the user's text.
                    let is_users =
                        text(payload.role).as_deref() == Some("user") && is_of_user(payload);
                    draft.event(EventDraft {
                        stage: if is_users { USER_TEXT } else { mark.stage },
                        ..mark
                    });
                }
                if is_prompt {
                    self.turns += 1;
                    self.end = None;
                }
            }
        }
    }

    /// Handles an item of the model's reply.
    fn reply(
        &mut self,
        record: &str,
        mark: EventDraft<'_>,
        before: Option<i64>,
        draft: &mut Draft<'_>,
    ) {
        let part = part_of(record, None);
        let last = self.last;
        let n = self.step(mark, before, draft);
        let answered = |call: &CallDraft| part.answers.iter().any(|answer| answer.call == call.id);
        self.calls.extend(
            part.calls
                .iter()
                .map(|call| ((*call.id).into(), (n, !answered(call)))),
        );
        for call in part.calls.iter().filter(|call| call.name == POLL) {
            let process = count(member(&call.args, "session_id")).map(|id| id.to_string());
            self.polled
                .extend(process.map(|id| ((*call.id).into(), id.into())));
        }
        draft.part(n, part);
        self.add_model(n, last, draft);
    }

    /// Adds an item as an event and returns the step that it belongs to.
    fn step(&mut self, mark: EventDraft<'_>, before: Option<i64>, draft: &mut Draft<'_>) -> usize {
        (self.end, self.due) = (None, false);
        let known = self.last.filter(|_| self.replying);
        let n = draft.reply(
            known,
            before,
            EventDraft {
                kind: EventKind::Decided,
                ..mark
            },
        );
        if known.is_some() {
            return n;
        }
        if let Some(last) = self.last.replace(n) {
            draft.close(last);
        }
        (self.replying, self.counted) = (true, false);
        n
    }

    /// Adds the model of the turn to step `n`, if the step is new. Comes after the reply's own part,
    /// because the first record of a step is where it begins.
    fn add_model(&self, n: usize, before: Option<usize>, draft: &mut Draft<'_>) {
        let Some(at) = self.model_at.filter(|_| before != Some(n)) else {
            return;
        };
        let model = draft.run().model.as_deref().map(str::to_owned);
        let part = Part {
            model,
            ..Part::default()
        };
        draft.add(n, at, part);
    }

    /// Handles the tokens of a whole reply. A reply without items is a step too, because it was
    /// requested and paid for.
    fn tokens(&mut self, record: &str, mark: EventDraft<'_>, draft: &mut Draft<'_>) {
        let last = self.last;
        let n = match self.last.filter(|_| !self.counted) {
            Some(n) => {
                draft.event(EventDraft {
                    kind: EventKind::Inside,
                    step: Some(n),
                    ..mark
                });
                n
            }
            None => {
                let asked = draft.latest().max(mark.ts);
                self.step(mark, asked, draft)
            }
        };
        draft.part(n, part_of(record, None));
        self.add_model(n, last, draft);
        self.replies += 1;
        (self.replying, self.counted) = (false, true);
    }

    /// Handles the result of a call.
    fn result(
        &mut self,
        payload: &Payload<'_>,
        record: &str,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        (self.replying, self.due) = (false, true);
        let Some(id) = text(payload.call_id) else {
            // The program adds this context in the form of a result.
            draft.event(mark);
            return;
        };
        self.goal.given(payload);
        let polled = self.polled.remove(&*id);
        let part = part_of(record, None);
        let is_stopped = |answer: &Answer| answer.status == Some("cancelled");
        // If the user declines a call, the call is over but the turn continues.
        let is_aborted =
            |answer: &Answer| is_stopped(answer) && answer.error.as_deref().is_some_and(is_aborted);
        self.is_stopped_by_user |= part.answers.iter().any(is_aborted);
        let failed = part.answers.iter().any(is_stopped);
        let call = self.calls.get_mut(&*id).filter(|(_, waits)| *waits);
        let n = call.map(|(n, waits)| {
            *waits = false;
            *n
        });
        let said = part
            .answers
            .first()
            .and_then(|answer| text(Some(&answer.output)));
        let process = said.as_deref().and_then(process_in);
        if let (Some(process), None, Some(n)) = (process, &polled, n) {
            self.running.insert(process.into(), n);
            draft.begin_task(n);
        }
        // The poll has the end of the command.
        let ended = polled.filter(|_| process.is_none());
        if let Some(started) = ended.and_then(|process| self.running.remove(&*process)) {
            draft.end_task(started);
        }
        draft.results(n.as_slice(), mark.failed(failed), part);
    }

    /// Handles a record of what the program did for a call.
    fn done(&mut self, item: &Item<'_>, record: &str, mark: EventDraft<'_>, draft: &mut Draft<'_>) {
        let kind = text(item.kind);
        if kind.as_deref() == Some("UserMessage") {
            return self.prompt(&spoken(item.content), &mark, draft);
        }
        self.asks_leave = false;
        let started = item
            .receivers
            .into_iter()
            .flat_map(walk::items)
            .chain(item.child);
        let own = draft.run().run_id.clone();
        let started = started
            .filter_map(|child| text(Some(child)))
            .filter(|child| own.as_deref() != Some(child));
        self.children.extend(started.map(Box::from));
        let part = part_of(record, self.project.as_ref().map(|(_, project)| &**project));
        let project = self
            .project
            .as_ref()
            .map(|(at, _)| *at)
            .filter(|_| !part.changes.is_empty());
        if part.beside.is_empty() && part.changes.is_empty() {
            draft.event(mark);
            return;
        }
        // A script's commands have separate ids. A command in the background may end many steps
        // later. If a call polls it, that call gets its end.
        let call = text(item.id).and_then(|id| self.calls.get(&*id).copied());
        let n = call.map(|(n, _)| n).or(self.last);
        let failed = part.beside.iter().any(|beside| beside.error.is_some());
        draft.event(EventDraft {
            kind: EventKind::Inside,
            step: n,
            failed,
            ..mark
        });
        if let Some(flag) = odd_flag(item.result) {
            let reason = format!(
                "isError is {}, which isn't a boolean, so the call's outcome is unknown",
                cut(flag)
            );
            draft.issue(IssueKind::Field, reason);
        }
        let process = text(item.process).unwrap_or_default();
        let is_polled = self.polled.values().any(|polled| **polled == *process);
        let task = self.running.remove(&*process);
        let takes = |n: &usize| {
            task.is_some() && !is_polled
                || task.is_none() && self.last == Some(*n)
                || call.is_some_and(|(_, waits)| waits)
        };
        match n {
            Some(n) if takes(&n) => {
                if draft.part(n, part)
                    && let Some(at) = project
                {
                    draft.refer(n, at);
                }
            }
            Some(_) => {}
            None => draft.issue(
                IssueKind::Join,
                "a record of a tool's work comes before the first step",
            ),
        }
        task.into_iter().for_each(|n| draft.end_task(n));
    }

    /// Returns whether the newest turn only ran a command of the user.
    fn is_user_shell(&self) -> bool {
        self.has_user_shell && !self.has_prompt && self.first == self.steps()
    }

    /// Handles a person's prompt.
    fn prompt(&mut self, words: &str, mark: &EventDraft<'_>, draft: &mut Draft<'_>) {
        (self.replying, self.due) = (false, true);
        draft.prompt(Some(words), mark);
        let first = self.steps();
        // If no line records turns, all prompts between two replies start one turn.
        let is_known = if self.has_turns {
            self.has_prompt
        } else {
            self.asked.last().is_some_and(|t| t.first == first)
        };
        if !is_known {
            self.has_prompt = true;
            self.asked.push(Turn {
                first,
                before: std::mem::take(&mut self.before),
            });
            if self.asked.len() > 2 * MAX_TURNS {
                self.asked.drain(..MAX_TURNS);
            }
        }
    }

    /// Rolls back the newest turns. Their steps aren't on the way to the end.
    fn roll_back(&mut self, turns: u64, draft: &mut Draft<'_>) {
        let kept = self
            .asked
            .len()
            .saturating_sub(usize::try_from(turns).unwrap_or(usize::MAX));
        let Some(turn) = self.asked.drain(kept..).next() else {
            return;
        };
        let steps = self.steps();
        (turn.first..steps).for_each(|n| draft.leave(n, true));
        (self.end, self.answer) = turn.before;
        self.ends = Turns::default();
        (self.replying, self.due) = (false, true);
    }

    /// Handles an event of the program.
    fn event(
        &mut self,
        word: &str,
        payload: &Payload<'_>,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        self.asks_leave = REQUESTS.contains(&word);
        match word {
            "task_started" | "turn_started" => {
                draft.event(mark);
                self.turns += 1;
                let (end, answer) = self.settled(draft);
                let trigger = payload
                    .attribution
                    .and_then(|told| text(member(told, "turn_trigger")));
                self.ends.begin(
                    self.steps(),
                    end.clone(),
                    answer.clone(),
                    trigger.as_deref(),
                );
                self.before = (end, answer);
                (self.end, self.answer, self.took_ms) = (None, None, None);
                self.first = self.steps();
                (self.replying, self.has_turns, self.has_prompt) = (false, true, false);
                (self.is_stopped_by_user, self.has_user_shell) = (false, false);
            }
            "thread_rolled_back" => {
                draft.event(mark);
                self.roll_back(count(payload.dropped).unwrap_or_default(), draft);
            }
            "user_message" => self.prompt(&text(payload.message).unwrap_or_default(), &mark, draft),
            "error" => {
                let at = draft.event(mark.failed(true));
                self.end = Some(failure(payload.code, payload.message).at_event(at));
            }
            "task_complete" | "turn_complete" if self.is_user_shell() => {
                draft.event(mark);
                self.turns = self.turns.saturating_sub(1);
                (self.end, self.answer) = std::mem::take(&mut self.before);
                self.ends = Turns::default();
            }
            "task_complete" | "turn_complete" => {
                let error = payload
                    .error
                    .filter(|error| *error != "null")
                    .map(|error| match error.starts_with('{') {
                        true => Payload::of(error),
                        false => Payload {
                            message: Some(error),
                            ..Payload::default()
                        },
                    });
                let at = draft.event(mark.failed(error.is_some()));
                (self.has_turns, self.took_ms) = (true, number(payload.ms).filter(|ms| *ms >= 0.0));
                self.answer = short(payload.last);
                let end = match (error, &self.answer) {
                    (Some(error), _) => failure(error.code, error.message),
                    (None, Some(_)) => {
                        Ended::new(word, "Answered", Outcome::Completed, Certainty::Recorded)
                    }
                    // Older versions record an error in a separate line.
                    (None, None) if self.end.is_some() => return,
                    (None, None) => Ended::new(
                        word,
                        "Turn ended without an answer",
                        Outcome::Unknown,
                        Certainty::Recorded,
                    ),
                };
                self.end = Some(end.at_event(at));
                self.replying = false;
            }
            "turn_aborted" => {
                let at = draft.event(mark);
                let reason = text(payload.reason).unwrap_or_default();
                self.took_ms = number(payload.ms).filter(|ms| *ms >= 0.0);
                let (headline, outcome) = match &*reason {
                    "interrupted" if self.is_stopped_by_user => {
                        ("Interrupted by the user", Outcome::Cancelled)
                    }
                    "interrupted" => ("Interrupted", Outcome::Cancelled),
                    "replaced" => ("Replaced by another turn", Outcome::Cancelled),
                    "review_ended" => ("Review ended", Outcome::Halted),
                    "budget_limited" => ("Token limit reached", Outcome::Truncated),
                    _ => ("Aborted", Outcome::Cancelled),
                };
                let word = if reason.is_empty() { word } else { &*reason };
                let end = Ended::new(word, headline, outcome, Certainty::Recorded);
                self.end = Some(end.at_event(at));
                self.replying = false;
            }
            _ => {
                let own = draft.run().run_id.clone();
                self.children
                    .extend(short(payload.child).filter(|child| own.as_ref() != Some(child)));
                let failed = matches!(word, "stream_error" | "warning");
                let event = draft.event(EventDraft { failed, ..mark });
                if word == "context_compacted" {
                    draft.compacted(Compaction {
                        event,
                        tokens: None,
                        tokens_after: None,
                        trigger: Box::default(),
                    });
                }
            }
        }
    }
}

/// Returns whether a message with the role of the user records that the user wrote it.
fn is_of_user(payload: &Payload<'_>) -> bool {
    let told = payload
        .passed
        .and_then(|told| member(told, "content_item_metadata"))
        .into_iter()
        .flat_map(walk::items);
    let whose = told
        .filter_map(|item| member(item, "provenance"))
        .filter_map(|from| text(member(from, "type")));
    whose.into_iter().any(|whose| whose == "user")
}

/// Returns the task in the message of a parent agent: `Message Type: NEW_TASK`, more lines, and a
/// payload. The payload may be encrypted. The name of the task is known then.
fn given_task(said: &str, content: Option<&str>) -> Option<String> {
    let head = said.strip_prefix("Message Type: ")?;
    let (head, payload) = head.split_once("Payload:").unwrap_or((head, ""));
    // Words have spaces. Encrypted text has none.
    let parts = content.into_iter().flat_map(walk::items);
    let unread = parts.filter_map(|part| text(member(part, "encrypted_content")));
    let readable = unread
        .map(|words| words.trim().to_owned())
        .find(|words| words.contains(' '));
    let named = || {
        let name = head
            .lines()
            .find_map(|line| line.strip_prefix("Task name: "))?;
        name.rsplit('/').next().map(str::to_owned)
    };
    Some(payload.trim().to_owned())
        .filter(|payload| !payload.is_empty())
        .or(readable)
        .or_else(named)
}

#[cfg(test)]
mod tests {
    use super::given_task;
    use crate::format::value::spoken;

    #[test]
    fn a_helpers_task_is_the_payload_of_its_parents_message() {
        const HEAD: &str =
            "Message Type: NEW_TASK\\nTask name: /root/reader\\nSender: /root\\nPayload:\\n";
        let task = |content: &str| given_task(&spoken(Some(content)), Some(content));
        for (content, expected) in [
            (
                format!(r#"[{{"text":"{HEAD}Read a.py.\nThen stop."}}]"#),
                "Read a.py.\nThen stop.",
            ),
            (
                format!(r#"[{{"text":"{HEAD}"}},{{"encrypted_content":"Read a.py."}}]"#),
                "Read a.py.",
            ),
            (
                format!(r#"[{{"text":"{HEAD}"}},{{"encrypted_content":"gAAAAABmZ3Q="}}]"#),
                "reader",
            ),
        ] {
            assert_eq!(task(&content).as_deref(), Some(expected), "{content}");
        }
        assert_eq!(task(r#"[{"text":"Read a.py."}]"#), None);
    }
}
