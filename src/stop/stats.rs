//! What is known after so many steps? A fold over facts in constant memory: run lengths, not windows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::facts::{StepError, StepFacts, Text, Usage, is_zero};
use super::text::clip;
use super::text_hash;
use crate::model::{Evidence, Gate};

/// Of the failures in a row, the newest so many are kept as evidence.
const MAX_FAILURES: usize = 8;
/// A failure's message is cut to this many bytes.
const MAX_MESSAGE_BYTES: usize = 240;

/// The fold. It can be written down and resumed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stats {
    /// Decisions asked for, failed ones included.
    pub decisions: u64,
    /// Completed steps.
    pub steps: u64,
    /// The last step that ran, if only up to its decision.
    pub last_step: Option<u64>,
    /// Tokens of the run.
    pub tokens: Usage,
    /// The last step that asked a model, with its tokens.
    pub last_usage: Option<(u64, Usage)>,
    /// Steps whose tokens nobody recorded.
    pub usage_missing: u64,
    /// US dollars that completed steps cost, as far as they say.
    #[serde(default, skip_serializing_if = "is_free")]
    pub cost_usd: f64,
    /// Completed steps that do not say what they cost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost_missing: u64,
    /// Whether a cost among them was estimated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cost_estimated: bool,
    /// The step that came to a decision and not to its end, with what it cost up to there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone: Option<(u64, Cost)>,
    /// What such steps cost that another part of the run went on after.
    #[serde(default, skip_serializing_if = "Cost::is_nothing")]
    pub cut_short: Cost,
    /// Tokens that the run is recorded to have used beyond what its steps say: nobody knows in which. A live run has none.
    #[serde(skip)]
    pub tokens_apart: u64,
    /// The same in US dollars.
    #[serde(skip)]
    pub cost_apart: f64,
    /// How long the run is recorded to have taken, where its steps tell of times. A live run has none.
    #[serde(skip)]
    pub took: Option<Took>,
    /// Who judged the run as a whole, at its end.
    #[serde(skip)]
    pub judges: Vec<String>,
    /// Time since the run began; `None` where the last gate's time is not recorded.
    pub elapsed_ms: Option<u64>,
    /// Time before this session, counted as elapsed.
    pub carried_ms: u64,
    /// Of the elapsed time, what completed steps waited for people.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ms: u64,
    /// Failed steps.
    pub errors: u64,
    /// Failed steps since the last good one.
    pub consecutive_errors: u64,
    /// So many failed steps more may belong to the row: those up to the newest step of which nobody says whether it
    /// failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub untold_errors: u64,
    /// The newest of them.
    pub failures: Vec<Evidence>,
    /// Equal texts in a row, or equal calls without a text; steps with neither are left out.
    pub text: Streak,
    /// Equal state signatures in a row.
    pub signature: Streak,
    /// The slowest step so far and its milliseconds.
    pub slowest: Option<(u64, u64)>,
    /// Scores below a mark in a row, by rule.
    pub below: BTreeMap<String, Below>,
}

fn is_free(cost_usd: &f64) -> bool {
    *cost_usd == 0.0
}

/// What steps cost beside the completed ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cost {
    /// US dollars, as far as they say.
    pub usd: f64,
    /// Steps that do not say.
    pub missing: u64,
    /// Whether any of it was estimated.
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

/// What another tool records of a run as a whole, beside what its steps say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Whole {
    /// Tokens.
    pub tokens: Option<u64>,
    /// US dollars.
    pub cost_usd: Option<f64>,
    /// How long it took, in milliseconds.
    pub took_ms: Option<u64>,
    /// When its last step was over is not recorded, though a time of it is.
    pub end_untold: bool,
    /// Who gave it a score.
    pub judges: Vec<String>,
    /// Replies of sub-agents that do not say their tokens.
    pub untold_tokens: u64,
    /// Those that do not say what they cost.
    pub untold_cost: u64,
}

/// How long a run is recorded to have taken, against the times of its steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Took {
    /// The step whose time is the newest.
    pub step: u64,
    /// That time.
    pub until_ms: u64,
    /// How long the run as a whole took; `None` where it is known that it took longer, and not how long.
    pub ms: Option<u64>,
}

/// A sum of US dollars without the noise of adding fractions.
pub(super) fn without_noise(usd: f64) -> f64 {
    let rounded = (usd * 1e9).round() / 1e9;
    // So large a number has no such digits.
    if rounded.is_finite() { rounded } else { usd }
}

/// What is said behind a time of which people, whom guards had asked, had so much to answer.
pub(crate) fn waited_for_people(waited_ms: u64) -> String {
    match waited_ms {
        0 => String::new(),
        waited => format!("; {waited} ms went by for the answer of a person"),
    }
}

/// Equal values in a row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Streak {
    /// The value (its hash) and its length.
    pub value: Option<(u64, u64)>,
    /// How many times in a row.
    pub len: u64,
    /// The first step of the row.
    pub from: u64,
    /// Whether a missing value may have made the row longer than it looks.
    pub gap: bool,
}

impl Streak {
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

/// Scores below a mark in a row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Below {
    /// How many.
    pub len: u64,
    /// The first step of the row.
    pub from: u64,
    /// The number of completed steps when it was last counted, so that two equal rules count once.
    pub counted: u64,
    /// So many low scores more may belong to the row: those up to the newest step whose line could not be read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub untold: u64,
    /// The number of completed steps when such a step was last counted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unread: u64,
}

/// What the time between a suspension and its resumption is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// It does not count.
    NotCounted,
    /// These milliseconds count as elapsed.
    Counted(u64),
}

impl Stats {
    /// What completed steps cost up to here in US dollars; `None` where one does not say, or the run cost more than its
    /// steps say.
    pub fn cost(&self) -> Option<f64> {
        (self.cost_missing == 0 && self.cost_apart == 0.0).then_some(self.cost_usd)
    }

    /// What all steps cost that came to a decision, on the same terms; its tokens are those of [`Stats::tokens`].
    pub fn cost_of_all(&self) -> Option<f64> {
        let besides = self.besides();
        Some(self.cost().filter(|_| besides.missing == 0)? + besides.usd)
    }

    /// Whether any of that was estimated.
    pub fn is_cost_estimated(&self) -> bool {
        self.cost_estimated || self.besides().estimated
    }

    fn besides(&self) -> Cost {
        self.undone
            .map_or(self.cut_short, |(_, cost)| self.cut_short.plus(cost))
    }

    /// The tokens of the run up to here, on the same terms.
    pub(super) fn tokens_known(&self) -> Option<u64> {
        (self.usage_missing == 0 && self.tokens_apart == 0).then(|| self.tokens.total())
    }

    /// US dollars as far as steps say, without the noise of adding fractions.
    pub(super) fn spent(&self) -> f64 {
        without_noise(self.cost_usd)
    }

    /// Carries a finished session's counters into a new one, whose clock begins at zero again.
    #[must_use]
    pub fn resumed(self, pause: Pause) -> Self {
        let paused = match pause {
            Pause::NotCounted => 0,
            Pause::Counted(ms) => ms,
        };
        let carried_ms = self
            .elapsed_ms
            .unwrap_or(self.carried_ms)
            .saturating_add(paused);
        Self {
            carried_ms,
            elapsed_ms: Some(carried_ms),
            ..self
        }
    }

    /// Of a run of which this is recorded as a whole: what of it these steps, which are all of its own, do not say.
    #[must_use]
    pub fn of_whole(mut self, whole: &Whole, steps: &[StepFacts]) -> Self {
        let add = |sum: Option<u64>, facts: &StepFacts| {
            Some(sum?.saturating_add(facts.usage?.plus(facts.late_usage).total()))
        };
        // Where one of the steps says nothing, what is missing may be its own.
        if let Some(told) = steps.iter().fold(Some(0), add) {
            match whole.tokens {
                Some(all) => self.tokens_apart = all.saturating_sub(told),
                None => self.usage_missing += whole.untold_tokens,
            }
        }
        if let Some(told) = steps.iter().map(StepFacts::cost).sum::<Option<f64>>() {
            match whole.cost_usd {
                Some(all) => self.cost_apart = without_noise(all - told).max(0.0),
                None => self.cost_missing += whole.untold_cost,
            }
        }
        let newest = steps
            .iter()
            .filter_map(|facts| Some((facts.latest_ms()?, facts.step)))
            .max();
        let newest = newest.filter(|_| whole.took_ms.is_some() || whole.end_untold);
        self.took = newest.map(|(until_ms, step)| Took {
            step,
            until_ms,
            ms: whole.took_ms,
        });
        self.judges.clone_from(&whole.judges);
        self
    }

    /// Takes in what is known of a step at `gate`.
    pub(super) fn fold(&mut self, gate: Gate, facts: &StepFacts) {
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
            Text::Known(text) if text.trim().is_empty() => {
                // No text has a length of 0.
                if let Some(calls) = facts.calls {
                    self.text.push(facts.step, Some((calls, 0)));
                }
            }
            Text::Known(text) => self
                .text
                .push(facts.step, Some((text_hash(text), text.len() as u64))),
            Text::Redacted { len: 0, .. } => {}
            Text::Redacted { len, hash } => self.text.push(facts.step, Some((*hash, *len))),
            Text::Unknown => self.text.push(facts.step, None),
        }
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
                self.untold_errors = match facts.is_error_untold {
                    true => self
                        .untold_errors
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
