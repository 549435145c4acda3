//! What is said when a run stops? The record in the last event and under `stop` in the manifest.
//!
//! Readers of old and foreign traces parse it too, so every field but the code has a default and an unknown key is
//! left alone. Texts are pointed at (step and bytes), never repeated.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Number;

use super::code::{Code, Origin, Outcome, Source};
use super::facts::{Gate, Phase};

/// Why a run stopped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StopVerdict {
    /// The rule's id: `stop[2]`, `accept[0]`, `budget.steps`, a user's own, or the name of what ended the run.
    #[serde(default)]
    pub criterion: String,
    /// Who ended it.
    pub source: Source,
    /// Where in the step it was decided; absent for a run that never reached one.
    #[serde(default)]
    pub gate: Option<Gate>,
    /// The last step that really ran, `None` where none did.
    #[serde(default)]
    pub step: Option<u64>,
    /// Under which name.
    pub code: Code,
    /// The coarse reason for other viewers.
    #[serde(default)]
    pub stop_reason: String,
    /// How the run went.
    pub outcome: Outcome,
    /// What was compared with what.
    #[serde(flatten)]
    pub reading: Reading,
    /// Who set the limit, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_from: Option<Origin>,
    /// The ids of all others that were true on the same boundary, in the order in which they were asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
}

impl StopVerdict {
    /// A verdict the engine gives outside its gates: a refused task, a failure of the recorder.
    pub fn outside(source: Source, code: Code, step: Option<u64>, detail: impl Into<String>) -> Self {
        Self {
            criterion: code.as_str().to_owned(),
            source,
            gate: None,
            step,
            stop_reason: code.stop_reason(source).to_owned(),
            outcome: code.outcome(source),
            code,
            reading: Reading::said(detail),
            limit_from: None,
            also: Vec::new(),
        }
    }
}

/// What a rule measured, and against what.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reading {
    /// The number measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Number>,
    /// The limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Number>,
    /// The rule is true where `measured op limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<Op>,
    /// The unit of both numbers.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub unit: Cow<'static, str>,
    /// One sentence; written only when the rule is true, since most readings are never shown.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub detail: Cow<'static, str>,
    /// Where to look.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
}

impl Reading {
    /// A comparison of two numbers.
    pub fn compare(measured: impl Into<Number>, op: Op, limit: impl Into<Number>, unit: &'static str) -> Self {
        Self {
            measured: Some(measured.into()),
            limit: Some(limit.into()),
            op: Some(op),
            unit: unit.into(),
            ..Self::default()
        }
    }

    /// A reading without numbers.
    pub fn said(detail: impl Into<String>) -> Self {
        Self { detail: Cow::Owned(detail.into()), ..Self::default() }
    }

    /// Adds the sentence.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Cow::Owned(detail.into());
        self
    }

    /// Adds places to look at.
    #[must_use]
    pub fn evidence(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    /// How far `measured` is from `limit` (zero or less where it is beyond it); `None` without two numbers.
    pub fn headroom(&self) -> Option<f64> {
        let (measured, limit) = (self.measured.as_ref()?.as_f64()?, self.limit.as_ref()?.as_f64()?);
        Some(if self.op == Some(Op::Below) { measured - limit } else { limit - measured })
    }
}

/// How a measured number is compared with its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Op {
    /// `>=`
    #[serde(rename = ">=")]
    AtLeast,
    /// `>`
    #[serde(rename = ">")]
    Above,
    /// `<`
    #[serde(rename = "<")]
    Below,
}

impl Op {
    /// The operator as written.
    pub fn as_str(self) -> &'static str {
        match self {
            Op::AtLeast => ">=",
            Op::Above => ">",
            Op::Below => "<",
        }
    }

    /// Whether `measured op limit`.
    pub fn holds(self, measured: u64, limit: u64) -> bool {
        match self {
            Op::AtLeast => measured >= limit,
            Op::Above => measured > limit,
            Op::Below => measured < limit,
        }
    }
}

/// One place that shows why a rule was true. Each shape has a key of its own, so none needs a tag.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Evidence {
    /// The tokens of one step.
    Usage {
        /// The step.
        step: u64,
        /// Tokens sent.
        input: u64,
        /// Tokens received.
        output: u64,
    },
    /// Bytes of a step's text.
    Text {
        /// The step.
        step: u64,
        /// The first byte.
        start: u64,
        /// The byte after the last.
        end: u64,
    },
    /// A stretch of steps, both ends included.
    Steps {
        /// The first.
        from_step: u64,
        /// The last.
        to_step: u64,
    },
    /// An action of a step's decision.
    Action {
        /// The step.
        step: u64,
        /// Its place among the actions, counted from 0.
        action: u64,
    },
    /// A failed step.
    Failure {
        /// The step.
        step: u64,
        /// The phase that failed.
        phase: Phase,
        /// What it said, cut to 240 bytes.
        message: String,
    },
    /// A critic's opinion.
    Critic {
        /// The step.
        step: u64,
        /// Its place among the critics, counted from 0.
        critic: u64,
        /// Its reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Its score, where it is a finite number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        score: Option<f64>,
    },
    /// A step that took long.
    Slow {
        /// The step.
        step: u64,
        /// How long, in milliseconds.
        took_ms: u64,
    },
    /// The place in an answer that a schema refused.
    Schema {
        /// The step.
        step: u64,
        /// A JSON pointer into the answer.
        instance_path: String,
    },
}

/// What a rule says when it is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Check {
    /// Go on.
    Pass(Reading),
    /// Stop, or for a completion rule: accept the answer.
    Stop {
        /// Under which name.
        code: Code,
        /// What was measured.
        reading: Reading,
    },
    /// The rule is switched off, and how.
    Off(Cow<'static, str>),
    /// The rule needs a fact that is not there, and which.
    Unknown(Cow<'static, str>),
}

impl Check {
    /// A pass without numbers.
    pub fn pass() -> Self {
        Check::Pass(Reading::default())
    }

    /// Compares two numbers; the sentence is written only where the rule is true.
    pub(super) fn of(code: Code, reading: Reading, holds: bool, detail: impl FnOnce() -> String) -> Self {
        if holds { Check::Stop { code, reading: reading.detail(detail()) } } else { Check::Pass(reading) }
    }

    /// Whether it says stop.
    pub fn is_stop(&self) -> bool {
        matches!(self, Check::Stop { .. })
    }
}
