//! Why did the run stop, and what shows it? The verdict with its evidence, each piece with the place it comes from.

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
    /// Which sort it is.
    pub kind: Kind,
    /// One sentence, without a full stop.
    pub text: String,
    /// The step it comes from, as an ordinal; the first one where it comes from several.
    pub step: Option<usize>,
    /// The last step it comes from, where it comes from several.
    pub last_step: Option<usize>,
    /// The event it comes from, as an index.
    pub event: Option<usize>,
    /// Whether it is that steps repeat themselves.
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
    /// Sorts of evidence.
    pub enum Kind {
        /// How the run ended, by its events.
        End = "end",
        /// A rule's verdict.
        Rule = "rule",
        /// The steps that led up to the end.
        Chain = "chain",
        /// A critic's verdict.
        Critic = "critic",
        /// An error.
        Error = "error",
        /// What the manifest says.
        Manifest = "manifest",
        /// An answer.
        Answer = "answer",
        /// What is missing.
        Gap = "gap",
    }
}

/// The explanation of a run's end, beside its [`Summary`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Why {
    /// The weightiest first.
    pub evidence: Vec<Evidence>,
    /// How every rule stood, the one that ended the run first.
    pub rules: Vec<RuleStatus>,
    /// Which limit would end a run that goes on, an estimate in one sentence without a full stop.
    pub pace: Option<String>,
    /// Where the files contradict each other, a sentence each.
    pub contradictions: Vec<String>,
    /// Where something went wrong first, and what.
    pub first_trouble: Option<Trouble>,
}

/// What ended a run, as it was compared with a limit; without numbers where none are recorded.
pub fn ended_by(summary: &Summary, index: &Index) -> Option<Reading> {
    rules::ended_by(summary, index)
}

/// Where something went wrong first in the newest run.
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
        contradictions: summary.verdict.contradictions.clone(),
        first_trouble: trouble::first_trouble(index),
    }
}
