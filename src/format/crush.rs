//! Reads sessions of Crush: rows of the SQLite database `crush.db` that it keeps in each project.
//!
//! A row of `messages` is a prompt, a reply or a result. Its `parts` are a list of objects with a
//! type and data. The last part of a reply records why it ended. A killed program leaves a reply
//! without that part. A session's tokens are those of its newest request, so no total is recorded. Its
//! cost includes that of its sub-agents, except those that failed. Times are in seconds, and rows of
//! the same second are in the order in which they were written. This reader is based on the source of
//! version 0.96.

use std::collections::HashMap;

use super::conversation::Conversation;
use super::ends::{End, ends};
use super::lines::is_store_of;
use super::part::{self, quoted, text};
use super::rows::{LARGE_MESSAGE, LARGE_ROW, MORE_ROWS, STORE, children};
use super::value::{
    above_zero, cut, filled, hunks, int, is_true, listed, member, short, time, unpacked,
};
use super::{
    Answer, CallDraft, Draft, EventDraft, Mark, Part, Reader, Rows, Several, Shape, Source, Table,
    Tool, USER_SHELL,
};
use crate::model::json::walk;
use crate::model::step::NO_WORDS;
use crate::model::{
    Can, Capabilities, Certainty, Compaction, Ended, EventKind, Format, IssueKind, Outcome,
};

/// A session.
pub(super) static SESSION: Tool = Tool {
    format: Format {
        name: "Crush session",
        can: Capabilities {
            state: Can::Partly,
            times: Can::Yes,
            cost: Can::Partly,
            ..Capabilities::NONE
        },
        file: "database",
        no_end_reason: "Crush leaves the same record when it's killed and when it stops a loop",
        is_session: true,
        resume: "crush --session",
        assemble: Some(assembled),
        ..Format::UNKNOWN
    },
    shape: Shape::Several(&Several {
        rows: Some(&ROWS),
        ..STORE
    }),
    is: |name, head| is_store_of(name, head, "crush"),
    reader: || Box::new(Session::default()),
};

static ROWS: Rows = Rows {
    what: "a Crush store",
    run: Table {
        name: "sessions",
        key: "session",
        of: "",
        order: &[],
        columns: &[
            "id",
            "parent_session_id",
            "title",
            "message_count",
            "prompt_tokens",
            "completion_tokens",
            "cost",
            "summary_message_id",
            "todos",
            "created_at",
            "updated_at",
        ],
        json: &["todos"],
        spread: "",
    },
    versions: &[
        "parent_session_id",
        "title",
        "message_count",
        "prompt_tokens",
        "completion_tokens",
        "cost",
        "summary_message_id",
        "todos",
        "updated_at",
    ],
    marks: &[Mark {
        table: "messages",
        // Replies grow in place, several times in a second. An index has the rest.
        query: "SELECT session_id, max(rowid), count(*), (SELECT sum(octet_length(parts)) FROM (SELECT parts \
                FROM messages AS m WHERE m.session_id = messages.session_id ORDER BY m.rowid DESC LIMIT 50)), \
                (SELECT max(updated_at) FROM (SELECT updated_at FROM messages AS m \
                WHERE m.session_id = messages.session_id ORDER BY m.rowid DESC LIMIT 50)) \
                FROM messages GROUP BY session_id",
        written: Some(1e6),
    }],
    written: ("updated_at", 1e6),
    parent: "parent_session_id",
    messages: Table {
        name: "messages",
        key: "messages",
        of: "session_id",
        order: &["created_at"],
        columns: &[
            "id",
            "session_id",
            "role",
            "parts",
            "model",
            "provider",
            "is_summary_message",
            "created_at",
            "updated_at",
            "finished_at",
        ],
        json: &["parts"],
        spread: "",
    },
    parts: None,
    beside: None,
    strangers: &[],
    leaves_out: |_| false,
};

fields! {
    struct Row {
        id, parent = "parent_session_id", title, cost, summary = "summary_message_id", created = "created_at", left_out,
    }
    struct Message {
        id, role, parts, model, summary = "is_summary_message", created = "created_at", updated = "updated_at",
        finished = "finished_at", left_out,
    }
    struct Piece { kind = "type", data }
    struct Data {
        text, thinking, id, name, input, call = "tool_call_id", content, metadata, failed = "is_error", reason, message,
        details,
    }
    struct Details {
        start = "start_time", end = "end_time", shell = "shell_id", output, dir = "working_directory",
        old = "old_content", new = "new_content", additions, removals, diff, todos, hook,
    }
}

/// The reasons for the end of a reply that end the turn. `permission_denied` is a word of older
/// versions.
const ENDS: &[End] = ends! {
    "canceled" => Cancelled, "Interrupted";
    "permission_denied" => Cancelled, "Cancelled by the user";
    "error" => Failed, "Failed with an error";
};

/// Default titles.
const UNTITLED: [&str; 5] = [
    "Untitled Session",
    "New Session",
    "New Agent Session",
    "Fetch Analysis",
    "non-interactive",
];
/// How the prompt begins with which the program continues after a summary.
const RESUMED: &str = "The previous session was interrupted because it got too long, ";
/// What the program writes as the result of a call that the user didn't permit, and of one that was
/// interrupted.
const DENIED: [&str; 2] = ["User denied permission", "Permission denied"];
const STOPPED: [&str; 2] = [
    "Error: user cancelled assistant tool calling",
    "Tool execution canceled by user",
];
/// How the result of a sub-agent begins that ended without an answer. It counts as an error.
const WORDLESS: &str = "Sub-agent completed but produced no text output.";
/// How the result of a call begins if a hook ended the turn.
const HALTED: &str = "Turn halted by hook. Reason: ";
/// How the last line of a failed command's output begins.
const EXIT: &str = "Exit code ";
/// The last line of the output of a command that was interrupted.
const ABORTED: &str = "Command was aborted before completion";
/// What precedes the directory that the program adds to a command's output.
const DIR: &str = "\n\n<cwd>";
/// How results begin that name the file that was changed.
const CHANGED: [&str; 5] = [
    "File successfully written",
    "File created",
    "Content replaced in file",
    "Content deleted from file",
    "Applied ",
];
/// Why a message can't be read.
const ODD_PARTS: &str = "the parts of a message aren't a list of objects with a type and data";

/// A session while it's being read.
#[derive(Debug, Default)]
struct Session {
    talk: Conversation,
    children: Vec<Box<str>>,
    is_child: bool,
    /// The children that are running, by the ids of their calls, truncated. At most as many as there are
    /// children.
    running: HashMap<Box<str>, Box<str>>,
    /// The children whose cost was added to that of the session.
    paid: Vec<Box<str>>,
    /// The id of the newest summary. Older versions mark it nowhere else.
    summary: Option<String>,
    /// Why the newest reply ended, and the event that records it.
    finish: Option<(Finish, usize)>,
}

/// Why a reply ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Finish {
    reason: String,
    /// The error.
    words: Option<String>,
}

impl Reader for Session {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        match record.path {
            0 => self.row(record.text, draft),
            1 => self.children = children(record.text),
            2 => self.message(record.text, draft),
            _ => draft.issue(IssueKind::TooLong, MORE_ROWS),
        }
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        let end = self.end(draft);
        let at = draft.latest();
        let run = draft.run();
        run.awaits_user = end.is_some() && !self.is_child;
        run.updated_at = at.filter(|_| end.is_some());
        run.ended = end.map(Box::new);
        run.turns = Some(self.talk.turns());
        run.children = Some(self.children.len() as u64);
        run.child_ids.clone_from(&self.children);
        run.paid_children.clone_from(&self.paid);
    }
}

impl Session {
    fn row(&mut self, record: &str, draft: &mut Draft<'_>) {
        let row = Row::of(record);
        if row.left_out.is_some() {
            draft.issue(IssueKind::TooLong, LARGE_ROW);
        }
        draft.event(EventDraft::new("session", time(row.created)));
        self.is_child = filled(row.parent).is_some();
        self.summary = filled(row.summary);
        let run = draft.run();
        run.run_id = short(row.id);
        run.parent = short(row.parent).filter(|parent| !parent.is_empty());
        run.started_at = time(row.created);
        run.tool = Some("Crush".into());
        let title = filled(row.title).filter(|title| !UNTITLED.contains(&&**title));
        run.titles.extend(title.map(|title| cut(&title)));
        // By the program's own prices, unless the provider reports the cost.
        run.cost_usd = above_zero(row.cost);
        run.cost_with_children = run.cost_usd.is_some();
    }

    fn message(&mut self, record: &str, draft: &mut Draft<'_>) {
        let message = Message::of(record);
        let role = text(message.role).unwrap_or_default();
        let mark = EventDraft::new(&role, time(message.created));
        if message.left_out.is_some() {
            draft.issue(IssueKind::TooLong, LARGE_MESSAGE);
        }
        if is_odd(&message) {
            draft.issue(IssueKind::Field, ODD_PARTS);
        }
        let is_summary = int(message.summary).is_some_and(|summary| summary != 0)
            || self.summary.is_some() && text(message.id) == self.summary;
        match &*role {
            "user" => self.user(&message, mark, draft),
            "assistant" if is_summary => self.summary(&message, mark, draft),
            "assistant" => self.reply(record, &message, mark, draft),
            "tool" => {
                let n = self.talk.step_of(&part_of(record, None));
                let part = part_of(record, n.and_then(|n| draft.step(n)));
                self.project(&message, n, draft);
                self.pay(&message);
                draft.results(n.as_slice(), mark, part);
            }
            _ => {
                draft.event(mark);
            }
        }
    }

    /// Handles a prompt, or a command that the user ran.
    fn user(&mut self, message: &Message<'_>, mark: EventDraft<'_>, draft: &mut Draft<'_>) {
        let words: Vec<String> = of_kind(message, "text")
            .filter_map(|data| filled(data.text))
            .collect();
        let words = words.join("\n\n");
        if words.is_empty() && of_kind(message, "shell_command").next().is_some() {
            draft.event(mark.stage(USER_SHELL));
            return;
        }
        self.finish = None;
        if words.starts_with(RESUMED) {
            draft.event(mark.stage("resumed"));
        } else {
            self.talk.prompt(&words, &mark, draft);
        }
    }

    /// Handles the summary that replaces everything before it in the model's context.
    fn summary(&mut self, message: &Message<'_>, mark: EventDraft<'_>, draft: &mut Draft<'_>) {
        let finish = finish_of(message).unwrap_or_default();
        let failed = finish.reason == "error";
        let mark = EventDraft {
            ts: ended_at(message).or(mark.ts),
            ..mark.stage("summary")
        };
        let event = draft.event(mark.failed(failed));
        if failed {
            // It ends a turn that would have continued.
            if self.end(draft).is_none() {
                self.finish = Some((finish, event));
            }
        } else if finish.reason == "end_turn" {
            draft.compacted(Compaction {
                event,
                tokens: None,
                tokens_after: None,
                trigger: "".into(),
            });
        }
    }

    fn reply(
        &mut self,
        record: &str,
        message: &Message<'_>,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        let part = part_of(record, None);
        let finish = finish_of(message);
        let failed = part.error.is_some();
        let is_empty = part.text.is_empty() && part.thought.is_empty() && part.calls.is_empty();
        let is_over = matches!(
            finish.as_ref().map(|finish| &*finish.reason),
            Some("canceled" | "error")
        );
        let is_unreadable = finish.is_none() && is_odd(message);
        if is_empty && (is_over || is_unreadable) {
            // There is no reply to the request, or it's unknown what it was.
            let at = draft.event(EventDraft {
                ts: ended_at(message).or(mark.ts),
                ..mark.failed(failed)
            });
            self.finish = finish.map(|finish| (finish, at));
            return;
        }
        draft.name_model(&part);
        let asked = mark.ts;
        let mark = EventDraft {
            kind: EventKind::Inside,
            ts: ended_at(message).or(mark.ts),
            ..mark.failed(failed)
        };
        self.started(message, &part);
        self.talk.reply(None, asked, mark, part, draft);
        self.finish = finish.map(|finish| (finish, draft.newest()));
    }

    /// Remembers the children that the calls of a reply start. Their ids are those of the reply and of
    /// the call.
    fn started(&mut self, message: &Message<'_>, part: &Part) {
        let Some(reply) = text(message.id).filter(|_| !self.children.is_empty()) else {
            return;
        };
        for call in &part.calls {
            let id = cut(&format!("{reply}$${}", call.id));
            if self.running.len() < self.children.len() && self.children.contains(&id) {
                self.running.insert(cut(&call.id), id);
            }
        }
    }

    /// Notes the children whose cost the program added to that of the session. It doesn't add that of
    /// a child that failed.
    fn pay(&mut self, message: &Message<'_>) {
        for data in of_kind(message, "tool_result") {
            let child = text(data.call).and_then(|call| self.running.remove(&cut(&call)));
            let is_paid = data.failed == Some("false")
                || text(data.content).is_some_and(|said| said.starts_with(WORDLESS));
            let child = child.filter(|child| is_paid && !self.paid.contains(child));
            self.paid.extend(child);
        }
    }

    /// Sets the directory that the agent works in to that of its first command, unless the call
    /// names another one.
    fn project(&self, message: &Message<'_>, n: Option<usize>, draft: &mut Draft<'_>) {
        if draft.run().project.is_some() {
            return;
        }
        let dir = of_kind(message, "tool_result").find_map(|data| {
            let metadata = filled(data.metadata)?;
            let dir = filled(Details::of(&metadata).dir)?;
            let id = text(data.call)?;
            let calls = &draft.step(n?)?.calls;
            let call = calls.iter().find(|call| call.id == id)?;
            let is_elsewhere = filled(member(&call.args, "working_dir")).is_some();
            (call.name == "bash" && !is_elsewhere).then(|| cut(&dir))
        });
        draft.run().project = dir;
    }

    /// Returns the end of the last turn, if it's over.
    fn end(&self, draft: &Draft<'_>) -> Option<Ended> {
        let (finish, at) = self.finish.as_ref()?;
        let n = self.talk.last();
        let step = n.and_then(|n| draft.step(n));
        let calls = step.map(|step| &*step.calls).unwrap_or_default();
        let word = &*finish.reason;
        let end = match word {
            "end_turn" if step.is_some_and(|step| calls.is_empty() && !step.has_text()) => {
                Some(Ended::unanswered(word))
            }
            "end_turn" if calls.is_empty() => Some(Ended::answered(word)),
            "max_tokens" => Some(Ended::cut_reply(word)),
            "content_filter" => Some(Ended::refused(word)),
            // The program ends the turn after a call that was refused.
            "end_turn" | "permission_denied" => {
                let step = step?;
                let said = |answer: &Answer| answer.error.clone().unwrap_or_default();
                let is_denied = |answer: &&Answer| DENIED.contains(&&*said(answer));
                let halted = step
                    .answers
                    .iter()
                    .find_map(|answer| said(answer).strip_prefix(HALTED).map(cut));
                let call = step
                    .answers
                    .iter()
                    .find(is_denied)
                    .and_then(|answer| step.calls.iter().find(|call| call.id == answer.call));
                match (call, halted) {
                    (Some(call), _) => Some(Ended::cancelled_call(
                        word,
                        "by the user",
                        n?,
                        &call.name,
                        Certainty::Recorded,
                    )),
                    (None, Some(reason)) => {
                        let headline = "Stopped by a hook";
                        let end = Ended::new(word, headline, Outcome::Halted, Certainty::Recorded);
                        Some(end.detail(reason))
                    }
                    (None, None) => End::of(ENDS, word),
                }
            }
            _ => End::of(ENDS, word),
        }?;
        let words = finish
            .words
            .as_deref()
            .filter(|_| end.outcome == Outcome::Failed);
        let end = match words {
            Some(words) => end.detail(cut(words)),
            None => end,
        };
        Some(end.at_event(*at))
    }
}

/// Returns the parts of a message.
fn pieces<'a>(message: &Message<'a>) -> impl Iterator<Item = (Piece<'a>, Data<'a>)> {
    let parts = listed(message.parts).map(Piece::of);
    parts.map(|piece| (piece, piece.data.map(Data::of).unwrap_or_default()))
}

/// Returns whether a part of a message has another form than the program writes.
fn is_odd(message: &Message<'_>) -> bool {
    let is_part = |part: &str| {
        let piece = Piece::of(part);
        filled(piece.kind).is_some() && piece.data.is_some_and(|data| data.starts_with('{'))
    };
    let parts = message.parts.filter(|parts| *parts != "null");
    parts.is_some_and(|parts| {
        !parts.starts_with('[') || walk::items(parts).any(|part| !is_part(part))
    })
}

/// Returns the data of the parts of this kind.
fn of_kind<'a>(message: &Message<'a>, kind: &'static str) -> impl Iterator<Item = Data<'a>> {
    pieces(message)
        .filter(move |(piece, _)| text(piece.kind).as_deref() == Some(kind))
        .map(|(_, data)| data)
}

/// Returns why a reply ended.
fn finish_of(message: &Message<'_>) -> Option<Finish> {
    let data = of_kind(message, "finish").last()?;
    let reason = filled(data.reason)?;
    let words = [data.message, data.details].map(filled);
    let words: Vec<String> = words.into_iter().flatten().collect();
    Some(Finish {
        words: Some(words.join(": ")).filter(|words| reason == "error" && !words.is_empty()),
        reason,
    })
}

/// Returns when a reply ended.
fn ended_at(message: &Message<'_>) -> Option<i64> {
    time(message.finished).or_else(|| time(message.updated))
}

/// Returns the line of step `n`.
fn assembled(n: usize, records: &[String]) -> String {
    part::line_of(n, records, |record, step| part_of(record, Some(step)))
}

/// Returns the part of a step that a message contains. `step` is the step so far, with the calls of
/// results.
fn part_of(record: &str, step: Option<&Part>) -> Part {
    let message = Message::of(record);
    let mut part = Part::default();
    let is_result = text(message.role).as_deref() == Some("tool");
    for (piece, data) in pieces(&message) {
        match text(piece.kind).as_deref() {
            Some("tool_result") if is_result => result(&data, step, &mut part),
            _ if is_result => {}
            Some("text") => part.text.extend(filled(data.text)),
            Some("reasoning") => part.thought.extend(filled(data.thinking)),
            // The arguments are JSON text, which is empty while they are being written.
            Some("tool_call") => part.calls.push(CallDraft {
                id: text(data.id).unwrap_or_default(),
                name: text(data.name).unwrap_or_default(),
                args: filled(data.input).map_or_else(|| "{}".to_owned(), |args| unpacked(&args)),
            }),
            _ => {}
        }
    }
    if !is_result {
        let finish = finish_of(&message).unwrap_or_default();
        part.model = filled(message.model);
        part.error =
            (finish.reason == "error").then(|| finish.words.unwrap_or_else(|| NO_WORDS.to_owned()));
        part.finish = Some(finish.reason).filter(|reason| !reason.is_empty());
    }
    part
}

/// Adds a result, and the files and the plan that its call changed.
fn result(data: &Data<'_>, step: Option<&Part>, part: &mut Part) {
    let id = text(data.call).unwrap_or_default();
    let mut calls = step.into_iter().flat_map(|step| &step.calls);
    let call = calls.find(|call| call.id == id);
    let name = filled(data.name).or_else(|| call.map(|call| call.name.clone()));
    let is_command = name.as_deref() == Some("bash");
    let said = text(data.content).unwrap_or_default();
    // It is JSON text.
    let metadata = filled(data.metadata).unwrap_or_default();
    let details = Details::of(&metadata);
    // One that still runs has a shell.
    let is_done = is_command && filled(details.shell).is_none();
    let output = filled(details.output).unwrap_or_else(|| without_dir(&said).to_owned());
    let end = Some(&*output).filter(|_| is_done).and_then(last_line);
    let exit = end.and_then(|line| line.strip_prefix(EXIT)?.parse().ok());
    let is_stopped = STOPPED.contains(&&*said) || DENIED.contains(&&*said);
    let is_aborted = end == Some(ABORTED);
    // For the program, a failed command is a success.
    let is_failed_command = is_aborted || exit.is_some_and(|exit: i64| exit != 0);
    let status = match data.failed {
        _ if is_true(data.failed) && is_stopped || is_aborted => Some("cancelled"),
        _ if is_true(data.failed) || is_failed_command => Some("error"),
        Some("false") => Some("success"),
        _ => None,
    };
    let bad = matches!(status, Some("error" | "cancelled"));
    // The directory and the text of a hook aren't part of the error.
    let words = match is_failed_command && !is_true(data.failed) {
        true => &output,
        false => &said,
    };
    let span = int(details.start).zip(int(details.end));
    if status == Some("success")
        && let Some(call) = call
    {
        changes(call, &details, &said, part);
    }
    part.answers.push(Answer {
        call: id,
        status,
        error: bad.then(|| match &**words {
            "" => NO_WORDS.to_owned(),
            words => words.to_owned(),
        }),
        output: if bad {
            "null".to_owned()
        } else {
            quoted(&said)
        },
        exit,
        ms: span
            .filter(|_| is_done)
            .and_then(|(start, end)| end.checked_sub(start))
            .filter(|ms| *ms >= 0)
            .map(|ms| ms as f64),
    });
}

/// Returns the result of a command without the directory, and without what a hook added after it.
fn without_dir(said: &str) -> &str {
    said.rsplit_once(DIR).map_or(said, |(output, _)| output)
}

/// Returns the last line of a command's output if the program may have added it. The program adds
/// it after an error's text, and writes no line break after it. What a command prints usually ends
/// with one.
fn last_line(output: &str) -> Option<&str> {
    let (before, line) = output.rsplit_once('\n')?;
    before.contains('\n').then_some(line)
}

/// Returns the path of the file that a successful call changed. A hook may have changed the
/// arguments. The changed ones aren't recorded, but the result names the file.
fn target(call: &CallDraft, details: &Details<'_>, said: &str) -> Option<String> {
    if !is_rewritten(details) {
        return filled(member(&call.args, "file_path"));
    }
    let line = said.lines().find(|line| *line != "<result>")?;
    let (what, path) = line.split_once(": ")?;
    let is_known = CHANGED.iter().any(|known| what.starts_with(known));
    let path = match path.strip_suffix(" edit(s) failed)") {
        Some(path) => path.rsplit_once(" (")?.0,
        None => path,
    };
    (is_known && !path.is_empty()).then(|| path.to_owned())
}

/// Returns whether a hook changed the arguments of a call.
fn is_rewritten(details: &Details<'_>) -> bool {
    details
        .hook
        .is_some_and(|hook| is_true(member(hook, "input_rewrite")))
}

/// Adds the files and the plan that a successful call changed.
fn changes(call: &CallDraft, details: &Details<'_>, said: &str, part: &mut Part) {
    let path = || target(call, details, said).map(|path| format!("files.{path}"));
    match &*call.name {
        // An empty content isn't written.
        "edit" | "multiedit" => {
            let is_told = details.old.or(details.new).or(details.additions).is_some();
            let content = |value: Option<&str>| {
                let value = value.filter(|value| value.starts_with('"'));
                is_told.then(|| value.unwrap_or("\"\"").to_owned())
            };
            let sides = (content(details.old), content(details.new));
            part.changes
                .extend(path().map(|path| (path, sides.0, sides.1)));
        }
        "write" => {
            if let Some(path) = path() {
                let diff = filled(details.diff).and_then(|diff| hunks(&diff));
                part.diffs
                    .extend(diff.map(|diff| (part.changes.len(), diff)));
                let content = member(&call.args, "content")
                    .filter(|text| text.starts_with('"') && !is_rewritten(details));
                part.changes.push((path, None, content.map(str::to_owned)));
            }
        }
        "todos" => {
            let todos = details.todos.map(str::to_owned);
            part.changes
                .extend(todos.map(|todos| ("todos".to_owned(), None, Some(todos))));
        }
        _ => {}
    }
}
