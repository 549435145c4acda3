//! Keeps running totals over the steps of a run in constant memory: lengths of streaks, not
//! windows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::facts::{StepError, StepFacts, Text, Usage, is_zero};
use super::text::clip;
use super::text_hash;
use crate::model::{Evidence, Gate};

/// Maximum number of failures in a row that are kept as evidence. The newest are kept.
const MAX_FAILURES: usize = 8;
/// Maximum length of a failure's message, in bytes.
const MAX_MESSAGE_BYTES: usize = 240;

/// The running totals of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stats {
    /// Decisions requested, including failed ones.
    pub decisions: u64,
    /// Completed steps.
    pub steps: u64,
    /// The last step that ran, even if only up to its decision.
    pub last_step: Option<u64>,
    /// Tokens of the run.
    pub tokens: Usage,
    /// The last step that called a model, with its tokens.
    pub last_usage: Option<(u64, Usage)>,
    /// Number of steps whose tokens aren't recorded.
    pub usage_missing: u64,
    /// Cost of completed steps in US dollars, as far as recorded.
    #[serde(default, skip_serializing_if = "is_free")]
    pub cost_usd: f64,
    /// Number of completed steps whose cost isn't recorded.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost_missing: u64,
    /// Whether any of these costs was estimated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cost_estimated: bool,
    /// The step that reached its decision but not its end, with its cost up to the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone: Option<(u64, Cost)>,
    /// Cost of earlier steps of that kind: steps that were interrupted before the run was resumed.
    #[serde(default, skip_serializing_if = "Cost::is_nothing")]
    pub cut_short: Cost,
    /// Tokens recorded for the run in addition to those of its steps. Which step used them isn't
    /// recorded. Always 0 for a live run.
    #[serde(skip)]
    pub tokens_apart: u64,
    /// Cost in US dollars recorded for the run in addition to that of its steps.
    #[serde(skip)]
    pub cost_apart: f64,
    /// The recorded duration of the whole run, if its steps have times. Always `None` for a live
    /// run.
    #[serde(skip)]
    pub took: Option<Took>,
    /// The judges that scored the run as a whole, at its end.
    #[serde(skip)]
    pub judges: Vec<String>,
    /// Milliseconds since the run began. `None` if the last gate's time isn't recorded.
    pub elapsed_ms: Option<u64>,
    /// Milliseconds before the first step that is recorded, which count as elapsed. Always 0 for a
    /// live run.
    pub carried_ms: u64,
    /// The part of the elapsed time that completed steps spent waiting for people, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ms: u64,
    /// Failed steps.
    pub errors: u64,
    /// Failed steps since the last successful step.
    pub consecutive_errors: u64,
    /// Number of additional steps that may belong to the current streak of failed steps. Counts up
    /// to the newest step for which success or failure isn't recorded.
    #[serde(rename = "untold_errors", default, skip_serializing_if = "is_zero")]
    pub unknown_errors: u64,
    /// The newest failures of the current streak.
    pub failures: Vec<Evidence>,
    /// Equal texts in a row. Steps without text are skipped.
    pub text: Streak,
    /// Equal tool calls in a row, without text. A text ends the row, and steps with neither are
    /// skipped.
    #[serde(default, skip_serializing_if = "Streak::is_nothing")]
    pub calls: Streak,
    /// Equal state signatures in a row.
    pub signature: Streak,
    /// The slowest step so far and its duration in milliseconds.
    pub slowest: Option<(u64, u64)>,
    /// Low scores in a row, by rule.
    pub below: BTreeMap<String, Below>,
}

fn is_free(cost_usd: &f64) -> bool {
    *cost_usd == 0.0
}

/// The cost of steps that didn't complete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cost {
    /// US dollars, as far as recorded.
    pub usd: f64,
    /// Number of steps whose cost isn't recorded.
    pub missing: u64,
    /// Whether any of the cost was estimated.
    pub estimated: bool,
}

impl Cost {
    fn of(facts: &StepFacts) -> Self {
        let usd = facts.cost().filter(|usd| usd.is_finite());
        Self {
            usd: usd.unwrap_or_default(),
            missing: u64::from(usd.is_none()),
            estimated: facts.cost_estimated,
        }
    }

    fn plus(self, other: Cost) -> Self {
        Self {
            usd: self.usd + other.usd,
            missing: self.missing.saturating_add(other.missing),
            estimated: self.estimated || other.estimated,
        }
    }

    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// The recorded duration of a run, compared with the times of its steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Took {
    /// The step with the latest recorded time.
    pub step: u64,
    /// That time, in milliseconds.
    pub until_ms: u64,
    /// Duration of the whole run in milliseconds. `None` if the run is longer than
    /// `until_ms` by an unknown time.
    pub ms: Option<u64>,
}

/// Rounds a sum of US dollars to nine decimal places, to remove floating-point noise.
pub(crate) fn without_noise(usd: f64) -> f64 {
    let rounded = (usd * 1e9).round() / 1e9;
    // Numbers this large have no such digits.
    if rounded.is_finite() { rounded } else { usd }
}

/// Returns the text to show after a time that includes waiting for people that guards asked.
pub(crate) fn waited_for_people(waited_ms: u64) -> String {
    match waited_ms {
        0 => String::new(),
        waited => format!("; {waited} ms were spent waiting for a person"),
    }
}

/// Equal values in a row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Streak {
    /// The hash and the length of the value.
    pub value: Option<(u64, u64)>,
    /// Number of equal values in a row.
    pub len: u64,
    /// The first step of the streak.
    pub from: u64,
    /// Whether the streak may be longer because a value before it is missing.
    pub gap: bool,
}

impl Streak {
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    fn push(&mut self, step: u64, value: Option<(u64, u64)>) {
        if value.is_none() {
            *self = Streak {
                gap: true,
                ..Streak::default()
            };
        } else if value == self.value {
            self.len = self.len.saturating_add(1);
        } else {
            let gap = self.gap && self.value.is_none();
            *self = Streak {
                value,
                len: 1,
                from: step,
                gap,
            };
        }
    }
}

/// Low scores in a row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Below {
    /// Number of low scores in a row.
    pub len: u64,
    /// The first step of the streak.
    pub from: u64,
    /// The number of completed steps when a score was last counted. Prevents two equal rules from
    /// counting a score twice.
    pub counted: u64,
    /// Number of additional low scores that may belong to the streak. Counts up to the newest step
    /// whose line couldn't be read.
    #[serde(rename = "untold", default, skip_serializing_if = "is_zero")]
    pub unknown: u64,
    /// The number of completed steps when such a step was last counted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unread: u64,
}

impl Stats {
    /// Returns the cost of completed steps so far, in US dollars. `None` if a step's cost isn't
    /// recorded, or if the recorded cost of the run exceeds that of its steps.
    pub fn cost(&self) -> Option<f64> {
        (self.cost_missing == 0 && self.cost_apart == 0.0).then_some(self.cost_usd)
    }

    /// Returns the cost of all steps that reached a decision, and `None` in the same cases as
    /// [`Stats::cost`]. [`Stats::tokens`] counts the tokens of the same steps.
    pub fn cost_of_all(&self) -> Option<f64> {
        let besides = self.besides();
        Some(self.cost().filter(|_| besides.missing == 0)? + besides.usd)
    }

    /// Returns whether any part of that cost was estimated.
    pub fn is_cost_estimated(&self) -> bool {
        self.cost_estimated || self.besides().estimated
    }

    fn besides(&self) -> Cost {
        self.undone
            .map_or(self.cut_short, |(_, cost)| self.cut_short.plus(cost))
    }

    /// Returns the tokens so far. `None` if a step's tokens aren't recorded, or if the recorded
    /// tokens of the run exceed those of its steps.
    pub(crate) fn tokens_known(&self) -> Option<u64> {
        (self.usage_missing == 0 && self.tokens_apart == 0).then(|| self.tokens.total())
    }

    /// Returns the recorded costs in US dollars, without floating-point noise.
    pub(crate) fn spent(&self) -> f64 {
        without_noise(self.cost_usd)
    }

    /// Adds the facts of a step that are known at `gate`.
    pub(crate) fn fold(&mut self, gate: Gate, facts: &StepFacts) {
        match gate {
            Gate::BeforeStep => self.tick(facts.t_start_ms),
            Gate::AfterDecide => {
                self.tick(facts.t_decided_ms);
                self.last_step = Some(facts.step);
                self.decided(facts);
            }
            Gate::AfterStep => {
                self.tick(facts.t_end_ms);
                self.last_step = Some(facts.step);
                if facts.decide_failed() {
                    self.decided(facts);
                }
                self.completed(facts);
            }
        }
    }

    fn tick(&mut self, at_ms: Option<u64>) {
        self.elapsed_ms = at_ms.map(|ms| ms.saturating_add(self.carried_ms));
    }

    fn decided(&mut self, facts: &StepFacts) {
        self.decisions = self.decisions.saturating_add(1);
        self.cut_short = self.besides();
        self.undone = Some((facts.step, Cost::of(facts)));
        match facts.usage {
            Some(usage) => {
                self.tokens = self.tokens.plus(usage);
                self.last_usage = Some((facts.step, usage));
            }
            None => self.usage_missing = self.usage_missing.saturating_add(1),
        }
        match &facts.text {
            Text::Known(text) if text.trim().is_empty() => self.called(facts),
            Text::Known(text) => self.said(facts.step, (text_hash(text), text.len() as u64)),
            Text::Redacted { len: 0, .. } => self.called(facts),
            Text::Redacted { len, hash } => self.said(facts.step, (*hash, *len)),
            Text::Unknown => {
                self.text.push(facts.step, None);
                self.calls.push(facts.step, None);
            }
        }
    }

    fn said(&mut self, step: u64, text: (u64, u64)) {
        self.text.push(step, Some(text));
        self.calls = Streak::default();
    }

    fn called(&mut self, facts: &StepFacts) {
        if let Some(calls) = facts.calls {
            self.calls.push(facts.step, Some((calls, 0)));
        }
    }

    /// Adds the usage of a step whose decision was interrupted. `cost_usd` is in US dollars, if it's
    /// known.
    pub(crate) fn add_unfinished(
        &mut self,
        step: u64,
        usage: Usage,
        cost_usd: Option<f64>,
        is_estimated: bool,
    ) {
        self.last_step = Some(step);
        self.tokens = self.tokens.plus(usage);
        self.last_usage = Some((step, usage));
        self.cut_short = self.besides();
        let cost = Cost {
            usd: cost_usd.unwrap_or_default(),
            missing: u64::from(cost_usd.is_none()),
            estimated: is_estimated,
        };
        self.undone = Some((step, cost));
    }

    fn completed(&mut self, facts: &StepFacts) {
        self.steps = self.steps.saturating_add(1);
        self.undone = None;
        self.tokens = self.tokens.plus(facts.late_usage);
        self.waited_ms = self.waited_ms.saturating_add(facts.waited_ms);
        let costs = [facts.cost_usd, facts.late_cost_usd].into_iter().flatten();
        self.cost_usd += costs.filter(|cost| cost.is_finite()).sum::<f64>();
        self.cost_estimated |= facts.cost_estimated;
        self.cost_missing = self
            .cost_missing
            .saturating_add(u64::from(facts.cost().is_none()));
        if let Some((step, usage)) = &mut self.last_usage
            && *step == facts.step
        {
            *usage = usage.plus(facts.late_usage);
        }
        match &facts.error {
            Some(error) => self.failed(facts.step, error),
            None => {
                self.unknown_errors = match facts.is_error_unknown {
                    true => self
                        .unknown_errors
                        .saturating_add(self.consecutive_errors)
                        .saturating_add(1),
                    false => 0,
                };
                self.consecutive_errors = 0;
                self.failures.clear();
            }
        }
        self.signature
            .push(facts.step, facts.signature.map(|hash| (hash, 0)));
        if let (Some(start), Some(end)) = (facts.t_start_ms, facts.t_end_ms) {
            let took = end.saturating_sub(start);
            if self.slowest.is_none_or(|(_, slowest)| took > slowest) {
                self.slowest = Some((facts.step, took));
            }
        }
    }

    fn failed(&mut self, step: u64, error: &StepError) {
        self.errors = self.errors.saturating_add(1);
        self.consecutive_errors = self.consecutive_errors.saturating_add(1);
        if self.failures.len() == MAX_FAILURES {
            self.failures.remove(0);
        }
        let message = clip(&error.message, MAX_MESSAGE_BYTES).to_owned();
        self.failures.push(Evidence::Failure {
            step,
            phase: error.phase,
            message,
        });
    }
}
