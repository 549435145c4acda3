//! Reads the output of `codex exec --json`: one JSON object per line. They describe the thread, its
//! turns, and items that are started, updated and completed.
//!
//! The stream has no times, and it counts tokens per turn only. It doesn't record which items form
//! one reply, so the first call to finish closes the reply. Each call that a script makes is a
//! separate item, unless it has no effect outside the script.

use super::item::{failure, served};
use crate::format::part::{self, text};
use crate::format::recent::{Recent, RecentSet};
use crate::format::turns::Turns;
use crate::format::value::{count, int, is_text, member, objects, short, silent};
use crate::format::{Answer, CallDraft, Draft, EventDraft, Part, Reader, Shape, Source, Tool};
use crate::model::json::walk;
use crate::model::step::{DECLINED, Usage};
use crate::model::{
    CAPTURED, Can, Capabilities, Certainty, Ended, EventKind, Format, IssueKind, Outcome,
};

/// The output of `codex exec --json`.
pub(in crate::format) static STREAM: Tool = Tool {
    format: Format {
        name: "Codex exec stream",
        can: Capabilities {
            state: Can::Partly,
            tokens: Can::Partly,
            ..Capabilities::NONE
        },
        file: CAPTURED,
        has_reply_steps: false,
        assemble: Some(|n, records| part::line(n, records.iter().map(|record| part_of(record)))),
        is_of_coding_agent: true,
        ..Format::UNKNOWN
    },
    shape: Shape::Lines,
    is: |name, head| {
        let first = || objects(head).next().map(Line::of);
        let is_thread =
            |line: Line<'_>| line.kind == Some("\"thread.started\"") && is_text(line.thread);
        name.ends_with(".jsonl") && first().is_some_and(is_thread)
    },
    reader: || Box::new(Stream::default()),
};

fields! {
    struct Line { kind = "type", thread = "thread_id", item, usage, error, message }
    struct Item {
        kind = "type", id, text, command, output = "aggregated_output", exit_code, status, changes, server, tool, arguments,
        result, error, query, items, prompt, receivers = "receiver_thread_ids", message,
    }
    struct Tokens { input_tokens, cached_input_tokens, output_tokens, reasoning_output_tokens }
}

/// A stream while it is being read.
#[derive(Debug, Default)]
struct Stream {
    /// The step of each unfinished call, and the ids of finished items.
    calls: Recent<Box<str>, usize>,
    done: RecentSet<Box<str>>,
    children: RecentSet<Box<str>>,
    /// The newest step, and whether its reply is still open.
    last: Option<usize>,
    replying: bool,
    turns: u64,
    /// The last line started a turn.
    is_fresh: bool,
    /// Whether the turn has a message of the model with no call after it.
    is_answered: bool,
    end: Option<Ended>,
    ends: Turns,
    /// The usage of earlier sessions in the same stream.
    earlier: Option<Usage>,
}

impl Reader for Stream {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        let line = Line::of(record.text);
        let item = line.item.map(Item::of).unwrap_or_default();
        let (kind, stage) = (
            text(line.kind).unwrap_or_default(),
            text(item.kind).unwrap_or_default(),
        );
        let mark = EventDraft::new(&kind, None).stage(&stage);
        let children = item.receivers.into_iter().flat_map(walk::items);
        self.children.extend(
            children
                .filter_map(|child| text(Some(child)))
                .map(Box::from),
        );
        if let Some(id) = text(item.id).filter(|_| kind.starts_with("item.")) {
            if self.done.contains(&*id) {
                draft.event(mark);
                return draft.issue(
                    IssueKind::Join,
                    "the item was already completed, so this line is ignored",
                );
            }
            if kind == "item.completed" {
                self.done.insert(id.into());
            }
        }
        let was_fresh = std::mem::replace(&mut self.is_fresh, kind == "turn.started");
        match (&*kind, &*stage) {
            ("thread.started", _) => {
                draft.event(mark);
                // Each thread numbers its items from the start.
                self.done.clear();
                let run = draft.run();
                let before = std::mem::replace(&mut run.run_id, short(line.thread));
                run.tool = Some("Codex".into());
                if before.is_some() && before != run.run_id {
                    // If the earlier session recorded no usage, `other_session` marks the totals as
                    // partial.
                    self.earlier = Some(run.usage).filter(|usage| *usage != Usage::default());
                    draft.other_session();
                } else if before.is_some() {
                    draft.issue(
                        IssueKind::Join,
                        "the stream starts over: the program was restarted, or the file contains the stream twice",
                    );
                }
            }
            ("turn.started", _) if was_fresh => {
                draft.event(mark);
                draft.issue(
                    IssueKind::Join,
                    "the previous line already started the turn, which counts only once",
                );
            }
            ("turn.started", _) => {
                draft.event(mark);
                self.turns += 1;
                let (end, answer) = self.settled(draft);
                self.ends
                    .begin(self.last.map_or(0, |last| last + 1), end, answer, None);
                (self.replying, self.is_answered, self.end) = (false, false, None);
            }
            ("turn.completed", _) => {
                self.follow(draft);
                let at = draft.event(mark);
                let (headline, outcome) = match self.is_answered {
                    true => ("Answered", Outcome::Completed),
                    false => ("Turn ended without an answer", Outcome::Unknown),
                };
                let end = Ended::new(&kind, headline, outcome, Certainty::Recorded);
                self.end = Some(end.at_event(at));
                self.is_answered = false;
                let usage = line.usage.map(Tokens::of).unwrap_or_default();
                let parts = [usage.input_tokens, usage.output_tokens].map(count);
                if parts.iter().any(Option::is_some) {
                    draft.totals();
                }
                let run = draft.run();
                // A resumed thread continues its count, and the stream doesn't record whether this
                // thread was resumed.
                run.tokens_of_thread = true;
                let [input, output] = parts;
                let cached = count(usage.cached_input_tokens);
                let usage = Usage {
                    input,
                    cached,
                    output,
                    reasoning: count(usage.reasoning_output_tokens),
                    ..Usage::default()
                };
                run.usage = self.earlier.map_or(usage, |earlier| earlier.plus(usage));
                // The sum is unknown unless both halves are known.
                run.tokens = run
                    .usage
                    .input
                    .zip(run.usage.output)
                    .map(|(read, wrote)| read.saturating_add(wrote));
            }
            ("turn.failed", _) => {
                self.follow(draft);
                let at = draft.event(mark.failed(true));
                let end = failure(None, line.error.and_then(|error| member(error, "message")));
                self.end = Some(Ended {
                    word: kind.as_str().into(),
                    event: Some(at),
                    ..end
                });
            }
            (_, "todo_list") if kind == "item.completed" => {
                draft.event(mark);
            }
            ("item.started" | "item.updated" | "item.completed", "error") => {
                draft.event(mark.failed(true));
            }
            ("item.started" | "item.updated" | "item.completed", _) => {
                self.item(&item, record.text, mark, draft)
            }
            _ => {
                draft.event(mark.failed(kind == "error"));
            }
        }
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        let (end, answer) = self.settled(draft);
        let run = draft.run();
        run.ended = end.map(Box::new);
        run.final_result = answer;
        run.turns = Some(self.turns);
        // Not every version lists the child runs that it started.
        run.children = Some(self.children.len() as u64).filter(|children| *children > 0);
        run.child_ids = self.children.listed();
    }
}

impl Stream {
    /// Returns the end and the answer of the run. A turn without steps keeps those of the previous
    /// turn.
    fn settled(&self, draft: &Draft<'_>) -> (Option<Ended>, Option<Box<str>>) {
        self.ends.settle_said(self.end.clone(), self.last, draft)
    }

    /// Begins another turn if the last one has ended, even if no line starts it.
    fn follow(&mut self, draft: &Draft<'_>) {
        if self.end.is_some() {
            let (end, answer) = self.settled(draft);
            self.ends
                .begin(self.last.map_or(0, |last| last + 1), end, answer, None);
        }
    }

    /// Takes in a piece of a reply, or the result of a call.
    fn item(&mut self, item: &Item<'_>, record: &str, mark: EventDraft<'_>, draft: &mut Draft<'_>) {
        let part = part_of(record);
        let is_done = !part.answers.is_empty();
        let failed = part.has_failed();
        let id = text(item.id).unwrap_or_default();
        let known = self.calls.get(&*id).copied();
        if let Some(n) = known {
            draft.event(EventDraft {
                kind: EventKind::Inside,
                step: Some(n),
                failed,
                ..mark
            });
            if is_done {
                self.calls.remove(&*id);
                self.replying = false;
            }
            if !draft.part(n, part) {
                draft.issue(
                    IssueKind::Join,
                    "a line for an item whose step is already closed",
                );
            }
            return;
        }
        self.end = None;
        self.is_answered |= !part.text.is_empty();
        self.is_answered &= part.calls.is_empty();
        let known = self.last.filter(|_| self.replying);
        let n = draft.reply(
            known,
            None,
            EventDraft {
                kind: EventKind::Decided,
                failed,
                ..mark
            },
        );
        if let Some(last) = self.last.replace(n).filter(|last| *last != n) {
            draft.close(last);
        }
        self.replying = !is_done;
        if !is_done {
            self.calls
                .extend(part.calls.iter().map(|call| ((*call.id).into(), n)));
        }
        draft.part(n, part);
    }
}

/// Returns the part of a step that a line holds.
fn part_of(record: &str) -> Part {
    let line = Line::of(record);
    let item = line.item.map(Item::of).unwrap_or_default();
    let mut part = Part::default();
    let (kind, id) = (
        text(item.kind).unwrap_or_default(),
        text(item.id).unwrap_or_default(),
    );
    let is_over = line.kind == Some("\"item.completed\"");
    let wrapped = |key: &str, value: Option<&str>| {
        value.map_or_else(|| "{}".to_owned(), |value| format!("{{\"{key}\":{value}}}"))
    };
    let (name, args) = match &*kind {
        // Pieces of these are repeated as a whole when the item completes.
        "reasoning" | "agent_message" => {
            let texts = if kind == "reasoning" {
                &mut part.thought
            } else {
                &mut part.text
            };
            texts.extend(text(item.text).filter(|text| is_over && !text.is_empty()));
            return part;
        }
        "todo_list" => {
            part.changes.extend(
                item.items
                    .map(|items| ("todos".to_owned(), None, Some(items.to_owned()))),
            );
            part.answers.push(Answer {
                call: id.clone(),
                status: Some("success"),
                ..Answer::default()
            });
            part.calls.push(CallDraft {
                id,
                name: kind,
                args: wrapped("items", item.items),
            });
            return part;
        }
        "command_execution" => (kind.clone(), wrapped("command", item.command)),
        "file_change" => (kind.clone(), wrapped("changes", item.changes)),
        "web_search" => (kind.clone(), wrapped("query", item.query)),
        "mcp_tool_call" => {
            let name = [item.server, item.tool]
                .into_iter()
                .filter_map(text)
                .collect::<Vec<_>>()
                .join(".");
            (name, item.arguments.unwrap_or("{}").to_owned())
        }
        "" => return part,
        _ => (
            text(item.tool).unwrap_or_else(|| kind.clone()),
            wrapped("prompt", item.prompt),
        ),
    };
    if is_over {
        part.answers.push(answer(&id, &item));
        let changed = item
            .changes
            .into_iter()
            .flat_map(walk::items)
            .filter_map(|change| text(member(change, "path")));
        let done = item.status == Some("\"completed\"");
        part.changes.extend(
            changed
                .filter(|_| done)
                .map(|path| (format!("files.{path}"), None, None)),
        );
    }
    part.calls.push(CallDraft { id, name, args });
    part
}

fn answer(id: &str, item: &Item<'_>) -> Answer {
    let exit = int(item.exit_code);
    let is_served = item.kind == Some("\"mcp_tool_call\"");
    let (answered, told) = if is_served {
        served(item.result, item.error)
    } else {
        (None, None)
    };
    let status = match text(item.status).as_deref() {
        // The user declined, so the call never ran.
        Some("declined") => Some("cancelled"),
        Some("failed") => Some("error"),
        _ if exit.is_some_and(|exit| exit != 0) || answered == Some("error") => Some("error"),
        Some("completed") => Some("success"),
        _ => None,
    };
    let bad = matches!(status, Some("error" | "cancelled"));
    let untold = || match status {
        Some("cancelled") => DECLINED.to_owned(),
        _ => silent(exit),
    };
    let message = item
        .error
        .and_then(|error| text(member(error, "message")).or_else(|| text(Some(error))));
    let error = || {
        message
            .or(told)
            .or_else(|| text(item.output).filter(|text| !text.is_empty()))
    };
    Answer {
        call: id.to_owned(),
        status,
        error: if bad {
            error().or_else(|| Some(untold()))
        } else {
            None
        },
        output: item
            .output
            .or(item.result)
            .filter(|_| !bad)
            .unwrap_or("null")
            .to_owned(),
        exit,
        ms: None,
    }
}
