//! Reads sessions of Hermes Agent: rows of the SQLite database `state.db`.
//!
//! A row of `messages` is a prompt, a reply or a result, as for the API. Tokens and costs are
//! recorded only for a session as a whole, and tokens also for each model in it. Why a session ended
//! isn't recorded, only that the user closed it or that a sub-agent's was released. Errors of the API
//! aren't in the database.
//!
//! A compaction marks all rows as compacted, and adds copies of those that it keeps, with a summary
//! among them. This reader is based on version 0.19.

use super::conversation::Conversation;
use super::ends::{End, ends};
use super::lines::is_store_of;
use super::part::{self, quoted, text};
use super::recent::RecentSet;
use super::rows::{LARGE_MESSAGE, LARGE_ROW, MORE_ROWS, children};
use super::value::{above_zero, count, filled, function_call, int, limit, seconds, short};
use super::{
    Answer, Draft, EventDraft, Mark, Part, Reader, Rows, Several, Shape, Source, Table, Tool,
};
use crate::model::json::walk;
use crate::model::step::{NO_WORDS, Usage};
use crate::model::{
    Can, Capabilities, Certainty, Compaction, Ended, EventKind, Format, IssueKind, Outcome,
    StepHead,
};

/// A session.
pub(super) static SESSION: Tool = Tool {
    format: Format {
        name: "Hermes session",
        can: Capabilities {
            state: Can::Partly,
            times: Can::Yes,
            limits: Can::Partly,
            ..Capabilities::NONE
        },
        file: "database",
        no_end_reason: "Hermes's database doesn't record why a session ended",
        is_session: true,
        assemble: Some(|n, records| part::line(n, records.iter().map(|record| part_in(record)))),
        ..Format::UNKNOWN
    },
    shape: Shape::Several(&Several {
        paths: &[
            &["session"],
            &["children"],
            &["usage", "*"],
            &["messages", "*"],
            &["left_out"],
        ],
        rows: Some(&ROWS),
        ..Several::NONE
    }),
    is: |name, head| is_store_of(name, head, "state"),
    reader: || Box::new(Session::default()),
};

static ROWS: Rows = Rows {
    what: "a Hermes store",
    run: Table {
        name: "sessions",
        key: "session",
        of: "",
        order: &[],
        columns: &[
            "id",
            "source",
            "model",
            "model_config",
            "parent_session_id",
            "started_at",
            "ended_at",
            "end_reason",
            "message_count",
            "tool_call_count",
            "api_call_count",
            "input_tokens",
            "output_tokens",
            "cache_read_tokens",
            "cache_write_tokens",
            "reasoning_tokens",
            "cwd",
            "git_branch",
            "estimated_cost_usd",
            "actual_cost_usd",
            "cost_status",
            "title",
            "rewind_count",
            "archived",
        ],
        json: &["model_config"],
        spread: "",
    },
    versions: &[
        "model",
        "parent_session_id",
        "ended_at",
        "end_reason",
        "message_count",
        "tool_call_count",
        "api_call_count",
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "estimated_cost_usd",
        "actual_cost_usd",
        "title",
        "rewind_count",
    ],
    marks: &[
        // An index has these columns. A row that is replaced by a summary is no longer active. The
        // only time of most sessions is their start.
        Mark {
            table: "messages",
            query: "SELECT session_id, max(id), count(*), sum(active), max(timestamp) FROM messages \
                    GROUP BY session_id",
            written: Some(1e6),
        },
        Mark {
            table: "messages",
            query: "SELECT session_id, max(id), count(*), sum(active) FROM messages GROUP BY session_id",
            written: None,
        },
        Mark {
            table: "messages",
            query: "SELECT session_id, max(id), count(*) FROM messages GROUP BY session_id",
            written: None,
        },
    ],
    written: ("ended_at", 1e6),
    parent: "parent_session_id",
    messages: Table {
        name: "messages",
        key: "messages",
        of: "session_id",
        order: &["id"],
        columns: &[
            "id",
            "session_id",
            "role",
            "content",
            "tool_call_id",
            "tool_calls",
            "tool_name",
            "timestamp",
            "token_count",
            "finish_reason",
            "reasoning",
            "reasoning_content",
            "active",
            "compacted",
        ],
        json: &["tool_calls"],
        spread: "",
    },
    parts: None,
    beside: Some(Table {
        name: "session_model_usage",
        key: "usage",
        of: "session_id",
        order: &["model"],
        columns: &[
            "session_id",
            "model",
            "task",
            "api_call_count",
            "input_tokens",
            "output_tokens",
            "cache_read_tokens",
            "cache_write_tokens",
            "reasoning_tokens",
            "estimated_cost_usd",
            "actual_cost_usd",
            "first_seen",
            "last_seen",
        ],
        json: &[],
        spread: "",
    }),
    strangers: &[],
    leaves_out: |_| false,
};

fields! {
    struct Row {
        id, source, model, config = "model_config", parent = "parent_session_id", started = "started_at",
        ended = "ended_at", reason = "end_reason", calls = "api_call_count", input = "input_tokens",
        output = "output_tokens", read = "cache_read_tokens", write = "cache_write_tokens",
        reasoning = "reasoning_tokens", cwd, estimated = "estimated_cost_usd", actual = "actual_cost_usd", title, last = "last_seen",
        left_out,
    }
    struct Config { max_iterations }
    struct Message {
        role, content, call = "tool_call_id", calls = "tool_calls", tool = "tool_name", time = "timestamp",
        finish = "finish_reason", reasoning, reasoning_content, active, compacted, left_out,
    }
    struct Call { id, function }
    struct Given {
        output, exit = "exit_code", error, success, diff, files = "files_modified", written = "bytes_written",
        path = "resolved_path",
    }
}

/// The reasons for an end. Those of sub-agents only say that the program released them.
const ENDS: &[End] = ends! {
    "interrupted" | "interrupt" | "cancelled" => Cancelled, "Interrupted";
    "error" | "failed" => Failed, "Failed with an error";
    "cli_close" | "new_session" => Unknown, "Closed by the user";
};

/// The reasons for an end of a session that the user closed, or replaced by a new one.
const CLOSED: [&str; 2] = ["cli_close", "new_session"];
/// The tools that only ask the user.
const QUESTIONS: &[&str] = &["clarify"];

/// The models of a session that are kept, at most.
const MAX_MODELS: usize = 64;

/// How the messages begin that the program writes as the user.
const SYSTEM: &str = "[System: ";
/// How the summary of a compaction begins, which the program writes as the user.
const SUMMARY: &str = "[CONTEXT COMPACTION";
/// What the program writes as the reply if the model returned none, even when asked again.
const EMPTY: &str = "(empty)";
/// How the message begins that the program writes as the model if it's interrupted.
const INTERRUPTED: &str = "Operation interrupted";
const AT_LIMIT: &str = "You've reached the maximum number of";

/// What a command prints that the user interrupted, and how the result of a call begins that the
/// program then skipped.
const STOPPED: &str = "[Command interrupted]";
const SKIPPED: &str = "[Tool execution skipped";
/// What the result of a call begins with, and what follows the name, if there is no such tool.
const NO_TOOL: [&str; 2] = ["Tool '", "' does not exist."];

/// A session while it's being read.
#[derive(Debug, Default)]
struct Session {
    talk: Conversation,
    children: Vec<Box<str>>,
    is_child: bool,
    max_iterations: Option<f64>,
    /// The recorded end.
    told: Option<Ended>,
    /// The end of the last turn, if it's over.
    end: Option<Ended>,
    /// The event in which the program tells the model that its iterations are used up, and the
    /// number of steps before it.
    at_limit: Option<(usize, usize)>,
    /// Whether the newest rows were replaced by a summary.
    is_compacted: bool,
    /// Whether the newest rows are those that a compaction kept.
    is_kept: bool,
    /// The hashes of the messages that were compacted, as [`print_of`].
    compacted: RecentSet<u64>,
    /// Whether the user closed the session.
    is_closed: bool,
    /// The number of replies whose tokens are in the sums of the session.
    counted: Option<u64>,
    /// The tokens of each model, with the time of its last use.
    models: Vec<(Box<str>, Usage, Option<i64>)>,
}

impl Reader for Session {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        match record.path {
            0 => self.row(record.text, draft),
            1 => self.children = children(record.text),
            2 => {
                draft.event(EventDraft::new("usage", None));
                self.used(record.text);
            }
            3 => self.message(record.text, draft),
            _ => draft.issue(IssueKind::TooLong, MORE_ROWS),
        }
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        let end = self.end.clone().or_else(|| self.told.clone());
        let at = draft.latest();
        // The summary after the limit isn't an iteration.
        let used = self.at_limit.map_or(self.talk.steps(), |(_, steps)| steps);
        let used = Some(used as f64);
        let is_answer = |end: &Ended| end.outcome == Outcome::Completed;
        let answered = self
            .talk
            .last()
            .filter(|_| end.as_ref().is_some_and(is_answer));
        let answer = answered.and_then(|n| draft.said(n));
        let open = self.talk.last().filter(|_| end.is_none());
        let asks = open.and_then(|n| draft.asks(n, QUESTIONS));
        let replies = self.talk.steps() as u64;
        let run = draft.run();
        run.final_result = answer;
        // The sums lack replies that were cut short.
        let counted = self.counted.filter(|_| run.tokens.is_some());
        run.replies_uncounted = counted.map_or(0, |counted| replies.saturating_sub(counted));
        // A request without an answer leaves no message, and a reply that was cut short isn't counted.
        run.model_calls = self.counted.filter(|calls| *calls > replies);
        let newest = self.models.iter().max_by_key(|(_, _, at)| *at);
        run.model = newest.map(|(model, ..)| model.clone()).or(run.model.take());
        run.models.clone_from(&self.models);
        let lacks = run.cost_usd.is_some() && run.replies_uncounted > 0;
        let note = lacks.then(|| "The recorded cost lacks replies that were cut short.".into());
        run.notes = note.into_iter().collect();
        run.limits = limit("max_iterations", self.max_iterations, "iterations", used)
            .into_iter()
            .collect();
        let is_users_turn = asks.is_some() || end.is_some();
        run.awaits_user = is_users_turn && !self.is_child && !self.is_closed;
        run.asks_user = asks;
        run.updated_at = at.filter(|_| end.is_some());
        run.ended = end.map(Box::new);
        run.turns = Some(self.talk.turns());
        run.children = Some(self.children.len() as u64);
        run.child_ids.clone_from(&self.children);
    }
}

impl Session {
    fn row(&mut self, record: &str, draft: &mut Draft<'_>) {
        let row = Row::of(record);
        if row.left_out.is_some() {
            draft.issue(IssueKind::TooLong, LARGE_ROW);
        }
        let at = draft.event(EventDraft::new("session", seconds(row.started)));
        self.is_child = row.source == Some("\"subagent\"");
        let config = row.config.map(Config::of).unwrap_or_default();
        self.max_iterations = above_zero(config.max_iterations);
        let reason = filled(row.reason);
        self.is_closed = reason.as_deref().is_some_and(|word| CLOSED.contains(&word));
        self.told = reason
            .and_then(|word| End::of(ENDS, &word))
            .map(|end| end.at_event(at));
        // Without a complete reply, the sums are zero.
        self.counted = count(row.calls);
        let is_counted = self.counted.is_some_and(|calls| calls > 0);
        let usage = usage(&row);
        let run = draft.run();
        run.run_id = short(row.id);
        // If it's no sub-agent, it continues a session whose context was full.
        if self.is_child {
            run.parent = short(row.parent);
        } else {
            run.continues = short(row.parent);
        }
        run.model = short(row.model);
        run.project = short(row.cwd);
        run.started_at = seconds(row.started);
        run.tool = Some("Hermes Agent".into());
        run.titles.extend(short(row.title));
        if is_counted {
            run.usage = usage;
            run.tokens = usage
                .input
                .zip(usage.output)
                .map(|(input, output)| input.saturating_add(output));
        }
        run.cost_usd = above_zero(row.actual).or_else(|| above_zero(row.estimated));
        run.cost_estimated = run.cost_usd.is_some() && above_zero(row.actual).is_none();
    }

    /// Adds the tokens of a model. Each provider and task of a model has a row.
    fn used(&mut self, record: &str) {
        let row = Row::of(record);
        let Some(model) = short(row.model).filter(|model| !model.is_empty()) else {
            return;
        };
        let (usage, at) = (usage(&row), seconds(row.last));
        let is_full = self.models.len() >= MAX_MODELS;
        match self.models.iter_mut().find(|(known, ..)| *known == model) {
            Some((_, sum, last)) => (*sum, *last) = (sum.plus(usage), at.max(*last)),
            None if is_full => {}
            None => self.models.push((model, usage, at)),
        }
    }

    fn message(&mut self, record: &str, draft: &mut Draft<'_>) {
        let message = Message::of(record);
        let role = text(message.role).unwrap_or_default();
        let mark = EventDraft::new(&role, seconds(message.time));
        if message.left_out.is_some() {
            draft.issue(IssueKind::TooLong, LARGE_MESSAGE);
        }
        let is_compacted = int(message.compacted).is_some_and(|compacted| compacted > 0);
        let was_compacted = std::mem::replace(&mut self.is_compacted, is_compacted);
        if is_compacted {
            self.compacted.insert(print_of(&message));
        }
        let is_first = was_compacted && !is_compacted;
        self.is_kept |= is_first;
        self.is_kept &=
            !is_compacted && (is_summary(&message) || self.compacted.contains(&print_of(&message)));
        match &*role {
            _ if self.is_kept => {
                draft.event(mark.stage("kept"));
            }
            "user" => self.user(&message, mark, draft),
            "assistant" => self.reply(record, &message, is_compacted, mark, draft),
            "tool" => {
                let part = part_in(record);
                let step = self.talk.step_of(&part);
                self.end = None;
                draft.results(step.as_slice(), mark, part);
            }
            _ => {
                draft.event(mark);
            }
        }
        if is_first {
            draft.compacted(Compaction {
                event: draft.newest(),
                tokens: None,
                tokens_after: None,
                trigger: "".into(),
            });
        }
    }

    /// Handles a prompt, or a message that the program sends like one.
    fn user(&mut self, message: &Message<'_>, mark: EventDraft<'_>, draft: &mut Draft<'_>) {
        let words = text(message.content).unwrap_or_default();
        if words.starts_with(AT_LIMIT) {
            self.at_limit = Some((draft.event(mark.stage("limit")), self.talk.steps()));
        } else if words.starts_with(SYSTEM) || words.is_empty() {
            draft.event(mark.stage("system"));
        } else {
            (self.end, self.at_limit) = (None, None);
            self.talk.prompt(&words, &mark, draft);
        }
    }

    fn reply(
        &mut self,
        record: &str,
        message: &Message<'_>,
        is_compacted: bool,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        let part = part_in(record);
        let is_own = part.finish.is_none() && part.calls.is_empty() && part.thought.is_empty();
        if is_own && part.text.iter().all(|words| words.starts_with(INTERRUPTED)) && part.has_text()
        {
            let at = draft.event(mark.stage("interrupted"));
            let end = Ended::new(
                INTERRUPTED,
                "Interrupted",
                Outcome::Cancelled,
                Certainty::Recorded,
            );
            self.end = Some(end.at_event(at));
            return;
        }
        let finish = part.finish.clone().unwrap_or_default();
        let has_calls = !part.calls.is_empty();
        let has_text = part.has_text();
        let is_empty = is_own && part.text.iter().all(|words| words == EMPTY) && has_text;
        let asked = draft.latest();
        let n = self.talk.reply(
            None,
            asked,
            EventDraft {
                kind: EventKind::Inside,
                ..mark
            },
            part,
            draft,
        );
        let at = draft.newest();
        // The user went back to a message before it.
        if int(message.active) == Some(0) && !is_compacted {
            draft.leave(n, true);
        }
        let end = match (&*finish, self.at_limit) {
            _ if has_calls => None,
            _ if is_empty => Some(Ended::unanswered(EMPTY).at_event(at)),
            (_, Some((at, steps))) => Some(
                Ended::new(
                    "max_iterations",
                    "Step limit reached",
                    Outcome::Truncated,
                    Certainty::Recorded,
                )
                .compare(Some(steps as f64), self.max_iterations, "iterations")
                .at_event(at),
            ),
            ("stop", None) if !has_text => Some(Ended::unanswered("stop").at_event(at)),
            ("stop", None) => Some(Ended::answered("stop").at_event(at)),
            ("length", None) => Some(Ended::cut_reply("length").at_event(at)),
            ("content_filter", None) => Some(Ended::refused("content_filter").at_event(at)),
            _ => None,
        };
        self.end = end;
    }
}

/// Returns whether a message is the summary of a compaction.
fn is_summary(message: &Message<'_>) -> bool {
    text(message.content).is_some_and(|words| words.starts_with(SUMMARY))
}

/// Returns a hash that a message shares with its copy. The content of a result isn't always copied.
fn print_of(message: &Message<'_>) -> u64 {
    let calls = message.calls.into_iter().flat_map(walk::items);
    let ids: Vec<&str> = calls.filter_map(|call| Call::of(call).id).collect();
    let call = message.call.filter(|call| *call != "null");
    let named = call.map_or(ids, |call| vec![call]);
    let content = message.content.filter(|_| named.is_empty());
    let parts = message.role.into_iter().chain(named).chain(content);
    StepHead::print_of(parts.collect::<Vec<_>>().join("\n").as_bytes())
}

/// Returns the tokens of a session or of a model in it. Hermes counts cached input separately from
/// other input.
fn usage(row: &Row<'_>) -> Usage {
    let or_zero = |value| count(value).unwrap_or_default();
    let cache = or_zero(row.read).saturating_add(or_zero(row.write));
    Usage {
        input: count(row.input).map(|input| input.saturating_add(cache)),
        cached: count(row.read),
        output: count(row.output),
        reasoning: count(row.reasoning),
        written: count(row.write),
        written_1h: None,
    }
}

/// Returns the part of a step that a message contains.
fn part_in(record: &str) -> Part {
    let message = Message::of(record);
    let mut part = Part::default();
    if message.role == Some("\"tool\"") {
        result(&message, &mut part);
        return part;
    }
    part.finish = filled(message.finish);
    part.text.extend(filled(message.content));
    part.thought
        .extend(filled(message.reasoning).or_else(|| filled(message.reasoning_content)));
    let calls = message
        .calls
        .into_iter()
        .flat_map(walk::items)
        .map(Call::of);
    part.calls
        .extend(calls.map(|call| function_call(call.id, call.function)));
    part
}

/// Adds a result. Its content is JSON, which a warning may follow.
fn result(message: &Message<'_>, part: &mut Part) {
    let content = text(message.content).unwrap_or_default();
    let object = object_at_start(&content);
    let given = object.map(Given::of).unwrap_or_default();
    let exit = int(given.exit);
    let has_no_tool = object.is_none() && is_unknown_tool(&content);
    let error = filled(given.error).or_else(|| has_no_tool.then(|| content.clone()));
    let is_stopped = text(given.output).is_some_and(|output| output == STOPPED)
        || object.is_none() && content.starts_with(SKIPPED);
    let failed = is_stopped
        || exit.is_some_and(|exit| exit != 0)
        || error.is_some()
        || given.success == Some("false");
    let output = text(given.output).filter(|_| given.exit.is_some());
    let words = match (&error, &output) {
        (Some(error), Some(output)) if !output.is_empty() => Some(format!("{error}\n{output}")),
        (Some(error), _) => Some(error.clone()),
        (None, Some(output)) if !output.is_empty() => Some(output.clone()),
        (None, _) if object.is_none() => Some(content.clone()),
        (None, _) => None,
    };
    let words = words.or_else(|| Some(NO_WORDS.to_owned()));
    let status = match object {
        _ if is_stopped => Some("cancelled"),
        _ if failed => Some("error"),
        Some(_) => Some("success"),
        None => None,
    };
    if !failed {
        changes(&given, part);
    }
    part.answers.push(Answer {
        call: text(message.call).unwrap_or_default(),
        status,
        output: if failed {
            "null".to_owned()
        } else {
            quoted(&output.unwrap_or(content))
        },
        error: words.filter(|_| failed),
        exit,
        ms: None,
    });
}

/// Adds the files that a call changed.
fn changes(given: &Given<'_>, part: &mut Part) {
    let files = given.files.into_iter().flat_map(walk::items);
    let mut files: Vec<String> = files.filter_map(|path| filled(Some(path))).collect();
    if files.is_empty() && given.written.is_some() {
        files.extend(filled(given.path));
    }
    // A diff of several files doesn't show which lines belong to which file.
    let diff = filled(given.diff).filter(|_| files.len() == 1);
    part.diffs
        .extend(diff.map(|diff| (part.changes.len(), diff)));
    let keys = files.into_iter().map(|path| format!("files.{path}"));
    part.changes.extend(keys.map(|key| (key, None, None)));
}

/// Returns whether a result says that there is no such tool.
fn is_unknown_tool(content: &str) -> bool {
    let [before, after] = NO_TOOL;
    let rest = content.strip_prefix(before);
    rest.and_then(|rest| rest.split_once(after))
        .is_some_and(|(name, _)| !name.contains(['\'', '\n']))
}

/// Returns the JSON object with which a text begins.
fn object_at_start(content: &str) -> Option<&str> {
    let content = content.trim_start();
    if !content.starts_with('{') {
        return None;
    }
    let mut values =
        serde_json::Deserializer::from_str(content).into_iter::<&serde_json::value::RawValue>();
    values.next()?.ok().map(|value| value.get())
}
