//! Checks a condition on an experiment, for continuous integration: `success.high < 0`.

use std::fmt;
use std::str::FromStr;

use super::document::{Decision, Experiment, Finding};
use super::figures::{change_words, score_words, tasks_words};
use super::measure::Unit;
use super::statistics::MIN_TASKS;
use super::success::Operator;
use crate::analysis::format::MINUS;

/// The measures of all experiments, whether or not runs record them.
const NAMES: [&str; 8] = [
    "success",
    "pass_once",
    "pass_always",
    "steps",
    "failed_steps",
    "tokens",
    "cost",
    "time",
];

/// The number of a measure that a condition is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Difference,
    Low,
    High,
}

/// A condition: a measure, an operator and a number.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Condition {
    measure: String,
    part: Part,
    operator: Operator,
    value: f64,
    is_percent: bool,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = if self.is_percent { "%" } else { "" };
        let (name, operator, value) = (self.name(), self.operator.as_str(), self.value);
        write!(f, "{name} {operator} {value}{percent}")
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example =
            "write a measure, an operator and a number, such as 'success.high < 0' or 'cost > 10%'";
        let (name, operator, value) =
            Operator::split(text).ok_or_else(|| format!("`{text}` has no operator; {example}"))?;
        let (value, is_percent) = match value.strip_suffix('%') {
            Some(value) => (value.trim_end(), true),
            None => (value, false),
        };
        // People copy numbers from the page, where a minus is a minus.
        let value = value.replace('−', "-");
        let value = value.parse::<f64>().ok().filter(|value| value.is_finite());
        let value =
            value.ok_or_else(|| format!("`{text}` doesn't end with a number; {example}"))?;
        let (measure, part) = if let Some(measure) = name.strip_suffix(".low") {
            (measure, Part::Low)
        } else if let Some(measure) = name.strip_suffix(".high") {
            (measure, Part::High)
        } else {
            (name, Part::Difference)
        };
        if measure.is_empty() {
            return Err(format!("`{text}` names no measure; {example}"));
        }
        Ok(Self {
            measure: measure.to_owned(),
            part,
            operator,
            value,
            is_percent,
        })
    }
}

impl Condition {
    fn name(&self) -> String {
        let part = match self.part {
            Part::Difference => "",
            Part::Low => ".low",
            Part::High => ".high",
        };
        format!("{}{part}", self.measure)
    }

    /// Checks the condition.
    ///
    /// # Errors
    /// The experiment has no measure of this name, or its unit is another one.
    pub(crate) fn decide(&self, experiment: &Experiment) -> Result<Decision, String> {
        let decision = |holds, why| {
            Ok(Decision {
                condition: self.to_string(),
                holds,
                why,
            })
        };
        let undecided = |why: String| decision(None, why);
        let found = experiment.measure(&self.measure);
        let is_known = NAMES.contains(&self.measure.as_str());
        let is_empty = experiment.finding == Finding::Empty;
        // Without runs to compare, an unknown name may be that of a score.
        if is_empty || experiment.finding == Finding::TooFew && (is_known || found.is_some()) {
            return undecided(experiment.verdict.trim_end_matches('.').to_owned());
        }
        let Some(measure) = found else {
            if is_known {
                return undecided(format!(
                    "the runs don't record {} on both sides",
                    self.measure
                ));
            }
            let names: Vec<&str> = experiment
                .measures
                .iter()
                .map(|measure| measure.name.as_str())
                .collect();
            let names = names.join(", ");
            return Err(format!(
                "unknown measure {}; use one of {names}",
                self.measure
            ));
        };
        let is_success = self.measure == "success";
        if is_success && experiment.finding == Finding::Unknown {
            return undecided(experiment.verdict.trim_end_matches('.').to_owned());
        }
        let (Some(difference), Some(low), Some(high)) =
            (measure.difference, measure.low, measure.high)
        else {
            return undecided(format!(
                "{} has no interval: fewer than {MIN_TASKS} tasks record it on both sides",
                self.measure
            ));
        };
        let value = match self.part {
            Part::Difference => difference,
            Part::Low => low,
            Part::High => high,
        };
        let is_zero = self.value == 0.0;
        let (value, shown): (f64, fn(f64) -> String) = match (measure.unit, self.is_percent) {
            (Unit::Change | Unit::Share, true) => (value * 100.0, percent),
            (Unit::Change | Unit::Share, false) if is_zero => (value, change_words),
            (Unit::Tasks, true) => (value * 100.0 / measure.tasks.max(1) as f64, percent),
            (Unit::Tasks, false) => (value, tasks_words),
            (Unit::Score, false) => (value, score_words),
            (Unit::Score, true) => {
                return Err(format!("{} is a score, so drop the %", self.measure));
            }
            (Unit::Change, false) => {
                return Err(format!(
                    "{} is compared in percent: write {}%",
                    self.measure, self
                ));
            }
            (Unit::Share, false) => {
                return undecided(format!(
                    "the sets share no task, so compare {} in percentage points: {self}%",
                    self.measure
                ));
            }
        };
        let holds = self.operator.holds(value, self.value);
        let is = match (self.operator, holds) {
            (Operator::Less, true) | (Operator::AtLeast, false) => "below",
            (Operator::Less, false) | (Operator::AtLeast, true) => "not below",
            (Operator::More, true) | (Operator::AtMost, false) => "above",
            (Operator::More, false) | (Operator::AtMost, true) => "not above",
        };
        // An end that excludes zero never reads as zero.
        let words = match shown(value) {
            words if words == shown(0.0) && value > 0.0 => format!(">{words}"),
            words if words == shown(0.0) && value < 0.0 => format!("<{words}"),
            words => words,
        };
        let limit = shown(self.value);
        let limit = limit.strip_prefix('+').unwrap_or(&limit);
        decision(
            Some(holds),
            format!("{} is {words}, {is} {limit}", self.name()),
        )
    }
}

/// Formats a number of percent with a decimal, so that a value near the limit doesn't read as equal.
fn percent(value: f64) -> String {
    if value.fract() == 0.0 {
        return change_words(value / 100.0);
    }
    let sign = if value < 0.0 { MINUS } else { '+' };
    format!("{sign}{:.1}%", value.abs())
}
