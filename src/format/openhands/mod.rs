//! Reads conversations of the OpenHands SDK: a directory with one file per event,
//! `CONVERSATION/events/event-NNNNN-ID.json`, and the state of the conversation in
//! `base_state.json`, which is replaced as a whole. Its server, and tools that copy events, write
//! the same events as lines of one file.
//!
//! Covers versions 1.11 to 1.58. Each call of a reply is a separate event, and the events of a
//! reply share `llm_response_id`. A reply without calls is a message. Tokens and cost are recorded
//! only for the whole conversation.

pub(super) mod exported;
pub(super) mod instance;

use super::conversation::Conversation;
use super::ends::{End, ends};
use super::part::{self, quoted, text};
use super::recent::Recent;
use super::value::{
    above_zero, below, contains, count, cut, filled, int, is_text, is_true, leading, limit, member,
    number, objects, spoken, total_in, unpacked,
};
use super::watch::has_begun;
use super::{Answer, CallDraft, Draft, EventDraft, Numbering, Part, Reader, Shape, Source, Tool};
use crate::model::json::walk;
use crate::model::step::{NO_WORDS, Usage};
use crate::model::{
    Bound, Can, Capabilities, Certainty, Ended, EventNote, Fact, Format, Outcome, Statement, stated,
};

/// What both can record.
const FORMAT: Format = Format {
    can: Capabilities {
        state: Can::Partly,
        scores: Can::Partly,
        times: Can::Yes,
        limits: Can::Partly,
        ..Capabilities::NONE
    },
    assemble: Some(|n, records| part::line(n, records.iter().map(|record| part_of(record)))),
    is_of_coding_agent: true,
    ..Format::UNKNOWN
};

/// A directory.
pub(super) static CONVERSATION: Tool = Tool {
    format: Format {
        name: "OpenHands conversation",
        file: "conversation",
        ..FORMAT
    },
    shape: Shape::Files {
        below: "events",
        numbering: Numbering("event-"),
        beside: "base_state.json",
    },
    is: |name, head| name == "base_state.json" && has_begun(head, &["id", "agent"]),
    reader: || Box::new(Session::default()),
};

/// A file of events.
pub(super) static EVENTS: Tool = Tool {
    format: Format {
        name: "OpenHands events",
        file: "event file",
        ..FORMAT
    },
    shape: Shape::Lines,
    is: |name, head| name.ends_with(".jsonl") && is_events(head),
    reader: || Box::new(Session::default()),
};

fields! {
    struct Event {
        id, timestamp, source, kind, thought, reasoning = "reasoning_content", thinking = "thinking_blocks",
        item = "responses_reasoning_item", tool = "tool_name", call = "tool_call_id", tool_call, action,
        action_id, response = "llm_response_id", observation, error, rejection = "rejection_reason",
        message = "llm_message", key, value, code, detail, critic = "critic_result",
        title, status, tool_kind, input = "raw_input", output = "raw_output", is_error,
    }
    struct ToolCall { name, arguments }
    struct Message { content, reasoning = "reasoning_content", thinking = "thinking_blocks", item = "responses_reasoning_item" }
    struct Thinking { thinking }
    struct Item { summary }
    struct Observed {
        kind, content, is_error, exit_code, path, old = "old_content", new = "new_content", existed = "prev_exist",
        tasks = "task_list",
    }
    struct Critic { score, message }
    struct State {
        id, agent, workspace, dir = "persistence_dir", status = "execution_status", max = "max_iterations", stats,
    }
    struct Agent { llm }
    struct Llm { model }
    struct Workspace { working_dir }
    struct Stats { each = "usage_to_metrics" }
    struct Metrics {
        model = "model_name", cost = "accumulated_cost", tokens = "accumulated_token_usage",
        budget = "max_budget_per_task", costs, each = "token_usages",
    }
    struct Priced { cost }
    struct Used { prompt_tokens, completion_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens }
}

fn is_events(head: &[u8]) -> bool {
    // The names of all kinds end like this.
    contains(head, &["Event\""]) && objects(head).any(is_event)
}

fn is_event(line: &str) -> bool {
    let event = Event::of(line);
    let known = matches!(
        event.kind,
        Some(
            "\"SystemPromptEvent\""
                | "\"MessageEvent\""
                | "\"ActionEvent\""
                | "\"ObservationEvent\""
                | "\"AgentErrorEvent\""
                | "\"ConversationStateUpdateEvent\""
                | "\"ACPToolCallEvent\""
        )
    );
    known && is_text(event.id) && is_text(event.timestamp) && is_text(event.source)
}

/// The status of a conversation that waits for the user's approval.
const ASKS: &str = "waiting_for_confirmation";

/// The states of a conversation that doesn't continue, and the events that stop it.
const ENDS: &[End] = ends! {
    "finished" => Completed, "Answered";
    "stuck" => Halted, Ended::LOOPED;
    "paused" | "PauseEvent" | "InterruptEvent" => Cancelled, "Paused by the user";
    "error" => Failed, "Failed with an error";
    "waiting_for_confirmation" => Unknown, "Waiting for user confirmation";
    "idle" => Unknown, "Waiting to run";
};

/// The codes of error events. A code may also be the name of an exception.
const FAULTS: &[End] = ends! {
    "MaxIterationsReached" => Truncated, "Step limit reached", "Step": "max_iterations";
    "MaxBudgetReached" => Truncated, "Cost limit reached", "Cost": "max_budget_per_task";
    "LLMContentPolicyViolationError" => Failed, Ended::REFUSED;
    "LLM*" => Failed, "API error";
    "*" => Failed, "Failed with an error";
};

/// Returns the end that an error event records.
fn fault(code: &str, detail: &str) -> Option<Ended> {
    let end = End::raised(code).or_else(|| End::of(FAULTS, code))?;
    // The figures are in brackets, and after the last dollar sign.
    let within = detail.split_once('(').and_then(|(_, rest)| leading(rest));
    let spent = || detail.rsplit_once('$').and_then(|(_, rest)| leading(rest));
    Some(match (code, within) {
        ("MaxIterationsReached", Some(_)) => end.compare(None, within, "iterations"),
        ("MaxBudgetReached", Some(_)) => end.compare(spent(), within, "usd"),
        ("MaxIterationsReached" | "MaxBudgetReached", None) => end,
        _ => end.detail(cut(detail)),
    })
}

/// Returns the end of a conversation in which the agent called its tool for that.
fn finished(word: &str, certainty: Certainty) -> Ended {
    Ended::new(word, "The agent finished", Outcome::Completed, certainty)
}

/// A conversation while it is being read.
#[derive(Debug, Default)]
struct Session {
    by_response: Recent<Box<str>, usize>,
    /// The conversation. An observation names the event with its call, or the call.
    conversation: Conversation,
    /// The number of replies and compactions, in all turns and in the last one.
    iterations: (u64, u64),
    /// Whether a prompt came after the last reply.
    due: bool,
    /// When the conversation began to wait for the user's approval.
    asked: Option<i64>,
    /// The stop of the conversation, as recorded by an event.
    end: Option<Ended>,
    /// The newest status in an event, and that event.
    told: Option<(Box<str>, usize)>,
    /// The answer that the agent submitted with its last call, and whether that call is complete.
    answer: Option<(Box<str>, bool)>,
    /// The facts about the whole conversation.
    state: Whole,
    /// The facts in the second document.
    beside: Option<Whole>,
}

/// The facts about a whole conversation.
#[derive(Debug, Default, Clone)]
struct Whole {
    id: Option<String>,
    parent: Option<String>,
    model: Option<String>,
    project: Option<String>,
    status: Option<String>,
    max: Option<f64>,
    budget: Option<f64>,
    tokens: Option<u64>,
    usage: Usage,
    cost: Option<f64>,
    /// The cost and the tokens, summed over the lists of all requests.
    listed: (Option<f64>, Option<u64>),
}

impl Reader for Session {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        let event = Event::of(record.text);
        let kind = text(event.kind).unwrap_or_default();
        let mark = EventDraft::new(&kind, draft.time(event.timestamp));
        let source = text(event.source).unwrap_or_default();
        if event.id.is_some() && draft.is_again(record.text) {
            return draft.again(&mark);
        }
        match (&*kind, &*source) {
            ("ActionEvent", _) | ("ACPToolCallEvent", _) => {
                self.reply(&event, record.text, mark, draft)
            }
            ("MessageEvent", "agent") if event.response.is_some() => {
                self.reply(&event, record.text, mark, draft)
            }
            ("MessageEvent", "user") => {
                let words = spoken(
                    event
                        .message
                        .map(Message::of)
                        .and_then(|message| message.content),
                );
                self.conversation.prompt(&words, &mark, draft);
                self.iterations.1 = 0;
                (self.due, self.end, self.answer) = (true, None, None);
            }
            ("ObservationEvent" | "AgentErrorEvent" | "UserRejectObservation", _) => {
                self.result(&event, record.text, mark, draft);
            }
            ("ConversationStateUpdateEvent", _) => {
                let key = text(event.key).unwrap_or_default();
                let note = match &*key {
                    "execution_status" => self.approval(event.value, mark.ts),
                    _ => None,
                };
                let at = draft.event(EventDraft {
                    note,
                    ..mark.stage(&key)
                });
                self.update(&key, event.value.unwrap_or_default(), at);
            }
            ("ConversationErrorEvent" | "ServerErrorEvent", _) => {
                let code = text(event.code).unwrap_or_default();
                let at = draft.event(mark.stage(&code).failed(true));
                let detail = text(event.detail).unwrap_or_default();
                self.end = fault(&code, &detail).map(|end| end.at_event(at));
            }
            ("PauseEvent" | "InterruptEvent", _) => {
                let at = draft.event(mark.stage("paused"));
                self.end = End::of(ENDS, &kind).map(|end| end.at_event(at));
            }
            _ => {
                if kind.starts_with("Condensation") {
                    self.iterate();
                }
                draft.event(mark.stage(&source));
            }
        }
    }

    fn beside(&mut self, text: &str) {
        let mut whole = Whole::default();
        whole.take(text);
        self.beside = Some(whole);
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        let conflict = self.conflict();
        // Neither is preferred.
        let disputed = conflict.as_ref().map(|conflict| {
            let end = Ended::new(
                "",
                "The files disagree on how the run ended",
                Outcome::Unknown,
                Certainty::Unknown,
            );
            end.detail(conflict.clone())
        });
        let ended = disputed.or_else(|| self.ended(draft));
        let at = draft.latest();
        let is_answer = ended
            .as_ref()
            .is_some_and(|end| end.outcome == Outcome::Completed);
        let said = || self.replied(draft).and_then(|n| draft.said(n));
        let answer = self
            .answer
            .as_ref()
            .map(|(answer, _)| answer.clone())
            .or_else(said)
            .filter(|_| is_answer);
        let whole = self.beside.as_ref().unwrap_or(&self.state).clone();
        // The limit applies to a turn. The program writes its own user messages, so a turn may
        // have more iterations than those since the last message.
        let (all, of_turn) = (self.iterations.0 as f64, self.iterations.1 as f64);
        let is_whole =
            self.conversation.turns() <= 1 || whole.max.is_some_and(|max| of_turn >= max);
        let (iterations, bound) = if is_whole {
            (of_turn, Bound::Exact)
        } else {
            (all, Bound::AtMost)
        };
        let run = draft.run();
        run.tool = Some("OpenHands SDK".into());
        run.run_id = whole.id.as_deref().map(cut);
        run.parent = whole.parent.as_deref().map(cut);
        run.model = whole.model.as_deref().map(cut);
        let limits = [
            limit("max_iterations", whole.max, "iterations", Some(iterations))
                .map(|limit| limit.bounded(bound)),
            limit("max_budget_per_task", whole.budget, "usd", whole.cost),
        ];
        run.limits = limits.into_iter().flatten().collect();
        let file = if self.beside.is_some() {
            "base_state.json"
        } else {
            ""
        };
        run.statements = whole
            .max
            .into_iter()
            .map(|max| of_state(file, max))
            .collect();
        let (cost, tokens) = whole.listed;
        run.statements.extend(
            cost.filter(|_| whole.cost.is_some())
                .map(|cost| total_in("usd", cost, "the sum of costs")),
        );
        let tokens = tokens
            .filter(|_| whole.tokens.is_some())
            .map(|tokens| tokens as f64);
        run.statements
            .extend(tokens.map(|tokens| total_in("tokens", tokens, "the sum of token_usages")));
        run.project = whole.project.as_deref().map(cut);
        (run.tokens, run.usage, run.cost_usd) = (whole.tokens, whole.usage, whole.cost);
        run.updated_at = at.filter(|_| ended.is_some());
        run.ended = ended.map(Box::new);
        run.conflicts = conflict.into_iter().collect();
        run.final_result = answer;
        run.turns = Some(self.conversation.turns());
    }
}

impl Session {
    /// Handles a call by the model, or a reply without calls. For another agent that acts in the
    /// model's place, only the calls are recorded, each with its result.
    fn reply(
        &mut self,
        event: &Event<'_>,
        record: &str,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        let id = text(event.response.or(event.call))
            .or_else(|| text(event.id))
            .unwrap_or_default();
        let known = self.by_response.get(&*id).copied();
        let part = part_of(record);
        let handed = part.calls.iter().find(|call| call.name == "finish");
        self.answer = handed.map(|call| {
            (
                cut(&text(member(&call.args, "message")).unwrap_or_default()),
                false,
            )
        });
        (self.due, self.end) = (false, None);
        let n = self
            .conversation
            .reply(known, draft.latest(), mark, part, draft);
        if known.is_none() {
            self.iterate();
            self.by_response.insert(id.into(), n);
        }
        if let Some(id) = text(event.id) {
            self.conversation.name_call(&id, n);
        }
    }

    /// Counts an iteration of the program's loop.
    fn iterate(&mut self) {
        let (all, of_turn) = self.iterations;
        self.iterations = (all + 1, of_turn + 1);
    }

    /// Handles the result of a call.
    fn result(
        &mut self,
        event: &Event<'_>,
        record: &str,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        let mut ids = [event.action_id, event.call].into_iter().filter_map(text);
        let step = ids.find_map(|id| self.conversation.step_with(&id));
        let part = part_of(record);
        if let Some((_, is_over)) = &mut self.answer
            && event.tool == Some("\"finish\"")
        {
            *is_over = !part.has_failed();
        }
        draft.results(step.as_slice(), mark.stage("result"), part);
    }

    /// Returns the wait for the user's approval that ends with a change of the status.
    fn approval(&mut self, status: Option<&str>, ts: Option<i64>) -> Option<EventNote> {
        if text(status).as_deref() == Some(ASKS) {
            self.asked = self.asked.or(ts);
            return None;
        }
        Some(EventNote::Approval(self.asked.take()?, ts?))
    }

    /// Handles a change of the conversation's state.
    fn update(&mut self, key: &str, value: &str, at: usize) {
        match key {
            "full_state" => self.state.take(value),
            "stats" => self.state.count(value),
            "execution_status" => self.state.status = text(Some(value)),
            _ => return,
        }
        if let Some(status) = self.state.status.as_deref().filter(|_| key != "stats") {
            self.told = Some((status.into(), at));
            if status == "running" {
                self.end = None;
            }
        }
    }

    /// Returns the contradiction between the conversation's state and the event that ended it, if
    /// there is one.
    fn conflict(&self) -> Option<Box<str>> {
        let end = self.end.as_ref()?;
        let beside = self
            .beside
            .as_ref()
            .and_then(|whole| whole.status.as_deref());
        let (who, status) = match beside {
            Some(status) => ("base_state.json", status),
            None => (
                "the last state",
                self.told.as_ref().map(|(status, _)| &**status)?,
            ),
        };
        let fits = match status {
            // An error may be a cancellation, but a pause isn't one.
            "error" => {
                end.outcome != Outcome::Halted
                    && !matches!(&*end.word, "PauseEvent" | "InterruptEvent")
            }
            "paused" => end.outcome == Outcome::Cancelled,
            "finished" | "stuck" => false,
            // After a pause the conversation continues without another event, but not after an
            // error.
            "running" | "idle" | ASKS => end.outcome == Outcome::Cancelled,
            _ => true,
        };
        (!fits).then(|| {
            format!(
                "{who} records {status}, but the last event records {}",
                end.word
            )
            .into()
        })
    }

    /// Returns the last reply, if it makes no calls.
    fn replied(&self, draft: &Draft<'_>) -> Option<usize> {
        self.conversation
            .last()
            .filter(|n| draft.step(*n).is_some_and(Part::is_answer))
    }

    /// Returns the end of the conversation, or `None` if it continues.
    fn ended(&self, draft: &Draft<'_>) -> Option<Ended> {
        // The conversation was resumed since.
        let goes_on = self
            .beside
            .as_ref()
            .is_some_and(|whole| whole.status.as_deref() == Some("running"));
        if goes_on || self.end.is_some() {
            return self.end.clone().filter(|_| !goes_on);
        }
        let beside = self
            .beside
            .as_ref()
            .and_then(|whole| Some((whole.status.as_deref()?, None)));
        let told = || {
            self.told
                .as_ref()
                .map(|(status, at)| (&**status, Some(*at)))
        };
        let (status, at) = beside
            .or_else(told)
            .filter(|(status, _)| !status.is_empty())
            .unwrap_or_default();
        let (is_handed, is_over) = self
            .answer
            .as_ref()
            .map_or((false, false), |(_, is_over)| (true, *is_over));
        let end = match status {
            "finished" if is_handed => Some(finished(status, Certainty::Recorded)),
            "" if is_over => Some(finished("finish", Certainty::Inferred)),
            "" if !self.due && self.replied(draft).is_some() => {
                Some(Ended::answered(Ended::NO_CALLS))
            }
            _ => End::of(ENDS, status),
        };
        end.map(|end| Ended { event: at, ..end })
    }
}

impl Whole {
    /// Takes a state of the conversation.
    fn take(&mut self, state: &str) {
        let state = State::of(state);
        self.id = text(state.id).or(self.id.take());
        self.parent = text(state.dir)
            .as_deref()
            .and_then(parent)
            .or(self.parent.take());
        let llm = state.agent.map(Agent::of).and_then(|agent| agent.llm);
        self.model = llm
            .and_then(|llm| filled(Llm::of(llm).model))
            .or(self.model.take());
        self.project = state
            .workspace
            .and_then(|place| text(Workspace::of(place).working_dir))
            .or(self.project.take());
        self.status = text(state.status).or(self.status.take());
        self.max = above_zero(state.max).or(self.max);
        state.stats.into_iter().for_each(|stats| self.count(stats));
    }

    /// Takes the usage of all models.
    fn count(&mut self, stats: &str) {
        let each = Stats::of(stats).each.into_iter().flat_map(walk::members);
        let each: Vec<Metrics<'_>> = each.map(|(_, metrics)| Metrics::of(metrics)).collect();
        // A model that was never used has no usage. A sum is unknown if any other model lacks the
        // value.
        let used = each
            .iter()
            .filter_map(|metrics| metrics.tokens.filter(|tokens| tokens.starts_with('{')));
        let used: Vec<Used<'_>> = used.map(Used::of).collect();
        let sum = |key: fn(&Used<'_>) -> Option<u64>| {
            let sum = used
                .iter()
                .map(key)
                .try_fold(0_u64, |sum, count| Some(sum.saturating_add(count?)));
            sum.filter(|_| !used.is_empty())
        };
        let total = |used: &Used<'_>| {
            Some(count(used.prompt_tokens)?.saturating_add(count(used.completion_tokens)?))
        };
        self.tokens = sum(total).filter(|tokens| *tokens > 0);
        let usage = Usage {
            input: sum(|used| count(used.prompt_tokens)),
            cached: sum(|used| count(used.cache_read_tokens)),
            output: sum(|used| count(used.completion_tokens)),
            reasoning: sum(|used| count(used.reasoning_tokens)),
            written: sum(|used| count(used.cache_write_tokens)),
            written_1h: None,
        };
        self.usage = usage;
        // The program records a cost of 0 if it doesn't know the price.
        let cost: f64 = each
            .iter()
            .filter_map(|metrics| above_zero(metrics.cost))
            .sum();
        self.cost = Some(cost).filter(|cost| *cost > 0.0);
        // Each model's figures are the sums of such a list.
        self.listed = (listed_cost(&each), listed_tokens(&each));
        self.budget = each
            .iter()
            .filter_map(|metrics| above_zero(metrics.budget))
            .reduce(f64::min)
            .or(self.budget);
        self.model = self
            .model
            .take()
            .or_else(|| each.first().and_then(|metrics| filled(metrics.model)));
    }
}

/// Returns the cost of all requests, if each model with a cost lists them.
fn listed_cost(each: &[Metrics<'_>]) -> Option<f64> {
    let of = |metrics: &Metrics<'_>| {
        let list = metrics
            .costs
            .filter(|list| walk::items(list).next().is_some())?;
        walk::items(list)
            .map(|item| number(Priced::of(item).cost))
            .try_fold(0.0, |sum, cost| Some(sum + cost?))
    };
    let mut priced = each
        .iter()
        .filter(|metrics| above_zero(metrics.cost).is_some())
        .peekable();
    priced.peek()?;
    priced.map(of).try_fold(0.0, |sum, cost| Some(sum + cost?))
}

/// Returns the tokens of all requests in the same way.
fn listed_tokens(each: &[Metrics<'_>]) -> Option<u64> {
    let total = |used: Used<'_>| {
        Some(count(used.prompt_tokens)?.saturating_add(count(used.completion_tokens)?))
    };
    let of = |metrics: &Metrics<'_>| {
        let list = metrics
            .each
            .filter(|list| walk::items(list).next().is_some())?;
        walk::items(list)
            .map(|item| total(Used::of(item)))
            .try_fold(0_u64, |sum, more| Some(sum.saturating_add(more?)))
    };
    let has = |metrics: &&Metrics<'_>| {
        metrics
            .tokens
            .map(Used::of)
            .and_then(total)
            .is_some_and(|tokens| tokens > 0)
    };
    let mut used = each.iter().filter(has).peekable();
    used.peek()?;
    used.map(of)
        .try_fold(0_u64, |sum, more| Some(sum.saturating_add(more?)))
}

/// Returns the iteration limit in the state of a conversation.
fn of_state(file: &'static str, max: f64) -> Statement {
    let source = stated::Source {
        who: "the state",
        file,
        line: None,
        field: "max_iterations".into(),
    };
    Statement::number(Fact::Limit("iterations"), max, source)
}

/// Returns the id of the parent conversation, given a conversation's directory. Child conversations
/// are below their parent's directory.
fn parent(dir: &str) -> Option<String> {
    let (before, _) = dir.rsplit_once("/subagents/")?;
    let id = before
        .rsplit('/')
        .next()
        .filter(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    let parts = [
        id.get(..8)?,
        id.get(8..12)?,
        id.get(12..16)?,
        id.get(16..20)?,
        id.get(20..)?,
    ];
    Some(parts.join("-"))
}

/// Returns the part of a step that an event contains.
fn part_of(record: &str) -> Part {
    let event = Event::of(record);
    let mut part = Part::default();
    let (reasoning, thinking, item) = match event.message.map(Message::of) {
        Some(message) => {
            part.text
                .extend(Some(spoken(message.content)).filter(|said| !said.trim().is_empty()));
            (message.reasoning, message.thinking, message.item)
        }
        None => (event.reasoning, event.thinking, event.item),
    };
    part.thought.extend(thought(reasoning, thinking, item));
    part.text
        .extend(Some(spoken(event.thought)).filter(|said| !said.trim().is_empty()));
    if let Some(critic) = event
        .critic
        .filter(|critic| critic.starts_with('{'))
        .map(Critic::of)
    {
        part.scores.push((
            "critic".to_owned(),
            number(critic.score),
            filled(critic.message),
        ));
    }
    let id = || text(event.call).unwrap_or_default();
    let answer = |status, output, error| Answer {
        call: id(),
        status: Some(status),
        output,
        error,
        ..Answer::default()
    };
    match text(event.kind).as_deref() {
        Some("ActionEvent") => {
            let call = event.tool_call.map(ToolCall::of).unwrap_or_default();
            let name = filled(event.tool)
                .or_else(|| text(call.name))
                .unwrap_or_default();
            part.calls.push(CallDraft {
                id: id(),
                name,
                args: arguments(call.arguments),
            });
        }
        Some("ACPToolCallEvent") => {
            let name = filled(event.tool_kind)
                .or_else(|| text(event.title))
                .unwrap_or_default();
            let args = event
                .input
                .filter(|input| input.starts_with('{'))
                .unwrap_or_default()
                .to_owned();
            part.calls.push(CallDraft {
                id: id(),
                name,
                args,
            });
            part.text.extend(filled(event.title));
            let output = event.output.unwrap_or("null").to_owned();
            let failed = is_true(event.is_error) || event.status == Some("\"failed\"");
            let words = || text(event.output).unwrap_or_else(|| NO_WORDS.to_owned());
            match event.status {
                _ if failed => part
                    .answers
                    .push(answer("error", "null".to_owned(), Some(words()))),
                Some("\"completed\"") => part.answers.push(answer("success", output, None)),
                _ => {}
            }
        }
        Some("AgentErrorEvent") => {
            part.answers
                .push(answer("error", "null".to_owned(), text(event.error)))
        }
        Some("UserRejectObservation") => {
            part.answers.push(answer(
                "cancelled",
                "null".to_owned(),
                filled(event.rejection),
            ));
        }
        Some("ObservationEvent") => observed(&event, id(), &mut part),
        _ => {}
    }
    part
}

/// Returns the model's reasoning, from whichever field its provider uses.
fn thought(reasoning: Option<&str>, thinking: Option<&str>, item: Option<&str>) -> Option<String> {
    let blocks = || {
        let blocks = thinking.into_iter().flat_map(walk::items);
        let texts: Vec<String> = blocks
            .filter_map(|block| filled(Thinking::of(block).thinking))
            .collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    };
    let summary = || {
        let texts = item
            .map(Item::of)
            .and_then(|item| item.summary)
            .into_iter()
            .flat_map(walk::items);
        let texts: Vec<String> = texts.filter_map(|text| filled(Some(text))).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    };
    filled(reasoning).or_else(blocks).or_else(summary)
}

/// Returns the arguments of a call, without the fields that the program makes the model add to each
/// call.
fn arguments(arguments: Option<&str>) -> String {
    let Some(arguments) = text(arguments) else {
        return String::new();
    };
    if !arguments.trim_start().starts_with('{') {
        return unpacked(&arguments);
    }
    let value = unpacked(&arguments);
    let own = walk::members(&value)
        .filter(|(key, _)| !matches!(*key, "\"summary\"" | "\"security_risk\""));
    let own: Vec<String> = own.map(|(key, value)| format!("{key}:{value}")).collect();
    if value.starts_with('{') {
        format!("{{{}}}", own.join(","))
    } else {
        value
    }
}

/// Reads the result of a tool.
fn observed(event: &Event<'_>, call: String, part: &mut Part) {
    let seen = event.observation.map(Observed::of).unwrap_or_default();
    let failed = is_true(seen.is_error);
    let words = spoken(seen.content);
    let all_text = seen
        .content
        .is_none_or(|content| walk::items(content).all(|item| is_text(member(item, "text"))));
    let output = match seen.content {
        Some(content) if !all_text => content.to_owned(),
        _ => quoted(&words),
    };
    let error = match (failed, words.is_empty()) {
        (false, _) => None,
        (true, true) => Some(NO_WORDS.to_owned()),
        (true, false) => Some(words),
    };
    part.answers.push(Answer {
        call,
        status: Some(if failed { "error" } else { "success" }),
        output: if failed { "null".to_owned() } else { output },
        error,
        // A command that's still running has -1.
        exit: int(seen.exit_code).filter(|exit| *exit >= 0),
        ms: None,
    });
    if failed {
        return;
    }
    if let (Some(path), Some(new)) = (text(seen.path), seen.new) {
        let before = seen.old.filter(|old| *old != "null");
        part.changes.push((
            format!("files.{}", below(&path, None)),
            before.map(str::to_owned),
            Some(new.to_owned()),
        ));
    }
    if let (Some("\"TaskTrackerObservation\""), Some(tasks)) = (seen.kind, seen.tasks) {
        part.changes
            .push(("tasks".to_owned(), None, Some(tasks.to_owned())));
    }
}
