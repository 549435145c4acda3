//! Reads sessions of gptme: one JSON object per line, appended to `logs/SESSION/conversation.jsonl`.
//!
//! A line is a message. A reply has its calls and its thoughts in its text ([`reply`]), and is written
//! only after its tools have run, so a call that was killed leaves no line. A result is a message of
//! the system that names its call, or, for a call in a code block, just the next one. The end is
//! recorded when the model calls `complete`, when a limit of steps ends a turn, and when an error ends
//! the program: a reply at its output limit looks like an answer. The times are local ones without an offset, which [`clock`] finds
//! in the file of events, if there is one. The other files of the directory repeat the messages, or have
//! none. This reader is based on version 0.35.

mod clock;
mod reply;

pub(crate) use clock::clock_times;

use super::conversation::Conversation;
use super::ends::{End, ends};
use super::lines::stem;
use super::part::{self, quoted, text};
use super::turns::Turns;
use super::value::{below, count, cut, filled, is_text, is_true, member, number, objects};
use super::watch::begun;
use super::{Answer, CallDraft, Draft, EventDraft, Part, Reader, Shape, Source, Tokens, Tool};
use crate::model::step::NO_WORDS;
use crate::model::{Can, Capabilities, Certainty, Ended, Format, Outcome};

/// A session.
pub(super) static SESSION: Tool = Tool {
    format: Format {
        name: "gptme session",
        can: Capabilities {
            state: Can::Partly,
            times: Can::Yes,
            tokens: Can::Yes,
            cost: Can::Partly,
            ..Capabilities::NONE
        },
        file: "session file",
        no_end_reason: "a gptme session records an end only if the agent calls `complete`, or if a limit, an interruption or an error ends the run",
        is_session: true,
        resume: "gptme --name",
        assemble: Some(assembled),
        ..Format::UNKNOWN
    },
    shape: Shape::Lines,
    is: |name, head| stem(name) == Some(FILE) && begins_session(head),
    reader: || Box::new(Session::default()),
};

/// The name of a session's file, without its ending.
const FILE: &str = "conversation";

/// Returns the name of the file with the events of a session, next to that in this file.
pub(super) fn clock(name: &str) -> Option<String> {
    // The events of a compressed copy aren't compressed in the same way.
    (name == "conversation.jsonl").then(|| "events.jsonl".to_owned())
}

/// Returns whether the first line is a message. It may be longer than the beginning of the file.
fn begins_session(head: &[u8]) -> bool {
    let Some(first) = objects(head).next() else {
        return false;
    };
    let line = Line::of(first);
    let has_role = matches!(line.role, Some("\"system\"" | "\"user\"" | "\"assistant\""));
    let is_cut = || {
        let last = begun(first.as_bytes()).last().copied();
        let is_content =
            |(key, value): (&str, &str)| key == "\"content\"" && value.starts_with('"');
        line.content.is_none() && last.is_some_and(is_content)
    };
    has_role && (is_text(line.content) && is_text(line.timestamp) || is_cut())
}

/// Returns whether a file of a session's directory isn't a run: it repeats messages of the session's
/// file, or has none.
pub(super) fn is_part(head: &[u8]) -> bool {
    let Some(first) = objects(head).next().map(Other::of) else {
        return false;
    };
    let is_event = first.seq.is_some()
        && is_text(first.ts)
        && first.payload.is_some()
        && matches!(
            first.kind,
            Some("\"message_append\"" | "\"message_edit\"" | "\"undo\"" | "\"checkpoint\"")
        );
    let is_receipt = first.record.is_some() && first.runtime == Some("\"gptme\"");
    let is_saving = first.original.is_some() && first.kept.is_some() && first.saved.is_some();
    is_event || is_receipt || is_saving
}

/// The tool whose result says that the model completed its task.
const COMPLETE: &str = "complete";
/// What that result says.
const COMPLETED: &str = "Task complete. Autonomous session finished.";

/// Results of calls that the user stopped or didn't allow, by their beginning.
const CANCELLED: [&str; 12] = [
    "Interrupted by user",
    "Execution declined by user",
    "Declined by user",
    "Command interrupted",
    "Tool execution skipped",
    "Operation skipped",
    "Copied to clipboard, execution skipped",
    "No changes made, execution skipped",
    "Help shown, please re-run",
    "No confirmation hook ",
    "No tool context available",
    // To the question whether to run it.
    "Unknown response: ",
];
/// Results of calls that failed, by their beginning in lower case.
const FAILED: [&str; 5] = [
    "error",
    "failed",
    "patch failed",
    "command timed out",
    "command denied",
];
/// How the result of a Python cell begins, and what that of a failed one contains.
const CELL: &str = "Executed code block";
const RAISED: &str = "\nException during execution on line ";
/// How the result of a shell command names its exit code.
const EXIT: &str = "Return code: ";
/// The paragraph after it if the command ended the shell.
const RESTARTED: &str = "\nNote: the shell exited (";

/// Longer paths aren't paths; bytes.
const MAX_PATH_BYTES: usize = 4_096;
/// How a message of the system names the working directory and the branch.
const DIRECTORY: &str = "**Working Directory:** ";
const BRANCH: &str = "**Branch:** `";
/// What it writes if git names none.
const NO_BRANCH: &str = "unknown";
/// How a message of the user begins that the program wrote.
const BY_PROGRAM: &str = "<system>";
/// What such a message contains after a reply without calls. The program asks this often before it
/// exits.
const REMINDER: &str = "No tool call detected in last message";
const MAX_REMINDERS: u32 = 2;
/// How the text of a reply ends that the user interrupted.
const INTERRUPTED: &str = "... ^C Interrupted";

/// The classes of errors that end a session.
const ERRORS: &[End] = ends! {
    "rate_limit" | "auth_error" | "model_unavailable" => Failed, "API error";
};

fields! {
    struct Line { role, content, timestamp, call = "call_id", hide, pinned, metadata }
    struct Metadata {
        model, usage, cost, timings, tool, limited = "max_steps_stop", input = "input_tokens",
        output = "output_tokens", is_error = "error", class = "error_class",
    }
    struct Timings { first = "ttft_ms", rest = "gen_ms", tools = "tool_ms_by_name" }
    struct Usage {
        input = "input_tokens", output = "output_tokens", cached = "cache_read_tokens",
        written = "cache_creation_tokens", reasoning = "reasoning_tokens",
    }
    struct Other {
        seq, ts, kind = "type", payload, record = "record_type", runtime, original = "original_tokens",
        kept = "kept_tokens", saved = "saved_tokens",
    }
}

/// A session while it is being read.
#[derive(Debug, Default)]
struct Session {
    conversation: Conversation,
    /// What is added to UTC in the times; microseconds.
    offset: Option<i64>,
    /// The number of the event that names the agent's working directory, and that directory.
    project: Option<(usize, String)>,
    branch: Option<Box<str>>,
    end: Option<Ended>,
    ends: Turns,
    /// How long the calls of the last reply took, by tool, as JSON.
    took: Option<Box<str>>,
    /// Whether no message of the user has followed the last reply.
    is_replied: bool,
    /// How often the program has asked for a call since the last one.
    reminders: u32,
    /// The cost so far in US dollars, and whether a reply has none.
    cost: f64,
    lacks_cost: bool,
    /// The text of the turn's last reply with text and without calls.
    said: Option<Box<str>>,
}

impl Reader for Session {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        let line = Line::of(record.text);
        let role = text(line.role).unwrap_or_default();
        let ts = draft.local_time(line.timestamp, self.offset);
        let mark = EventDraft::new(&role, ts);
        // The times have microseconds.
        if ts.is_some() && draft.is_again(record.text) {
            return draft.again(&mark);
        }
        if draft.run().run_id.is_none() {
            let folder = Some(record.folder()).filter(|folder| !folder.is_empty());
            draft.run().run_id = folder.map(cut);
        }
        let metadata = line.metadata.map(Metadata::of).unwrap_or_default();
        match &*role {
            "assistant" => self.reply(&line, &metadata, mark, draft),
            "user" => self.user(&text(line.content).unwrap_or_default(), mark, draft),
            "system" => self.system(&line, &metadata, mark, draft),
            _ => {
                draft.event(mark);
            }
        }
        if is_true(metadata.limited) {
            let word = "max_steps_stop";
            let end = Ended::new(
                word,
                "Step limit reached",
                Outcome::Truncated,
                Certainty::Recorded,
            );
            self.end = Some(end.at_event(draft.newest()));
        }
    }

    fn clock(&mut self, lines: &str) -> bool {
        let offset = clock::offset(lines);
        std::mem::replace(&mut self.offset, offset) != offset
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        let (ended, answer) = self.settled(draft);
        let at = draft.latest().filter(|_| ended.is_some());
        let step = self.conversation.last().and_then(|n| draft.step(n));
        let is_answered = self.is_replied && step.is_some_and(Part::is_answer);
        let run = draft.run();
        run.tool = Some("gptme".into());
        run.project = self.project.as_ref().map(|(_, project)| cut(project));
        run.branches = self.branch.clone().into_iter().collect();
        // The program exits when the agent finished.
        run.awaits_user = ended
            .as_ref()
            .map_or(is_answered, |end| end.outcome != Outcome::Completed);
        run.updated_at = at;
        run.ended = ended.map(Box::new);
        run.final_result = answer;
        run.turns = Some(self.conversation.turns());
        // By the program's own list of prices.
        run.cost_usd = Some(self.cost).filter(|cost| *cost > 0.0 && !self.lacks_cost);
        run.cost_estimated = run.cost_usd.is_some();
    }
}

impl Session {
    fn reply(
        &mut self,
        line: &Line<'_>,
        metadata: &Metadata<'_>,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        let part = reply_of(line, metadata);
        match part.cost {
            Some(cost) => self.cost += cost,
            None => self.lacks_cost = true,
        }
        let timings = metadata.timings.map(Timings::of).unwrap_or_default();
        let of = |time| number(time).filter(|ms| *ms >= 0.0);
        let took = of(timings.first).zip(of(timings.rest));
        let began = mark.ts.zip(took).and_then(|(ts, (first, rest))| {
            let micros = (first + rest) * 1e3;
            (micros < 1e14).then(|| ts.saturating_sub(micros as i64))
        });
        let run = draft.run();
        run.model = part.model.as_deref().map(cut).or(run.model.take());
        let asked = began.or(draft.latest());
        // Which code blocks of the reply before were calls is known by now.
        let before = self.conversation.last();
        let is_text = |n: &usize| draft.step(*n).is_some_and(|step| step.calls.is_empty());
        let said = before.filter(is_text).and_then(|n| draft.said(n));
        let said = said.filter(|words| !words.ends_with(INTERRUPTED));
        self.said = said.or(self.said.take());
        let is_interrupted = (part.text.last()).is_some_and(|words| words.ends_with(INTERRUPTED));
        if !part.calls.is_empty() {
            self.reminders = 0;
        }
        self.conversation.reply(None, asked, mark, part, draft);
        self.took = tools_in(&timings).map(Into::into);
        (self.end, self.is_replied) = (None, true);
        if is_interrupted {
            let headline = "Interrupted by the user";
            let end = Ended::new("^C", headline, Outcome::Cancelled, Certainty::Recorded);
            self.end = Some(end.at_event(draft.newest()));
        }
    }

    fn user(&mut self, words: &str, mark: EventDraft<'_>, draft: &mut Draft<'_>) {
        if words.trim_start().starts_with(BY_PROGRAM) {
            draft.event(mark.stage("reminder"));
            self.reminders += u32::from(words.contains(REMINDER));
            // An autonomous session continues after an interrupted reply.
            self.end.take_if(|end| end.outcome == Outcome::Cancelled);
        } else {
            self.reminders = 0;
            let (end, answer) = self.settled(draft);
            self.ends
                .begin(self.conversation.steps(), end, answer, None);
            (self.end, self.said) = (None, None);
            self.conversation.prompt(words, &mark, draft);
        }
        self.is_replied = false;
    }

    fn system(
        &mut self,
        line: &Line<'_>,
        metadata: &Metadata<'_>,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        let words = text(line.content).unwrap_or_default();
        if is_true(metadata.is_error) {
            let word = text(metadata.class).unwrap_or_default();
            let detail = words.split_once('\n').map_or(&*words, |(_, detail)| detail);
            let end = End::of(ERRORS, &word).unwrap_or_else(|| End::error(&word));
            let at = draft.event(mark.failed(true));
            self.end = Some(end.detail(cut(detail.trim())).at_event(at));
            return;
        }
        let n = match filled(line.call) {
            Some(id) => self.conversation.take(&id),
            None => self.conversation.last().filter(|_| self.is_replied),
        };
        let step = n.and_then(|n| draft.step(n));
        let project = self.project.as_ref().map(|(_, project)| &**project);
        let took = self.took.as_deref();
        let took = took.filter(|_| n == self.conversation.last());
        let part = result_of(line, &words, step, project, took);
        if part.answers.is_empty() {
            let at = draft.event(mark);
            if is_setup(line) {
                self.about(&words, at);
            }
            return;
        }
        // The step is assembled from its records, so it needs the message to shorten a path.
        let about = self.project.as_ref().map(|(at, _)| *at);
        let about = about.filter(|_| !part.changes.is_empty());
        let is_complete = words.starts_with(COMPLETED)
            && (metadata.tool.is_none() || text(metadata.tool).as_deref() == Some(COMPLETE));
        draft.results(n.as_slice(), mark, part);
        self.reminders = 0;
        if let Some((n, about)) = n.zip(about) {
            draft.refer(n, about);
        }
        if is_complete {
            let end = Ended::new(
                COMPLETE,
                "The agent finished",
                Outcome::Completed,
                Certainty::Recorded,
            );
            self.end = Some(end.at_event(draft.newest()));
        }
    }

    /// Takes the facts about the session from the event `at`, a message for the model.
    fn about(&mut self, words: &str, at: usize) {
        if self.project.is_none() {
            self.project = project_in(words).map(|project| (at, project));
        }
        let branch = words
            .lines()
            .find_map(|line| line.strip_prefix(BRANCH)?.split('`').next());
        let named = branch.filter(|branch| *branch != NO_BRANCH).map(cut);
        self.branch = named.or(self.branch.take());
    }

    /// Returns the end and the answer. A turn without steps keeps those of the previous turn.
    fn settled(&self, draft: &Draft<'_>) -> (Option<Ended>, Option<Box<str>>) {
        let last = self.conversation.last();
        // The program asks its user what to do then.
        let cancelled = || {
            last.filter(|_| self.is_replied)
                .and_then(|n| draft.cancelled(n, Certainty::Recorded))
        };
        // The program exits then.
        let is_silent = |n: &usize| {
            let step = draft.step(*n);
            step.is_some_and(|step| step.calls.is_empty() && reply::next_block(step).is_none())
        };
        let silent = || {
            last.filter(|_| self.is_replied && self.reminders >= MAX_REMINDERS)
                .filter(is_silent)
                .map(without_calls)
        };
        let end = self.end.clone().or_else(cancelled).or_else(silent);
        let is_answer = |end: &Ended| end.outcome == Outcome::Completed;
        // The model often answers first, and calls `complete` in a reply without text.
        let answer = end.as_ref().filter(|end| is_answer(end)).and_then(|_| {
            let own = last.and_then(|n| draft.said(n));
            own.or_else(|| self.said.clone())
        });
        self.ends
            .settle(end, answer, self.conversation.steps(), None)
    }
}

/// Returns the end of a session whose model made no call although the program asked for one. `n` is
/// its last step.
fn without_calls(n: usize) -> Ended {
    let headline = "Stopped without a tool call";
    let sentence = format!("Stopped after step {n}: two reminders to call a tool had no effect");
    let end = Ended::new("", headline, Outcome::Halted, Certainty::Inferred).detail(sentence);
    Ended {
        is_sentence: true,
        ..end
    }
}

/// Returns the working directory that a message for the model names.
fn project_in(words: &str) -> Option<String> {
    let named = words
        .lines()
        .find_map(|line| line.strip_prefix(DIRECTORY))?;
    let project = named.trim();
    let is_path = !project.is_empty() && project.len() <= MAX_PATH_BYTES;
    is_path.then(|| project.to_owned())
}

/// Returns whether a message of the system is one that the user doesn't see: instructions, and facts
/// about the session.
fn is_setup(line: &Line<'_>) -> bool {
    is_true(line.hide) || is_true(line.pinned)
}

/// Returns the line of step `n`.
fn assembled(n: usize, records: &[String]) -> String {
    let project = records
        .iter()
        .map(|record| Line::of(record))
        .filter(is_setup)
        .find_map(|line| project_in(&text(line.content)?));
    let mut metadata = records
        .iter()
        .filter_map(|record| Line::of(record).metadata.map(Metadata::of));
    let took = metadata.find_map(|metadata| tools_in(&metadata.timings.map(Timings::of)?));
    part::line_of(n, records, |record, step| {
        part_of(record, Some(step), project.as_deref(), took)
    })
}

/// Returns how long the calls of a reply took, by tool.
fn tools_in<'a>(timings: &Timings<'a>) -> Option<&'a str> {
    /// Each session that is open keeps the times of its last reply; bytes.
    const MAX: usize = 16 << 10;
    timings.tools.filter(|times| times.len() <= MAX)
}

/// Returns the part of a step that a message contains. `step` is the step so far, with the call of a
/// result, and `took` is how long its calls took, by tool.
fn part_of(record: &str, step: Option<&Part>, project: Option<&str>, took: Option<&str>) -> Part {
    let line = Line::of(record);
    match line.role {
        Some("\"assistant\"") => {
            let metadata = line.metadata.map(Metadata::of).unwrap_or_default();
            reply_of(&line, &metadata)
        }
        Some("\"system\"") => {
            let words = text(line.content).unwrap_or_default();
            result_of(&line, &words, step, project, took)
        }
        _ => Part::default(),
    }
}

/// Returns the part of a reply.
fn reply_of(line: &Line<'_>, metadata: &Metadata<'_>) -> Part {
    // Older versions have the tokens next to the model.
    let flat = line.metadata.filter(|_| metadata.input.is_some());
    let usage = metadata.usage.or(flat).map(Usage::of);
    Part {
        model: filled(metadata.model),
        tokens: usage.map(|usage| tokens(&usage)),
        cost: number(metadata.cost),
        ..reply::read(&text(line.content).unwrap_or_default())
    }
}

/// Returns the part of a result, or an empty one for another message of the system. A result without
/// the id of a call belongs to the next call in a code block of the reply: which blocks were calls
/// shows only in their results.
fn result_of(
    line: &Line<'_>,
    words: &str,
    step: Option<&Part>,
    project: Option<&str>,
    took: Option<&str>,
) -> Part {
    let mut part = Part::default();
    let call = match (filled(line.call), step) {
        (Some(id), Some(step)) => step.calls.iter().find(|call| call.id == id).cloned(),
        (Some(_), None) => None,
        // Reminders by the program are in tags, and lessons under a heading.
        (None, Some(step)) if !is_setup(line) && !words.starts_with(['<', '#']) => {
            let Some(call) = reply::next_block(step) else {
                return part;
            };
            part.calls.push(call.clone());
            Some(call)
        }
        (None, _) => return part,
    };
    let mut answer = answer_of(call.as_ref(), line, words);
    // The time of a tool is that of all its calls.
    let others = step.into_iter().flat_map(|step| &step.calls);
    let is_only = |call: &&CallDraft| {
        let same = others.filter(|other| other.name == call.name && other.id != call.id);
        same.count() == 0
    };
    answer.ms = call
        .as_ref()
        .filter(|_| line.call.is_some())
        .filter(is_only)
        .and_then(|call| number(member(took?, &call.name)))
        .filter(|ms| *ms >= 0.0);
    if answer.status == Some("success")
        && let Some((key, content)) = call.as_ref().and_then(|call| change(call, project))
    {
        part.changes.push((key, None, content));
    }
    part.answers.push(answer);
    part
}

fn answer_of(call: Option<&CallDraft>, line: &Line<'_>, words: &str) -> Answer {
    // Most results have no such paragraph, and the search from the end is slow.
    let restarted = Some(words).filter(|words| words.contains(RESTARTED));
    let told = restarted.and_then(|words| words.rsplit_once(RESTARTED));
    let told = told.map_or(words, |(told, _)| told);
    let last = told.trim_end().lines().next_back().unwrap_or_default();
    let exit: Option<i64> = last.strip_prefix(EXIT).and_then(|code| code.parse().ok());
    let fails = |start: &&str| {
        let begins = words.get(..start.len());
        begins.is_some_and(|begins| begins.eq_ignore_ascii_case(start))
    };
    let begins = |starts: &[&str]| starts.iter().any(|begin| words.starts_with(begin));
    let status = if begins(&CANCELLED) || words.ends_with("was not executed (interrupted).") {
        "cancelled"
    } else if exit.is_some_and(|code| code != 0)
        || FAILED.iter().any(fails)
        || words.ends_with("is not available for execution.")
        || words.starts_with(CELL) && words.contains(RAISED)
    {
        "error"
    } else {
        "success"
    };
    let is_bad = status != "success";
    let id = filled(line.call).or_else(|| call.map(|call| call.id.clone()));
    Answer {
        call: id.unwrap_or_default(),
        status: Some(status),
        exit,
        ms: None,
        output: if is_bad {
            "null".to_owned()
        } else {
            quoted(words)
        },
        error: is_bad.then(|| match words {
            "" => NO_WORDS.to_owned(),
            words => words.to_owned(),
        }),
    }
}

/// Returns the file that a successful call changed, and its content if the call contains it.
fn change(call: &CallDraft, project: Option<&str>) -> Option<(String, Option<String>)> {
    let path = filled(member(&call.args, "path"))?;
    let key = format!("files.{}", below(&path, project));
    match &*call.name {
        "save" => Some((key, member(&call.args, "content").map(str::to_owned))),
        "patch" | "append" | "morph" | "patch_anchored" | "hashline_edit" => Some((key, None)),
        _ => None,
    }
}

/// Converts the tokens of a request. gptme counts cached input separately from other input.
fn tokens(usage: &Usage<'_>) -> Tokens {
    Tokens {
        input: count(usage.input),
        cached: count(usage.cached),
        output: count(usage.output),
        reasoning: count(usage.reasoning),
        written: count(usage.written),
        ..Tokens::default()
    }
    .with_cache_as_input()
}
