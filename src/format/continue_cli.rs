//! Reads sessions of Continue: one document, `sessions/SESSION.json`, written when a run of
//! `cn -p` ends well.
//!
//! An item of its history is a message, and the calls of a reply with their results. The document has
//! no times, and doesn't record why a reply ended: one that reached the output limit looks like an
//! answer. A command that failed without writing to its standard error looks like a success, so the
//! outcome of such a command is unknown. This reader is based on version 1.5 of the command line.

use super::conversation::Conversation;
use super::part::{self, MAX_PIECES, quoted, text};
use super::value::{above_zero, count, filled, function_call, hunks, member, short, spoken};
use super::watch::has_begun;
use super::{Answer, CallDraft, Draft, EventDraft, Part, Reader, Shape, Source, Tokens, Tool};
use crate::model::json::walk;
use crate::model::step::NO_WORDS;
use crate::model::{Can, Capabilities, Format};

/// A session.
pub(super) static SESSION: Tool = Tool {
    format: Format {
        name: "Continue session",
        can: Capabilities {
            state: Can::Partly,
            tokens: Can::Yes,
            cost: Can::Partly,
            ..Capabilities::NONE
        },
        file: "session file",
        no_end_reason: "Continue doesn't record why a reply ended",
        is_session: true,
        is_known_by_calls: true,
        assemble: Some(assembled),
        ..Format::UNKNOWN
    },
    shape: Shape::Document(&[
        &["history", "*"],
        &["sessionId"],
        &["title"],
        &["workspaceDirectory"],
        &["usage"],
    ]),
    is: |name, head| {
        name.ends_with(".json") && has_begun(head, &["sessionId", "workspaceDirectory", "history"])
    },
    reader: || Box::new(Session::default()),
};

/// The title of a session that has none.
const UNTITLED: &str = "Untitled Session";

/// The tool that runs shell commands. Only one that wrote to its standard error can be `errored`.
const SHELL: &str = "Bash";
/// How the result of a shell command names its exit code.
const EXIT: &str = "Error executing tool Bash: Error (exit code ";

/// The tools that ask the user a question.
const QUESTIONS: &[&str] = &["AskQuestion"];

fields! {
    struct Item { message, states = "toolCallStates" }
    struct Message { role, content, calls = "toolCalls", usage, call = "toolCallId" }
    struct Call { id, function }
    struct State { id = "toolCallId", status, output }
    struct Usage {
        input = "prompt_tokens", output = "completion_tokens", of_input = "prompt_tokens_details",
        of_output = "completion_tokens_details", model,
    }
}

/// A session while it is being read.
#[derive(Debug, Default)]
struct Session {
    conversation: Conversation,
    /// Whether the last message is a reply.
    is_replied: bool,
}

impl Reader for Session {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        let value = Some(record.text);
        match record.path {
            0 => self.item(record.text, draft),
            1 => draft.run().run_id = short(value),
            2 => {
                let title = short(value).filter(|title| !matches!(&**title, "" | UNTITLED));
                draft.run().titles = title.into_iter().collect();
            }
            3 => draft.run().project = short(value),
            _ => {
                if record.text.starts_with('{') {
                    draft.event(EventDraft::new("usage", None));
                }
                let cost = above_zero(member(record.text, "totalCost"));
                let run = draft.run();
                // By the program's own list of prices.
                (run.cost_usd, run.cost_estimated) = (cost, cost.is_some());
            }
        }
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        let step = self.conversation.last().and_then(|n| draft.step(n));
        let is_over = self.is_replied && step.is_some_and(Part::is_answer);
        let last = self.conversation.last();
        let asks = last.and_then(|n| draft.asks(n, QUESTIONS));
        let run = draft.run();
        run.tool = Some("Continue".into());
        run.awaits_user = is_over || asks.is_some();
        run.asks_user = asks;
        run.turns = Some(self.conversation.turns());
    }
}

impl Session {
    fn item(&mut self, record: &str, draft: &mut Draft<'_>) {
        let message = Item::of(record)
            .message
            .map(Message::of)
            .unwrap_or_default();
        let role = text(message.role).unwrap_or_default();
        let mark = EventDraft::new(&role, None);
        match &*role {
            "assistant" => {
                let part = part_of(record);
                let failed = part.has_failed();
                draft.name_model(&part);
                self.conversation
                    .reply(None, None, mark.failed(failed), part, draft);
                self.is_replied = true;
            }
            "tool" => {
                let part = part_of(record);
                let n = self.conversation.step_of(&part);
                draft.results(n.as_slice(), mark, part);
                self.is_replied = false;
            }
            "user" => {
                self.conversation
                    .prompt(&spoken(message.content), &mark, draft);
                self.is_replied = false;
            }
            _ => {
                draft.event(mark);
            }
        }
    }
}

/// Returns the line of step `n`.
fn assembled(n: usize, records: &[String]) -> String {
    part::line(n, records.iter().map(|record| part_of(record)))
}

/// Returns the part of a step that an item of the history contains.
fn part_of(record: &str) -> Part {
    let item = Item::of(record);
    let message = item.message.map(Message::of).unwrap_or_default();
    let mut part = Part::default();
    if message.role == Some("\"tool\"") {
        part.answers.push(Answer {
            call: text(message.call).unwrap_or_default(),
            output: quoted(&spoken(message.content)),
            ..Answer::default()
        });
        return part;
    }
    part.text
        .extend(Some(spoken(message.content)).filter(|words| !words.is_empty()));
    if let Some(usage) = message.usage.map(Usage::of) {
        part.model = filled(usage.model);
        part.tokens = Some(tokens(&usage));
    }
    for call in walk::items(message.calls.unwrap_or_default()).map(Call::of) {
        part.calls.push(function_call(call.id, call.function));
    }
    for state in walk::items(item.states.unwrap_or_default()).map(State::of) {
        let (answer, words) = answer_of(&state);
        let Some(mut answer) = answer else { continue };
        // Further calls aren't kept.
        let mut kept = part.calls.iter().take(MAX_PIECES);
        let call = kept.find(|call| call.id == answer.call);
        if let Some((key, content)) = call
            .filter(|_| answer.status == Some("success"))
            .and_then(change)
        {
            part.diffs
                .extend(hunks(&words).map(|hunks| (part.changes.len(), hunks)));
            part.changes.push((key, None, content));
        }
        if call.is_some_and(|call| call.name == SHELL) {
            answer.status.take_if(|status| *status == "success");
        }
        part.answers.push(answer);
    }
    part
}

/// Returns the result of a call, and its text. A call that still runs has none.
fn answer_of(state: &State<'_>) -> (Option<Answer>, String) {
    let words: Vec<String> = walk::items(state.output.unwrap_or_default())
        .filter_map(|output| text(member(output, "content")))
        .collect();
    let words = words.join("\n");
    let status = match text(state.status).as_deref() {
        Some("done") => "success",
        Some("errored") => "error",
        Some("canceled" | "cancelled") => "cancelled",
        _ => return (None, words),
    };
    let exit = words
        .strip_prefix(EXIT)
        .and_then(|rest| rest.split_once(')')?.0.parse().ok());
    let bad = status != "success";
    let answer = Answer {
        call: text(state.id).unwrap_or_default(),
        status: Some(status),
        error: bad.then(|| match &*words {
            "" => NO_WORDS.to_owned(),
            words => words.to_owned(),
        }),
        exit,
        ms: None,
        output: if bad {
            "null".to_owned()
        } else {
            quoted(&words)
        },
    };
    (Some(answer), words)
}

/// Returns the file that a successful call changed, and its content if the call contains it.
fn change(call: &CallDraft) -> Option<(String, Option<String>)> {
    let of = |key| filled(member(&call.args, key));
    let path = of("file_path").or_else(|| of("filepath"))?;
    let content = match &*call.name {
        "Write" => member(&call.args, "content").map(str::to_owned),
        "Edit" | "MultiEdit" => None,
        _ => return None,
    };
    Some((format!("files.{path}"), content))
}

/// Converts the tokens of a request. Continue counts cached input as input.
fn tokens(usage: &Usage<'_>) -> Tokens {
    let of = |details: Option<&str>, key| count(member(details?, key));
    Tokens {
        input: count(usage.input),
        cached: of(usage.of_input, "cached_tokens"),
        output: count(usage.output),
        reasoning: of(usage.of_output, "reasoning_tokens"),
        written: of(usage.of_input, "cache_write_tokens"),
        ..Tokens::default()
    }
}
