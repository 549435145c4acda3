//! What does one record say of a step? Its parts, borrowed from the record's text.
//!
//! A format fills a [`Step`]; what is kept of it in the index is a [`StepHead`](super::StepHead), made from the step
//! alone, and pages show the same step. Names and words are decoded; long texts and values stay JSON text until
//! somebody looks ([`Value`]).
//!
//! A format whose steps are spread over several records gives one `Step` for each of them; the head takes them in one
//! after the other ([`StepHead::absorb`](super::StepHead::absorb)). Must not know the keys of any format.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use super::json::{Json, walk};
use super::repair::Remark;

/// At most this many items of a list are read; the record itself has all.
const MAX_ITEMS: usize = 4_096;

/// One step of a run, or the part of it that one record holds.
#[derive(Debug, Clone, Default)]
pub struct Step<'a> {
    /// The recorded label; may repeat or be missing.
    pub id: Option<i64>,
    /// The acting agent.
    pub agent: Option<Cow<'a, str>>,
    /// What was decided; `None` where nothing was.
    pub decision: Option<Decision<'a>>,
    /// What is asked for, in order.
    pub calls: List<Call<'a>>,
    /// How each call was carried out, where that is recorded apart from its result.
    pub invocations: List<Invocation<'a>>,
    /// Whether that is recorded, if only as an empty list.
    pub tells_invocations: bool,
    /// What came back.
    pub results: List<Outcome<'a>>,
    /// What the critics said, in order.
    pub critics: List<CriticOutput<'a>>,
    /// What changed in the state; `None` where that is not recorded.
    pub changes: Option<Changes<'a>>,
    /// What the agent saw before it decided.
    pub observation: Option<Value<'a>>,
    /// The state before the step.
    pub state: Option<Value<'a>>,
    /// The keys of the state that the engine itself counts up between steps.
    pub counters: &'static [&'static str],
    /// The model's text.
    pub text: Option<Value<'a>>,
    /// The record leaves the model's text out: it may have said something.
    pub is_text_untold: bool,
    /// Tokens of this step's own requests.
    pub tokens: Option<u64>,
    /// The same, apart.
    pub usage: Usage,
    /// What other models than `model` took of that, each by its name.
    pub other_models: Vec<(Cow<'a, str>, Usage)>,
    /// The model that was asked, where it is recorded with the step.
    pub model: Option<Cow<'a, str>>,
    /// Why its reply ended, in the word of who gave it.
    pub finish: Option<Cow<'a, str>>,
    /// Whether the writer estimated its tokens.
    pub tokens_estimated: bool,
    /// Tokens of the run up to and with this step.
    pub tokens_total: Option<u64>,
    /// What its requests cost in US dollars.
    pub cost_usd: Option<f64>,
    /// The error that ended the step: an object with `phase`, `message`, `recovered`.
    pub error: Option<Value<'a>>,
    /// The facts that the stop rules looked at.
    pub facts: Option<Value<'a>>,
    /// The pictures the step refers to.
    pub pictures: List<Picture<'a>>,
    /// How the model's text became a decision.
    pub parsing: Parsing<'a>,
    /// All members of the record that nothing above holds, and those that are not of the type they should be.
    pub rest: Vec<(Cow<'a, str>, Value<'a>)>,
    /// What is odd about the record.
    pub remarks: Vec<Remark>,
    /// Whether a field of the record could not be decoded.
    pub is_damaged: bool,
}

/// Tokens of requests to a model, where they are recorded apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Usage {
    /// All that the model read, from its cache too.
    pub input: Option<u64>,
    /// Of them, those that its cache held.
    pub cached: Option<u64>,
    /// All that it wrote.
    pub output: Option<u64>,
    /// Of them, those of its thought.
    pub reasoning: Option<u64>,
}

impl Usage {
    /// Both, added up. What one does not tell is not known of both.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        let add = |one: Option<u64>, other: Option<u64>| Some(one?.saturating_add(other?));
        Self {
            input: add(self.input, more.input),
            cached: add(self.cached, more.cached),
            output: add(self.output, more.output),
            reasoning: add(self.reasoning, more.reasoning),
        }
    }

    /// What nothing took.
    pub fn of_nothing() -> Self {
        Self {
            input: Some(0),
            cached: Some(0),
            output: Some(0),
            reasoning: Some(0),
        }
    }

    /// These and those of a reply of which only the sums are known.
    #[must_use]
    pub fn with_reply(self, input: u64, output: u64) -> Self {
        Self {
            input: self.input.map(|own| own.saturating_add(input)),
            output: self.output.map(|own| own.saturating_add(output)),
            ..self
        }
    }

    /// What is left without `part`, as far as both are known.
    #[must_use]
    pub fn less(self, part: Self) -> Self {
        let less =
            |all: Option<u64>, part: Option<u64>| Some(all?.saturating_sub(part.unwrap_or(0)));
        Self {
            input: less(self.input, part.input),
            cached: less(self.cached, part.cached),
            output: less(self.output, part.output),
            reasoning: less(self.reasoning, part.reasoning),
        }
    }
}

/// What was decided.
#[derive(Debug, Clone)]
pub struct Decision<'a> {
    /// The decision as written.
    pub value: Value<'a>,
    /// `act`, `final`, `wait`, `handoff` or any other word.
    pub mode: Option<Cow<'a, str>>,
    /// Why, in the agent's words.
    pub rationale: Option<Value<'a>>,
    /// The final answer.
    pub answer: Option<Value<'a>>,
    /// The agent handed over to.
    pub handoff: Option<Cow<'a, str>>,
    /// Whether the model's text was not understood.
    pub is_misread: bool,
    /// What could have been decided instead.
    pub candidates: Option<Value<'a>>,
    /// What else the decision carries.
    pub meta: Option<Value<'a>>,
}

/// What is said of a failure of which no words are recorded.
pub(crate) const NO_WORDS: &str = "failed without a message";
/// Error of a call of which a program says only that it failed, beside what the model was given.
pub(crate) const FAILED: &str = "failed";
/// Error of a call that its user declined, where no record has words for that.
pub(crate) const DECLINED: &str = "declined";

/// A call of a tool.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    /// The call as written.
    pub value: Value<'a>,
    /// The tool.
    pub name: Option<Cow<'a, str>>,
    /// The arguments.
    pub args: Option<Value<'a>>,
    /// How often it may be tried again.
    pub max_retries: Option<f64>,
    /// How long it may take, in seconds.
    pub timeout_s: Option<f64>,
}

/// How a call was carried out.
#[derive(Debug, Clone)]
pub struct Invocation<'a> {
    /// The invocation as written.
    pub value: Value<'a>,
    /// The tool.
    pub tool: Option<Cow<'a, str>>,
    /// How it went, in the writer's word.
    pub status: Option<Cow<'a, str>>,
    /// The error in words.
    pub error: Option<Value<'a>>,
    /// The sort of error.
    pub category: Option<Cow<'a, str>>,
    /// Who ran it, how long and how often.
    pub effort: Effort<'a>,
}

/// The status of a result that says nothing of how the call went.
pub const NOT_RECORDED: &str = "not recorded";
/// The status that stands in the place of a result which has not come.
pub const NO_ANSWER: &str = "no answer";

/// What came back from a call.
#[derive(Debug, Clone)]
pub struct Outcome<'a> {
    /// The result as written.
    pub value: Value<'a>,
    /// The tool it names.
    pub tool: Option<Cow<'a, str>>,
    /// How it went, in the writer's word.
    pub status: Option<Cow<'a, str>>,
    /// What it says of an error: under `error`, or, where the status tells of a failure, in words besides. A member that
    /// says that there was none is no error.
    pub error: Option<Value<'a>>,
    /// What the tool returned: a part of the result where the writer wraps it, else the whole result.
    pub output: Option<Value<'a>>,
    /// Whether the output is a part of the result.
    pub is_wrapped: bool,
    /// The first exit code that is not zero.
    pub exit: Option<i64>,
    /// The answer of the environment, where the result is that.
    pub env: Option<Value<'a>>,
    /// Whether the writer cut the output.
    pub is_cut: bool,
    /// How many bytes the output had before the writer cut it, where that is recorded.
    pub cut_from_bytes: Option<f64>,
    /// How long it took and how often it was tried.
    pub effort: Effort<'a>,
}

impl Outcome<'_> {
    /// Whether it says that the call failed.
    pub fn has_failed(&self) -> bool {
        self.error.is_some() || self.status.as_deref().is_some_and(Self::is_failure)
    }

    /// Whether a result with this status is that of a call that failed.
    pub fn is_failure(status: &str) -> bool {
        matches!(
            status,
            "error" | "failed" | "denied" | "timed_out" | "cancelled"
        )
    }
}

impl Invocation<'_> {
    /// Whether it says that the call failed or was not made.
    pub fn has_failed(&self) -> bool {
        matches!(
            self.status.as_deref(),
            Some("error" | "timed_out" | "cancelled" | "skipped")
        )
    }
}

/// What a call took.
#[derive(Debug, Clone, Default)]
pub struct Effort<'a> {
    /// Milliseconds.
    pub latency_ms: Option<f64>,
    /// How often it was tried.
    pub attempts: Option<f64>,
    /// How long it was allowed to take, in seconds.
    pub timeout_s: Option<f64>,
    /// The set of tools it belongs to.
    pub toolset: Option<Cow<'a, str>>,
    /// The version of that set.
    pub toolset_version: Option<Cow<'a, str>>,
    /// Where the tool comes from.
    pub source: Option<Cow<'a, str>>,
    /// Who cancelled it.
    pub cancelled_by: Option<Cow<'a, str>>,
}

/// What one critic said.
#[derive(Debug, Clone)]
pub struct CriticOutput<'a> {
    /// The output as written.
    pub value: Value<'a>,
    /// The critic's recorded name, with its place among those of the step that share it; `critic 1`, `critic 2` by
    /// position where none is recorded.
    pub name: Cow<'a, str>,
    /// Whether a name is recorded.
    pub is_named: bool,
    /// What it asks for.
    pub action: CriticAction,
    /// The word it asks with.
    pub word: Option<Value<'a>>,
    /// Its score where that is a finite number.
    pub score: Option<f64>,
    /// Its score where that is infinite.
    pub infinite: Option<Infinite>,
    /// The score as written.
    pub raw_score: Option<Value<'a>>,
    /// Its reason.
    pub reason: Option<Value<'a>>,
    /// What it gives besides.
    pub details: Option<Value<'a>>,
    /// What it wants changed, each with a name; never empty ones.
    pub patches: Vec<(&'static str, Value<'a>)>,
    /// Members that none of the above holds.
    pub rest: Vec<(Cow<'a, str>, Value<'a>)>,
}

/// A score that is lower or higher than every number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Infinite {
    /// `-Infinity`.
    Below,
    /// `Infinity`.
    Above,
}

impl From<Infinite> for f64 {
    fn from(score: Infinite) -> Self {
        match score {
            Infinite::Below => f64::NEG_INFINITY,
            Infinite::Above => f64::INFINITY,
        }
    }
}

/// What a critic asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CriticAction {
    /// Go on; also what engines do with words they do not know.
    #[default]
    Continue,
    /// Do it again.
    Retry,
    /// End the run.
    Stop,
    /// Nothing: the critic itself failed.
    Failed,
    /// A word that is none of these.
    Other,
}

impl CriticAction {
    /// Whether it wants anything but to go on.
    pub fn decides(self) -> bool {
        !matches!(self, CriticAction::Continue | CriticAction::Other)
    }

    /// The place of the critic that decides: engines obey the first in list order that wants anything but to go on.
    pub fn deciding(actions: impl IntoIterator<Item = Self>) -> Option<usize> {
        actions.into_iter().position(Self::decides)
    }
}

/// A picture a step refers to.
#[derive(Debug, Clone)]
pub struct Picture<'a> {
    /// What is recorded of it.
    pub value: Value<'a>,
    /// Its path inside the run.
    pub path: Option<Cow<'a, str>>,
}

/// How the model's text became a decision.
#[derive(Debug, Clone, Default)]
pub struct Parsing<'a> {
    /// Who decided.
    pub source: Option<Cow<'a, str>>,
    /// The parser that understood the text.
    pub parser: Option<Cow<'a, str>>,
    /// The parsers that were tried.
    pub attempts: Option<Value<'a>>,
    /// What the parsers complained about.
    pub diagnostics: Option<Value<'a>>,
    /// Whether the parser is not the one asked for.
    pub is_fallback: bool,
    /// Whether the text had to be repaired.
    pub is_salvaged: bool,
    /// Why tool calls of the model's own kind were not used.
    pub no_native_calls: Option<Cow<'a, str>>,
}

/// A JSON value of a record, and where it stands there.
#[derive(Debug, Clone, Copy, Default)]
pub struct Value<'a> {
    /// Its text; the syntax was checked.
    pub text: &'a str,
    /// Where it stands.
    pub at: Pointer,
}

impl<'a> Value<'a> {
    /// The value, decoded.
    pub fn json(self) -> Json<'a> {
        Json::checked(self.text)
    }

    /// The text of a string.
    pub fn string(self) -> Option<Cow<'a, str>> {
        walk::string(self.text)
    }

    /// A string as its text, anything else as JSON.
    pub fn plain(self) -> Cow<'a, str> {
        self.string()
            .unwrap_or_else(|| Cow::Owned(self.json().to_string()))
    }

    /// Whether it is an object.
    pub fn is_object(self) -> bool {
        self.text.starts_with('{')
    }

    /// Whether there is nothing in it: `null`, an empty string, array or object.
    pub fn is_empty(self) -> bool {
        match self.text {
            "" | "null" | "\"\"" => true,
            text if text.starts_with('[') => walk::items(text).next().is_none(),
            text if text.starts_with('{') => walk::members(text).next().is_none(),
            _ => false,
        }
    }

    /// The value of a member of an object; the last one where the key repeats.
    pub(crate) fn get(self, key: &str) -> Option<&'a str> {
        let named = |(name, _): &(&str, &str)| walk::string(name).is_some_and(|name| name == key);
        walk::members(self.text)
            .filter(named)
            .last()
            .map(|(_, value)| value)
    }
}

/// Where a value stands in its record: a JSON pointer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pointer {
    /// The way to the value, or to the list that holds it.
    pub list: &'static str,
    /// The place in the list.
    pub index: Option<usize>,
    /// The way on from there.
    pub member: &'static str,
}

impl Pointer {
    /// A place outside of lists.
    pub fn new(list: &'static str) -> Self {
        Self {
            list,
            index: None,
            member: "",
        }
    }

    /// The item of this list at `index`.
    #[must_use]
    pub fn item(self, index: usize) -> Self {
        Self {
            index: Some(index),
            ..self
        }
    }

    /// A member of this item.
    #[must_use]
    pub fn member(self, member: &'static str) -> Self {
        Self { member, ..self }
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.list)?;
        if let Some(index) = self.index {
            write!(f, "/{index}")?;
        }
        f.write_str(self.member)
    }
}

/// The first items of a list, and how many there are.
#[derive(Debug, Clone)]
pub struct List<T> {
    items: Vec<T>,
    total: usize,
}

impl<T> List<T> {
    /// How many items there are; at most the first 4,096 are here.
    pub fn total(&self) -> usize {
        self.total
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            total: 0,
        }
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<T> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut items = items.into_iter();
        let kept: Vec<T> = items.by_ref().take(MAX_ITEMS).collect();
        Self {
            total: kept.len() + items.count(),
            items: kept,
        }
    }
}

/// What a step changed in the state.
#[derive(Debug, Clone, Copy)]
pub struct Changes<'a>(pub Value<'a>);

/// One changed key.
#[derive(Debug, Clone)]
pub struct Change<'a> {
    /// The key.
    pub key: Cow<'a, str>,
    /// What is recorded of it: an object with the value `before` and `after`, or a word in its place.
    pub text: &'a str,
}

impl<'a> Changes<'a> {
    /// The changed keys, in the order of the record.
    pub fn iter(self) -> impl Iterator<Item = Change<'a>> {
        let key = |key| walk::string(key).unwrap_or(Cow::Borrowed(key));
        walk::members(self.0.text).map(move |(name, text)| Change {
            key: key(name),
            text,
        })
    }
}

impl<'a> Change<'a> {
    /// The value before the step; `None` where the record does not say.
    pub fn before(&self) -> Option<&'a str> {
        self.side("before")
    }

    /// The value after it.
    pub fn after(&self) -> Option<&'a str> {
        self.side("after")
    }

    /// The lines that it changed, as a unified diff; `None` where the record has none.
    pub fn diff(&self) -> Option<Cow<'a, str>> {
        walk::string(self.side("diff")?)
    }

    fn side(&self, name: &str) -> Option<&'a str> {
        Value {
            text: self.text,
            at: Pointer::default(),
        }
        .get(name)
    }
}
