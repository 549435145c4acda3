//! Reads the output of `gemini -o stream-json`: one JSON object per line. The stream has `init`,
//! texts in pieces, calls, results, and at the end a `result` with the outcome and the usage.
//!
//! No line marks the end of a reply, so its first result closes it. Tokens are recorded only for
//! the whole run.

use crate::format::conversation::Conversation;
use crate::format::part::{self, text};
use crate::format::turns::Turns;
use crate::format::value::{count, cut, is_text, number, objects, short, spoken, status};
use crate::format::{Answer, CallDraft, Draft, EventDraft, Part, Reader, Shape, Source, Tool};
use crate::model::step::{NO_WORDS, Usage};
use crate::model::{CAPTURED, Can, Capabilities, Certainty, Ended, Format, Outcome};

/// The output of Gemini CLI.
pub(in crate::format) static STREAM: Tool = Tool {
    format: Format {
        name: "Gemini CLI stream",
        can: Capabilities {
            times: Can::Yes,
            tokens: Can::Partly,
            ..Capabilities::NONE
        },
        file: CAPTURED,
        is_in_order: true,
        assemble: Some(|n, records| part::line(n, records.iter().map(|record| part_of(record)))),
        is_of_coding_agent: true,
        ..Format::UNKNOWN
    },
    shape: Shape::Lines,
    is: |name, head| {
        let first = || objects(head).next().map(Line::of);
        let is_init = |line: Line<'_>| line.kind == Some("\"init\"") && is_text(line.session);
        name.ends_with(".jsonl") && first().is_some_and(is_init)
    },
    reader: || Box::new(Stream::default()),
};

/// The program's message when it stops the model because it repeats itself.
const LOOPED: &str = "Loop detected, stopping execution";

/// How the ids of calls that run a command begin. The program builds them from the tool's name.
const COMMAND: &str = "run_shell_command";

fields! {
    struct Line {
        kind = "type", timestamp, session = "session_id", model, role, content, name = "tool_name", id = "tool_id",
        parameters, status, output, error, stats, message, delta,
    }
    struct Fault { kind = "type", message }
    struct Stats { total_tokens, input_tokens, cached, duration_ms }
}

/// A stream while it is being read.
#[derive(Debug, Default)]
struct Stream {
    /// The conversation, and whether its newest reply continues.
    conversation: Conversation,
    replying: bool,
    /// Whether the program reported that the model repeats itself. The result that follows is then
    /// a success.
    looped: bool,
    /// Whether the stream is being repeated from its beginning.
    repeats: bool,
    end: Option<Ended>,
    ends: Turns,
    /// The usage by the program's newest result, and the usage of earlier programs in the stream.
    counted: Option<(u64, Usage)>,
    earlier: Option<(u64, Usage)>,
}

impl Reader for Stream {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        let line = Line::of(record.text);
        let ts = draft.time(line.timestamp);
        let before = draft.latest();
        let (kind, role) = (
            text(line.kind).unwrap_or_default(),
            text(line.role).unwrap_or_default(),
        );
        let mark = EventDraft::new(&kind, ts).stage(&role);
        // Two pieces of a text can have the same time and content. They are copies only if
        // everything before them is repeated too.
        let is_again = line.timestamp.is_some() && draft.is_again(record.text);
        let is_piece = line.delta == Some("true");
        self.repeats = if is_piece {
            self.repeats
        } else {
            is_again && (self.repeats || kind == "init")
        };
        if is_again && (self.repeats || !is_piece) {
            return draft.again(&mark);
        }
        match (&*kind, &*role) {
            ("init", _) => {
                draft.event(mark);
                let run = draft.run();
                let before = std::mem::replace(&mut run.run_id, short(line.session));
                let is_other = before.is_some() && before != run.run_id;
                run.model = short(line.model);
                run.tool = Some("Gemini CLI".into());
                // Each program counts from its own start. The draft tracks the missing usage of a
                // program without a result.
                self.next_program();
                if is_other {
                    draft.other_session();
                } else {
                    draft.other_program();
                }
            }
            ("message", "assistant") | ("tool_use", _) => {
                self.reply(record.text, mark, before, draft)
            }
            ("message", _) => {
                let (end, answer) = self.settled(draft);
                self.ends
                    .begin(self.conversation.steps(), end, answer, None);
                (self.replying, self.looped, self.end) = (false, false, None);
                self.conversation
                    .prompt(&spoken(line.content), &mark, draft);
            }
            ("tool_result", _) => self.result(&line, record.text, mark, draft),
            ("result", _) => {
                let at = draft.event(mark.failed(line.status == Some("\"error\"")));
                // A result after the end of a turn belongs to another turn.
                if self.end.is_some() {
                    let (end, answer) = self.settled(draft);
                    self.ends
                        .begin(self.conversation.steps(), end, answer, None);
                }
                self.end = Some(ended(&line, self.looped).at_event(at));
                let stats = line.stats.map(Stats::of).unwrap_or_default();
                // If a program counts no tokens, the usage before it is still unknown.
                if let Some(tokens) = count(stats.total_tokens).filter(|tokens| *tokens > 0) {
                    draft.totals();
                    let (input, cached) = (count(stats.input_tokens), count(stats.cached));
                    // The program's count of output tokens lacks the thoughts.
                    let output = input.and_then(|input| tokens.checked_sub(input));
                    let usage = Usage {
                        input: input.filter(|_| output.is_some()),
                        cached,
                        output,
                        ..Usage::default()
                    };
                    if self.counted.is_some_and(|(before, _)| tokens < before) {
                        self.next_program();
                    }
                    self.counted = Some((tokens, usage));
                }
                let all = [self.earlier, self.counted].into_iter().flatten();
                let all = all.reduce(|(tokens, usage), (more, and)| {
                    (tokens.saturating_add(more), usage.plus(and))
                });
                let run = draft.run();
                (run.tokens, run.usage) =
                    all.map_or_else(Default::default, |(tokens, usage)| (Some(tokens), usage));
                run.totals_with_children = true;
                // Each result covers its own program.
                let took = number(stats.duration_ms)
                    .filter(|ms| *ms > 0.0)
                    .map(|ms| ms / 1e3);
                run.latency_s = took
                    .map(|took| took + run.latency_s.unwrap_or_default())
                    .or(run.latency_s);
            }
            _ => {
                draft.event(mark.failed(kind == "error"));
                self.looped |= kind == "error" && text(line.message).as_deref() == Some(LOOPED);
            }
        }
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        let (end, answer) = self.settled(draft);
        let at = draft.latest();
        let run = draft.run();
        run.updated_at = at.filter(|_| end.is_some());
        run.ended = end.map(Box::new);
        run.final_result = answer;
        run.turns = Some(self.conversation.turns());
    }
}

impl Stream {
    /// Returns the end and the answer of the run. A turn without steps keeps those of the previous
    /// turn.
    fn settled(&self, draft: &Draft<'_>) -> (Option<Ended>, Option<Box<str>>) {
        let last = self.conversation.last();
        self.ends.settle_said(self.end.clone(), last, draft)
    }

    /// Adds the usage of the newest program to that of earlier ones.
    fn next_program(&mut self) {
        let both = self.earlier.into_iter().chain(self.counted.take());
        self.earlier = both
            .reduce(|(tokens, usage), (more, and)| (tokens.saturating_add(more), usage.plus(and)));
    }

    /// Handles a piece of the model's reply.
    fn reply(
        &mut self,
        record: &str,
        mark: EventDraft<'_>,
        before: Option<i64>,
        draft: &mut Draft<'_>,
    ) {
        let part = part_of(record);
        (self.looped, self.end) = (false, None);
        let known = self.conversation.last().filter(|_| self.replying);
        self.replying = true;
        self.conversation.reply(known, before, mark, part, draft);
    }

    /// Handles the result of a call.
    fn result(
        &mut self,
        line: &Line<'_>,
        record: &str,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        self.replying = false;
        let step = text(line.id).and_then(|id| self.conversation.take(&id));
        let mark = mark.failed(line.status == Some("\"error\""));
        draft.results(step.as_slice(), mark, part_of(record));
    }
}

/// Returns the end of the run that its result records.
fn ended(line: &Line<'_>, looped: bool) -> Ended {
    let error = line.error.map(Fault::of).unwrap_or_default();
    let (class, message) = (
        text(error.kind).unwrap_or_default(),
        text(error.message).unwrap_or_default(),
    );
    let status = text(line.status).unwrap_or_default();
    let word = if class.is_empty() || class == "unknown" {
        &status
    } else {
        &class
    };
    let (headline, outcome) = match (&*status, &*class) {
        ("success" | "error", _) if looped || message == LOOPED => (Ended::LOOPED, Outcome::Halted),
        ("success", _) => ("Answered", Outcome::Completed),
        (_, "FatalTurnLimitedError") => {
            let end = Ended::new(
                word,
                "Turn limit reached",
                Outcome::Truncated,
                Certainty::Recorded,
            );
            return end.compare(None, None, "turns").detail(cut(&message));
        }
        // The stream doesn't record who cancelled it.
        (_, "FatalCancellationError") => ("Interrupted", Outcome::Cancelled),
        _ if message.contains("[API Error") => ("API error", Outcome::Failed),
        _ => ("Failed with an error", Outcome::Failed),
    };
    Ended::new(word, headline, outcome, Certainty::Recorded).detail(cut(&message))
}

/// Returns the part of a step that a line contains.
fn part_of(record: &str) -> Part {
    let line = Line::of(record);
    let mut part = Part::default();
    match text(line.kind).as_deref() {
        Some("message") => part.tail.push(spoken(line.content)),
        Some("tool_use") => part.calls.push(CallDraft {
            id: text(line.id).unwrap_or_default(),
            name: text(line.name).unwrap_or_default(),
            args: line.parameters.unwrap_or("{}").to_owned(),
        }),
        Some("tool_result") => {
            // For the program, a failed command is a success. The stream doesn't contain its exit
            // code.
            let is_command = text(line.id).is_some_and(|id| id.starts_with(COMMAND));
            let status = status(line.status).filter(|status| !(is_command && *status == "success"));
            let message = line
                .error
                .map(Fault::of)
                .and_then(|error| text(error.message));
            let bad = matches!(status, Some("error" | "cancelled"));
            let error = message.or_else(|| text(line.output).filter(|_| bad));
            part.answers.push(Answer {
                call: text(line.id).unwrap_or_default(),
                status,
                error: error.or_else(|| bad.then(|| NO_WORDS.to_owned())),
                output: line.output.filter(|_| !bad).unwrap_or("null").to_owned(),
                ..Answer::default()
            });
        }
        _ => {}
    }
    part
}
