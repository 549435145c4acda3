//! What does the index keep of a step? The place of its line and what lists, charts and search need.
//!
//! Made from [`Step`] alone; must not know how a record spells what it says.

mod tokens;

use std::fmt::Write as _;
use std::num::{NonZeroU8, NonZeroU64};

use super::call::{CallEnd, CallMark};
use super::event::invocations_hash;
use super::fingerprint::{Print, hash_of};
use super::json::walk;
use super::loose::Scalar;
use super::names::{MAX_ANSWER_BYTES, capped, cut_at};
use super::recorded::RecordedFacts;
use super::redact::BLANK;
use super::stated::Said;
use super::step::{Call, Change, CriticAction, Decision, Infinite, NO_WORDS, Step, Usage, Value};
use super::{Names, Span, Symbol};

/// A call in a list is cut to about this many bytes; the step itself shows all of it.
const MAX_CALL_BYTES: usize = 160;
/// The error of a call that somebody stopped begins with this.
pub const CANCELLED: &str = "cancelled: ";
/// The error of a step whose request to the model failed begins with this.
pub const NO_REPLY: &str = "no reply: ";
/// An error or a critic's reason in a list is cut to this many bytes.
const MAX_NOTE_BYTES: usize = 240;
/// A change whose JSON is longer than this many bytes is not compared with the step before.
const MAX_LINKED_BYTES: usize = 1 << 16;
/// A key longer than this may be cut in the index, so that a state with such a key is not compared.
const MAX_KEY_BYTES: usize = 200;
/// At most this many critics or tools of one step are indexed; the line itself shows all.
pub(crate) const MAX_INDEXED: usize = 64;
/// At most this many changed keys of one step are indexed, two bytes each; whoever asks for the state reads the line of
/// a step that changed more.
pub const MAX_CHANGED: usize = 1_024;

/// One line of `steps.jsonl` as the index keeps it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepHead {
    /// Where the line lies.
    pub span: Span,
    /// The line's number in its file, counted from 1; blank lines count here.
    pub line: u64,
    /// The events that the step is put together from, by number, where it has no line of its own; `span` and `line` are
    /// then those of the first.
    pub parts: Box<[u32]>,
    /// How well the line could be read.
    pub fate: Fate,
    /// The recorded label; may repeat or be missing.
    pub step_id: Option<i64>,
    /// Whether the line is byte for byte the one before it.
    pub repeats: bool,
    /// Whether the run went back to before this step, and on from there: it is on no way to the end.
    pub is_left: bool,
    /// Whether it is of another agent, which a call of the run's own steps started: none of its own.
    pub is_nested: bool,
    /// The acting agent's name; only QitOS 0.6 records it.
    pub agent: Symbol,
    /// The decision's mode: `act`, `final`, `wait`, `handoff`; empty where there was no decision.
    pub mode: Symbol,
    /// The first action as a call on one line, or the answer, or why there is none.
    pub call: Box<str>,
    /// A hash of all that is asked for: names and arguments of all actions, else the answer or the agent handed over to;
    /// a line that cannot be read has one of its bytes.
    pub asked_hash: u64,
    /// A hash of what came of it: what the tools gave, however the writer wraps it.
    pub result_hash: u64,
    /// How its calls went by its list of invocations, as [`invocations_hash`]; 0 where it has none.
    pub invoked_hash: u64,
    /// Whether the writer cut one of these.
    pub is_cut: bool,
    /// A hash of what changed in the state: all keys of `state_diff` with their values, before and after.
    pub state_hash: u64,
    /// How many actions the decision holds.
    pub actions: u32,
    /// The actions, in order, and how each went.
    pub calls: Box<[CallMark]>,
    /// How many calls failed.
    pub failed_calls: u32,
    /// The place, counted from 1, of the first action that has no result yet, where results come after their step began;
    /// only where other tools' records tell.
    pub unanswered: Option<NonZeroU8>,
    /// Whether the step has a `state_diff`, be it empty: one without may have changed anything.
    pub tells_changes: bool,
    /// The state keys that `state_diff` names.
    pub changed: Box<[Symbol]>,
    /// The critics' outputs, in order.
    pub critics: Box<[CriticMark]>,
    /// The reason of the first critic that asked for a retry or a stop.
    pub critic_reason: Option<Box<str>>,
    /// The first error of a tool or its environment.
    pub error: Option<Box<str>>,
    /// The first return code that is not zero.
    pub returncode: Option<i64>,
    /// Tokens of this step's own requests (input and output of the last one), where recorded.
    pub tokens: Option<u64>,
    /// Whether any of its tokens are recorded as an estimate.
    pub tokens_estimated: bool,
    /// Tokens of the run up to and with this step, where recorded.
    pub tokens_total: Option<u64>,
    /// What its requests cost in US dollars, where recorded.
    pub cost_usd: Option<f64>,
    /// The model that was asked; empty where the step does not record it.
    pub model: Symbol,
    /// The answer that the step gave or left in the state, as [`answer_hash`]; an empty answer has a hash too. If it isn't a
    /// text, it is an [`odd_answer_hash`].
    pub answer: Option<NonZeroU64>,
    /// Whether it decided on one answer and left another one in the state.
    pub answers_twice: bool,
    /// Why its reply ended, in the word of who gave it; empty where the step does not record it.
    pub finish: Symbol,
    /// The tokens apart.
    pub usage: SmallUsage,
    /// What other models than `model` took of that.
    pub other_models: Box<[(Symbol, SmallUsage)]>,
    /// The facts that the stop rules looked at; only our own engine records them.
    pub facts: Option<Box<RecordedFacts>>,
    /// The state keys that had changed since the step before, though no step is recorded to have changed them.
    pub outside: Box<[Symbol]>,
    /// What the changed keys were and became; the index compares and drops it.
    pub links: Box<[StateLink]>,
    /// The state before the step, each value as a hash of its JSON text; the index compares and drops it. Empty where
    /// it is not recorded, or has more keys than are kept.
    pub observed: Box<[(Symbol, u64)]>,
}

/// [`Usage`] in as few bytes as a step of a long run may take. A number that has no room is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SmallUsage {
    input: u32,
    cached: u32,
    output: u32,
    reasoning: u32,
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
        }
    }
}

impl SmallUsage {
    /// The numbers.
    pub fn get(self) -> Usage {
        let large = |number: u32| Some(u64::from(number)).filter(|_| number != u32::MAX);
        Usage {
            input: large(self.input),
            cached: large(self.cached),
            output: large(self.output),
            reasoning: large(self.reasoning),
        }
    }
}

/// What a changed state key was before the step and after it, as hashes of the JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateLink {
    /// The key.
    pub key: Symbol,
    /// The value before; `None` where the line does not say, or at too great a length.
    pub before: Option<u64>,
    /// The value after.
    pub after: Option<u64>,
}

/// How well a line could be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fate {
    /// As written.
    #[default]
    Good,
    /// After a repair, or without some fields.
    Repaired,
    /// The last line, complete but for its line end; it may still change.
    Provisional,
    /// JSON that is not an object.
    Foreign,
    /// Not JSON, or longer than the board parses.
    Unreadable,
}

impl Fate {
    /// Whether the line is an object whose fields can be shown.
    pub fn is_readable(self) -> bool {
        matches!(self, Fate::Good | Fate::Repaired | Fate::Provisional)
    }
}

/// One critic's output in the index.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CriticMark {
    /// The critic's name, as the step calls it.
    pub name: Symbol,
    /// Whether that name is recorded, and not only its place.
    pub is_named: bool,
    /// What it asked for.
    pub action: CriticAction,
    /// Its score where that is a finite number.
    pub score: Option<f64>,
    /// Its score where that is infinite.
    pub infinite: Option<Infinite>,
    /// Whether it wants the prompt or the state changed.
    pub patches: bool,
}

impl StepHead {
    /// Whether no tool failed, no command returned non-zero and a decision was made.
    pub fn is_ok(&self) -> bool {
        !self.is_failed() && self.returncode.is_none()
    }

    /// Whether something failed besides commands that returned non-zero: a tool, or no decision is recorded, or the line
    /// cannot be read.
    pub fn is_failed(&self) -> bool {
        !self.fate.is_readable() || self.error.is_some() || self.is_undecided()
    }

    /// Whether no decision is recorded, as far as its line can be read.
    pub fn is_undecided(&self) -> bool {
        self.mode == Symbol::default()
    }

    /// Whether its error is that somebody stopped a call, which is no failure of the tool.
    pub fn is_cancelled(&self) -> bool {
        self.error
            .as_deref()
            .is_some_and(|error| error.starts_with(CANCELLED))
            && self.calls.iter().any(|call| call.end == CallEnd::Stopped)
    }

    /// The tools that its first actions name, in order.
    pub fn tools(&self) -> impl Iterator<Item = Symbol> {
        self.calls
            .iter()
            .map(|call| call.name)
            .filter(|name| *name != Symbol::default())
    }

    /// The critic that decides what happens after the step.
    pub fn deciding(&self) -> Option<usize> {
        CriticAction::deciding(self.critics.iter().map(|mark| mark.action))
    }

    /// Whether the critic that decides asked for `action`.
    pub fn asked(&self, action: CriticAction) -> bool {
        let first = self.deciding().and_then(|at| self.critics.get(at));
        first.is_some_and(|mark| mark.action == action)
    }

    /// The lowest score of the step.
    pub fn lowest_score(&self) -> Option<f64> {
        self.lowest_critic()?.score
    }

    /// The critic that gave it.
    pub fn lowest_critic(&self) -> Option<&CriticMark> {
        let scored = self
            .critics
            .iter()
            .filter_map(|mark| Some((mark, mark.score?)));
        scored
            .min_by(|(_, a), (_, b)| a.total_cmp(b))
            .map(|(mark, _)| mark)
    }

    /// Takes in what a record says of the step. A step that is spread over several records takes them in one by one.
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
        self.absorb_state(step, names);
        self.absorb_critics(step, names);
        self.absorb_errors(step);
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
        append(&mut self.other_models, others);
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
            .and_then(odd_answer)
            .map(|said| odd_answer_hash(&said));
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
        if step.tells_invocations {
            self.invoked_hash = invocations_hash(step.invocations.iter());
        }
        self.is_cut |= step.results.iter().any(|result| result.is_cut);
    }

    fn absorb_changes(&mut self, step: &Step<'_>, names: &mut Names) {
        self.state_hash = mixed(
            self.state_hash,
            hash_of(step.changes.as_ref().map(|changes| changes.0)),
        );
        self.tells_changes = step.changes.is_some();
        let Some(changes) = step.changes else { return };
        let room = MAX_CHANGED.saturating_sub(self.changed.len());
        let links: Vec<StateLink> = changes
            .iter()
            .take(room)
            .map(|change| StateLink::new(names.intern(&change.key), &change))
            .collect();
        append(&mut self.changed, links.iter().map(|link| link.key));
        let counts = |key: Symbol| step.counters.contains(&names.get(key));
        append(
            &mut self.links,
            links.into_iter().filter(|link| !counts(link.key)),
        );
    }

    /// Our own engine records every change of the state with its step; others may change it besides.
    fn absorb_state(&mut self, step: &Step<'_>, names: &mut Names) {
        let Some(state) = step.state.filter(|_| step.facts.is_none()) else {
            return;
        };
        // States are long, so that they are walked once.
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
        append(&mut self.critics, marks);
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

    fn absorb_errors(&mut self, step: &Step<'_>) {
        for result in step.results.iter() {
            if self.error.is_none() && result.has_failed() {
                let text = result.error.map_or(NO_WORDS.into(), Value::plain);
                let stopped = result.status.as_deref() == Some("cancelled");
                let text = if stopped {
                    format!("{CANCELLED}{text}").into()
                } else {
                    text
                };
                self.error = Some(one_line(&text, MAX_NOTE_BYTES).into());
            }
            self.returncode = self.returncode.or(result.exit);
        }
        let failed = step
            .invocations
            .iter()
            .find(|invocation| invocation.has_failed());
        if let Some(invocation) = failed.filter(|_| self.error.is_none()) {
            let text = invocation
                .error
                .and_then(Value::string)
                .filter(|text| !text.is_empty());
            let text = text
                .or(invocation.category.clone())
                .or(invocation.status.clone())
                .unwrap_or_default();
            self.error = Some(one_line(&text, MAX_NOTE_BYTES).into());
        }
        // Our own engine records the errors of its steps as events.
        let of_step = step
            .error
            .filter(|_| self.error.is_none() && self.is_undecided() && step.facts.is_none())
            .map(Value::json);
        if let Some(words) = of_step
            .as_ref()
            .and_then(|error| error.get("message")?.as_str())
        {
            self.error = Some(one_line(&format!("{NO_REPLY}{words}"), MAX_NOTE_BYTES).into());
        }
    }

    /// Whether the line holds nothing that the board knows: it is no record, or one without a known field.
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
        let is_still = !self.tells_changes && self.observed.is_empty() && self.returncode.is_none();
        is_bare && is_idle && is_silent && is_still && self.cost_usd.is_none()
    }

    /// Returns about how many bytes the head takes in memory.
    pub fn weight(&self) -> u64 {
        fn of<T>(list: &[T]) -> usize {
            // What the allocator takes beside the bytes.
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
        let lists = of(&self.parts)
            + of(&self.calls)
            + of(&self.changed)
            + of(&self.critics)
            + of(&self.outside);
        let facts = self.facts.as_deref().map_or(0, |facts| {
            let texts = [&facts.json, &facts.error]
                .into_iter()
                .flatten()
                .map(|text| of(text.as_bytes()));
            size_of::<RecordedFacts>() + 16 + texts.sum::<usize>()
        });
        (size_of::<Self>() + texts + lists + facts) as u64
    }

    /// Marks a line that nothing can be read of; it is like its copies alone.
    pub fn unread(fate: Fate, line: &[u8]) -> Self {
        Self {
            fate,
            asked_hash: Self::print_of(line),
            ..Self::default()
        }
    }

    /// What a line has in common with its copies alone.
    pub fn print_of(line: &[u8]) -> u64 {
        super::fingerprint::of_line(line)
    }
}

fn append<T: Clone>(list: &mut Box<[T]>, more: impl Iterator<Item = T>) {
    let known = std::mem::take(list).into_vec();
    *list = known.into_iter().chain(more).collect();
}

/// The hash of what several records say; of one it is its own.
fn mixed(before: u64, more: u64) -> u64 {
    if before == 0 {
        more
    } else {
        before.rotate_left(1) ^ more
    }
}

/// The first call on one line, or the answer, or why there is none.
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

/// The hash of all that the step asks for. Why it does is left out: a reason is no part of what is done.
/// The hash of the names and arguments of actions that a step without others has as [`StepHead::asked_hash`].
pub(crate) fn asked_by<'a>(calls: impl Iterator<Item = Call<'a>>) -> u64 {
    let mut print = Print::default();
    for call in calls.filter(|call| call.value.is_object()) {
        print.word(call.name.as_deref().unwrap_or_default());
        print.value(call.args);
    }
    mixed(0, print.done())
}

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
    /// Of a change that is too long only the key.
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

/// A hash of an answer, by as much of it as is kept anywhere.
pub fn answer_hash(text: &str) -> NonZeroU64 {
    NonZeroU64::new(hash_of_text(&capped(text, MAX_ANSWER_BYTES))).unwrap_or(NonZeroU64::MAX)
}

/// A hash of an answer that isn't a text. It differs from the hash of every text.
pub fn odd_answer_hash(said: &Said) -> NonZeroU64 {
    let words = match said {
        Said::Other(words) => words,
        _ => "null",
    };
    answer_hash(&format!("\0{words}"))
}

/// The answer of a decision if it isn't a text.
fn odd_answer(decision: &Decision<'_>) -> Option<Said> {
    match decision.answer {
        Some(answer) => Scalar::of(answer.text)?.odd(),
        None => (decision.value.get("final_answer") == Some("null")).then_some(Said::Nothing),
    }
}

/// The hash of a value of the state, by its text.
pub(super) fn hash_of_text(text: &str) -> u64 {
    super::fingerprint::of_line(text.as_bytes())
}

impl Call<'_> {
    /// The call on one line, as in `read_file(path="calc.py")`.
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

/// The beginning of a string, long enough for a line in a list.
fn prefix(value: &str) -> Option<std::borrow::Cow<'_, str>> {
    /// A character is written with at most as many bytes, `\ud83d\ude00`, half as many for each byte of a short one.
    const LONGEST: usize = 12;
    let end = value.floor_char_boundary((MAX_CALL_BYTES + 2) * LONGEST / 2);
    let long = value.starts_with('"').then(|| value.get(..end))?;
    match long.filter(|long| long.len() < value.len()) {
        None => walk::string(value),
        // What is cut off may be half an escape.
        Some(long) => (0..LONGEST).find_map(|less| {
            let start = long.get(..long.len().checked_sub(less)?)?;
            walk::string(&format!("{start}\"")).map(|text| text.into_owned().into())
        }),
    }
}

/// `text` on one line, cut to `max` bytes.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let head = cut_at(text, max + 1);
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
