//! Evaluates one rule at many limits, along with other rules, over many runs, and sums up the
//! results.
//!
//! Pure: records are passed one by one, in any order. Runs that can't be evaluated are counted but
//! never summed. Sums that are compared with each other cover the same runs.

use std::fmt;

use super::facts::{Depth, Record};
use super::summary::Summary;
use super::whatif::{RuleResult, RuleSet, Saved, StopTiming, Wrong, together, typed};
use crate::stop::{SpecError, StopSpec};

mod invalid;
mod sums;
mod sweep_rule;
#[cfg(test)]
mod tests;

pub(crate) use invalid::InvalidSweep;
pub(crate) use sums::{
    Choice, Effect, MAX_LOST, Measure, RunEffects, Sum, Sweep, SweepResult, reasons,
};
#[cfg(test)]
use sweep_rule::MAX_VALUES;
pub(crate) use sweep_rule::{SweepRule, sweep_rules};

/// Limits the rules evaluated along with the swept one.
const MAX_RULES: usize = 20;

/// A question about runs, before the runs are known.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SweepSpec {
    /// The rule with a limit to sweep.
    pub sweep_rule: Option<SweepRule>,
    /// The limits, or `None` to choose them from the runs.
    pub values: Option<Vec<f64>>,
    /// Rules to evaluate as they are.
    pub rules: Vec<StopSpec>,
}

/// An [`SweepSpec`] as typed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Typed<'a> {
    /// The name of the rule to sweep; may be empty.
    pub sweep: &'a str,
    /// Its limits; may be empty.
    pub values: &'a str,
    /// For `critic_below`: the critic.
    pub critic: &'a str,
    /// For `critic_below`: the number of consecutive low scores; empty means one.
    pub streak: &'a str,
    /// Rules to evaluate as they are. Empty ones are skipped.
    pub rules: Vec<&'a str>,
}

impl SweepSpec {
    /// Parses the question. Sweeps `max_steps` if it names no rule at all.
    ///
    /// # Errors
    /// Returns which rule or limit can't be used, why, and how to write a valid one.
    pub(crate) fn parse(typed: &Typed<'_>) -> Result<Self, InvalidSweep> {
        let rules: Vec<&str> = typed
            .rules
            .iter()
            .map(|rule| rule.trim())
            .filter(|rule| !rule.is_empty())
            .collect();
        if rules.len() > MAX_RULES {
            let why = format!(
                "{} rules are too many; at most {MAX_RULES} can be evaluated at once",
                rules.len()
            );
            return Err(InvalidSweep {
                name: None,
                why,
                example: None,
            });
        }
        let rules = read(&rules)?;
        let name = if typed.sweep.is_empty() && rules.is_empty() {
            "max_steps"
        } else {
            typed.sweep
        };
        let sweep_rule = match name {
            "" => None,
            name => Some(SweepRule::parse(
                name,
                typed.critic.trim(),
                typed.streak.trim(),
            )?),
        };
        let values = match &sweep_rule {
            Some(sweep_rule) if !typed.values.trim().is_empty() => {
                Some(sweep_rule.values(typed.values)?)
            }
            _ => None,
        };
        Ok(Self {
            sweep_rule,
            values,
            rules,
        })
    }

    /// Prepares the question for `runs`.
    ///
    /// # Errors
    /// Same as [`RuleSet::new`].
    pub(crate) fn ready<'a>(
        &self,
        runs: impl Iterator<Item = &'a Summary>,
    ) -> Result<PreparedSweep, SpecError> {
        let values = match (&self.sweep_rule, &self.values) {
            (None, _) => Vec::new(),
            (Some(_), Some(values)) => values.clone(),
            (Some(sweep_rule), None) => sweep_rule.choose(runs),
        };
        let at = |value: &f64| {
            self.sweep_rule
                .as_ref()
                .map(|sweep_rule| sweep_rule.at(*value))
        };
        let limits = values.iter().filter_map(at);
        let rule_set = RuleSet::new(limits.chain(self.rules.iter().cloned()).collect())?;
        Ok(PreparedSweep {
            sweep_rule: self.sweep_rule.clone(),
            values,
            rule_set,
        })
    }
}

/// Writes equivalent questions in the same way.
impl fmt::Display for SweepSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(sweep_rule) = &self.sweep_rule {
            write!(f, "{sweep_rule}")?;
        }
        match &self.values {
            None => f.write_str(" auto")?,
            Some(values) => write!(f, " {values:?}")?,
        }
        self.rules.iter().try_for_each(|rule| write!(f, "\n{rule}"))
    }
}

/// Parses the rules to evaluate as they are.
fn read(texts: &[&str]) -> Result<Vec<StopSpec>, InvalidSweep> {
    let no_file = |file: &str| Err(format!("the schema file {file:?} can't be read here"));
    let rules = typed(texts.iter().map(|text| (*text).to_owned()), no_file).into_iter();
    let read = rules.map(|rule| {
        rule.read.map_err(|Wrong { why, example }| InvalidSweep {
            name: Some(rule.text),
            why,
            example: Some(example),
        })
    });
    read.collect()
}

/// A question that is ready for many runs: the limits of the swept rule first, then the other
/// rules.
#[derive(Debug)]
pub(crate) struct PreparedSweep {
    sweep_rule: Option<SweepRule>,
    values: Vec<f64>,
    rule_set: RuleSet,
}

impl PreparedSweep {
    /// Returns the swept rule.
    pub(crate) fn sweep_rule(&self) -> Option<&SweepRule> {
        self.sweep_rule.as_ref()
    }

    /// Returns the limits, ascending.
    pub(crate) fn values(&self) -> &[f64] {
        &self.values
    }

    /// Returns the names of the limits and then of the other rules, as written.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.rule_set.specs().iter().map(ToString::to_string)
    }

    /// Returns how deeply a run must be read.
    pub(crate) fn depth(&self) -> Depth {
        self.rule_set.depth()
    }

    /// Returns whether the unswept rules are also evaluated together.
    pub(crate) fn asks_together(&self) -> bool {
        self.rule_set.specs().len() >= self.values.len() + 2
    }

    /// Returns empty sums.
    pub(crate) fn begin(&self) -> Sweep {
        Sweep::new(
            self.values.len(),
            self.rule_set.specs().len() + usize::from(self.asks_together()),
        )
    }

    /// Evaluates one run.
    pub(crate) fn ask(&self, summary: &Summary, record: &Record) -> RunEffects {
        let answered = summary.verdict.answered;
        let (results, mut whole) = self.rule_set.ask_all(record, answered);
        if let Some(lost) = record.lost {
            // Steps without a line ran and used resources, but how much isn't recorded.
            whole.ran = whole.ran.saturating_add(lost.count as u64);
            whole.tokens = None;
        }
        let all = self
            .asks_together()
            .then(|| all_of(results.get(self.values.len()..).unwrap_or_default()));
        let mut results: Vec<SweepResult> = results
            .into_iter()
            .map(SweepResult::from)
            .chain(all)
            .collect();
        if let Some(copied) = summary.copied {
            // The usage of its first steps belongs to the run they're copied from, and would have
            // been saved there.
            whole.ran = whole.ran.saturating_sub(copied.steps as u64);
            whole.tokens = whole
                .tokens
                .zip(copied.tokens)
                .map(|(all, copied)| all.saturating_sub(copied));
            whole.ms = summary.duration_ms.map(|ms| ms as u64);
            for saved in results.iter_mut().map(|result| &mut result.saved) {
                let most = |saved: Option<u64>, all: Option<u64>| Some(saved?.min(all?));
                saved.steps = saved.steps.map(|steps| steps.min(whole.ran));
                (saved.tokens, saved.ms) =
                    (most(saved.tokens, whole.tokens), most(saved.ms, whole.ms));
            }
        }
        RunEffects {
            key: summary.key.clone(),
            answered,
            going: summary.life.liveness.may_grow(),
            whole,
            estimated: record.is_estimated(),
            inferred: !record.inferred.is_empty() || record.cost_estimated,
            results,
        }
    }
}

/// Combines several rules that may each stop the run.
fn all_of(results: &[RuleResult]) -> SweepResult {
    let nothing = |found| SweepResult {
        found,
        step: None,
        saved: Saved::default(),
        cuts: false,
        answer_lost: false,
        needs: None,
    };
    match together(results) {
        (_, true) => {
            let needs = results.iter().find_map(|result| result.needs.clone());
            SweepResult {
                needs,
                ..nothing(StopTiming::Unknown)
            }
        }
        (Some((_, first)), false) => SweepResult::from(first.clone()),
        (None, false) => nothing(StopTiming::NotReached),
    }
}
