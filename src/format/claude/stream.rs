//! Reads the output of `claude -p --output-format stream-json`: one JSON object per line. The
//! stream has `system/init`, the messages, and at the end a `result` with the outcome and the cost.
//! Qwen Code has the same option and writes the same lines.
//!
//! Replies of sub-agents are interleaved with those of their parent. Claude Code repeats the usage
//! from the start of a reply, so its output tokens are only in the result. Qwen Code begins a new
//! message for each block, and records the usage with the last one.

use super::changes::{Result, changes};
use super::{Message, blocks, is_interruption, odd_results, others, tokens};
use crate::format::gemini::report::{names_command, reported};
use crate::format::part::{self, text};
use crate::format::recent::{Recent, RecentSet};
use crate::format::turns::Turns;
use crate::format::value::{
    contains, count, cut, is_added, is_text, is_true, number, objects, own_words_in, short, spoken,
    stage_beside,
};
use crate::format::{Answer, Draft, EventDraft, Part, Reader, Shape, Source, Tokens, Tool};
use crate::model::json::walk;
use crate::model::step::Usage as Whole;
use crate::model::{
    CAPTURED, Can, Capabilities, Certainty, Ended, EventKind, Format, IssueKind, Outcome, Total,
};

const CAN: Capabilities = Capabilities {
    state: Can::Partly,
    times: Can::Partly,
    tokens: Can::Partly,
    cost: Can::Partly,
    ..Capabilities::NONE
};

/// The output of Claude Code.
pub(in crate::format) static CLAUDE: Tool = Tool {
    format: Format {
        name: "Claude Code stream",
        can: CAN,
        file: CAPTURED,
        assemble: Some(|n, records| {
            part::line(n, records.iter().map(|record| part_of(record, false)))
        }),
        is_of_coding_agent: true,
        ..Format::UNKNOWN
    },
    shape: Shape::Lines,
    is: |name, head| name.ends_with(".jsonl") && init(head).is_some_and(|is_qwen| !is_qwen),
    reader: || Box::new(Stream::default()),
};

/// The output of Qwen Code.
pub(in crate::format) static QWEN: Tool = Tool {
    format: Format {
        name: "Qwen Code stream",
        can: Capabilities {
            times: Can::No,
            cost: Can::No,
            ..CAN
        },
        file: CAPTURED,
        assemble: Some(|n, records| {
            part::line(n, records.iter().map(|record| part_of(record, true)))
        }),
        is_of_coding_agent: true,
        ..Format::UNKNOWN
    },
    shape: Shape::Lines,
    is: |name, head| name.ends_with(".jsonl") && init(head) == Some(true),
    reader: || {
        Box::new(Stream {
            is_qwen: true,
            ..Stream::default()
        })
    },
};

fields! {
    struct Line {
        kind = "type", subtype, session = "session_id", parent = "parent_tool_use_id", agent = "agent_id", timestamp,
        message, result = "tool_use_result", said = "result", model, cwd, claude = "claude_code_version",
        qwen = "qwen_code_version", is_synthetic = "isSynthetic", is_replay = "isReplay", is_error, terminal = "terminal_reason", stop_reason,
        errors, error, cost = "total_cost_usd", usage, models = "modelUsage",
        since = "model_usage_since_last_result", duration_ms, event, uuid, data,
    }
    struct Usage {
        input_tokens, cache_creation_input_tokens, cache_read_input_tokens, output_tokens,
        input = "inputTokens", created = "cacheCreationInputTokens", read = "cacheReadInputTokens", output = "outputTokens",
        cost = "costUSD", window = "contextWindow",
    }
    struct Task { id = "task_id", usage }
    struct Counted { total = "total_tokens" }
    struct Event { kind = "type", usage, delta }
    struct Delta { stop_reason }
    struct Fault { message }
}

/// Values of `terminal_reason` for faults of the program or of the model.
const FAULTS: [&str; 6] = [
    "model_error",
    "image_error",
    "malformed_tool_use_exhausted",
    "turn_setup_failed",
    "rapid_refill_breaker",
    "structured_output_retry_exhausted",
];

/// Amounts that differ by less than this are equal.
const LEAST_USD: f64 = 1e-6;

/// Returns whether the first lines are those of a stream: `true` for Qwen Code's, `false` for
/// Claude Code's.
fn init(head: &[u8]) -> Option<bool> {
    if !contains(head, &["\"init\""]) {
        return None;
    }
    let lines = objects(head).map(Line::of);
    let is_init =
        |line: &Line<'_>| line.kind == Some("\"system\"") && line.subtype == Some("\"init\"");
    lines
        .filter(is_init)
        .find(|line| is_text(line.session))
        .map(|line| line.qwen.is_some())
}

/// A stream while it is being read.
#[derive(Debug, Default)]
struct Stream {
    is_qwen: bool,
    by_message: Recent<Box<str>, usize>,
    by_call: Recent<Box<str>, usize>,
    /// The newest step of each agent, and whether its reply continues in the next message.
    newest: Recent<Box<str>, (usize, bool)>,
    children: RecentSet<Box<str>>,
    /// The ids of sub-agents.
    agents: RecentSet<Box<str>>,
    /// The tokens of finished sub-agents, by id.
    tasks: Recent<Box<str>, u64>,
    /// The models of replies, and the input tokens of requests within a reply that aren't its own.
    models: RecentSet<Box<str>>,
    read_aside: u64,
    /// Whether the conversation was compacted, which takes a request to a model.
    is_compacted: bool,
    last: Option<usize>,
    turns: u64,
    end: Option<Ended>,
    answer: Option<Box<str>>,
    ends: Turns,
    /// Whether a line records that the user interrupted the newest turn.
    is_stopped_by_user: bool,
    /// Whether there was neither a line with a time nor a reply since the last result.
    is_idle: bool,
    is_between: bool,
    /// The recorded input tokens of each step.
    inputs: Recent<usize, u64>,
    /// The usage of the run by its results, if they separate it from the session's earlier usage,
    /// and the cost.
    own: Option<(Whole, Option<f64>)>,
    /// The newest total of Qwen Code's program, and the sum over the steps so far.
    counted: Option<(Whole, u64)>,
    /// The number of retried requests.
    retries: u64,
    /// The usage of earlier sessions in the stream.
    earlier: Option<Whole>,
    earlier_cost: Option<f64>,
}

impl Reader for Stream {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        let line = Line::of(record.text);
        let ts = draft.time(line.timestamp);
        // No work happens between a result and the next line.
        let before = draft.latest().filter(|_| !self.is_idle);
        let (kind, stage) = (
            text(line.kind).unwrap_or_default(),
            text(line.subtype).unwrap_or_default(),
        );
        let mark = EventDraft::new(&kind, ts).stage(&stage);
        let message = line.message.map(Message::of).unwrap_or_default();
        // A result that directly follows another one belongs to a new turn only if it differs.
        let is_again = (line.uuid.is_some() || kind == "result") && draft.is_again(record.text);
        if is_again && (line.uuid.is_some() || self.end.is_some()) {
            return draft.again(&mark);
        }
        self.children.extend(text(line.parent).map(Box::from));
        self.agents.extend(
            text(line.agent)
                .filter(|_| is_text(line.parent))
                .map(Box::from),
        );
        self.is_idle = kind == "result" || self.is_idle && ts.is_none();
        match (&*kind, &*stage) {
            ("system", "init") => {
                draft.event(mark);
                self.turns += 1;
                let (end, answer) = self.settled();
                self.ends.begin(self.steps(), end, answer, None);
                (self.end, self.answer, self.is_stopped_by_user) = (None, None, false);
                let before = draft.run().run_id.clone();
                about(&line, draft);
                let run = draft.run();
                if before.is_some() && before != run.run_id {
                    // The draft already tracks the missing usage of a session without a result.
                    self.earlier = Some(run.usage).filter(|usage| *usage != Whole::default());
                    self.earlier_cost = run.cost_usd;
                    self.counted = None;
                    self.inputs.clear();
                    draft.other_session();
                }
            }
            ("system", _) => {
                self.retries += u64::from(matches!(&*stage, "retry" | "api_retry"));
                self.is_compacted |= stage == "compact_boundary";
                let task = line
                    .data
                    .filter(|_| stage == "task_notification")
                    .map(Task::of)
                    .unwrap_or_default();
                if let Some(id) = text(task.id) {
                    self.agents.insert((*id).into());
                    let tokens = task
                        .usage
                        .map(Counted::of)
                        .and_then(|usage| count(usage.total));
                    self.tasks.extend(tokens.map(|tokens| (id.into(), tokens)));
                }
                draft.event(mark.failed(stage == "api_retry"));
            }
            ("assistant", _) if is_own(&message, self.is_qwen) => {
                draft.event(mark.stage("API error").failed(true));
            }
            ("assistant", _) => self.reply(&line, &message, record.text, &mark, before, draft),
            ("user", _) => self.user(&line, &message, record.text, mark, draft),
            ("stream_event", _) => self.partial(&line, record.text, mark, draft),
            ("result", _) => {
                let end = ended(&line, self.is_stopped_by_user);
                let at = draft.event(EventDraft {
                    kind: EventKind::Other,
                    failed: is_true(line.is_error),
                    ..mark
                });
                // After the end of a turn, a result belongs to another turn, whether or not a line
                // began it.
                if self.end.is_some() {
                    let (end, answer) = self.settled();
                    self.ends.begin(self.steps(), end, answer, None);
                }
                self.answer = short(line.said).filter(|_| end.outcome == Outcome::Completed);
                (self.end, self.is_between) = (Some(end.at_event(at)), true);
                self.totals(&line, draft);
                // Each result covers its own turn.
                let took = number(line.duration_ms).filter(|ms| *ms >= 0.0);
                if took.is_none() && number(line.duration_ms).is_some() {
                    draft.issue(
                        IssueKind::Field,
                        "the result's duration is negative, so it is ignored",
                    );
                }
                let run = draft.run();
                let took = took.map(|ms| ms / 1e3 + run.latency_s.unwrap_or_default());
                run.latency_s = took.or(run.latency_s);
            }
            _ => {
                draft.event(mark);
            }
        }
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        let at = draft.latest();
        let (end, answer) = self.settled();
        let end = end.or_else(|| self.cancelled(draft));
        let run = draft.run();
        run.updated_at = at.filter(|_| end.is_some());
        run.final_result = answer.filter(|_| end.is_some());
        run.ended = end.map(Box::new);
        run.turns = Some(self.turns);
        run.children = Some(self.children.len() as u64);
        run.child_ids = self.agents.listed();
        // A sub-agent's last reply isn't printed, and the program counts turns, not replies.
        run.replies_unknown = !self.is_qwen && !self.children.is_empty();
    }
}

impl Stream {
    fn steps(&self) -> usize {
        self.last.map_or(0, |last| last + 1)
    }

    /// Returns the end and the answer of the run. A turn without steps keeps those of the previous
    /// turn.
    fn settled(&self) -> (Option<Ended>, Option<Box<str>>) {
        self.ends
            .settle(self.end.clone(), self.answer.clone(), self.steps(), None)
    }

    /// Returns the end of a run whose last calls were all cancelled. Qwen Code then makes no
    /// further request and prints nothing more.
    fn cancelled(&self, draft: &Draft<'_>) -> Option<Ended> {
        let n = self.last.filter(|_| self.is_qwen)?;
        draft.cancelled(n, Certainty::Inferred)
    }

    /// Handles a block of the model's reply.
    fn reply(
        &mut self,
        line: &Line<'_>,
        message: &Message<'_>,
        record: &str,
        mark: &EventDraft<'_>,
        before: Option<i64>,
        draft: &mut Draft<'_>,
    ) {
        let (id, lane) = (
            text(message.id).unwrap_or_default(),
            text(line.parent).unwrap_or_default(),
        );
        let part = part_of(record, self.is_qwen);
        let goes_on = self
            .newest
            .get(&*lane)
            .filter(|(_, goes_on)| *goes_on)
            .map(|(n, _)| *n);
        let known = self.by_message.get(&*id).copied().or(goes_on);
        let n = draft.reply(
            known,
            before,
            EventDraft {
                kind: EventKind::Decided,
                note: None,
                ..*mark
            },
        );
        if !id.is_empty() {
            self.by_message.insert(id.into(), n);
        }
        let goes_on = self.is_qwen && part.tokens.is_none();
        if let Some((last, _)) = self
            .newest
            .insert(lane.into(), (n, goes_on))
            .filter(|(last, _)| *last != n)
        {
            draft.close(last);
        }
        self.by_call
            .extend(part.calls.iter().map(|call| ((*call.id).into(), n)));
        (self.last, self.end, self.is_between) = (Some(n), None, false);
        if let Some(input) = part.tokens.and_then(|tokens| tokens.input) {
            self.inputs.insert(n, input);
        }
        self.models.extend(part.model.as_deref().map(Box::from));
        let aside: u64 = part
            .others
            .iter()
            .filter_map(|(_, tokens)| tokens.input)
            .sum();
        self.read_aside = self.read_aside.saturating_add(aside);
        if let Some(model) = &part.model {
            draft.run().model = Some(cut(model));
        }
        if !draft.part(n, part) {
            draft.issue(IssueKind::Join, "a reply continues after its end");
        }
    }

    /// Handles a line of the user: tool results, a prompt, or text by the program.
    fn user(
        &mut self,
        line: &Line<'_>,
        message: &Message<'_>,
        record: &str,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        let part = part_of(record, self.is_qwen);
        let words = own_words_in(message.content);
        if part.answers.is_empty() {
            if is_interruption(&words) {
                self.is_stopped_by_user = true;
                draft.event(mark.stage("interrupted"));
            } else if text(line.parent).is_some()
                || is_true(line.is_synthetic)
                || is_added(message.content, &words)
            {
                draft.event(mark.stage("note"));
            } else if self.unasked(draft) {
                // The line after a result is by the user, and so is a replayed line. The task stays
                // unknown, because it wasn't printed.
                let is_asked = self.is_between || is_true(line.is_replay);
                draft.event(EventDraft {
                    stage: if is_asked { "prompt" } else { "note" },
                    ..mark
                });
            } else {
                draft.prompt(Some(&words), &mark);
            }
            return;
        }
        let lane = text(line.parent).unwrap_or_default();
        self.newest
            .get_mut(&*lane)
            .into_iter()
            .for_each(|(_, goes_on)| *goes_on = false);
        let mut steps: Vec<usize> = part
            .answers
            .iter()
            .filter_map(|answer| self.by_call.remove(&*answer.call))
            .collect();
        steps.dedup();
        let is_own = text(line.parent).is_none();
        let is_stopped = is_own && is_interruption(&words);
        self.is_stopped_by_user |= is_stopped;
        let stage = match (is_own, is_stopped) {
            (true, true) => "interrupted",
            (true, false) => stage_beside(&words, "result"),
            (false, _) => "result",
        };
        odd_results(message, draft);
        draft.results(&steps, mark.stage(stage), part);
    }

    /// Returns whether a line of the user may be by the program. If the task wasn't printed, no
    /// other user text in that turn is.
    fn unasked(&self, draft: &Draft<'_>) -> bool {
        !draft.has_task() && self.last.is_some()
    }

    /// Reads the usage of the whole run, including sub-agents if recorded.
    fn totals(&mut self, line: &Line<'_>, draft: &mut Draft<'_>) {
        let whole = |usage: Usage<'_>| {
            let beside = [usage.created, usage.read].map(count).into_iter().flatten();
            let input = count(usage.input).map(|input| beside.fold(input, u64::saturating_add));
            Whole {
                input,
                cached: count(usage.read),
                output: count(usage.output),
                reasoning: None,
                written: count(usage.created),
                written_1h: None,
            }
        };
        let each = |models: Option<&'_ str>| {
            let models = models
                .into_iter()
                .flat_map(walk::members)
                .map(|(_, usage)| Usage::of(usage));
            models
                .map(|usage| (whole(usage), number(usage.cost)))
                .collect::<Vec<_>>()
        };
        let plus = |(usage, cost): (Whole, Option<f64>), (more, and): (Whole, Option<f64>)| {
            (
                usage.plus(more),
                cost.zip(and).map(|(cost, and)| cost + and),
            )
        };
        if self.is_qwen {
            return self.counted(line, draft);
        }
        if line.since.or(line.models).is_some() {
            draft.totals();
            let window = line
                .models
                .or(line.since)
                .and_then(|models| self.window(models));
            draft.run().context_window = window.or(draft.run().context_window);
        }
        if let Some(since) = line.since {
            // Each result covers the usage since the previous one, including that of sub-agents.
            self.own = self.own.into_iter().chain(each(Some(since))).reduce(plus);
            // If it names no model, no request was made.
            let (usage, cost) = self.own.unwrap_or((Whole::default(), Some(0.0)));
            let total = number(line.cost).unwrap_or_default();
            if let Some(cost) = cost.filter(|cost| total - cost > LEAST_USD) {
                let reason = format!(
                    "the result's cost ({total} USD) covers the whole session, but this run cost only {cost} USD"
                );
                draft.issue(IssueKind::Copied, reason);
            }
            let run = draft.run();
            (run.tokens, run.usage, run.totals_with_children) = (sum_of(usage), usage, true);
            run.cost_usd = cost;
            run.cost_with_children = true;
            run.total = sum_of(usage).map(|tokens| self.total(tokens));
            return;
        }
        let sum = each(line.models)
            .into_iter()
            .reduce(plus)
            .map(|(usage, _)| usage);
        let own = self.exceeded(line, draft.run().model.as_deref());
        let read = self.read_by_models(line);
        // The program makes requests to other models, such as for titles, without printing them.
        let named = line.models.into_iter().flat_map(walk::members);
        let named = named
            .filter(|(name, _)| text(Some(name)).is_some_and(|name| self.models.contains(&*name)));
        let by_replies = named
            .map(|(_, told)| whole(Usage::of(told)))
            .reduce(Whole::plus);
        if own.is_some() {
            let said = text(line.cost)
                .or(line.cost.map(str::to_owned))
                .unwrap_or_default();
            let reason = format!(
                "the result's cost ({said} USD) and tokens by model cover more than the replies in this file, as in a \
                 resumed session that counts earlier usage, so the cost of this run is unknown"
            );
            draft.issue(IssueKind::Copied, reason);
        }
        let run = draft.run();
        // Older programs print no tokens by model. `usage` excludes sub-agents, and it depends on
        // the version whether it covers this turn or all turns.
        let is_alone = line.models.is_none() && self.turns <= 1 && self.children.is_empty();
        let told = line
            .usage
            .filter(|_| is_alone)
            .map(|usage| whole_of(tokens(usage)));
        let told = told.filter(|usage| sum_of(*usage).is_some());
        let usage = own.or(sum).or(told);
        if let Some(usage) =
            usage.map(|usage| self.earlier.map_or(usage, |earlier| earlier.plus(usage)))
        {
            (run.tokens, run.usage) = (sum_of(usage), usage);
            run.totals_with_children = own.is_none() && sum.is_some();
            let read = read.filter(|_| own.is_none());
            let tokens = sum_of(
                by_replies
                    .filter(|_| own.is_none() && self.earlier.is_none())
                    .unwrap_or(usage),
            );
            run.total = tokens.map(|tokens| Total {
                read,
                ..self.total(tokens)
            });
        }
        let cost = number(line.cost).map(|cost| cost + self.earlier_cost.unwrap_or_default());
        run.cost_usd = if own.is_some() {
            None
        } else {
            cost.or(run.cost_usd)
        };
        run.cost_with_children = run.cost_usd.is_some();
    }

    /// Reads the total of Qwen Code's program up to this result. Each program counts from its own
    /// start. If one program handles several prompts, later results include the earlier ones.
    fn counted(&mut self, line: &Line<'_>, draft: &mut Draft<'_>) {
        let Some(usage) = line.usage else { return };
        let told = Usage::of(usage);
        let [input, output, cached] = [
            told.input_tokens,
            told.output_tokens,
            told.cache_read_input_tokens,
        ]
        .map(count);
        let whole = Whole {
            input,
            cached,
            output,
            ..Whole::default()
        };
        let Some(tokens) = sum_of(whole).or_else(|| count(Counted::of(usage).total)) else {
            return;
        };
        let summed = draft.tokens_summed().unwrap_or_default();
        if let Some((before, summed_before)) = self.counted {
            let least = sum_of(before)
                .unwrap_or_default()
                .saturating_add(summed.saturating_sub(summed_before));
            if tokens < least {
                self.earlier = Some(self.earlier.map_or(before, |earlier| earlier.plus(before)));
            }
        }
        self.counted = Some((whole, summed));
        draft.totals();
        let all = self.earlier.map_or(whole, |earlier| earlier.plus(whole));
        let total = sum_of(all).unwrap_or(tokens);
        let run = draft.run();
        (run.tokens, run.usage, run.totals_with_children) = (Some(total), all, true);
        run.total = Some(Total {
            cached: all.cached,
            ..self.total(total)
        });
    }

    /// Builds a total that a result records.
    fn total(&self, tokens: u64) -> Total {
        let aside = match self.retries {
            0 => String::new(),
            1 => "1 retry is recorded".to_owned(),
            retries => format!("{retries} retries are recorded"),
        };
        let has_children = !self.children.is_empty() || !self.tasks.is_empty();
        let children = self
            .tasks
            .values()
            .fold(0, |sum: u64, tokens| sum.saturating_add(*tokens));
        // Each child run is reported when it's finished.
        let is_all = self.tasks.len() >= self.children.len() && self.tasks.is_whole();
        Total {
            tokens,
            record: "result",
            aside: aside.into(),
            has_children,
            children: Some(children).filter(|_| is_all && self.is_qwen),
            ..Total::default()
        }
    }

    /// Returns the input tokens of the models of the replies, by the result and by the replies.
    /// Returns `None` if either is unknown, or if the models also read input that isn't printed.
    fn read_by_models(&self, line: &Line<'_>) -> Option<(u64, u64)> {
        let is_alone = self.turns <= 1
            && self.children.is_empty()
            && self.earlier.is_none()
            && self.inputs.is_whole();
        let is_told = self.inputs.len() == self.steps() && is_alone && self.read_aside == 0;
        let models = line
            .models
            .filter(|_| is_told)
            .into_iter()
            .flat_map(walk::members);
        let is_known =
            |name: &str| text(Some(name)).is_some_and(|name| self.models.contains(&*name));
        let told = models
            .filter(|(name, _)| is_known(name))
            .map(|(_, usage)| Usage::of(usage));
        let read = |usage: Usage<'_>| {
            let beside = [usage.created, usage.read].map(count).into_iter().flatten();
            count(usage.input).map(|input| beside.fold(input, u64::saturating_add))
        };
        let recorded = told
            .map(read)
            .reduce(|sum, more| Some(sum?.saturating_add(more?)))??;
        let replies = self
            .inputs
            .values()
            .fold(0, |sum: u64, input| sum.saturating_add(*input));
        // A program that retries or compacts the conversation reads more than it prints.
        let is_explained = recorded > replies && (self.retries > 0 || self.is_compacted);
        (!is_explained).then_some((recorded, replies))
    }

    /// Returns the context window of the models of the replies, if they all have the same.
    fn window(&self, models: &str) -> Option<u64> {
        let is_known = |name: &str| {
            let name = text(Some(name)).unwrap_or_default();
            // The name in a reply lacks the suffix that requests the larger window.
            self.models
                .contains(name.strip_suffix("[1m]").unwrap_or(&name))
        };
        let mut windows = walk::members(models)
            .filter(|(name, _)| is_known(name))
            .map(|(_, counted)| count(Usage::of(counted).window));
        let first = windows.next().flatten().filter(|window| *window > 0)?;
        windows.all(|window| window == Some(first)).then_some(first)
    }

    /// Returns the run's own usage if its totals cover more than the run. This requires a model
    /// that was used only for the run's own replies, which read less than the total.
    fn exceeded(&self, line: &Line<'_>, model: Option<&str>) -> Option<Whole> {
        let usage = tokens(
            line.usage
                .filter(|_| self.children.is_empty() && !self.is_qwen)?,
        );
        let mut models = line.models.into_iter().flat_map(walk::members);
        let (_, counted) = models.find(|(name, _)| text(Some(name)).as_deref() == model)?;
        let counted = Usage::of(counted);
        let counted: u64 = [counted.input, counted.created, counted.read]
            .map(count)
            .into_iter()
            .flatten()
            .sum();
        let seen: u64 = self.inputs.values().sum();
        (counted > usage.input?.max(seen)).then_some(whole_of(usage))
    }

    /// Handles a part of a streamed reply. The last such line has the reply's final usage.
    fn partial(
        &mut self,
        line: &Line<'_>,
        record: &str,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        let event = line.event.map(Event::of).unwrap_or_default();
        let stage = text(event.kind).unwrap_or_default();
        let lane = text(line.parent).unwrap_or_default();
        let part = part_of(record, self.is_qwen);
        let step = self
            .newest
            .get(&*lane)
            .map(|(n, _)| *n)
            .filter(|_| part.tokens.is_some());
        let kind = if step.is_some() {
            EventKind::Inside
        } else {
            EventKind::Other
        };
        draft.event(EventDraft {
            kind,
            stage: &stage,
            step,
            ..mark
        });
        if let Some(n) = step {
            draft.part(n, part);
        }
    }
}

/// Converts the tokens of a result, which doesn't record reasoning tokens.
fn whole_of(usage: Tokens) -> Whole {
    Whole {
        reasoning: None,
        ..usage.into()
    }
}

/// Returns the sum of input and output tokens, if both are known.
fn sum_of(usage: Whole) -> Option<u64> {
    let sum = usage.input?.saturating_add(usage.output?);
    Some(sum).filter(|sum| *sum > 0)
}

/// Returns whether the program reports a failed request in place of the model's reply.
fn is_own(message: &Message<'_>, is_qwen: bool) -> bool {
    let tokens = || message.usage.and_then(|usage| told(usage, true, true));
    message.model == Some("\"<synthetic>\"")
        || is_qwen && tokens().is_none() && spoken(message.content).starts_with("[API Error")
}

/// Takes the facts about the run from the first line.
fn about(line: &Line<'_>, draft: &mut Draft<'_>) {
    let run = draft.run();
    run.run_id = short(line.session).or(run.run_id.take());
    run.model = short(line.model).or(run.model.take());
    run.project = short(line.cwd).or(run.project.take());
    let tool = |name: &str, version: Option<&str>| {
        text(version).map(|version| cut(&format!("{name} {version}")))
    };
    run.tool = tool("Claude Code", line.claude)
        .or_else(|| tool("Qwen Code", line.qwen))
        .or(run.tool.take());
}

/// Returns the end of the run that its result records.
fn ended(line: &Line<'_>, is_stopped_by_user: bool) -> Ended {
    let of = |value: Option<&str>| text(value).unwrap_or_default();
    let (subtype, terminal, stop) = (of(line.subtype), of(line.terminal), of(line.stop_reason));
    let errors = line
        .errors
        .into_iter()
        .flat_map(walk::items)
        .filter_map(|error| text(Some(error)));
    let fault = line
        .error
        .map(Fault::of)
        .and_then(|fault| text(fault.message));
    let said = || text(line.said).filter(|_| is_true(line.is_error));
    let detail = errors
        .chain(fault)
        .reduce(|all, more| format!("{all}; {more}"))
        .or_else(said)
        .unwrap_or_default();
    let end = |word: &str, headline: &str, outcome| {
        Ended::new(
            if word.is_empty() { "result" } else { word },
            headline,
            outcome,
            Certainty::Recorded,
        )
    };
    let interrupted = terminal.starts_with("aborted");
    // A failure must not get a word for success.
    let failure = match (&*subtype, &*terminal) {
        ("success" | "", "" | "completed") => "error",
        ("success" | "", terminal) => terminal,
        (subtype, _) => subtype,
    };
    let ended = match (&*subtype, &*terminal, &*stop) {
        ("error_max_turns", ..) | (_, "max_turns", _) => {
            // The program's number includes the turn that it didn't start.
            let max = limit_in(&detail);
            return end("error_max_turns", "Turn limit reached", Outcome::Truncated)
                .compare(max, max, "turns");
        }
        ("error_max_budget_usd", ..) | (_, "budget_exhausted", _) => {
            let end = end(
                "error_max_budget_usd",
                "Cost limit reached",
                Outcome::Truncated,
            );
            return end.compare(number(line.cost), limit_in(&detail), "usd");
        }
        _ if interrupted => {
            let headline = if is_stopped_by_user {
                "Interrupted by the user"
            } else {
                "Interrupted"
            };
            return end(&terminal, headline, Outcome::Cancelled);
        }
        (_, _, "refusal") => end("refusal", Ended::REFUSED, Outcome::Failed),
        (_, "prompt_too_long" | "blocking_limit", _) => {
            end(&terminal, Ended::CONTEXT_FULL, Outcome::Failed)
        }
        _ if stop == "max_tokens" || detail.contains("output token maximum") => {
            end("max_tokens", Ended::CUT_REPLY, Outcome::Truncated)
        }
        (_, "stop_hook_prevented" | "hook_stopped", _) => {
            end(&terminal, "Stopped by a hook", Outcome::Halted)
        }
        _ if detail.starts_with("Loop detection") => end(&subtype, Ended::LOOPED, Outcome::Halted),
        (_, "api_error", _) => end(&terminal, "API error", Outcome::Failed),
        _ if detail.contains("[API Error") => end(failure, "API error", Outcome::Failed),
        ("success" | "", "completed", _) | ("success", "", _) if !is_true(line.is_error) => {
            end(&subtype, "Answered", Outcome::Completed)
        }
        (_, terminal, _) if FAULTS.contains(&terminal) => {
            end(terminal, "Failed with an error", Outcome::Failed)
        }
        _ if is_true(line.is_error) || subtype.starts_with("error") => {
            end(failure, "Failed with an error", Outcome::Failed)
        }
        // An unknown word only shows that the run ended.
        _ => end(
            if terminal.is_empty() {
                &subtype
            } else {
                &terminal
            },
            "Turn ended",
            Outcome::Unknown,
        ),
    };
    ended.detail(cut(&detail))
}

/// Returns the limit in brackets in a message: `(3)`, `($0.05)`.
fn limit_in(detail: &str) -> Option<f64> {
    let (_, rest) = detail.rsplit_once('(')?;
    rest.split_once(')')?
        .0
        .trim_start_matches('$')
        .parse()
        .ok()
        .filter(|limit: &f64| limit.is_finite())
}

/// Returns the part of a step that a line contains.
fn part_of(record: &str, is_qwen: bool) -> Part {
    let line = Line::of(record);
    let mut part = Part::default();
    if let Some(event) = line
        .event
        .map(Event::of)
        .filter(|event| event.kind == Some("\"message_delta\""))
    {
        // If a service only reports the output tokens, the rest is known from an earlier line.
        part.tokens = event
            .usage
            .map(tokens)
            .filter(|tokens| tokens.input.is_some());
        part.others = event
            .usage
            .map(|usage| others(usage, None))
            .unwrap_or_default();
        part.finish = event
            .delta
            .map(Delta::of)
            .and_then(|delta| text(delta.stop_reason));
        return part;
    }
    let message = line.message.map(Message::of).unwrap_or_default();
    let reply = line.kind == Some("\"assistant\"");
    if reply {
        part.agent = text(line.agent).or_else(|| text(line.parent));
        part.is_nested = is_text(line.parent);
        part.model = text(message.model);
        part.finish = text(message.stop_reason);
        part.tokens = message
            .usage
            .and_then(|usage| told(usage, is_qwen, part.finish.is_some()));
        part.others = message
            .usage
            .filter(|_| !is_qwen)
            .map(|usage| others(usage, message.model))
            .unwrap_or_default();
    }
    blocks(&message, reply, line.result, &mut part);
    if is_qwen {
        part.answers.iter_mut().for_each(cancelled_in_words);
        for answer in &mut part.answers {
            if answer.error.as_deref().is_some_and(names_command) {
                *answer = reported(std::mem::take(answer), "");
            }
        }
    }
    if let Some(result) = line.result.filter(|result| result.starts_with('{')) {
        part.changes = changes(&Result::of(result), None);
    }
    part
}

/// The program marks a cancelled call as failed. Only the error text shows that it was cancelled.
fn cancelled_in_words(answer: &mut Answer) {
    let is_cancelled = |words: &String| words.starts_with("[Operation Cancelled]");
    if answer.status == Some("error") && answer.error.as_ref().is_some_and(is_cancelled) {
        answer.status = Some("cancelled");
    }
}

/// Returns the tokens of a reply that the line records.
fn told(usage: &str, is_qwen: bool, is_over: bool) -> Option<Tokens> {
    if is_qwen {
        let usage = Usage::of(usage);
        let (input, output) = (count(usage.input_tokens), count(usage.output_tokens));
        let is_known =
            input.is_some_and(|input| input > 0) || output.is_some_and(|output| output > 0);
        // Here the input includes cached tokens.
        let tokens = Tokens {
            input,
            output,
            cached: count(usage.cache_read_input_tokens),
            ..Tokens::default()
        };
        return is_known.then_some(tokens);
    }
    let tokens = tokens(usage);
    Some(Tokens {
        output: tokens.output.filter(|_| is_over),
        reasoning: None,
        ..tokens
    })
}
