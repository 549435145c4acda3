//! Defines the index entry of a step: its position, and what lists, charts and search need.
//!
//! Built from [`Step`] alone. This module must not know how a format spells its records.

mod tokens;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::num::{NonZeroU8, NonZeroU64};

use serde::{Deserialize, Serialize};
use thin_vec::ThinVec;

use super::call::{CallEnd, CallMark, on_one_line};
use super::edit_call::edited_file;
use super::event::invocations_hash;
use super::failure::message::fold;
use super::fingerprint::{Print, hash_of};
use super::json::walk;
use super::loose::Scalar;
use super::names::{MAX_ANSWER_BYTES, capped, cut_at};
use super::recorded::RecordedFacts;
use super::redact::BLANK;
use super::stated::Said;
use super::step::{
    Call, Change, CriticAction, Decision, FAILED, Infinite, NO_WORDS, Outcome, Step, Usage, Value,
};
use super::telling::{Tells, cause_in, says_nothing, telling_line};
use super::{Fate, Names, Span, Symbol};

/// Calls in lists are truncated to about this many bytes. The step itself shows the whole call.
const MAX_CALL_BYTES: usize = 160;
/// The prefix of the error of a cancelled call.
pub const CANCELLED: &str = "cancelled: ";
/// The error of a call that board's engine cancelled because the run was cancelled.
pub(crate) const RUN_CANCELLED: &str = "the run was cancelled";
/// The prefix of the error of a step whose model request failed.
pub const NO_REPLY: &str = "no reply: ";
/// The prefix of the error of a step whose reply the model began but didn't complete.
pub const BROKEN_REPLY: &str = "incomplete reply: ";
/// Errors and critics' reasons in lists are truncated to this many bytes.
const MAX_NOTE_BYTES: usize = 240;
/// The line of an error, and the command that printed it, are truncated to this many bytes each.
const MAX_LINE_BYTES: usize = 200;
const MAX_COMMAND_BYTES: usize = 120;
/// Only this much of the end of each text in a result is searched for the line of an error.
const MAX_PRINTED: usize = 1 << 16;
/// Changes whose JSON is longer than this many bytes aren't compared with the previous step.
const MAX_LINKED_BYTES: usize = 1 << 16;
/// Keys longer than this many bytes may be truncated in the index, so a state with such a key isn't
/// compared.
const MAX_KEY_BYTES: usize = 200;
/// The index keeps at most this many critics or tools of one step. The line itself shows all of
/// them.
pub(crate) const MAX_INDEXED: usize = 64;
/// The index keeps at most this many changed keys of one step, at two bytes each. To get the state
/// of a step that changed more, read its line.
pub const MAX_CHANGED: usize = 1_024;
/// The index keeps at most this many edited files of one step.
const MAX_EDITED: usize = 64;

/// One line of `steps.jsonl` in the index.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepHead {
    /// The position of the line.
    pub span: Span,
    /// The 1-based line number in the file. Blank lines count.
    pub line: u64,
    /// The numbers of the events that the step is assembled from, if it has no separate line.
    /// `span` and `line` are then those of the first event.
    pub parts: Box<[u32]>,
    /// How well the line could be parsed.
    pub fate: Fate,
    /// The recorded id. It may repeat or be missing.
    pub step_id: Option<i64>,
    /// Whether the line is byte for byte identical to the previous one.
    pub repeats: bool,
    /// Whether the run went back to before this step and continued from there. Such a step isn't on
    /// the path to the end.
    pub is_abandoned: bool,
    /// Whether the step belongs to another agent, started by a call in one of the run's own steps.
    pub is_nested: bool,
    /// The acting agent's name. Only QitOS 0.6 records it.
    pub agent: Symbol,
    /// The decision's mode: `act`, `final`, `wait` or `handoff`. Empty if there was no decision.
    pub mode: Symbol,
    /// The first action as a call on one line, or the answer, or why there is neither.
    pub call: Box<str>,
    /// A hash of everything the step asks for: names and arguments of all actions, otherwise the
    /// answer or the agent handed off to. For an unreadable line, a hash of its bytes.
    pub asked_hash: u64,
    /// A hash of the ids of all calls. 0 if there are none, or if the times of the format identify a
    /// step.
    pub call_ids: u64,
    /// A hash of the tool results, independent of how the writer wraps them.
    pub result_hash: u64,
    /// A hash of the calls' outcomes from the list of invocations, as [`invocations_hash`]. 0 if
    /// the step has no such list.
    pub invoked_hash: u64,
    /// Whether the writer truncated one of the results.
    pub is_cut: bool,
    /// A hash of the state changes: all keys of `state_diff` with their values before and after.
    pub state_hash: u64,
    /// The number of actions in the decision.
    pub actions: u32,
    /// The calls in order, with the outcome of each.
    pub calls: Box<[CallMark]>,
    /// The number of failed calls.
    pub failed_calls: u32,
    /// The 1-based position of the first action that has no result yet, if results are recorded
    /// after their step began. Only set for other tools' traces.
    pub unanswered: Option<NonZeroU8>,
    /// Whether the step has a `state_diff`, even an empty one. A step without one may have changed
    /// anything.
    pub has_state_diff: bool,
    /// The state keys in `state_diff`.
    pub changed: ThinVec<Symbol>,
    /// The files that its calls ask to edit, if the changes of files aren't recorded.
    pub edited: ThinVec<Symbol>,
    /// The critics' outputs, in order.
    pub critics: ThinVec<CriticMark>,
    /// The reason of the first critic that requested a retry or a stop.
    pub critic_reason: Option<Box<str>>,
    /// The line that tells most about the first error of a tool or its environment.
    pub error: Option<Box<str>>,
    /// What ran when `error` or `returncode` was recorded, if known.
    pub failed_call: Option<Box<FailedCall>>,
    /// The folded line of `error`, or of what the failed call printed, as
    /// `fold` returns it. Empty if neither is recorded.
    pub failure: Symbol,
    /// The tool whose result has `error` or `returncode`, if it's named.
    pub failed_tool: Symbol,
    /// The first nonzero return code.
    pub returncode: Option<i64>,
    /// The tokens of this step's own requests (input and output of the last one), if recorded.
    pub tokens: Option<u64>,
    /// Whether any of its tokens are recorded as an estimate.
    pub tokens_estimated: bool,
    /// The run's tokens up to and including this step, if recorded.
    pub tokens_total: Option<u64>,
    /// The cost of its requests in US dollars, if recorded.
    pub cost_usd: Option<f64>,
    /// The requested model, or the empty symbol if not recorded.
    pub model: Symbol,
    /// The answer that the step gave or left in the state, as [`answer_hash`]. An empty answer has
    /// a hash too. An answer that isn't a text is a [`non_text_answer_hash`].
    pub answer: Option<NonZeroU64>,
    /// Whether the step decided on one answer and left a different one in the state.
    pub answers_twice: bool,
    /// The finish reason of the reply in the provider's words, or the empty symbol if not recorded.
    pub finish: Symbol,
    /// The tokens by kind.
    pub usage: SmallUsage,
    /// The part of `usage` that went to models other than `model`.
    pub other_models: ThinVec<(Symbol, SmallUsage)>,
    /// The facts that the stop rules evaluated. Only board's engine records them.
    pub facts: Option<Box<RecordedFacts>>,
    /// The state keys that changed since the previous step without a step recording it.
    pub outside: ThinVec<Symbol>,
    /// The changed keys' values before and after. The index compares these and then drops them.
    pub links: ThinVec<StateLink>,
    /// The state before the step, each value as a hash of its JSON text. The index compares this
    /// and then drops it. Empty if the state isn't recorded, or has more keys than are kept.
    pub observed: ThinVec<(Symbol, u64)>,
}

/// The call that a step's first error comes from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FailedCall {
    /// The command that it ran in a shell, on one line.
    pub command: Option<Box<str>>,
    /// The line of its output that tells most about the failure, if only an exit code is recorded
    /// as its error.
    pub printed: Option<Box<str>>,
    /// The further failed calls of the step.
    pub others: Box<[OtherFailure]>,
}

/// Further failed calls of a step, which have one tool and one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherFailure {
    /// The tool, if it's named.
    pub tool: Symbol,
    /// The folded message.
    pub message: Symbol,
    /// The number of calls.
    pub calls: u32,
}

/// [`Usage`] in as few bytes as a step of a long run can afford. Numbers that don't fit are
/// unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SmallUsage {
    input: u32,
    cached: u32,
    output: u32,
    reasoning: u32,
    written: u32,
    written_1h: u32,
}

impl Default for SmallUsage {
    fn default() -> Self {
        Usage::default().into()
    }
}

impl From<Usage> for SmallUsage {
    fn from(usage: Usage) -> Self {
        let small = |number: Option<u64>| {
            number
                .and_then(|number| u32::try_from(number).ok())
                .unwrap_or(u32::MAX)
        };
        Self {
            input: small(usage.input),
            cached: small(usage.cached),
            output: small(usage.output),
            reasoning: small(usage.reasoning),
            written: small(usage.written),
            written_1h: small(usage.written_1h),
        }
    }
}

impl SmallUsage {
    /// Returns the token counts.
    pub fn get(self) -> Usage {
        let large = |number: u32| Some(u64::from(number)).filter(|_| number != u32::MAX);
        Usage {
            input: large(self.input),
            cached: large(self.cached),
            output: large(self.output),
            reasoning: large(self.reasoning),
            written: large(self.written),
            written_1h: large(self.written_1h),
        }
    }
}

/// The values of a changed state key before and after the step, as hashes of the JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateLink {
    /// The key.
    pub key: Symbol,
    /// The value before the step. `None` if the line doesn't record it, or if the change is too
    /// long.
    pub before: Option<u64>,
    /// The value after the step.
    pub after: Option<u64>,
}

/// A critic's output in the index.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CriticMark {
    /// The critic's name in the step.
    pub name: Symbol,
    /// Whether the name is recorded. If not, the name is the critic's position.
    pub is_named: bool,
    /// The action that the critic requested.
    pub action: CriticAction,
    /// The score, if it's finite.
    pub score: Option<f64>,
    /// The score, if it's infinite.
    pub infinite: Option<Infinite>,
    /// Whether the critic requests a change of the prompt or the state.
    pub patches: bool,
}

impl StepHead {
    /// Returns how many of the step's calls failed, or `None` unless the outcome of every call is
    /// known.
    pub fn tool_errors(&self) -> Option<u32> {
        let is_told =
            self.fate.is_readable() && self.calls.iter().all(|call| call.is_ok().is_some());
        is_told.then_some(self.failed_calls)
    }

    /// Returns whether a decision was made, no tool failed and no command returned nonzero.
    pub fn is_ok(&self) -> bool {
        !self.is_failed() && self.returncode.is_none()
    }

    /// Returns whether something failed, apart from commands that returned nonzero: a tool failed,
    /// no decision is recorded, the reply is incomplete but wasn't interrupted, or the line is unreadable.
    pub fn is_failed(&self) -> bool {
        let has_error = self.error.is_some() && !self.is_interrupted();
        !self.fate.is_readable() || has_error || self.is_undecided()
    }

    /// Returns whether no decision is recorded, as far as the line is readable.
    pub fn is_undecided(&self) -> bool {
        self.mode == Symbol::default()
    }

    /// Returns whether the error is that of the model's reply, which is missing or incomplete.
    pub fn is_of_reply(&self) -> bool {
        self.error
            .as_deref()
            .is_some_and(|error| error.starts_with(NO_REPLY) || error.starts_with(BROKEN_REPLY))
    }

    /// Returns whether the error is a cancelled call or an interrupted reply, which isn't a failure.
    pub fn is_cancelled(&self) -> bool {
        let is_stopped = || self.calls.iter().any(|call| call.end == CallEnd::Stopped);
        let error = self.error.as_deref().unwrap_or_default();
        error.starts_with(CANCELLED) && is_stopped() || self.is_interrupted()
    }

    /// Returns whether the step is a reply that was interrupted after its first words.
    pub fn is_interrupted(&self) -> bool {
        const WORDS: [&str; 5] = [
            "interrupted",
            "aborted",
            "request was aborted",
            "this operation was aborted",
            "the operation was aborted",
        ];
        let error = self.error.as_deref().unwrap_or_default();
        error.strip_prefix(BROKEN_REPLY).is_some_and(|words| {
            let words = words.trim_end_matches('.');
            WORDS.iter().any(|word| word.eq_ignore_ascii_case(words))
        })
    }

    /// Returns the tools that the first actions name, in order.
    pub fn tools(&self) -> impl Iterator<Item = Symbol> {
        self.calls
            .iter()
            .map(|call| call.name)
            .filter(|name| *name != Symbol::default())
    }

    /// Returns the position of the critic that decides how the run continues after the step.
    pub fn deciding(&self) -> Option<usize> {
        CriticAction::deciding(self.critics.iter().map(|mark| mark.action))
    }

    /// Returns whether the deciding critic requested `action`.
    pub fn requested(&self, action: CriticAction) -> bool {
        let first = self.deciding().and_then(|at| self.critics.get(at));
        first.is_some_and(|mark| mark.action == action)
    }

    /// Returns the step's lowest score.
    pub fn lowest_score(&self) -> Option<f64> {
        self.lowest_critic()?.score
    }

    /// Returns the critic that gave the lowest score.
    pub fn lowest_critic(&self) -> Option<&CriticMark> {
        let scored = self
            .critics
            .iter()
            .filter_map(|mark| Some((mark, mark.score?)));
        scored
            .min_by(|(_, a), (_, b)| a.total_cmp(b))
            .map(|(mark, _)| mark)
    }

    /// Merges a record's content into the head. A step that is spread over several records merges
    /// them one by one.
    pub fn absorb(&mut self, step: &Step<'_>, names: &mut Names) {
        if self.fate == Fate::Good && step.is_damaged {
            self.fate = Fate::Repaired;
        }
        self.step_id = self.step_id.or(step.id);
        if let Some(agent) = &step.agent {
            self.agent = names.intern(agent);
        }
        if let Some(mode) = step
            .decision
            .as_ref()
            .and_then(|decision| decision.mode.as_ref())
        {
            self.mode = names.intern(mode);
        }
        self.absorb_answer(step);
        self.absorb_calls(step, names);
        self.absorb_changes(step, names);
        self.absorb_edits(step, names);
        self.absorb_state(step, names);
        self.absorb_critics(step, names);
        self.absorb_errors(step, names);
        self.tokens = step.tokens.or(self.tokens);
        self.tokens_total = step.tokens_total.or(self.tokens_total);
        self.tokens_estimated |= step.tokens_estimated;
        self.cost_usd = step.cost_usd.or(self.cost_usd);
        if let Some(model) = &step.model {
            self.model = names.intern(model);
        }
        if let Some(finish) = &step.finish {
            self.finish = names.intern(finish);
        }
        if step.usage != Usage::default() {
            self.usage = step.usage.into();
        }
        let others = step
            .other_models
            .iter()
            .map(|(model, usage)| (names.intern(model), (*usage).into()));
        add(&mut self.other_models, others);
        if let Some(facts) = step.facts.filter(|facts| facts.is_object()) {
            let text = step.text.and_then(Value::string).unwrap_or_default();
            let facts = RecordedFacts::new(facts.text, step.error.map(|error| error.text), &text);
            self.tokens_estimated |= facts.is_estimated;
            self.facts = Some(Box::new(facts));
        }
    }

    fn absorb_answer(&mut self, step: &Step<'_>) {
        let decided = step
            .decision
            .as_ref()
            .filter(|decision| decision.mode.as_deref() == Some("final"));
        let odd = decided
            .and_then(non_text_answer)
            .map(|said| non_text_answer_hash(&said));
        let decided = decided
            .and_then(|decision| decision.answer?.string())
            .map(|text| answer_hash(&text));
        let changes = step.changes.into_iter().flat_map(|changes| changes.iter());
        let left = changes.filter(|change| change.key == "final_result").last();
        let left = left
            .and_then(|change| walk::string(change.after()?))
            .filter(|text| text != BLANK);
        let left = left.map(|text| answer_hash(&text));
        self.answers_twice |= decided
            .zip(left)
            .is_some_and(|(decided, left)| decided != left);
        self.answer = decided.or(odd).or(left).or(self.answer);
    }

    fn absorb_calls(&mut self, step: &Step<'_>, names: &mut Names) {
        self.actions = self
            .actions
            .saturating_add(u32::try_from(step.calls.len()).unwrap_or(u32::MAX));
        let room = MAX_INDEXED.saturating_sub(self.calls.len());
        append(&mut self.calls, CallMark::all(step, names).take(room));
        self.failed_calls = self
            .failed_calls
            .saturating_add(CallEnd::count_failed(step));
        if self.call.is_empty() {
            self.call = summary(step).into();
        }
        self.asked_hash = mixed(self.asked_hash, asked(step));
        let mut results = Print::default();
        step.results
            .iter()
            .for_each(|result| results.result(result));
        self.result_hash = mixed(self.result_hash, results.done());
        if step.has_invocations {
            self.invoked_hash = invocations_hash(step.invocations.iter());
        }
        self.is_cut |= step.results.iter().any(|result| result.is_cut);
    }

    fn absorb_edits(&mut self, step: &Step<'_>, names: &mut Names) {
        let mut changes = step.changes.into_iter().flat_map(|changes| changes.iter());
        if changes.any(|change| change.key.starts_with("files.")) {
            return;
        }
        let room = MAX_EDITED.saturating_sub(self.edited.len());
        let calls = step.calls.iter().enumerate().filter_map(|(at, call)| {
            let file = edited_file(call.name.as_deref().unwrap_or_default(), call.args?.text)?;
            (CallEnd::at(step, at).is_ok() != Some(false)).then_some(file)
        });
        let files: Vec<Symbol> = calls.take(room).map(|file| names.intern(&file)).collect();
        if !files.is_empty() {
            add(&mut self.edited, files.into_iter());
        }
    }

    fn absorb_changes(&mut self, step: &Step<'_>, names: &mut Names) {
        self.state_hash = mixed(
            self.state_hash,
            hash_of(step.changes.as_ref().map(|changes| changes.0)),
        );
        self.has_state_diff = step.changes.is_some();
        let Some(changes) = step.changes else { return };
        let room = MAX_CHANGED.saturating_sub(self.changed.len());
        let links: Vec<StateLink> = changes
            .iter()
            .take(room)
            .map(|change| StateLink::new(names.intern(&change.key), &change))
            .collect();
        add(&mut self.changed, links.iter().map(|link| link.key));
        let counts = |key: Symbol| step.counters.contains(&names.get(key));
        add(
            &mut self.links,
            links.into_iter().filter(|link| !counts(link.key)),
        );
    }

    /// Hashes the recorded state for comparison with the previous step. Skips steps of our own
    /// engine, which records every state change with its step. Other writers may change the state
    /// between steps.
    fn absorb_state(&mut self, step: &Step<'_>, names: &mut Names) {
        let Some(state) = step.state.filter(|_| step.facts.is_none()) else {
            return;
        };
        // States are long, so walk each only once.
        let members = walk::members(state.text).take(MAX_CHANGED + 1);
        let keys: Vec<_> = members
            .map(|(key, value)| (walk::string(key).unwrap_or_default(), value))
            .collect();
        if keys.len() > MAX_CHANGED || keys.iter().any(|(key, _)| key.len() > MAX_KEY_BYTES) {
            return;
        }
        let kept = keys
            .iter()
            .filter(|(key, _)| !step.counters.contains(&key.as_ref()));
        self.observed = kept
            .map(|(key, value)| (names.intern(key), hash_of_text(value)))
            .collect();
    }

    fn absorb_critics(&mut self, step: &Step<'_>, names: &mut Names) {
        let outputs = || {
            step.critics
                .iter()
                .filter(|output| output.value.is_object())
                .take(MAX_INDEXED)
        };
        let marks = outputs().map(|output| CriticMark {
            name: names.intern(&output.name),
            is_named: output.is_named,
            action: output.action,
            score: output.score,
            infinite: output.infinite,
            patches: !output.patches.is_empty(),
        });
        add(&mut self.critics, marks);
        let deciding = CriticAction::deciding(outputs().map(|output| output.action));
        let deciding = deciding
            .and_then(|at| outputs().nth(at))
            .filter(|output| output.action != CriticAction::Failed);
        if let Some(output) = deciding {
            let reason = output.reason.and_then(Value::string).unwrap_or_default();
            self.critic_reason
                .get_or_insert_with(|| one_line(&reason, MAX_NOTE_BYTES).into());
        }
    }

    fn absorb_errors(&mut self, step: &Step<'_>, names: &mut Names) {
        let failed_call = |at, printed: Option<Box<str>>| {
            let command = step.calls.get(at).and_then(Call::command);
            let command = command.map(|command| capped(&on_one_line(&command), MAX_COMMAND_BYTES));
            (command.is_some() || printed.is_some()).then(|| {
                Box::new(FailedCall {
                    command,
                    printed,
                    others: Box::default(),
                })
            })
        };

        let tool = |at: usize, named: Option<&Cow<'_, str>>| {
            let asked = step.calls.get(at).and_then(|call| call.name.as_ref());
            named.or(asked).map(|name| name.as_ref().to_owned())
        };
        // The call whose failure the step has.
        let mut main = None;
        for (at, result) in step.results.iter().enumerate() {
            if self.error.is_none() && result.has_failed() {
                self.failed_call = failed_call(at, None);
                self.failed_tool = intern(names, tool(at, result.tool.as_ref()));
                let is_program = self.failed_call.is_some() || result.exit.is_some();
                let line = said(
                    result,
                    if is_program {
                        Tells::Last
                    } else {
                        Tells::First
                    },
                );
                let line = line.unwrap_or_else(|| NO_WORDS.to_owned());
                let short = one_line(&line, MAX_LINE_BYTES);
                let folded = fold(&line);
                let (error, folded) = match result.status.as_deref() {
                    Some("cancelled") => (
                        format!("{CANCELLED}{short}"),
                        format!("{CANCELLED}{folded}"),
                    ),
                    _ => (short, folded),
                };
                main = Some(at);
                self.error = Some(error.into());
                self.failure = names.intern_message(&folded);
            } else if self.error.is_none() && self.returncode.is_none() && result.exit.is_some() {
                main = Some(at);
                let line = said(result, Tells::Last);
                let short = line.as_deref().map(|line| one_line(line, MAX_LINE_BYTES));
                self.failed_call = failed_call(at, short.map(Box::from));
                self.failed_tool = intern(names, tool(at, result.tool.as_ref()));
                self.failure = line
                    .map(|line| names.intern_message(&fold(&line)))
                    .unwrap_or_default();
            }
            self.returncode = self.returncode.or(result.exit);
        }
        let failed = step
            .invocations
            .iter()
            .enumerate()
            .find(|(_, invocation)| invocation.has_failed());
        if let Some((at, invocation)) = failed.filter(|_| self.error.is_none()) {
            main = Some(at);
            self.failed_call = failed_call(at, None);
            self.failed_tool = intern(names, tool(at, invocation.tool.as_ref()));
            let text = told_by(invocation);
            let line = telling_line(&text, Tells::First);
            self.error = Some(one_line(&line, MAX_LINE_BYTES).into());
            self.failure = names.intern_message(&fold(&line));
        }
        self.absorb_others(step, main, names);
        // board's engine records the errors of its steps as events.
        let of_step = step
            .error
            .filter(|_| self.error.is_none() && step.facts.is_none())
            .map(Value::json);
        let of_step = of_step.as_ref();
        let is_of_reply = of_step
            .and_then(|error| error.get("phase")?.as_str())
            .is_some_and(|phase| phase == "reply");
        let prefix = match self.is_undecided() {
            true => Some(NO_REPLY),
            false => is_of_reply.then_some(BROKEN_REPLY),
        };
        let words = of_step.and_then(|error| error.get("message")?.as_str());
        if let Some((prefix, words)) = prefix.zip(words) {
            let line = telling_line(words, Tells::First);
            self.error = Some(one_line(&format!("{prefix}{line}"), MAX_LINE_BYTES).into());
            if !self.is_interrupted() {
                self.failure = names.intern_message(&fold(&line));
            }
        }
    }

    /// Keeps the failures of the calls other than `main`, so that each failed call counts.
    fn absorb_others(&mut self, step: &Step<'_>, main: Option<usize>, names: &mut Names) {
        let mut others: Vec<OtherFailure> = Vec::new();
        let places = step.results.len().max(step.invocations.len());
        for at in (0..places).take(MAX_INDEXED).filter(|at| Some(*at) != main) {
            let (result, invocation) = (step.results.get(at), step.invocations.get(at));
            if CallEnd::of(result, invocation) != CallEnd::Failed {
                continue;
            }
            let asked = step.calls.get(at);
            let failed = result.filter(|result| result.has_failed() || result.exit.is_some());
            let message = match (failed, invocation) {
                (Some(result), _) => {
                    let is_program = asked.and_then(Call::command).is_some();
                    folded(result, is_program || result.exit.is_some())
                }
                (None, Some(invocation)) => fold(&telling_line(&told_by(invocation), Tells::First)),
                (None, None) => continue,
            };
            let tool = (failed.and_then(|result| result.tool.as_ref()))
                .or_else(|| invocation?.tool.as_ref())
                .or_else(|| asked?.name.as_ref());
            let tool = intern(names, tool.map(|name| name.as_ref().to_owned()));
            let message = names.intern_message(&message);
            let known = |other: &&mut OtherFailure| (other.tool, other.message) == (tool, message);
            match others.iter_mut().find(known) {
                Some(other) => other.calls += 1,
                None => others.push(OtherFailure {
                    tool,
                    message,
                    calls: 1,
                }),
            }
        }
        if !others.is_empty() {
            let kept = self.failed_call.get_or_insert_default();
            append(&mut kept.others, others.into_iter());
        }
    }

    /// Returns whether the line is blank to board, because it isn't a record or has no known
    /// field.
    pub fn is_void(&self) -> bool {
        let is_bare = self.step_id.is_none()
            && self.mode == Symbol::default()
            && self.agent == Symbol::default();
        let is_idle = self.actions == 0
            && self.critics.is_empty()
            && self.error.is_none()
            && self.parts.is_empty();
        let is_silent =
            self.tokens.is_none() && self.tokens_total.is_none() && self.facts.is_none();
        let is_still =
            !self.has_state_diff && self.observed.is_empty() && self.returncode.is_none();
        is_bare && is_idle && is_silent && is_still && self.cost_usd.is_none()
    }

    /// Returns the head's approximate size in memory, in bytes.
    pub fn weight(&self) -> u64 {
        fn of<T>(list: &[T]) -> usize {
            // Includes the allocator's overhead.
            if list.is_empty() {
                0
            } else {
                size_of_val(list).next_multiple_of(16) + 16
            }
        }
        let texts = [
            Some(&self.call),
            self.critic_reason.as_ref(),
            self.error.as_ref(),
        ];
        let texts: usize = texts
            .into_iter()
            .flatten()
            .map(|text| of(text.as_bytes()))
            .sum();
        fn thin<T>(list: &ThinVec<T>) -> usize {
            // Its length and capacity are stored in front of the items.
            of(list) + if list.is_empty() { 0 } else { 16 }
        }
        let lists = of(&self.parts)
            + of(&self.calls)
            + thin(&self.changed)
            + thin(&self.edited)
            + thin(&self.critics)
            + thin(&self.other_models)
            + thin(&self.outside);
        let facts = self.facts.as_deref().map_or(0, |facts| {
            let texts = [&facts.json, &facts.error]
                .into_iter()
                .flatten()
                .map(|text| of(text.as_bytes()));
            size_of::<RecordedFacts>() + 16 + texts.sum::<usize>()
        });
        let failed_call = self.failed_call.as_deref().map_or(0, |failed| {
            let texts = [&failed.command, &failed.printed]
                .into_iter()
                .flatten()
                .map(|text| of(text.as_bytes()));
            size_of::<FailedCall>() + 16 + texts.sum::<usize>() + of(&failed.others)
        });
        (size_of::<Self>() + texts + lists + facts + failed_call) as u64
    }

    /// Creates the head of a line that can't be parsed. It equals only the heads of identical
    /// lines.
    pub fn unread(fate: Fate, line: &[u8]) -> Self {
        Self {
            fate,
            asked_hash: Self::print_of(line),
            ..Self::default()
        }
    }

    /// Returns a hash that a line shares only with its exact copies.
    pub fn print_of(line: &[u8]) -> u64 {
        super::fingerprint::of_line(line)
    }
}

/// Returns what a failed invocation says.
fn told_by<'a>(invocation: &super::step::Invocation<'a>) -> Cow<'a, str> {
    let text = invocation
        .error
        .and_then(Value::string)
        .filter(|text| !text.is_empty());
    text.or(invocation.category.clone())
        .or(invocation.status.clone())
        .unwrap_or_default()
}

/// Returns the folded message of a failed result.
fn folded(result: &Outcome<'_>, is_program: bool) -> String {
    let tells = if is_program {
        Tells::Last
    } else {
        Tells::First
    };
    match (said(result, tells), result.exit) {
        (Some(line), _) => fold(&line),
        (None, Some(code)) if !result.has_failed() => no_output(code),
        (None, _) => NO_WORDS.to_owned(),
    }
}

/// Returns the message of a call that records only an exit code.
pub(crate) fn no_output(code: i64) -> String {
    format!("exit code {code}, no output")
}

/// Returns the line of a failed result that tells most, or `None` if it contains no text.
fn said(result: &Outcome<'_>, tells: Tells) -> Option<String> {
    let error = result.error.map(Value::plain).unwrap_or_default();
    let is_empty = says_nothing(&error) || *error == *NO_WORDS || *error == *FAILED;
    let printed = result
        .output
        .filter(|_| is_empty)
        .map(|output| printed(output.text));
    let line = printed
        .as_deref()
        .and_then(cause_in)
        .unwrap_or_else(|| telling_line(&error, tells));
    (!line.is_empty()).then(|| line.into_owned())
}

fn intern(names: &mut Names, name: Option<String>) -> Symbol {
    name.map_or_else(Symbol::default, |name| names.intern(&name))
}

/// Returns the texts in a tool's output: a string, or the strings in an object or a list of parts.
fn printed(output: &str) -> String {
    const TEXTS: [&str; 5] = [
        "\"stdout\"",
        "\"output\"",
        "\"content\"",
        "\"text\"",
        "\"stderr\"",
    ];
    let texts_in = |object| {
        walk::members(object)
            .filter(|(key, _)| TEXTS.contains(key))
            .filter_map(|(_, value)| walk::string(value))
    };
    let texts: Vec<_> = match output.as_bytes().first() {
        Some(b'{') => texts_in(output).collect(),
        Some(b'[') => walk::items(output).flat_map(texts_in).collect(),
        _ => walk::string(output).into_iter().collect(),
    };
    let end = |text: &str| {
        let start = text.ceil_char_boundary(text.len().saturating_sub(MAX_PRINTED));
        text.get(start..).unwrap_or_default().to_owned()
    };
    texts
        .iter()
        .map(|text| end(text))
        .collect::<Vec<_>>()
        .join("\n")
}

fn append<T: Clone>(list: &mut Box<[T]>, more: impl Iterator<Item = T>) {
    let known = std::mem::take(list).into_vec();
    *list = known.into_iter().chain(more).collect();
}

/// Appends to a list that most steps don't have: an empty one takes only a pointer.
fn add<T>(list: &mut ThinVec<T>, more: impl Iterator<Item = T>) {
    list.extend(more);
    list.shrink_to_fit();
}

/// Combines the hashes of several records. The hash of a single record stays unchanged.
fn mixed(before: u64, more: u64) -> u64 {
    if before == 0 {
        more
    } else {
        before.rotate_left(1) ^ more
    }
}

/// Returns the first call on one line, or the answer, or why there is neither.
fn summary(step: &Step<'_>) -> String {
    if let Some(first) = step.calls.iter().find(|call| call.value.is_object()) {
        let more = step.calls.len() - 1;
        let call = first.summary();
        return if more > 0 {
            format!("{call} +{more} more")
        } else {
            call
        };
    }
    let Some(decision) = &step.decision else {
        return String::new();
    };
    let text = |value: Option<Value<'_>>| {
        Some(prefix(value?.text)?.into_owned()).filter(|text| !text.is_empty())
    };
    let line = match (
        decision.mode.as_deref(),
        &decision.handoff,
        text(decision.answer),
    ) {
        (_, Some(target), _) => format!("hand off to {target}"),
        (_, None, Some(answer)) => format!("answer: {answer}"),
        (Some(mode), None, None) => match text(decision.rationale) {
            _ if decision.is_misread => format!("{mode}: model text not understood"),
            Some(rationale) => format!("{mode}: {rationale}"),
            None => mode.to_owned(),
        },
        (None, None, None) => String::new(),
    };
    one_line(&line, MAX_CALL_BYTES)
}

/// Returns the hash that a step with these actions and nothing else has as
/// [`StepHead::asked_hash`].
pub(crate) fn asked_by<'a>(calls: impl Iterator<Item = Call<'a>>) -> u64 {
    let mut print = Print::default();
    for call in calls.filter(|call| call.value.is_object()) {
        print.word(call.name.as_deref().unwrap_or_default());
        print.value(call.args);
    }
    mixed(0, print.done())
}

/// Hashes everything the step asks for. The rationale is excluded, because a reason isn't part of
/// what is done.
fn asked(step: &Step<'_>) -> u64 {
    let mut print = Print::default();
    for call in step.calls.iter().filter(|call| call.value.is_object()) {
        print.word(call.name.as_deref().unwrap_or_default());
        print.value(call.args);
    }
    if let Some(decision) = step.decision.as_ref().filter(|_| step.calls.is_empty()) {
        print.word(decision.mode.as_deref().unwrap_or_default());
        print.value(decision.answer);
        print.word(decision.handoff.as_deref().unwrap_or_default());
    }
    print.done()
}

impl StateLink {
    /// Hashes the values of a change. If the change is too long, keeps only the key.
    fn new(key: Symbol, change: &Change<'_>) -> Self {
        let (before, after) = if change.text.len() <= MAX_LINKED_BYTES {
            (change.before(), change.after())
        } else {
            (None, None)
        };
        Self {
            key,
            before: before.map(hash_of_text),
            after: after.map(hash_of_text),
        }
    }
}

/// Returns a hash of an answer, up to the number of bytes that any record keeps.
pub fn answer_hash(text: &str) -> NonZeroU64 {
    NonZeroU64::new(hash_of_text(&capped(text, MAX_ANSWER_BYTES))).unwrap_or(NonZeroU64::MAX)
}

/// Returns a hash of an answer that isn't a text. It differs from the hash of every text.
pub fn non_text_answer_hash(said: &Said) -> NonZeroU64 {
    let words = match said {
        Said::Other(words) => words,
        _ => "null",
    };
    answer_hash(&format!("\0{words}"))
}

/// Returns the answer of a decision if it isn't a text.
fn non_text_answer(decision: &Decision<'_>) -> Option<Said> {
    match decision.answer {
        Some(answer) => Scalar::of(answer.text)?.odd(),
        None => (decision.value.get("final_answer") == Some("null")).then_some(Said::Null),
    }
}

/// Returns the hash of a state value, by its text.
pub(super) fn hash_of_text(text: &str) -> u64 {
    super::fingerprint::of_line(text.as_bytes())
}

impl Call<'_> {
    /// Returns the call on one line, such as `read_file(path="calc.py")`.
    pub fn summary(&self) -> String {
        let mut call = String::from(self.name.as_deref().unwrap_or("(no name)"));
        call.push('(');
        for (index, (key, value)) in self
            .args
            .into_iter()
            .flat_map(|args| walk::members(args.text))
            .enumerate()
        {
            if call.len() > MAX_CALL_BYTES {
                break;
            }
            call.push_str(if index == 0 { "" } else { ", " });
            call.push_str(&walk::string(key).unwrap_or_default());
            call.push('=');
            if let Some(text) = prefix(value) {
                let _ = write!(call, "\"{}\"", cut_at(&text, MAX_CALL_BYTES));
                continue;
            }
            let _ = match Scalar::of(value) {
                Some(Scalar::Bool(value)) => write!(call, "{value}"),
                Some(Scalar::Int(value)) => write!(call, "{value}"),
                Some(Scalar::Float(value)) => write!(call, "{value}"),
                Some(Scalar::Array) => write!(call, "[…]"),
                Some(Scalar::Object) => write!(call, "{{…}}"),
                _ => write!(call, "null"),
            };
        }
        call.push(')');
        one_line(&call, MAX_CALL_BYTES)
    }
}

/// Decodes the beginning of a string, long enough for a line in a list.
fn prefix(value: &str) -> Option<std::borrow::Cow<'_, str>> {
    /// The longest escaped form of a character, `\ud83d\ude00`, has 12 bytes. Per byte of the
    /// decoded text, no character takes more than half of that.
    const LONGEST: usize = 12;
    let end = value.floor_char_boundary((MAX_CALL_BYTES + 2) * LONGEST / 2);
    let long = value.starts_with('"').then(|| value.get(..end))?;
    match long.filter(|long| long.len() < value.len()) {
        None => walk::string(value),
        // The cut may fall inside an escape, so try shorter prefixes.
        Some(long) => (0..LONGEST).find_map(|less| {
            let start = long.get(..long.len().checked_sub(less)?)?;
            walk::string(&format!("{start}\"")).map(|text| text.into_owned().into())
        }),
    }
}

/// Returns `text` on one line, truncated to `max` bytes.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let head = cut_at(text, max + 1);
    if !head
        .bytes()
        .any(|byte| matches!(byte, b'\n' | b'\r' | b'\t'))
    {
        return capped(head, max).into();
    }
    let line: String = head
        .chars()
        .map(|c| {
            if matches!(c, '\n' | '\r' | '\t') {
                ' '
            } else {
                c
            }
        })
        .collect();
    capped(&line, max).into()
}
