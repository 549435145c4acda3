//! What may a rule look at? The facts of one step, filled by the live engine or from its record.
//!
//! All times arrive from outside, in milliseconds since the run, or since it was resumed, began.

use serde::{Deserialize, Serialize};

use super::check::Check;
use crate::model::{Code, Gate, Phase, Source};

/// At which gates a rule wants to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Gate>", into = "Vec<Gate>")]
pub struct GateSet(u8);

impl GateSet {
    /// No gate.
    pub const NONE: GateSet = GateSet(0);
    /// Every gate.
    pub const ALL: GateSet = GateSet(0b111);

    /// One gate.
    pub const fn only(gate: Gate) -> Self {
        GateSet(1 << gate as u8)
    }

    /// These gates and those.
    #[must_use]
    pub const fn and(self, other: GateSet) -> Self {
        GateSet(self.0 | other.0)
    }

    /// Whether one of the gates is in both.
    pub const fn meets(self, other: GateSet) -> bool {
        self.0 & other.0 != 0
    }

    /// The gates, in order.
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
/// The engine fills them as the step goes on and records all of them; whatever a reader cannot find stays unknown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepFacts {
    /// The step's ordinal.
    pub step: u64,
    /// The last gate the step came to; the step after the last one may have come to its first gate only.
    pub reached: Gate,
    /// When the step began.
    pub t_start_ms: Option<u64>,
    /// When its decision was there.
    pub t_decided_ms: Option<u64>,
    /// When it was over.
    pub t_end_ms: Option<u64>,
    /// So long it waited for people that guards had asked; a part of its time, and of what time limits count.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ms: u64,
    /// Tokens of all model calls up to the decision, repairs and continuations included; zero where no model ran.
    pub usage: Option<Usage>,
    /// Tokens of model calls after the decision, such as a judging critic's.
    #[serde(default)]
    pub late_usage: Usage,
    /// US dollars that those cost; `None` where one does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_cost_usd: Option<f64>,
    /// US dollars that all model calls up to the decision cost; `None` where one does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Whether any of what it cost was estimated from tokens and prices.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cost_estimated: bool,
    /// The model's text.
    #[serde(default)]
    pub text: Text,
    /// A hash of the model's calls with their arguments, where it called and said nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// The names of the requested actions in order, before any filter.
    pub actions: Option<Vec<String>>,
    /// Whether the decision is a candidate answer: a final decision, or a reply without actions.
    #[serde(default)]
    pub candidate: bool,
    /// The final answer: a final decision's, or what the agent put into its state as final result.
    #[serde(default)]
    pub final_answer: Option<String>,
    /// What failed.
    #[serde(default)]
    pub error: Option<StepError>,
    /// A hash of the state after the critics.
    pub signature: Option<u64>,
    /// The critics' outputs in order.
    #[serde(default)]
    pub critics: Vec<CriticFact>,
    /// Whether the agent asked to stop.
    #[serde(default)]
    pub agent_stop: bool,
    /// Whether the environment ended.
    #[serde(default)]
    pub env_terminal: bool,
    /// What rules in code answered; no replay can ask them again.
    #[serde(default)]
    pub opaque: Vec<OpaqueAnswer>,
    /// What ended the run from outside the rules.
    #[serde(default)]
    pub forced: Option<Forced>,
    /// Whether somebody went on with the run here: what ended it before is no end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resumed: bool,
    /// Whether the step's line could not be read: nothing of what it lacks is known to be absent.
    #[serde(skip)]
    pub is_unread: bool,
    /// Whether the final answer goes on after what is known of it.
    #[serde(skip)]
    pub is_answer_cut: bool,
    /// Whether nobody says if the step failed; only where it has no error.
    #[serde(skip)]
    pub is_error_untold: bool,
}

impl StepFacts {
    /// The newest of its times.
    pub fn latest_ms(&self) -> Option<u64> {
        self.t_end_ms.or(self.t_decided_ms).or(self.t_start_ms)
    }

    /// A step of which nothing is known but that it was completed.
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
            signature: None,
            critics: Vec::new(),
            agent_stop: false,
            env_terminal: false,
            opaque: Vec::new(),
            forced: None,
            resumed: false,
            is_unread: false,
            is_answer_cut: false,
            is_error_untold: false,
        }
    }

    /// A step whose line could not be read.
    pub fn unread(step: u64) -> Self {
        Self {
            is_unread: true,
            is_error_untold: true,
            ..Self::unknown(step)
        }
    }

    /// A step about to begin at `t_start_ms`: no model call, no text, no action yet.
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

    /// Whether the step failed before it had a decision, so that nothing was asked after it.
    pub fn decide_failed(&self) -> bool {
        self.error
            .as_ref()
            .is_some_and(|error| matches!(error.phase, Phase::Prepare | Phase::Decide))
    }

    /// What the step cost in US dollars; `None` where a model was asked and does not say.
    pub fn cost(&self) -> Option<f64> {
        let unasked = |usage: Option<Usage>| (usage == Some(Usage::default())).then_some(0.0);
        let late = self.late_cost_usd.or(unasked(Some(self.late_usage)))?;
        self.cost_usd
            .or(unasked(self.usage))
            .map(|cost| cost + late)
    }

    /// Adds the tokens of a model call after the decision, and what it cost where that is known.
    pub fn late(&mut self, usage: Usage, cost_usd: Option<f64>) {
        if usage == Usage::default() {
            return;
        }
        let cost = cost_usd.filter(|cost| cost.is_finite() && *cost >= 0.0);
        self.late_cost_usd = match self.late_usage == Usage::default() {
            true => cost,
            // A call that does not say leaves the cost unknown.
            false => self
                .late_cost_usd
                .zip(cost)
                .map(|(spent, cost)| spent + cost),
        };
        self.late_usage = self.late_usage.plus(usage);
    }

    /// The gates the step came to, in order. A step whose decision failed has none after it.
    pub(super) fn gates(&self) -> impl Iterator<Item = Gate> + use<> {
        let (reached, failed) = (self.reached, self.decide_failed());
        Gate::ALL
            .into_iter()
            .filter(move |gate| *gate <= reached && !(*gate == Gate::AfterDecide && failed))
    }

    /// The policies asked at `gate`: a candidate answer holds those of `after_decide` back until it is judged, a failed
    /// decision until the step is over.
    pub(super) fn due(&self, gate: Gate) -> GateSet {
        let held_back = self.candidate || self.decide_failed();
        match gate {
            Gate::AfterDecide if self.candidate => GateSet::NONE,
            Gate::AfterStep if held_back => {
                GateSet::only(gate).and(GateSet::only(Gate::AfterDecide))
            }
            _ => GateSet::only(gate),
        }
    }

    /// Whether there is something that may be accepted.
    pub(super) fn is_answer(&self) -> bool {
        self.candidate || self.final_answer.is_some()
    }

    /// Whether the step's answer is judged at all: not where it failed, nor where a critic wants it done again.
    pub(super) fn judges_answers(&self) -> bool {
        let vetoed = self
            .deciding_critic()
            .is_some_and(|(_, critic)| critic.wish == CriticWish::Retry);
        self.error.is_none() && !vetoed
    }

    /// The first critic in order that does not say continue, and its place.
    pub(super) fn deciding_critic(&self) -> Option<(usize, &CriticFact)> {
        self.critics
            .iter()
            .enumerate()
            .find(|(_, critic)| critic.wish != CriticWish::Continue)
    }

    /// The text an answer is judged by: the final answer, else the model's text.
    pub(super) fn answer(&self) -> Option<&str> {
        self.final_answer.as_deref().or_else(|| self.text.known())
    }
}

/// Tokens of model calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens sent.
    pub input: u64,
    /// Tokens received.
    pub output: u64,
    /// Of those sent, the ones that the provider's cache held, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<u64>,
    /// Of those received, the ones of the model's thought, where the provider says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
    /// Whether they were estimated here, the provider having said nothing.
    #[serde(default)]
    pub estimated: bool,
}

impl Usage {
    /// Tokens that a provider reported.
    pub fn reported(input: u64, output: u64) -> Self {
        Self {
            input,
            output,
            ..Self::default()
        }
    }

    /// Tokens that were estimated here.
    pub fn estimated(input: u64, output: u64) -> Self {
        Self {
            input,
            output,
            estimated: true,
            ..Self::default()
        }
    }

    /// Both together.
    pub fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// These and those.
    #[must_use]
    pub fn plus(self, other: Usage) -> Self {
        // What one does not tell is what the other tells.
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
        }
    }
}

/// A model's text, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Text {
    /// The record does not have it.
    Unknown,
    /// The whole text; empty where the model said nothing beside its calls.
    Known(String),
    /// Left out of the record; equality is all that can be asked.
    Redacted {
        /// Its length in bytes.
        len: u64,
        /// Its [`super::text_hash`].
        hash: u64,
    },
}

impl Default for Text {
    fn default() -> Self {
        Text::Known(String::new())
    }
}

impl Text {
    /// The text, where it is there.
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
    /// What failed.
    pub phase: Phase,
    /// What it said.
    pub message: String,
    /// Whether the run may go on; the step's answer is not accepted either way.
    pub recovered: bool,
}

/// What one critic said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CriticFact {
    /// Its name.
    pub name: String,
    /// What it wants.
    pub wish: CriticWish,
    /// Why, or what it said when it failed.
    #[serde(default)]
    pub reason: Option<String>,
    /// Its score, where it is a number or infinite.
    ///
    /// A reader should parse the number's text itself: serde_json without `float_roundtrip` may be one unit in the
    /// last place off, and a score on a rule's mark would fall to the other side.
    #[serde(default)]
    pub score: Option<f64>,
}

/// What a critic wants. The first in order that does not say continue decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CriticWish {
    /// Go on.
    Continue,
    /// Do not accept this step's answer; try again.
    Retry,
    /// End the run.
    Stop,
    /// The critic itself failed.
    Failed,
}

/// What a rule in code answered at a gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpaqueAnswer {
    /// The rule.
    pub id: String,
    /// The gate.
    pub gate: Gate,
    /// Its answer; a failure is a stop under `criterion_error`.
    pub check: Check,
}

/// An end that no rule gave: cancelled, out of recoveries, out of context.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Forced {
    /// Where it was noticed.
    pub gate: Gate,
    /// Who ended it.
    pub source: Source,
    /// Under which name.
    pub code: Code,
    /// One sentence.
    #[serde(default)]
    pub detail: String,
}
