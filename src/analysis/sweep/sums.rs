//! Sums up the effect of rules over many runs. The result doesn't depend on the order in which runs
//! are added.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::analysis::rule_replay::Tally;
use crate::analysis::whatif::{RuleResult, Saved, StopTiming};
use crate::model::RunKey;

/// Limits the runs with a lost answer that are listed. All are counted.
pub(crate) const MAX_LOST: usize = 50;

/// The effect of one rule on one run, as far as sums need it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SweepResult {
    /// Whether the rule stops the run earlier, at the same step, not at all, or can't be evaluated.
    pub found: StopTiming,
    /// The step at which it stops the run.
    pub step: Option<u64>,
    /// The usage saved by stopping there.
    pub saved: Saved,
    /// Whether something that ran would not have run.
    pub cuts: bool,
    /// Whether that loses the run's answer.
    pub answer_lost: bool,
    /// The missing fact.
    pub needs: Option<String>,
}

impl From<RuleResult> for SweepResult {
    fn from(result: RuleResult) -> Self {
        let RuleResult {
            found,
            step,
            saved,
            cuts,
            answer_lost,
            needs,
            ..
        } = result;
        Self {
            found,
            step,
            saved,
            cuts,
            answer_lost: answer_lost == Some(true),
            needs,
        }
    }
}

/// A run and the effect of each rule on it.
#[derive(Debug, Clone)]
pub(crate) struct RunEffects {
    /// The run.
    pub key: RunKey,
    /// Whether it ended well with an answer.
    pub answered: bool,
    /// Whether it's still running.
    pub going: bool,
    /// The totals of its whole record.
    pub whole: Tally,
    /// Whether some of its tokens are estimates.
    pub estimated: bool,
    /// Whether some of its facts are inferred rather than recorded.
    pub inferred: bool,
    /// The results of each rule, then of all unswept rules together if there are several.
    pub results: Vec<SweepResult>,
}

/// A quantity that is summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Steps.
    Steps,
    /// Tokens.
    Tokens,
    /// Milliseconds on the machines that recorded the runs.
    Ms,
}

impl Measure {
    /// All measures.
    pub(crate) const ALL: [Self; 3] = [Measure::Steps, Measure::Tokens, Measure::Ms];

    /// Returns the name of what is spent and saved.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Measure::Steps => "steps",
            Measure::Tokens => "tokens",
            Measure::Ms => "time",
        }
    }
}

/// The effects of all rules over all added runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "SweepTotals")]
pub(crate) struct Sweep {
    /// The number of evaluated runs.
    #[serde(rename = "asked")]
    pub runs: u64,
    /// The number of runs that ended well with an answer.
    pub answers: u64,
    /// The number of runs that are still running. Only what they have recorded so far counts.
    pub going: u64,
    /// The number of runs with estimated tokens.
    pub estimated: u64,
    /// The number of runs with inferred facts.
    pub inferred: u64,
    /// The number of runs that disappeared before they were evaluated.
    pub vanished: u64,
    /// The number of runs that weren't evaluated because they aren't fully read yet, or were
    /// evicted from the cache of their store.
    pub unread: u64,
    /// The effects of the limits of the swept rule, then of the other rules, then of these together
    /// if there are several.
    #[serde(skip)]
    pub effects: Vec<Effect>,
    /// Missing facts, with the number of runs that lack each for at least one rule.
    #[serde(rename = "unknown", serialize_with = "reasons_with_runs")]
    #[schemars(with = "Vec<Unknown<'static>>")]
    pub(super) needs: BTreeMap<String, u64>,
    /// The number of effects that are limits of the swept rule.
    #[serde(skip)]
    limits: usize,
}

/// The effect of one rule over all runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Effect {
    /// Runs that it would have stopped before their recorded end, including within their last step.
    #[serde(rename = "runs_cut")]
    pub cut: u64,
    /// Runs that it stops where they ended.
    pub same: u64,
    /// Runs that it doesn't stop.
    pub not_reached: u64,
    /// Runs that it can't be evaluated for.
    pub unknown: u64,
    /// Answers kept.
    #[serde(rename = "answers_kept")]
    pub kept: u64,
    /// Answers lost.
    #[serde(rename = "answers_lost")]
    pub lost: u64,
    /// Answers of runs that it can't be evaluated for.
    #[serde(rename = "answers_unknown")]
    pub unknown_answers: u64,
    /// The first runs by name that would lose their answer, at most 50, with the step at which each
    /// is stopped.
    #[serde(rename = "lost", serialize_with = "keys_with_steps")]
    #[schemars(with = "Vec<Lost<'static>>")]
    pub lost_in: BTreeMap<RunKey, Option<u64>>,
    /// The steps spent and saved.
    #[serde(serialize_with = "known_sum")]
    #[schemars(with = "Option<Sum>")]
    pub steps: Sum,
    /// The tokens spent and saved.
    #[serde(serialize_with = "known_sum")]
    #[schemars(with = "Option<Sum>")]
    pub tokens: Sum,
    /// The time spent and saved, in milliseconds.
    #[serde(serialize_with = "known_sum")]
    #[schemars(with = "Option<Sum>")]
    pub ms: Sum,
}

/// A missing fact.
#[derive(Serialize, JsonSchema)]
struct Unknown<'a> {
    needs: &'a str,
    /// The number of runs that lack it.
    runs: u64,
}

/// A run that would lose its answer.
#[derive(Serialize, JsonSchema)]
struct Lost<'a> {
    key: &'a str,
    /// The step at which the run is stopped.
    step: Option<u64>,
}

/// Serializes the missing facts with their runs, most frequent first.
fn reasons_with_runs<S: Serializer>(
    needs: &BTreeMap<String, u64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(
        by_frequency(needs)
            .into_iter()
            .map(|(needs, runs)| Unknown { needs, runs }),
    )
}

fn keys_with_steps<S: Serializer>(
    runs: &BTreeMap<RunKey, Option<u64>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(runs.iter().map(|(key, step)| Lost {
        key: key.as_str(),
        step: *step,
    }))
}

/// Serializes a sum over no runs as unknown.
fn known_sum<S: Serializer>(sum: &Sum, serializer: S) -> Result<S::Ok, S::Error> {
    (sum.runs > 0).then_some(sum).serialize(serializer)
}

/// A sum over the runs whose record is complete and for which the rule can be evaluated. For a
/// swept rule, these are the same runs at every limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Sum {
    /// The number of runs.
    pub runs: u64,
    /// How many of them spent anything. A scripted run spends no tokens.
    #[serde(skip)]
    pub spenders: u64,
    /// How many of them have an answer.
    pub answers: u64,
    /// How many of these answers are kept.
    #[serde(rename = "answers_kept")]
    pub kept: u64,
    /// The amount spent under the rule.
    pub spent: u64,
    /// The amount saved by the rule.
    pub saved: u64,
}

impl Sum {
    /// Returns the recorded amount.
    pub(crate) fn recorded(&self) -> u64 {
        self.spent.saturating_add(self.saved)
    }

    fn merge(&mut self, other: &Self) {
        self.runs += other.runs;
        self.spenders += other.spenders;
        self.answers += other.answers;
        self.kept += other.kept;
        self.spent = self.spent.saturating_add(other.spent);
        self.saved = self.saved.saturating_add(other.saved);
    }
}

impl Effect {
    /// Returns the recorded usage of the same runs with `answers` answers, as if no run was
    /// stopped.
    pub(crate) fn as_recorded(&self, answers: u64) -> Self {
        let whole = |sum: &Sum| Sum {
            spent: sum.recorded(),
            saved: 0,
            kept: sum.answers,
            ..*sum
        };
        let (steps, tokens, ms) = (whole(&self.steps), whole(&self.tokens), whole(&self.ms));
        Self {
            kept: answers,
            steps,
            tokens,
            ms,
            ..Self::default()
        }
    }

    fn lose(&mut self, key: RunKey, step: Option<u64>) {
        self.lost_in.insert(key, step);
        while self.lost_in.len() > MAX_LOST {
            self.lost_in.pop_last();
        }
    }

    /// Returns the sum of a measure.
    pub(crate) fn sum(&self, measure: Measure) -> &Sum {
        match measure {
            Measure::Steps => &self.steps,
            Measure::Tokens => &self.tokens,
            Measure::Ms => &self.ms,
        }
    }

    fn sum_mut(&mut self, measure: Measure) -> &mut Sum {
        match measure {
            Measure::Steps => &mut self.steps,
            Measure::Tokens => &mut self.tokens,
            Measure::Ms => &mut self.ms,
        }
    }

    fn add(&mut self, answer: &RunEffects, result: &SweepResult) {
        match result.found {
            _ if result.cuts => self.cut += 1,
            StopTiming::Earlier | StopTiming::Same => self.same += 1,
            StopTiming::NotReached => self.not_reached += 1,
            StopTiming::Unknown => self.unknown += 1,
        }
        if result.answer_lost {
            self.lost += 1;
            self.lose(answer.key.clone(), result.step);
        } else if answer.answered {
            let answers = if result.found == StopTiming::Unknown {
                &mut self.unknown_answers
            } else {
                &mut self.kept
            };
            *answers += 1;
        }
    }

    fn add_sum(
        &mut self,
        measure: Measure,
        answer: &RunEffects,
        result: &SweepResult,
        whole: u64,
        saved: u64,
    ) {
        self.sum_mut(measure).merge(&Sum {
            runs: 1,
            spenders: u64::from(whole > 0),
            answers: u64::from(answer.answered),
            kept: u64::from(answer.answered && !result.answer_lost),
            spent: whole.saturating_sub(saved),
            saved,
        });
    }
}

/// Returns what a rule saves of a measure. `None` if that's unknown.
fn saved(result: &SweepResult, measure: Measure) -> Option<u64> {
    match result.found {
        StopTiming::Unknown => None,
        _ if !result.cuts => Some(0),
        _ => match measure {
            Measure::Steps => result.saved.steps,
            Measure::Tokens => result.saved.tokens,
            Measure::Ms => result.saved.ms,
        },
    }
}

impl Sweep {
    pub(super) fn new(limits: usize, effects: usize) -> Self {
        Self {
            runs: 0,
            answers: 0,
            going: 0,
            estimated: 0,
            inferred: 0,
            vanished: 0,
            unread: 0,
            effects: vec![Effect::default(); effects],
            needs: BTreeMap::new(),
            limits,
        }
    }

    /// Returns the effects of the limits of the swept rule, ascending.
    pub(crate) fn limits(&self) -> &[Effect] {
        self.effects.get(..self.limits).unwrap_or_default()
    }

    /// Returns the effects of the other rules, then of these together if there are several.
    pub(crate) fn rules(&self) -> &[Effect] {
        self.effects.get(self.limits..).unwrap_or_default()
    }

    /// Adds a run.
    pub(crate) fn add(&mut self, answer: &RunEffects) {
        self.runs += 1;
        self.answers += u64::from(answer.answered);
        self.going += u64::from(answer.going);
        self.estimated += u64::from(answer.estimated);
        self.inferred += u64::from(answer.inferred);
        for (effect, result) in self.effects.iter_mut().zip(&answer.results) {
            effect.add(answer, result);
        }
        let whole = answer.whole;
        for (measure, whole) in [
            (Measure::Steps, Some(whole.ran)),
            (Measure::Tokens, whole.tokens),
            (Measure::Ms, whole.ms),
        ] {
            let Some(whole) = whole else { continue };
            // Limits are compared with each other, so a run counts for all of them or for none.
            let of_limits = answer.results.get(..self.limits).unwrap_or_default();
            let all_known = of_limits
                .iter()
                .all(|result| saved(result, measure).is_some());
            for (place, (effect, result)) in
                self.effects.iter_mut().zip(&answer.results).enumerate()
            {
                let saved = saved(result, measure).filter(|_| place >= self.limits || all_known);
                if let Some(saved) = saved {
                    effect.add_sum(measure, answer, result, whole, saved);
                }
            }
        }
        let needs: BTreeSet<&str> = answer
            .results
            .iter()
            .filter_map(|result| result.needs.as_deref())
            .map(anywhere)
            .collect();
        needs
            .iter()
            .for_each(|reason| count(&mut self.needs, reason, 1));
    }

    /// Returns the measure for judging limits: tokens if at least half of the runs spent some,
    /// otherwise steps, which every run has.
    pub(crate) fn measure(&self) -> Measure {
        self.limits()
            .first()
            .map_or(Measure::Steps, |effect| self.measure_of(effect))
    }

    /// Returns the measure for judging one rule.
    pub(crate) fn measure_of(&self, effect: &Effect) -> Measure {
        let spenders = effect.tokens.spenders;
        if spenders > 0 && spenders * 2 >= self.runs {
            Measure::Tokens
        } else {
            Measure::Steps
        }
    }

    /// Returns the limit that saves most without losing an answer. `None` if there's no answer to
    /// lose, if every limit that saves anything loses one, or if several do equally well.
    pub(crate) fn best(&self) -> Option<usize> {
        match self.choice() {
            Choice::One(place) => self
                .limits()
                .get(place)
                .filter(|effect| effect.lost == 0)
                .map(|_| place),
            _ => None,
        }
    }

    /// Chooses among the limits that save anything: the one that loses the fewest answers and, of
    /// those, saves most.
    pub(crate) fn choice(&self) -> Choice {
        let measure = self.measure();
        let worth = |effect: &Effect| (Reverse(effect.lost), effect.sum(measure).saved);
        let sparing = |effect: &Effect| effect.cut > 0 && effect.sum(measure).saved > 0;
        let sparing: Vec<_> = self
            .limits()
            .iter()
            .enumerate()
            .filter(|(_, effect)| sparing(effect))
            .collect();
        let Some(most) = sparing.iter().map(|(_, effect)| worth(effect)).max() else {
            return Choice::Nothing;
        };
        if sparing
            .iter()
            .all(|(_, effect)| self.answers == effect.unknown_answers)
        {
            return Choice::NoAnswers;
        }
        let mut equal = sparing
            .iter()
            .filter(|(_, effect)| worth(effect) == most)
            .map(|(place, _)| *place);
        let alike = sparing.len() > 1
            && most.0.0 > 0
            && sparing.iter().all(|(_, effect)| effect.lost == most.0.0);
        match (equal.next(), equal.next_back()) {
            (Some(place), None) if !alike => Choice::One(place),
            (Some(place), _) => Choice::Tie(place),
            (None, _) => Choice::Nothing,
        }
    }
}

/// The result of comparing the limits of a swept rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// As far as is known, no limit saves anything.
    Nothing,
    /// No run that could be evaluated has an answer to lose.
    NoAnswers,
    /// Several do equally well, including this one.
    Tie(usize),
    /// This one is the best.
    One(usize),
}

/// Returns the reasons why runs can't be evaluated, most frequent first.
pub(crate) fn reasons(sweep: &Sweep) -> Vec<(&str, u64)> {
    by_frequency(&sweep.needs)
}

fn by_frequency(needs: &BTreeMap<String, u64>) -> Vec<(&str, u64)> {
    let mut reasons: Vec<_> = needs
        .iter()
        .map(|(needs, runs)| (needs.as_str(), *runs))
        .collect();
    reasons.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    reasons
}

/// Words a missing fact so that it's the same for many runs.
fn anywhere(needs: &str) -> &str {
    if needs.ends_with("no line in steps.jsonl") {
        "some steps have no line in steps.jsonl"
    } else if needs == "the time of this step isn't recorded" {
        "the time of some steps isn't recorded"
    } else if needs.starts_with("the step that ") && needs.contains(" the remaining ") {
        "a part of the run's total can't be assigned to a step"
    } else {
        needs
    }
}

/// Adds `runs` to the count of a missing fact.
fn count(needs: &mut BTreeMap<String, u64>, reason: &str, runs: u64) {
    *needs.entry(reason.to_owned()).or_default() += runs;
}
