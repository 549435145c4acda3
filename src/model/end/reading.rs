//! What did a rule measure, against which limit, and where does the trace show it?
//!
//! Texts are pointed at (step and bytes), never repeated.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Number;

use super::Phase;
use crate::model::words::words;

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

/// A number that a [`Reading`] can compare.
pub trait Measured {
    /// The number; `None` where it is not finite, which JSON cannot hold.
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
    /// A comparison of two numbers: whole ones, an `f64`, or a [`serde_json::Number`]. One that is not finite is unknown.
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

    /// A reading without numbers.
    pub fn text(detail: impl Into<String>) -> Self {
        Self {
            detail: Cow::Owned(detail.into()),
            ..Self::default()
        }
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

    /// The first and the last step that the evidence names.
    pub fn steps(&self) -> Option<(u64, u64)> {
        let steps = self.evidence.iter().map(Evidence::steps);
        steps.reduce(|(from, to), (first, last)| (from.min(first), to.max(last)))
    }

    /// The number measured.
    pub fn measured(&self) -> Option<f64> {
        self.measured.as_ref()?.as_f64()
    }

    /// The limit.
    pub fn limit(&self) -> Option<f64> {
        self.limit.as_ref()?.as_f64()
    }

    /// Whether `measured op limit` is true; `None` where one of the three is missing.
    pub fn holds(&self) -> Option<bool> {
        Some(self.op?.holds(self.measured()?, self.limit()?))
    }

    /// Whether the numbers refute that the limit was reached. Clocks and prices are rounded, so that a time or a cost may
    /// miss its limit by a hundredth.
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

    /// How far `measured` is from `limit` (zero or less where it is beyond it); `None` without two numbers.
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
    /// Whether `measured op limit`.
    pub fn holds<T: PartialOrd + Copy>(self, measured: T, limit: T) -> bool {
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
    /// A step, for a reason that is not known here.
    Step {
        /// The step.
        step: u64,
    },
}

impl Evidence {
    /// The first and the last step that it names.
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
