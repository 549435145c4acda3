//! Reads sessions of Qwen Code: one JSON object per line, appended to
//! `projects/PROJECT/chats/SESSION.jsonl`. Sub-agents have separate files in `subagents/SESSION/`.
//!
//! The lines are similar to those of Claude Code, and the messages to those of Gemini. A reply is
//! one line. A sub-agent's reply is several lines, and one of them has the tokens. No line records
//! how the session ended, but errors of the service are recorded, and its complete responses. A reply
//! that the program discarded, and those of summaries and of the program's own agents, are only among
//! these responses. The end, the model and the parent of a sub-agent are in a document next to its
//! file. This reader is based on version 0.24.

use super::conversation::Conversation;
use super::gemini::report::reported;
use super::gemini::{changes, given_for};
use super::part::{self, text};
use super::turns::Turns;
use super::value::{
    aside, contains, count, cut, filled, int, is_text, is_true, member, number, objects, short,
    stage_beside, status,
};
use super::watch::begun_member;
use super::{
    Answer, CallDraft, Draft, EventDraft, Part, Reader, Shape, Source, Tokens, Tool, USER_SHELL,
    UserShell,
};
use crate::model::{Can, Capabilities, Certainty, Compaction, Ended, Format, Manifest, Outcome};

/// A session file.
pub(super) static SESSION: Tool = Tool {
    format: Format {
        name: "Qwen Code session",
        can: Capabilities {
            state: Can::Partly,
            times: Can::Yes,
            tokens: Can::Yes,
            ..Capabilities::NONE
        },
        file: "session file",
        is_session: true,
        resume: "qwen --resume",
        is_in_order: true,
        assemble: Some(|n, records| {
            let lines = records.iter().map(|record| Line::of(record));
            part::line(n, lines.map(|line| part_of(&line, &Content::of(&line))))
        }),
        ..Format::UNKNOWN
    },
    shape: Shape::Lines,
    is: |name, head| {
        // Claude Code's lines have the same keys, but their messages differ.
        let is_ours = |text: &str| {
            let line = Line::of(text);
            // The message may be longer than the part of the file that is examined.
            let parts = || match line.message {
                Some(message) => member(message, "parts"),
                None => begun_member(begun_member(text, "\"message\"")?, "\"parts\""),
            };
            is_text(line.session)
                && is_text(line.uuid)
                && (line.payload.is_some() || parts().is_some())
        };
        name.ends_with(".jsonl")
            && contains(head, &["\"parts\"", "\"systemPayload\""])
            && objects(head).any(is_ours)
    },
    reader: || Box::new(Session::default()),
};

/// The tools that only ask the user.
const QUESTIONS: &[&str] = &["ask_user_question", "exit_plan_mode"];

fields! {
    struct Line {
        session = "sessionId", uuid, timestamp, kind = "type", subtype, cwd, branch = "gitBranch", version, model, message,
        usage = "usageMetadata", result = "toolCallResult", payload = "systemPayload", agent = "agentId", provenance,
    }
    struct Chunk { text, thought, call = "functionCall", given = "functionResponse" }
    struct Call { id, name, args, response }
    struct Usage {
        input = "promptTokenCount", output = "candidatesTokenCount", thoughts = "thoughtsTokenCount",
        cached = "cachedContentTokenCount",
    }
    struct Result { status, display = "resultDisplay", ms = "durationMs" }
    struct Display { kind = "type", exit = "exitCode", output }
    struct Compressed { before = "originalTokenCount", after = "newTokenCount" }
    struct State { status, error = "lastError", parent = "parentAgentId", model, flags = "persistedCliFlags" }
    struct Telemetry {
        name = "event.name", message = "error_message", class = "error_type", subagent = "subagent_name",
        input = "input_token_count", output = "output_token_count",
    }
}

/// A session while it is being read.
#[derive(Debug, Default)]
struct Session {
    /// The conversation, and whether its newest reply continues.
    conversation: Conversation,
    replying: bool,
    children: u64,
    /// Whether a prompt or a result came after the last reply, so that another reply is due, and
    /// whether it was a prompt.
    due: bool,
    has_prompt: bool,
    heard: Heard,
    end: Option<Ended>,
    ends: Turns,
    /// What the document next to a sub-agent's file records.
    agent: Agent,
}

/// The records of the service's complete responses, which a reply that was interrupted lacks.
#[derive(Debug, Default)]
struct Heard {
    /// Whether the program records them. Not in sub-agents' files, and not by old versions.
    is_any: bool,
    /// Whether one waits for its reply.
    waits: bool,
    /// Whether the newest reply has one, or has tokens.
    of_last: bool,
    /// The tokens of the one that waits.
    tokens: u64,
    /// The responses without a reply.
    lost: Lost,
}

/// Responses of the service whose replies aren't in any file.
#[derive(Debug, Default, Clone, Copy)]
struct Lost {
    responses: u64,
    tokens: u64,
}

impl Lost {
    /// Adds a response with this number of tokens. One without any broke off.
    fn add(&mut self, tokens: u64) {
        self.responses += u64::from(tokens > 0);
        self.tokens = self.tokens.saturating_add(tokens);
    }
}

impl Heard {
    /// Takes in a response with this number of tokens. Its record comes before that of the reply.
    fn response(&mut self, tokens: u64) {
        self.lost = self.lost();
        (self.is_any, self.waits, self.of_last) = (true, true, true);
        self.tokens = tokens;
    }

    /// Takes in a response to one of the program's own agents, which has no file.
    fn other(&mut self, tokens: u64) {
        self.lost.add(tokens);
    }

    /// Returns the responses without a reply. The newest one may still get its reply.
    fn lost(&self) -> Lost {
        let mut lost = self.lost;
        if self.waits {
            lost.add(self.tokens);
        }
        lost
    }

    /// Takes in a reply. A program that records who wrote a line also records responses.
    fn reply(&mut self, has_tokens: bool, has_writer: bool) {
        self.is_any |= has_writer;
        self.of_last = std::mem::take(&mut self.waits) || has_tokens;
    }

    /// Takes in a prompt or a result, after which another response is due.
    fn request(&mut self) {
        self.lost = self.lost();
        (self.waits, self.of_last) = (false, true);
    }

    /// Returns whether the newest reply was interrupted.
    fn is_cut(&self) -> bool {
        self.is_any && !self.of_last
    }
}

impl Reader for Session {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        let line = Line::of(record.text);
        let ts = draft.time(line.timestamp);
        let before = draft.latest();
        about(&line, record, draft);
        let (kind, stage) = (
            text(line.kind).unwrap_or_default(),
            text(line.subtype).unwrap_or_default(),
        );
        let mark = EventDraft::new(&kind, ts).stage(&stage);
        if filled(line.uuid).is_some_and(|uuid| draft.is_again(&uuid)) {
            return draft.again(&mark);
        }
        match &*kind {
            "assistant" => self.reply(&line, mark, before, draft),
            "tool_result" => self.result(&line, mark, draft),
            "user" if stage == "notification" => {
                draft.event(mark);
                (self.replying, self.due, self.has_prompt) = (false, true, true);
                self.heard.request();
            }
            "user" => {
                let said = said(&chunks(&line));
                // A command that the user ran requests no reply.
                if UserShell::is_in(&said) {
                    let stage = USER_SHELL;
                    draft.event(EventDraft { stage, ..mark });
                    return;
                }
                let (end, answer) = self.settled(draft);
                self.ends
                    .begin(self.conversation.steps(), end, answer, None);
                (self.replying, self.due, self.has_prompt, self.end) = (false, true, true, None);
                self.heard.request();
                self.conversation.prompt(&said, &mark, draft);
            }
            _ => self.event(&line, mark, draft),
        }
    }

    fn beside(&mut self, document: &str) {
        self.agent = Agent::of(document);
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        let (ended, answer) = self.settled(draft);
        let told = self.agent.ended(answer.is_some());
        let is_answer = |end: &Ended| end.outcome == Outcome::Completed;
        let answer = answer.filter(|_| told.as_ref().is_none_or(is_answer));
        let ended = told.or(ended);
        let asks = self
            .conversation
            .last()
            .filter(|_| ended.is_none())
            .and_then(|n| draft.asks(n, QUESTIONS));
        let at = draft.latest();
        let lost = self.heard.lost();
        let run = draft.run();
        run.parent = self.agent.parent.clone().or(run.parent.take());
        run.model = run.model.take().or_else(|| self.agent.model.clone());
        let is_users_turn = asks.is_some() || ended.is_some();
        run.awaits_user = run.parent.is_none() && is_users_turn;
        run.asks_user = asks;
        run.updated_at = at.filter(|_| ended.is_some());
        run.ended = ended.map(Box::new);
        run.final_result = answer;
        run.turns = Some(self.conversation.turns());
        run.children = Some(self.children);
        let replies = self.conversation.steps() as u64;
        run.model_calls = (lost.responses > 0).then_some(replies + lost.responses);
        run.notes = aside("requests", lost.tokens).into_iter().collect();
    }
}

impl Session {
    /// Returns the end and the answer of the session. A turn without steps keeps those of the
    /// previous turn.
    fn settled(&self, draft: &Draft<'_>) -> (Option<Ended>, Option<Box<str>>) {
        let is_last =
            |n: &usize| !self.due && draft.step(*n).is_some_and(|step| step.calls.is_empty());
        let last = self.conversation.last().filter(is_last);
        let cut = last.filter(|_| self.heard.is_cut()).map(interrupted);
        let answer = last
            .and_then(|n| draft.said(n))
            .filter(|_| self.end.is_none() && cut.is_none());
        // If all calls of a reply were cancelled, the program makes no further request.
        let cancelled = || {
            self.conversation
                .last()
                .filter(|_| !self.has_prompt)
                .and_then(|n| draft.cancelled(n, Certainty::Recorded))
        };
        let end = self
            .end
            .clone()
            .or(cut)
            .or_else(|| answer.is_some().then(|| Ended::answered(Ended::NO_CALLS)));
        self.ends.settle(
            end.or_else(cancelled),
            answer,
            self.conversation.steps(),
            None,
        )
    }

    /// Handles a reply of the model. A line without tokens belongs to the reply before it.
    fn reply(
        &mut self,
        line: &Line<'_>,
        mark: EventDraft<'_>,
        before: Option<i64>,
        draft: &mut Draft<'_>,
    ) {
        let part = part_of(line, &Content::of(line));
        let continues = self.replying && part.tokens.is_none();
        let known = self.conversation.last().filter(|_| continues);
        self.replying = true;
        (self.due, self.has_prompt) = (false, false);
        if !continues {
            self.heard
                .reply(part.tokens.is_some(), line.provenance.is_some());
        }
        // The error of a request is the end if the service's response isn't complete.
        self.end.take_if(|_| !self.heard.is_cut());
        draft.run().model = short(line.model).or(draft.run().model.take());
        self.conversation.reply(known, before, mark, part, draft);
    }

    /// Handles tool results.
    fn result(&mut self, line: &Line<'_>, mark: EventDraft<'_>, draft: &mut Draft<'_>) {
        (self.replying, self.due, self.end) = (false, true, None);
        self.heard.request();
        let content = Content::of(line);
        let part = part_of(line, &content);
        let is_agent = content.display.kind == Some("\"task_execution\"");
        self.children += u64::from(is_agent);
        let mut steps: Vec<usize> = part
            .answers
            .iter()
            .filter_map(|answer| self.conversation.take(&answer.call))
            .collect();
        steps.dedup();
        let said = said(&content.chunks);
        let stage = stage_beside(&said, mark.stage);
        draft.results(&steps, mark.stage(stage), part);
    }

    /// Handles a line by the program.
    fn event(&mut self, line: &Line<'_>, mark: EventDraft<'_>, draft: &mut Draft<'_>) {
        let told = line
            .payload
            .and_then(|payload| member(payload, "uiEvent"))
            .map(Telemetry::of)
            .unwrap_or_default();
        let name = text(told.name).unwrap_or_default();
        let is_error = name == "qwen-code.api_error";
        if name == "qwen-code.api_response" {
            let of = |value| count(value).unwrap_or_default();
            let tokens = of(told.input).saturating_add(of(told.output));
            match text(told.subagent) {
                None => self.heard.response(tokens),
                Some(agent) if agent.starts_with(OWN_AGENT) => self.heard.other(tokens),
                Some(_) => {}
            }
        }
        let compressed = line
            .payload
            .filter(|_| mark.stage == "chat_compression")
            .and_then(|payload| member(payload, "info"))
            .map(Compressed::of);
        let stage = if name.is_empty() { mark.stage } else { &name };
        let at = draft.event(EventDraft {
            stage,
            failed: is_error,
            ..mark
        });
        if let Some(sizes) = compressed {
            draft.compacted(Compaction {
                event: at,
                tokens: count(sizes.before),
                tokens_after: count(sizes.after),
                trigger: Box::default(),
            });
        }
        if is_error {
            // The program may retry the request. Only the lack of a further line shows that it
            // ended here.
            let word = text(told.class).unwrap_or_else(|| "api_error".to_owned());
            let (headline, outcome) = match &*word {
                // Older versions record an interruption as an error.
                "APIUserAbortError" => ("Interrupted", Outcome::Cancelled),
                _ => ("API error", Outcome::Failed),
            };
            let end = Ended::new(&word, headline, outcome, Certainty::Inferred);
            let end = end.detail(short(told.message).unwrap_or_default());
            self.end = Some(end.at_event(at));
        }
    }
}

/// Returns the end of a session whose newest reply, step `n`, was interrupted.
fn interrupted(n: usize) -> Ended {
    let headline = "Interrupted";
    let sentence = format!(
        "{headline} in step {n} while the model replied; its complete response isn't recorded"
    );
    let end = Ended::new("", headline, Outcome::Cancelled, Certainty::Inferred).detail(sentence);
    Ended {
        is_sentence: true,
        ..end
    }
}

/// How the names of the agents begin that the program starts for itself. They have no files.
const OWN_AGENT: &str = "managed-";

/// The facts in the document next to a sub-agent's file.
#[derive(Debug, Default)]
struct Agent {
    status: Box<str>,
    error: Box<str>,
    /// The sub-agent that started this one.
    parent: Option<Box<str>>,
    model: Option<Box<str>>,
}

impl Agent {
    fn of(document: &str) -> Self {
        let state = State::of(document);
        let of_session = || short(member(state.flags?, "model"));
        Self {
            parent: short(state.parent),
            model: short(state.model).or_else(of_session),
            status: short(state.status).unwrap_or_default(),
            error: text(state.error)
                .map(|error| cut(error_in(&error)))
                .unwrap_or_default(),
        }
    }

    /// Returns the end of the sub-agent, or `None` if the document doesn't record one.
    fn ended(&self, has_answer: bool) -> Option<Ended> {
        let of = |headline, outcome| {
            Ended::new(&self.status, headline, outcome, Certainty::Recorded)
                .detail(self.error.clone())
        };
        match &*self.status {
            "completed" if has_answer => Some(of("Answered", Outcome::Completed)),
            "failed" => Some(of("Failed with an error", Outcome::Failed)),
            "cancelled" => Some(of("Cancelled", Outcome::Cancelled)),
            _ => None,
        }
    }
}

/// Returns the message in an error that the program prints as an object after its class.
fn error_in(error: &str) -> &str {
    let message = || {
        let (_, rest) = error
            .strip_prefix("Unhandled error. (")?
            .split_once("error: '")?;
        Some(rest.split_once("',\n")?.0)
    };
    message().unwrap_or(error)
}

/// Takes the facts about the whole session from a line.
fn about(line: &Line<'_>, record: Source<'_>, draft: &mut Draft<'_>) {
    if draft.run().run_id.is_none() {
        draft.session(line.session, line.agent, record.name());
    }
    let run = draft.run();
    let known = run.tool.as_deref();
    let known = known.and_then(|tool| tool.strip_prefix("Qwen Code "));
    if let Some(version) = text(line.version).filter(|version| known != Some(&**version)) {
        run.tool = Some(cut(&format!("Qwen Code {version}")));
    }
    run.project = run.project.take().or_else(|| short(line.cwd));
    Manifest::add_name(&mut run.branches, short(line.branch));
}

/// What a message and the result in its line contain. They may be most of the line, so each line's are
/// read only once.
#[derive(Debug)]
struct Content<'a> {
    chunks: Vec<Chunk<'a>>,
    result: Result<'a>,
    display: Display<'a>,
}

impl<'a> Content<'a> {
    fn of(line: &Line<'a>) -> Self {
        let result = line.result.map(Result::of).unwrap_or_default();
        Self {
            chunks: chunks(line),
            display: result.display.map(Display::of).unwrap_or_default(),
            result,
        }
    }
}

/// Returns the parts of a message.
fn chunks<'a>(line: &Line<'a>) -> Vec<Chunk<'a>> {
    let parts = line.message.and_then(|message| member(message, "parts"));
    parts.map(Chunk::list).unwrap_or_default()
}

/// Returns the texts of a message, joined by newlines.
fn said(chunks: &[Chunk<'_>]) -> String {
    chunks
        .iter()
        .filter_map(|chunk| text(chunk.text))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns the part of a step that a line contains.
fn part_of(line: &Line<'_>, content: &Content<'_>) -> Part {
    let mut part = Part {
        model: text(line.model),
        tokens: line.usage.map(tokens),
        ..Part::default()
    };
    for chunk in &content.chunks {
        if let Some(call) = chunk.call.map(Call::of) {
            let (id, name) = (
                text(call.id).unwrap_or_default(),
                text(call.name).unwrap_or_default(),
            );
            part.calls.push(CallDraft {
                id,
                name,
                args: call.args.unwrap_or("{}").to_owned(),
            });
        } else if let Some(given) = chunk.given.map(Call::of) {
            part.answers.push(answer(&given, content));
        } else if let Some(said) = text(chunk.text).filter(|said| !said.is_empty()) {
            if is_true(chunk.thought) {
                part.thought.push(said)
            } else {
                part.text.push(said)
            }
        }
    }
    if let Some(display) = content.result.display {
        part.changes = changes(display, text(line.cwd).as_deref());
    }
    part
}

fn answer(given: &Call<'_>, content: &Content<'_>) -> Answer {
    let Content {
        result, display, ..
    } = content;
    let error = given
        .response
        .and_then(|response| member(response, "error"));
    // A sub-agent's results have no status.
    let status = status(result.status).or_else(|| {
        given
            .response
            .map(|_| if error.is_some() { "error" } else { "success" })
    });
    let answer = given_for(&text(given.id).unwrap_or_default(), given.response, status);
    let answer = Answer {
        exit: int(display.exit),
        ms: number(result.ms),
        ..answer
    };
    if given.name != Some("\"run_shell_command\"") {
        return answer;
    }
    // Older versions show the output as a text.
    let shown = display.output.or(result.display);
    reported(answer, &text(shown).unwrap_or_default())
}

/// Converts the tokens of a reply. The service includes thoughts in the output, and cached tokens
/// in the input.
fn tokens(usage: &str) -> Tokens {
    let usage = Usage::of(usage);
    Tokens {
        input: count(usage.input),
        cached: count(usage.cached),
        output: count(usage.output),
        reasoning: count(usage.thoughts),
        ..Tokens::default()
    }
}
