//! Defines the index entry of an event line: its position, phase and time, and the few facts that
//! explain a run.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use super::end::StopVerdict;
use super::stated::Said;
use super::step::{CriticAction, Invocation, Value};
use super::stored;
use super::{Fate, Span, Symbol};

/// One line of `events.jsonl` in the index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct EventHead {
    /// The position of the line.
    pub span: Span,
    /// The 1-based line number in the file. Blank lines count.
    pub line: u64,
    /// How well the line could be parsed.
    pub fate: Fate,
    /// The role of the event in the run.
    pub kind: EventKind,
    /// Whether the event reports success. True if that isn't recorded.
    pub ok: bool,
    /// The step that the event names. Life cycle events all name step 0.
    pub step_id: Option<i64>,
    /// The recorded phase.
    pub phase: Symbol,
    /// The recorded stage inside the phase.
    pub stage: Symbol,
    /// The run id that the event names, or the empty symbol.
    pub run: Symbol,
    /// Microseconds since the Unix epoch.
    pub ts: Option<i64>,
}

impl EventHead {
    /// Returns whether board treats the line as blank, because it isn't a record or has no known
    /// field.
    pub fn is_void(&self) -> bool {
        let is_bare = self.phase == Symbol::default() && self.stage == Symbol::default();
        let is_placed = self.step_id.is_some() || self.ts.is_some();
        self.kind == EventKind::Other && is_bare && !is_placed
    }
}

/// The role of an event in its run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    /// Tools are being set up.
    Setup,
    /// Tools are being torn down.
    Teardown,
    /// The run begins. The event may contain the initial state.
    RunStart,
    /// The run ends.
    RunEnd,
    /// A step begins.
    StepStart,
    /// A step begins. The event contains the state before it.
    StateBefore,
    /// Another event that leads to a decision.
    Deciding,
    /// The prompt for the model.
    Prompt,
    /// The model's reply.
    Output,
    /// The decision.
    Decided,
    /// Tools are called.
    Acting,
    /// A critic requested a stop.
    CriticStop,
    /// The stop rules were evaluated, and the run continues.
    Checked,
    /// The stop rules were evaluated, and end the run.
    Stopped,
    /// The engine recovers from an error, or gives up.
    Recovery,
    /// Any other event inside a step.
    Inside,
    /// An event that board doesn't know.
    #[default]
    Other,
}

/// The fields of an event line that the index doesn't keep, borrowed from its text.
#[derive(Debug, Clone, Default)]
pub struct Event<'a> {
    /// The error.
    pub error: Option<Value<'a>>,
    /// The messages of a prompt.
    pub messages: Option<Value<'a>>,
    /// The number of messages before these.
    pub messages_before: Option<f64>,
    /// The model's reply.
    pub output: Option<Value<'a>>,
    /// The tool calls of the reply, if recorded separately.
    pub tool_calls: Option<Value<'a>>,
    /// The state at the start of the run, or before a step.
    pub state: Option<Value<'a>>,
    /// Why the run stops.
    pub stop_reason: Option<Value<'a>>,
    /// The facts that the stop rules evaluated in a step that has no line.
    pub facts: Option<Value<'a>>,
}

/// A fact about the run that an event states, beyond its head.
#[derive(Debug, Clone, PartialEq)]
pub enum EventNote {
    /// The run begins.
    Init(Box<InitNote>),
    /// The step limit inside the agent's state, which is not the engine's budget.
    StateLimit(i64),
    /// The tokens of the step's requests so far.
    Spent(SpentNote),
    /// The decision.
    Decision(Box<DecisionNote>),
    /// The outputs of the step's critics, as [`critics_hash`].
    CriticOutputs(u64),
    /// The outcome of the tool calls, as [`invocations_hash`].
    Invoked(u64),
    /// The critics let the step pass.
    Passed,
    /// A `CHECK_STOP` event stopped the run.
    Stop(Box<StopNote>),
    /// The critics' verdict on the step, as its stage and the reason.
    Critics(Box<str>),
    /// An error message.
    Error(Box<str>),
    /// The run ends.
    End(Box<EndNote>),
    /// A request did not fit the model's context window.
    Overflow(Box<str>),
    /// When the step that this event begins was requested, in microseconds since the epoch.
    Asked(i64),
    /// When the activity that this event begins was over, in microseconds since the epoch.
    Until(i64),
    /// From when to when the agent waited for a person's approval, in microseconds since the epoch.
    Approval(i64, i64),
}

/// The content of a decision event.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DecisionNote {
    /// The decision as one line.
    pub line: Option<Box<str>>,
    /// The part that the line of its step repeats.
    pub decided: Decided,
}

/// The facts that both a decision event and its step's line state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// The mode: `act`, `final`, `wait` or `handoff`. Empty if the event has none.
    pub mode: Symbol,
    /// The number of actions, and a hash of the names of the first ones, as [`names_hash`].
    pub actions: Option<(u32, u64)>,
    /// A hash of the names and arguments of all actions, as
    /// [`StepHead::asked_hash`](super::StepHead::asked_hash).
    pub asked: Option<u64>,
    /// The answer as a hash. The inner `None` means that the event has no answer.
    pub answer: Option<Option<NonZeroU64>>,
}

/// Hashes the names of actions, in order.
pub fn names_hash<'a>(names: impl Iterator<Item = &'a str>) -> u64 {
    hashed(names)
}

/// Hashes the critics' requested actions and scores, in order.
pub fn critics_hash(outputs: impl Iterator<Item = (CriticAction, Option<f64>)>) -> u64 {
    hashed(outputs.map(|(action, score)| (action as u8, score.map(f64::to_bits))))
}

/// Hashes the invocations' tools, statuses and durations, in order.
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

/// The tokens that a reply event records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpentNote {
    /// Tokens sent.
    pub input: u64,
    /// Tokens received.
    pub output: u64,
    /// Whether the writer estimated them.
    pub is_estimate: bool,
}

/// The content of the INIT event.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct InitNote {
    /// The text of the task.
    pub task: Option<Box<str>>,
    /// The first line of the task itself, if the text begins with words that are the same in each run.
    pub title: Option<Box<str>>,
    /// The model's name.
    pub model: Option<Box<str>>,
    /// The task's step budget, if it sets one.
    pub max_steps: Option<i64>,
    /// The task's token budget, if it sets one.
    pub max_tokens: Option<i64>,
    /// The task's time budget in seconds, if it sets one.
    pub max_seconds: Option<f64>,
    /// Whether this run continues the previous run in the directory, whose steps then belong to
    /// this run too.
    pub continues_previous: bool,
}

/// The content of a `CHECK_STOP` event that stopped the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StopNote {
    /// The recorded reason.
    pub reason: Option<Box<str>>,
    /// The rule's own words.
    pub detail: Option<Box<str>>,
    /// Whether the environment ended the episode.
    pub env_terminal: bool,
    /// The answer at that moment, which may be empty.
    pub answer: Option<Box<str>>,
    /// The recorded answer if it isn't a text: `null` or another value.
    pub non_text_answer: Option<Said>,
}

/// The content of an END event.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EndNote {
    /// The recorded reason.
    pub reason: Option<Box<str>>,
    /// The first preflight issue, as code and message.
    pub issue: Option<Box<str>>,
    /// The verdict, if recorded.
    #[serde(with = "stored::as_json")]
    pub stop: Option<Box<StopVerdict>>,
    /// The facts of a step that has no line, as JSON. Also `None` if they are longer than the index
    /// keeps.
    pub facts: Option<Box<str>>,
}
