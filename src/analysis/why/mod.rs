//! Explains why a run stopped: the verdict with its evidence, and the source of each piece.

use schemars::JsonSchema;
use serde::Serialize;

use super::summary::Summary;
use crate::model::words::words;
use crate::model::{Index, Lines, Reading};

mod evidence;
mod pace;
pub mod rules;
#[cfg(test)]
pub(super) mod tests;
mod trouble;

pub use rules::{RuleStatus, Standing};
pub use trouble::Trouble;

/// A piece of evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Evidence {
    /// The kind of evidence.
    pub kind: Kind,
    /// One sentence, without a full stop.
    pub text: String,
    /// The ordinal of the step that it comes from; the first one if there are several.
    pub step: Option<usize>,
    /// The last step that it comes from, if there are several.
    pub last_step: Option<usize>,
    /// The index of the event that it comes from.
    pub event: Option<usize>,
    /// Whether it describes a repetition of steps.
    #[serde(skip)]
    pub repeats: bool,
}

impl Evidence {
    fn at(kind: Kind, step: Option<usize>, text: String) -> Self {
        Self {
            kind,
            text,
            step,
            last_step: None,
            event: None,
            repeats: false,
        }
    }
}

words! {
    /// Kinds of evidence.
    pub enum Kind {
        /// The end of the run, according to its events.
        End = "end",
        /// The verdict of a rule.
        Rule = "rule",
        /// The steps that led up to the end.
        Chain = "chain",
        /// The verdict of a critic.
        Critic = "critic",
        /// An error.
        Error = "error",
        /// A statement in the manifest.
        Manifest = "manifest",
        /// An answer.
        Answer = "answer",
        /// Something missing.
        Gap = "gap",
    }
}

/// The explanation of a run's end, which complements its [`Summary`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Why {
    /// The evidence, most important first.
    pub evidence: Vec<Evidence>,
    /// The state of every rule, starting with the one that ended the run.
    pub rules: Vec<RuleStatus>,
    /// Which limit would end a running run: an estimate in one sentence without a full stop.
    pub pace: Option<String>,
    /// The contradictions between the files, one sentence each.
    pub contradictions: Vec<String>,
    /// Where something first went wrong, and what.
    pub first_trouble: Option<Trouble>,
}

/// Returns the comparison with a limit that ended a run. Has no numbers if none are recorded.
pub fn ended_by(summary: &Summary, index: &Index) -> Option<Reading> {
    rules::ended_by(summary, index)
}

/// Returns the first sign of trouble in the newest run.
pub fn first_trouble(index: &Index) -> Option<Trouble> {
    trouble::first_trouble(index)
}

/// Explains a run.
pub fn why(summary: &Summary, index: &Index, lines: &dyn Lines) -> Why {
    let rules = rules::rules(summary, index, lines);
    Why {
        evidence: evidence::evidence(summary, index, lines),
        pace: pace::pace(summary, index, &rules),
        rules,
        contradictions: summary.verdict.contradictions.to_vec(),
        first_trouble: trouble::first_trouble(index),
    }
}
