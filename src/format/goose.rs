//! Reads sessions of Goose: rows of the SQLite database `sessions.db`.
//!
//! A row of `messages` has a list of contents: texts, calls or results. Goose saves each call of a
//! reply as a separate message, followed by the result. Since July 2026, the last message of a
//! reply has the usage of the request; newer versions add it to the message with the first call.
//! Calls that follow results of the same second are taken for calls of one reply, unless each has a
//! usage. Goose doesn't record that a session ended. It records replies at the output limit, the
//! turn limit, and some errors of the API. This reader is based on the source up to version 17 of
//! the tables.

use super::cline;
use super::conversation::Conversation;
use super::ends::{End, ends};
use super::lines::is_store_of;
use super::part::{self, quoted, text};
use super::rows::{LARGE_MESSAGE, LARGE_ROW, MORE_ROWS, STORE, children};
use super::value::{
    USER_TEXT, above_zero, count, cut, filled, hunks, int, is_true, listed, member, micros, short,
    time,
};
use super::{
    Answer, CallDraft, Draft, EventDraft, Mark, Part, Reader, Rows, Several, Shape, Source, Table,
    Tokens, Tool,
};
use crate::model::json::walk;
use crate::model::step::{NO_WORDS, Usage};
use crate::model::{Can, Capabilities, Certainty, Compaction, Ended, EventKind, Format, IssueKind};

/// A session.
pub(super) static SESSION: Tool = Tool {
    format: Format {
        name: "Goose session",
        can: Capabilities {
            state: Can::Partly,
            times: Can::Yes,
            tokens: Can::Partly,
            cost: Can::Partly,
            ..Capabilities::NONE
        },
        file: "database",
        no_end_reason: "Goose doesn't record why a reply ended",
        is_session: true,
        resume: "goose session --resume --session-id",
        assemble: Some(assembled),
        ..Format::UNKNOWN
    },
    shape: Shape::Several(&Several {
        rows: Some(&ROWS),
        ..STORE
    }),
    is: |name, head| is_store_of(name, head, "sessions"),
    reader: || Box::new(Session::default()),
};

static ROWS: Rows = Rows {
    what: "a Goose store",
    run: Table {
        name: "sessions",
        key: "session",
        of: "",
        order: &[],
        // Not the configuration of extensions and recipes, which may contain keys.
        columns: &[
            "id",
            "name",
            "description",
            "session_type",
            "working_dir",
            "created_at",
            "updated_at",
            "accumulated_total_tokens",
            "accumulated_input_tokens",
            "accumulated_output_tokens",
            "accumulated_cache_read_tokens",
            "accumulated_cache_write_tokens",
            "accumulated_cost",
            "provider_name",
            "model_config_json",
            "goose_mode",
            "archived_at",
            "parent_session_id",
        ],
        json: &["model_config_json"],
        spread: "",
    },
    versions: &[
        "name",
        "description",
        "working_dir",
        "updated_at",
        "accumulated_total_tokens",
        "accumulated_cost",
        "model_config_json",
        "parent_session_id",
    ],
    marks: &[
        // An index has these columns. Calls get a title in place, soon after they were written.
        Mark {
            table: "messages",
            query: "SELECT session_id, max(id), count(*), (SELECT sum(octet_length(content_json) \
                    + coalesce(octet_length(metadata_json), 0)) FROM (SELECT content_json, metadata_json FROM messages AS m \
                    WHERE m.session_id = messages.session_id ORDER BY m.id DESC LIMIT 50)), \
                    max(CASE WHEN created_timestamp > 10000000000 THEN created_timestamp / 1000 \
                    ELSE created_timestamp END) FROM messages GROUP BY session_id",
            written: Some(1e6),
        },
        // The first version has no metadata and never changes a message.
        Mark {
            table: "messages",
            query: "SELECT session_id, max(id), count(*), max(created_timestamp) FROM messages \
                    GROUP BY session_id",
            written: Some(1e6),
        },
    ],
    // The time of the last change is a text.
    written: ("", 1e6),
    parent: "parent_session_id",
    messages: Table {
        name: "messages",
        key: "messages",
        of: "session_id",
        order: &["created_timestamp", "id"],
        columns: &[
            "id",
            "message_id",
            "session_id",
            "role",
            "content_json",
            "created_timestamp",
            "tokens",
            "metadata_json",
        ],
        json: &["content_json", "metadata_json"],
        spread: "",
    },
    parts: None,
    beside: None,
    strangers: &[cline::INDEX],
    leaves_out: |_| false,
};

fields! {
    struct Row {
        id, name, description, kind = "session_type", dir = "working_dir", created = "created_at",
        total = "accumulated_total_tokens", input = "accumulated_input_tokens",
        output = "accumulated_output_tokens", read = "accumulated_cache_read_tokens",
        write = "accumulated_cache_write_tokens", cost = "accumulated_cost", config = "model_config_json",
        parent = "parent_session_id", left_out,
    }
    struct Config { model = "model_name", window = "context_limit" }
    struct Message { role, content = "content_json", created = "created_timestamp", metadata = "metadata_json", left_out }
    struct Metadata { user = "userVisible", agent = "agentVisible", inference, steer, usage, limited = "outputTokenLimitReached" }
    struct Inference { requested = "requestedModel", resolved = "resolvedModel" }
    struct Spent {
        input = "inputTokens", output = "outputTokens", read = "cacheReadTokens", write = "cacheWriteTokens", cost,
        source = "costSource",
    }
    struct Content {
        kind = "type", text, thinking, class = "kind", message, id, call = "toolCall", result = "toolResult", annotations,
    }
    struct Outcome { status, value, error }
    struct Call { name, arguments }
    struct Given { content, structured = "structuredContent", failed = "isError" }
}

/// How the texts begin that the program writes as the reply when a turn fails.
const ENDS: &[End] = ends! {
    "The model returned an empty response*" => Failed, "The model's reply was empty";
    "Maximum retry attempts (*" => Failed, "Failed after the last retry";
};
/// How the message begins that the program writes when a turn has as many replies as its user allows.
const AT_TURN_LIMIT: &[End] = ends! {
    "I've reached the maximum number of actions*" => Truncated, "Turn limit reached", "Turn": "max_turns";
};

/// Default names of sessions.
const UNTITLED: [&str; 3] = ["CLI Session", "ACP Session", "New Chat"];
/// How the message begins that follows the summary of a conversation. Older versions have the second.
const COMPACTED: [&str; 2] = [
    "Your context was compacted",
    "The previous message contains a summary",
];
/// How the result of a call begins that the user declined.
const DECLINED: &str = "The user has declined to run this tool.";
/// How the prompt begins in which the program asks for the final output.
const WANTS_OUTPUT: &str = "You MUST call the `final_output` tool NOW";

/// A session while it's being read.
#[derive(Debug, Default)]
struct Session {
    talk: Conversation,
    children: Vec<Box<str>>,
    is_child: bool,
    /// The newest reply, as long as further messages may belong to it.
    open: Option<Reply>,
    /// The kind of the newest message.
    newest: Newest,
    /// The newest prompt without white space, truncated.
    asked: Box<str>,
    end: Option<Ended>,
    /// Whether messages were joined to the newest reply by their time alone, and to one before it.
    is_guess: bool,
    has_guess: bool,
    /// Whether the providers reported all costs.
    is_by_provider: Option<bool>,
}

/// A reply that may not be complete.
#[derive(Debug, Clone, Copy)]
struct Reply {
    n: usize,
    time: Option<i64>,
    has_usage: bool,
}

/// The kind of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Newest {
    #[default]
    Other,
    /// A command for the program, such as `/compact`, or its answer.
    Command,
    /// What follows the summary of a conversation.
    Compaction,
    /// A reply without calls, which may be the answer.
    Text,
    /// A reply with calls.
    Calls,
    /// Results, and their time.
    Results(Option<i64>),
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
        let at = draft.latest();
        let is_over = self.newest == Newest::Text || self.end.is_some();
        let run = draft.run();
        run.awaits_user = is_over && !self.is_child;
        run.updated_at = at.filter(|_| is_over);
        run.ended = self.end.clone().map(Box::new);
        run.cost_estimated = run.cost_usd.is_some() && self.is_by_provider != Some(true);
        run.replies_unknown = self.has_guess || self.is_guess;
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
        // In UTC.
        let created = micros(row.created);
        draft.event(EventDraft::new("session", created));
        self.is_child = filled(row.parent).is_some() || row.kind == Some("\"sub_agent\"");
        let config = row.config.map(Config::of).unwrap_or_default();
        let names = [row.name, row.description].into_iter();
        let mut names = names
            .filter_map(filled)
            .filter(|name| !UNTITLED.contains(&&**name));
        let used = |tokens| count(tokens).filter(|tokens| *tokens > 0);
        let (input, output) = (used(row.input), used(row.output));
        let run = draft.run();
        run.run_id = short(row.id);
        run.parent = short(row.parent).filter(|parent| !parent.is_empty());
        run.model = short(config.model);
        run.context_window = used(config.window);
        run.project = short(row.dir);
        run.started_at = created;
        run.tool = Some("Goose".into());
        run.titles.extend(names.next().map(|name| cut(&name)));
        // Goose counts cached input as input.
        run.usage = Usage {
            input,
            cached: count(row.read).filter(|_| input.is_some()),
            output,
            reasoning: None,
            written: count(row.write).filter(|_| input.is_some()),
            written_1h: None,
        };
        let sum = input
            .zip(output)
            .map(|(input, output)| input.saturating_add(output));
        run.tokens = sum.or_else(|| used(row.total));
        run.cost_usd = above_zero(row.cost);
    }

    fn message(&mut self, record: &str, draft: &mut Draft<'_>) {
        let message = Message::of(record);
        let role = text(message.role).unwrap_or_default();
        let mark = EventDraft::new(&role, time(message.created));
        if message.left_out.is_some() {
            draft.issue(IssueKind::TooLong, LARGE_MESSAGE);
        }
        if let Some(content) = message.content
            && let Some(reason) = odd(content)
        {
            draft.issue(IssueKind::Field, reason);
        }
        self.newest = match &*role {
            "user" => self.user(record, &message, mark, draft),
            "assistant" => self.assistant(record, &message, mark, draft),
            _ => noted(mark, draft),
        };
    }

    /// Handles a message of the user or of the program: a prompt, or results. Returns its kind.
    fn user(
        &mut self,
        record: &str,
        message: &Message<'_>,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) -> Newest {
        let results = |content: &Content<'_>| content.kind == Some("\"toolResponse\"");
        if contents(message).any(|content| results(&content)) {
            let n = self.talk.step_of(&part_of(record, None));
            let part = part_of(record, n.and_then(|n| draft.step(n)));
            let at = mark.ts;
            draft.results(n.as_slice(), mark, part);
            self.end = None;
            return Newest::Results(at);
        }
        let metadata = metadata(message);
        let (by_user, by_agent) = visible(&metadata);
        let words = said(message);
        if contents(message).next().is_none() && self.newest == Newest::Calls {
            return self.stopped(mark, draft);
        }
        let is_command = self.newest == Newest::Command;
        // The copy of a prompt of several texts separates them in another way.
        let asked = cut(&words.split_whitespace().collect::<String>());
        let is_copy = self.newest == Newest::Compaction && asked == self.asked;
        let has_file = contents(message)
            .any(|content| matches!(content.kind, Some("\"image\"" | "\"document\"")));
        let is_empty = words.is_empty() && !has_file;
        if is_true(metadata.steer) {
            draft.event(mark.stage(USER_TEXT));
            return Newest::Other;
        }
        if by_user && !by_agent && is_slash(&words) {
            draft.event(mark.stage("command"));
            return Newest::Command;
        }
        // What a command asks of the model isn't visible. Neither are reminders by the program.
        if !by_user && !is_command || is_copy || words.starts_with(WANTS_OUTPUT) || is_empty {
            return noted(mark, draft);
        }
        (self.end, self.open, self.asked) = (None, None, asked);
        self.talk.prompt(&words, &mark, draft);
        Newest::Other
    }

    /// Handles a message without results after calls, which the program leaves if its user
    /// interrupts it while they run.
    fn stopped(&mut self, mark: EventDraft<'_>, draft: &mut Draft<'_>) -> Newest {
        let waiting = self.talk.waiting(draft);
        let call = waiting.and_then(|n| Some((n, draft.waits_for(n)?.to_owned())));
        let at = draft.event(mark.stage("no_result"));
        self.end = call.map(|(n, tool)| {
            let end = Ended::cancelled_call("no_result", "", n, &tool, Certainty::Inferred);
            end.at_event(at)
        });
        Newest::Other
    }

    /// Handles a reply, or what the program writes as one.
    fn assistant(
        &mut self,
        record: &str,
        message: &Message<'_>,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) -> Newest {
        let metadata = metadata(message);
        let (by_user, by_agent) = visible(&metadata);
        if !by_user {
            let words = said(message);
            if !COMPACTED.iter().any(|start| words.starts_with(start)) {
                return noted(mark, draft);
            }
            let event = draft.event(mark.stage("compaction"));
            draft.compacted(Compaction {
                event,
                tokens: None,
                tokens_after: None,
                trigger: "".into(),
            });
            return Newest::Compaction;
        }
        let known = self.known(message, &metadata, mark.ts);
        let step = known.and_then(|n| draft.step(n));
        let part = part_of(record, step);
        if self.newest == Newest::Command && !by_agent {
            draft.event(mark);
            // What the command asks of the model may follow.
            return Newest::Command;
        }
        let is_limited = is_true(metadata.limited);
        let is_empty = part.text.is_empty() && part.calls.is_empty() && part.thought.is_empty();
        let (has_calls, has_usage) = (!part.calls.is_empty(), part.tokens.is_some());
        let first = part.text.first().filter(|_| !has_calls);
        let at_limit = first
            .filter(|_| !has_usage && part.model.is_none())
            .and_then(|words| End::of(AT_TURN_LIMIT, words));
        let failed = contents(message).find(|content| content.kind == Some("\"error\""));
        let failed = failed.map(|content| {
            let word = filled(content.class).map_or_else(|| "error".into(), |class| cut(&class));
            End::error(&word)
                .detail(filled(content.message).map_or_else(Box::default, |why| cut(&why)))
        });
        if at_limit.is_some() || is_empty && failed.is_some() {
            let at = draft.event(mark.stage("end"));
            self.end = at_limit.or(failed).map(|end| end.at_event(at));
            return Newest::Other;
        }
        // Goose may record the limit in a separate message.
        if is_empty && !is_limited {
            return noted(mark, draft);
        }
        let end = first.and_then(|words| End::of(ENDS, words));
        let limit = (is_limited && !has_calls).then(|| Ended::cut_reply("outputTokenLimitReached"));
        let end = failed.or(end).or(limit);
        self.note_cost(&metadata);
        let asked = draft.latest();
        draft.name_model(&part);
        let mark = EventDraft {
            kind: EventKind::Inside,
            ..mark
        };
        if known.is_none() {
            self.has_guess |= std::mem::take(&mut self.is_guess);
        }
        // A reply has one usage, so messages without one belong to the reply that has it.
        let had_usage = self.open.is_some_and(|reply| reply.has_usage) && known.is_some();
        self.is_guess |= known.is_some() && matches!(self.newest, Newest::Results(_));
        self.is_guess &= !(has_usage || had_usage);
        let n = self.talk.reply(known, asked, mark, part, draft);
        let at = draft.newest();
        self.open = Some(Reply {
            n,
            time: time(message.created),
            has_usage: has_usage || had_usage,
        });
        self.end = end.map(|end| end.at_event(at));
        if has_calls {
            Newest::Calls
        } else {
            Newest::Text
        }
    }

    /// Returns the step to which a message of the assistant belongs, if another one began it.
    fn known(
        &self,
        message: &Message<'_>,
        metadata: &Metadata<'_>,
        at: Option<i64>,
    ) -> Option<usize> {
        let open = self.open?;
        let has_usage = metadata.usage.is_some_and(|usage| usage.starts_with('{'));
        let has_calls = contents(message)
            .any(|content| text(content.kind).is_some_and(|kind| kind.ends_with("oolRequest")));
        let is_call_of_same_time = has_calls && at.is_some() && at == open.time;
        let is_same = match self.newest {
            // An empty message may only record that the reply before it is at the limit.
            Newest::Text if open.has_usage => {
                !has_usage && is_true(metadata.limited) && contents(message).next().is_none()
            }
            Newest::Calls if open.has_usage => !has_usage && is_call_of_same_time,
            Newest::Text | Newest::Calls => true,
            Newest::Results(time) => {
                is_call_of_same_time && at == time && !(has_usage && open.has_usage)
            }
            Newest::Other | Newest::Command | Newest::Compaction => false,
        };
        is_same.then_some(open.n)
    }

    /// Notes who determined the cost of a reply.
    fn note_cost(&mut self, metadata: &Metadata<'_>) {
        let spent = metadata.usage.map(Spent::of).unwrap_or_default();
        if above_zero(spent.cost).is_some() {
            let is = spent.source == Some("\"provider_reported\"");
            self.is_by_provider = Some(is && self.is_by_provider != Some(false));
        }
    }
}

/// Adds a message that is neither a prompt nor a reply.
fn noted(mark: EventDraft<'_>, draft: &mut Draft<'_>) -> Newest {
    draft.event(mark);
    Newest::Other
}

/// Returns the metadata of a message. The first version has none.
fn metadata<'a>(message: &Message<'a>) -> Metadata<'a> {
    message.metadata.map(Metadata::of).unwrap_or_default()
}

/// Returns whether the user and the model see a message.
fn visible(metadata: &Metadata<'_>) -> (bool, bool) {
    (
        metadata.user != Some("false"),
        metadata.agent != Some("false"),
    )
}

/// Returns whether a prompt is a command, such as `/compact now`. It may also begin with a path.
fn is_slash(words: &str) -> bool {
    let name = words.split_whitespace().next().unwrap_or_default();
    let name = name.strip_prefix('/').unwrap_or_default();
    !name.is_empty() && !name.contains('/')
}

/// Returns what's wrong with the contents of a message if some of them can't be read.
fn odd(contents: &str) -> Option<String> {
    if !contents.starts_with('[') {
        return Some("content_json isn't a list".to_owned());
    }
    let is_content = |item: &str| text(Content::of(item).kind).is_some();
    let odd = walk::items(contents).position(|item| !is_content(item))?;
    Some(format!("content_json[{odd}] isn't an object with a type"))
}

/// Returns the contents of a message.
fn contents<'a>(message: &Message<'a>) -> impl Iterator<Item = Content<'a>> {
    listed(message.content).map(Content::of)
}

/// Returns the text of a message.
fn said(message: &Message<'_>) -> String {
    let texts = contents(message)
        .filter(|content| content.kind == Some("\"text\""))
        .filter_map(|content| filled(content.text));
    texts.collect::<Vec<_>>().join("\n\n")
}

/// Returns the line of step `n`.
fn assembled(n: usize, records: &[String]) -> String {
    part::line_of(n, records, |record, step| part_of(record, Some(step)))
}

/// Returns the part of a step that a message contains. `step` is the step so far.
fn part_of(record: &str, step: Option<&Part>) -> Part {
    let message = Message::of(record);
    let mut part = Part::default();
    let is_reply = text(message.role).as_deref() == Some("assistant");
    for content in contents(&message) {
        match (text(content.kind).as_deref(), is_reply) {
            (Some("toolResponse"), false) => result(&content, step, &mut part),
            (Some("text"), true) => part.text.extend(filled(content.text)),
            (Some("thinking" | "reasoning"), true) => {
                // It's repeated in each message of a reply.
                let thought = filled(content.thinking).or_else(|| filled(content.text));
                let is_known =
                    |thought: &String| step.is_some_and(|step| step.thought.contains(thought));
                part.thought
                    .extend(thought.filter(|thought| !is_known(thought)));
            }
            (Some("toolRequest" | "frontendToolRequest"), true) => {
                let asked = content.call.map(Outcome::of).unwrap_or_default();
                let call = asked.value.map(Call::of).unwrap_or_default();
                part.calls.push(CallDraft {
                    id: text(content.id).unwrap_or_default(),
                    name: text(call.name).unwrap_or_default(),
                    args: call.arguments.unwrap_or("{}").to_owned(),
                });
            }
            _ => {}
        }
    }
    if is_reply {
        let metadata = metadata(&message);
        let inference = metadata.inference.map(Inference::of).unwrap_or_default();
        part.model = filled(inference.resolved).or_else(|| filled(inference.requested));
        if let Some(spent) = metadata.usage.filter(|usage| usage.starts_with('{')) {
            let spent = Spent::of(spent);
            part.cost = above_zero(spent.cost);
            part.tokens = Some(Tokens {
                input: count(spent.input),
                cached: count(spent.read),
                output: count(spent.output),
                written: count(spent.write),
                ..Tokens::default()
            })
            .filter(|tokens| tokens.input.or(tokens.output).is_some());
        }
    }
    part
}

/// Adds a result, and the files that its call changed.
fn result(content: &Content<'_>, step: Option<&Part>, part: &mut Part) {
    let id = text(content.id).unwrap_or_default();
    let outcome = content.result.map(Outcome::of).unwrap_or_default();
    // The first versions have just the list of contents.
    let given = match outcome.value {
        Some(list) if list.starts_with('[') => Given {
            content: Some(list),
            ..Given::default()
        },
        Some(value) => Given::of(value),
        None => Given::default(),
    };
    let texts = given
        .content
        .into_iter()
        .flat_map(walk::items)
        .map(Content::of);
    let texts = texts
        .filter(is_for_model)
        .filter_map(|content| filled(content.text));
    let said = texts.collect::<Vec<_>>().join("\n");
    let error = filled(outcome.error);
    let said = if said.is_empty() {
        error.unwrap_or_default()
    } else {
        said
    };
    let exit = given
        .structured
        .and_then(|given| int(member(given, "exit_code")));
    let status = match outcome.status {
        Some("\"error\"") => Some("error"),
        Some("\"success\"") if said.starts_with(DECLINED) => Some("cancelled"),
        Some("\"success\"") if is_true(given.failed) || exit.is_some_and(|exit| exit != 0) => {
            Some("error")
        }
        Some("\"success\"") => Some("success"),
        _ => None,
    };
    let bad = matches!(status, Some("error" | "cancelled"));
    let mut calls = step.into_iter().flat_map(|step| &step.calls);
    if status == Some("success")
        && let Some(call) = calls.find(|call| call.id == id)
    {
        changes(call, part);
    }
    part.answers.push(Answer {
        call: id,
        status,
        error: bad.then(|| match &*said {
            "" => NO_WORDS.to_owned(),
            _ => said.clone(),
        }),
        output: if bad {
            "null".to_owned()
        } else {
            quoted(&said)
        },
        exit,
        ms: None,
    });
}

/// Returns whether a text of a result is meant for the model. Some tools give the user another one.
fn is_for_model(content: &Content<'_>) -> bool {
    let audience = content
        .annotations
        .and_then(|annotations| member(annotations, "audience"))
        .filter(|audience| audience.starts_with('['));
    audience.is_none_or(|audience| walk::items(audience).any(|role| role == "\"assistant\""))
}

/// Adds the file that a successful call changed.
fn changes(call: &CallDraft, part: &mut Part) {
    let of = |key| filled(member(&call.args, key));
    let content = |key| member(&call.args, key).filter(|text| text.starts_with('"'));
    // Names may begin with that of the extension. Others may have tools of the same name.
    let name = match call.name.rsplit_once("__") {
        None => &*call.name,
        Some(("developer", name)) => name,
        Some(("todo", "todo_write")) => "todo_write",
        Some(_) => return,
    };
    let command = of("command").unwrap_or_default();
    let after = match (name, &*command) {
        ("write", _) => content("content"),
        ("text_editor", "write") => content("file_text"),
        ("edit", _) | ("text_editor", "str_replace" | "insert" | "undo_edit") => None,
        ("todo_write", _) => {
            let todos = content("content").map(str::to_owned);
            part.changes
                .extend(todos.map(|todos| ("todos".to_owned(), None, Some(todos))));
            return;
        }
        _ => return,
    };
    let Some(path) = of("path") else { return };
    // A patch may change several files, which the call doesn't name.
    let diff = of("diff").filter(|diff| diff.matches("+++ ").count() <= 1);
    let diff = diff.and_then(|diff| hunks(&diff));
    part.diffs
        .extend(diff.map(|diff| (part.changes.len(), diff)));
    part.changes
        .push((format!("files.{path}"), None, after.map(str::to_owned)));
}
