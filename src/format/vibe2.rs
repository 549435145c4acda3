//! Reads sessions of Mistral Vibe 2: one JSON object per line, in
//! `logs/session/session_TIME_ID/messages.jsonl`.
//!
//! A line is a message, without its time and its tokens, and without a word about the end. A result
//! has the name of its call, and a failed or cancelled one is in tags. `meta.json` next to it has the
//! rest: the model, the directory, the title, the times of the first and the last save, and the tokens
//! of the session. A reply is saved once its calls have run, so a killed one leaves no line. This reader
//! is based on version 2.26, which writes these files only with its option `--legacy-harness`.

use super::conversation::Conversation;
use super::part::{self, quoted, text};
use super::turns::Turns;
use super::value::{
    above_zero, count, cut, filled, function_call, is_text, is_true, listed, member, micros,
    number, objects, short,
};
use super::vibe::{About, todos};
use super::watch::begun;
use super::{Answer, CallDraft, Draft, EventDraft, Part, Reader, Shape, Source, Tool, USER_SHELL};
use crate::model::json::walk;
use crate::model::step::{NO_WORDS, Usage};
use crate::model::{Can, Capabilities, Certainty, Compaction, Ended, Format};

/// A session.
pub(super) static SESSION: Tool = Tool {
    format: Format {
        name: "Mistral Vibe 2 session",
        can: Capabilities {
            state: Can::Partly,
            tokens: Can::Partly,
            cost: Can::Partly,
            ..Capabilities::NONE
        },
        file: "session file",
        no_end_reason: "Vibe 2 doesn't record how a session ended",
        is_session: true,
        resume: "vibe --resume",
        assemble: Some(assembled),
        ..Format::UNKNOWN
    },
    shape: Shape::Lines,
    is: |name, head| {
        let is_message = |text: &str| {
            let line = Line::of(text);
            is_text(line.role) && (is_text(line.id) || is_cut(text))
        };
        name == FILE && objects(head).next().is_some_and(is_message)
    },
    reader: || Box::new(Session::default()),
};

/// Returns whether a line is the beginning of a message whose content is longer than the part of a
/// file that is examined. The id comes after it.
fn is_cut(line: &str) -> bool {
    let members = begun(line.as_bytes());
    let is_begun = |content: &str| content.starts_with('"') && walk::string(content).is_none();
    matches!(*members, [("\"role\"", _), ("\"content\"", content)] if is_begun(content))
}

/// The name of a session's file.
const FILE: &str = "messages.jsonl";

/// The tags around the content of a failed or cancelled result.
const FAILED: [&str; 2] = ["<tool_error>", "</tool_error>"];
const CANCELLED: [&str; 2] = ["<user_cancellation>", "</user_cancellation>"];
/// How the content of a failed command names its exit code.
const EXIT: &str = "Return code: ";

fields! {
    struct Line {
        role, content, id = "message_id", injected, reasoning = "reasoning_content", calls = "tool_calls",
        call = "tool_call_id", result = "tool_result", shell = "manual_shell", boundary = "context_boundary",
    }
    struct Call { id, function }
    struct Outcome { output, duration, cancelled }
    struct Meta {
        started = "start_time", saved = "end_time", branch = "git_branch", config, stats,
    }
    struct Stats {
        input = "session_prompt_tokens", output = "session_completion_tokens", cached = "session_cached_tokens",
        cost = "session_cost",
    }
}

/// A session while it is being read.
#[derive(Debug, Default)]
struct Session {
    conversation: Conversation,
    ends: Turns,
    /// Whether the last message is a reply.
    is_replied: bool,
    about: About,
    saved: Saved,
}

/// The facts in the second document that only this version has there.
#[derive(Debug, Default)]
struct Saved {
    branch: Option<Box<str>>,
    started: Option<i64>,
    saved: Option<i64>,
    usage: Usage,
    cost: Option<f64>,
}

impl Reader for Session {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        let line = Line::of(record.text);
        let role = text(line.role).unwrap_or_default();
        let mark = EventDraft::new(&role, None);
        // Each message but a result has an id, and a result has that of its call.
        if is_text(line.id.or(line.call)) && draft.is_again(record.text) {
            return draft.again(&mark);
        }
        match &*role {
            "assistant" => {
                let part = part_of(record.text, None);
                self.conversation.reply(None, None, mark, part, draft);
                self.is_replied = true;
            }
            "tool" => {
                let id = text(line.call).unwrap_or_default();
                let n = self.conversation.take(&id);
                let part = part_of(record.text, n.and_then(|n| draft.step(n)));
                draft.results(n.as_slice(), mark, part);
                self.is_replied = false;
            }
            "user" if line.shell.is_some() => {
                draft.event(mark.stage(USER_SHELL));
            }
            "user" if is_true(line.injected) || line.boundary.is_some() => {
                let event = draft.event(mark.stage("note"));
                if is_text(line.boundary) {
                    draft.compacted(Compaction {
                        event,
                        tokens: None,
                        tokens_after: None,
                        trigger: Box::default(),
                    });
                }
            }
            "user" => {
                let (end, answer) = self.settled(draft);
                self.ends
                    .begin(self.conversation.steps(), end, answer, None);
                let words = text(line.content).unwrap_or_default();
                self.conversation.prompt(&words, &mark, draft);
                self.is_replied = false;
            }
            _ => {
                draft.event(mark);
            }
        }
    }

    fn beside(&mut self, document: &str) {
        let meta = Meta::of(document);
        let stats = meta.stats.map(Stats::of).unwrap_or_default();
        self.about = About::of(document);
        let active = || short(member(meta.config?, "active_model"));
        self.about.model = self.about.model.take().or_else(active);
        self.saved = Saved {
            branch: filled(meta.branch).map(|branch| cut(&branch)),
            started: micros(meta.started),
            saved: micros(meta.saved),
            // The input includes the cache.
            usage: Usage {
                input: count(stats.input),
                cached: count(stats.cached),
                output: count(stats.output),
                ..Usage::default()
            },
            cost: above_zero(stats.cost),
        };
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        let (ended, answer) = self.settled(draft);
        let (about, saved) = (&self.about, &self.saved);
        let run = draft.run();
        run.tool = Some("Mistral Vibe 2".into());
        run.run_id = about.id.clone();
        run.parent = about.parent.clone();
        (run.project, run.model) = (about.project.clone(), about.model.clone());
        run.branches = saved.branch.clone().into_iter().collect();
        run.titles = about.title.clone().into_iter().collect();
        (run.started_at, run.updated_at) = (saved.started, saved.saved);
        run.awaits_user = run.parent.is_none() && ended.is_some();
        run.ended = ended.map(Box::new);
        run.final_result = answer;
        run.turns = Some(self.conversation.turns());
        run.children = Some(about.children.len() as u64);
        run.child_ids = about.children.listed();
        run.usage = saved.usage;
        let (input, output) = (saved.usage.input, saved.usage.output);
        run.tokens = input
            .zip(output)
            .map(|(input, output)| input.saturating_add(output));
        // By the program's own prices.
        run.cost_usd = saved.cost;
        run.cost_estimated = run.cost_usd.is_some();
    }
}

impl Session {
    /// Returns the end and the answer. A turn without steps keeps those of the previous turn.
    fn settled(&self, draft: &Draft<'_>) -> (Option<Ended>, Option<Box<str>>) {
        let last = self.conversation.last();
        let step = last.filter(|_| self.is_replied).and_then(|n| draft.step(n));
        let end = step
            .filter(|step| step.is_answer())
            .map(|_| Ended::answered(Ended::NO_CALLS));
        // The program makes no further request if all calls of a reply were cancelled.
        let cancelled = || last.and_then(|n| draft.cancelled(n, Certainty::Recorded));
        self.ends.settle_said(end.or_else(cancelled), last, draft)
    }
}

/// Returns the line of step `n`.
fn assembled(n: usize, records: &[String]) -> String {
    part::line_of(n, records, |record, step| part_of(record, Some(step)))
}

/// Returns the part of a step that a message contains. `step` is the step so far, with the call of a
/// result.
fn part_of(record: &str, step: Option<&Part>) -> Part {
    let line = Line::of(record);
    let mut part = Part::default();
    match line.role {
        Some("\"assistant\"") => {
            part.text.extend(filled(line.content));
            part.thought.extend(filled(line.reasoning));
            for call in listed(line.calls).map(Call::of) {
                part.calls.push(function_call(call.id, call.function));
            }
        }
        Some("\"tool\"") => {
            let answer = answer_of(&line);
            let calls = step.into_iter().flat_map(|step| &step.calls);
            let call = calls
                .filter(|_| answer.status == Some("success"))
                .find(|call| call.id == answer.call);
            part.changes.extend(call.and_then(change));
            part.answers.push(answer);
        }
        _ => {}
    }
    part
}

fn answer_of(line: &Line<'_>) -> Answer {
    let words = text(line.content).unwrap_or_default();
    let outcome = line.result.map(Outcome::of).unwrap_or_default();
    let within = |[open, close]: [&str; 2]| {
        let inside = words.trim().strip_prefix(open)?;
        Some(inside.strip_suffix(close).unwrap_or(inside).to_owned())
    };
    let (status, error) = if let Some(error) = within(FAILED) {
        ("error", Some(error))
    } else if let Some(error) = within(CANCELLED) {
        ("cancelled", Some(error))
    } else if is_true(outcome.cancelled) {
        ("cancelled", Some(words.clone()))
    } else {
        ("success", None)
    };
    let named = |line: &str| line.strip_prefix(EXIT)?.trim().parse().ok();
    let exit = error
        .as_ref()
        .and_then(|words| words.lines().find_map(named));
    Answer {
        call: text(line.call).unwrap_or_default(),
        status: Some(status),
        exit,
        ms: number(outcome.duration).map(|seconds| seconds * 1e3),
        output: match (&error, outcome.output) {
            (Some(_), _) => "null".to_owned(),
            (None, Some(output)) if output.starts_with('{') => output.to_owned(),
            (None, _) => quoted(&words),
        },
        error: error.map(|words| match &*words {
            "" => NO_WORDS.to_owned(),
            _ => words,
        }),
    }
}

/// Returns the file or the list of tasks that a successful call changed, and its content if the call
/// contains it.
fn change(call: &CallDraft) -> Option<(String, Option<String>, Option<String>)> {
    if call.name == "todo" {
        return todos(call);
    }
    let path =
        filled(member(&call.args, "file_path")).or_else(|| filled(member(&call.args, "path")))?;
    let key = format!("files.{path}");
    match &*call.name {
        "write_file" => Some((key, None, member(&call.args, "content").map(str::to_owned))),
        "edit" | "search_replace" => Some((key, None, None)),
        _ => None,
    }
}
