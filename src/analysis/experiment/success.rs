//! Decides whether a run succeeded, by the rule that the reader chose.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Serialize;

use super::sets::Judged;
use crate::analysis::format::number;
use crate::analysis::run_result::RunResult;
use crate::analysis::run_status::RunStatus;
use crate::analysis::summary::Summary;

/// Maximum number of other rules that are offered.
const MAX_OTHERS: usize = 6;

/// What counts as a success.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum Rule {
    /// The success that the trace records, or a full reward.
    #[default]
    Recorded,
    /// The run ended by itself with an answer.
    Finished,
    /// A critic's last score, or a score of the whole run.
    Score {
        /// Who gave it.
        name: String,
        /// The comparison.
        operator: Operator,
        /// The number that the score is compared with.
        value: f64,
    },
}

/// A comparison of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    /// `>=`
    AtLeast,
    /// `<=`
    AtMost,
    /// `>`
    More,
    /// `<`
    Less,
}

impl Operator {
    /// All of them. One that begins with another comes first.
    pub(super) const ALL: [(Operator, &'static str); 4] = [
        (Operator::AtLeast, ">="),
        (Operator::AtMost, "<="),
        (Operator::More, ">"),
        (Operator::Less, "<"),
    ];

    /// Returns whether `a` compares to `b` like this.
    pub(crate) fn holds(self, a: f64, b: f64) -> bool {
        match self {
            Operator::AtLeast => a >= b,
            Operator::AtMost => a <= b,
            Operator::More => a > b,
            Operator::Less => a < b,
        }
    }

    /// Returns the sign.
    pub(crate) fn as_str(self) -> &'static str {
        let known = Self::ALL.iter().find(|(operator, _)| *operator == self);
        known.map_or("", |(_, sign)| sign)
    }

    /// Splits `NAME OP VALUE`.
    pub(super) fn split(text: &str) -> Option<(&str, Operator, &str)> {
        let at = text.find(['<', '>'])?;
        let (name, rest) = text.split_at_checked(at)?;
        let found = Self::ALL
            .iter()
            .find_map(|(operator, sign)| Some((*operator, rest.strip_prefix(sign)?)));
        let (operator, value) = found?;
        Some((name.trim(), operator, value.trim()))
    }
}

/// A rule that the reader could choose instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct RuleOption {
    /// The rule.
    pub rule: String,
    /// The number of runs in both sets for which it's known.
    pub known: usize,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Recorded => f.write_str("recorded"),
            Rule::Finished => f.write_str("finished"),
            Rule::Score {
                name,
                operator,
                value,
            } => write!(f, "{name}{}{value}", operator.as_str()),
        }
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "" | "recorded" => return Ok(Rule::Recorded),
            "finished" => return Ok(Rule::Finished),
            _ => {}
        }
        let parsed = Operator::split(text).and_then(|(name, operator, value)| {
            let value = value
                .parse::<f64>()
                .ok()
                .filter(|value| value.is_finite())?;
            (!name.is_empty()).then(|| Rule::Score {
                name: name.to_owned(),
                operator,
                value,
            })
        });
        parsed.ok_or_else(|| {
            format!("`{text}` must be `recorded`, `finished`, or a score such as 'tests>=1'")
        })
    }
}

impl Rule {
    /// Returns whether a run succeeded, or `None` if that's unknown.
    pub(crate) fn holds(&self, run: &Summary) -> Option<bool> {
        match self {
            Rule::Recorded => run.solved(),
            Rule::Finished => match run.result()? {
                RunResult::Success | RunResult::Finished => Some(true),
                RunResult::Failed => Some(matches!(
                    run.verdict.mark,
                    RunStatus::Answered | RunStatus::Stopped
                )),
                RunResult::Limit | RunResult::Error | RunResult::Cancelled => Some(false),
                RunResult::Unknown => None,
            },
            Rule::Score {
                name,
                operator,
                value,
            } => {
                let score = score(run, name)?;
                Some(operator.holds(score, *value))
            }
        }
    }

    /// Returns the words for a success on pages: `solved`, `finished` or `tests ≥ 1`.
    pub(crate) fn label(&self) -> String {
        match self {
            Rule::Recorded => "recorded".to_owned(),
            Rule::Finished => "finished".to_owned(),
            Rule::Score {
                name,
                operator,
                value,
            } => {
                let sign = match operator {
                    Operator::AtLeast => "≥",
                    Operator::AtMost => "≤",
                    other => other.as_str(),
                };
                format!("{name} {sign} {}", number(*value).replace('-', "\u{2212}"))
            }
        }
    }

    /// Returns the other rules for which the success of some run is known.
    pub(super) fn others(&self, a: &[Judged<'_>], b: &[Judged<'_>]) -> Vec<RuleOption> {
        let runs = || a.iter().chain(b).map(|judged| judged.run);
        let mut scores: BTreeMap<&str, (usize, f64, f64)> = BTreeMap::new();
        for run in runs() {
            for given in &run.critic_scores {
                let (count, low, high) =
                    scores
                        .entry(&given.name)
                        .or_insert((0, f64::INFINITY, f64::NEG_INFINITY));
                *count += 1;
                (*low, *high) = (low.min(given.score), high.max(given.score));
            }
        }
        let mut by_count: Vec<_> = scores.into_iter().collect();
        by_count.sort_by(|x, y| y.1.0.cmp(&x.1.0).then(x.0.cmp(y.0)));
        let of_scores = by_count.into_iter().map(|(name, (_, low, high))| {
            // A test that can be passed in full is passed at 1.
            let value = if high == 1.0 { 1.0 } else { low.midpoint(high) };
            Rule::Score {
                name: name.to_owned(),
                operator: Operator::AtLeast,
                value: (value * 100.0).round() / 100.0,
            }
        });
        let all = [Rule::Recorded, Rule::Finished]
            .into_iter()
            .chain(of_scores);
        all.filter(|rule| rule != self)
            .map(|rule| RuleOption {
                known: runs().filter(|run| rule.holds(run).is_some()).count(),
                rule: rule.to_string(),
            })
            .filter(|option| option.known > 0)
            .take(MAX_OTHERS)
            .collect()
    }
}

/// Returns a run's last score by a critic, or the score of the whole run if that's what is asked
/// for.
pub(super) fn score(run: &Summary, name: &str) -> Option<f64> {
    let given = run.critic_scores.iter().find(|given| given.name == name);
    let last = || run.last_score.filter(|_| name == "score");
    given.map(|given| given.score).or_else(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::select::sample::run;
    use crate::analysis::summary::CriticScore;

    #[test]
    fn rules_are_written_as_they_are_read() {
        for text in [
            "recorded",
            "finished",
            "tests>=1",
            "diff size<0.25",
            "score>=1500",
        ] {
            assert_eq!(text.parse::<Rule>().unwrap().to_string(), text);
        }
        assert_eq!(
            "tests >= 1".parse::<Rule>().unwrap().to_string(),
            "tests>=1"
        );
        for text in ["tests", ">=1", "tests>=x", "tests>=inf", "tests>=NaN"] {
            assert!(text.parse::<Rule>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_limit_is_no_success_and_an_end_without_a_record_is_unknown() {
        let of = |mark, success, rule: &str| {
            let mut one = run("a", mark, None);
            one.success = success;
            one.critic_scores = [CriticScore {
                name: "tests".to_owned(),
                score: 0.5,
            }]
            .into();
            rule.parse::<Rule>().unwrap().holds(&one)
        };
        let (yes, no) = (Some(true), Some(false));
        for (mark, success, recorded, finished) in [
            (RunStatus::Answered, yes, yes, yes),
            (RunStatus::Answered, no, no, yes),
            (RunStatus::Answered, None, None, yes),
            (RunStatus::Limit, None, no, no),
            (RunStatus::Error, None, no, no),
            (RunStatus::Critic, None, no, no),
            (RunStatus::Cancelled, None, None, no),
            (RunStatus::Unknown, None, None, None),
            (RunStatus::Running, None, None, None),
        ] {
            assert_eq!(of(mark, success, "recorded"), recorded, "{mark:?}");
            assert_eq!(of(mark, success, "finished"), finished, "{mark:?}");
        }
        assert_eq!(of(RunStatus::Error, None, "tests>=0.5"), yes);
        assert_eq!(of(RunStatus::Error, None, "tests>0.5"), no);
        assert_eq!(of(RunStatus::Error, None, "style>0.5"), None);
    }
}
