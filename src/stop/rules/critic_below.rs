//! Defines the rule that stops when a critic's scores stay low.

use serde_json::Number;

use super::*;
use crate::model::names::the_critic;
use crate::stop::stats::Below;

/// Stops when a critic's scores stay low.
///
/// No other engine has this rule. The Scores page links to it, and the What-if page has a field for
/// it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CriticBelow {
    /// The critic's name.
    pub critic: String,
    /// The lowest score that is good enough. Only scores below it count as low.
    #[serde(deserialize_with = "finite_number")]
    pub score: f64,
    /// Number of low scores in a row; 0 is off.
    #[serde(default = "one")]
    pub steps: u64,
}

fn one() -> u64 {
    1
}

impl CriticBelow {
    pub(in crate::stop) const ROW: &'static Row = &Row {
        name: "critic_below",
        label: "Low score",
        usage: "critic_below=NAME:SCORE[:STEPS]",
        example: "critic_below=tests:0.5:2",
        when: "scores in a row below SCORE >= STEPS",
        off: Some("critic_below=tests:0.5:0"),
        unit: "score",
        field: Some(Field::new(FieldGroup::Critics, Input::Score)),
        scale: Some(Scale {
            least: None,
            grain: 0.05,
            per_critic: true,
            usual: (0.05, 0.95, 19),
            example: "0.1..0.9",
            ..Scale::whole("a critic's score", |score, critic| {
                CriticBelow {
                    critic: critic.name.clone(),
                    score,
                    steps: critic.steps,
                }
                .into()
            })
        }),
        parse: |args| CriticBelow::parse(&args.text()?).map(StopSpec::from),
        ..Row::BASE
    };

    /// Parses `NAME:SCORE` or `NAME:SCORE:STEPS`. The name may contain colons.
    fn parse(text: &str) -> Result<Self, SpecError> {
        let wrong = || {
            SpecError::new(format!(
                "critic_below needs NAME:SCORE or NAME:SCORE:STEPS, not {text:?}"
            ))
        };
        let make = |critic: &str, score: &str, steps: u64| {
            let score: f64 = score.trim().parse().ok().filter(|_| !critic.is_empty())?;
            // Rejecting NaN here keeps `NAME:NaN:2` from being parsed as the critic `NAME:NaN` with
            // the score 2.
            Some(finite(score).map(|score| Self {
                critic: critic.to_owned(),
                score,
                steps,
            }))
        };
        let (rest, last) = text.rsplit_once(':').ok_or_else(wrong)?;
        let with_steps = rest
            .rsplit_once(':')
            .and_then(|(critic, score)| make(critic, score, last.trim().parse().ok()?));
        with_steps
            .or_else(|| make(rest, last, 1))
            .ok_or_else(wrong)?
    }
}

impl Rule for CriticBelow {
    fn value(&self) -> Option<String> {
        let Self {
            critic,
            score,
            steps,
        } = self;
        let score = plain(*score);
        Some(if *steps == 1 {
            format!("{critic}:{score}")
        } else {
            format!("{critic}:{score}:{steps}")
        })
    }

    fn limit(&self) -> Amount<'_> {
        let Self {
            critic,
            score,
            steps,
        } = self;
        let row = if *steps == 1 {
            String::new()
        } else {
            format!(", {steps} in a row")
        };
        Amount::Text(format!("{critic} < {}{row}", plain(*score)).into())
    }

    fn compile(&self, _: Compiler<'_>) -> Result<Box<dyn Condition>, SpecError> {
        let Self { critic, score, .. } = self;
        finite(*score)?;
        Ok(Box::new(Compiled {
            key: format!("{critic} < {score}"),
            rule: self.clone(),
        }))
    }
}

/// Rejects NaN and infinite scores: no score is below NaN, and an infinite limit is above all
/// scores or none.
fn finite(score: f64) -> Result<f64, SpecError> {
    let wrong = || SpecError::new(format!("critic_below needs a finite score, not {score}"));
    Some(score)
        .filter(|score| score.is_finite())
        .ok_or_else(wrong)
}

/// The rule with the key under which its low scores in a row are counted.
struct Compiled {
    rule: CriticBelow,
    key: String,
}

impl Compiled {
    fn score(&self, facts: &StepFacts) -> Option<f64> {
        facts
            .critics
            .iter()
            .find(|fact| fact.name == self.rule.critic)?
            .score
            .filter(|score| !score.is_nan())
    }
}

impl Condition for Compiled {
    fn gates(&self) -> GateSet {
        AFTER_STEP
    }

    fn fold(&self, stats: &mut Stats, facts: &StepFacts) {
        let (score, steps) = (self.score(facts), stats.steps);
        if score.is_none() && !facts.is_unread {
            return;
        }
        if !stats.below.contains_key(&self.key) {
            stats.below.insert(self.key.clone(), Below::default());
        }
        let Some(score) = score else {
            if let Some(row) = stats
                .below
                .get_mut(&self.key)
                .filter(|row| row.unread < steps)
            {
                row.unread = steps;
                row.unknown = row.unknown.saturating_add(row.len).saturating_add(1);
                row.len = 0;
            }
            return;
        };
        let Some(row) = stats
            .below
            .get_mut(&self.key)
            .filter(|row| row.counted < steps)
        else {
            return;
        };
        row.counted = steps;
        if score < self.rule.score {
            row.from = if row.len == 0 { facts.step } else { row.from };
            row.len = row.len.saturating_add(1);
        } else {
            row.len = 0;
            row.unknown = 0;
        }
    }

    /// A step without a score doesn't end a streak of low scores. A step that couldn't be read may
    /// have had a score.
    fn settles(&self, answer: &Check, stats: &Stats) -> bool {
        let unread = stats.below.get(&self.key).is_some_and(|row| row.unread > 0);
        matches!(answer, Check::Pass(_) | Check::Stop { .. }) && !unread
    }

    fn check(&self, _: GateSet, stats: &Stats, facts: &StepFacts) -> Check {
        let CriticBelow {
            critic,
            score: limit,
            steps,
        } = &self.rule;
        if *steps == 0 {
            return off_at_zero();
        }
        let unknown = || {
            let needs = format!("the score from {} in some steps", the_critic(critic));
            Check::Unknown(Cow::Owned(needs))
        };
        let row = stats.below.get(&self.key);
        let may_be_low = row
            .is_some_and(|row| row.len < *steps && row.len.saturating_add(row.unknown) >= *steps);
        let Some(score) = self.score(facts) else {
            if facts.is_unread && may_be_low {
                return unknown();
            }
            // A step without a score neither ends nor extends a streak. If the critic never gave a
            // score, its name may be wrong.
            return match row.is_some_and(|row| row.counted > 0) {
                true => Check::Pass(Reading::text(format!("{critic} gave no score"))),
                false if stats.judges.contains(critic) => Check::Unknown(Cow::Owned(format!(
                    "a step score from {critic} (it scored only the whole run)"
                ))),
                false => Check::Unknown(Cow::Owned(format!("a score from {}", the_critic(critic)))),
            };
        };
        let reading = Reading {
            measured: Number::from_f64(score),
            limit: Number::from_f64(*limit),
            op: Some(Op::Below),
            unit: CriticBelow::ROW.unit.into(),
            ..Reading::default()
        };
        if may_be_low {
            return unknown();
        }
        let Some(row) = row.filter(|row| row.len >= *steps) else {
            return Check::Pass(reading);
        };
        let at = facts
            .critics
            .iter()
            .position(|fact| fact.name == *critic)
            .unwrap_or_default() as u64;
        let reason = facts
            .critics
            .iter()
            .find(|fact| fact.name == *critic)
            .and_then(|fact| fact.reason.clone());
        let given = if score == f64::NEG_INFINITY {
            "-Infinity".to_owned()
        } else {
            // Without the sign of -0.
            plain(score + 0.0)
        };
        let limit = plain(*limit);
        let detail = match row.len {
            1 => format!("{critic} scored {given}, below {limit}"),
            len => format!("{critic} scored below {limit}, {len} times in a row (last {given})"),
        };
        let evidence = [
            Evidence::Steps {
                from_step: row.from,
                to_step: facts.step,
            },
            Evidence::Critic {
                step: facts.step,
                critic: at,
                reason,
                score: Some(score).filter(|score| score.is_finite()),
            },
        ];
        Check::Stop {
            code: CriticBelow::ROW.code(),
            reading: reading.detail(detail).evidence(evidence),
        }
    }
}
