//! Reads sessions of Gemini CLI: one JSON object per line, appended to
//! `tmp/PROJECT/chats/session-*.jsonl`. The lines are a header, messages, and `$set` for changes of
//! the session. Sub-agents have separate files, in a directory named after the session that started
//! them.
//!
//! A reply is written when it arrives, and written again under its id, as a whole, when its tools
//! are done. With `--acp`, the calls are in a separate record instead, which is written again with the
//! calls of all later replies. A call that never finished isn't recorded, so a last reply without
//! calls may be the answer, or its call was running when the program was killed. No line records how
//! the session ended. This reader is based on version 0.61.

pub(super) mod report;
pub(super) mod stream;

use report::reported;

use super::part::{self, text};
use super::recent::{Recent, RecentSet};
use super::turns::Turns;
use super::value::{
    USER_TEXT, below, count, cut, is_text, member, micros, objects, short, spoken, stage_beside,
    status,
};
use super::watch::{begun, begun_member};
use super::{
    Answer, CallDraft, Draft, EventDraft, Part, Reader, Shape, Source, Tokens, Tool, USER_SHELL,
    UserShell,
};
use crate::model::json::walk;
use crate::model::step::NO_WORDS;
use crate::model::{Can, Capabilities, Certainty, Ended, EventKind, Format, IssueKind, Outcome};

/// A session file.
pub(super) static SESSION: Tool = Tool {
    format: Format {
        name: "Gemini CLI session",
        can: Capabilities {
            state: Can::Partly,
            times: Can::Yes,
            tokens: Can::Yes,
            ..Capabilities::NONE
        },
        file: "session file",
        no_end_reason: "Gemini CLI's session files don't record how they ended",
        is_session: true,
        resume: "gemini --resume",
        is_in_order: true,
        assemble: Some(assembled),
        ..Format::UNKNOWN
    },
    shape: Shape::Lines,
    is: |name, head| name.ends_with(".jsonl") && is_session(head),
    reader: || Box::new(Session::default()),
};

/// A session file of versions that rewrote the session as one document each time.
pub(super) static DOCUMENT: Tool = Tool {
    format: Format {
        name: "Gemini CLI session document",
        ..SESSION.format
    },
    shape: Shape::Document(&[
        &["messages", "*"],
        &["sessionId"],
        &["directories"],
        &["kind"],
    ]),
    is: |name, head| {
        let keys = begun(head);
        let begins = |wanted: &str, with: &str| {
            keys.iter()
                .any(|(key, value)| *key == wanted && value.starts_with(with))
        };
        let is_session = begins("\"sessionId\"", "\"") && begins("\"projectHash\"", "\"");
        name.ends_with(".json") && is_session && begins("\"messages\"", "[")
    },
    reader: || Box::new(Session::default()),
};

fields! {
    struct Line {
        session = "sessionId", project = "projectHash", start = "startTime", agent = "kind", directories, id, timestamp,
        kind = "type", content, thoughts, calls = "toolCalls", tokens, model, set = "$set", rewind = "$rewindTo",
    }
    struct Call {
        id, name, args, result, status, timestamp, agent = "agentId", display = "resultDisplay",
    }
    struct Thought { subject, description }
    struct Piece { text, given = "functionResponse" }
    struct Usage { input, output, cached, thoughts }
    struct Display { path = "filePath", before = "originalContent", after = "newContent", is_new = "isNewFile", todos }
    struct Given { output, error }
}

/// Returns whether a file of lines begins with a session: with its header, or if that was cut off,
/// with a reply or a list of all messages.
fn is_session(head: &[u8]) -> bool {
    let Some(first) = objects(head).next() else {
        return false;
    };
    let line = Line::of(first);
    let is_message = |message: &str| {
        let of = |key: &str| begun_member(message, key);
        let is_known = match of("\"type\"") {
            Some("\"gemini\"") => true,
            Some("\"user\"") => of("\"content\"").is_some(),
            _ => false,
        };
        is_known && is_text(of("\"id\"")) && is_text(of("\"timestamp\""))
    };
    // The list may be longer than the part that is examined.
    let list = begun_member(first, "\"$set\"").and_then(|set| begun_member(set, "\"messages\""));
    let of_list = list
        .and_then(|list| list.strip_prefix('['))
        .is_some_and(|list| is_message(list.trim_start()));
    let is_reply = line.kind == Some("\"gemini\"") && is_message(first);
    is_text(line.session) && is_text(line.project) || is_reply || of_list
}

/// A session while it is being read.
#[derive(Debug, Default)]
struct Session {
    /// Whether the first record was read.
    is_begun: bool,
    /// The step of each reply, by id.
    replies: Recent<Box<str>, usize>,
    /// The number of steps before each other message, by the message's id.
    asked: Recent<Box<str>, usize>,
    /// The step of each call.
    calls: Recent<Box<str>, usize>,
    children: RecentSet<Box<str>>,
    last: Option<usize>,
    /// When the newest reply was written.
    last_at: Option<i64>,
    /// The records with the calls of several replies, by id, and the newest reply with calls from one.
    call_records: RecentSet<Box<str>>,
    filled: Option<usize>,
    turns: u64,
    /// Whether a prompt or a result came after the last reply, so that another reply is due, and
    /// whether it was a prompt.
    due: bool,
    has_prompt: bool,
    end: Option<Ended>,
    ends: Turns,
    /// Whether another session started it.
    is_child: bool,
    chance: Option<Chance>,
}

/// The program's request to a sub-agent to return its answer in the next reply.
#[derive(Debug)]
struct Chance {
    /// The number of steps before it.
    steps: usize,
    /// The end of the sub-agent if that reply doesn't return one.
    end: Ended,
}

impl Reader for Session {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        let value = Some(record.text);
        // In a document, these are separate records.
        let line = match record.path {
            0 => Line::of(record.text),
            1 => Line {
                session: value,
                ..Line::default()
            },
            2 => Line {
                directories: value,
                ..Line::default()
            },
            _ => Line {
                agent: value,
                ..Line::default()
            },
        };
        if record.path > 0 {
            self.is_child |= line.agent == Some("\"subagent\"");
            return about(&line, record.folder(), draft);
        }
        let before = draft.latest();
        // The header of a resumed session repeats the session's start, and a reply that is written
        // again repeats its own time.
        let is_news = |ts: &i64| before.is_none_or(|before| *ts >= before);
        let is_known =
            |id: String| self.replies.contains_key(&*id) || self.call_records.contains(&*id);
        let is_told_again = text(line.id).is_some_and(is_known);
        let ts = draft
            .time(line.timestamp)
            .filter(|ts| !is_told_again || is_news(ts));
        let ts = ts.or_else(|| micros(line.start).filter(is_news));
        let kind = text(line.kind).unwrap_or_default();
        let mark = EventDraft::new(&kind, ts);
        if line.id.is_some() && draft.is_again(record.text) {
            return draft.again(&mark);
        }
        let is_headless = !std::mem::replace(&mut self.is_begun, true) && !is_text(line.session);
        match &*kind {
            "gemini" => self.reply(&line, &mark, before, draft),
            "user" => self.user(&line, mark, draft),
            // These messages are by the program itself.
            "error" | "warning" | "info" => {
                let at = draft.event(mark.failed(kind == "error"));
                self.told(&kind, &spoken(line.content), at);
            }
            _ if line.set.is_some() => self.set(
                &line,
                record.text,
                &EventDraft {
                    phase: "$set",
                    ..mark
                },
                draft,
            ),
            _ if line.rewind.is_some() => {
                draft.event(EventDraft {
                    phase: "$rewindTo",
                    stage: "rewind",
                    ..mark
                });
                self.rewind(&text(line.rewind).unwrap_or_default(), draft);
            }
            _ => {
                draft.event(EventDraft {
                    phase: "header",
                    ..mark
                });
                self.is_child |= line.agent == Some("\"subagent\"");
                about(&line, record.folder(), draft);
            }
        }
        // A document's messages don't include the header.
        if is_headless && !draft.is_document() {
            draft.issue(
                IssueKind::Join,
                "the file doesn't begin with a session header",
            );
        }
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        // A sub-agent returns its answer in a call.
        let is_done = |step: &Part| {
            step.unanswered() == 0 && step.calls.iter().any(|call| call.name == "complete_task")
        };
        let is_done = self.last.and_then(|n| draft.step(n)).is_some_and(is_done);
        // An unfinished call isn't in the file, so the apparent answer may have come before one. Only
        // a sub-agent's last chance is over in any case.
        let ended = self
            .end
            .clone()
            .or_else(|| is_done.then(|| Ended::answered("complete_task")))
            .or_else(|| self.chance_missed(draft));
        // If all calls of a reply were cancelled, the program makes no further request.
        let cancelled = || {
            self.last
                .filter(|_| !self.has_prompt)
                .and_then(|n| draft.cancelled(n, Certainty::Recorded))
        };
        let (ended, _) = self
            .ends
            .settle(ended.or_else(cancelled), None, self.steps(), None);
        // If the document is truncated, the session may have continued after this message.
        let is_cut = draft.run().is_cut;
        let certainty = |end: &Ended| {
            if is_cut {
                Certainty::Inferred
            } else {
                end.certainty
            }
        };
        let ended = ended.map(|end| Ended {
            certainty: certainty(&end),
            ..end
        });
        let replied = |n| draft.step(n).is_some_and(Part::is_answer);
        let is_over = !self.due && ended.is_none() && self.last.is_some_and(replied);
        let at = draft.latest();
        let run = draft.run();
        run.awaits_user = (is_over || ended.is_some()) && run.parent.is_none() && !self.is_child;
        run.updated_at = at.filter(|_| ended.is_some());
        run.ended = ended.map(Box::new);
        run.turns = Some(self.turns);
        run.children = Some(self.children.len() as u64);
        run.child_ids = self.children.listed();
    }
}

impl Session {
    fn steps(&self) -> usize {
        self.last.map_or(0, |last| last + 1)
    }

    /// Returns the end of a sub-agent whose reply to the program's last request didn't return an
    /// answer.
    fn chance_missed(&self, draft: &Draft<'_>) -> Option<Ended> {
        let chance = self.chance.as_ref()?;
        let last = self.last.filter(|last| *last >= chance.steps)?;
        (draft.unanswered(last) == 0).then(|| chance.end.clone())
    }

    /// Returns the step whose calls are in a record that contains only calls, or `None` if the record
    /// is a separate reply.
    fn owner(&self, line: &Line<'_>, draft: &Draft<'_>) -> Option<usize> {
        let last = self.last.filter(|_| is_of_calls(line))?;
        let is_open = || !self.due && draft.step(last).is_some_and(|step| step.calls.is_empty());
        (self.filled == Some(last) || is_open()).then_some(last)
    }

    /// Adds the calls in a record that contains only calls to step `n`.
    fn add_calls(
        &mut self,
        n: usize,
        line: &Line<'_>,
        mark: &EventDraft<'_>,
        before: Option<i64>,
        draft: &mut Draft<'_>,
    ) {
        let calls = calls_of(line);
        let part = calls_since(&calls, self.last_at);
        let mark = EventDraft {
            kind: EventKind::Inside,
            note: None,
            failed: part.has_failed(),
            ..*mark
        };
        draft.reply(Some(n), before, mark);
        self.name_calls(n, &calls, &part);
        self.call_records
            .insert(text(line.id).unwrap_or_default().into());
        self.filled = Some(n);
        (self.due, self.has_prompt, self.end) = (!part.answers.is_empty(), false, None);
        draft.part(n, part);
    }

    /// Adds the calls of step `n`, and the sub-agents that they started.
    fn name_calls(&mut self, n: usize, calls: &[Call<'_>], part: &Part) {
        self.calls
            .extend(part.calls.iter().map(|call| ((*call.id).into(), n)));
        self.children.extend(
            calls
                .iter()
                .filter_map(|call| text(call.agent))
                .map(Box::from),
        );
    }

    /// Handles a reply of the model, or a copy of it with the results of its tools.
    fn reply(
        &mut self,
        line: &Line<'_>,
        mark: &EventDraft<'_>,
        before: Option<i64>,
        draft: &mut Draft<'_>,
    ) {
        let id = text(line.id).unwrap_or_default();
        let known = self.replies.get(&*id).copied().filter(|_| !id.is_empty());
        if known.is_none() {
            if let Some(n) = self.owner(line, draft) {
                return self.add_calls(n, line, mark, before, draft);
            }
            if self.call_records.contains(&*id) {
                draft.event(EventDraft {
                    note: None,
                    ..*mark
                });
                return draft.issue(
                    IssueKind::Join,
                    "the calls in the record belong to no known reply, so they are ignored",
                );
            }
        }
        let calls = calls_of(line);
        let part = part_of(line, &calls);
        let failed = part.has_failed();
        let n = draft.reply(
            known,
            before,
            EventDraft {
                kind: EventKind::Inside,
                note: None,
                failed,
                ..*mark
            },
        );
        self.name_calls(n, &calls, &part);
        if known.is_none() {
            self.replies.insert(id.into(), n);
            self.last_at = micros(line.timestamp);
            if let Some(last) = self.last.replace(n) {
                draft.close(last);
            }
            draft.run().model = short(line.model).or(draft.run().model.take());
        }
        let is_less = known.is_some()
            && draft
                .step(n)
                .is_some_and(|known| known.calls.len() > part.calls.len());
        // An older step may have been dropped, so it can't be replaced.
        if is_less {
            draft.issue(
                IssueKind::Join,
                "a later copy of the reply has fewer calls, so the copy is ignored",
            );
        } else if self.last == Some(n) {
            (self.due, self.has_prompt) = (!part.answers.is_empty(), false);
            self.end = None;
            draft.part(n, part);
        } else {
            draft.issue(
                IssueKind::Join,
                "a copy of the reply comes after the next reply, so the copy is ignored",
            );
        }
    }

    /// Handles tool results, which the reply contains as well, or a prompt.
    fn user(&mut self, line: &Line<'_>, mark: EventDraft<'_>, draft: &mut Draft<'_>) {
        let pieces = line.content.map(Piece::list).unwrap_or_default();
        let given = pieces.iter().find_map(|piece| piece.given);
        let steps = self.steps();
        if let Some(id) = text(line.id)
            && self
                .asked
                .insert(id.into(), steps)
                .is_some_and(|before| before == steps)
        {
            return draft.again(&mark);
        }
        let before = self.end.take();
        let was_due = std::mem::replace(&mut self.due, true);
        let said = text(line.content).unwrap_or_else(|| {
            let texts = pieces.iter().filter_map(|piece| text(piece.text));
            texts.collect::<Vec<_>>().join("\n")
        });
        if let Some(given) = given {
            let step = text(member(given, "id")).and_then(|id| self.calls.get(&*id).copied());
            let stage = stage_beside(&said, "result");
            draft.event(EventDraft {
                kind: EventKind::Inside,
                stage,
                step,
                ..mark
            });
            return;
        }
        if is_nudge(&said) {
            self.has_prompt = true;
            let at = draft.event(mark.stage("note"));
            let end = last_chance(&said).map(|end| end.at_event(at));
            self.chance = end.map(|end| Chance { steps, end });
            return;
        }
        // The program's description of the environment looks like a prompt, and so does a command that
        // the user ran.
        if is_no_prompt(&said) {
            (self.end, self.due) = (before, was_due);
            let is_shell = UserShell::is_in(&said);
            let stage = if is_shell { USER_SHELL } else { mark.stage };
            draft.event(EventDraft { stage, ..mark });
            return;
        }
        self.turns += 1;
        (self.has_prompt, self.chance) = (true, None);
        self.ends.begin(steps, before, None, None);
        draft.prompt(Some(&said), &mark);
    }

    /// Abandons the message with this id and everything after it.
    fn rewind(&mut self, id: &str, draft: &mut Draft<'_>) {
        (self.due, self.has_prompt, self.end) = (true, true, None);
        let Some(first) = self.replies.get(id).or(self.asked.get(id)).copied() else {
            return draft.issue(
                IssueKind::Join,
                "the session was rewound to a message that isn't in the file",
            );
        };
        let steps = self.steps();
        (first..steps).for_each(|n| draft.leave(n, true));
    }

    /// Handles a message by the program that may record the end.
    fn told(&mut self, kind: &str, words: &str, at: usize) {
        let end = match kind {
            "error" => Ended::new(
                "error",
                "Failed with an error",
                Outcome::Failed,
                Certainty::Recorded,
            ),
            // The message doesn't say who cancelled the request.
            "info" if words.starts_with("Request cancelled") => Ended::new(
                "cancelled",
                "Interrupted",
                Outcome::Cancelled,
                Certainty::Recorded,
            ),
            _ => return,
        };
        self.end = Some(end.detail(cut(words)).at_event(at));
    }

    /// Handles a list of all messages, with which a resumed session begins. Known messages are
    /// skipped. The step number of a new reply is its position among the replies in the list, so
    /// that the reply can be found there again.
    fn set(&mut self, line: &Line<'_>, record: &str, mark: &EventDraft<'_>, draft: &mut Draft<'_>) {
        let messages: Vec<(&str, Line<'_>)> = messages(line)
            .map(|message| (message, Line::of(message)))
            .collect();
        let is_prompt = |message: &Line<'_>| {
            message.kind == Some("\"user\"") && !is_given(message) && {
                let said = spoken(message.content);
                !is_no_prompt(&said) && !is_nudge(&said)
            }
        };
        // Decodes each text only once.
        let prompts: Vec<bool> = messages
            .iter()
            .map(|(_, message)| is_prompt(message))
            .collect();
        let steps = Self::steps;
        let known = |session: &Self, reply: &Line<'_>| {
            text(reply.id).and_then(|id| session.replies.get(&*id).copied())
        };
        let replies = || {
            messages
                .iter()
                .filter(|(_, message)| message.kind == Some("\"gemini\""))
                .enumerate()
        };
        let other = replies().find(|(place, (_, reply))| known(self, reply) != Some(*place));
        let begins = other.is_some_and(|(place, (_, reply))| {
            place == steps(self) && known(self, reply).is_none()
        });
        let task = messages
            .iter()
            .zip(&prompts)
            .find(|(_, is_prompt)| **is_prompt)
            .filter(|_| !draft.has_task());
        let note = task.map(|((_, message), _)| draft.task(Some(&spoken(message.content))));
        let kind = if begins {
            EventKind::StepStart
        } else {
            mark.kind
        };
        let asks = prompts.contains(&true);
        let stage = if asks { USER_TEXT } else { mark.stage };
        let at = draft.event(EventDraft {
            kind,
            note,
            stage,
            step: begins.then(|| steps(self)),
            ..*mark
        });
        // `agrees` is true as long as the replies in the list match the steps.
        let (mut place, mut unknown, mut agrees) = (0, 0, true);
        for ((text_of, message), is_prompt) in messages.iter().zip(prompts) {
            let id = text(message.id).unwrap_or_default();
            match message.kind {
                Some("\"gemini\"") => {
                    let step = known(self, message);
                    agrees &= step.unwrap_or(steps(self)) == place;
                    if step.is_none() && agrees {
                        let within =
                            (text_of.as_ptr() as usize).saturating_sub(record.as_ptr() as usize);
                        let n = draft.begin_within(within as u64);
                        self.listed(n, id, message, draft);
                    }
                    unknown += usize::from(step.is_none() && !agrees);
                    place += 1;
                }
                Some("\"user\"") => {
                    let steps = steps(self);
                    if self.asked.contains_key(&*id) {
                        continue;
                    }
                    self.asked.insert(id.into(), steps);
                    self.turns += u64::from(is_prompt);
                    (self.due, self.has_prompt, self.end) = (true, true, None);
                }
                _ => self.told(
                    &text(message.kind).unwrap_or_default(),
                    &spoken(message.content),
                    at,
                ),
            }
        }
        if unknown > 0 {
            let reason = if unknown == 1 {
                "1 reply is only in a list of messages, so it isn't counted as a step".to_owned()
            } else {
                format!(
                    "{unknown} replies are only in a list of messages, so they aren't counted as steps"
                )
            };
            draft.issue(IssueKind::Join, reason);
        }
    }

    /// Adds a reply in a list of messages as step `n`.
    fn listed(&mut self, n: usize, id: String, line: &Line<'_>, draft: &mut Draft<'_>) {
        let calls = calls_of(line);
        let part = part_of(line, &calls);
        self.replies.insert(id.into(), n);
        self.last_at = micros(line.timestamp);
        self.name_calls(n, &calls, &part);
        draft.run().model = short(line.model).or(draft.run().model.take());
        (self.due, self.has_prompt, self.end) = (!part.answers.is_empty(), false, None);
        if let Some(last) = self.last.replace(n) {
            draft.close(last);
        }
        draft.part(n, part);
    }
}

/// Returns the messages in a list of all messages.
fn messages<'a>(line: &Line<'a>) -> impl Iterator<Item = &'a str> {
    line.set
        .and_then(|set| member(set, "messages"))
        .into_iter()
        .flat_map(walk::items)
}

/// Returns whether the text of a user message is no prompt: the program's description of the
/// environment, or a command that the user ran.
fn is_no_prompt(said: &str) -> bool {
    said.starts_with("<session_context>") || UserShell::is_in(said)
}

/// How the program's own messages begin with which it makes the model continue.
const NUDGES: [&str; 3] = [
    "System: Potential loop detected. Details: ",
    "[System: You previously ",
    "[System: You successfully executed a tool but ",
];

/// What the program says to a sub-agent that must return its answer in its next reply: why, and the
/// end if it doesn't.
const CHANCES: [(&str, &str, Outcome); 3] = [
    (
        "You have stopped calling tools without finishing.",
        "Ended without an answer",
        Outcome::Failed,
    ),
    (
        "You have exceeded the maximum number of turns.",
        "Turn limit reached",
        Outcome::Truncated,
    ),
    (
        "You have exceeded the time limit.",
        "Time limit reached",
        Outcome::Truncated,
    ),
];
const CHANCE: &str = " You have one final chance to complete the task";

/// Returns whether the text of a user message is by the program, which requests another reply.
fn is_nudge(said: &str) -> bool {
    NUDGES.iter().any(|nudge| said.starts_with(nudge)) || last_chance(said).is_some()
}

/// Returns the end of a sub-agent that doesn't return an answer after this message, if the message is
/// the program's request for it.
fn last_chance(said: &str) -> Option<Ended> {
    let is_of = |why: &str| {
        let rest = said.strip_prefix(why);
        rest.is_some_and(|rest| rest.starts_with(CHANCE))
    };
    let (_, headline, outcome) = CHANCES.into_iter().find(|(why, ..)| is_of(why))?;
    Some(match outcome {
        Outcome::Truncated => Ended::new("", headline, outcome, Certainty::Recorded),
        _ => Ended::new(Ended::NO_CALLS, headline, outcome, Certainty::Inferred),
    })
}

/// Returns whether a record contains only calls. The program writes the tokens of a reply with its
/// first record, even if there are none.
fn is_of_calls(line: &Line<'_>) -> bool {
    let has_thoughts = || {
        walk::items(line.thoughts.unwrap_or_default())
            .next()
            .is_some()
    };
    let has_calls = || walk::items(line.calls.unwrap_or_default()).next().is_some();
    line.kind == Some("\"gemini\"")
        && line.tokens.is_none()
        && has_calls()
        && line.content == Some("\"\"")
        && !has_thoughts()
}

/// Returns whether a user message is a tool result.
fn is_given(line: &Line<'_>) -> bool {
    line.content
        .into_iter()
        .flat_map(walk::items)
        .any(|part| member(part, "functionResponse").is_some())
}

/// Takes the facts about the session from its header. Resuming adds another header, which is
/// ignored.
fn about(line: &Line<'_>, folder: &str, draft: &mut Draft<'_>) {
    let run = draft.run();
    let is_whole = line.members > 0;
    if is_whole && (run.run_id.is_some() || !is_text(line.session)) {
        return;
    }
    run.run_id = run.run_id.take().or_else(|| short(line.session));
    run.tool = Some("Gemini CLI".into());
    let first = line.directories.and_then(|list| walk::items(list).next());
    run.project = first
        .and_then(|first| short(Some(first)))
        .or(run.project.take());
    if line.agent == Some("\"subagent\"") {
        run.parent = Some(folder)
            .filter(|folder| !folder.is_empty() && *folder != "chats")
            .map(cut);
    }
}

/// Returns the line of step `n`.
fn assembled(n: usize, records: &[String]) -> String {
    let mut lines = records.iter().map(|record| reply_in(record, n));
    let first = lines.next();
    let (id, at) = first.map_or((None, None), |first| (first.id, micros(first.timestamp)));
    let part = |line: Line<'_>| {
        let calls = calls_of(&line);
        match is_of_calls(&line) && line.id != id {
            true => calls_since(&calls, at),
            false => part_of(&line, &calls),
        }
    };
    part::line(n, first.into_iter().chain(lines).map(part))
}

/// Returns the reply of step `n` in a record. A list of all messages has it at that position.
fn reply_in(record: &str, n: usize) -> Line<'_> {
    let line = Line::of(record);
    let mut replies = messages(&line)
        .map(Line::of)
        .filter(|message| message.kind == Some("\"gemini\""));
    let reply = line.set.and_then(|_| replies.nth(n));
    reply.unwrap_or(line)
}

/// Returns the step that a line contains. The line contains all of it.
fn part_of(line: &Line<'_>, calls: &[Call<'_>]) -> Part {
    let mut part = Part {
        whole: true,
        model: text(line.model),
        tokens: line.tokens.map(tokens),
        ..calls_in(calls, |_| true)
    };
    part.text
        .extend(Some(spoken(line.content)).filter(|text| !text.is_empty()));
    for thought in line
        .thoughts
        .into_iter()
        .flat_map(walk::items)
        .map(Thought::of)
    {
        let words = [thought.subject, thought.description]
            .into_iter()
            .filter_map(text)
            .filter(|text| !text.is_empty());
        part.thought
            .extend(words.reduce(|subject, more| format!("{subject}: {more}")));
    }
    // Gemini CLI records calls only with their results. Until then, what the model wrote isn't recorded.
    let is_silent = part.text.is_empty() && part.calls.is_empty();
    let written = part.tokens.and_then(|tokens| tokens.output);
    part.is_text_unknown = is_silent && written.is_some_and(|tokens| tokens > 0);
    part
}

/// Returns the calls in a record. They may be most of it, so each record's are read only once.
fn calls_of<'a>(line: &Line<'a>) -> Vec<Call<'a>> {
    line.calls.map(Call::list).unwrap_or_default()
}

/// Returns those calls that finished after the reply at `from`.
fn calls_since(calls: &[Call<'_>], from: Option<i64>) -> Part {
    calls_in(calls, |call| {
        micros(call.timestamp)
            .zip(from)
            .is_some_and(|(at, from)| at >= from)
    })
}

/// Returns the calls for which `is_own` is true, with their results.
fn calls_in(calls: &[Call<'_>], is_own: impl Fn(&&Call<'_>) -> bool) -> Part {
    let mut part = Part::default();
    for call in calls.iter().filter(is_own) {
        let id = text(call.id).unwrap_or_default();
        part.answers.extend(answer(&id, call));
        part.changes.extend(
            call.display
                .into_iter()
                .flat_map(|display| changes(display, None)),
        );
        let args = call.args.unwrap_or("{}").to_owned();
        part.calls.push(CallDraft {
            id,
            name: text(call.name).unwrap_or_default(),
            args,
        });
    }
    part
}

/// Returns the result of a call, or `None` if the call isn't finished.
fn answer(id: &str, call: &Call<'_>) -> Option<Answer> {
    let pieces = call.result.map(Piece::list).unwrap_or_default();
    let given = pieces.iter().find_map(|piece| piece.given);
    let given = given.and_then(|given| member(given, "response"));
    let status = status(call.status);
    if status.is_none() && given.is_none() {
        return None;
    }
    let answer = given_for(id, given, status);
    let is_command = call.name == Some("\"run_shell_command\"");
    Some(match is_command {
        true => reported(answer, &text(call.display).unwrap_or_default()),
        false => answer,
    })
}

/// Returns the result of a call from the response for the model: `{output}` or `{error}`.
pub(super) fn given_for(id: &str, given: Option<&str>, status: Option<&'static str>) -> Answer {
    let response = given.map(Given::of).unwrap_or_default();
    let bad = matches!(status, Some("error" | "cancelled"));
    let words = text(response.error).or_else(|| text(response.output).filter(|_| bad));
    let error = words.or_else(|| bad.then(|| NO_WORDS.to_owned()));
    let status = status.or_else(|| response.error.is_some().then_some("error"));
    let output = response
        .output
        .or(given.filter(|_| response.error.is_none()))
        .filter(|_| !bad);
    Answer {
        call: id.to_owned(),
        status,
        error,
        output: output.unwrap_or("null").to_owned(),
        ..Answer::default()
    }
}

/// Returns the files and plans that a result reports as changed, with both sides if known.
pub(super) fn changes(
    display: &str,
    project: Option<&str>,
) -> Vec<(String, Option<String>, Option<String>)> {
    let display = Display::of(display);
    let mut changes = Vec::new();
    if let (Some(path), Some(after)) = (text(display.path), display.after) {
        let before = display
            .before
            .filter(|_| display.is_new != Some("true"))
            .map(str::to_owned);
        changes.push((
            format!("files.{}", below(&path, project)),
            before,
            Some(after.to_owned()),
        ));
    }
    if let Some(todos) = display.todos {
        changes.push(("todos".to_owned(), None, Some(todos.to_owned())));
    }
    changes
}

/// Converts the tokens of a reply. The service counts thoughts separately from the output, and
/// includes cached tokens in the input.
fn tokens(usage: &str) -> Tokens {
    let usage = Usage::of(usage);
    let (output, thoughts) = (count(usage.output), count(usage.thoughts));
    Tokens {
        input: count(usage.input),
        cached: count(usage.cached),
        output: output.map(|output| output + thoughts.unwrap_or_default()),
        reasoning: thoughts,
        ..Tokens::default()
    }
}
