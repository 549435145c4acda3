//! Reads sessions of Cline's command line: one document, `sessions/SESSION/SESSION.messages.json`, that
//! is rewritten as it grows. Sub-agents have separate documents, `agent_*.messages.json`, in the same
//! directory.
//!
//! A second document, `SESSION.json`, has the status, the model and the directory. Sub-agents have
//! none, so their end is inferred. Results have no flag for errors: they are lists of what was asked,
//! each with its own success, or such JSON in a text. This reader is based on version 3.0.

use super::conversation::Conversation;
use super::part::{self, quoted, text};
use super::value::{
    above_zero, count, cut, filled, is_true, listed, member, micros, millis, short, spoken,
    unpacked,
};
use super::watch::has_begun;
use super::{
    Answer, CallDraft, Draft, EventDraft, Part, Reader, Shape, Source, Stranger, Tokens, Tool,
};
use crate::model::json::{Json, walk};
use crate::model::step::NO_WORDS;
use crate::model::{Can, Capabilities, Certainty, Ended, Format, Outcome};

/// A session, or one of its sub-agents.
pub(super) static SESSION: Tool = Tool {
    format: Format {
        name: "Cline session",
        can: Capabilities {
            state: Can::Partly,
            times: Can::Yes,
            tokens: Can::Yes,
            cost: Can::Partly,
            ..Capabilities::NONE
        },
        file: "session file",
        is_session: true,
        assemble: Some(assembled),
        ..Format::UNKNOWN
    },
    shape: Shape::Document(&[&["messages", "*"], &["sessionId"], &["origin"]]),
    is: |name, head| {
        name.ends_with(".json") && has_begun(head, &["version", "agent", "sessionId", "messages"])
    },
    reader: || Box::new(Session::default()),
};

/// Returns the name of the document with the status of a session whose messages are in this file.
pub(super) fn manifest(name: &str) -> Option<String> {
    Some(format!("{}.json", name.strip_suffix(".messages.json")?))
}

/// Cline's index of its sessions, `db/sessions.db`. Goose's store has the same name.
pub(super) const INDEX: Stranger = Stranger {
    columns: &["session_id", "messages_path"],
    reason: "Cline's session index; the sessions are read from their own files",
};

/// The possible causes of the status `cancelled`.
const CAUSES: &str =
    "Cline doesn't distinguish between interruptions, repeated failures and its mistake limit";

/// How the message about a reply at the output limit begins.
const AT_LIMIT: &str = "Model reached the maximum output token limit";

/// How the error of a command that the user's interruption stopped ends.
const ABORTED: &str = "Command was aborted";

/// How the error of a command names its exit code.
const EXIT: &str = "Command exited with code ";

/// The status of an open session between two turns.
const IDLE: &str = "idle";

/// The tools that ask the user a question.
const QUESTIONS: &[&str] = &["ask_question"];

/// The tool that starts a sub-agent.
const SPAWN: &str = "spawn_agent";

/// How the names of the tools begin that direct a team of agents.
const TEAM: &str = "team_";

fields! {
    struct Message { id, role, content, ts, model = "modelInfo", metrics, metadata }
    struct Block { kind = "type", text, thinking, id, name, input, call = "tool_use_id", content }
    struct Metrics {
        input = "inputTokens", output = "outputTokens", cached = "cacheReadTokens",
        written = "cacheWriteTokens", cost,
    }
    struct Item { result, error, success, finish = "finishReason", text, status, dispatched }
    struct Origin { parent = "parentThreadId", agent = "subagent" }
    struct Manifest { status, started = "started_at", ended = "ended_at", model, cwd, metadata }
}

/// A session while it is being read.
#[derive(Debug, Default)]
struct Session {
    conversation: Conversation,
    /// The number of calls that started a sub-agent.
    children: u64,
    /// Whether the last message is a reply.
    is_replied: bool,
    /// The newest error that the program shows.
    error: Option<(usize, String)>,
    about: About,
}

/// The facts in the second document.
#[derive(Debug, Default)]
struct About {
    status: Option<String>,
    started: Option<i64>,
    ended: Option<i64>,
    model: Option<Box<str>>,
    project: Option<Box<str>>,
    title: Option<Box<str>>,
    cost: Option<f64>,
}

impl Reader for Session {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        match record.path {
            0 => self.message(record.text, draft),
            1 => {
                let run = draft.run();
                run.run_id = short(Some(record.text));
            }
            _ => {
                let origin = Origin::of(record.text);
                if record.text.starts_with('{') {
                    draft.event(EventDraft::new("origin", None));
                }
                let run = draft.run();
                (run.parent, run.agent) = (short(origin.parent), short(origin.agent));
            }
        }
    }

    fn beside(&mut self, document: &str) {
        let manifest = Manifest::of(document);
        let of = |key| manifest.metadata.and_then(|metadata| member(metadata, key));
        let cost = of("usage").and_then(|usage| member(usage, "totalCost"));
        self.about = About {
            status: text(manifest.status),
            started: micros(manifest.started),
            ended: micros(manifest.ended),
            model: short(manifest.model),
            project: short(manifest.cwd),
            title: filled(of("title")).map(|title| cut(&title)),
            cost: above_zero(cost),
        };
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        let last = self.conversation.last();
        let ended = self.ended(draft);
        let is_answer = ended
            .as_ref()
            .is_some_and(|end| end.outcome == Outcome::Completed);
        let answer = last.filter(|_| is_answer).and_then(|n| draft.said(n));
        let at = draft.latest().filter(|_| ended.is_some());
        let open = last.filter(|_| ended.is_none());
        let asks = open.and_then(|n| draft.asks(n, QUESTIONS));
        let about = &self.about;
        let run = draft.run();
        run.tool = Some("Cline".into());
        run.started_at = about.started;
        run.updated_at = about.ended.filter(|_| ended.is_some()).or(at);
        run.awaits_user = run.parent.is_none() && (asks.is_some() || ended.is_some());
        run.asks_user = asks;
        run.ended = ended.map(Box::new);
        run.final_result = answer;
        run.model = about.model.clone().or(run.model.take());
        run.project = about.project.clone();
        run.titles = about.title.clone().into_iter().collect();
        run.cost_usd = about.cost;
        run.turns = Some(self.conversation.turns());
        run.children = Some(self.children);
    }
}

impl Session {
    fn message(&mut self, record: &str, draft: &mut Draft<'_>) {
        let message = Message::of(record);
        let role = text(message.role).unwrap_or_default();
        let ts = millis(message.ts);
        let mark = EventDraft::new(&role, ts);
        if message.id.is_some() && draft.is_again(record) {
            return draft.again(&mark);
        }
        let of = |key| message.metadata.and_then(|metadata| member(metadata, key));
        let is_reply = role == "assistant";
        if is_reply && is_true(of("displayOnly")) {
            let is_error = of("displayRole") == Some("\"error\"");
            let at = draft.event(mark.stage("note").failed(is_error));
            if is_error {
                self.error = Some((at, spoken(message.content)));
            }
            return;
        }
        self.is_replied = is_reply;
        if is_reply {
            let asked = draft.latest();
            let part = part_of(record, None);
            self.error = None;
            draft.name_model(&part);
            self.conversation.reply(None, asked, mark, part, draft);
            return;
        }
        if results(message.content).next().is_none() {
            // The program's own requests belong to the user's prompt.
            if of("userRunSpan") == Some("0") || role != "user" {
                draft.event(mark.stage("note"));
                return;
            }
            self.error = None;
            let words = spoken(message.content);
            self.conversation.prompt(asked(&words), &mark, draft);
            return;
        }
        let n = results(message.content)
            .find_map(|result| self.conversation.step_with(&text(result.call)?));
        let step = n.and_then(|n| draft.step(n));
        let part = part_of(record, step);
        let calls = step.into_iter().flat_map(|step| &step.calls);
        let is_child = |answer: &&Answer| answer.status != Some("error");
        let spawned: Vec<&str> = calls
            .filter(|call| call.name == SPAWN)
            .map(|call| &*call.id)
            .collect();
        let begun = part
            .answers
            .iter()
            .filter(is_child)
            .filter(|answer| spawned.contains(&&*answer.call))
            .count();
        self.children += begun as u64;
        draft.results(n.as_slice(), mark, part);
    }

    /// Returns the end by the status. Without one, a last reply without calls is an answer, and a last
    /// step whose calls were all stopped is an interruption.
    fn ended(&self, draft: &Draft<'_>) -> Option<Ended> {
        let of = |word: &str, headline, outcome| {
            Ended::new(word, headline, outcome, Certainty::Recorded)
        };
        let error = self.error.as_ref();
        let status = self.about.status.as_deref().filter(|word| *word != IDLE);
        let end = match status {
            Some("completed") => of("completed", "Answered", Outcome::Completed),
            Some("cancelled") => of("cancelled", "Cancelled", Outcome::Cancelled).note(CAUSES),
            // A sub-agent has no status, and an open session none of its newest turn.
            None if let Some((at, words)) = error => {
                let headline = "Failed with an error";
                let end = Ended::new("error", headline, Outcome::Failed, Certainty::Inferred);
                return Some(end.detail(cut(words)).at_event(*at));
            }
            Some("running") | None => {
                let last = self.conversation.last().filter(|_| status.is_none());
                if let Some(end) = last.and_then(|n| draft.cancelled(n, Certainty::Inferred)) {
                    return Some(end);
                }
                let step = self.conversation.last().and_then(|n| draft.step(n));
                let is_over = status.is_none() && self.is_replied && error.is_none();
                step.filter(|step| step.is_answer() && is_over)?;
                return Some(Ended::new(
                    Ended::NO_CALLS,
                    "Answered",
                    Outcome::Completed,
                    Certainty::Inferred,
                ));
            }
            Some(status) => match error {
                Some((_, words)) if words.starts_with(AT_LIMIT) => {
                    of(status, Ended::CUT_REPLY, Outcome::Truncated)
                }
                _ if status == "failed" => of(status, "Failed with an error", Outcome::Failed),
                _ => of(status, "Ended", Outcome::Unknown),
            },
        };
        Some(match error {
            Some((at, words)) if end.outcome != Outcome::Truncated => {
                end.detail(cut(words)).at_event(*at)
            }
            Some((at, _)) => end.at_event(*at),
            None => end,
        })
    }
}

/// Returns the results in a message's content.
fn results(content: Option<&str>) -> impl Iterator<Item = Block<'_>> {
    listed(content)
        .map(Block::of)
        .filter(|block| block.kind == Some("\"tool_result\""))
}

/// Returns the user's words in a prompt, without the tag that names the mode.
fn asked(words: &str) -> &str {
    let inside = || {
        let (_, rest) = words.strip_prefix("<user_input")?.split_once('>')?;
        rest.trim_end().strip_suffix("</user_input>")
    };
    inside().unwrap_or(words)
}

/// Returns the line of step `n`.
fn assembled(n: usize, records: &[String]) -> String {
    part::line_of(n, records, |record, step| part_of(record, Some(step)))
}

/// Returns the part of a step that a message contains. `step` is the step so far, with the calls of
/// results.
fn part_of(record: &str, step: Option<&Part>) -> Part {
    let message = Message::of(record);
    let mut part = Part::default();
    if message.role == Some("\"assistant\"") {
        let model = message.model.filter(|model| model.starts_with('{'));
        part.model = model.and_then(|model| filled(member(model, "id")));
        let metrics = message.metrics.map(Metrics::of);
        part.tokens = metrics.as_ref().map(tokens);
        part.cost = metrics.and_then(|metrics| above_zero(metrics.cost));
        let Some(blocks) = message.content.filter(|content| content.starts_with('[')) else {
            part.text.extend(filled(message.content));
            return part;
        };
        for block in walk::items(blocks).map(Block::of) {
            match block.kind {
                Some("\"thinking\"") => part.thought.extend(filled(block.thinking)),
                Some("\"text\"") => part.text.extend(filled(block.text)),
                Some("\"tool_use\"") => part.calls.push(CallDraft {
                    id: text(block.id).unwrap_or_default(),
                    name: text(block.name).unwrap_or_default(),
                    args: block.input.unwrap_or("{}").to_owned(),
                }),
                _ => {}
            }
        }
        return part;
    }
    for result in results(message.content) {
        let (answer, words) = answer_of(&result);
        let call = step
            .into_iter()
            .flat_map(|step| &step.calls)
            .find(|call| call.id == answer.call)
            .filter(|_| answer.status == Some("success"));
        if let Some(call) = call.filter(|call| call.name == "editor") {
            let path = filled(member(&call.args, "path"));
            if let Some(path) = path {
                part.diffs
                    .extend(hunk(&words).map(|hunk| (part.changes.len(), hunk)));
                part.changes.push((format!("files.{path}"), None, None));
            }
        }
        part.answers.push(answer);
    }
    part
}

/// Returns a result, and its text.
fn answer_of(result: &Block<'_>) -> (Answer, String) {
    let words = text(result.content);
    let inner = words
        .as_deref()
        .filter(|words| words.starts_with(['{', '[']) && Json::is_json(words));
    let json = inner.or(result.content.filter(|content| !content.starts_with('"')));
    let items: Vec<Item<'_>> = match json {
        Some(list) if list.starts_with('[') => walk::items(list).map(Item::of).collect(),
        Some(object) if object.starts_with('{') => vec![Item::of(object)],
        _ => Vec::new(),
    };
    let errors: Vec<String> = items.iter().filter_map(|item| filled(item.error)).collect();
    let is_bad = |item: &Item<'_>| item.success == Some("false") || filled(item.error).is_some();
    // The tools of a team say what became of a teammate or its task.
    let is_of_team = text(result.name).is_some_and(|name| name.starts_with(TEAM));
    let is_begun = |item: &Item<'_>| {
        is_true(item.dispatched) || text(item.status).as_deref() == Some("spawned")
    };
    let is_good = |item: &Item<'_>| {
        is_true(item.success)
            || text(item.finish).as_deref() == Some("completed")
            || is_of_team && is_begun(item)
    };
    let said: Vec<String> = items
        .iter()
        .filter_map(|item| filled(item.result).or_else(|| filled(item.text)))
        .collect();
    let said = said.join("\n");
    // A plain text doesn't record success.
    let status = if errors.iter().any(|error| error.ends_with(ABORTED)) {
        Some("cancelled")
    } else if items.iter().any(is_bad) {
        Some("error")
    } else if !items.is_empty() && items.iter().all(is_good) {
        Some("success")
    } else {
        None
    };
    // Of several commands, the first that failed.
    let exit = errors
        .iter()
        .find_map(|error| error.strip_prefix(EXIT)?.trim().parse().ok());
    let bad = matches!(status, Some("error" | "cancelled"));
    let output = match (json, &words) {
        _ if bad => "null".to_owned(),
        (Some(_), _) if !said.is_empty() => quoted(&said),
        (Some(json), _) => unpacked(json),
        (None, Some(words)) => quoted(words),
        (None, None) => "null".to_owned(),
    };
    let error = bad.then(|| words_of(&items, is_bad, exit.is_some()));
    let answer = Answer {
        call: text(result.call).unwrap_or_default(),
        status,
        error,
        exit,
        ms: None,
        output,
    };
    (answer, said)
}

/// Returns what the items of a failed call say. Those that failed come first, but last for
/// commands, because the last line of their output explains the failure.
fn words_of(items: &[Item<'_>], is_bad: impl Fn(&Item<'_>) -> bool, are_commands: bool) -> String {
    let said = |item: &Item<'_>| {
        // The output of a command says more than its exit code.
        filled(item.result)
            .or_else(|| filled(item.text))
            .or_else(|| filled(item.error))
    };
    let mut items: Vec<&Item<'_>> = items.iter().collect();
    items.sort_by_key(|item| is_bad(item) == are_commands);
    let words: Vec<String> = items.into_iter().filter_map(said).collect();
    match words.is_empty() {
        true => NO_WORDS.to_owned(),
        false => words.join("\n"),
    }
}

/// Returns the hunk of a unified diff for the numbered lines that the editor's result shows.
fn hunk(words: &str) -> Option<String> {
    let (_, rest) = words.split_once("```diff\n")?;
    let (lines, _) = rest.rsplit_once("```")?;
    let (mut before, mut after, mut hunk) = ((0, 0), (0, 0), String::new());
    for line in lines.lines() {
        let (side, sign) = match line.chars().next()? {
            '-' => (&mut before, '-'),
            '+' => (&mut after, '+'),
            _ => return None,
        };
        let (number, words) = line.get(1..)?.split_once(':')?;
        let number: u64 = number.parse().ok()?;
        if side.1 == 0 {
            side.0 = number;
        } else if side.0 + side.1 != number {
            return None;
        }
        side.1 += 1;
        hunk.push(sign);
        hunk.push_str(words.strip_prefix(' ').unwrap_or(words));
        hunk.push('\n');
    }
    let header = format!(
        "@@ -{},{} +{},{} @@\n",
        before.0, before.1, after.0, after.1
    );
    (!hunk.is_empty()).then(|| header + &hunk)
}

/// Converts the tokens of a request. Cline counts cached input as input.
fn tokens(metrics: &Metrics<'_>) -> Tokens {
    Tokens {
        input: count(metrics.input),
        cached: count(metrics.cached),
        output: count(metrics.output),
        written: count(metrics.written),
        ..Tokens::default()
    }
}
