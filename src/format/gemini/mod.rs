//! How does Gemini CLI write a session? One JSON object a line, appended to `tmp/PROJECT/chats/session-*.jsonl`:
//! a header, messages, and `$set` for what changed about the session. Sub-agents have files of their own, in a
//! directory named by the session that started them.
//!
//! A reply is written when it is there, and written again under its id, as a whole, when its tools are done: of a call
//! that was never done nothing is known. No line says how the session ended. Seen in version 0.61.

pub(super) mod stream;

use super::part::{self, text};
use super::recent::{Recent, RecentSet};
use super::turns::Turns;
use super::value::{
    USER_TEXT, below, count, cut, is_text, member, micros, objects, short, spoken, stage_beside,
    status,
};
use super::watch::begun;
use super::{Answer, CallDraft, Draft, EventDraft, Part, Reader, Shape, Source, Tokens, Tool};
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
        no_end_reason: "Gemini CLI doesn't record it (answered, stopped at a limit, killed, or waiting for its user)",
        is_session: true,
        is_in_order: true,
        assemble: Some(|n, records| part::line(n, records.iter().map(|record| part_in(record, n)))),
        ..Format::UNKNOWN
    },
    shape: Shape::Lines,
    is: |name, head| name.ends_with(".jsonl") && is_session(head),
    reader: || Box::new(Session::default()),
};

/// A session of a version that wrote it as one document, anew each time.
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
        id, name, args, result, status, agent = "agentId", display = "resultDisplay",
    }
    struct Thought { subject, description }
    struct Usage { input, output, cached, thoughts }
    struct Display { path = "filePath", before = "originalContent", after = "newContent", is_new = "isNewFile", todos }
    struct Given { output, error }
}

/// Whether a file of lines begins with a session: by its header, or where that was cut off, by a reply or a list of all
/// messages.
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
    // The list may be longer than what is looked at.
    let list = begun_member(first, "\"$set\"").and_then(|set| begun_member(set, "\"messages\""));
    let of_list = list
        .and_then(|list| list.strip_prefix('['))
        .is_some_and(|list| is_message(list.trim_start()));
    let is_reply = line.kind == Some("\"gemini\"") && is_message(first);
    is_text(line.session) && is_text(line.project) || is_reply || of_list
}

/// A member of an object of which only the beginning may be there; its key is in quotes.
fn begun_member<'a>(object: &'a str, key: &str) -> Option<&'a str> {
    begun(object.as_bytes())
        .into_iter()
        .find(|(name, _)| *name == key)
        .map(|(_, value)| value)
}

/// A session under way.
#[derive(Debug, Default)]
struct Session {
    /// The first record was taken in.
    is_begun: bool,
    /// Replies by id.
    replies: Recent<Box<str>, usize>,
    /// How many steps there were before other messages, by their ids.
    asked: Recent<Box<str>, usize>,
    /// The step of each call.
    calls: Recent<Box<str>, usize>,
    children: RecentSet<Box<str>>,
    last: Option<usize>,
    turns: u64,
    /// A prompt or a result came after the last reply: the next one is due; and whether it was a prompt.
    due: bool,
    has_prompt: bool,
    end: Option<Ended>,
    ends: Turns,
    /// Another session started it.
    is_child: bool,
}

impl Reader for Session {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        let value = Some(record.text);
        // In a document these stand by themselves.
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
        // The header of a resumed session tells again when it began, and a reply that is written again when it was.
        let is_news = |ts: &i64| before.is_none_or(|before| *ts >= before);
        let is_known = |id: String| self.replies.contains_key(&*id);
        let is_told_again = text(line.id).is_some_and(is_known);
        let ts = draft
            .time(line.timestamp)
            .filter(|ts| !is_told_again || is_news(ts));
        let ts = ts.or_else(|| micros(line.start).filter(is_news));
        let kind = text(line.kind).unwrap_or_default();
        let mark = EventDraft {
            phase: &kind,
            ts,
            ..EventDraft::default()
        };
        if line.id.is_some() && draft.is_again(record.text) {
            return draft.again(&mark);
        }
        let is_headless = !std::mem::replace(&mut self.is_begun, true) && !is_text(line.session);
        match &*kind {
            "gemini" => self.reply(&line, &mark, before, draft),
            "user" => self.user(&line, mark, draft),
            // What the program says in words of its own.
            "error" | "warning" | "info" => {
                let at = draft.event(EventDraft {
                    failed: kind == "error",
                    ..mark
                });
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
        // In a document the header is not among these.
        if is_headless && !draft.is_document() {
            draft.issue(
                IssueKind::Join,
                "the file does not begin with the header of a session",
            );
        }
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        // A sub-agent hands its answer over by a call.
        let is_done = |step: &Part| {
            step.unanswered() == 0 && step.calls.iter().any(|call| call.name == "complete_task")
        };
        let is_done = self.last.and_then(|n| draft.step(n)).is_some_and(is_done);
        // A call that is not over is not in the file: what looks like the answer may have come before one.
        let ended = self
            .end
            .clone()
            .or_else(|| is_done.then(|| Ended::answered("complete_task")));
        // The program asks no model where all calls of a reply were cancelled.
        let cancelled = || {
            self.last
                .filter(|_| !self.has_prompt)
                .and_then(|n| draft.cancelled(n, Certainty::Recorded))
        };
        let (ended, _) = self
            .ends
            .settle(ended.or_else(cancelled), None, self.steps(), None);
        // Of a document that is cut off nobody knows what came after these words.
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
        let replied = |n: usize| {
            draft
                .step(n)
                .is_some_and(|step| step.calls.is_empty() && !step.text.is_empty())
        };
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

    /// A reply of the model, or the same one again with what its tools gave.
    fn reply(
        &mut self,
        line: &Line<'_>,
        mark: &EventDraft<'_>,
        before: Option<i64>,
        draft: &mut Draft<'_>,
    ) {
        let id = text(line.id).unwrap_or_default();
        let part = part_of(line);
        let known = self.replies.get(&*id).copied().filter(|_| !id.is_empty());
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
        self.calls
            .extend(part.calls.iter().map(|call| ((*call.id).into(), n)));
        let calls = line.calls.into_iter().flat_map(walk::items).map(Call::of);
        self.children
            .extend(calls.filter_map(|call| text(call.agent)).map(Box::from));
        if known.is_none() {
            self.replies.insert(id.into(), n);
            if let Some(last) = self.last.replace(n) {
                draft.close(last);
            }
            draft.run().model = short(line.model).or(draft.run().model.take());
        }
        let is_less = known.is_some()
            && draft
                .step(n)
                .is_some_and(|known| known.calls.len() > part.calls.len());
        // An older step may not be there any more to be replaced.
        if is_less {
            draft.issue(
                IssueKind::Join,
                "a reply is written again with fewer calls than before, which is not read",
            );
        } else if self.last == Some(n) {
            (self.due, self.has_prompt) = (!part.answers.is_empty(), false);
            self.end = None;
            draft.part(n, part);
        } else {
            draft.issue(
                IssueKind::Join,
                "a reply is written again after the next one, which is not read",
            );
        }
    }

    /// What tools gave, which the reply has as well, or a prompt.
    fn user(&mut self, line: &Line<'_>, mark: EventDraft<'_>, draft: &mut Draft<'_>) {
        let given = line
            .content
            .into_iter()
            .flat_map(walk::items)
            .find_map(|part| member(part, "functionResponse"));
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
        self.due = true;
        if let Some(given) = given {
            let step = text(member(given, "id")).and_then(|id| self.calls.get(&*id).copied());
            let said = spoken(line.content);
            let stage = stage_beside(&said, "result");
            draft.event(EventDraft {
                kind: EventKind::Inside,
                stage,
                step,
                ..mark
            });
            return;
        }
        // What the program tells the model of its surroundings is in the shape of a prompt.
        if is_surroundings(line) {
            self.end = before;
            draft.event(mark);
            return;
        }
        self.turns += 1;
        self.has_prompt = true;
        self.ends.begin(steps, before, None, None);
        draft.prompt(Some(&spoken(line.content)), &mark);
    }

    /// The message with this id and all that came after it are void.
    fn rewind(&mut self, id: &str, draft: &mut Draft<'_>) {
        (self.due, self.has_prompt, self.end) = (true, true, None);
        let Some(first) = self.replies.get(id).or(self.asked.get(id)).copied() else {
            return draft.issue(
                IssueKind::Join,
                "it goes back to a message that the file does not hold",
            );
        };
        let steps = self.steps();
        (first..steps).for_each(|n| draft.leave(n, true));
    }

    /// What the program says of the end in words of its own.
    fn told(&mut self, kind: &str, words: &str, at: usize) {
        let end = match kind {
            "error" => Ended::new(
                "error",
                "Ended by an error",
                Outcome::Failed,
                Certainty::Recorded,
            ),
            // It doesn't say who did that.
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

    /// A list of all messages, as a resumed session begins with it: those that are known are not read again. Of the others
    /// a reply is the step of its place among the replies, so that it is found there again.
    fn set(&mut self, line: &Line<'_>, record: &str, mark: &EventDraft<'_>, draft: &mut Draft<'_>) {
        let messages: Vec<(&str, Line<'_>)> = messages(line)
            .map(|message| (message, Line::of(message)))
            .collect();
        let is_prompt = |message: &Line<'_>| {
            message.kind == Some("\"user\"") && !is_given(message) && !is_surroundings(message)
        };
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
            .find(|(_, message)| is_prompt(message))
            .filter(|_| !draft.has_task());
        let note = task.map(|(_, message)| draft.task(Some(&spoken(message.content))));
        let kind = if begins {
            EventKind::StepStart
        } else {
            mark.kind
        };
        let asks = messages.iter().any(|(_, message)| is_prompt(message));
        let stage = if asks { USER_TEXT } else { mark.stage };
        let at = draft.event(EventDraft {
            kind,
            note,
            stage,
            step: begins.then(|| steps(self)),
            ..*mark
        });
        // As long as the list tells the course of the steps.
        let (mut place, mut unknown, mut agrees) = (0, 0, true);
        for (text_of, message) in &messages {
            let id = text(message.id).unwrap_or_default();
            match message.kind {
                Some("\"gemini\"") => {
                    let step = known(self, message);
                    agrees &= step.unwrap_or(steps(self)) == place;
                    if step.is_none() && agrees {
                        let within =
                            (text_of.as_ptr() as usize).saturating_sub(record.as_ptr() as usize);
                        let n = draft.begin_within(within as u64);
                        self.listed(n, id, message, part_of(message), draft);
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
                    self.turns += u64::from(is_prompt(message));
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
            let many = if unknown == 1 {
                "reply stands"
            } else {
                "replies stand"
            };
            draft.issue(
                IssueKind::Join,
                format!(
                    "{unknown} {many} in a list of messages alone, and no step is made of them"
                ),
            );
        }
    }

    /// A reply that stands in a list of messages, as step `n`.
    fn listed(&mut self, n: usize, id: String, line: &Line<'_>, part: Part, draft: &mut Draft<'_>) {
        self.replies.insert(id.into(), n);
        self.calls
            .extend(part.calls.iter().map(|call| ((*call.id).into(), n)));
        let calls = line.calls.into_iter().flat_map(walk::items).map(Call::of);
        self.children
            .extend(calls.filter_map(|call| text(call.agent)).map(Box::from));
        draft.run().model = short(line.model).or(draft.run().model.take());
        (self.due, self.has_prompt, self.end) = (!part.answers.is_empty(), false, None);
        if let Some(last) = self.last.replace(n) {
            draft.close(last);
        }
        draft.part(n, part);
    }
}

/// The messages of a list of all of them.
fn messages<'a>(line: &Line<'a>) -> impl Iterator<Item = &'a str> {
    line.set
        .and_then(|set| member(set, "messages"))
        .into_iter()
        .flat_map(walk::items)
}

/// Whether a message in the shape of the user's is what the program tells the model of its surroundings.
fn is_surroundings(line: &Line<'_>) -> bool {
    spoken(line.content).starts_with("<session_context>")
}

/// Whether a message in the shape of the user's is what a tool gave.
fn is_given(line: &Line<'_>) -> bool {
    line.content
        .into_iter()
        .flat_map(walk::items)
        .any(|part| member(part, "functionResponse").is_some())
}

/// What the header says of the session; a resumed one has another.
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

/// What a record says of step `n`: the reply that it is, or of a list of all messages the one at that place.
fn part_in(record: &str, n: usize) -> Part {
    let line = Line::of(record);
    let mut replies =
        messages(&line).filter(|message| Line::of(message).kind == Some("\"gemini\""));
    match (line.set, replies.nth(n)) {
        (Some(_), Some(reply)) => part_of(&Line::of(reply)),
        _ => part_of(&line),
    }
}

/// What a line says of the step that it belongs to: all of it.
fn part_of(line: &Line<'_>) -> Part {
    let mut part = Part {
        whole: true,
        model: text(line.model),
        tokens: line.tokens.map(tokens),
        ..Part::default()
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
    for call in line.calls.into_iter().flat_map(walk::items).map(Call::of) {
        let id = text(call.id).unwrap_or_default();
        part.answers.extend(answer(&id, &call));
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

/// What a call gave; `None` where it is not over.
fn answer(id: &str, call: &Call<'_>) -> Option<Answer> {
    let given = call
        .result
        .into_iter()
        .flat_map(walk::items)
        .find_map(|part| member(part, "functionResponse"));
    let given = given.and_then(|given| member(given, "response"));
    let status = status(call.status);
    if status.is_none() && given.is_none() {
        return None;
    }
    let answer = given_for(id, given, status);
    // A command that failed is a success to the program; its exit code stands at the end of what it printed.
    let exit = answer.status == Some("success") && call.name == Some("\"run_shell_command\"");
    let said = text(Some(&answer.output)).filter(|_| exit);
    let printed = text(call.display).unwrap_or_default();
    let exit = said.as_deref().and_then(|said| exit_in(said, &printed));
    Some(match (exit.filter(|exit| *exit != 0), said) {
        (Some(exit), Some(said)) => Answer {
            status: Some("error"),
            exit: Some(exit),
            error: Some(said),
            output: "null".to_owned(),
            ..answer
        },
        _ => answer,
    })
}

/// What the model was given for a call: `{output}` or `{error}`.
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

/// The exit code, where the program puts it behind what the command printed: `printed`, as far as it is known.
fn exit_in(output: &str, printed: &str) -> Option<i64> {
    const BEHIND: [&str; 4] = [
        "</untrusted_context>",
        "Process Group PGID: ",
        "Background PIDs: ",
        "Signal: ",
    ];
    let mut rest = output.trim_end();
    while let Some((before, last)) = rest.rsplit_once('\n')
        && BEHIND.iter().any(|word| last.starts_with(word))
    {
        rest = before.trim_end();
    }
    let exit = rest
        .rsplit_once('\n')?
        .1
        .strip_prefix("Exit Code: ")?
        .trim()
        .parse()
        .ok();
    let printed = printed.trim_end();
    // A command may print such a line itself.
    exit.filter(|_| printed.is_empty() || !rest.ends_with(printed))
}

/// Which files and plans a result says were changed, with both sides.
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

/// The service counts thoughts beside the output, and what the cache held among the input.
fn tokens(usage: &str) -> Tokens {
    let usage = Usage::of(usage);
    let (output, thoughts) = (count(usage.output), count(usage.thoughts));
    Tokens {
        input: count(usage.input),
        cached: count(usage.cached),
        output: output.map(|output| output + thoughts.unwrap_or_default()),
        reasoning: thoughts,
    }
}
