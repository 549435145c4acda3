//! What does a rule answer when it is asked?

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::model::{Code, Reading};

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

    /// A stop under this name. One that is none of the known codes is a user's own: it stands in the verdict's `code`, with
    /// the stop reason `agent_condition` and the outcome `halted`. In a completion rule it accepts the answer.
    pub fn stop(code: impl Into<Code>, reading: Reading) -> Self {
        Check::Stop {
            code: code.into(),
            reading,
        }
    }

    /// Compares two numbers; the sentence is written only where the rule is true.
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

    /// Whether it says stop.
    pub fn is_stop(&self) -> bool {
        matches!(self, Check::Stop { .. })
    }
}
