//! Reads sessions of OpenCode, and of Kilo, which has the same tables: rows of one SQLite database
//! for all projects, `opencode.db` or `kilo.db`. Before version 1.2, each session, message and part had a
//! separate file. `opencode export` writes one document with all of them.
//!
//! A session has messages, and a message has parts. A message of the assistant is one reply with
//! its calls and their results, so it's a step. Parts change in place while a reply is being
//! written. Killing the program leaves a reply without `time.completed`. No row records how a
//! session ended. This reader is based on OpenCode 1.18, 1.1 and 1.0, and on Kilo 7.7.

use super::ends::{End, ends};
use super::lines::is_store_of;
use super::part::{self, text};
use super::recent::RecentSet;
use super::rows::{LARGE_MESSAGE, LARGE_ROW, MORE_ROWS, STORE};
use super::value::{
    above_zero, aside, below, count, cut, filled, int, is_true, member, millis, number, short,
    unpacked,
};
use super::watch::{begun, has_begun};
use super::{
    Answer, CallDraft, Composed, Draft, EventDraft, Mark, Part, Paths, Reader, Rows, Several,
    Shape, Source, Table, Tokens, Tool, USER_SHELL,
};
use crate::model::json::walk;
use crate::model::step::NO_WORDS;
use crate::model::{
    Can, Capabilities, Certainty, Compaction, Ended, EventKind, Format, IssueKind, Outcome,
};

/// A session of OpenCode.
pub(super) static OPENCODE: Tool = Tool {
    format: Format {
        name: "OpenCode session",
        can: Capabilities {
            state: Can::Partly,
            times: Can::Yes,
            tokens: Can::Yes,
            cost: Can::Partly,
            ..Capabilities::NONE
        },
        file: "database",
        no_end_reason: "OpenCode's sessions don't record how they ended",
        is_session: true,
        adds_to_prompts: false,
        resume: "opencode --session",
        is_in_order: false,
        assemble: Some(|n, records| {
            part::line(n, records.iter().map(|record| part_in(&message_in(record))))
        }),
        ..Format::UNKNOWN
    },
    shape: Shape::Several(&Several {
        rows: Some(&Rows {
            what: "an OpenCode store",
            ..ROWS
        }),
        ..STORE
    }),
    is: |name, head| is_store_of(name, head, "opencode"),
    reader: || Box::new(Session::of("OpenCode")),
};

/// A session of Kilo.
pub(super) static KILO: Tool = Tool {
    format: Format {
        name: "Kilo session",
        no_end_reason: "Kilo's sessions don't record how they ended",
        resume: "kilo --session",
        ..OPENCODE.format
    },
    shape: Shape::Several(&Several {
        rows: Some(&Rows {
            what: "a Kilo store",
            ..ROWS
        }),
        ..STORE
    }),
    is: |name, head| is_store_of(name, head, "kilo"),
    reader: || Box::new(Session::of("Kilo")),
};

/// A session whose messages and parts have their own files.
pub(super) static FILES: Tool = Tool {
    format: Format {
        file: "session file",
        ..OPENCODE.format
    },
    shape: Shape::Composed(&Composed {
        paths: DOCUMENT,
        levels: 2,
        messages: ("message", "ses_"),
        parts: ("part", "msg_"),
    }),
    is: |name, head| {
        name.starts_with("ses_")
            && name.ends_with(".json")
            && has_begun(head, &["id", "projectID", "directory"])
    },
    reader: || Box::new(Session::of("OpenCode")),
};

/// A session as one document, which `opencode export` and copies of a session are.
pub(super) static EXPORT: Tool = Tool {
    format: FILES.format,
    shape: Shape::Document(DOCUMENT),
    is: |name, head| {
        let is_session =
            |info: &str| text(member(info, "id")).is_some_and(|id| id.starts_with("ses_"));
        let info = begun(head).into_iter().find(|(key, _)| *key == "\"info\"");
        name.ends_with(".json") && info.is_some_and(|(_, info)| is_session(info))
    },
    reader: || Box::new(Session::of("OpenCode")),
};

/// The records of a session in one document, in the order of those of a database.
const DOCUMENT: Paths = &[
    &["info"],
    &["children"],
    &["messages", "*"],
    &["left_out"],
    &["missing"],
];

const ROWS: Rows = Rows {
    what: "",
    run: Table {
        name: "session",
        key: "session",
        of: "",
        order: &[],
        columns: &[
            "id",
            "parent_id",
            "directory",
            "title",
            "version",
            "agent",
            "model",
            "cost",
            "tokens_input",
            "tokens_output",
            "tokens_reasoning",
            "tokens_cache_read",
            "tokens_cache_write",
            "summary_additions",
            "summary_deletions",
            "summary_files",
            "revert",
            "time_created",
            "time_updated",
            "time_compacting",
            "time_archived",
        ],
        json: &["model", "revert"],
        spread: "",
    },
    versions: &[
        "title",
        "parent_id",
        "cost",
        "tokens_input",
        "tokens_output",
        "revert",
        "time_archived",
    ],
    marks: &[
        // Each change of a session, a message or a part adds an event.
        Mark {
            table: "event_sequence",
            query: "SELECT aggregate_id, seq FROM event_sequence",
            written: None,
        },
        // Versions without events.
        Mark {
            table: "part",
            query: "SELECT session_id, max(time_updated), count(*) FROM part GROUP BY session_id",
            written: None,
        },
    ],
    written: ("time_updated", 1e3),
    parent: "parent_id",
    messages: Table {
        name: "message",
        key: "messages",
        of: "session_id",
        order: &["time_created", "id"],
        columns: &["id", "session_id", "time_created", "time_updated", "data"],
        json: &["data"],
        spread: "data",
    },
    parts: Some(Table {
        name: "part",
        key: "parts",
        of: "message_id",
        order: &["id"],
        columns: &["id", "message_id", "time_created", "time_updated", "data"],
        json: &["data"],
        spread: "data",
    }),
    beside: None,
    strangers: &[],
    // Kilo changes it without an event.
    leaves_out: |part| text(member(part, "type")).as_deref() == Some("step-start"),
};

fields! {
    struct Row {
        id, parent = "parent_id", directory, title, version, agent, model, cost, revert, created = "time_created",
        left_out, parent_id = "parentID", time, unreadable,
    }
    struct Model { id }
    struct Message {
        id, created = "time_created", parts, left_out, role, model = "modelID", agent, path, cost, tokens, time, finish,
        error, summary, info, mode, provider = "providerID", unreadable, session = "sessionID",
    }
    struct Dirs { cwd }
    struct Usage { input, output, reasoning, cache, total }
    struct Cache { read, write }
    struct Time { created, completed, start, end }
    struct Piece {
        updated = "time_updated", left_out, kind = "type", text, synthetic, ignored, tool, call = "callID", state, auto,
        cost, reason, time, unreadable, of = "messageID",
    }
    struct State { status, input, output, error, time, metadata }
    struct Invalid { tool, error }
    struct Details {
        exit, session = "sessionId", diff, filediff, files, todos, path = "filepath",
    }
    struct Changed { file, path = "filePath", relative = "relativePath", diff, patch }
    struct Failure { name, data }
    struct Reason { message, status = "statusCode" }
}

/// The errors that end a turn.
const ENDS: &[End] = ends! {
    "MessageAbortedError" => Cancelled, "Interrupted";
    "MessageOutputLengthError" => Truncated, Ended::CUT_REPLY;
    "ContextOverflowError" => Failed, Ended::CONTEXT_FULL;
    "ContentFilterError" => Failed, Ended::REFUSED;
    "ProviderAuthError" => Failed, "Authentication failed";
    "APIError" => Failed, "API error";
    "*" => Failed, "Failed with an error";
};

/// The issue if the messages of a session can't be found.
const MISSING: &str = "its messages are in `message` and `part` next to `session`, which are missing here or outside the root";

/// The issues if a file is in the directory of another message or session.
const OTHER_MESSAGE: &str = "a part is of another message, by its own record";
const OTHER_SESSION: &str = "the message is of another session, by its own record";

/// The most issues of one message.
const MAX_ISSUES: usize = 20;

/// How the error of a call begins that wasn't permitted. Without a user, the program refuses by itself.
const REFUSED: &str = "The user rejected permission";

/// What the program writes as the prompt of a command that the user ran.
const RAN: &str = "The following tool was executed by the user";

/// A session while it's being read.
#[derive(Debug)]
struct Session {
    program: &'static str,
    last: Option<usize>,
    turns: u64,
    children: RecentSet<Box<str>>,
    /// Whether the newest prompt is a command that the user ran.
    is_shell: bool,
    /// The end of the last turn, if it's over.
    end: Option<Ended>,
    /// Whether the files of its messages can't be found.
    is_missing: bool,
    /// Whether the newest message is a reply that isn't complete.
    is_begun: bool,
    /// When a part of the newest reply was last changed.
    active: Option<i64>,
    /// The cost of all replies so far, and whether one of them doesn't record its own.
    cost: f64,
    lacks_cost: bool,
    is_child: bool,
    /// The id of the message to which the user went back.
    revert: Option<String>,
    /// The last step before that message, and the end of its turn, once the message is reached.
    kept: Option<(Option<usize>, Ended)>,
    /// When the session began. A fork begins with copies of older messages.
    created: Option<i64>,
    has_messages: bool,
    /// The tokens of its own summaries, which aren't steps.
    aside: u64,
}

impl Session {
    fn of(program: &'static str) -> Self {
        Self {
            program,
            last: None,
            turns: 0,
            children: RecentSet::default(),
            is_shell: false,
            end: None,
            is_missing: false,
            is_begun: false,
            active: None,
            cost: 0.0,
            lacks_cost: false,
            is_child: false,
            revert: None,
            kept: None,
            created: None,
            has_messages: false,
            aside: 0,
        }
    }
}

impl Reader for Session {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        match record.path {
            0 => self.row(record.text, draft),
            1 => {
                let ids = walk::items(record.text).filter_map(|id| text(Some(id)));
                self.children.extend(ids.map(Box::from));
            }
            2 => self.message(record.text, draft),
            4 => {
                draft.issue(IssueKind::Missing, MISSING);
                self.is_missing = true;
            }
            _ => draft.issue(IssueKind::TooLong, MORE_ROWS),
        }
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        // After a revert, the turns before it are the session.
        let (last, end) = match &self.kept {
            Some((last, end)) => (*last, Some(end.clone())),
            None => (self.last, self.end.clone().filter(|_| !self.is_begun)),
        };
        let is_known = end.is_some();
        let (outcome, certainty) = (Outcome::Unknown, Certainty::Unknown);
        let missing =
            || Ended::new("", "Its messages are missing", outcome, certainty).note(MISSING);
        let end = end.or_else(|| self.is_missing.then(missing));
        let is_answer = |end: &Ended| end.outcome == Outcome::Completed;
        let answered = last.filter(|_| end.as_ref().is_some_and(is_answer));
        let answer = answered.and_then(|n| draft.said(n));
        let at = draft.latest();
        let run = draft.run();
        run.awaits_user = is_known && !self.is_child;
        run.final_result = answer;
        run.notes = aside("summaries", self.aside).into_iter().collect();
        run.updated_at = match end {
            Some(_) => at,
            None => self.active,
        };
        run.ended = end.map(Box::new);
        // Sessions in files don't record their own sum.
        let sum = Some(self.cost).filter(|cost| *cost > 0.0 && !self.lacks_cost);
        run.cost_usd = run.cost_usd.or(sum);
        run.turns = Some(self.turns);
        run.children = Some(self.children.len() as u64);
        run.child_ids = self.children.listed();
    }
}

impl Session {
    fn row(&mut self, record: &str, draft: &mut Draft<'_>) {
        let mut row = Row::of(record);
        row.parent = row.parent.or(row.parent_id);
        row.created = row
            .created
            .or(row.time.map(Time::of).unwrap_or_default().created);
        draft.event(EventDraft::new("session", millis(row.created)));
        if row.left_out.is_some() {
            draft.issue(IssueKind::TooLong, LARGE_ROW);
        }
        if let Some(why) = filled(row.unreadable) {
            draft.issue(IssueKind::NotJson, why);
        }
        let model = row.model.map(Model::of).unwrap_or_default();
        self.is_child = row.parent.is_some();
        self.created = millis(row.created);
        self.revert = row
            .revert
            .and_then(|revert| filled(member(revert, "messageID")));
        let version = filled(row.version).map_or_else(String::new, |version| format!(" {version}"));
        let run = draft.run();
        run.run_id = short(row.id);
        run.parent = short(row.parent);
        run.agent = short(row.agent);
        run.model = short(model.id);
        run.project = short(row.directory);
        run.started_at = millis(row.created);
        run.tool = Some(cut(&format!("{}{version}", self.program)));
        run.cost_usd = above_zero(row.cost);
        // Until the model gives one, the title is the time.
        let title = filled(row.title).filter(|title| {
            !title.starts_with("New session - ") && !title.starts_with("Child session - ")
        });
        run.titles.extend(title.map(|title| cut(&title)));
    }

    fn message(&mut self, record: &str, draft: &mut Draft<'_>) {
        let message = message_in(record);
        let role = text(message.role).unwrap_or_default();
        let mark = EventDraft::new(&role, time_of(&message));
        let is_copy = mark
            .ts
            .zip(self.created)
            .is_some_and(|(at, began)| at < began);
        if !std::mem::replace(&mut self.has_messages, true) && is_copy {
            draft.goes_back();
        }
        let id = text(message.id);
        if id.is_some() && id == self.revert {
            let end = self.end.clone().filter(|_| !self.is_begun);
            self.kept = Some((self.last, end.unwrap_or_else(reverted)));
        }
        if message.left_out.is_some() || pieces(&message).any(|piece| piece.left_out.is_some()) {
            draft.issue(IssueKind::TooLong, LARGE_MESSAGE);
        }
        self.active = pieces(&message)
            .filter_map(|piece| written(&piece))
            .max()
            .filter(|_| role == "assistant");
        let part = match &*role {
            "assistant" => part_in(&message),
            _ => Part::default(),
        };
        self.cost += part.cost.unwrap_or_default();
        self.lacks_cost |= part.tokens.is_some() && part.cost.is_none();
        let is_other = |piece: Piece<'_>| piece.of.is_some() && text(piece.of) != id;
        if id.is_some() && pieces(&message).any(is_other) {
            draft.issue(IssueKind::Field, OTHER_MESSAGE);
        }
        let run = draft.run().run_id.clone();
        if run.is_some() && message.session.is_some() && short(message.session) != run {
            draft.issue(IssueKind::Field, OTHER_SESSION);
        }
        // It may be a reply.
        self.lacks_cost |= message.unreadable.is_some();
        let unreadable = pieces(&message).map(|piece| piece.unreadable);
        let unreadable = unreadable.chain([message.unreadable]);
        for why in unreadable.filter_map(filled).take(MAX_ISSUES) {
            draft.issue(IssueKind::NotJson, why);
        }
        match &*role {
            "user" => self.user(&message, mark, draft),
            "assistant" if self.is_shell => {
                draft.event(mark.stage(USER_SHELL));
            }
            "assistant" if is_true(message.summary) => {
                let spent = part.tokens.and_then(Tokens::sum).filter(|_| !is_copy);
                self.aside = self.aside.saturating_add(spent.unwrap_or_default());
                let mark = mark.stage("summary").failed(message.error.is_some());
                draft.event(mark);
                self.is_begun = message.error.is_none() && finish_of(&message).is_none();
                self.end = None;
            }
            "assistant" if message.error.is_some() && has_no_reply(&part) => {
                // The request failed, and there is no reply.
                let at = draft.event(mark.failed(true));
                let steps = self.last.map_or(0, |last| last + 1);
                self.end = ended(&message, &Part::default(), steps).map(|end| end.at_event(at));
                self.is_begun = false;
            }
            "assistant" if is_request(&message, &part) => {
                // The program adds the message before the reply begins.
                draft.event(mark);
                self.close(draft);
                self.is_begun = true;
            }
            "assistant" => self.reply(part, &message, mark, draft),
            _ => {
                draft.event(mark);
            }
        }
    }

    /// Handles a prompt, or a message that the program sends like one.
    fn user(&mut self, message: &Message<'_>, mark: EventDraft<'_>, draft: &mut Draft<'_>) {
        let said: Vec<String> = pieces(message)
            .filter(|piece| piece.kind == Some("\"text\"") && !is_true(piece.ignored))
            .filter(|piece| !is_true(piece.synthetic))
            .filter_map(|piece| filled(piece.text))
            .collect();
        let is_ran =
            |piece: Piece<'_>| is_true(piece.synthetic) && text(piece.text).as_deref() == Some(RAN);
        self.is_shell = said.is_empty() && pieces(message).any(is_ran);
        if self.is_shell {
            draft.event(mark.stage(USER_SHELL));
            return;
        }
        let compaction = pieces(message).find(|piece| piece.kind == Some("\"compaction\""));
        if let Some(piece) = compaction {
            let event = draft.event(mark.stage("compaction"));
            let trigger = match piece.auto {
                Some("true") => "auto",
                Some("false") => "manual",
                _ => "",
            };
            return draft.compacted(Compaction {
                event,
                tokens: None,
                tokens_after: None,
                trigger: trigger.into(),
            });
        }
        if said.is_empty() {
            draft.event(mark);
            return;
        }
        self.close(draft);
        (self.end, self.is_begun) = (None, false);
        self.turns += 1;
        let words = said.join("\n\n");
        draft.prompt(Some(unwrapped(&words)), &mark);
    }

    fn close(&self, draft: &mut Draft<'_>) {
        self.last.into_iter().for_each(|last| draft.close(last));
    }

    fn reply(
        &mut self,
        part: Part,
        message: &Message<'_>,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        let time = message.time.map(Time::of).unwrap_or_default();
        let failed = message.error.is_some() || part.has_failed();
        let n = draft.reply(
            None,
            millis(time.created),
            EventDraft {
                kind: EventKind::Inside,
                failed,
                ..mark
            },
        );
        let at = draft.newest();
        self.close(draft);
        self.last = Some(n);
        draft.name_model(&part);
        if draft.run().agent.is_none() {
            draft.run().agent = part.agent.as_deref().map(cut);
        }
        let children = pieces(message)
            .filter_map(|piece| State::of(piece.state?).metadata)
            .filter_map(|metadata| filled(Details::of(metadata).session));
        self.children.extend(children.map(Box::from));
        if self.kept.is_some() {
            draft.leave(n, true);
        }
        self.is_begun = is_begun(message);
        self.end = ended(message, &part, n).map(|end| end.at_event(at));
        draft.part(n, part);
    }
}

/// Returns the end of a session in which the user undid a message and everything after it, if the turn
/// before it has no end.
fn reverted() -> Ended {
    Ended::new(
        "revert",
        "Undone by the user",
        Outcome::Cancelled,
        Certainty::Recorded,
    )
}

/// Returns the end of the turn that this reply completes, if it does.
fn ended(message: &Message<'_>, part: &Part, n: usize) -> Option<Ended> {
    if let Some(error) = message.error.map(Failure::of) {
        let name = filled(error.name).unwrap_or_else(|| "error".to_owned());
        let end = End::of(ENDS, &name)?;
        let words = failure(&error).filter(|_| end.outcome != Outcome::Cancelled);
        return Some(match words {
            Some(words) => end.detail(cut(&words)),
            None => end,
        });
    }
    let finish = finish_of(message)?;
    match &*finish {
        "stop" if part.calls.is_empty() && !part.has_text() => Some(Ended::unanswered(&finish)),
        "stop" => Some(Ended::answered(&finish)),
        "length" => Some(Ended::cut_reply(&finish)),
        "content-filter" => Some(Ended::refused(&finish)),
        // No further request follows a refused call.
        "tool-calls" => {
            let is_refused = |answer: &&Answer| {
                let words = answer.error.as_deref();
                words.is_some_and(|words| words.starts_with(REFUSED))
            };
            let call_of = |answer: &Answer| part.calls.iter().find(|call| call.id == answer.call);
            let refused = part.answers.iter().find(is_refused).and_then(call_of);
            let is_stopped = |answer: &&Answer| answer.status == Some("cancelled");
            let stopped = || part.answers.iter().find(is_stopped).and_then(call_of);
            match refused {
                Some(call) => Some(Ended::refused_call(&finish, n, &call.name)),
                None => Some(Ended::cancelled_call(
                    "cancelled",
                    "by the user",
                    n,
                    &stopped()?.name,
                    Certainty::Inferred,
                )),
            }
        }
        // The program asks again.
        "unknown" => None,
        _ if !part.calls.is_empty() => None,
        _ => Some(Ended::new(
            &finish,
            "Turn ended",
            Outcome::Unknown,
            Certainty::Inferred,
        )),
    }
}

/// Returns the words of an error.
fn failure(error: &Failure<'_>) -> Option<String> {
    let reason = error.data.map(Reason::of).unwrap_or_default();
    let words = filled(reason.message);
    match (int(reason.status), words) {
        (Some(status), Some(words)) => Some(format!("{status}: {words}")),
        (Some(status), None) => Some(format!("status {status}")),
        (None, words) => words,
    }
}

/// Returns the text of a prompt. The command line puts quotes around one with spaces, and some versions
/// a newline after it.
fn unwrapped(words: &str) -> &str {
    let words = words.strip_suffix('\n').unwrap_or(words);
    words
        .strip_prefix('"')
        .and_then(|words| words.strip_suffix('"'))
        .filter(|inner| inner.contains(' ') && !inner.contains('"'))
        .unwrap_or(words)
}

/// Returns a message. In a document made from files, its members are in `info`, next to its parts.
fn message_in(record: &str) -> Message<'_> {
    let message = Message::of(record);
    match message.info {
        Some(info) => Message {
            parts: message.parts,
            info: message.info,
            ..Message::of(info)
        },
        None => message,
    }
}

/// Returns why the model ended a reply. Older versions have that only in its last part.
fn finish_of(message: &Message<'_>) -> Option<String> {
    let last = || {
        pieces(message)
            .filter_map(|piece| filled(piece.reason))
            .last()
    };
    filled(message.finish).or_else(last)
}

/// Returns the parts of a message.
fn pieces<'a>(message: &Message<'a>) -> impl Iterator<Item = Piece<'a>> {
    let parts = message.parts.into_iter().flat_map(walk::items);
    parts.map(Piece::of)
}

/// Returns the time of a message's completion, or of its creation. That of an incomplete one must not
/// depend on its parts: a session that the program moved to its database has other times for those.
fn time_of(message: &Message<'_>) -> Option<i64> {
    let time = message.time.map(Time::of).unwrap_or_default();
    let created = millis(time.created).or_else(|| millis(message.created));
    millis(time.completed).or(created)
}

/// Returns the time of a part's last change. In a separate file, only the part's times show that.
fn written(piece: &Piece<'_>) -> Option<i64> {
    let times = [
        piece.time,
        piece.state.and_then(|state| State::of(state).time),
    ];
    let times = times.into_iter().flatten().map(Time::of);
    let own = times
        .flat_map(|time| [time.start, time.end])
        .filter_map(millis)
        .max();
    millis(piece.updated).or(own)
}

/// Returns the step that a message contains.
fn part_in(message: &Message<'_>) -> Part {
    let agent = filled(message.agent).or_else(|| filled(message.mode));
    let mut part = Part {
        whole: true,
        model: filled(message.model),
        agent,
        finish: finish_of(message),
        is_incomplete: message.error.is_some(),
        error: message.error.and_then(|error| {
            let error = Failure::of(error);
            failure(&error).or_else(|| filled(error.name))
        }),
        tokens: tokens(message),
        ..Part::default()
    };
    // Kilo adds the cost of sub-agents to that of the message.
    let finishes = pieces(message).filter(|piece| piece.kind == Some("\"step-finish\""));
    let own = finishes
        .filter_map(|piece| above_zero(piece.cost))
        .reduce(|sum, cost| sum + cost);
    let cost = own.or_else(|| above_zero(message.cost));
    part.cost = cost.filter(|_| part.tokens.is_some());
    let cwd = message.path.and_then(|path| filled(Dirs::of(path).cwd));
    for piece in pieces(message) {
        match piece.kind {
            Some("\"text\"") if !is_true(piece.ignored) => part.text.extend(filled(piece.text)),
            Some("\"reasoning\"") => part.thought.extend(filled(piece.text)),
            Some("\"tool\"") => call(&piece, cwd.as_deref(), &mut part),
            _ => {}
        }
    }
    part
}

/// Returns whether the program may still be writing this reply.
fn is_begun(message: &Message<'_>) -> bool {
    let time = message.time.map(Time::of).unwrap_or_default();
    time.completed.is_none() && message.error.is_none()
}

/// Returns whether a message has no reply yet.
fn is_request(message: &Message<'_>, part: &Part) -> bool {
    is_begun(message) && message.finish.is_none() && has_no_reply(part)
}

/// Returns whether a message has no reply.
fn has_no_reply(part: &Part) -> bool {
    part.text.is_empty()
        && part.thought.is_empty()
        && part.calls.is_empty()
        && part.tokens.is_none()
}

/// Returns the tokens of a reply. They're written with its completion, and are zero until then.
///
/// The total shows whether the output includes the reasoning. Versions without a total also count the
/// cache as input or not, depending on the provider, so both are unknown there.
fn tokens(message: &Message<'_>) -> Option<Tokens> {
    let usage = Usage::of(message.tokens?);
    let cache = usage.cache.map(Cache::of).unwrap_or_default();
    let [input, output, reasoning] = [usage.input, usage.output, usage.reasoning].map(count);
    let [read, written] = [cache.read, cache.write].map(count);
    let all = [input, output, reasoning, read, written];
    if all.iter().flatten().all(|tokens| *tokens == 0) {
        return None;
    }
    let or_zero = Option::unwrap_or_default;
    let cached = or_zero(read).saturating_add(or_zero(written));
    let total = count(usage.total);
    let is_old = total.is_none() && (message.info.is_some() || message.agent.is_none());
    let is_of_anthropic = message.provider == Some("\"anthropic\"");
    let includes_reasoning = total.is_some()
        && total
            == Some(
                or_zero(input)
                    .saturating_add(cached)
                    .saturating_add(or_zero(output)),
            );
    let is_clear = |other: u64| !is_old || is_of_anthropic || other == 0;
    Some(Tokens {
        input: input
            .map(|input| input.saturating_add(cached))
            .filter(|_| is_clear(cached)),
        cached: read.filter(|_| is_clear(cached)),
        output: match includes_reasoning {
            true => output,
            false => output.map(|output| output.saturating_add(or_zero(reasoning))),
        }
        .filter(|_| is_clear(or_zero(reasoning))),
        reasoning,
        written,
        written_1h: None,
    })
}

/// Adds a call, and its result if there is one.
fn call(piece: &Piece<'_>, cwd: Option<&str>, part: &mut Part) {
    let id = text(piece.call).unwrap_or_default();
    let state = piece.state.map(State::of).unwrap_or_default();
    let invalid = invalid(piece, &state);
    let name = invalid
        .as_ref()
        .map_or_else(|| text(piece.tool), |(name, _)| Some(name.clone()))
        .unwrap_or_default();
    let details = state.metadata.map(Details::of).unwrap_or_default();
    let time = state.time.map(Time::of).unwrap_or_default();
    let ms = number(time.start)
        .zip(number(time.end))
        .map(|(start, end)| end - start)
        .filter(|ms| *ms >= 0.0);
    let exit = int(details.exit);
    let output = state.output.unwrap_or("null").to_owned();
    let said = || text(state.output).unwrap_or_default();
    let answer = match (state.status, &invalid) {
        (Some("\"completed\""), Some((_, error))) => Some(Answer {
            status: Some("error"),
            error: Some(error.clone()),
            ..Answer::default()
        }),
        (Some("\"completed\""), None) => Some(match exit {
            // For the program, a failed command is complete.
            Some(exit) if exit != 0 => Answer {
                status: Some("error"),
                error: Some(said()).filter(|said| !said.is_empty()),
                ..Answer::default()
            },
            None if name == "bash" && said().contains("User aborted the command") => Answer {
                status: Some("cancelled"),
                error: Some(said()),
                ..Answer::default()
            },
            None if name == "bash" && is_timed_out(&said()) => Answer {
                status: Some("error"),
                error: Some(said()),
                ..Answer::default()
            },
            _ => Answer {
                status: Some("success"),
                output,
                ..Answer::default()
            },
        }),
        (Some("\"error\""), _) => {
            let words = filled(state.error);
            let is_aborted = words.as_deref() == Some("Tool execution aborted");
            Some(Answer {
                status: Some(if is_aborted { "cancelled" } else { "error" }),
                error: words.or_else(|| Some(NO_WORDS.to_owned())),
                ..Answer::default()
            })
        }
        _ => None,
    };
    let call = CallDraft {
        id,
        name,
        args: match &invalid {
            Some((_, error)) => asked_in(error).map(|args| unpacked(&args)),
            None => None,
        }
        .unwrap_or_else(|| state.input.unwrap_or("{}").to_owned()),
    };
    if let Some(answer) = &answer {
        changes(&details, &call, answer.status == Some("success"), cwd, part);
    }
    part.answers.extend(answer.map(|answer| Answer {
        call: call.id.clone(),
        exit,
        ms,
        output: if answer.output.is_empty() {
            "null".to_owned()
        } else {
            answer.output.clone()
        },
        ..answer
    }));
    part.calls.push(call);
}

/// Returns the tool that the model asked for, and the error, if there is no such tool or if it can't
/// take the arguments. The program records that as a completed call of a tool `invalid`.
fn invalid(piece: &Piece<'_>, state: &State<'_>) -> Option<(String, String)> {
    let input = state
        .input
        .filter(|input| piece.tool == Some("\"invalid\"") && input.starts_with('{'))
        .map(Invalid::of)?;
    filled(input.tool).zip(filled(input.error))
}

/// Returns the arguments that the error of an invalid call quotes. They aren't recorded elsewhere.
fn asked_in(error: &str) -> Option<String> {
    let (_, rest) = [" failed: Text: ", " failed: Value: "]
        .iter()
        .find_map(|before| error.split_once(before))?;
    let (args, _) = rest.rsplit_once(".\nError message:")?;
    Some(args.to_owned())
}

/// Returns whether the note after the output of a command says that it took too long.
fn is_timed_out(said: &str) -> bool {
    let note = |tag: &str| Some(said.rsplit_once(tag)?.1);
    let note = note("<shell_metadata>").or_else(|| note("<bash_metadata>"));
    note.is_some_and(|note| note.contains("terminated command after exceeding timeout"))
}

/// The tools that change the file that their arguments name. Not all versions record a diff.
const EDITS: [&str; 3] = ["write", "edit", "multiedit"];

/// Adds the files and the plan that a call changed.
fn changes(
    details: &Details<'_>,
    call: &CallDraft,
    is_done: bool,
    cwd: Option<&str>,
    part: &mut Part,
) {
    let known = part.changes.len();
    let mut change = |path: Option<String>, diff: Option<String>| {
        if let (Some(path), Some(diff)) = (path, diff) {
            part.diffs.push((part.changes.len(), diff));
            let path = below(&path, cwd);
            part.changes.push((format!("files.{path}"), None, None));
        }
    };
    let files: Vec<Changed<'_>> = match details.files {
        Some(files) if files.starts_with('[') => walk::items(files).map(Changed::of).collect(),
        _ => Vec::new(),
    };
    if !files.is_empty() {
        for file in files {
            let path = filled(file.relative).or_else(|| filled(file.path));
            change(
                path.or_else(|| filled(file.file)),
                filled(file.diff.or(file.patch)),
            );
        }
    } else if let Some(file) = details.filediff.map(Changed::of) {
        change(
            filled(file.file),
            filled(details.diff).or_else(|| filled(file.patch)),
        );
    } else {
        change(filled(details.path), filled(details.diff));
    }
    if part.changes.len() == known && is_done && EDITS.contains(&&*call.name) {
        let path = filled(details.path).or_else(|| filled(member(&call.args, "filePath")));
        let content = member(&call.args, "content").filter(|_| call.name == "write");
        let key = path.map(|path| format!("files.{}", below(&path, cwd)));
        part.changes
            .extend(key.map(|key| (key, None, content.map(str::to_owned))));
    }
    if let Some(todos) = details.todos {
        part.changes
            .push(("todos".to_owned(), None, Some(todos.to_owned())));
    }
}
