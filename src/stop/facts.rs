//! Defines the facts of one step, which are the input of all rules. The engine fills them as the
//! step runs, or a reader fills them from a trace.
//!
//! All times come from outside, in milliseconds since the run began or was resumed.

use serde::{Deserialize, Serialize};

use super::check::Check;
use crate::model::{Code, Gate, Phase, Source};

/// A set of gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Gate>", into = "Vec<Gate>")]
pub struct GateSet(u8);

impl GateSet {
    /// The empty set.
    pub const NONE: GateSet = GateSet(0);
    /// The set of all gates.
    pub const ALL: GateSet = GateSet(0b111);

    /// Returns the set that contains only `gate`.
    pub const fn only(gate: Gate) -> Self {
        GateSet(1 << gate as u8)
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn and(self, other: GateSet) -> Self {
        GateSet(self.0 | other.0)
    }

    /// Returns whether the sets have a gate in common.
    pub const fn meets(self, other: GateSet) -> bool {
        self.0 & other.0 != 0
    }

    /// Iterates over the gates in order.
    pub fn iter(self) -> impl Iterator<Item = Gate> {
        Gate::ALL
            .into_iter()
            .filter(move |gate| self.meets(GateSet::only(*gate)))
    }
}

impl From<Vec<Gate>> for GateSet {
    fn from(gates: Vec<Gate>) -> Self {
        gates
            .into_iter()
            .fold(GateSet::NONE, |set, gate| set.and(GateSet::only(gate)))
    }
}

impl From<GateSet> for Vec<Gate> {
    fn from(set: GateSet) -> Self {
        set.iter().collect()
    }
}

pub(super) fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The facts of one step.
///
/// The engine fills them as the step runs and records all of them. When read from a trace, facts
/// that aren't recorded stay unknown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepFacts {
    /// The step's number, counted from 0.
    pub step: u64,
    /// The last gate the step reached. A run may end at the first gate of the step after its last
    /// one.
    pub reached: Gate,
    /// When the step began.
    pub t_start_ms: Option<u64>,
    /// When its decision was complete.
    pub t_decided_ms: Option<u64>,
    /// When the step ended.
    pub t_end_ms: Option<u64>,
    /// Milliseconds spent waiting for people that guards asked. Part of the step's time, so
    /// time limits count it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ms: u64,
    /// Tokens of all model calls up to the decision, including repairs and continuations. Zero if
    /// no model was called.
    pub usage: Option<Usage>,
    /// Tokens of model calls after the decision, such as those of a judging critic.
    #[serde(default)]
    pub late_usage: Usage,
    /// Cost of the calls in `late_usage`, in US dollars. `None` if a call's cost is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_cost_usd: Option<f64>,
    /// Cost of all model calls up to the decision, in US dollars. `None` if a call's cost is
    /// unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Whether part of the cost was estimated from tokens and prices.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cost_estimated: bool,
    /// The text of the model's reply.
    #[serde(default)]
    pub text: Text,
    /// Hash of the model's tool calls and their arguments, if the reply has calls but no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Names of the requested actions in order, before any filtering.
    pub actions: Option<Vec<String>>,
    /// Whether the decision is a candidate answer: a final decision, or a reply without actions.
    #[serde(default)]
    pub candidate: bool,
    /// The final answer: of a final decision, or the final result that the agent set in its state.
    #[serde(default)]
    pub final_answer: Option<String>,
    /// The failure, if the step failed.
    #[serde(default)]
    pub error: Option<StepError>,
    /// Whether the failure ended the run at once: it's the first one, or of a kind that can't be
    /// recovered from.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untried: bool,
    /// Hash of the state after the critics.
    pub signature: Option<u64>,
    /// The critics' outputs, in order.
    #[serde(default)]
    pub critics: Vec<CriticFact>,
    /// Whether the agent asked to stop.
    #[serde(default)]
    pub agent_stop: bool,
    /// Whether the agent set its stop reason to `success`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub agent_success: bool,
    /// Whether the agent set an answer together with a stop reason other than `final` and
    /// `success`. Such an answer is kept, but not judged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept_answer: bool,
    /// Whether the environment ended the episode.
    #[serde(default)]
    pub env_terminal: bool,
    /// The results of custom rules. A replay can't evaluate these rules again.
    #[serde(default)]
    pub opaque: Vec<OpaqueAnswer>,
    /// Why the run ended at this step, if not because of a rule.
    #[serde(default)]
    pub forced: Option<Forced>,
    /// Whether the run was resumed here. A stop before this step doesn't count as the run's end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resumed: bool,
    /// Whether the step's line couldn't be read. Missing facts of such a step are unknown, not
    /// absent.
    #[serde(skip)]
    pub is_unread: bool,
    /// Whether the known part of the final answer is truncated.
    #[serde(skip)]
    pub is_answer_cut: bool,
    /// Whether the trace doesn't record if the step failed. Only set if the step has no `error`.
    #[serde(skip)]
    pub is_error_unknown: bool,
}

impl StepFacts {
    /// Returns the latest recorded time of the step.
    pub fn latest_ms(&self) -> Option<u64> {
        self.t_end_ms.or(self.t_decided_ms).or(self.t_start_ms)
    }

    /// Returns a completed step with no known facts.
    pub fn unknown(step: u64) -> Self {
        Self {
            step,
            reached: Gate::AfterStep,
            t_start_ms: None,
            t_decided_ms: None,
            t_end_ms: None,
            waited_ms: 0,
            usage: None,
            late_usage: Usage::default(),
            late_cost_usd: None,
            cost_usd: None,
            cost_estimated: false,
            text: Text::Unknown,
            calls: None,
            actions: None,
            candidate: false,
            final_answer: None,
            error: None,
            untried: false,
            signature: None,
            critics: Vec::new(),
            agent_stop: false,
            agent_success: false,
            kept_answer: false,
            env_terminal: false,
            opaque: Vec::new(),
            forced: None,
            resumed: false,
            is_unread: false,
            is_answer_cut: false,
            is_error_unknown: false,
        }
    }

    /// Returns a step whose line couldn't be read.
    pub fn unread(step: u64) -> Self {
        Self {
            is_unread: true,
            is_error_unknown: true,
            ..Self::unknown(step)
        }
    }

    /// Returns a step that begins at `t_start_ms`, without a model call, text or actions.
    pub fn begin(step: u64, t_start_ms: u64) -> Self {
        Self {
            reached: Gate::BeforeStep,
            t_start_ms: Some(t_start_ms),
            usage: Some(Usage::default()),
            text: Text::default(),
            actions: Some(Vec::new()),
            ..Self::unknown(step)
        }
    }

    /// Returns whether the step failed before its decision. Such a step skips the gate
    /// `after_decide`.
    pub fn decide_failed(&self) -> bool {
        self.error
            .as_ref()
            .is_some_and(|error| matches!(error.phase, Phase::Prepare | Phase::Decide))
    }

    /// Returns the cost of the step in US dollars. `None` if a model was called and its cost is
    /// unknown.
    pub fn cost(&self) -> Option<f64> {
        let unasked = |usage: Option<Usage>| (usage == Some(Usage::default())).then_some(0.0);
        let late = self.late_cost_usd.or(unasked(Some(self.late_usage)))?;
        self.cost_usd
            .or(unasked(self.usage))
            .map(|cost| cost + late)
    }

    /// Adds the tokens of a model call after the decision, and its cost if known.
    pub fn late(&mut self, usage: Usage, cost_usd: Option<f64>) {
        if usage == Usage::default() {
            return;
        }
        let cost = cost_usd.filter(|cost| cost.is_finite() && *cost >= 0.0);
        self.late_cost_usd = match self.late_usage == Usage::default() {
            true => cost,
            // One call without a cost makes the sum unknown.
            false => self
                .late_cost_usd
                .zip(cost)
                .map(|(spent, cost)| spent + cost),
        };
        self.late_usage = self.late_usage.plus(usage);
    }

    /// Returns the gates the step reached, in order. A step whose decision failed skips
    /// `after_decide`.
    pub(crate) fn gates(&self) -> impl Iterator<Item = Gate> + use<> {
        let (reached, failed) = (self.reached, self.decide_failed());
        Gate::ALL
            .into_iter()
            .filter(move |gate| *gate <= reached && !(*gate == Gate::AfterDecide && failed))
    }

    /// Returns the gates whose policies are checked at `gate`. For a candidate answer, the policies
    /// of `after_decide` wait until the answer is judged. For a failed decision, they wait until
    /// the step ends.
    pub(crate) fn due(&self, gate: Gate) -> GateSet {
        let held_back = self.candidate || self.decide_failed();
        match gate {
            Gate::AfterDecide if self.candidate => GateSet::NONE,
            Gate::AfterStep if held_back => {
                GateSet::only(gate).and(GateSet::only(Gate::AfterDecide))
            }
            _ => GateSet::only(gate),
        }
    }

    /// Returns whether the step has an answer to accept.
    pub(crate) fn is_answer(&self) -> bool {
        self.candidate || self.final_answer.is_some()
    }

    /// Returns whether the agent's state has an answer that may stay, although it isn't what ended
    /// the run.
    pub(super) fn has_own_answer(&self) -> bool {
        let own = self.kept_answer || (!self.candidate && self.final_answer.is_some());
        own && self.judges_answers()
    }

    /// Returns whether the step's answer is judged. It isn't if the step failed or a critic asks
    /// for a retry.
    pub(crate) fn judges_answers(&self) -> bool {
        let vetoed = self
            .deciding_critic()
            .is_some_and(|(_, critic)| critic.wish == CriticWish::Retry);
        self.error.is_none() && !vetoed
    }

    /// Returns the first critic in order that doesn't say continue, with its index.
    pub(super) fn deciding_critic(&self) -> Option<(usize, &CriticFact)> {
        self.critics
            .iter()
            .enumerate()
            .find(|(_, critic)| critic.wish != CriticWish::Continue)
    }

    /// Returns the text by which the answer is judged: the final answer, or else the model's text.
    pub(super) fn answer(&self) -> Option<&str> {
        self.final_answer.as_deref().or_else(|| self.text.known())
    }
}

/// Tokens of model calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens read from the provider's cache, if reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<u64>,
    /// Reasoning tokens, a part of the output tokens, if reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
    /// Whether the counts were estimated because the provider reported none.
    #[serde(default)]
    pub estimated: bool,
}

impl Usage {
    /// Returns token counts reported by a provider.
    pub fn reported(input: u64, output: u64) -> Self {
        Self {
            input,
            output,
            ..Self::default()
        }
    }

    /// Returns estimated token counts.
    pub fn estimated(input: u64, output: u64) -> Self {
        Self {
            input,
            output,
            estimated: true,
            ..Self::default()
        }
    }

    /// Returns the sum of input and output tokens.
    pub fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// Returns the sum of both usages.
    #[must_use]
    pub fn plus(self, other: Usage) -> Self {
        // If only one side reports a count, the sum uses that count.
        let add = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cached: add(self.cached, other.cached),
            reasoning: add(self.reasoning, other.reasoning),
            estimated: self.estimated || other.estimated,
        }
    }
}

impl From<Usage> for crate::model::step::Usage {
    fn from(usage: Usage) -> Self {
        let Usage {
            input,
            output,
            cached,
            reasoning,
            ..
        } = usage;
        Self {
            input: Some(input),
            cached,
            output: Some(output),
            reasoning,
            ..Self::default()
        }
    }
}

/// A model's text, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Text {
    /// The text isn't recorded.
    Unknown,
    /// The full text. Empty if the reply has only tool calls.
    Known(String),
    /// The text was redacted. It can only be compared for equality.
    Redacted {
        /// Length in bytes.
        len: u64,
        /// Hash of the text, as [`super::text_hash`] computes it.
        hash: u64,
    },
}

impl Default for Text {
    fn default() -> Self {
        Text::Known(String::new())
    }
}

impl Text {
    /// Returns the text, if known.
    pub fn known(&self) -> Option<&str> {
        match self {
            Text::Known(text) => Some(text),
            _ => None,
        }
    }
}

/// A failure within a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepError {
    /// The phase that failed.
    pub phase: Phase,
    /// The error message.
    pub message: String,
    /// Whether the run may continue. The step's answer is rejected either way.
    pub recovered: bool,
}

/// The output of one critic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CriticFact {
    /// The critic's name.
    pub name: String,
    /// What the critic asks for.
    pub wish: CriticWish,
    /// The critic's reason, or its error message if it failed.
    #[serde(default)]
    pub reason: Option<String>,
    /// The score, finite or infinite. `None` for NaN.
    ///
    /// A reader should parse the number's text itself. Without `float_roundtrip`, serde_json may be
    /// off by one unit in the last place, which could move a score at a rule's limit to the other
    /// side.
    #[serde(default)]
    pub score: Option<f64>,
}

/// What a critic asks for. The first critic in order that doesn't say continue decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CriticWish {
    /// Continue the run.
    Continue,
    /// Reject this step's answer and try again.
    Retry,
    /// End the run.
    Stop,
    /// The critic itself failed.
    Failed,
}

/// The result of a custom rule at a gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpaqueAnswer {
    /// The rule's id.
    pub id: String,
    /// The gate.
    pub gate: Gate,
    /// The rule's result. A failed rule is recorded as a stop with the code `criterion_error`.
    pub check: Check,
}

/// An end that no rule caused, such as cancellation, exhausted recoveries or a full context window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Forced {
    /// The gate at which the end was noticed.
    pub gate: Gate,
    /// What ended the run.
    pub source: Source,
    /// The code of the end.
    pub code: Code,
    /// One sentence about the end.
    #[serde(default)]
    pub detail: String,
}
