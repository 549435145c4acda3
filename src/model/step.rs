//! Represents a step, or the part of it in one record, borrowed from the record's text.
//!
//! A format fills a [`Step`]. The index keeps a [`StepHead`](super::StepHead), made from the step
//! alone, and pages show the same step. Names and words are decoded. Long texts and values stay
//! JSON text until they are shown ([`Value`]).
//!
//! A format whose steps are spread over several records produces one `Step` for each of them, and
//! the head merges them in order ([`StepHead::absorb`](super::StepHead::absorb)). This module must
//! not know the keys of any format.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

use super::issue::Remark;
use super::json::{Json, walk};
use super::words::words;

/// Maximum number of items of a list that are read. The record itself has all.
const MAX_ITEMS: usize = 4_096;

/// A step of a run, or the part of it in one record.
#[derive(Debug, Clone, Default)]
pub struct Step<'a> {
    /// The recorded id. It may repeat or be missing.
    pub id: Option<i64>,
    /// The acting agent.
    pub agent: Option<Cow<'a, str>>,
    /// The decision, or `None` if there was none.
    pub decision: Option<Decision<'a>>,
    /// The tool calls, in order.
    pub calls: List<Call<'a>>,
    /// How each call was carried out, if recorded separately from its result.
    pub invocations: List<Invocation<'a>>,
    /// Whether invocations are recorded, even as an empty list.
    pub has_invocations: bool,
    /// The tool results.
    pub results: List<Outcome<'a>>,
    /// The critics' outputs, in order.
    pub critics: List<CriticOutput<'a>>,
    /// The state changes, or `None` if not recorded.
    pub changes: Option<Changes<'a>>,
    /// What the agent observed before its decision.
    pub observation: Option<Value<'a>>,
    /// The state before the step.
    pub state: Option<Value<'a>>,
    /// The state keys that the engine itself increments between steps.
    pub counters: &'static [&'static str],
    /// The model's text.
    pub text: Option<Value<'a>>,
    /// Whether the record omits the model's text, so that it's unknown whether there was any.
    pub is_text_unknown: bool,
    /// The tokens of this step's own requests.
    pub tokens: Option<u64>,
    /// These tokens by kind.
    pub usage: Usage,
    /// The part of these tokens that went to models other than `model`, by name.
    pub other_models: Vec<(Cow<'a, str>, Usage)>,
    /// The requested model, if recorded with the step.
    pub model: Option<Cow<'a, str>>,
    /// The finish reason of the reply, in the provider's words.
    pub finish: Option<Cow<'a, str>>,
    /// Whether the writer estimated the tokens.
    pub tokens_estimated: bool,
    /// The run's tokens up to and including this step.
    pub tokens_total: Option<u64>,
    /// The cost of the step's requests in US dollars.
    pub cost_usd: Option<f64>,
    /// The error that ended the step: an object with `phase`, `message`, `recovered`.
    pub error: Option<Value<'a>>,
    /// The facts that the stop rules evaluated.
    pub facts: Option<Value<'a>>,
    /// The pictures that the step refers to.
    pub pictures: List<Picture<'a>>,
    /// How the model's text became a decision.
    pub parsing: Parsing<'a>,
    /// All members of the record that none of the other fields contains, and those of an unexpected
    /// type.
    pub rest: Vec<(Cow<'a, str>, Value<'a>)>,
    /// Remarks on the record.
    pub remarks: Vec<Remark>,
    /// Whether a field of the record couldn't be decoded.
    pub is_damaged: bool,
}

/// The tokens of model requests by kind, if recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// All input tokens, including cached ones.
    pub input: Option<u64>,
    /// The cached part of the input tokens.
    pub cached: Option<u64>,
    /// All output tokens.
    pub output: Option<u64>,
    /// The reasoning part of the output tokens.
    pub reasoning: Option<u64>,
    /// The part of the input tokens that was written to a cache.
    #[serde(default)]
    pub written: Option<u64>,
    /// The part of `written` that the cache keeps for an hour instead of five minutes.
    #[serde(default)]
    pub written_1h: Option<u64>,
}

impl Usage {
    /// Adds two usages. A sum is unknown if either part is, except for cache writes, which few
    /// replies have.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        let add = |one: Option<u64>, other: Option<u64>| Some(one?.saturating_add(other?));
        let either = |one: Option<u64>, other: Option<u64>| add(one, other).or(one).or(other);
        Self {
            input: add(self.input, more.input),
            cached: add(self.cached, more.cached),
            output: add(self.output, more.output),
            reasoning: add(self.reasoning, more.reasoning),
            written: either(self.written, more.written),
            written_1h: either(self.written_1h, more.written_1h),
        }
    }

    /// Returns a usage of zero tokens.
    pub fn of_nothing() -> Self {
        Self {
            input: Some(0),
            cached: Some(0),
            output: Some(0),
            reasoning: Some(0),
            ..Self::default()
        }
    }

    /// Adds a reply for which only the totals are known.
    #[must_use]
    pub fn with_reply(self, input: u64, output: u64) -> Self {
        Self {
            input: self.input.map(|own| own.saturating_add(input)),
            output: self.output.map(|own| own.saturating_add(output)),
            ..self
        }
    }

    /// Subtracts `part`. Unknown numbers of `part` count as zero.
    #[must_use]
    pub fn less(self, part: Self) -> Self {
        let less =
            |all: Option<u64>, part: Option<u64>| Some(all?.saturating_sub(part.unwrap_or(0)));
        Self {
            input: less(self.input, part.input),
            cached: less(self.cached, part.cached),
            output: less(self.output, part.output),
            reasoning: less(self.reasoning, part.reasoning),
            written: less(self.written, part.written),
            written_1h: less(self.written_1h, part.written_1h),
        }
    }
}

/// The decision of a step.
#[derive(Debug, Clone)]
pub struct Decision<'a> {
    /// The decision as recorded.
    pub value: Value<'a>,
    /// `act`, `final`, `wait`, `handoff` or any other word.
    pub mode: Option<Cow<'a, str>>,
    /// The reason in the agent's words.
    pub rationale: Option<Value<'a>>,
    /// The final answer.
    pub answer: Option<Value<'a>>,
    /// The agent handed off to.
    pub handoff: Option<Cow<'a, str>>,
    /// Whether the model's text couldn't be parsed.
    pub is_misread: bool,
    /// The alternatives.
    pub candidates: Option<Value<'a>>,
    /// Other data in the decision.
    pub meta: Option<Value<'a>>,
}

/// The error text for a failure without a recorded message.
pub(crate) const NO_WORDS: &str = "failed without a message";
/// The error text for a call that a program only reports as failed, apart from the result that the
/// model saw.
pub(crate) const FAILED: &str = "failed";
/// The error text for a call that the user declined, if no record contains a text for that.
pub(crate) const DECLINED: &str = "declined";

/// A tool call.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    /// The call as recorded.
    pub value: Value<'a>,
    /// The tool.
    pub name: Option<Cow<'a, str>>,
    /// The arguments.
    pub args: Option<Value<'a>>,
    /// The allowed number of retries.
    pub max_retries: Option<f64>,
    /// The time limit in seconds.
    pub timeout_s: Option<f64>,
}

/// How a call was carried out.
#[derive(Debug, Clone)]
pub struct Invocation<'a> {
    /// The invocation as recorded.
    pub value: Value<'a>,
    /// The tool.
    pub tool: Option<Cow<'a, str>>,
    /// The outcome, in the writer's word.
    pub status: Option<Cow<'a, str>>,
    /// The error message.
    pub error: Option<Value<'a>>,
    /// The kind of error.
    pub category: Option<Cow<'a, str>>,
    /// The tool's origin, the duration and the number of attempts.
    pub effort: Effort<'a>,
}

/// The status of a result that doesn't say whether the call succeeded.
pub const NOT_RECORDED: &str = "not recorded";
/// The status of a call without a result.
pub const NO_ANSWER: &str = "no answer";

/// The result of a call.
#[derive(Debug, Clone)]
pub struct Outcome<'a> {
    /// The result as recorded.
    pub value: Value<'a>,
    /// The tool that the result names.
    pub tool: Option<Cow<'a, str>>,
    /// The outcome, in the writer's word.
    pub status: Option<Cow<'a, str>>,
    /// The error: the `error` member or, if the status reports a failure, the error text from
    /// elsewhere. A member that reports no error doesn't count.
    pub error: Option<Value<'a>>,
    /// The tool's output: a part of the result if the writer wraps it, otherwise the whole result.
    pub output: Option<Value<'a>>,
    /// Whether the output is only a part of the result.
    pub is_wrapped: bool,
    /// The first nonzero exit code.
    pub exit: Option<i64>,
    /// The environment's response, if the result is one.
    pub env: Option<Value<'a>>,
    /// Whether the writer truncated the output.
    pub is_cut: bool,
    /// The output's length in bytes before the writer truncated it, if recorded.
    pub cut_from_bytes: Option<f64>,
    /// The duration and the number of attempts.
    pub effort: Effort<'a>,
}

impl Outcome<'_> {
    /// Returns whether the result says that the call failed.
    pub fn has_failed(&self) -> bool {
        self.error.is_some() || self.status.as_deref().is_some_and(Self::is_failure)
    }

    /// Returns whether this status means that the call failed.
    pub fn is_failure(status: &str) -> bool {
        matches!(
            status,
            "error" | "failed" | "denied" | "timed_out" | "cancelled"
        )
    }
}

impl Invocation<'_> {
    /// Returns whether the invocation says that the call failed or wasn't made.
    pub fn has_failed(&self) -> bool {
        matches!(
            self.status.as_deref(),
            Some("error" | "timed_out" | "cancelled" | "skipped")
        )
    }
}

/// The duration, attempts and origin of a call.
#[derive(Debug, Clone, Default)]
pub struct Effort<'a> {
    /// The duration in milliseconds.
    pub latency_ms: Option<f64>,
    /// The number of attempts.
    pub attempts: Option<f64>,
    /// The time limit in seconds.
    pub timeout_s: Option<f64>,
    /// The tool set that contains the tool.
    pub toolset: Option<Cow<'a, str>>,
    /// The version of the tool set.
    pub toolset_version: Option<Cow<'a, str>>,
    /// The origin of the tool.
    pub source: Option<Cow<'a, str>>,
    /// Who cancelled the call.
    pub cancelled_by: Option<Cow<'a, str>>,
}

/// The output of one critic.
#[derive(Debug, Clone)]
pub struct CriticOutput<'a> {
    /// The output as recorded.
    pub value: Value<'a>,
    /// The critic's recorded name, with its position among those of the step that share it. Without
    /// a recorded name, `critic 1`, `critic 2` by position.
    pub name: Cow<'a, str>,
    /// Whether a name is recorded.
    pub is_named: bool,
    /// The requested action.
    pub action: CriticAction,
    /// The recorded word for the action.
    pub word: Option<Value<'a>>,
    /// The score, if it's finite.
    pub score: Option<f64>,
    /// The score, if it's infinite.
    pub infinite: Option<Infinite>,
    /// The score as recorded.
    pub raw_score: Option<Value<'a>>,
    /// Its reason.
    pub reason: Option<Value<'a>>,
    /// Other data in the output.
    pub details: Option<Value<'a>>,
    /// The changes that the critic requests, each with a name. None of them is empty.
    pub patches: Vec<(&'static str, Value<'a>)>,
    /// The members that none of the other fields contains.
    pub rest: Vec<(Cow<'a, str>, Value<'a>)>,
}

/// An infinite score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

words! {
    /// The action that a critic requests.
    #[derive(Default)]
    pub enum CriticAction {
        /// Continue. Engines also treat unknown words this way.
        #[default]
        Continue = "continue",
        /// Retry the step.
        Retry = "retry",
        /// Stop the run.
        Stop = "stop",
        /// None: the critic itself failed.
        Failed = "failed",
        /// Any other word.
        Other = "other",
    }
}

impl CriticAction {
    /// Returns whether the action determines how the run continues: a retry, a stop, or a failed
    /// critic.
    pub fn decides(self) -> bool {
        !matches!(self, CriticAction::Continue | CriticAction::Other)
    }

    /// Returns the position of the deciding critic. Engines obey the first one in list order that
    /// requests anything but to continue.
    pub fn deciding(actions: impl IntoIterator<Item = Self>) -> Option<usize> {
        actions.into_iter().position(Self::decides)
    }
}

/// A picture that a step refers to.
#[derive(Debug, Clone)]
pub struct Picture<'a> {
    /// The picture as recorded.
    pub value: Value<'a>,
    /// The path inside the run.
    pub path: Option<Cow<'a, str>>,
}

/// How the model's text became a decision.
#[derive(Debug, Clone, Default)]
pub struct Parsing<'a> {
    /// Who decided.
    pub source: Option<Cow<'a, str>>,
    /// The parser that succeeded.
    pub parser: Option<Cow<'a, str>>,
    /// The parsers that were tried.
    pub attempts: Option<Value<'a>>,
    /// The parsers' complaints.
    pub diagnostics: Option<Value<'a>>,
    /// Whether the parser isn't the requested one.
    pub is_fallback: bool,
    /// Whether the text had to be repaired.
    pub is_salvaged: bool,
    /// Why the model's native tool calls weren't used.
    pub no_native_calls: Option<Cow<'a, str>>,
}

/// A JSON value of a record, and its position there.
#[derive(Debug, Clone, Copy, Default)]
pub struct Value<'a> {
    /// The value's text, whose syntax was checked.
    pub text: &'a str,
    /// The position in the record.
    pub at: Pointer,
}

impl<'a> Value<'a> {
    /// Decodes the value.
    pub fn json(self) -> Json<'a> {
        Json::checked(self.text)
    }

    /// Returns the text of a string.
    pub fn string(self) -> Option<Cow<'a, str>> {
        walk::string(self.text)
    }

    /// Returns a string as its text, and anything else as JSON.
    pub fn plain(self) -> Cow<'a, str> {
        self.string()
            .unwrap_or_else(|| Cow::Owned(self.json().to_string()))
    }

    /// Returns whether the value is an object.
    pub fn is_object(self) -> bool {
        self.text.starts_with('{')
    }

    /// Returns whether the value is empty: `null`, or an empty string, array or object.
    pub fn is_empty(self) -> bool {
        match self.text {
            "" | "null" | "\"\"" => true,
            text if text.starts_with('[') => walk::items(text).next().is_none(),
            text if text.starts_with('{') => walk::members(text).next().is_none(),
            _ => false,
        }
    }

    /// Returns the value of a member of an object. If the key repeats, the last one counts.
    pub(crate) fn get(self, key: &str) -> Option<&'a str> {
        let named = |(name, _): &(&str, &str)| walk::string(name).is_some_and(|name| name == key);
        walk::members(self.text)
            .filter(named)
            .last()
            .map(|(_, value)| value)
    }
}

/// The position of a value in its record, as a JSON Pointer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pointer {
    /// The pointer to the value, or to the list that contains it.
    pub list: &'static str,
    /// The index in the list.
    pub index: Option<usize>,
    /// The pointer from the item to the value.
    pub member: &'static str,
}

impl Pointer {
    /// Creates a pointer outside of lists.
    pub fn new(list: &'static str) -> Self {
        Self {
            list,
            index: None,
            member: "",
        }
    }

    /// Returns a pointer to the item at `index` of this list.
    #[must_use]
    pub fn item(self, index: usize) -> Self {
        Self {
            index: Some(index),
            ..self
        }
    }

    /// Returns a pointer to a member of this item.
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

/// The first items of a list, and the total number of items.
#[derive(Debug, Clone)]
pub struct List<T> {
    items: Vec<T>,
    total: usize,
}

impl<T> List<T> {
    /// Returns the total number of items. At most the first 4,096 are kept.
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

/// The state changes of a step.
#[derive(Debug, Clone, Copy)]
pub struct Changes<'a>(pub Value<'a>);

/// One changed key.
#[derive(Debug, Clone)]
pub struct Change<'a> {
    /// The key.
    pub key: Cow<'a, str>,
    /// The recorded change: an object with the values `before` and `after`, or a word instead.
    pub text: &'a str,
}

impl<'a> Changes<'a> {
    /// Iterates over the changed keys, in the order of the record.
    pub fn iter(self) -> impl Iterator<Item = Change<'a>> {
        let key = |key| walk::string(key).unwrap_or(Cow::Borrowed(key));
        walk::members(self.0.text).map(move |(name, text)| Change {
            key: key(name),
            text,
        })
    }
}

impl<'a> Change<'a> {
    /// Returns the value before the step, or `None` if not recorded.
    pub fn before(&self) -> Option<&'a str> {
        self.side("before")
    }

    /// Returns the value after the step, or `None` if not recorded.
    pub fn after(&self) -> Option<&'a str> {
        self.side("after")
    }

    /// Returns the changed lines as a unified diff, or `None` if not recorded.
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
