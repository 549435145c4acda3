//! Represents a rule's measurement, its limit, and the evidence for it in the trace.
//!
//! Evidence refers to texts by step and byte range and never repeats them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Number;

use super::kinds::Phase;
use crate::model::words::words;

/// A rule's measurement and its limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reading {
    /// The measured number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Number>,
    /// The limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Number>,
    /// The comparison. The rule is true if `measured op limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<Op>,
    /// The unit of both numbers.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub unit: Cow<'static, str>,
    /// One sentence. Rules set it only when they are true, because most readings are never shown.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub detail: Cow<'static, str>,
    /// The places in the trace that show it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
}

/// A number that a [`Reading`] can compare.
pub trait Measured {
    /// Returns the number, or `None` if it isn't finite. JSON can't represent infinities or NaN.
    fn number(self) -> Option<Number>;
}

impl Measured for Number {
    fn number(self) -> Option<Number> {
        Some(self)
    }
}

impl Measured for f64 {
    fn number(self) -> Option<Number> {
        Number::from_f64(self)
    }
}

macro_rules! measured {
    ($($whole:ty)*) => {$(
        impl Measured for $whole {
            fn number(self) -> Option<Number> {
                Some(self.into())
            }
        }
    )*};
}

measured!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize);

impl Reading {
    /// Compares two numbers: integers, `f64`s or [`serde_json::Number`]s. A number that isn't
    /// finite is unknown.
    pub fn compare(
        measured: impl Measured,
        op: Op,
        limit: impl Measured,
        unit: &'static str,
    ) -> Self {
        Self {
            measured: measured.number(),
            limit: limit.number(),
            op: Some(op),
            unit: unit.into(),
            ..Self::default()
        }
    }

    /// Creates a reading without numbers.
    pub fn text(detail: impl Into<String>) -> Self {
        Self {
            detail: Cow::Owned(detail.into()),
            ..Self::default()
        }
    }

    /// Sets the sentence.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Cow::Owned(detail.into());
        self
    }

    /// Adds evidence.
    #[must_use]
    pub fn evidence(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    /// Returns the first and the last step in the evidence.
    pub fn steps(&self) -> Option<(u64, u64)> {
        let steps = self.evidence.iter().map(Evidence::steps);
        steps.reduce(|(from, to), (first, last)| (from.min(first), to.max(last)))
    }

    /// Returns the measured number.
    pub fn measured(&self) -> Option<f64> {
        self.measured.as_ref()?.as_f64()
    }

    /// Returns the limit.
    pub fn limit(&self) -> Option<f64> {
        self.limit.as_ref()?.as_f64()
    }

    /// Returns whether `measured op limit` is true, or `None` if one of the three is missing.
    pub fn holds(&self) -> Option<bool> {
        Some(self.op?.holds(self.measured()?, self.limit()?))
    }

    /// Returns whether the numbers contradict that the limit was reached. Clocks and prices are
    /// rounded, so a time or a cost may miss its limit by 1%.
    pub fn is_refuted(&self) -> bool {
        let share = if matches!(&*self.unit, "ms" | "usd") {
            0.01
        } else {
            0.0
        };
        let (Some(op), Some(measured), Some(limit)) = (self.op, self.measured(), self.limit())
        else {
            return false;
        };
        let nearer = if op == Op::Below {
            measured - limit.abs() * share
        } else {
            measured + limit.abs() * share
        };
        !op.holds(nearer, limit) && !op.holds(measured, limit)
    }

    /// Returns the distance of `measured` from `limit`: zero or less once the limit is reached.
    /// Returns `None` without two numbers.
    pub fn headroom(&self) -> Option<f64> {
        let (measured, limit) = (self.measured()?, self.limit()?);
        Some(if self.op == Some(Op::Below) {
            measured - limit
        } else {
            limit - measured
        })
    }
}

words! {
    /// How a measured number is compared with its limit.
    #[non_exhaustive]
    pub enum Op {
        /// `>=`
        AtLeast = ">=",
        /// `>`
        Above = ">",
        /// `<`
        Below = "<",
    }
}

impl Op {
    /// Returns whether `measured op limit` is true.
    pub fn holds<T: PartialOrd + Copy>(self, measured: T, limit: T) -> bool {
        match self {
            Op::AtLeast => measured >= limit,
            Op::Above => measured > limit,
            Op::Below => measured < limit,
        }
    }
}

/// A place in the trace that shows why a rule was true. Each variant has a distinct key, so none
/// needs a tag.
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
    /// A byte range in a step's text.
    Text {
        /// The step.
        step: u64,
        /// The first byte.
        start: u64,
        /// The end of the range, exclusive.
        end: u64,
    },
    /// A range of steps, both ends included.
    Steps {
        /// The first step.
        from_step: u64,
        /// The last step.
        to_step: u64,
    },
    /// An action of a step's decision.
    Action {
        /// The step.
        step: u64,
        /// Its 0-based position among the actions.
        action: u64,
    },
    /// A failed step.
    Failure {
        /// The step.
        step: u64,
        /// The phase that failed.
        phase: Phase,
        /// The error message, truncated to 240 bytes.
        message: String,
    },
    /// A critic's output.
    Critic {
        /// The step.
        step: u64,
        /// Its 0-based position among the critics.
        critic: u64,
        /// Its reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Its score, if it's a finite number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        score: Option<f64>,
    },
    /// A slow step.
    Slow {
        /// The step.
        step: u64,
        /// The duration in milliseconds.
        took_ms: u64,
    },
    /// The place in an answer that failed schema validation.
    Schema {
        /// The step.
        step: u64,
        /// A JSON Pointer into the answer.
        instance_path: String,
    },
    /// A step, for a reason that this version doesn't know.
    Step {
        /// The step.
        step: u64,
    },
}

impl Evidence {
    /// Returns the first and the last step of this evidence.
    pub fn steps(&self) -> (u64, u64) {
        match *self {
            Evidence::Steps { from_step, to_step } => (from_step, to_step),
            Evidence::Usage { step, .. }
            | Evidence::Text { step, .. }
            | Evidence::Action { step, .. }
            | Evidence::Failure { step, .. }
            | Evidence::Critic { step, .. }
            | Evidence::Slow { step, .. }
            | Evidence::Schema { step, .. }
            | Evidence::Step { step } => (step, step),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_compared_and_what_is_not_finite_is_unknown() {
        let reading = Reading::compare(0.25, Op::Below, 0.5, "score");
        assert_eq!(
            (reading.measured(), reading.limit(), reading.headroom()),
            (Some(0.25), Some(0.5), Some(-0.25))
        );
        assert_eq!(
            Reading::compare(3_usize, Op::AtLeast, 4.5, "").headroom(),
            Some(1.5)
        );
        let unknown = Reading::compare(f64::NAN, Op::Below, 1, "");
        assert_eq!(
            (
                unknown.measured.clone(),
                unknown.limit(),
                unknown.headroom()
            ),
            (None, Some(1.0), None)
        );
    }
}
