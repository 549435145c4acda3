//! At which limits is a rule tried? A rule with one number left open, and the numbers to put there.

use std::fmt;

use crate::analysis::summary::Summary;
use crate::stop::{SpecError, StopSpec};

/// At most this many limits are tried at once.
pub const MAX_VALUES: usize = 50;
/// So many are chosen where the person gives none: enough for a curve, few enough for a table.
const CHOSEN: usize = 30;
/// The largest whole number that a limit may be; beyond it a float has no room for the ones.
const MAX_WHOLE: f64 = 9e15;

/// A rule with one number left open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dial {
    /// Decisions.
    MaxRounds,
    /// Completed steps.
    MaxSteps,
    /// Seconds at a decision.
    Timeout,
    /// Seconds at a step's end.
    MaxRuntime,
    /// Tokens.
    TokenBudget,
    /// Failed steps in a row.
    ConsecutiveErrors,
    /// Equal texts in a row.
    LoopDetection,
    /// Steps in a row that changed nothing.
    Stagnation,
    /// A critic's score.
    CriticBelow {
        /// The critic.
        critic: String,
        /// Low scores in a row.
        steps: u64,
    },
}

/// The rules that have a number to vary, by name, with what the number counts.
pub const DIALS: [(&str, &str); 9] = [
    ("max_steps", "completed steps"),
    ("max_rounds", "decisions"),
    ("token_budget", "tokens"),
    ("max_runtime", "seconds at a step's end"),
    ("timeout", "seconds at a decision"),
    ("critic_below", "a critic's score"),
    ("consecutive_errors", "failed steps in a row"),
    ("stagnation", "steps without a change"),
    ("loop_detection", "equal texts in a row"),
];

impl Dial {
    /// The rule called `name`; `critic` and `streak` matter to `critic_below` only.
    ///
    /// # Errors
    /// No such rule has a number to vary, or the critic is missing.
    pub fn parse(name: &str, critic: &str, streak: &str) -> Result<Self, SpecError> {
        Ok(match name {
            "max_rounds" => Dial::MaxRounds,
            "max_steps" => Dial::MaxSteps,
            "timeout" => Dial::Timeout,
            "max_runtime" => Dial::MaxRuntime,
            "token_budget" => Dial::TokenBudget,
            "consecutive_errors" => Dial::ConsecutiveErrors,
            "loop_detection" => Dial::LoopDetection,
            "stagnation" => Dial::Stagnation,
            "critic_below" => {
                if critic.is_empty() {
                    return Err(SpecError::new("critic_below needs the name of a critic, as in critic=tests"));
                }
                let steps = match streak {
                    "" => 1,
                    text => text.parse().ok().filter(|steps| *steps > 0).ok_or_else(|| {
                        SpecError::new(format!("streak counts scores in a row, as in streak=2, not {text:?}"))
                    })?,
                };
                Dial::CriticBelow { critic: critic.to_owned(), steps }
            }
            _ => {
                let names = DIALS.map(|(name, _)| name).join(", ");
                return Err(SpecError::new(format!("no number of {name:?} can be varied; it can of {names}")));
            }
        })
    }

    /// The rule's name.
    pub fn name(&self) -> &'static str {
        match self {
            Dial::MaxRounds => "max_rounds",
            Dial::MaxSteps => "max_steps",
            Dial::Timeout => "timeout",
            Dial::MaxRuntime => "max_runtime",
            Dial::TokenBudget => "token_budget",
            Dial::ConsecutiveErrors => "consecutive_errors",
            Dial::LoopDetection => "loop_detection",
            Dial::Stagnation => "stagnation",
            Dial::CriticBelow { .. } => "critic_below",
        }
    }

    /// The rule with `value` as its number.
    pub fn at(&self, value: f64) -> StopSpec {
        // Saturates, and limits are checked to be whole and not negative when they are read.
        let whole = value as u64;
        match self {
            Dial::MaxRounds => StopSpec::MaxRounds { rounds: whole },
            Dial::MaxSteps => StopSpec::MaxSteps { steps: whole },
            Dial::Timeout => StopSpec::Timeout { seconds: whole },
            Dial::MaxRuntime => StopSpec::MaxRuntime { seconds: whole },
            Dial::TokenBudget => StopSpec::TokenBudget { max_total: whole },
            Dial::ConsecutiveErrors => StopSpec::ConsecutiveErrors { max: whole },
            Dial::LoopDetection => StopSpec::LoopDetection { window: whole },
            Dial::Stagnation => StopSpec::Stagnation { steps: whole },
            Dial::CriticBelow { critic, steps } => {
                StopSpec::CriticBelow { critic: critic.clone(), score: value, steps: *steps }
            }
        }
    }

    /// Whether a larger number stops more runs.
    pub fn stricter_upwards(&self) -> bool {
        matches!(self, Dial::CriticBelow { .. })
    }

    /// The smallest number that does not switch the rule off; `None` for scores, which may be any number.
    fn least(&self) -> Option<f64> {
        match self {
            Dial::CriticBelow { .. } => None,
            Dial::LoopDetection => Some(2.0),
            _ => Some(1.0),
        }
    }

    /// Reads limits: numbers and ranges with commas between them, `1,2,5`, `1..40`, `1000..20000/20` (20 points).
    ///
    /// # Errors
    /// What cannot be read, or more limits than [`MAX_VALUES`].
    pub fn values(&self, text: &str) -> Result<Vec<f64>, SpecError> {
        let mut values = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let Some((from, rest)) = part.split_once("..") else {
                values.push(self.number(part)?);
                continue;
            };
            let (to, points) = rest.split_once('/').map_or((rest, None), |(to, points)| (to, Some(points)));
            let (from, to) = (self.number(from)?, self.number(to)?);
            if from > to {
                return Err(self.wrong(&format!("the range {part} goes from its smaller to its larger end")));
            }
            let points = match points.map(|points| points.trim().parse::<usize>()) {
                None => self.points_between(from, to),
                Some(Ok(points)) if (2..=MAX_VALUES).contains(&points) => points,
                Some(_) => return Err(self.wrong(&format!("{part} asks for points: 2 to {MAX_VALUES} of them"))),
            };
            values.extend(self.spread(from, to, points));
        }
        tidy(&mut values);
        match values.len() {
            0 => Err(self.wrong("there is no limit to try")),
            1..=MAX_VALUES => Ok(values),
            more => Err(self.wrong(&format!("{more} limits are too many; {MAX_VALUES} can be tried at once"))),
        }
    }

    fn number(&self, text: &str) -> Result<f64, SpecError> {
        let number = text.trim().parse().ok().filter(|number: &f64| number.is_finite());
        let fits = |number: &f64| match self.least() {
            None => true,
            Some(least) => *number >= least && number.fract() == 0.0 && *number <= MAX_WHOLE,
        };
        number.filter(fits).ok_or_else(|| match self.least() {
            None => self.wrong(&format!("{text:?} is no score")),
            Some(least) => self.wrong(&format!("{text:?} is no whole number from {least} on")),
        })
    }

    fn wrong(&self, what: &str) -> SpecError {
        let right = match self {
            Dial::CriticBelow { .. } => "0.1..0.9",
            Dial::TokenBudget => "1000..20000/20",
            _ => "2,5,10..40",
        };
        SpecError::new(format!("{} cannot be tried at these limits: {what}. Right ones: values={right}", self.name()))
    }

    /// How many limits a range stands for that does not say: every whole number, every twentieth of a score.
    fn points_between(&self, from: f64, to: f64) -> usize {
        let steps = if self.least().is_none() { (to - from) / 0.05 } else { to - from };
        (steps.round() as usize).saturating_add(1).min(MAX_VALUES)
    }

    /// `points` numbers from `from` to `to`, evenly.
    fn spread(&self, from: f64, to: f64, points: usize) -> impl Iterator<Item = f64> + use<> {
        let whole = self.least().is_some();
        let last = points.saturating_sub(1).max(1) as f64;
        (0..points).map(move |point| {
            let value = from + (to - from) * point as f64 / last;
            if whole { value.round() } else { hundredths(value) }
        })
    }

    /// Limits chosen from what the runs took; where they take little, from what such a rule usually counts.
    pub fn choose<'a>(&self, runs: impl Iterator<Item = &'a Summary>) -> Vec<f64> {
        let took: Vec<f64> = match self {
            Dial::MaxRounds | Dial::MaxSteps => runs.map(|run| run.steps_now as f64).collect(),
            Dial::TokenBudget => runs.filter_map(|run| run.tokens).map(|tokens| tokens as f64).collect(),
            Dial::Timeout | Dial::MaxRuntime => {
                runs.filter_map(|run| run.duration_ms).map(|ms| (ms / 1000.0).ceil()).collect()
            }
            Dial::ConsecutiveErrors | Dial::Stagnation => return self.spread(1.0, 10.0, 10).collect(),
            Dial::LoopDetection => return self.spread(2.0, 10.0, 9).collect(),
            Dial::CriticBelow { .. } => return self.spread(0.05, 0.95, 19).collect(),
        };
        quantiles(took).unwrap_or_else(|| vec![1.0])
    }
}

/// The short form with the number left open: `max_steps`, `critic_below=tests::2`.
impl fmt::Display for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dial::CriticBelow { critic, steps } => write!(f, "critic_below={critic}:_:{steps}"),
            _ => f.write_str(self.name()),
        }
    }
}

/// Readable limits at what the runs took: all of it where it is little, every one up to a small largest, else
/// quantiles. Rounded up, so that a run that took no more is not cut.
fn quantiles(mut took: Vec<f64>) -> Option<Vec<f64>> {
    took.retain(|value| value.is_finite() && *value >= 1.0);
    took.sort_by(f64::total_cmp);
    let largest = took.last().copied()?.min(MAX_WHOLE);
    if largest <= CHOSEN as f64 {
        return Some((1..=largest as u64).map(|value| value as f64).collect());
    }
    let mut values: Vec<f64> = took.iter().map(|value| two_digits(value.min(MAX_WHOLE))).collect();
    tidy(&mut values);
    if values.len() > CHOSEN {
        let at = |point: usize| took.get(point * (took.len() - 1) / (CHOSEN - 1)).copied();
        values = (0..CHOSEN).filter_map(at).map(two_digits).collect();
    } else if values.len() < CHOSEN / 2 {
        values.extend((1..=10).map(|tenth| two_digits(largest * f64::from(tenth) / 10.0)));
    }
    tidy(&mut values);
    Some(values)
}

/// A whole number rounded up to two digits that count: 12,483 is 13,000.
fn two_digits(value: f64) -> f64 {
    let mut unit = 1.0;
    while value / unit >= 100.0 {
        unit *= 10.0;
    }
    (value / unit).ceil() * unit
}

/// Without the noise of adding fractions.
fn hundredths(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

fn tidy(values: &mut Vec<f64>) {
    values.sort_by(f64::total_cmp);
    values.dedup();
}
