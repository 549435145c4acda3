//! Holds one rule of a set in the form in which it's checked.

use super::check::Check;
use super::custom::StopCriterion;
use super::facts::{GateSet, StepFacts};
use super::record::EntryRule;
use super::rules::Condition;
use super::stats::Stats;
use crate::model::{Gate, Origin};

/// A compiled rule of a set, with its id and gates.
pub(crate) struct Entry<S> {
    pub(crate) id: String,
    pub(crate) from: Origin,
    pub(crate) gates: GateSet,
    pub(crate) ask: Ask<S>,
    /// The rule as recorded.
    pub(crate) written: EntryRule,
}

/// How a rule is evaluated.
pub(crate) enum Ask<S> {
    Built(Box<dyn Condition>),
    Live(Box<dyn StopCriterion<S>>),
    /// A custom rule that isn't available. Only its recorded results are.
    Recorded,
}

impl<S> Entry<S> {
    /// Checks the rule without a state. For a custom rule, returns its recorded result.
    pub(crate) fn replayed(
        &self,
        due: GateSet,
        gate: Gate,
        stats: &Stats,
        facts: &StepFacts,
    ) -> Check {
        if let Ask::Built(rule) = &self.ask {
            return rule.check(due, stats, facts);
        }
        let mut answers = facts.opaque.iter();
        let answer = answers.find(|answer| answer.id == self.id && answer.gate == gate);
        answer.map_or_else(
            || Check::Unknown("its recorded answer".into()),
            |answer| answer.check.clone(),
        )
    }
}
