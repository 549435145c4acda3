//! What is kept of an event line? The place of the line, its phase and time, and the few facts that explain a run.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::num::NonZeroU64;

use super::end::StopVerdict;
use super::stated::Said;
use super::step::{CriticAction, Invocation, Value};
use super::{Fate, Span, Symbol};

/// One line of `events.jsonl` as the index keeps it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct EventHead {
    /// Where the line lies.
    pub span: Span,
    /// The line's number in its file, counted from 1; blank lines count here.
    pub line: u64,
    /// How well the line could be read.
    pub fate: Fate,
    /// What it is to the run.
    pub kind: EventKind,
    /// Whether the event says that it went well; true where it says nothing.
    pub ok: bool,
    /// The step the event names. Life cycle events all name step 0.
    pub step_id: Option<i64>,
    /// The phase, as written.
    pub phase: Symbol,
    /// The stage inside the phase, as written.
    pub stage: Symbol,
    /// The id of the run that the event names; empty where it names none.
    pub run: Symbol,
    /// Microseconds since the Unix epoch.
    pub ts: Option<i64>,
}

impl EventHead {
    /// Whether the line holds nothing that the board knows: it is no record, or one without a known field.
    pub fn is_void(&self) -> bool {
        let is_bare = self.phase == Symbol::default() && self.stage == Symbol::default();
        let is_placed = self.step_id.is_some() || self.ts.is_some();
        self.kind == EventKind::Other && is_bare && !is_placed
    }
}

/// What an event is to the run it belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EventKind {
    /// Tools are set up.
    Setup,
    /// Tools are torn down.
    Teardown,
    /// The run begins; it may hold the state it begins with.
    RunStart,
    /// The run ends.
    RunEnd,
    /// A step begins.
    StepStart,
    /// A step begins; holds the state before it.
    StateBefore,
    /// Something else on the way to a decision.
    Deciding,
    /// What the model is asked.
    Prompt,
    /// What the model wrote.
    Output,
    /// What was decided.
    Decided,
    /// Tools are called.
    Acting,
    /// A critic asked for a stop.
    CriticStop,
    /// The stop rules were asked, and the run goes on.
    Checked,
    /// The stop rules were asked, and end the run.
    Stopped,
    /// The engine recovers from an error, or gives up.
    Recovery,
    /// Anything else inside a step.
    Inside,
    /// Nothing the board knows.
    #[default]
    Other,
}

/// What a line of events says, beyond what the index keeps; borrowed from its text.
#[derive(Debug, Clone, Default)]
pub struct Event<'a> {
    /// The error.
    pub error: Option<Value<'a>>,
    /// The messages of a prompt.
    pub messages: Option<Value<'a>>,
    /// How many messages stand before these.
    pub messages_before: Option<f64>,
    /// What the model wrote.
    pub output: Option<Value<'a>>,
    /// The calls it made besides.
    pub tool_calls: Option<Value<'a>>,
    /// The state that the run begins with, or that before a step.
    pub state: Option<Value<'a>>,
    /// Why the run stops.
    pub stop_reason: Option<Value<'a>>,
    /// What the stop rules looked at in a step that has no line.
    pub facts: Option<Value<'a>>,
}

/// What an event tells about the run, beyond its head.
#[derive(Debug, Clone, PartialEq)]
pub enum EventNote {
    /// The run begins.
    Init(Box<InitNote>),
    /// The step limit inside the agent's state, which is not the engine's budget.
    StateLimit(i64),
    /// What the step's requests took so far.
    Spent(SpentNote),
    /// What was decided.
    Decision(Box<DecisionNote>),
    /// What the critics of the step said, as [`critics_hash`].
    CriticOutputs(u64),
    /// What calls came to, as [`invocations_hash`].
    Invoked(u64),
    /// The critics let the step pass.
    Passed,
    /// `CHECK_STOP` stopped the run.
    Stop(Box<StopNote>),
    /// The critics' verdict for the step: its stage and the reason.
    Critics(Box<str>),
    /// An error in words.
    Error(Box<str>),
    /// The run ends.
    End(Box<EndNote>),
    /// A request did not fit the model's context window.
    Overflow(Box<str>),
    /// When the step that the event begins was asked for; microseconds since the epoch.
    Asked(i64),
    /// When that was over which the event tells the beginning of; microseconds since the epoch.
    Until(i64),
}

/// What the event of a decision says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DecisionNote {
    /// The decision as one line.
    pub line: Option<Box<str>>,
    /// What its step's line says too.
    pub decided: Decided,
}

/// What the event of a decision and the line of its step both say.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Decided {
    /// The mode: `act`, `final`, `wait`, `handoff`; empty where the event has none.
    pub mode: Symbol,
    /// How many actions there are, and a hash of the names of the first, as [`names_hash`].
    pub actions: Option<(u32, u64)>,
    /// A hash of the names and arguments of all actions, as [`StepHead::asked_hash`](super::StepHead::asked_hash).
    pub asked: Option<u64>,
    /// The answer as a hash; `None` inside where it is none.
    pub answer: Option<Option<NonZeroU64>>,
}

/// A hash of the names of actions, in order.
pub fn names_hash<'a>(names: impl Iterator<Item = &'a str>) -> u64 {
    hashed(names)
}

/// A hash of what critics asked for and the scores that they gave, in order.
pub fn critics_hash(outputs: impl Iterator<Item = (CriticAction, Option<f64>)>) -> u64 {
    hashed(outputs.map(|(action, score)| (action as u8, score.map(f64::to_bits))))
}

/// A hash of the tools that were called, how each call went and how long it took, in order.
pub fn invocations_hash<'a>(invocations: impl Iterator<Item = &'a Invocation<'a>>) -> u64 {
    let took = |invocation: &Invocation<'_>| invocation.effort.latency_ms.map(f64::to_bits);
    hashed(invocations.map(|invocation| {
        (
            invocation.tool.as_deref(),
            invocation.status.as_deref(),
            took(invocation),
        )
    }))
}

fn hashed<T: Hash>(items: impl Iterator<Item = T>) -> u64 {
    let mut hasher = DefaultHasher::new();
    items.for_each(|item| item.hash(&mut hasher));
    hasher.finish()
}

/// Tokens that the event of a reply records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpentNote {
    /// Tokens sent.
    pub input: u64,
    /// Tokens received.
    pub output: u64,
    /// Whether the writer estimated them.
    pub is_estimate: bool,
}

/// What the INIT event says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InitNote {
    /// The task in words.
    pub task: Option<Box<str>>,
    /// The model's name.
    pub model: Option<Box<str>>,
    /// The step budget of the task, if it sets one.
    pub max_steps: Option<i64>,
    /// The token budget of the task, if it sets one.
    pub max_tokens: Option<i64>,
    /// The time budget of the task in seconds, if it sets one.
    pub max_seconds: Option<f64>,
    /// Whether somebody goes on with the run before it in the directory: its steps are steps of this one.
    pub goes_on: bool,
}

/// What a stopping `CHECK_STOP` event says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StopNote {
    /// The reason, as written.
    pub reason: Option<Box<str>>,
    /// The rule's own words.
    pub detail: Option<Box<str>>,
    /// Whether the environment ended the episode.
    pub env_terminal: bool,
    /// The answer at that moment, which may be empty.
    pub answer: Option<Box<str>>,
    /// The recorded answer if it isn't a text: `null` or another value.
    pub odd_answer: Option<Said>,
}

/// What an END event says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EndNote {
    /// The reason, as written.
    pub reason: Option<Box<str>>,
    /// The first preflight issue: code and message.
    pub issue: Option<Box<str>>,
    /// The verdict, where it is recorded.
    pub stop: Option<Box<StopVerdict>>,
    /// The facts of a step that has no line, as JSON. `None` also if they are longer than an index keeps.
    pub facts: Option<Box<str>>,
}
