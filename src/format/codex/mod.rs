//! How does Codex write a session? One JSON object a line, appended to `sessions/YYYY/MM/DD/rollout-*.jsonl`; sub-agents
//! have files of their own, which name their parent.
//!
//! A line is `{timestamp, type, payload}`. What the model wrote and was given stands in `response_item`s; `event_msg`s
//! tell of the program, and repeat texts. Nothing says which items are one reply: it is over with the record of its
//! tokens, its first result, or a word of somebody else. Seen in versions 0.104 to 0.169.

mod copies;
pub(super) mod exec;
mod goal;
mod item;

use copies::Copies;
use goal::Goal;
use item::{is_aborted, odd_flag, part_of, project_of};

use super::part::{self, text};
use super::recent::{Recent, RecentSet};
use super::turns::Turns;
use super::value::{USER_TEXT, count, cut, member, number, objects, short, spoken};
use super::{Answer, CallDraft, Draft, EventDraft, Part, Reader, Shape, Source, Tool};
use crate::model::json::walk;
use crate::model::{
    Can, Capabilities, Certainty, Compaction, Ended, EventKind, Format, IssueKind, Outcome, Total,
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

/// The tool that does nothing but ask the user, and what the program tells where it asks for leave.
const QUESTIONS: &[&str] = &["request_user_input"];
/// How the note to the model begins that its user stopped the turn.
const STOPPED_BY_USER: &str = "<turn_aborted>\nThe user interrupted";
const REQUESTS: [&str; 3] = [
    "exec_approval_request",
    "apply_patch_approval_request",
    "request_user_input",
];

fields! {
    struct Line { timestamp, ordinal, kind = "type", payload }
    struct Payload {
        kind = "type", id, role, content, summary, call_id, name, namespace, arguments, input, output, action, status,
        revised_prompt, usage, info, item, reason, error, last = "last_agent_message", message, model, cwd,
        version = "cli_version", parent = "parent_thread_id", source, history = "subagent_history_start_ordinal",
        code = "codex_error_info", child = "new_thread_id", forked = "forked_from_id", base = "history_base",

        passed = "internal_chat_message_metadata_passthrough",
        turn = "turn_id", dropped = "num_turns", attribution = "turn_attribution", ms = "duration_ms", exit_code, duration, changes, success, stderr, result, invocation,
    }
    struct Item {
        kind = "type", id, status, exit_code, duration, changes, success, stderr, result, error, content,
        invocation, child = "agent_thread_id", receivers = "receiver_thread_ids",
    }
    struct Usage { input_tokens, cached_input_tokens, output_tokens, reasoning_output_tokens, total_tokens }
}

/// So many of the newest turns can be rolled back.
const MAX_TURNS: usize = 10_000;

/// A session under way.
#[derive(Debug, Default)]
struct Rollout {
    /// The newest step.
    last: Option<usize>,
    /// The model's reply goes on: its next item belongs to the newest step.
    replying: bool,
    /// The newest step has its tokens.
    counted: bool,
    /// The file has records of tokens, so that the running totals beside them say nothing new.
    has_usage: bool,
    total: Option<u64>,
    /// How many replies have their tokens, and how many had them when the newest running total was recorded.
    replies: u64,
    replies_in_total: Option<u64>,
    /// The step of each call, and whether it waits for its result.
    calls: Recent<Box<str>, (usize, bool)>,
    children: RecentSet<Box<str>>,
    turns: u64,
    /// The file tells where turns begin and end; older ones do not.
    has_turns: bool,
    /// A prompt or a result came after the last reply: the next one is due.
    due: bool,
    /// How the turn ended.
    end: Option<Ended>,
    answer: Option<Box<str>>,
    /// Lines at the beginning that are copied from another session.
    copies: Copies,
    /// The newest record that names the directory that the agent works in, and that directory.
    project: Option<(usize, String)>,
    /// Turns that a person asked for and that were not rolled back.
    asked: Vec<Turn>,
    /// A person gives its prompts, as far as the first line tells.
    is_manned: Option<bool>,
    /// The program asked its user for leave, and did nothing since.
    asks_leave: bool,
    /// The end and the answer before the newest turn.
    before: (Option<Ended>, Option<Box<str>>),
    ends: Turns,
    goal: Goal,
    /// How long the newest turn took in milliseconds, where that is recorded.
    took_ms: Option<f64>,
    /// A person's prompt came in the newest turn, and a record says that the user stopped it.
    has_prompt: bool,
    is_stopped_by_user: bool,
}

/// Where a turn began.
#[derive(Debug)]
struct Turn {
    /// Its first step.
    first: usize,
    /// How the turn before ended, and its answer.
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
        let mark = EventDraft {
            phase: &kind,
            stage: &stage,
            ts,
            ..EventDraft::default()
        };
        // A line has its time or its number in it: no two are the same.
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
                // Where a request doesn't fit, the program puts the size of the window in the place of the sum.
                let is_sum = told.is_some_and(|told| {
                    let parts = count(told.input_tokens).zip(count(told.output_tokens));
                    parts.map(|(read, wrote)| read.saturating_add(wrote)) == total
                });
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
        // Where a thread goes on or is copied, its total counts what it took before.
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
    }
}

impl Rollout {
    /// How many steps there are.
    fn steps(&self) -> usize {
        self.last.map_or(0, |last| last + 1)
    }

    /// The end and the answer of the session. A turn without steps leaves those of the turn before.
    fn settled(&self, draft: &Draft<'_>) -> (Option<Ended>, Option<Box<str>>) {
        self.ends.settle(
            self.ended(draft),
            self.answer.clone(),
            self.steps(),
            self.took_ms,
        )
    }

    /// How the last turn ended: what a line says, else what the last reply suggests. `None` where it may go on.
    fn ended(&self, draft: &Draft<'_>) -> Option<Ended> {
        let reply = || draft.step(self.last.filter(|_| !self.has_turns && !self.due)?);
        let is_last = |reply: &&Part| reply.calls.is_empty() && !reply.text.is_empty();
        self.end.clone().or_else(|| {
            reply()
                .filter(is_last)
                .map(|_| Ended::answered(Ended::NO_CALLS))
        })
    }

    /// What the first line says of the session; a later one is that of another, whose history was copied.
    fn about(&mut self, payload: &Payload<'_>, timestamp: Option<&str>, draft: &mut Draft<'_>) {
        let run = draft.run();
        if run.run_id.is_some() {
            return;
        }
        run.run_id = short(payload.id);
        run.project = short(payload.cwd);
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

    /// What the model wrote, or what it was given.
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
                (self.replying, self.due) = (false, true);
                let said = spoken(payload.content);
                self.goal.told(&said);
                // The program writes the same where it stops a turn that no prompt started.
                self.is_stopped_by_user |=
                    !self.ends.is_triggered() && said.starts_with(STOPPED_BY_USER);
                // What an agent is told by another one is its task, where no user speaks to it.
                let is_task = kind == Some("agent_message") && draft.run().parent.is_some();
                let is_prompt = kind.is_none() && text(payload.role).as_deref() == Some("user");
                if (is_task || is_prompt) && !draft.has_task() {
                    self.prompt(&said, &mark, draft);
                } else {
                    // Some versions tell of it in no other record.
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

    /// An item of a reply of the model.
    fn reply(
        &mut self,
        record: &str,
        mark: EventDraft<'_>,
        before: Option<i64>,
        draft: &mut Draft<'_>,
    ) {
        let part = part_of(record, None);
        let n = self.step(mark, before, draft);
        let answered = |call: &CallDraft| part.answers.iter().any(|answer| answer.call == call.id);
        self.calls.extend(
            part.calls
                .iter()
                .map(|call| ((*call.id).into(), (n, !answered(call)))),
        );
        draft.part(n, part);
    }

    /// The step that an item belongs to, with the item as an event.
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

    /// The tokens of a whole reply. One in which nothing was written is a step as well: it was asked for and paid.
    fn tokens(&mut self, record: &str, mark: EventDraft<'_>, draft: &mut Draft<'_>) {
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
        self.replies += 1;
        (self.replying, self.counted) = (false, true);
    }

    /// What a call gave.
    fn result(
        &mut self,
        payload: &Payload<'_>,
        record: &str,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        (self.replying, self.due) = (false, true);
        let Some(id) = text(payload.call_id) else {
            // Context that the program puts in the shape of a result.
            draft.event(mark);
            return;
        };
        self.goal.given(payload);
        let part = part_of(record, None);
        let is_stopped = |answer: &Answer| answer.status == Some("cancelled");
        // A call that the user declined is over, and the turn goes on.
        let is_aborted =
            |answer: &Answer| is_stopped(answer) && answer.error.as_deref().is_some_and(is_aborted);
        self.is_stopped_by_user |= part.answers.iter().any(is_aborted);
        let failed = part.has_failed() || part.answers.iter().any(is_stopped);
        let call = self.calls.get_mut(&*id).filter(|(_, waits)| *waits);
        let n = call.map(|(n, waits)| {
            *waits = false;
            *n
        });
        draft.event(EventDraft {
            kind: EventKind::Inside,
            step: n,
            failed,
            ..mark
        });
        if !n.is_some_and(|n| draft.part(n, part.clone())) {
            draft.orphan(&part);
        }
    }

    /// What the program did for a call.
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
        // A script's commands have ids of their own. What goes on behind its call may end many steps later, when there is
        // nothing left to add it to.
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
                "isError is {}, which is no boolean: how the call went is unknown",
                cut(flag)
            );
            draft.issue(IssueKind::Field, reason);
        }
        let takes = |n: &usize| self.last == Some(*n) || call.is_some_and(|(_, waits)| waits);
        match n {
            Some(n) if takes(&n) => {
                if draft.part(n, part)
                    && let Some(at) = project
                {
                    draft.refer(n, at);
                }
            }
            Some(_) => {}
            None => draft.issue(IssueKind::Join, "what a tool did is told of no step"),
        }
    }

    /// What a person asks for.
    fn prompt(&mut self, words: &str, mark: &EventDraft<'_>, draft: &mut Draft<'_>) {
        (self.replying, self.due) = (false, true);
        draft.prompt(Some(words), mark);
        let first = self.steps();
        // Where no line tells of turns, prompts between two replies are one.
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

    /// The newest turns are void: what was done in them is on no way to the end.
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

    /// What the program tells.
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
                (
                    self.replying,
                    self.has_turns,
                    self.has_prompt,
                    self.is_stopped_by_user,
                ) = (false, true, false, false);
            }
            "thread_rolled_back" => {
                draft.event(mark);
                self.roll_back(count(payload.dropped).unwrap_or_default(), draft);
            }
            "user_message" => self.prompt(&text(payload.message).unwrap_or_default(), &mark, draft),
            "error" => {
                let at = draft.event(EventDraft {
                    failed: true,
                    ..mark
                });
                self.end = Some(failure(payload.code, payload.message).at_event(at));
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
                let at = draft.event(EventDraft {
                    failed: error.is_some(),
                    ..mark
                });
                (self.has_turns, self.took_ms) = (true, number(payload.ms).filter(|ms| *ms >= 0.0));
                self.answer = short(payload.last);
                let end = match (error, &self.answer) {
                    (Some(error), _) => failure(error.code, error.message),
                    (None, Some(_)) => {
                        Ended::new(word, "Answered", Outcome::Completed, Certainty::Recorded)
                    }
                    // Older versions tell of an error in a line of its own.
                    (None, None) if self.end.is_some() => return,
                    (None, None) => Ended::new(
                        word,
                        "Ended its turn without an answer",
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
                    "review_ended" => ("Ended with its review", Outcome::Halted),
                    "budget_limited" => ("Token budget used up", Outcome::Truncated),
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
                        trigger: Box::default(),
                    });
                }
            }
        }
    }
}

/// Whether a message in the place of the user says that the user wrote it.
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

/// An error that ends a turn: its class is a word, or an object with one key.
fn failure(class: Option<&str>, message: Option<&str>) -> Ended {
    let key = || {
        class
            .and_then(|class| walk::members(class).next())
            .and_then(|(key, _)| text(Some(key)))
    };
    let word = text(class)
        .or_else(key)
        .unwrap_or_else(|| "error".to_owned());
    let message = text(message).unwrap_or_default();
    // These have no class of their own. Other words may quote the same in the middle.
    let is_unnamed = matches!(&*word, "other" | "error");
    let said = message
        .strip_prefix("stream disconnected before completion: ")
        .unwrap_or(&message);
    let begins = |words: &str| is_unnamed && said.starts_with(words);
    let (headline, outcome) = match &*word {
        "context_window_exceeded" => (Ended::CONTEXT_FULL, Outcome::Failed),
        // A limit of the service on its user, like a rate limit, and none of this run.
        "usage_limit_exceeded" => ("Usage limit of the provider reached", Outcome::Failed),
        "session_budget_exceeded" => ("Session budget used up", Outcome::Truncated),
        "sandbox_error" => ("Ended by an error of the sandbox", Outcome::Failed),
        "cyber_policy" => ("The model refused", Outcome::Failed),
        _ if begins("Incomplete response returned, reason: max_output_tokens") => {
            ("The reply reached its token limit", Outcome::Truncated)
        }
        _ if begins("Incomplete response returned, reason: content_filter") => {
            ("The model refused", Outcome::Failed)
        }
        _ if begins("Codex ran out of room in the model's context window")
            || begins("Your input exceeds the context window") =>
        {
            (Ended::CONTEXT_FULL, Outcome::Failed)
        }
        _ if is_unnamed => ("Ended by an error", Outcome::Failed),
        _ => ("Ended by an API error", Outcome::Failed),
    };
    Ended::new(&word, headline, outcome, Certainty::Recorded).detail(cut(&message))
}
