//! Reads a message of Pi, and keeps the conversation that the messages form.

use super::line::{Line, project_of};
use crate::format::conversation::Conversation;
use crate::format::ends::{End, ends};
use crate::format::part::{self, MAX_PIECES, is_refusal, quoted, text};
use crate::format::turns::Turns;
use crate::format::value::{
    above_zero, aside, below, count, cut, filled, hunks, is_true, member, number, provider_error,
    short, spoken,
};
use crate::format::{Answer, CallDraft, Draft, EventDraft, Part, Tokens};
use crate::model::json::walk;
use crate::model::step::NO_WORDS;
use crate::model::{Certainty, Ended, Outcome};

/// Why a reply ended, if it wasn't for a tool call.
const ENDS: &[End] = ends! {
    "length" => Truncated, Ended::CUT_REPLY;
    "error" => Failed, "API error";
    "aborted" => Cancelled, "Interrupted";
};

/// How the text of a shell command's result names the exit code.
const EXIT: &str = "Command exited with code ";

fields! {
    pub(super) struct Message {
        role, content, model, usage, stop = "stopReason", raw = "rawStopReason", error = "errorMessage",
        timestamp, ms = "durationMs", call = "toolCallId", failed = "isError", details, nested = "nestedCalls",
    }
    struct Inner { name, args, arguments, status, error }
    struct Block { kind = "type", text, thinking, id, name, arguments }
    struct Usage {
        input, output, cached = "cacheRead", written = "cacheWrite", hour = "cacheWrite1h", reasoning, cost,
    }
    struct Cost { total, by_provider = "totalFromProvider" }
}

/// The conversation of a session or a stream.
#[derive(Debug, Default)]
pub(super) struct Dialog {
    conversation: Conversation,
    /// The number of the header's event, and the agent's working directory.
    pub(super) project: Option<(usize, String)>,
    /// The end of the turn by its last message.
    pub(super) end: Option<Ended>,
    ends: Turns,
    /// The cost so far in US dollars, whether the provider recorded all of it, and whether a request
    /// has no price.
    cost: f64,
    is_by_provider: Option<bool>,
    lacks_cost: bool,
    /// The tokens of requests that aren't replies: for summaries, for keeping a cache, and by tools.
    aside: u64,
}

impl Dialog {
    /// Takes the facts about the run from its header, the event `at`.
    pub(super) fn begin(&mut self, at: usize, line: &Line<'_>, draft: &mut Draft<'_>) {
        self.project = text(line.cwd).map(|project| (at, project));
        let run = draft.run();
        run.run_id = short(line.id);
        run.project = short(line.cwd);
        run.tool = Some("Pi".into());
    }

    /// Handles a message. `asked` is when the model was asked for it. Returns the new step.
    pub(super) fn message(
        &mut self,
        message: &Message<'_>,
        asked: Option<i64>,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) -> Option<usize> {
        match text(message.role).as_deref() {
            Some("assistant") => return self.reply(message, asked, mark, draft),
            Some("toolResult") => self.result(message, mark, draft),
            Some("user") => {
                let (end, answer) = self.settled(draft);
                self.ends
                    .begin(self.conversation.steps(), end, answer, None);
                self.end = None;
                self.conversation
                    .prompt(&spoken(message.content), &mark, draft);
            }
            _ => {
                draft.event(mark);
            }
        }
        None
    }

    fn reply(
        &mut self,
        message: &Message<'_>,
        asked: Option<i64>,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) -> Option<usize> {
        let part = part_of(message, None, None);
        self.end = end_of(message);
        let is_cut_short = matches!(message.stop, Some("\"error\"" | "\"aborted\""));
        let has_tokens = part.tokens.and_then(Tokens::sum) > Some(0);
        let is_empty = message
            .content
            .into_iter()
            .flat_map(walk::items)
            .next()
            .is_none();
        // No reply came.
        if is_cut_short && is_empty && !has_tokens {
            let failed = message.stop == Some("\"error\"");
            let stage = if failed { "API error" } else { "interrupted" };
            let at = draft.event(mark.stage(stage).failed(failed));
            self.end = self.end.take().map(|end| end.at_event(at));
            return None;
        }
        self.spent(&message.usage.map(Usage::of).unwrap_or_default());
        self.lacks_cost |= part.tokens.is_none();
        let run = draft.run();
        run.model = part.model.as_deref().map(cut).or(run.model.take());
        let asked = asked.or(draft.latest());
        let n = self.conversation.reply(None, asked, mark, part, draft);
        let at = draft.newest();
        self.end = self.end.take().map(|end| end.at_event(at));
        Some(n)
    }

    fn result(&mut self, message: &Message<'_>, mark: EventDraft<'_>, draft: &mut Draft<'_>) {
        self.end = None;
        // A tool may make requests of its own.
        self.spent_aside(message.usage);
        let id = text(message.call).unwrap_or_default();
        let n = self.conversation.take(&id);
        let step = n.and_then(|n| draft.step(n));
        let project = self.project.as_ref();
        let part = part_of(message, step, project.map(|(_, project)| &**project));
        // The step is assembled from its records, so it needs the header to shorten a path.
        let header = project
            .map(|(at, _)| *at)
            .filter(|_| !part.changes.is_empty());
        draft.results(n.as_slice(), mark, part);
        if let Some((n, header)) = n.zip(header) {
            draft.refer(n, header);
        }
    }

    /// Handles the news that the failed request is being retried.
    pub(super) fn retry(&mut self) {
        self.end.take_if(|end| end.outcome == Outcome::Failed);
    }

    /// Counts a request that isn't a reply.
    pub(super) fn spent_aside(&mut self, usage: Option<&str>) {
        let Some(usage) = usage.map(Usage::of) else {
            return;
        };
        let sum = tokens(&usage).sum().unwrap_or_default();
        self.aside = self.aside.saturating_add(sum);
        self.spent(&usage);
    }

    /// Adds the cost of a request.
    fn spent(&mut self, usage: &Usage<'_>) {
        if let Some((usd, is_by_provider)) = cost(usage) {
            self.cost += usd;
            self.is_by_provider = Some(self.is_by_provider != Some(false) && is_by_provider);
        } else {
            self.lacks_cost |= tokens(usage).sum() != Some(0);
        }
    }

    /// Returns the end and the answer. A turn without steps keeps those of the previous turn.
    fn settled(&self, draft: &Draft<'_>) -> (Option<Ended>, Option<Box<str>>) {
        let last = self.conversation.last();
        self.ends.settle_said(self.end.clone(), last, draft)
    }

    /// Records the facts that depend on all messages.
    pub(super) fn look(&self, draft: &mut Draft<'_>) {
        let (ended, answer) = self.settled(draft);
        let at = draft.latest().filter(|_| ended.is_some());
        let run = draft.run();
        run.ended = ended.map(Box::new);
        run.updated_at = at;
        run.final_result = answer;
        run.turns = Some(self.conversation.turns());
        run.notes = aside("requests", self.aside).into_iter().collect();
        run.cost_usd = Some(self.cost).filter(|cost| *cost > 0.0 && !self.lacks_cost);
        run.cost_estimated = self.is_by_provider != Some(true);
    }
}

/// Returns the end that a reply records, or `None` if the run continues with its calls.
fn end_of(message: &Message<'_>) -> Option<Ended> {
    let stop = text(message.stop)?;
    let detail = filled(message.error)
        .map(|words| cut(&provider_error(&words)))
        .unwrap_or_default();
    if filled(message.raw).is_some_and(|raw| is_refusal(&raw)) {
        let end = Ended::new(&stop, Ended::REFUSED, Outcome::Failed, Certainty::Recorded);
        return Some(end.detail(detail));
    }
    match &*stop {
        // The provider hands out a deferred reply later.
        "toolUse" | "pending" | "deferred" => None,
        "stop" if spoken(message.content).trim().is_empty() => Some(Ended::unanswered(&stop)),
        "stop" => Some(Ended::answered(&stop)),
        _ => End::of(ENDS, &stop)
            .map(|end| end.detail(detail))
            .or_else(|| {
                let end = Ended::new(&stop, "Turn ended", Outcome::Unknown, Certainty::Inferred);
                Some(end)
            }),
    }
}

/// Returns the line of step `n`.
pub(super) fn assembled(n: usize, records: &[String]) -> String {
    let project = records.iter().find_map(|record| project_of(record));
    part::line_of(n, records, |record, step| {
        let message = member(record, "message")
            .map(Message::of)
            .unwrap_or_default();
        part_of(&message, Some(step), project.as_deref())
    })
}

/// Returns the part of a step that a message contains. `step` is the step so far, with the call of a
/// result.
fn part_of(message: &Message<'_>, step: Option<&Part>, project: Option<&str>) -> Part {
    match text(message.role).as_deref() {
        Some("assistant") => reply_of(message),
        Some("toolResult") => {
            let answer = answer_of(message);
            let call = step
                .into_iter()
                .flat_map(|step| &step.calls)
                .find(|call| call.id == answer.call);
            let mut part = Part::default();
            if let Some(call) = call.filter(|_| answer.status == Some("success")) {
                let patch = message
                    .details
                    .and_then(|details| hunks(&filled(member(details, "patch"))?));
                changes(call, patch, project, &mut part);
            }
            of_script(message, &answer.call, project, &mut part);
            part.answers.push(answer);
            part
        }
        _ => Part::default(),
    }
}

fn reply_of(message: &Message<'_>) -> Part {
    let usage = message.usage.map(Usage::of).unwrap_or_default();
    let stop = text(message.stop);
    let is_broken_off = matches!(stop.as_deref(), Some("error" | "aborted"));
    let mut part = Part {
        model: text(message.model),
        finish: filled(message.raw).or_else(|| stop.clone()),
        tokens: message.usage.and_then(|_| tokens(&usage).reported()),
        cost: cost(&usage).map(|(usd, _)| usd),
        is_incomplete: is_broken_off && !filled(message.raw).is_some_and(|raw| is_refusal(&raw)),
        error: is_broken_off.then(|| filled(message.error).unwrap_or_else(|| NO_WORDS.to_owned())),
        ..Part::default()
    };
    for block in message
        .content
        .into_iter()
        .flat_map(walk::items)
        .map(Block::of)
    {
        match block.kind {
            Some("\"text\"") => part.text.extend(filled(block.text)),
            Some("\"thinking\"") => part.thought.extend(filled(block.thinking)),
            Some("\"toolCall\"") => part.calls.push(CallDraft {
                id: text(block.id).unwrap_or_default(),
                name: text(block.name).unwrap_or_default(),
                args: block.arguments.unwrap_or("{}").to_owned(),
            }),
            _ => {}
        }
    }
    part
}

/// Returns the exit code in the last line of a shell command's result.
fn exit_in(said: &str) -> Option<i64> {
    let last = said.trim_end().lines().next_back()?;
    last.strip_prefix(EXIT)?.parse().ok()
}

fn answer_of(message: &Message<'_>) -> Answer {
    let said = spoken(message.content);
    let last = said.trim_end().lines().next_back().unwrap_or_default();
    let exit = exit_in(&said);
    let status = match message.failed {
        Some("true") if last == "Command aborted" || last == "Operation aborted" => {
            Some("cancelled")
        }
        Some("true") => Some("error"),
        Some("false") => Some("success"),
        _ => None,
    };
    let bad = matches!(status, Some("error" | "cancelled"));
    Answer {
        call: text(message.call).unwrap_or_default(),
        status,
        error: bad.then(|| match &*said {
            "" => NO_WORDS.to_owned(),
            said => said.to_owned(),
        }),
        exit: exit.filter(|_| bad),
        ms: number(message.ms),
        output: if bad {
            "null".to_owned()
        } else if said.is_empty() {
            message.content.unwrap_or("null").to_owned()
        } else {
            quoted(&said)
        },
    }
}

/// Adds what a script of the tool `codemode` did: the calls that failed, as records of the script's
/// own call, and the files that the others changed.
fn of_script(message: &Message<'_>, id: &str, project: Option<&str>, part: &mut Part) {
    let lists = [message.details, message.nested];
    let calls = lists
        .into_iter()
        .flatten()
        .find_map(|list| member(list, "calls"));
    let calls = calls.into_iter().flat_map(walk::items).map(Inner::of);
    for inner in calls.take(MAX_PIECES) {
        let status = match text(inner.status).as_deref() {
            Some("ok") => {
                let args = text(inner.args).or(inner.arguments.map(str::to_owned));
                let call = CallDraft {
                    name: text(inner.name).unwrap_or_default(),
                    args: args.unwrap_or_default(),
                    ..CallDraft::default()
                };
                changes(&call, replaced(&call.args), project, part);
                continue;
            }
            Some("error") => "error",
            Some("aborted" | "cancelled") => "cancelled",
            _ => continue,
        };
        let error = filled(inner.error).unwrap_or_else(|| NO_WORDS.to_owned());
        part.beside.push(Answer {
            call: id.to_owned(),
            status: Some(status),
            exit: exit_in(&error),
            error: Some(error),
            ..Answer::default()
        });
    }
}

/// Returns the replacements of an edit as hunks whose place isn't recorded.
fn replaced(args: &str) -> Option<String> {
    let mut out = String::new();
    for edit in member(args, "edits").into_iter().flat_map(walk::items) {
        let [old, new] = ["oldText", "newText"].map(|key| text(member(edit, key)));
        let (old, new) = (old?, new?);
        let [gone, come] = [&old, &new].map(|words| words.lines().count());
        out.push_str(&format!("@@ -?,{gone} +?,{come} @@\n"));
        for (sign, words) in [('-', old), ('+', new)] {
            for line in words.lines() {
                out.push(sign);
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    (!out.is_empty()).then_some(out)
}

/// Adds the file that a successful call changed. `patch` is the change as hunks, if known.
fn changes(call: &CallDraft, patch: Option<String>, project: Option<&str>, part: &mut Part) {
    let Some(path) = filled(member(&call.args, "path")) else {
        return;
    };
    let key = format!("files.{}", below(&path, project));
    match &*call.name {
        "write" => {
            let content = member(&call.args, "content").map(str::to_owned);
            part.changes.push((key, None, content));
        }
        "edit" => {
            part.diffs
                .extend(patch.map(|patch| (part.changes.len(), patch)));
            part.changes.push((key, None, None));
        }
        _ => {}
    }
}

/// Converts the tokens of a request. Pi counts cached input separately from other input.
fn tokens(usage: &Usage<'_>) -> Tokens {
    Tokens {
        input: count(usage.input),
        cached: count(usage.cached),
        output: count(usage.output),
        reasoning: count(usage.reasoning),
        written: count(usage.written),
        written_1h: count(usage.hour),
    }
    .with_cache_as_input()
}

/// Returns the cost of a request in US dollars, and whether the provider recorded it. Pi writes 0 for
/// models that its price table lacks.
fn cost(usage: &Usage<'_>) -> Option<(f64, bool)> {
    let cost = usage.cost.map(Cost::of)?;
    Some((above_zero(cost.total)?, is_true(cost.by_provider)))
}
