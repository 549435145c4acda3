//! Reads sessions of Claude Code: one JSON object per line, appended to
//! `projects/PROJECT/SESSION.jsonl`. Sub-agents have separate files. A document next to such a file
//! names the sub-agent that started this one.
//!
//! The vendor doesn't specify the format. This reader is based on versions 1.0.24 to 2.1.330. Each
//! block of a model's reply is a separate line, and the lines of a reply share `message.id`. Tool
//! results are lines of the user. Other lines may come in between. Each line of a reply repeats its
//! `usage`.

mod changes;
mod lines;
pub(super) mod stream;

use changes::{Result, changes};
use lines::{Line, Lines};

use super::lines::stem;
use super::part::{self, quoted, text};
use super::recent::{Recent, RecentSet};
use super::turns::Turns;
use super::value::{
    contains, count, cut, filled, is_added, is_text, is_true, member, micros, number, objects,
    own_words_in, short, spoken, stage_beside,
};
use super::watch::{begun, begun_member};
use super::{
    Answer, CallDraft, Draft, EventDraft, Part, Reader, Shape, Source, Tokens, Tool, USER_SHELL,
    UserShell,
};
use crate::model::json::walk;
use crate::model::step::NO_WORDS;
use crate::model::{
    Can, Capabilities, Certainty, Compaction, Ended, EventKind, Format, IssueKind, Manifest,
    Outcome, Total,
};

/// A session file.
pub(super) static SESSION: Tool = Tool {
    format: Format {
        name: "Claude Code session",
        can: Capabilities {
            state: Can::Partly,
            times: Can::Yes,
            tokens: Can::Yes,
            cost: Can::Partly,
            ..Capabilities::NONE
        },
        file: "session file",
        is_session: true,
        resume: "claude --resume",
        assemble: Some(|n, records| {
            part::line(
                n,
                records.iter().map(|record| {
                    let line = Line::of(record);
                    let message = line.message.map(Message::of).unwrap_or_default();
                    part_of(&line, &message)
                }),
            )
        }),
        ..Format::UNKNOWN
    },
    shape: Shape::Lines,
    is: |name, head| name.ends_with(".jsonl") && is_session(head),
    reader: || Box::new(Session::default()),
};

/// Tools that only ask the user.
const QUESTIONS: &[&str] = &["AskUserQuestion", "ExitPlanMode"];

/// The agent name for lines of sub-agents that don't name their agent.
const INLINE: &str = "sidechain";
/// The start of the text that the program writes above user commands that the model shouldn't reply
/// to.
const CAVEAT: &str = "Caveat:";
/// The start of the text that the program writes when a task in the background ended.
const NOTICE: &str = "<task-notification>";

/// Returns whether a text is what the program writes above user commands, and nothing else. Lines
/// that other programs copied may lack the mark for such texts.
fn is_caveat(words: &str) -> bool {
    words.starts_with(CAVEAT)
        && words
            .trim_end()
            .ends_with("unless the user explicitly asks you to.")
}

/// Returns whether the line belongs to a sub-agent without a separate file. In a sub-agent's own
/// file, all lines are marked as its own.
fn is_nested(line: &Line<'_>, draft: &mut Draft<'_>) -> bool {
    is_true(line.sidechain) && draft.run().parent.is_none()
}

/// How the result begins that a resumed session gets for a call that was killed.
const UNRECORDED: &str = "[Tool call interrupted: ";

/// How the names of sub-agents' files begin, also those of Qwen Code.
pub(super) const AGENT: &str = "agent-";

/// Returns the name of the document about the sub-agent whose lines are in this file.
pub(super) fn document_of(name: &str) -> Option<String> {
    Some(format!("{}.meta.json", stem(name)?)).filter(|_| name.starts_with(AGENT))
}

/// Returns whether a text is exactly what the program writes when the user interrupts it. A prompt
/// may begin with the same words.
fn is_interruption(words: &str) -> bool {
    matches!(
        words.trim(),
        "[Request interrupted by user]" | "[Request interrupted by user for tool use]"
    )
}

fields! {
    struct Message { id, model, content, stop_reason, usage }
    struct Block {
        kind = "type", text, thinking, id, name, input, content, tool_use_id, is_error,
    }
    struct Usage {
        input_tokens, cache_creation_input_tokens, cache_creation, cache_read_input_tokens, output_tokens,
        output_tokens_details, iterations,
    }
    struct Iteration { kind = "type", model }
    struct Details { thinking_tokens }
    struct Created { hour = "ephemeral_1h_input_tokens" }
    struct Attachment { kind = "type", max = "maxTurns", total, mode = "commandMode", data, prompt }
    struct Compacted { trigger, tokens = "preTokens", after = "postTokens" }
    struct Counted { input = "inputTokens", created = "cacheCreationInputTokens", read = "cacheReadInputTokens", output = "outputTokens" }
}

/// Returns whether the first lines are those of a session, by keys that only sessions have, because
/// a session often starts with summaries or bookkeeping. Other programs that keep sessions keep
/// only messages and their times.
fn is_session(head: &[u8]) -> bool {
    objects(head).any(|text| {
        let line = Line::of(text);
        // A captured stream has `session_id`.
        (is_text(line.session) && (is_text(line.uuid) || is_text(line.operation)))
            || (line.kind == Some("\"summary\"") && is_text(line.leaf))
            || is_bare_message(&line)
            || is_cut(&line, text)
    })
}

/// Returns whether a line is longer than the part of a file that is examined. Its session may come
/// after its message.
fn is_cut(line: &Line<'_>, text: &str) -> bool {
    let is_queued = line.kind == Some("\"queue-operation\"") && is_text(line.operation);
    if !is_queued && (line.sidechain.is_none() || line.message.is_some()) {
        return false;
    }
    let members = begun(text.as_bytes());
    match members.last() {
        Some(("\"message\"", message)) => {
            let has_parent = members.iter().any(|(name, _)| *name == "\"parentUuid\"");
            has_parent && begun_member(message, "\"role\"").is_some()
        }
        Some(("\"content\"", content)) => {
            is_queued && content.starts_with('"') && walk::string(content).is_none()
        }
        _ => false,
    }
}

/// Returns whether a line is a message that doesn't name its session.
fn is_bare_message(line: &Line<'_>) -> bool {
    let is_message = matches!(line.kind, Some("\"user\"" | "\"assistant\""));
    let is_nobodys = line.session.is_none() && line.session_of_stream.is_none();
    let content = line
        .message
        .filter(|message| message.starts_with('{'))
        .and_then(|message| Message::of(message).content);
    let is_spoken = content.is_some_and(|content| content.starts_with(['"', '[']));
    is_message && is_nobodys && is_spoken && micros(line.timestamp).is_some()
}

/// Summaries that wait for the lines they name, at most.
const MAX_SUMMARIES: usize = 64;

/// A session while it is being read.
#[derive(Debug, Default)]
struct Session {
    lines: Lines,
    by_message: Recent<Box<str>, usize>,
    by_call: Recent<Box<str>, usize>,
    /// The steps with calls whose commands run in the background, by call.
    tasks: Recent<Box<str>, usize>,
    children: RecentSet<Box<str>>,
    /// The number of sub-agents whose lines are in this file without naming the agent, as in old
    /// versions.
    inline: u64,
    /// The newest step of each agent in the file.
    newest: Recent<Box<str>, usize>,
    last: Option<usize>,
    turns: u64,
    /// The end of the turn, if a line records it.
    end: Option<Ended>,
    /// The state before the newest prompt.
    ends: Turns,
    /// The finish reason of the last reply.
    finish: Option<Box<str>>,
    /// Whether a prompt or a tool result came after the last reply, so that another reply is due.
    due: bool,
    /// Whether the newest line of the user is a command.
    has_command: bool,
    /// The total of the newest cost line, unless a reply came since.
    cost: Option<f64>,
    /// The newest total of each session in the file.
    costs: Recent<Box<str>, f64>,
    budget: Option<f64>,
    /// The tokens in the newest cost line.
    total: Option<u64>,
    has_copies: bool,
    /// Titles, ranked by who chose them: the user (2), the program (1), or a summary (0). The first
    /// one is shown.
    titles: Vec<(u8, Box<str>)>,
    /// Summaries of lines that haven't been read yet, with a hash of the line. Most are about other
    /// sessions, and their lines never come.
    summaries: Vec<(u64, Box<str>)>,
    /// Whether another program runs this one and gave it its prompt. The session then ends with the
    /// turn.
    is_driven: bool,
    /// The answer that the model gave as JSON, by calling a tool.
    output: Option<Box<str>>,
    /// The sub-agent that started this one. The lines name only the session.
    parent: Option<Box<str>>,
}

impl Reader for Session {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        let line = Line::of(record.text);
        let ts = draft.time(line.timestamp);
        let before = draft.latest();
        let kind = text(line.kind).unwrap_or_default();
        let mark = EventDraft::new(&kind, ts);
        let copied = self.lines.copied(&line, record.name());
        if self.lines.is_again(&line, record.text) {
            return draft.again(&mark);
        }
        if let Some(from) = copied {
            self.lines.add(&line, None);
            self.has_copies = true;
            return draft.copied(&from, &mark);
        }
        let is_misplaced = self.lines.is_misplaced(&line);
        self.about(&line, record.name(), draft);
        self.summary_of(&line, draft);
        let message = line.message.map(Message::of).unwrap_or_default();
        let mut step = None;
        match &*kind {
            "assistant" if is_true(line.api_error) || message.model == Some("\"<synthetic>\"") => {
                self.api_error(&line, &message, mark, draft);
            }
            "assistant" => {
                step = Some(self.reply(&line, &message, ts, before, draft));
            }
            "user" => self.user(&line, &message, mark, draft),
            "attachment" => self.attachment(&line, mark, draft),
            "cost-state" => {
                let id = text(line.session).unwrap_or_default();
                self.costs
                    .extend(number(line.total_cost).map(|cost| (id.into(), cost)));
                self.cost = number(line.total_cost)
                    .filter(|_| self.costs.is_whole())
                    .map(|_| self.costs.values().sum());
                self.total = line.models.map(counted);
                draft.event(mark);
            }
            "ai-title" | "custom-title" | "summary" => {
                draft.event(mark);
                self.title(&kind, &line, draft);
            }
            _ => {
                let stage = text(line.subtype).unwrap_or_default();
                let event = draft.event(mark.stage(&stage).failed(stage == "api_error"));
                if stage == "compact_boundary" {
                    let told = line.compacted.map(Compacted::of).unwrap_or_default();
                    let trigger = short(told.trigger).unwrap_or_default();
                    draft.compacted(Compaction {
                        event,
                        tokens: count(told.tokens),
                        tokens_after: count(told.after),
                        trigger,
                    });
                }
            }
        }
        self.task_ended(&line, &message, draft);
        self.branch(&line, step, draft);
        if is_misplaced {
            draft.issue(
                IssueKind::Join,
                "the line comes after a line that names it as its parent",
            );
        }
    }

    fn beside(&mut self, document: &str) {
        self.parent = short(member(document, "parentAgentId"));
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        let (ended, answer) = self.settled(draft);
        let answer = self.output.clone().or(answer);
        let (turns, children) = (self.turns, self.children.len() as u64 + self.inline);
        // The program records the total cost when it ends.
        let may_go_on = !self.is_driven && self.cost.is_none();
        // In a copied session, the program's count starts with the cost of the original.
        let (cost, at) = (self.cost.filter(|_| !self.has_copies), draft.latest());
        let asks = self
            .last
            .filter(|_| ended.is_none())
            .and_then(|n| draft.asks(n, QUESTIONS));
        // After an interruption or a failed request, the user may continue too.
        let is_users_turn = asks.is_some() || ended.is_some();
        let run = draft.run();
        run.parent = run
            .parent
            .take()
            .map(|session| self.parent.clone().unwrap_or(session));
        run.awaits_user = may_go_on && run.parent.is_none() && is_users_turn;
        run.asks_user = asks;
        run.ended = ended.map(Box::new);
        run.updated_at = at.filter(|_| run.ended.is_some());
        run.final_result = answer;
        run.turns = Some(turns);
        run.children = Some(children);
        run.child_ids = self.children.listed();
        run.cost_usd = cost;
        run.cost_with_children = cost.is_some();
        // In a resumed or copied session, the program includes earlier usage.
        let is_whole = !self.has_copies && self.costs.len() == 1;
        run.total = self.total.filter(|_| is_whole).map(|tokens| Total {
            tokens,
            record: "cost-state line",
            aside:
                "it includes requests without a saved reply, and omits processes that were killed"
                    .into(),
            counts_other: true,
            has_children: children > 0,
            counts_children: true,
            ..Total::default()
        });
    }
}

impl Session {
    /// Returns the end and the answer of the session. A turn without steps keeps those of the
    /// previous turn.
    fn settled(&self, draft: &Draft<'_>) -> (Option<Ended>, Option<Box<str>>) {
        self.ends.settle_said(self.ended(draft), self.last, draft)
    }

    /// Sets the title of the session: the user's, otherwise the program's. A summary is the title
    /// of the branch whose last message it names, if that message is in this file.
    fn title(&mut self, kind: &str, line: &Line<'_>, draft: &mut Draft<'_>) {
        let (rank, title) = match kind {
            "custom-title" => (2, line.custom_title),
            "ai-title" => (1, line.ai_title),
            _ => (0, line.told_summary),
        };
        let Some(title) = filled(title).map(|title| cut(&title)) else {
            return;
        };
        // A file begins with summaries of other sessions of its project.
        if rank == 0 {
            match self.lines.summarised(line) {
                Some((_, true)) => {}
                Some((id, false)) => {
                    if self.summaries.len() == MAX_SUMMARIES {
                        self.summaries.remove(0);
                    }
                    return self.summaries.push((id, title));
                }
                None => return,
            }
        }
        self.set_title(rank, title, draft);
    }

    /// Takes the summary that was waiting for this line.
    fn summary_of(&mut self, line: &Line<'_>, draft: &mut Draft<'_>) {
        if self.summaries.is_empty() {
            return;
        }
        let id = Lines::id(line);
        let is_named = |(named, _): &(u64, Box<str>)| Some(*named) == id;
        if let Some(at) = self.summaries.iter().rposition(is_named) {
            let (_, title) = self.summaries.remove(at);
            self.set_title(0, title, draft);
        }
    }

    fn set_title(&mut self, rank: u8, title: Box<str>, draft: &mut Draft<'_>) {
        // The newest title of each rank is shown.
        match self.titles.iter_mut().find(|(known, _)| *known == rank) {
            Some((_, known)) => *known = title,
            None => self.titles.push((rank, title)),
        }
        self.titles.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
        draft.run().titles = self.titles.iter().map(|(_, title)| title.clone()).collect();
    }

    /// Records which branch the line is on.
    fn branch(&mut self, line: &Line<'_>, step: Option<usize>, draft: &mut Draft<'_>) {
        self.lines
            .add(line, step)
            .into_iter()
            .for_each(|(step, is_abandoned)| draft.leave(step, is_abandoned));
    }

    /// Takes the facts about the whole session from a line.
    fn about(&mut self, line: &Line<'_>, file: &str, draft: &mut Draft<'_>) {
        draft.session(line.session, line.agent, file);
        if let Some(entrypoint) = text(line.entrypoint) {
            self.is_driven = entrypoint.starts_with("sdk");
        }
        let run = draft.run();
        if let Some(version) = text(line.version) {
            run.tool = Some(cut(&format!("Claude Code {version}")));
        }
        if run.project.is_none() {
            run.project = text(line.cwd).map(|cwd| cut(&cwd));
        }
        Manifest::add_name(&mut run.branches, short(line.branch));
    }

    /// Handles a block of the model's reply.
    fn reply(
        &mut self,
        line: &Line<'_>,
        message: &Message<'_>,
        ts: Option<i64>,
        before: Option<i64>,
        draft: &mut Draft<'_>,
    ) -> usize {
        let is_nested = is_nested(line, draft);
        let id = filled(message.id).or_else(|| filled(line.uuid));
        let known = id
            .as_ref()
            .and_then(|id| self.by_message.get(&**id).copied());
        let mark = EventDraft {
            kind: EventKind::Decided,
            phase: "assistant",
            ts,
            ..EventDraft::default()
        };
        let n = draft.reply(known, before, mark);
        if known.is_none() {
            self.by_message.extend(id.map(|id| (id.into(), n)));
            let lane = text(line.agent).unwrap_or_else(|| {
                if is_nested {
                    INLINE.to_owned()
                } else {
                    String::new()
                }
            });
            if let Some(last) = self.newest.insert(lane.into(), n) {
                draft.close(last);
            }
        }
        let mut part = part_of(line, message);
        part.is_nested = is_nested;
        for call in &part.calls {
            self.by_call.insert((*call.id).into(), n);
        }
        (self.cost, self.has_command) = (None, false);
        // The end of a sub-agent's turn isn't that of this one.
        if !is_nested {
            if let Some(model) = &part.model {
                draft.run().model = Some(cut(model));
            }
            self.finish = part.finish.as_deref().map(Into::into);
            (self.last, self.end, self.due) = (Some(n), None, false);
            self.output = None;
        }
        draft.part(n, part);
        n
    }

    /// Handles a line of the user: tool results, a prompt, or text by the program.
    fn user(
        &mut self,
        line: &Line<'_>,
        message: &Message<'_>,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        let blocks = || {
            message
                .content
                .into_iter()
                .flat_map(walk::items)
                .map(Block::of)
        };
        let mut steps: Vec<usize> = Vec::new();
        let mut lost = 0;
        for block in blocks().filter(|block| block.kind == Some("\"tool_result\"")) {
            match text(block.tool_use_id).and_then(|id| self.by_call.get(&*id).copied()) {
                Some(n) if steps.contains(&n) => {}
                Some(n) => steps.push(n),
                None => lost += 1,
            }
        }
        let words = own_words_in(message.content);
        if !steps.is_empty() || lost > 0 {
            let part = part_of(line, message);
            let failed = part.has_failed();
            let is_stopped = is_interruption(&words);
            let stage = if is_stopped {
                "interrupted"
            } else {
                stage_beside(&words, "result")
            };
            let step = steps.first().copied();
            let at = draft.event(EventDraft {
                kind: EventKind::Inside,
                stage,
                step,
                failed,
                ..mark
            });
            odd_results(message, draft);
            if let Some(result) = line.result.filter(|result| result.starts_with('{'))
                && is_text(Result::of(result).background)
                && let ([n], [answer]) = (&*steps, &*part.answers)
            {
                draft.begin_task(*n);
                self.tasks.insert((*answer.call).into(), *n);
            }
            // A run is never its own child.
            let child = line
                .result
                .map(Result::of)
                .and_then(|result| text(result.agent));
            if let Some(child) = child.filter(|child| draft.run().run_id.as_deref() != Some(child))
            {
                self.children.insert(child.into());
            }
            for n in steps {
                if !draft.part(n, part.clone()) {
                    lost += 1;
                }
            }
            if lost > 0 {
                draft.orphan(&part);
            }
            self.due |= !is_nested(line, draft);
            if is_true(line.ends_turn) && self.output.is_some() && !is_nested(line, draft) {
                let end = Ended::new(
                    "toolEndsTurn",
                    "Answered",
                    Outcome::Completed,
                    Certainty::Recorded,
                );
                self.end = Some(end.at_event(at));
            }
            if is_stopped && !is_nested(line, draft) {
                let end = Ended::new(
                    &words,
                    "Interrupted by the user",
                    Outcome::Cancelled,
                    Certainty::Recorded,
                );
                self.end = Some(end.at_event(at));
            }
            return;
        }
        if is_nested(line, draft) {
            // A sub-agent's first prompt has no parent line.
            self.inline += u64::from(!is_text(line.parent));
            draft.event(mark.stage("note"));
            return;
        }
        if is_interruption(&words) || line.interrupted.is_some() {
            // After the end of a turn, an interruption belongs to another turn, even if no prompt
            // began it. If the record names the interrupted message, the turn hadn't ended.
            if self.finish.is_some() && line.interrupted.is_none() && self.ended(draft).is_some() {
                let (end, answer) = self.settled(draft);
                self.ends
                    .begin(self.last.map_or(0, |last| last + 1), end, answer, None);
            }
            let at = draft.event(mark.stage("interrupted"));
            let end = Ended::new(
                &words,
                "Interrupted by the user",
                Outcome::Cancelled,
                Certainty::Recorded,
            );
            self.end = Some(end.at_event(at));
            return;
        }
        let is_command = words.starts_with("<command-")
            || words.starts_with("<local-command")
            || is_caveat(&words)
            || words.starts_with("<bash-");
        // A custom command acts as a prompt. The program writes the prompt's text in the next line.
        let is_expanded =
            self.has_command && is_true(line.meta) && !is_command && !words.starts_with(CAVEAT);
        let is_added = is_added(message.content, &words);
        self.has_command = words.starts_with("<command-") || is_added && self.has_command;
        let is_note = is_true(line.meta) || is_true(line.summary) || is_command;
        if !is_expanded && is_note || is_added {
            let stage = if is_true(line.summary) {
                "summary"
            } else if UserShell::is_in(&words) {
                USER_SHELL
            } else {
                "note"
            };
            draft.event(EventDraft { stage, ..mark });
            // The program itself requests the rest of a truncated reply.
            if is_true(line.meta) && self.finish.as_deref() == Some("max_tokens") {
                (self.finish, self.due) = (None, true);
            }
            return;
        }
        let (end, answer) = self.settled(draft);
        self.ends
            .begin(self.last.map_or(0, |last| last + 1), end, answer, None);
        // The program begins a turn too, to report that a task in the background ended.
        if words.starts_with(NOTICE) {
            draft.event(mark.stage("queued_notice"));
        } else {
            draft.prompt(Some(&words), &mark);
            self.turns += 1;
        }
        self.newest.drain().for_each(|(_, n)| draft.close(n));
        // The program records the budget again in each turn.
        (self.end, self.finish, self.due, self.budget) = (None, None, true, None);
    }

    /// Handles a failed request. The program writes the error in place of the model's reply.
    fn api_error(
        &mut self,
        line: &Line<'_>,
        message: &Message<'_>,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        let words = spoken(message.content);
        let at = draft.event(mark.stage("API error").failed(true));
        if !is_true(line.api_error) {
            return;
        }
        // The model's own finish reason already records this end.
        if !matches!(self.finish.as_deref(), Some("refusal" | "max_tokens")) {
            let end = Ended::new(
                "api_error",
                "API error",
                Outcome::Failed,
                Certainty::Recorded,
            );
            self.end = Some(end.detail(cut(&words)).at_event(at));
        }
    }

    /// Adds the end of a command in the background to the call that started it, if the line is the first
    /// one that reports it.
    fn task_ended(&mut self, line: &Line<'_>, message: &Message<'_>, draft: &mut Draft<'_>) {
        if self.tasks.is_empty() {
            return;
        }
        let Some(end) = task_in(line, message) else {
            return;
        };
        if let Some(n) = self.tasks.remove(&*end.call) {
            let beside = vec![end];
            draft.part(
                n,
                Part {
                    beside,
                    ..Part::default()
                },
            );
            draft.end_task(n);
        }
    }

    fn attachment(&mut self, line: &Line<'_>, mark: EventDraft<'_>, draft: &mut Draft<'_>) {
        let attachment = line.attachment.map(Attachment::of).unwrap_or_default();
        let kind = text(attachment.kind).unwrap_or_default();
        // The program queues its own notices in the same way.
        let is_notice = text(attachment.mode).is_some_and(|mode| mode != "prompt");
        let stage = if kind == "queued_command" && is_notice {
            "queued_notice"
        } else {
            &*kind
        };
        let at = draft.event(EventDraft { stage, ..mark });
        match &*kind {
            "max_turns_reached" => {
                let end = Ended::new(
                    "max_turns_reached",
                    "Turn limit reached",
                    Outcome::Truncated,
                    Certainty::Recorded,
                );
                // The program's number includes the turn that it didn't start.
                let max = number(attachment.max);
                self.end = Some(end.compare(max, max, "turns").at_event(at));
            }
            "budget_usd" => self.budget = number(attachment.total).or(self.budget),
            "structured_output" => self.output = attachment.data.map(cut),
            _ => {}
        }
    }

    /// Determines the end of the last turn: as recorded by a line, or inferred from the last reply.
    /// Returns `None` if the turn may continue.
    fn ended(&self, draft: &Draft<'_>) -> Option<Ended> {
        if self.end.is_some() {
            return self.end.clone();
        }
        if let Some((cost, budget)) = self
            .cost
            .zip(self.budget)
            .filter(|(cost, budget)| cost >= budget)
        {
            let end = Ended::new(
                "budget_usd",
                "Cost limit reached",
                Outcome::Truncated,
                Certainty::Inferred,
            );
            return Some(end.compare(Some(cost), Some(budget), "usd"));
        }
        let waits = self.last.is_some_and(|n| draft.unanswered(n) > 0);
        if self.due || waits || self.last.is_none() {
            return None;
        }
        let of = |headline, outcome| {
            Some(Ended::new(
                self.finish.as_deref()?,
                headline,
                outcome,
                Certainty::Recorded,
            ))
        };
        match self.finish.as_deref() {
            Some("tool_use" | "pause_turn") => None,
            // A reply is written block by block, so the text so far is a thought.
            None if self.last.and_then(|n| draft.said(n)).is_none() => None,
            Some("max_tokens") => of(Ended::CUT_REPLY, Outcome::Truncated),
            Some("refusal") => of(Ended::REFUSED, Outcome::Failed),
            Some("model_context_window_exceeded") => of(Ended::CONTEXT_FULL, Outcome::Failed),
            None => Some(Ended::answered(Ended::NO_CALLS)),
            Some(finish @ ("end_turn" | "stop_sequence")) => Some(Ended::answered(finish)),
            Some(finish) => Some(Ended::new(
                finish,
                "Turn ended",
                Outcome::Unknown,
                Certainty::Inferred,
            )),
        }
    }
}

/// Returns the sum of the tokens of all models in a table.
fn counted(models: &str) -> u64 {
    let all = walk::members(models).map(|(_, told)| Counted::of(told));
    let each = all.flat_map(|told| [told.input, told.created, told.read, told.output]);
    each.filter_map(count).fold(0, u64::saturating_add)
}

/// Returns the part of a step that a line contains.
fn part_of(line: &Line<'_>, message: &Message<'_>) -> Part {
    let mut part = Part::default();
    let reply = line.kind == Some("\"assistant\"");
    if reply {
        part.agent = text(line.agent);
        part.model = text(message.model);
        part.finish = text(message.stop_reason);
        part.tokens = message.usage.map(tokens);
        part.others = message
            .usage
            .map(|usage| others(usage, message.model))
            .unwrap_or_default();
    }
    part.beside.extend(task_in(line, message));
    blocks(message, reply, line.result, &mut part);
    if let Some(result) = line.result.filter(|result| result.starts_with('{')) {
        part.changes = changes(&Result::of(result), text(line.cwd).as_deref());
    }
    part
}

/// Returns the end of a command in the background, if a line reports it.
fn task_in(line: &Line<'_>, message: &Message<'_>) -> Option<Answer> {
    let words = match line.kind? {
        "\"queue-operation\"" => text(line.content)?,
        "\"attachment\"" => text(Attachment::of(line.attachment?).prompt)?,
        // Few lines are notices, so that the texts of the others aren't decoded.
        "\"user\"" => {
            let content = message.content?;
            let name = NOTICE.trim_matches(['<', '>']);
            spoken(Some(content).filter(|content| contains(content.as_bytes(), &[name])))
        }
        _ => return None,
    };
    let notice = words.trim_start().strip_prefix(NOTICE)?;
    let of = |tag: &str| {
        let (_, rest) = notice.split_once(&format!("<{tag}>"))?;
        let (inside, _) = rest.split_once(&format!("</{tag}>"))?;
        Some(inside.trim())
    };
    let status = match of("status")? {
        "completed" => "success",
        "failed" => "error",
        "killed" | "stopped" => "cancelled",
        _ => return None,
    };
    let said = of("summary").unwrap_or_default();
    let exit = said.rsplit_once("exit code ").map(|(_, code)| code);
    Some(Answer {
        call: of("tool-use-id")?.to_owned(),
        status: Some(status),
        output: String::new(),
        error: (status != "success").then(|| match said {
            "" => NO_WORDS.to_owned(),
            said => said.to_owned(),
        }),
        exit: exit.and_then(|code| code.trim_end_matches([')', '.']).parse().ok()),
        ms: None,
    })
}

/// Reports issues in the tool results in a message.
fn odd_results(message: &Message<'_>, draft: &mut Draft<'_>) {
    let blocks = message
        .content
        .into_iter()
        .flat_map(walk::items)
        .map(Block::of);
    let is_odd = |flag: &str| !matches!(flag, "true" | "false" | "null");
    for flag in blocks
        .filter(|block| block.tool_use_id.is_some())
        .filter_map(|block| block.is_error)
    {
        if is_odd(flag) {
            let reason = format!(
                "is_error is {}, which isn't a boolean, so the call's outcome is unknown",
                cut(flag)
            );
            draft.issue(IssueKind::Field, reason);
        }
    }
}

/// Reads the blocks of a message: the model's reply, or tool results.
fn blocks(message: &Message<'_>, reply: bool, result: Option<&str>, part: &mut Part) {
    if let Some(said) = text(message.content).filter(|_| reply) {
        part.text.push(said);
    }
    for block in message
        .content
        .into_iter()
        .flat_map(walk::items)
        .map(Block::of)
    {
        match (block.kind, reply) {
            (Some("\"text\""), true) => part
                .text
                .extend(text(block.text).filter(|text| !text.is_empty())),
            (Some("\"thinking\""), true) => part
                .thought
                .extend(text(block.thinking).filter(|text| !text.is_empty())),
            (Some("\"tool_use\"" | "\"server_tool_use\""), true) => part.calls.push(CallDraft {
                id: text(block.id).unwrap_or_default(),
                name: text(block.name).unwrap_or_default(),
                args: block.input.unwrap_or_default().to_owned(),
            }),
            (Some("\"tool_result\""), _) => part.answers.push(answer(&block, result)),
            // For its own tools, the service puts the results into the reply.
            (Some(kind), true) if kind.ends_with("_tool_result\"") => {
                part.answers.push(answer(&block, None))
            }
            _ => {}
        }
    }
}

fn answer(block: &Block<'_>, result: Option<&str>) -> Answer {
    let output = match block.content {
        Some(content) if content.starts_with('[') => {
            let blocks: Vec<Block<'_>> = walk::items(content).map(Block::of).collect();
            let texts: Option<Vec<String>> = blocks.iter().map(|block| text(block.text)).collect();
            texts.map_or_else(|| content.to_owned(), |texts| quoted(&texts.join("\n")))
        }
        content => content.unwrap_or("null").to_owned(),
    };
    // A value of another type has no meaning.
    let is_told = matches!(block.is_error, None | Some("true" | "false" | "null"));
    let failed = is_true(block.is_error);
    let words = text(Some(&output));
    let stopped = result
        .map(Result::of)
        .is_some_and(|result| is_true(result.interrupted))
        || text(result).is_some_and(|words| {
            // If the result is an object, this text may come from an edited file.
            let words = words.strip_prefix("Error: ").unwrap_or(&words);
            is_interruption(words) || words.starts_with("User rejected")
        })
        || failed
            && words
                .as_deref()
                .is_some_and(|words| words.starts_with(UNRECORDED));
    let status = match (stopped, failed) {
        (true, _) => Some("cancelled"),
        (false, true) => Some("error"),
        (false, false) => Some("success").filter(|_| is_told),
    };
    let exit = words.as_deref().filter(|_| failed).and_then(|words| {
        words
            .strip_prefix("Exit code ")?
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    });
    let error = words
        .filter(|_| failed)
        .or_else(|| failed.then(|| NO_WORDS.to_owned()));
    Answer {
        call: text(block.tool_use_id).unwrap_or_default(),
        status,
        output: if failed { "null".to_owned() } else { output },
        error,
        exit,
        ms: None,
    }
}

/// Returns the tokens used within a reply, without its own, with the model that used them, such as
/// for an advisor or a compaction. The reply's own figures cover only its messages.
fn others(usage: &str, model: Option<&str>) -> Vec<(String, Tokens)> {
    let iterations = Usage::of(usage)
        .iterations
        .into_iter()
        .flat_map(walk::items);
    let all: Vec<(Iteration<'_>, Tokens)> = iterations
        .map(|item| (Iteration::of(item), tokens(item)))
        .collect();
    let sum = all
        .iter()
        .filter_map(|(_, tokens)| tokens.sum())
        .fold(0, u64::saturating_add);
    // A writer that adds them up has already counted them.
    if tokens(usage).sum() == Some(sum) {
        return Vec::new();
    }
    let is_own = |iteration: &Iteration<'_>| matches!(iteration.kind, Some("\"message\"") | None);
    let others = all
        .into_iter()
        .filter(|(iteration, tokens)| !is_own(iteration) && tokens.sum().is_some());
    others
        .filter_map(|(iteration, tokens)| Some((text(iteration.model.or(model))?, tokens)))
        .collect()
}

/// Reads the tokens of a reply. The vendor counts cached input separately from other input.
fn tokens(usage: &str) -> Tokens {
    let usage = Usage::of(usage);
    // Cache fields may be missing if no cache was used, but the other input must be present.
    Tokens {
        input: count(usage.input_tokens),
        cached: count(usage.cache_read_input_tokens),
        output: count(usage.output_tokens),
        reasoning: usage
            .output_tokens_details
            .map(Details::of)
            .and_then(|details| count(details.thinking_tokens)),
        written: count(usage.cache_creation_input_tokens),
        written_1h: usage
            .cache_creation
            .map(Created::of)
            .and_then(|created| count(created.hour)),
    }
    .with_cache_as_input()
}
