//! Reads sessions of Kimi CLI, the predecessor of Kimi Code: one JSON object per line, appended to
//! `sessions/PROJECT/SESSION/wire.jsonl`. The records of sub-agents are in the same file.
//!
//! A step of the program is one request to the model: its parts, calls and tokens come one by one. A
//! turn ends with the same record whether it was answered, interrupted or failed, so the end is
//! inferred from what came before. Neither the model nor the directory is recorded. This reader is
//! based on version 1.51, the last one.

use super::conversation::Conversation;
use super::part::{self, text};
use super::permissions::Permissions;
use super::value::{
    count, cut, filled, function_call, int, is_text, is_true, listed, objects, seconds, short,
    silent, spoken, unpacked,
};
use super::{Answer, Draft, EventDraft, Part, Reader, Shape, Source, Tokens, Tool};
use crate::model::{Can, Capabilities, Certainty, Compaction, Ended, Format, Outcome};

/// A session file.
pub(super) static SESSION: Tool = Tool {
    format: Format {
        name: "Kimi CLI session",
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
            line.kind == Some("\"metadata\"") && is_text(line.protocol) && line.created.is_none()
        };
        name.ends_with(".jsonl") && objects(head).next().map(Line::of).is_some_and(is_header)
    },
    reader: || Box::new(Session::default()),
};

/// The tools that ask the user a question.
const QUESTIONS: &[&str] = &["AskUserQuestion"];

/// The record after which the program makes no further request for a step.
const GIVEN_UP: &str = "StepInterrupted";

/// What the result of a refused call says.
const REFUSED: &str = "The tool call is rejected by the user";

/// How the message of a failed command names the exit code.
const EXIT: &str = "Command failed with exit code: ";

fields! {
    struct Line { kind = "type", protocol = "protocol_version", created = "created_at", timestamp, message }
    struct Message { kind = "type", payload }
    struct Payload {
        input = "user_input", text, think, id, function, usage = "token_usage",
        call = "tool_call_id", value = "return_value", error = "error_type", status = "status_code",
        window = "max_context_tokens", request = "request_id",
    }
    struct Value { failed = "is_error", output, message, display }
    struct Block { kind = "type", path }
    struct Usage {
        other = "input_other", output, cached = "input_cache_read", written = "input_cache_creation",
    }
}

/// A session while it is being read.
#[derive(Debug, Default)]
struct Session {
    conversation: Conversation,
    /// The program's newest step: its start, and its number once a part of the reply is recorded.
    step: Option<(Option<i64>, Option<usize>)>,
    /// The error for which the newest request was repeated.
    error: Option<Box<str>>,
    /// Whether the program gave the newest step up.
    is_interrupted: bool,
    permissions: Permissions,
    end: Option<Ended>,
}

impl Reader for Session {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        let line = Line::of(record.text);
        let message = line.message.map(Message::of).unwrap_or_default();
        let payload = message.payload.map(Payload::of).unwrap_or_default();
        let kind = text(message.kind.or(line.kind)).unwrap_or_default();
        let mark = EventDraft::new(&kind, seconds(line.timestamp));
        if mark.ts.is_some() && draft.is_again(record.text) {
            return draft.again(&mark);
        }
        if draft.run().run_id.is_none() {
            draft.run().run_id = Some(cut(record.folder()));
        }
        match &*kind {
            "TurnBegin" => {
                self.begin();
                self.conversation
                    .prompt(&spoken(payload.input), &mark, draft);
            }
            // The user adds to the prompt while the model works.
            "SteerInput" => self
                .conversation
                .prompt(&spoken(payload.input), &mark, draft),
            "StepBegin" => {
                self.begin();
                self.step = Some((mark.ts, None));
                draft.event(mark);
            }
            "ContentPart" | "ToolCall" | "StatusUpdate" if is_reply(&kind, &payload) => {
                if let Some(window) = count(payload.window) {
                    draft.run().context_window = Some(window);
                }
                let (asked, n) = self.step.unwrap_or((draft.latest(), None));
                let part = part_of(record.text, None);
                let n = self.conversation.reply(n, asked, mark, part, draft);
                self.step = Some((asked, Some(n)));
            }
            "ToolResult" => {
                let id = text(payload.call).unwrap_or_default();
                let n = self.conversation.step_with(&id);
                let part = part_of(record.text, n.and_then(|n| draft.step(n)));
                draft.results(n.as_slice(), mark, part);
            }
            "StepRetry" => {
                let status = int(payload.status).map(|status| status.to_string());
                let words = [status, text(payload.error)].into_iter().flatten();
                self.error = Some(cut(&words.collect::<Vec<_>>().join(" ")));
                draft.event(mark.failed(true));
            }
            GIVEN_UP => {
                self.is_interrupted = true;
                draft.event(mark.failed(self.error.is_some()));
            }
            "ApprovalRequest" => {
                let id = text(payload.call).unwrap_or_default();
                let step = self.conversation.step_with(&id);
                let tool = step.and_then(|n| draft.tool_of(n, &id));
                self.permissions
                    .ask(short(payload.id), tool.unwrap_or("a tool"));
                draft.event(mark);
            }
            "ApprovalResponse" => {
                self.permissions.answer(short(payload.request).as_deref());
                draft.event(mark);
            }
            "CompactionEnd" => {
                let event = draft.event(mark);
                draft.compacted(Compaction {
                    event,
                    tokens: None,
                    tokens_after: None,
                    trigger: Box::default(),
                });
            }
            "TurnEnd" => {
                let at = draft.event(mark);
                self.end = Some(self.ended(draft).at_event(at));
            }
            _ => {
                draft.event(mark);
            }
        }
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        let end = self.end.clone();
        let is_answer = |end: &Ended| end.outcome == Outcome::Completed;
        let last = self.conversation.last();
        let answered = last.filter(|_| end.as_ref().is_some_and(is_answer));
        let answer = answered.and_then(|n| draft.said(n));
        let asks = last
            .and_then(|n| draft.asks(n, QUESTIONS))
            .or_else(|| self.permissions.pending())
            .filter(|_| end.is_none());
        let at = draft.latest().filter(|_| end.is_some());
        let run = draft.run();
        run.tool = Some("Kimi CLI".into());
        run.awaits_user = asks.is_some() || end.is_some();
        run.asks_user = asks;
        run.updated_at = at;
        run.ended = end.map(Box::new);
        run.final_result = answer;
        run.turns = Some(self.conversation.turns());
    }
}

impl Session {
    /// Begins a turn or a step.
    fn begin(&mut self) {
        (self.step, self.error, self.is_interrupted) = (None, None, false);
        self.end = None;
        self.permissions.clear();
    }

    /// Returns the end of a turn.
    fn ended(&self, draft: &Draft<'_>) -> Ended {
        let of = Ended::new;
        let last = self.conversation.last();
        let step = last.and_then(|n| draft.step(n));
        // The newest step may have no reply.
        let has_replied = self.step.is_some_and(|(_, n)| n.is_some());
        match (&self.error, step) {
            (Some(error), _) if self.is_interrupted => {
                of(GIVEN_UP, "API error", Outcome::Failed, Certainty::Inferred)
                    .detail(error.clone())
            }
            _ if self.is_interrupted => of(
                GIVEN_UP,
                "Interrupted",
                Outcome::Cancelled,
                Certainty::Recorded,
            ),
            (_, Some(step)) if has_replied && step.is_answer() => {
                of("", "Answered", Outcome::Completed, Certainty::Recorded)
            }
            (_, Some(step)) if step.unanswered() > 0 => of(
                Ended::WITH_CALLS,
                "Interrupted",
                Outcome::Cancelled,
                Certainty::Inferred,
            ),
            _ => last
                .and_then(|n| draft.cancelled(n, Certainty::Recorded))
                .unwrap_or_else(|| of("", Ended::NO_ANSWER, Outcome::Unknown, Certainty::Recorded)),
        }
    }
}

/// Returns whether a record is part of a reply. Some status updates have no tokens.
fn is_reply(kind: &str, payload: &Payload<'_>) -> bool {
    kind != "StatusUpdate" || payload.usage.is_some_and(|usage| usage.starts_with('{'))
}

/// Returns the line of step `n`.
fn assembled(n: usize, records: &[String]) -> String {
    part::line_of(n, records, |record, step| part_of(record, Some(step)))
}

/// Returns the part of a step that a record contains. `step` is the step so far, with the calls of
/// results.
fn part_of(record: &str, step: Option<&Part>) -> Part {
    let message = Line::of(record)
        .message
        .map(Message::of)
        .unwrap_or_default();
    let payload = message.payload.map(Payload::of).unwrap_or_default();
    let mut part = Part::default();
    match message.kind {
        Some("\"ContentPart\"") => {
            part.text.extend(filled(payload.text));
            part.thought.extend(filled(payload.think));
        }
        Some("\"ToolCall\"") => {
            part.calls.push(function_call(payload.id, payload.function));
        }
        Some("\"StatusUpdate\"") => part.tokens = payload.usage.and_then(tokens),
        Some("\"ToolResult\"") => {
            let value = payload.value.map(Value::of).unwrap_or_default();
            let answer = answer_of(text(payload.call).unwrap_or_default(), &value);
            let calls = step.into_iter().flat_map(|step| &step.calls);
            let is_known = calls.clone().any(|call| call.id == answer.call);
            let is_done = answer.status == Some("success") && is_known;
            let blocks = listed(value.display).map(Block::of);
            let diffs = blocks.filter(|block| is_done && block.kind == Some("\"diff\""));
            let paths = diffs.filter_map(|block| filled(block.path));
            part.changes
                .extend(paths.map(|path| (format!("files.{path}"), None, None)));
            part.answers.push(answer);
        }
        _ => {}
    }
    part
}

fn answer_of(call: String, value: &Value<'_>) -> Answer {
    let (output, said) = (
        spoken(value.output),
        text(value.message).unwrap_or_default(),
    );
    let bad = is_true(value.failed);
    let exit = said.strip_prefix(EXIT);
    let exit = exit.and_then(|code| code.trim_end_matches('.').parse().ok());
    let words = if output.is_empty() { &said } else { &output };
    Answer {
        call,
        status: Some(match bad {
            true if said.starts_with(REFUSED) => "cancelled",
            true => "error",
            false => "success",
        }),
        error: bad.then(|| match words.is_empty() {
            true => silent(exit),
            false => words.clone(),
        }),
        exit: exit.filter(|_| bad),
        output: match bad {
            true => "null".to_owned(),
            false => unpacked(words),
        },
        ..Answer::default()
    }
}

/// Converts the tokens of a request.
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
