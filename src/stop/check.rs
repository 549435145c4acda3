//! Defines the result of checking a rule.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::model::{Code, Reading};

/// The result of checking a rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Check {
    /// The run continues.
    Pass(Reading),
    /// The run stops. For a completion rule, the answer is accepted.
    Stop {
        /// The code of the stop.
        code: Code,
        /// The measurement.
        reading: Reading,
    },
    /// The rule is switched off, by this setting.
    Off(Cow<'static, str>),
    /// The rule can't be evaluated because this fact is missing.
    Unknown(Cow<'static, str>),
}

impl Check {
    /// Returns a pass without numbers.
    pub fn pass() -> Self {
        Check::Pass(Reading::default())
    }

    /// Returns a stop with this code. An unknown code counts as a custom one: it appears in the
    /// verdict's `code`, with the stop reason `agent_condition` and the outcome `halted`. In a
    /// completion rule, the stop accepts the answer.
    pub fn stop(code: impl Into<Code>, reading: Reading) -> Self {
        Check::Stop {
            code: code.into(),
            reading,
        }
    }

    /// Returns a stop if `holds`, and a pass otherwise. `detail` is only called for a stop.
    pub(super) fn of(
        code: Code,
        reading: Reading,
        holds: bool,
        detail: impl FnOnce() -> String,
    ) -> Self {
        if holds {
            Check::Stop {
                code,
                reading: reading.detail(detail()),
            }
        } else {
            Check::Pass(reading)
        }
    }

    /// Returns whether the result is a stop.
    pub fn is_stop(&self) -> bool {
        matches!(self, Check::Stop { .. })
    }
}
