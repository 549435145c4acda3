//! Reads sessions of Factory's Droid: one JSON object per line, appended to
//! `sessions/-PROJECT-/SESSION.jsonl`. Sub-agents have their own files there.
//!
//! A message of the model is one line, without its tokens. Newer versions add a line when a turn is
//! over. A second document, `SESSION.settings.json`, has the model and the tokens of the session.
//!
//! A fork is a separate file. It begins with copies of the earlier lines, and its token counts exclude
//! them. After `/compress`, a new file continues the session without copies, and its token counts
//! include those of the old file. This reader is based on sessions of version 0.225.

use super::conversation::Conversation;
use super::ends::{End, ends};
use super::lines::stem;
use super::part::{self, text};
use super::value::{
    count, cut, filled, is_text, is_true, listed, member, objects, own_words_in, short, spoken,
    stage_beside, unpacked,
};
use super::{Answer, CallDraft, Draft, EventDraft, Part, Reader, Shape, Source, Tool};
use crate::model::step::{NO_WORDS, Usage};
use crate::model::{Can, Capabilities, Certainty, Compaction, Ended, Format, Outcome};

/// A session, or one of its sub-agents.
pub(super) static SESSION: Tool = Tool {
    format: Format {
        name: "Droid session",
        can: Capabilities {
            times: Can::Yes,
            tokens: Can::Partly,
            ..Capabilities::NONE
        },
        file: "session file",
        no_end_reason: "older versions of Droid don't record how a turn ended",
        is_session: true,
        resume: "droid --resume",
        assemble: Some(assembled),
        ..Format::UNKNOWN
    },
    shape: Shape::Lines,
    is: |name, head| {
        let is_start = |line: Line<'_>| {
            line.kind == Some("\"session_start\"") && is_text(line.id) && is_text(line.cwd)
        };
        name.ends_with(".jsonl") && objects(head).next().map(Line::of).is_some_and(is_start)
    },
    reader: || Box::new(Session::default()),
};

/// Returns the name of the document with the settings of a session in this file.
pub(super) fn settings(name: &str) -> Option<String> {
    Some(format!("{}.settings.json", stem(name)?))
}

/// The reasons why a turn ended: all that version 0.225 knows.
const ENDS: &[End] = ends! {
    "completed" => Completed, "Answered";
    "spec_handoff" => Completed, "Handed over a plan";
    "cancelled" => Cancelled, "Cancelled";
    "permission_rejected" => Cancelled, "Permission refused";
    "no_approver_available" => Halted, "No one to approve a call";
    "process_exit" => Failed, "The process exited";
    "structured_output_missing" => Failed, "No structured output";
    "structured_output_*" => Failed, "Structured output invalid";
    "model_usage_exhausted" => Failed, "Provider usage limit reached";
    "model_*" => Failed, "API error";
    "prompt_rejected" => Failed, "Prompt rejected";
    "completion_persistence_failed" => Failed, "The answer couldn't be saved";
    "error" => Failed, "Failed with an error";
};

/// The tools that ask the user a question.
const QUESTIONS: &[&str] = &["AskUser", "ExitSpecMode"];

/// How the result of a call ends that the user stopped or didn't permit.
const CANCELLED: &str = "Tool execution cancelled by user";

/// How the result of a command names its exit code.
const EXIT: &str = "[Process exited with code ";

/// How the message about a failed request begins.
const FAULT: &str = "BYOK Error: ";

/// The first line of a sub-agent's prompt, and the lines around its task.
const TASK: &str = "# Task Tool Invocation";
const FROM_PARENT: &str = "---BEGIN TASK FROM PARENT AGENT---";
const TO_PARENT: &str = "---END TASK FROM PARENT AGENT---";

/// The title of a session that has none yet.
const UNTITLED: &str = "New Session";

fields! {
    struct Line {
        kind = "type", id, timestamp, cwd, title, caller = "callingSessionId", parent, message, reason,
        turn = "turnId",
    }
    struct Message { role, content, model = "modelId", visibility, hook = "hookEventName" }
    struct Block {
        kind = "type", text, thinking, id, name, input, call = "tool_use_id", content,
        is_error,
    }
    struct Counts {
        input = "inputTokens", output = "outputTokens", cached = "cacheReadTokens",
        written = "cacheCreationTokens", reasoning = "thinkingTokens",
    }
}

/// A session while it is being read.
#[derive(Debug, Default)]
struct Session {
    conversation: Conversation,
    /// Whether the last message is a reply.
    is_replied: bool,
    /// The program's message to the user since the last reply or prompt.
    note: Option<Box<str>>,
    /// Whether replies record their model. If so, a message without one is the program's.
    names_models: bool,
    /// Whether the session continues an older file after a compaction.
    is_compacted: bool,
    /// The end of the last turn, if it's recorded.
    end: Option<Ended>,
    model: Option<Box<str>>,
    usage: Usage,
}

impl Reader for Session {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        let line = Line::of(record.text);
        let kind = text(line.kind).unwrap_or_default();
        let ts = draft.time(line.timestamp);
        let mark = EventDraft::new(&kind, ts);
        let is_named = line.timestamp.or(line.id).or(line.turn).is_some();
        if is_named && draft.is_again(record.text) {
            return draft.again(&mark);
        }
        match &*kind {
            "session_start" => {
                draft.event(mark);
                if draft.run().run_id.is_some() {
                    return draft.other_session();
                }
                let run = draft.run();
                run.run_id = short(line.id);
                run.project = short(line.cwd);
                run.parent = short(line.caller);
                run.continues = short(line.parent);
                run.tokens_without_copies = true;
                let title = short(line.title);
                run.titles = title
                    .filter(|title| !title.is_empty() && **title != *UNTITLED)
                    .into_iter()
                    .collect();
            }
            "message" => self.message(record.text, line.message, mark, draft),
            "compaction_state" => {
                let event = draft.event(mark.stage("compaction"));
                self.is_compacted |= self.conversation.last().is_none();
                draft.compacted(Compaction {
                    event,
                    tokens: None,
                    tokens_after: None,
                    trigger: Box::default(),
                });
            }
            "agent_turn_outcome" => {
                let at = draft.event(mark);
                let end = filled(line.reason).map(|reason| self.ended(&reason, draft));
                self.end = end.map(|end| end.at_event(at));
            }
            _ => {
                draft.event(mark);
            }
        }
    }

    fn beside(&mut self, document: &str) {
        self.model = short(member(document, "model")).filter(|model| !model.is_empty());
        self.usage = member(document, "tokenUsage")
            .map(usage)
            .unwrap_or_default();
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        let end = self.end.clone();
        let is_over = end.is_some() || self.is_answered(draft);
        let open = self.conversation.last().filter(|_| end.is_none());
        let asks = open.and_then(|n| draft.asks(n, QUESTIONS));
        let is_answered = end
            .as_ref()
            .is_some_and(|end| end.outcome == Outcome::Completed);
        let last = self.conversation.last().filter(|_| is_answered);
        let answer = last.and_then(|n| draft.said(n));
        let at = draft.latest().filter(|_| end.is_some());
        let run = draft.run();
        run.tool = Some("Droid".into());
        run.updated_at = at;
        run.awaits_user = (is_over || asks.is_some()) && run.parent.is_none();
        run.asks_user = asks;
        run.tokens_of_thread = self.is_compacted && run.continues.is_some();
        run.ended = end.map(Box::new);
        run.final_result = answer;
        run.model = run.model.take().or(self.model.clone());
        run.turns = Some(self.conversation.turns());
        run.usage = self.usage;
        let (input, output) = (self.usage.input, self.usage.output);
        run.tokens = input
            .zip(output)
            .map(|(input, output)| input.saturating_add(output));
    }
}

impl Session {
    /// Returns whether the last message is a reply without a call.
    fn is_answered(&self, draft: &Draft<'_>) -> bool {
        let step = self.conversation.last().and_then(|n| draft.step(n));
        self.is_replied && step.is_some_and(Part::is_answer)
    }

    /// Returns the end of a turn. Droid also records `completed` if the user stopped the last call or the
    /// model returned nothing.
    fn ended(&self, reason: &str, draft: &Draft<'_>) -> Ended {
        let of = |headline, outcome| Ended::new(reason, headline, outcome, Certainty::Recorded);
        let end = End::of(ENDS, reason).unwrap_or_else(|| of("Ended", Outcome::Unknown));
        let is_told = end.outcome == Outcome::Completed && !self.is_answered(draft);
        let last = self.conversation.last().filter(|_| is_told);
        let is_stopped = || last.is_some_and(|n| draft.cancelled(n, Certainty::Recorded).is_some());
        let end = match reason {
            "completed" if is_told && is_stopped() => of("Cancelled", Outcome::Cancelled),
            "completed" if is_told => of(Ended::NO_ANSWER, Outcome::Unknown),
            _ => end,
        };
        match &self.note {
            Some(note) if end.outcome != Outcome::Completed => end.detail(note.clone()),
            _ => end,
        }
    }

    fn message(
        &mut self,
        record: &str,
        message: Option<&str>,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        let message = message.map(Message::of).unwrap_or_default();
        let role = text(message.role).unwrap_or_default();
        let mark = mark.stage(&role);
        if role == "assistant" {
            let asked = draft.latest();
            let part = part_of(record);
            if self.names_models && part.model.is_none() && part.calls.is_empty() {
                self.note = said(message.content);
                draft.event(mark.stage("note"));
                return;
            }
            self.names_models |= part.model.is_some();
            (self.is_replied, self.note) = (true, None);
            self.end = None;
            draft.name_model(&part);
            self.conversation.reply(None, asked, mark, part, draft);
            return;
        }
        let is_note = message.visibility.is_some_and(|who| who != "\"both\"");
        if role != "user" || is_note || message.hook.is_some() {
            match message.visibility {
                Some("\"user_only\"") => self.note = said(message.content),
                // The program prompts the model to continue.
                Some("\"llm_only\"") => self.is_replied = false,
                _ => {}
            }
            draft.event(mark.stage("note"));
            return;
        }
        (self.is_replied, self.note) = (false, None);
        self.end = None;
        let words = own_words_in(message.content);
        let words = task_in(&words);
        if blocks(message.content).any(|block| block.kind == Some("\"tool_result\"")) {
            let part = part_of(record);
            let n = self.conversation.step_of(&part);
            let stage = stage_beside(words, mark.stage);
            return draft.results(n.as_slice(), mark.stage(stage), part);
        }
        // A prompt may be a picture without words.
        let has_other = blocks(message.content).any(|block| block.kind != Some("\"text\""));
        if words.is_empty() && !has_other {
            draft.event(mark.stage("note"));
        } else {
            self.conversation.prompt(words, &mark, draft);
        }
    }
}

/// Returns the task in the prompt of a sub-agent, or the whole prompt.
fn task_in(words: &str) -> &str {
    let inside = || {
        let (_, rest) = words.strip_prefix(TASK)?.split_once(FROM_PARENT)?;
        Some(
            rest.split_once(TO_PARENT)
                .map_or(rest, |(task, _)| task)
                .trim(),
        )
    };
    inside().unwrap_or(words)
}

/// Returns the first paragraph of a message from the program to the user. Advice follows it.
fn said(content: Option<&str>) -> Option<Box<str>> {
    let words = spoken(content);
    let words = words.trim().split("\n\n").next().unwrap_or_default();
    let words = words.strip_prefix(FAULT).unwrap_or(words);
    (!words.is_empty()).then(|| cut(words))
}

/// Returns the blocks of a message's content.
fn blocks(content: Option<&str>) -> impl Iterator<Item = Block<'_>> {
    listed(content).map(Block::of)
}

/// Returns the line of step `n`.
fn assembled(n: usize, records: &[String]) -> String {
    part::line(n, records.iter().map(|record| part_of(record)))
}

/// Returns the part of a step that a line contains.
fn part_of(record: &str) -> Part {
    let message = Line::of(record)
        .message
        .map(Message::of)
        .unwrap_or_default();
    let is_reply = message.role == Some("\"assistant\"");
    let mut part = Part {
        model: filled(message.model).filter(|_| is_reply),
        ..Part::default()
    };
    if is_reply {
        // The content may be a text.
        part.text.extend(filled(message.content));
    }
    for block in blocks(message.content) {
        match block.kind {
            Some("\"text\"") if is_reply => part.text.extend(filled(block.text)),
            Some("\"thinking\"") if is_reply => part.thought.extend(filled(block.thinking)),
            Some("\"tool_use\"") if is_reply => part.calls.push(CallDraft {
                id: text(block.id).unwrap_or_default(),
                name: text(block.name).unwrap_or_default(),
                args: block.input.unwrap_or("{}").to_owned(),
            }),
            Some("\"tool_result\"") if !is_reply => part.answers.push(answer(&block)),
            _ => {}
        }
    }
    part
}

fn answer(block: &Block<'_>) -> Answer {
    let words = spoken(block.content);
    let failed = is_true(block.is_error);
    let last = words.trim_end().lines().next_back().unwrap_or_default();
    let exit = last.strip_prefix(EXIT);
    let exit = exit.and_then(|code| code.strip_suffix(']')?.parse().ok());
    Answer {
        call: text(block.call).unwrap_or_default(),
        status: Some(match failed {
            true if words.ends_with(CANCELLED) => "cancelled",
            true => "error",
            false => "success",
        }),
        exit: exit.filter(|_| failed),
        error: failed.then(|| match words.is_empty() {
            true => NO_WORDS.to_owned(),
            false => words.clone(),
        }),
        output: match failed {
            true => "null".to_owned(),
            false => unpacked(&words),
        },
        ..Answer::default()
    }
}

/// Converts the tokens of a session. The output includes the reasoning.
fn usage(counts: &str) -> Usage {
    let counts = Counts::of(counts);
    let [input, output, cached, written, reasoning] = [
        counts.input,
        counts.output,
        counts.cached,
        counts.written,
        counts.reasoning,
    ]
    .map(count);
    let whole = |input: u64| {
        let cache = cached.unwrap_or_default();
        input
            .saturating_add(cache)
            .saturating_add(written.unwrap_or_default())
    };
    Usage {
        input: input.map(whole),
        cached,
        output,
        reasoning,
        written,
        written_1h: None,
    }
}
