//! Defines why a question about many runs can't be evaluated.

use crate::stop::SpecError;

/// Why a question can't be evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InvalidSweep {
    /// The invalid rule or field. `None` if the question as a whole is invalid.
    pub name: Option<String>,
    /// The problem, without a full stop.
    pub why: String,
    /// A valid example.
    pub example: Option<&'static str>,
}

impl From<SpecError> for InvalidSweep {
    fn from(error: SpecError) -> Self {
        Self {
            name: None,
            why: error.to_string(),
            example: None,
        }
    }
}
