//! Reads sessions of Mistral Vibe 3: one JSON object per line, appended to
//! `unified/SESSION/journal/SEQUENCE.jsonl`.
//!
//! The program records each reply and each result twice: as it arrives, without a time, and as input
//! of its core, with a time. The second record counts, so a request that is repeated after an error
//! leaves no record. Changes of what the program shows follow, with the state of the turn: its end is
//! the end of the session. Only they have the beginning of an interrupted reply. `meta.json` has the
//! model, the directory, the title and the child sessions. A compaction is a request, too, but its
//! reply is no step.
//!
//! When a session is closed in the terminal or resumed, Vibe stores its state and deletes the journal so
//! far. The records before the new journal are then made from that state (`before`). They have no
//! tokens and no reasons for the end of a reply. If the state isn't there, the first request of a
//! resumed session tells how many replies and calls came before. This reader is based on version 3.0.

mod before;
mod record;

use std::borrow::Cow;

use record::{ABANDONED, Asked, DISCARDED, Fault, Shown};

use super::conversation::Conversation;
use super::ends::{End, ends};
use super::lines::stem;
use super::part::{self, is_refusal, quoted, text};
use super::permissions::Permissions;
use super::recent::RecentSet;
use super::turns::Turns;
use super::value::{
    above_zero, aside, count, cut, filled, int, is_text, is_true, limit, member, millis, objects,
    short, spoken, unpacked,
};
use super::watch::{begun, begun_member, has_begun};
use super::{
    Answer, Before, CallDraft, Draft, EventDraft, Part, Reader, Shape, Source, Tokens, Tool,
};
use crate::model::json::walk;
use crate::model::step::{NO_WORDS, Usage};
use crate::model::{Can, Capabilities, Certainty, Compaction, Earlier, Ended, Format, Outcome};

/// A session's journal.
pub(super) static SESSION: Tool = Tool {
    format: Format {
        name: "Mistral Vibe session",
        can: Capabilities {
            state: Can::Partly,
            times: Can::Yes,
            tokens: Can::Yes,
            limits: Can::Partly,
            ..Capabilities::NONE
        },
        file: "session file",
        is_session: true,
        assemble: Some(assembled),
        ..Format::UNKNOWN
    },
    shape: Shape::Lines,
    is: |name, head| {
        let is_record = |line: Line<'_>| {
            int(line.version).is_some() && int(line.sequence).is_some() && is_text(line.kind)
        };
        let is_first = |line: &str| is_record(Line::of(line)) || is_journal(name) && is_cut(line);
        name.ends_with(".jsonl") && objects(head).next().is_some_and(is_first)
    },
    reader: || Box::new(Session::default()),
};

/// The records before a journal.
pub(super) static BEFORE: Before = Before {
    snapshot: before::snapshot,
    records: before::records,
};

/// The document in the directory above that of the journal.
pub(super) const META: &str = "meta.json";

/// Returns whether a file is a part of a session that holds no run: the manifest of a generation, or
/// the journal that begins when the session is closed.
pub(super) fn is_part(name: &str, head: &[u8]) -> bool {
    match name {
        "manifest.json" => has_begun(head, &["manifest_version", "checkpoint", "generation"]),
        _ => head.is_empty() && is_journal(name),
    }
}

/// The directory of a session's journals.
pub(super) const JOURNAL: &str = "journal";

/// Returns whether a file has the name of a journal: the number of its first record.
pub(super) fn is_journal(name: &str) -> bool {
    let is_number = |stem: &str| stem.len() == 16 && stem.bytes().all(|byte| byte.is_ascii_digit());
    stem(name).is_some_and(is_number)
}

/// Returns whether a line is the beginning of a record whose payload is longer than the part of a file
/// that is examined. The keys of a record are sorted, so nothing comes before the payload.
fn is_cut(line: &str) -> bool {
    let members = begun(line.as_bytes());
    let is_begun = |payload: &str| {
        payload.starts_with('{')
            && PAYLOADS
                .iter()
                .any(|key| begun_member(payload, key).is_some())
    };
    matches!(*members, [("\"payload\"", payload)] if is_begun(payload))
}

/// The keys of the first record's payload, sorted: that of a command, and that of its input.
const PAYLOADS: [&str; 3] = ["\"client_command_id\"", "\"input\"", "\"method\""];

/// Why a completed turn stopped.
const STOPS: &[End] = ends! {
    "length" => Truncated, Ended::CUT_REPLY;
    "limit" => Truncated, "Turn limit reached", "Turn": LIMIT;
};

/// The errors that end a turn.
const ERRORS: &[End] = ends! {
    "*context*" => Failed, Ended::CONTEXT_FULL;
    "*quota*" => Failed, "Provider usage limit reached";
    "model_*" => Failed, "API error";
};

const LIMIT: &str = "max_turns";

/// The key of the lines that an edit replaced, in the metadata of its result.
const REPLACED: &str = "mistralai.vibe.sdk.search_replace";

/// The tools that only ask the user.
const QUESTIONS: &[&str] = &["ask_user_question"];

/// What the session records for an interrupted turn, and for one that a limit of time, tokens or money
/// ended.
const INTERRUPT: &str = "client interrupt";

fields! {
    struct Line {
        version = "recovery_journal_record_version", sequence, before, kind = "type", payload,
    }
    struct Payload {
        params, input, kind, request, result, delta, callback = "callback_id", routing, state,
    }
    struct Input { command, determinism }
    struct Command { kind = "type", action = "action_id", content, call = "call_id", result }
    struct Reply { finish = "finish_reason", parts, usage }
    struct Piece { kind = "type", text, content, id, name, args = "arguments_json" }
    struct Output { content, value = "structured_content", error, meta = "_meta" }
    struct Value { code = "returncode", stdout, stderr, content, timed_out }
    struct Block { before = "old_lines", after = "new_lines", from = "old_start_line", to = "new_start_line" }
    struct Used {
        input = "input_tokens", cached = "cached_input_tokens", written = "cache_write_tokens",
        output = "output_tokens", reasoning = "reasoning_tokens",
    }
    struct Entry { kind, details, status = "generationStatus" }
    struct State { turn = "latestTurn", session }
    struct Known {
        parent = "parentSessionId", title, preview, created = "createdAt", usage = "tokenUsage",
    }
    struct Spent { input = "inputTokens", cached = "cachedInputTokens", output = "outputTokens" }
    struct Turn { status, stop = "stopReason", reason, error }
    struct Meta {
        id = "session_id", parent = "parent_session_id", environment, title, config,
        children = "child_sessions",
    }
}

/// A session while it is being read.
#[derive(Debug, Default)]
struct Session {
    conversation: Conversation,
    ends: Turns,
    end: Option<Ended>,
    /// The most replies of a turn, and how many were asked for in the newest turn.
    limit: Option<f64>,
    used: Option<f64>,
    /// The number of the first record, if it isn't the first of the session.
    begins_at: Option<i64>,
    /// When the session began, in microseconds since the epoch.
    created: Option<i64>,
    /// The records before the journal that were made from the session's state.
    made: Option<Made>,
    /// What came before the journal, if only the first request contains that.
    past: Option<Past>,
    /// Whether the journal has a prompt, and whether it has a reply.
    has_asked: bool,
    has_replied: bool,
    /// The requests for the summary of a compaction, and the tokens of their replies.
    compactions: RecentSet<Box<str>>,
    summarized: u64,
    /// What the user hasn't allowed yet.
    permissions: Permissions,
    /// The first words of the session's first prompt.
    preview: Option<Box<str>>,
    /// The tokens of the session before the first reply, and those of the replies.
    before: Option<Usage>,
    spent: Usage,
    parent: Option<Box<str>>,
    title: Option<Box<str>>,
    about: About,
}

/// The records before the journal.
#[derive(Debug, Default)]
struct Made {
    /// Whether the conversation was compacted, and whether it was or a part of it is gone.
    is_compacted: bool,
    is_partial: bool,
    /// The replies at the output limit, which aren't in the model's context.
    discarded: u64,
    /// How many records there are.
    records: u64,
}

/// The conversation before the journal of a resumed session.
#[derive(Debug, Default, Clone)]
struct Past {
    /// Its first prompt.
    first: Option<Box<str>>,
    prompts: u64,
    replies: u64,
    /// The replies that the session's own totals lack.
    discarded: u64,
    calls: u64,
    failed_calls: u64,
}

impl Past {
    /// Reads the messages of a request, or returns `None` if it only adds to those before. The last
    /// prompt is the one that the request answers.
    fn of(request: &str) -> Option<Self> {
        let messages = member(member(request, "model_input")?, "messages")?;
        if member(messages, "type") != Some("\"replace\"") {
            return None;
        }
        let mut past = Self::default();
        for message in walk::items(member(messages, "messages")?) {
            past.message(&Asked::of(message));
        }
        past.prompts = past.prompts.saturating_sub(1);
        Some(past)
    }

    fn message(&mut self, message: &Asked<'_>) {
        match message.role {
            Some("\"user\"") => {
                let words = spoken(message.content);
                if words.starts_with(DISCARDED) {
                    self.discarded += 1;
                    self.replies += 1;
                } else {
                    self.first.get_or_insert_with(|| cut(&words));
                    self.prompts += 1;
                }
            }
            Some("\"assistant\"") => {
                self.replies += 1;
                let pieces = walk::items(message.content.unwrap_or_default());
                let is_call = |piece: &str| member(piece, "type") == Some("\"tool_call\"");
                self.calls += pieces.filter(|piece| is_call(piece)).count() as u64;
            }
            Some("\"tool\"") => {
                let said = spoken(message.content);
                let value = Some(&*said).filter(|said| said.starts_with('{'));
                let value = value.map(Value::of).unwrap_or_default();
                let is_bad = message.outcome == Some("\"failure\"") || has_failed(&value);
                self.failed_calls += u64::from(is_bad);
            }
            _ => {}
        }
    }

    /// Returns whether it begins with the session's first prompt, so that it wasn't compacted.
    fn is_whole(&self, preview: Option<&str>) -> bool {
        // The program replaces line ends by spaces.
        let without_spaces = |words: &str| words.split_whitespace().collect::<String>();
        let first = without_spaces(self.first.as_deref().unwrap_or_default());
        let preview = preview.map(|preview| without_spaces(preview.trim_end_matches('…')));
        preview.is_some_and(|preview| !preview.is_empty() && first.starts_with(&preview))
    }
}

/// The facts in the second document of a session, which versions 2 and 3 have.
#[derive(Debug, Default)]
pub(super) struct About {
    pub(super) id: Option<Box<str>>,
    pub(super) parent: Option<Box<str>>,
    pub(super) project: Option<Box<str>>,
    pub(super) title: Option<Box<str>>,
    pub(super) model: Option<Box<str>>,
    pub(super) children: RecentSet<Box<str>>,
}

impl About {
    pub(super) fn of(document: &str) -> Self {
        let meta = Meta::of(document);
        let of = |object: Option<&str>, key| short(member(object?, key));
        let mut about = Self {
            id: short(meta.id),
            parent: short(meta.parent),
            project: of(meta.environment, "working_directory"),
            title: filled(meta.title).map(|title| cut(&title)),
            model: of(meta.config, "model_name"),
            children: RecentSet::default(),
        };
        for child in walk::items(meta.children.unwrap_or_default()) {
            let id = short(Some(child)).or_else(|| short(member(child, "session_id")));
            if let Some(id) = id {
                about.children.insert(id);
            }
        }
        about
    }
}

impl Reader for Session {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        let line = Line::of(record.text);
        let payload = line.payload.map(Payload::of).unwrap_or_default();
        let kind = text(line.kind).unwrap_or_default();
        let input = payload.input.map(Input::of).unwrap_or_default();
        let command = input.command.map(Command::of).unwrap_or_default();
        let stage = text(command.kind.or(payload.kind)).unwrap_or_default();
        let ts = input
            .determinism
            .and_then(|told| millis(member(told, "time_unix_ms")));
        let mark = EventDraft::new(&kind, ts).stage(&stage);
        // Each record has a number.
        if draft.is_again(record.text) {
            return draft.again(&mark);
        }
        let is_made = line.before.is_some();
        if is_made {
            self.made.get_or_insert_default().records += 1;
        } else if self.begins_at.is_none() {
            self.begins_at = int(line.sequence);
        }
        match (&*kind, &*stage) {
            ("core_input", "user_message") => {
                let (end, answer) = self.settled(draft);
                self.ends
                    .begin(self.conversation.steps(), end, answer, None);
                (self.end, self.used) = (None, None);
                self.permissions.clear();
                self.has_asked |= !is_made;
                self.conversation
                    .prompt(&spoken(command.content), &mark, draft);
            }
            ("core_input", "completion_succeeded") if self.is_summary(&command) => {
                let reply = command.result.map(Reply::of).unwrap_or_default();
                let used = reply.usage.map(tokens).and_then(Tokens::sum);
                self.summarized = self.summarized.saturating_add(used.unwrap_or_default());
                draft.event(mark.stage("summary"));
            }
            ("core_input", "completion_succeeded") => {
                let (asked, part) = (draft.latest(), part_of(record.text, None));
                let used = part.tokens.unwrap_or_default().into();
                if !is_made {
                    self.spent = match self.has_replied {
                        false => used,
                        true => self.spent.plus(used),
                    };
                    self.has_replied = true;
                }
                self.conversation.reply(None, asked, mark, part, draft);
            }
            ("core_input", "completion_interrupted") => {
                let part = part_of(record.text, None);
                self.conversation.reply(None, None, mark, part, draft);
            }
            ("core_input", "tool_succeeded" | "tool_failed") => {
                self.result(&command, record.text, mark, draft);
            }
            ("core_input", _) => {
                draft.event(mark.failed(stage.ends_with("_failed")));
            }
            ("action_result", _) => match abandoned(&payload) {
                Some(result) => self.result(&result, record.text, mark, draft),
                None => {
                    let is_failure = payload.state == Some("\"failed\"");
                    draft.event(mark.failed(is_failure));
                }
            },
            ("action_intent", "completion") => {
                self.refused(record.text, mark, draft);
                let of = |key| payload.request.and_then(|request| member(request, key));
                if filled(of("compaction_id")).is_some() {
                    self.compactions.extend(short(of("action_id")));
                    return;
                }
                let is_resumed = self.begins_at.is_some_and(|first| first > 1);
                let is_unknown = self.made.is_none() && self.past.is_none();
                if is_resumed && is_unknown && self.conversation.last().is_none() {
                    self.past = payload.request.and_then(Past::of);
                }
                self.limit = above_zero(of("max_iterations")).or(self.limit);
                self.used = count(of("iteration")).map(|before| (before + 1) as f64);
            }
            ("command_reserved", _) => {
                draft.event(mark);
                let id = payload.params.and_then(|told| member(told, "sessionId"));
                let run = draft.run();
                run.run_id = run.run_id.take().or_else(|| short(id));
            }
            ("callback_registered", "approval") => {
                draft.event(mark);
                let detail = payload
                    .routing
                    .and_then(|routing| member(routing, "detail"));
                let effect = detail.and_then(|detail| member(detail, "effect"));
                let tool = effect.and_then(|effect| filled(member(effect, "toolName")));
                // The names of calls lack the group: `file_system.bash` is `bash`.
                let tool = tool.as_deref().and_then(|tool| tool.rsplit('.').next());
                self.permissions
                    .ask(short(payload.callback), tool.unwrap_or("a tool"));
            }
            ("callback_resolved", _) => {
                draft.event(mark);
                self.permissions.answer(short(payload.callback).as_deref());
            }
            ("projection_delta", _) => self.shown(&payload, record.text, mark, draft),
            ("compacted" | "missing" | "discarded", _) => {
                draft.event(mark);
                if let Some(made) = &mut self.made {
                    made.is_compacted |= kind == "compacted";
                    made.is_partial |= kind != "discarded";
                    made.discarded += u64::from(kind == "discarded");
                }
            }
            _ => {
                draft.event(mark);
            }
        }
    }

    fn beside(&mut self, document: &str) {
        self.about = About::of(document);
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        let (ended, answer) = self.settled(draft);
        // A segment without a prompt begins when the program closes the session.
        let is_resumed = self.has_asked || self.has_replied;
        let latest = draft.latest();
        let at = latest.filter(|_| ended.is_some());
        let open = self.conversation.last().filter(|_| ended.is_none());
        let asks = self.permissions.pending().filter(|_| ended.is_none());
        let asks = asks.or_else(|| draft.asks(open?, QUESTIONS));
        let about = &self.about;
        // The first prompt is in a segment that the program has deleted.
        let is_later = self.begins_at.is_some_and(|first| first > 1);
        let run = draft.run();
        run.tool = Some("Mistral Vibe".into());
        run.run_id = run.run_id.take().or_else(|| about.id.clone());
        run.parent = about.parent.clone().or_else(|| self.parent.clone());
        (run.project, run.model) = (about.project.clone(), about.model.clone());
        run.titles = about
            .title
            .clone()
            .or(self.title.clone())
            .or(self.preview.clone().filter(|_| is_later))
            .into_iter()
            .collect();
        run.awaits_user = run.parent.is_none() && (asks.is_some() || ended.is_some());
        run.asks_user = asks;
        run.notes = aside("compactions", self.summarized).into_iter().collect();
        run.records_made = self.made.as_ref().map_or(0, |made| made.records);
        run.updated_at = at;
        run.ended = ended.map(Box::new);
        run.final_result = answer;
        run.turns = Some(self.conversation.turns());
        run.children = Some(about.children.len() as u64);
        run.child_ids = about.children.listed();
        run.limits = limit(LIMIT, self.limit, "turns", self.used)
            .into_iter()
            .collect();
        let Some(first) = self.begins_at.filter(|first| *first > 1) else {
            return;
        };
        let past = self.past.as_ref();
        let past = past.filter(|past| past.is_whole(self.preview.as_deref()));
        let resumed = if is_resumed {
            "The session was resumed. "
        } else {
            ""
        };
        let counted = match (&self.made, past) {
            (Some(made), _) if made.is_compacted => {
                "The steps before it are from the session's saved state, without tokens. Vibe compacted \
                 the conversation, so earlier steps are unknown."
            }
            (Some(made), _) if made.is_partial => {
                "The steps before it are from the session's saved state, without tokens. A part of that \
                 state is missing or can't be read, so more steps are unknown."
            }
            (Some(_), _) => {
                "The steps before it are from the session's saved state, without tokens."
            }
            (None, Some(_)) => "The replies and calls in them are counted, but aren't steps.",
            (None, None) => "The number of replies and calls in them is unknown.",
        };
        let words = match &self.made {
            Some(_) => format!("{resumed}Its journal begins at record {first}. {counted}"),
            None => format!(
                "{resumed}Vibe keeps no journal of what came before: {} records. {counted}",
                first - 1
            ),
        };
        run.notes.insert(0, words.into());
        let of = |number: fn(&Past) -> u64| past.map(number);
        match &self.made {
            Some(made) if !made.is_partial => {
                run.replies_uncounted = made.discarded;
                run.earlier = (made.discarded > 0).then_some(Earlier {
                    replies: Some(made.discarded),
                    calls: Some(0),
                    failed_calls: Some(0),
                });
            }
            _ => {
                run.earlier = Some(Earlier {
                    replies: of(|past| past.replies),
                    calls: of(|past| past.calls),
                    failed_calls: of(|past| past.failed_calls),
                });
                run.replies_uncounted = of(|past| past.discarded).unwrap_or_default();
                run.turns =
                    of(|past| past.prompts).map(|before| before + self.conversation.turns());
            }
        }
        // The events are only those since the newest start.
        run.started_at = self.created;
        let times = self.created.zip(latest);
        let micros = times.and_then(|(from, to)| to.checked_sub(from));
        run.latency_s = micros.map(|micros| micros as f64 / 1e6);
        let Some(before) = self.before else { return };
        let all = match self.has_replied {
            false => before,
            true => before.plus(self.spent),
        };
        let sum = |(input, output): (u64, u64)| input.saturating_add(output);
        run.tokens = all.input.zip(all.output).map(sum).filter(|sum| *sum > 0);
        (run.usage, run.tokens_of_thread) = (all, run.tokens.is_some());
    }
}

impl Session {
    /// Returns whether a reply is the summary of a compaction.
    fn is_summary(&self, reply: &Command<'_>) -> bool {
        let action = short(reply.action);
        action.is_some_and(|action| self.compactions.contains(&action))
    }

    fn result(
        &mut self,
        result: &Command<'_>,
        record: &str,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        let id = text(result.call).unwrap_or_default();
        // After a restart, the core gets the result of an interrupted call, too.
        let n = if mark.ts.is_some() {
            self.conversation.take(&id)
        } else {
            self.conversation.step_with(&id)
        };
        let part = part_of(record, n.and_then(|n| draft.step(n)));
        draft.results(n.as_slice(), mark, part);
    }

    /// Handles a request to the model. It contains the results of calls that the core refused, such as
    /// those of unknown tools, which no other record does.
    fn refused(&mut self, record: &str, mark: EventDraft<'_>, draft: &mut Draft<'_>) {
        let last = self.conversation.last();
        let open = last.filter(|n| draft.unanswered(*n) > 0);
        let step = open.and_then(|n| draft.step(n));
        let part = step.map(|step| part_of(record, Some(step)));
        let Some(part) = part.filter(|part| !part.answers.is_empty()) else {
            draft.event(mark);
            return;
        };
        for answer in &part.answers {
            self.conversation.take(&answer.call);
        }
        draft.results(open.as_slice(), mark, part);
    }

    /// Handles a change of what the program shows.
    fn shown(
        &mut self,
        payload: &Payload<'_>,
        record: &str,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        let states = walk::items(payload.delta.unwrap_or_default())
            .filter(|change| member(change, "op") == Some("\"set_envelope\""));
        let state = states
            .last()
            .and_then(|change| member(change, "state"))
            .map(State::of)
            .unwrap_or_default();
        let end = state.turn.map(Turn::of).and_then(|turn| ended(&turn));
        let is_failure = end
            .as_ref()
            .is_some_and(|end| end.outcome == Outcome::Failed);
        let at = match cut_off(payload) {
            Some(reply) => {
                let (asked, ts) = (millis(reply.created), millis(reply.updated));
                let mark = EventDraft { ts, ..mark };
                let part = part_of(record, None);
                self.conversation.reply(None, asked, mark, part, draft);
                draft.newest()
            }
            None => draft.event(mark.failed(is_failure)),
        };
        let entries = walk::items(payload.delta.unwrap_or_default())
            .filter_map(|change| member(change, "entry"))
            .map(Entry::of);
        let is_done = |entry: &Entry<'_>| {
            entry.kind == Some("\"compaction\"") && entry.status == Some("\"completed\"")
        };
        for entry in entries.filter(is_done) {
            let trigger = entry.details.and_then(|details| member(details, "trigger"));
            draft.compacted(Compaction {
                event: at,
                tokens: None,
                tokens_after: None,
                trigger: short(trigger).unwrap_or_default(),
            });
        }
        let known = state.session.map(Known::of).unwrap_or_default();
        self.parent = short(known.parent).or(self.parent.take());
        self.title = short(known.title).or(self.title.take());
        self.preview = short(known.preview).or(self.preview.take());
        self.created = millis(known.created).or(self.created);
        if !self.has_replied {
            self.before = known.usage.map(spent).or(self.before.take());
        }
        // The program repeats the end with each later change.
        let is_known = |known: &Ended| {
            end.as_ref()
                .is_some_and(|end| (&end.word, &end.detail) == (&known.word, &known.detail))
        };
        if state.turn.is_some() && !self.end.as_ref().is_some_and(is_known) {
            self.end = end.map(|end| end.at_event(at));
        }
    }

    /// Returns the end and the answer. A turn without steps keeps those of the previous turn.
    fn settled(&self, draft: &Draft<'_>) -> (Option<Ended>, Option<Box<str>>) {
        let last = self.conversation.last();
        let step = last.and_then(|n| draft.step(n));
        let finish = step.and_then(|step| step.finish.as_deref());
        // For Vibe, a turn that the provider's filter ended is complete, and so is one without words.
        let filter = finish.filter(|finish| is_refusal(finish));
        let is_empty = step.is_some_and(|step| step.calls.is_empty() && !step.has_text());
        let end = self.end.clone().map(|end| match filter {
            None if end.outcome == Outcome::Completed && is_empty => Ended {
                event: end.event,
                ..Ended::unanswered(finish.unwrap_or_default())
            },
            Some(finish) if end.outcome == Outcome::Completed => Ended {
                word: finish.into(),
                headline: Ended::REFUSED.into(),
                outcome: Outcome::Failed,
                ..end
            },
            _ => end,
        });
        self.ends.settle_said(end, last, draft)
    }
}

/// Returns the reply that was interrupted, if the user saw the beginning of it. No other record has its
/// text.
fn cut_off<'a>(payload: &Payload<'a>) -> Option<Shown<'a>> {
    let mut changes = walk::items(payload.delta.unwrap_or_default());
    changes.find_map(|change| {
        let entry = member(change, "entry").map(Shown::of);
        entry.filter(Shown::is_cut_off)
    })
}

/// Returns the part of a step whose reply was interrupted after these words.
fn interrupted(words: String) -> Part {
    Part {
        text: vec![words],
        error: Some("interrupted".to_owned()),
        is_incomplete: true,
        ..Part::default()
    }
}

/// Returns the end of a turn, or `None` if it continues.
fn ended(turn: &Turn<'_>) -> Option<Ended> {
    let status = text(turn.status)?;
    let of =
        |word: &str, headline, outcome| Ended::new(word, headline, outcome, Certainty::Recorded);
    Some(match &*status {
        "in_progress" => return None,
        "completed" => match filled(turn.stop) {
            None => of(&status, "Answered", Outcome::Completed),
            Some(stop) => {
                End::of(STOPS, &stop).unwrap_or_else(|| of(&stop, "Ended", Outcome::Unknown))
            }
        },
        "interrupted" => {
            let reason = filled(turn.reason).unwrap_or_default();
            let note = if reason == INTERRUPT {
                "Vibe records hitting a time, token or cost limit the same way"
            } else {
                ""
            };
            of(&status, "Interrupted", Outcome::Cancelled)
                .detail(cut(&reason))
                .note(note)
        }
        _ => {
            let fault = turn.error.map(Fault::of).unwrap_or_default();
            let code = filled(fault.code).unwrap_or_else(|| status.clone());
            End::of(ERRORS, &code)
                .unwrap_or_else(|| End::error(&code))
                .detail(cut(&without_url(&text(fault.message).unwrap_or_default())))
        }
    })
}

/// Returns an error without the URLs that the HTTP library adds to it: `Client error '400 Bad Request'
/// for url 'URL'\nFor more information check: URL: no model` is `400 Bad Request: no model`.
fn without_url(error: &str) -> Cow<'_, str> {
    let short = || {
        let rest = ["Client error '", "Server error '"]
            .into_iter()
            .find_map(|begin| error.strip_prefix(begin))?;
        let (status, rest) = rest.split_once("' for url '")?;
        let (_, rest) = rest.split_once("'\nFor more information check: ")?;
        Some(match rest.split_once(": ") {
            Some((_, words)) => format!("{status}: {words}"),
            None => status.to_owned(),
        })
    };
    short().map_or(Cow::Borrowed(error), Cow::Owned)
}

/// Returns the result in the record of a call that was interrupted. The core doesn't get it.
fn abandoned<'a>(payload: &Payload<'a>) -> Option<Command<'a>> {
    let result = payload.result.map(Command::of)?;
    let error = result.result.and_then(|output| member(output, "error"))?;
    let is_abandoned = text(member(error, "code")).as_deref() == Some(ABANDONED);
    (is_abandoned && result.call.is_some()).then_some(result)
}

/// Returns the line of step `n`.
fn assembled(n: usize, records: &[String]) -> String {
    part::line_of(n, records, |record, step| part_of(record, Some(step)))
}

/// Returns the part of a step that a record contains. `step` is the step so far, with the call of a
/// result.
fn part_of(record: &str, step: Option<&Part>) -> Part {
    let payload = Line::of(record)
        .payload
        .map(Payload::of)
        .unwrap_or_default();
    let input = payload.input.map(Input::of).unwrap_or_default();
    let command = input
        .command
        .map(Command::of)
        .or_else(|| abandoned(&payload))
        .unwrap_or_default();
    let mut part = Part::default();
    if let Some(reply) = cut_off(&payload) {
        return interrupted(spoken(reply.content));
    }
    match command.kind {
        // Made from the state.
        Some("\"completion_interrupted\"") => return interrupted(spoken(command.content)),
        Some("\"completion_succeeded\"") => {
            let reply = command.result.map(Reply::of).unwrap_or_default();
            part.finish = text(reply.finish);
            part.tokens = reply.usage.map(tokens);
            for piece in walk::items(reply.parts.unwrap_or_default()).map(Piece::of) {
                match piece.kind {
                    Some("\"reasoning\"") => part.thought.push(spoken(piece.content)),
                    Some("\"text\"") => part.text.extend(filled(piece.text)),
                    Some("\"tool_call\"") => part.calls.push(CallDraft {
                        id: text(piece.id).unwrap_or_default(),
                        name: text(piece.name).unwrap_or_default(),
                        args: filled(piece.args)
                            .map_or_else(|| "{}".to_owned(), |args| unpacked(&args)),
                    }),
                    _ => {}
                }
            }
        }
        Some("\"tool_succeeded\"" | "\"tool_failed\"") => {
            let output = command.result.map(Output::of).unwrap_or_default();
            let answer = answer_of(&command, &output);
            let call = step
                .into_iter()
                .flat_map(|step| &step.calls)
                .find(|call| call.id == answer.call)
                .filter(|_| answer.status == Some("success"));
            if let Some(call) = call {
                change(call, &output, &mut part);
            }
            part.answers.push(answer);
        }
        _ => {}
    }
    if let (Some("\"completion\""), Some(request), Some(step)) =
        (payload.kind, payload.request, step)
    {
        part.answers.extend(refusals(request, step));
    }
    part
}

/// Returns the failures in a request to the model of calls of `step` that have no result.
fn refusals(request: &str, step: &Part) -> Vec<Answer> {
    let is_open = |call: &CallDraft| step.answers.iter().all(|answer| answer.call != call.id);
    let open: Vec<&str> = (step.calls.iter())
        .filter(|call| is_open(call))
        .map(|call| &*call.id)
        .collect();
    if open.is_empty() {
        return Vec::new();
    }
    let messages = member(request, "model_input")
        .and_then(|input| member(input, "messages"))
        .and_then(|messages| member(messages, "messages"));
    let failure = |message: &str| {
        let message = Asked::of(message);
        let call = text(message.call).filter(|call| open.contains(&&**call))?;
        let is_failure = message.role == Some("\"tool\"") && message.outcome == Some("\"failure\"");
        let said = Some(spoken(message.content)).filter(|_| is_failure)?;
        let fault = member(&said, "result").and_then(|result| member(result, "error"));
        let words = fault.and_then(|fault| filled(member(fault, "message")));
        Some(Answer {
            call,
            status: Some("error"),
            error: words.or_else(|| Some(said).filter(|said| !said.is_empty())),
            output: "null".to_owned(),
            ..Answer::default()
        })
    };
    walk::items(messages.unwrap_or_default())
        .filter_map(failure)
        .collect()
}

/// Returns whether the structured result of a call is that of a command that failed.
fn has_failed(value: &Value<'_>) -> bool {
    int(value.code).is_some_and(|code| code != 0) || is_true(value.timed_out)
}

fn answer_of(command: &Command<'_>, output: &Output<'_>) -> Answer {
    let value = output
        .value
        .filter(|value| value.starts_with('{'))
        .map(Value::of)
        .unwrap_or_default();
    let fault = output
        .error
        .filter(|error| error.starts_with('{'))
        .map(Fault::of);
    let exit = int(value.code);
    let printed: Vec<String> = [value.stdout, value.stderr]
        .into_iter()
        .filter_map(filled)
        .collect();
    let printed = printed.join("\n");
    // A command that failed is a success of its tool.
    let status = match command.kind {
        Some("\"tool_failed\"") => match fault.and_then(|fault| text(fault.code)).as_deref() {
            Some(ABANDONED) => "cancelled",
            _ => "error",
        },
        _ if has_failed(&value) => "error",
        _ => "success",
    };
    let error = (status != "success").then(|| {
        fault
            .and_then(|fault| filled(fault.message))
            .or_else(|| Some(printed.clone()).filter(|printed| !printed.is_empty()))
            .unwrap_or_else(|| NO_WORDS.to_owned())
    });
    let said = spoken(output.content);
    let output = match (value.stdout.or(value.stderr), value.content, output.value) {
        _ if error.is_some() => "null".to_owned(),
        (Some(_), ..) => quoted(&printed),
        (None, Some(content), _) => content.to_owned(),
        (None, None, Some(value)) if value != "null" => value.to_owned(),
        _ if said.is_empty() => "null".to_owned(),
        _ => quoted(&said),
    };
    Answer {
        call: text(command.call).unwrap_or_default(),
        status: Some(status),
        error,
        exit,
        ms: None,
        output,
    }
}

/// Adds the file or the list of tasks that a successful call changed.
fn change(call: &CallDraft, output: &Output<'_>, part: &mut Part) {
    let path = |key| filled(member(&call.args, key)).map(|path| format!("files.{path}"));
    match &*call.name {
        "write_file" => {
            let content = member(&call.args, "content").map(str::to_owned);
            part.changes
                .extend(path("path").map(|key| (key, None, content)));
        }
        "edit" => {
            let Some(key) = path("file_path") else { return };
            let blocks = output
                .meta
                .and_then(|meta| member(member(meta, REPLACED)?, "blocks"));
            let hunks: String = walk::items(blocks.unwrap_or_default())
                .filter_map(hunk)
                .collect();
            if !hunks.is_empty() {
                part.diffs.push((part.changes.len(), hunks));
            }
            part.changes.push((key, None, None));
        }
        "todo" => part.changes.extend(todos(call)),
        _ => {}
    }
}

/// Returns the list of tasks that a call writes, or `None` if it only reads the list.
pub(super) fn todos(call: &CallDraft) -> Option<(String, Option<String>, Option<String>)> {
    let todos = member(&call.args, "todos").filter(|todos| todos.starts_with('['))?;
    let is_written = member(&call.args, "action") == Some("\"write\"");
    is_written.then(|| ("todos".to_owned(), None, Some(todos.to_owned())))
}

/// Returns the hunk of a unified diff for the lines that an edit replaced.
fn hunk(block: &str) -> Option<String> {
    let block = Block::of(block);
    let lines = |list: Option<&str>| -> Vec<String> {
        walk::items(list.unwrap_or_default())
            .filter_map(|line| text(Some(line)))
            .collect()
    };
    let (before, after) = (lines(block.before), lines(block.after));
    let (from, to) = (count(block.from)?, count(block.to)?);
    let mut hunk = format!("@@ -{from},{} +{to},{} @@\n", before.len(), after.len());
    for (sign, lines) in [('-', &before), ('+', &after)] {
        for line in lines {
            hunk.push(sign);
            hunk.push_str(line.trim_end_matches('\n'));
            hunk.push('\n');
        }
    }
    Some(hunk)
}

/// Converts the tokens of the session.
fn spent(usage: &str) -> Usage {
    let usage = Spent::of(usage);
    Usage {
        input: count(usage.input),
        cached: count(usage.cached),
        output: count(usage.output),
        ..Usage::default()
    }
}

/// Converts the tokens of a request. Vibe counts cached input as input.
fn tokens(usage: &str) -> Tokens {
    let usage = Used::of(usage);
    Tokens {
        input: count(usage.input),
        cached: count(usage.cached),
        output: count(usage.output),
        reasoning: count(usage.reasoning),
        written: count(usage.written),
        ..Tokens::default()
    }
}
