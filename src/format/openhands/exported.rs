//! Reads conversations exported by OpenHands versions before the SDK: one JSON document with the
//! list of events, or an object with that list under `trajectory`, as its server returns it.
//!
//! An event is an action with its arguments, or an observation whose `cause` is the number of its
//! action. Calls of one reply share `model_response.id`. A message of the agent is a reply without
//! calls. Exports usually omit the agent's states, so only its last action shows how the
//! conversation ended.

use super::super::conversation::Conversation;
use super::super::ends::{End, ends};
use super::super::part::{self, quoted, text};
use super::super::recent::Recent;
use super::super::value::{
    above_zero, count, cut, filled, int, is_text, is_true, leading, member, spoken, total_in,
    unpacked,
};
use super::super::watch::begun;
use super::super::{
    Answer, CallDraft, Draft, EventDraft, Part, Reader, Shape, Source, Tokens, Tool,
};
use super::{arguments, finished};
use crate::model::json::walk;
use crate::model::step::{NO_WORDS, Usage};
use crate::model::{
    Can, Capabilities, Certainty, Ended, EventKind, EventNote, Format, IssueKind, Outcome,
};

/// An exported conversation.
pub(in crate::format) static TRAJECTORY: Tool = Tool {
    format: Format {
        name: "OpenHands trajectory",
        file: "trajectory",
        can: Capabilities {
            state: Can::Partly,
            times: Can::Yes,
            tokens: Can::Partly,
            cost: Can::Partly,
            ..Capabilities::NONE
        },
        assemble: Some(|n, records| part::line(n, records.iter().map(|record| part_of(record)))),
        is_of_coding_agent: true,
        ..Format::UNKNOWN
    },
    shape: Shape::Document(&[&["*"], &["trajectory", "*"]]),
    is: |name, head| name.ends_with(".json") && is_trajectory(head),
    reader: || Box::new(Trajectory::default()),
};

fields! {
    struct Event {
        id, timestamp, source, message, cause, action, observation, args, content, extras,
        metadata = "tool_call_metadata", metrics = "llm_metrics",
    }
    struct Metadata { name = "function_name", call = "tool_call_id", response = "model_response" }
    struct Response { id, model, choices, usage }
    struct Choice { message, finish_reason }
    struct Message { content, calls = "tool_calls", reasoning = "reasoning_content" }
    struct Call { id, function }
    struct Function { arguments }
    struct Spent { prompt_tokens, completion_tokens, read = "prompt_tokens_details", wrote = "completion_tokens_details" }
    struct Details { cached_tokens, reasoning_tokens }
    struct Args { content, thought, final_thought, waits = "wait_for_response" }
    struct Extras {
        state = "agent_state", reason, metadata, exit_code, path, old = "old_content", new = "new_content",
        tasks = "task_list",
    }
    struct Metrics { cost = "accumulated_cost", tokens = "accumulated_token_usage" }
    struct Total { prompt_tokens, completion_tokens, cache_read_tokens, cache_write_tokens }
}

/// Returns whether a file is such an export, by the first event of the list.
fn is_trajectory(head: &[u8]) -> bool {
    let list = begun(head)
        .into_iter()
        .find(|(key, _)| *key == "\"trajectory\"")
        .map(|(_, list)| list.as_bytes());
    let Some(first) = list.unwrap_or(head).trim_ascii_start().strip_prefix(b"[") else {
        return false;
    };
    let members = begun(first);
    let of = |key: &str| {
        members
            .iter()
            .find(|(name, _)| name.trim_matches('"') == key)
            .map(|(_, value)| *value)
    };
    let is_known = matches!(
        of("source"),
        Some("\"user\"" | "\"agent\"" | "\"environment\"")
    );
    // One of them may be missing.
    let is_event = is_text(of("timestamp")) || int(of("id")).is_some();
    is_known && is_event && (is_text(of("action")) || is_text(of("observation")))
}

/// Actions of the agent that aren't decisions of its model.
const BESIDE: [&str; 9] = [
    "system",
    "recall",
    "change_agent_state",
    "condensation",
    "condensation_request",
    "null",
    "pause",
    "resume",
    "stop",
];

/// The state of an agent that waits for the user's approval.
const ASKS: &str = "awaiting_user_confirmation";

/// The states of an agent that doesn't continue, except for an error.
const ENDS: &[End] = ends! {
    "finished" => Completed, "The agent finished";
    "rejected" => Failed, "The agent gave up";
    // The user or a program closed the conversation.
    "stopped" => Cancelled, "Stopped from outside";
    "rate_limited" => Failed, "Provider rate limit reached";
    "paused" => Cancelled, "Paused by the user";
    "awaiting_user_confirmation" => Unknown, "Waiting for user confirmation";
};

/// What reached its maximum in a reason for the state `error`, with headlines and units.
const LIMITS: [(&str, &str, &str); 2] = [
    ("iteration", "Step limit reached", "iterations"),
    ("budget", "Cost limit reached", "usd"),
];

/// Other reasons for the state `error`.
const ERRORS: &[End] = ends! {
    "*AgentStuckInLoopError*" => Halted, Ended::LOOPED;
    "*ContextWindow*" => Failed, Ended::CONTEXT_FULL;
    "*" => Failed, "Failed with an error";
};

/// A trajectory while it is being read.
#[derive(Debug, Default)]
pub(super) struct Trajectory {
    by_response: Recent<String, usize>,
    /// The conversation. A result names its call, or the event with its call.
    conversation: Conversation,
    /// The number of the previous event.
    before: Option<u64>,
    /// Whether a prompt came after the last reply.
    due: bool,
    /// Whether the last reply asks the user.
    waits: bool,
    /// When the agent began to wait for the user's approval.
    asked: Option<i64>,
    /// The answer that the agent submitted with its last action.
    answer: Option<Box<str>>,
    /// The agent's state, as recorded by an event.
    end: Option<Ended>,
}

impl Reader for Trajectory {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        // The oldest exports pair an action with its observation.
        let first = walk::items(record.text)
            .next()
            .filter(|_| record.text.starts_with('['));
        let event = Event::of(first.unwrap_or(record.text));
        let kind = text(event.action)
            .or_else(|| text(event.observation))
            .unwrap_or_default();
        let mark = EventDraft::new(&kind, draft.time(event.timestamp));
        if event.id.is_some() && draft.is_again(record.text) {
            return draft.again(&mark);
        }
        let id = count(event.id);
        let is_misplaced = id.zip(self.before).is_some_and(|(id, before)| id < before);
        self.before = id.or(self.before);
        let source = text(event.source).unwrap_or_default();
        match (event.action.is_some(), &*source, &*kind) {
            (true, "user", "message") => {
                let words = event.args.map(Args::of).and_then(|args| args.content);
                self.conversation.prompt(&spoken(words), &mark, draft);
                (self.due, self.waits, self.end, self.answer) = (true, false, None, None);
            }
            (true, "agent", kind) if !BESIDE.contains(&kind) => {
                self.reply(&event, record.text, mark, draft)
            }
            (false, _, "agent_state_changed") => {
                let extras = event.extras.map(Extras::of).unwrap_or_default();
                let state = text(extras.state).unwrap_or_default();
                let note = match &*state {
                    ASKS => {
                        self.asked = self.asked.or(mark.ts);
                        None
                    }
                    _ => self.asked.take().zip(mark.ts),
                };
                let at = draft.event(EventDraft {
                    note: note.map(|(from, to)| EventNote::Approval(from, to)),
                    ..mark.stage(&state).failed(state == "error")
                });
                // Closing a finished conversation stops it once more.
                let is_over = self
                    .end
                    .as_ref()
                    .is_some_and(|end| end.outcome == Outcome::Completed);
                let end = standing(&state, &filled(extras.reason).unwrap_or_default());
                if let Some(end) = end.filter(|_| !(is_over && state == "stopped")) {
                    self.end = Some(end.at_event(at));
                }
            }
            (false, ..) if event.cause.is_some() || event.metadata.is_some() => {
                self.result(&event, record.text, mark, draft);
            }
            _ => {
                draft.event(mark.stage(&source).failed(kind == "error"));
            }
        }
        // The metrics include the reply in the same event.
        event
            .metrics
            .into_iter()
            .for_each(|metrics| total(metrics, draft));
        if is_misplaced {
            draft.issue(
                IssueKind::Join,
                "the event's number is lower than the previous event's",
            );
        }
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        let replied = self
            .conversation
            .last()
            .filter(|n| draft.step(*n).is_some_and(|part| part.calls.is_empty()));
        let ended = self.end.clone().or_else(|| match (&self.answer, replied) {
            (Some(_), _) => Some(finished("finish", Certainty::Inferred)),
            (None, Some(_)) if !self.due => Some(Ended::answered(Ended::NO_CALLS)),
            _ => None,
        });
        let finish = self
            .answer
            .is_some()
            .then(|| ("the last action", finished("finish", Certainty::Recorded)));
        // Closing a conversation stops it.
        let state = self
            .end
            .clone()
            .filter(|end| end.outcome != Outcome::Cancelled);
        let state = state.map(|end| ("the agent's state", end));
        let both = finish
            .zip(state)
            .and_then(|(finish, state)| Ended::agreed(vec![finish, state]));
        let (ended, conflict) = match both {
            Some((disputed, Some(conflict))) => (Some(disputed), Some(conflict)),
            _ => (ended, None),
        };
        let is_answer = ended
            .as_ref()
            .is_some_and(|end| end.outcome == Outcome::Completed);
        let answer = self
            .answer
            .clone()
            .or_else(|| draft.said(replied?))
            .filter(|_| is_answer);
        let at = draft.latest();
        let run = draft.run();
        run.tool = Some("OpenHands".into());
        // An export is written when the conversation is over.
        run.is_closed = true;
        run.awaits_user = self.waits && self.end.is_none();
        run.updated_at = at.filter(|_| ended.is_some());
        run.ended = ended.map(Box::new);
        run.conflicts = conflict.into_iter().collect();
        run.final_result = answer;
        run.turns = Some(self.conversation.turns());
    }
}

impl Trajectory {
    /// Handles a call by the model, or a reply without calls.
    fn reply(
        &mut self,
        event: &Event<'_>,
        record: &str,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        let response = event
            .metadata
            .map(Metadata::of)
            .and_then(|metadata| metadata.response)
            .map(Response::of);
        let id = response.and_then(|response| filled(response.id));
        let known = id.as_ref().and_then(|id| self.by_response.get(id)).copied();
        let part = part_of(record);
        draft.name_model(&part);
        let n = self
            .conversation
            .reply(known, draft.latest(), mark, part, draft);
        if known.is_none() {
            self.by_response.extend(id.map(|id| (id, n)));
        }
        if let Some(id) = event.id {
            self.conversation.name_call(id, n);
        }
        let args = event.args.map(Args::of).unwrap_or_default();
        let handed = || {
            [args.final_thought, args.thought, event.message]
                .into_iter()
                .find_map(filled)
        };
        self.answer =
            (event.action == Some("\"finish\"")).then(|| cut(&handed().unwrap_or_default()));
        (self.due, self.waits, self.end) = (false, is_true(args.waits), None);
    }

    /// Handles the result of an action.
    fn result(
        &mut self,
        event: &Event<'_>,
        record: &str,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        let call = event
            .metadata
            .map(Metadata::of)
            .and_then(|metadata| text(metadata.call));
        let step = call
            .as_deref()
            .or(event.cause)
            .and_then(|id| self.conversation.step_with(id));
        let step = step.or_else(|| self.conversation.step_with(event.cause?));
        let part = part_of(record);
        let mark = mark.stage("result").failed(part.has_failed());
        let Some(n) = step else {
            // Actions of the user or the program have results too.
            draft.event(mark);
            return;
        };
        let kind = EventKind::Inside;
        draft.event(EventDraft { kind, step, ..mark });
        if !draft.part(n, part) {
            draft.issue(
                IssueKind::Join,
                "a result for a step that is already closed",
            );
        }
    }
}

/// Takes the usage of the conversation so far.
pub(super) fn total(text: &str, draft: &mut Draft<'_>) {
    let metrics = Metrics::of(text);
    let total = metrics.tokens.map(Total::of).unwrap_or_default();
    let (read, wrote) = (count(total.prompt_tokens), count(total.completion_tokens));
    let sum = read
        .zip(wrote)
        .map(|(read, wrote)| read.saturating_add(wrote))
        .filter(|tokens| *tokens > 0);
    // The program records a cost of 0 if it doesn't know the price.
    let cost = above_zero(metrics.cost);
    if cost.is_some() || sum.is_some() {
        draft.totals();
    }
    let each = [super::Metrics::of(text)];
    let listed = super::listed_cost(&each).filter(|_| cost.is_some());
    let listed_tokens = super::listed_tokens(&each)
        .filter(|_| sum.is_some())
        .map(|tokens| tokens as f64);
    let run = draft.run();
    run.statements = listed
        .map(|cost| total_in("usd", cost, "the sum of costs"))
        .into_iter()
        .collect();
    run.statements
        .extend(listed_tokens.map(|tokens| total_in("tokens", tokens, "the sum of token_usages")));
    (run.cost_usd, run.tokens) = (cost, sum);
    run.usage = Usage {
        input: read,
        cached: count(total.cache_read_tokens),
        output: wrote,
        written: count(total.cache_write_tokens),
        ..Usage::default()
    };
}

/// Returns the end that the agent's state records, or `None` if the conversation continues.
pub(super) fn standing(state: &str, reason: &str) -> Option<Ended> {
    let is_error = state == "error";
    // "Agent reached maximum iteration in headless mode. Current iteration: 17, max iteration: 17"
    let limit = LIMITS
        .iter()
        .find(|(what, ..)| is_error && reason.contains(&format!("maximum {what}")));
    if let Some((what, headline, unit)) = limit {
        let behind = |words: &str| {
            let (_, rest) = reason.split_once(&format!("{words} {what}: "))?;
            leading(rest)
        };
        let end = Ended::new(state, headline, Outcome::Truncated, Certainty::Recorded);
        return Some(end.compare(behind("Current"), behind("max"), unit));
    }
    let end = if is_error {
        End::of(ERRORS, reason)?.word(state)
    } else {
        End::of(ENDS, state)?
    };
    Some(match end.outcome {
        Outcome::Completed => end,
        _ => end.detail(cut(reason)),
    })
}

/// Returns the part of a step in an event, or in an action paired with its observation.
pub(super) fn part_of(record: &str) -> Part {
    if record.starts_with('[') {
        let mut part = Part::default();
        walk::items(record).for_each(|event| part.add(of_event(event)));
        return part;
    }
    of_event(record)
}

fn of_event(record: &str) -> Part {
    let event = Event::of(record);
    let metadata = event.metadata.map(Metadata::of).unwrap_or_default();
    let mut part = Part::default();
    // Without a call id, results name the event.
    let id = |of: Option<&str>| {
        text(metadata.call)
            .or_else(|| of.map(str::to_owned))
            .unwrap_or_default()
    };
    let Some(action) = text(event.action) else {
        observed(&event, id(event.cause), &mut part);
        return part;
    };
    let args = event.args.map(Args::of).unwrap_or_default();
    let response = metadata.response.map(Response::of).unwrap_or_default();
    let choice = response
        .choices
        .and_then(|choices| walk::items(choices).next())
        .map(Choice::of)
        .unwrap_or_default();
    let message = choice.message.map(Message::of).unwrap_or_default();
    part.model = filled(response.model);
    part.finish = filled(choice.finish_reason);
    part.tokens = response.usage.map(tokens);
    part.thought.extend(filled(message.reasoning));
    if action == "message" {
        part.text
            .extend(Some(spoken(args.content)).filter(|said| !said.trim().is_empty()));
        return part;
    }
    let said = Some(spoken(message.content)).filter(|said| !said.trim().is_empty());
    // Each call of a reply repeats the text before the calls.
    let words = if response.choices.is_some() {
        said
    } else {
        filled(args.thought)
    };
    let calls = message
        .calls
        .into_iter()
        .flat_map(walk::items)
        .map(Call::of);
    let mut asked = calls
        .enumerate()
        .filter(|(_, call)| text(call.id) == text(metadata.call));
    let (at, own) = asked.next().map_or((0, None), |(at, call)| {
        (at, call.function.map(Function::of))
    });
    part.text.extend(words.filter(|_| at == 0));
    let args = own
        .and_then(|function| function.arguments)
        .map(|given| arguments(Some(given)));
    let args = args
        .or_else(|| event.args.map(without_thought))
        .unwrap_or_default();
    let name = filled(metadata.name).unwrap_or_else(|| action.clone());
    part.calls.push(CallDraft {
        id: id(event.id),
        name,
        args,
    });
    if matches!(&*action, "finish" | "reject") {
        // These actions have no result. They only end the conversation.
        part.answers.push(Answer {
            call: id(event.id),
            status: Some("success"),
            ..Answer::default()
        });
    }
    part
}

/// Returns the arguments of an action as the program stores them, without the model's text.
fn without_thought(args: &str) -> String {
    let own = walk::members(args).filter(|(key, _)| *key != "\"thought\"");
    let own: Vec<String> = own.map(|(key, value)| format!("{key}:{value}")).collect();
    if args.starts_with('{') {
        format!("{{{}}}", own.join(","))
    } else {
        unpacked(args)
    }
}

/// Reads an observation.
fn observed(event: &Event<'_>, call: String, part: &mut Part) {
    let extras = event.extras.map(Extras::of).unwrap_or_default();
    let words = spoken(event.content);
    let kind = text(event.observation).unwrap_or_default();
    let status = match &*kind {
        "error" => "error",
        "user_rejected" => "cancelled",
        _ => "success",
    };
    let failed = status != "success";
    let exit = extras
        .metadata
        .and_then(|metadata| int(member(metadata, "exit_code")))
        .or(int(extras.exit_code));
    let words_of_error = || {
        Some(words.clone())
            .filter(|words| !words.is_empty())
            .unwrap_or_else(|| NO_WORDS.to_owned())
    };
    part.answers.push(Answer {
        call,
        status: Some(status),
        error: failed.then(words_of_error),
        output: if failed {
            "null".to_owned()
        } else {
            quoted(&words)
        },
        // A command that's still running has -1.
        exit: exit.filter(|exit| *exit >= 0),
        ms: None,
    });
    let whole = |side: Option<&str>| side.filter(|side| is_text(Some(side))).map(str::to_owned);
    if let (false, Some(path), Some(new)) = (failed, text(extras.path), whole(extras.new)) {
        part.changes
            .push((format!("files.{path}"), whole(extras.old), Some(new)));
    }
    if let Some(tasks) = extras.tasks.filter(|_| kind == "task_tracking") {
        part.changes
            .push(("tasks".to_owned(), None, Some(tasks.to_owned())));
    }
}

fn tokens(usage: &str) -> Tokens {
    let usage = Spent::of(usage);
    Tokens {
        input: count(usage.prompt_tokens),
        cached: count(usage.read.and_then(|read| Details::of(read).cached_tokens)),
        output: count(usage.completion_tokens),
        reasoning: count(
            usage
                .wrote
                .and_then(|wrote| Details::of(wrote).reasoning_tokens),
        ),
        ..Tokens::default()
    }
}
