//! Chooses the limits for a sweep: a rule with one number left open, and the numbers to try.

use std::fmt;

use super::invalid::InvalidSweep;
use crate::analysis::summary::Summary;
use crate::stop::{self, Counts, Critic, RULES, Row, Scale, StopSpec};

/// The maximum number of limits tried at once.
pub(crate) const MAX_VALUES: usize = 50;
/// The number of limits chosen if the user gives none: enough for a curve, few enough for a table.
const CHOSEN: usize = 30;
/// The largest whole number allowed as a limit. Beyond it, a float can't represent every integer.
const MAX_WHOLE: f64 = 9e15;

/// A rule with one number left open.
#[derive(Debug, Clone)]
pub(crate) struct SweepRule {
    row: &'static Row,
    scale: &'static Scale,
    critic: Critic,
}

impl PartialEq for SweepRule {
    fn eq(&self, other: &Self) -> bool {
        self.row.name == other.row.name && self.critic == other.critic
    }
}

/// Returns the rules with a number to sweep, by name, with what the number counts.
pub(crate) fn sweep_rules() -> impl Iterator<Item = (&'static str, &'static str)> {
    RULES
        .iter()
        .filter_map(|row| Some((row.name, row.scale.as_ref()?.counts)))
}

impl SweepRule {
    /// Returns the rule called `name`. Only `critic_below` uses `critic` and `streak`.
    ///
    /// # Errors
    /// Fails if no such rule has a number to sweep, or the critic is missing.
    pub(crate) fn parse(name: &str, critic: &str, streak: &str) -> Result<Self, InvalidSweep> {
        let Some((row, scale)) = stop::row(name).and_then(|row| Some((row, row.scale.as_ref()?)))
        else {
            let names: Vec<_> = sweep_rules().map(|(name, _)| name).collect();
            let names = names.join(", ");
            return Err(InvalidSweep {
                name: Some(name.to_owned()),
                why: format!("`{name}` can't be varied. Choose one of {names}"),
                example: None,
            });
        };
        if !scale.per_critic {
            return Ok(Self {
                row,
                scale,
                critic: Critic::default(),
            });
        }
        if critic.is_empty() {
            return Err(InvalidSweep {
                name: Some(name.to_owned()),
                why: "choose a critic to vary its score".to_owned(),
                example: Some("critic=tests"),
            });
        }
        let steps = match streak {
            "" => 1,
            text => text
                .parse()
                .ok()
                .filter(|steps| *steps > 0)
                .ok_or_else(|| InvalidSweep {
                    name: Some("streak".to_owned()),
                    why: format!(
                        "the number of scores in a row must be a whole number ≥ 1, not {text:?}"
                    ),
                    example: Some("streak=2"),
                })?,
        };
        Ok(Self {
            row,
            scale,
            critic: Critic {
                name: critic.to_owned(),
                steps,
            },
        })
    }

    /// Returns the rule's name.
    pub(crate) fn name(&self) -> &'static str {
        self.row.name
    }

    /// Returns the name that people read, with the rule's own: `Step limit (max_steps)`.
    pub(crate) fn label(&self) -> String {
        format!("{} ({})", self.row.label, self.row.name)
    }

    /// Returns the rule with `value` as its number. Limits are checked when parsed.
    pub(crate) fn at(&self, value: f64) -> StopSpec {
        (self.scale.at)(value, &self.critic)
    }

    /// Returns whether the numbers are integers.
    fn is_whole(&self) -> bool {
        self.scale.grain >= 1.0
    }

    /// Parses limits: comma-separated numbers and ranges, such as `1,2,5`, `1..40`, or
    /// `1000..20000/20` (20 points).
    ///
    /// # Errors
    /// Returns what can't be parsed, or that there are more limits than [`MAX_VALUES`].
    pub(crate) fn values(&self, text: &str) -> Result<Vec<f64>, InvalidSweep> {
        let mut values = Vec::new();
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let Some((from, rest)) = part.split_once("..") else {
                values.push(self.number(part)?);
                continue;
            };
            let (to, points) = rest
                .split_once('/')
                .map_or((rest, None), |(to, points)| (to, Some(points)));
            let (from, to) = (self.number(from)?, self.number(to)?);
            if from > to {
                return Err(self.wrong(&format!("the range {part} must go from smaller to larger")));
            }
            let points = match points.map(|points| points.trim().parse::<usize>()) {
                None => self.points_between(from, to),
                Some(Ok(points)) if (2..=MAX_VALUES).contains(&points) => points,
                Some(_) => {
                    return Err(self.wrong(&format!("{part} must have 2 to {MAX_VALUES} points")));
                }
            };
            values.extend(self.spread(from, to, points));
        }
        tidy(&mut values);
        match values.len() {
            0 => Err(self.wrong("no limits are given")),
            1..=MAX_VALUES => Ok(values),
            more => Err(self.wrong(&format!(
                "{more} limits are too many; at most {MAX_VALUES} can be tried at once"
            ))),
        }
    }

    fn number(&self, text: &str) -> Result<f64, InvalidSweep> {
        let number = text
            .trim()
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite());
        let least = self.scale.least;
        let fits = |number: &f64| {
            let whole = !self.is_whole() || (number.fract() == 0.0 && *number <= MAX_WHOLE);
            whole && least.is_none_or(|least| *number >= least)
        };
        number
            .filter(fits)
            .ok_or_else(|| match (least, self.is_whole()) {
                (None, _) => self.wrong(&format!("{text:?} isn't a score")),
                (Some(least), true) => {
                    self.wrong(&format!("{text:?} must be a whole number ≥ {least}"))
                }
                (Some(least), false) => self.wrong(&format!("{text:?} must be a number ≥ {least}")),
            })
    }

    fn wrong(&self, what: &str) -> InvalidSweep {
        InvalidSweep {
            name: Some(self.name().to_owned()),
            why: what.to_owned(),
            example: Some(self.scale.example),
        }
    }

    /// Returns the number of limits in a range without an explicit count: every integer, or every
    /// twentieth of a score.
    fn points_between(&self, from: f64, to: f64) -> usize {
        (((to - from) / self.scale.grain).round() as usize)
            .saturating_add(1)
            .min(MAX_VALUES)
    }

    /// Returns `points` evenly spaced numbers from `from` to `to`.
    fn spread(&self, from: f64, to: f64, points: usize) -> impl Iterator<Item = f64> + use<> {
        let whole = self.is_whole();
        let last = points.saturating_sub(1).max(1) as f64;
        (0..points).map(move |point| {
            let value = from + (to - from) * point as f64 / last;
            if whole {
                value.round()
            } else {
                without_noise(value)
            }
        })
    }

    /// Chooses limits from the usage of the runs. A rule that doesn't count usage gets its usual
    /// limits. If no run records any usage, integers get the single limit 1 and other numbers the
    /// usual limits.
    pub(crate) fn choose<'a>(&self, runs: impl Iterator<Item = &'a Summary>) -> Vec<f64> {
        let grain = self.scale.grain;
        let usual = || {
            let (from, to, points) = self.scale.usual;
            self.spread(from, to, points).collect()
        };
        let took: Vec<f64> = match self.row.counts {
            Counts::Steps => runs.map(|run| run.steps_now as f64).collect(),
            Counts::Tokens => runs
                .filter_map(|run| run.tokens)
                .map(|tokens| tokens as f64)
                .collect(),
            Counts::Time => runs
                .filter_map(|run| run.duration_ms)
                .map(|ms| (ms / 1000.0).ceil())
                .collect(),
            Counts::Cost => runs
                .filter_map(|run| run.cost())
                .map(|cost| (cost.usd() / grain).ceil())
                .collect(),
            Counts::Other => return usual(),
        };
        match quantiles(took) {
            Some(values) if self.is_whole() => values,
            Some(grains) => grains
                .into_iter()
                .map(|value| without_noise(value * grain))
                .collect(),
            None if self.is_whole() => vec![1.0],
            None => usual(),
        }
    }
}

/// Writes the short form with the number left open: `max_steps`, `critic_below=tests:_:2`.
impl fmt::Display for SweepRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        if self.scale.per_critic {
            write!(f, "={}:_:{}", self.critic.name, self.critic.steps)
        } else {
            Ok(())
        }
    }
}

/// Chooses readable limits from the usage of the runs: every integer up to a small maximum, every
/// value if there are at most [`CHOSEN`], otherwise quantiles. Adds tenths of the maximum if there
/// are few values. Rounds up, so that a run that used no more isn't stopped.
fn quantiles(mut took: Vec<f64>) -> Option<Vec<f64>> {
    took.retain(|value| value.is_finite() && *value >= 1.0);
    took.sort_by(f64::total_cmp);
    let largest = took.last().copied()?.min(MAX_WHOLE);
    if largest <= CHOSEN as f64 {
        return Some((1..=largest as u64).map(|value| value as f64).collect());
    }
    let mut values: Vec<f64> = took
        .iter()
        .map(|value| two_digits(value.min(MAX_WHOLE)))
        .collect();
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

/// Rounds up to two significant digits: 12,483 becomes 13,000.
fn two_digits(value: f64) -> f64 {
    let mut unit = 1.0;
    while value / unit >= 100.0 {
        unit *= 10.0;
    }
    (value / unit).ceil() * unit
}

/// Removes rounding noise from adding fractions.
fn without_noise(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

fn tidy(values: &mut Vec<f64>) {
    values.sort_by(f64::total_cmp);
    values.dedup();
}
