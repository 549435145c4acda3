//! What do rules do to many runs together? Counts and sums that do not depend on the order in which runs are added.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::{Answer, SweepResult, anywhere, by_frequency, count};
use crate::analysis::whatif::StopTiming;
use crate::model::RunKey;

/// At most this many runs whose answer is lost are named; all are counted.
pub const MAX_LOST: usize = 50;

/// What is summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Steps.
    Steps,
    /// Tokens.
    Tokens,
    /// Milliseconds on the recorded machines.
    Ms,
}

impl Measure {
    /// All of them.
    pub const ALL: [Self; 3] = [Measure::Steps, Measure::Tokens, Measure::Ms];

    /// What is spent and saved, in a word.
    pub fn word(self) -> &'static str {
        match self {
            Measure::Steps => "steps",
            Measure::Tokens => "tokens",
            Measure::Ms => "time",
        }
    }
}

/// All rules over all runs that were added.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Sweep {
    /// How many were asked.
    #[serde(rename = "asked")]
    pub runs: u64,
    /// How many of these ended well and left an answer.
    pub answers: u64,
    /// How many are still going; they count as far as they are written.
    pub going: u64,
    /// Of how many some tokens are an estimate.
    pub estimated: u64,
    /// Of how many something is worked out rather than recorded.
    pub inferred: u64,
    /// How many were to be asked and were gone by then.
    pub vanished: u64,
    /// How many were to be asked and are not read to their end yet, or were evicted from the cache of their store.
    pub unread: u64,
    /// The limits of the varied rule, then the other rules, then these together where there are several.
    #[serde(skip)]
    pub effects: Vec<Effect>,
    /// Missing facts, with the number of runs that lack each for at least one rule.
    #[serde(rename = "unknown", serialize_with = "reasons_with_runs")]
    #[schemars(with = "Vec<Unknown<'static>>")]
    pub(super) needs: BTreeMap<String, u64>,
    /// How many of the effects are limits of the varied rule.
    #[serde(skip)]
    limits: usize,
}

/// One rule over all runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Effect {
    /// Runs it would have stopped before their recorded end, also within their last step.
    #[serde(rename = "runs_cut")]
    pub cut: u64,
    /// Runs it stops where they ended.
    pub same: u64,
    /// Runs it does not stop.
    pub not_reached: u64,
    /// Runs of which it cannot be told.
    pub unknown: u64,
    /// The answers that stay.
    #[serde(rename = "answers_kept")]
    pub kept: u64,
    /// The answers that would have been lost.
    #[serde(rename = "answers_lost")]
    pub lost: u64,
    /// The answers of runs of which it cannot be told.
    #[serde(rename = "answers_unknown")]
    pub unknown_answers: u64,
    /// The first [`MAX_LOST`] runs by name that would have lost their answer, with the step at which each is stopped.
    #[serde(rename = "lost", serialize_with = "keys_with_steps")]
    #[schemars(with = "Vec<Lost<'static>>")]
    pub lost_in: BTreeMap<RunKey, Option<u64>>,
    /// Steps.
    #[serde(serialize_with = "known_sum")]
    #[schemars(with = "Option<Sum>")]
    pub steps: Sum,
    /// Tokens.
    #[serde(serialize_with = "known_sum")]
    #[schemars(with = "Option<Sum>")]
    pub tokens: Sum,
    /// Milliseconds.
    #[serde(serialize_with = "known_sum")]
    #[schemars(with = "Option<Sum>")]
    pub ms: Sum,
}

/// A missing fact.
#[derive(Serialize, JsonSchema)]
struct Unknown<'a> {
    needs: &'a str,
    /// How many runs lack it.
    runs: u64,
}

/// A run that would have lost its answer.
#[derive(Serialize, JsonSchema)]
struct Lost<'a> {
    key: &'a str,
    /// The step at which it is stopped.
    step: Option<u64>,
}

/// The runs that lack each fact, most first.
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

/// A sum of no run is not known.
fn known_sum<S: Serializer>(sum: &Sum, serializer: S) -> Result<S::Ok, S::Error> {
    (sum.runs > 0).then_some(sum).serialize(serializer)
}

/// A sum over the runs that are known: of which the record says it in whole, and of which it can be told what the rule
/// does. Of a varied rule the same runs at every limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Sum {
    /// How many runs these are.
    pub runs: u64,
    /// How many of them spent anything: a scripted run spends no tokens.
    #[serde(skip)]
    pub spenders: u64,
    /// How many of them have an answer.
    pub answers: u64,
    /// How many of these answers stay.
    #[serde(rename = "answers_kept")]
    pub kept: u64,
    /// What is spent under the rule.
    pub spent: u64,
    /// What it spares.
    pub saved: u64,
}

impl Sum {
    /// What was spent as recorded.
    pub fn recorded(&self) -> u64 {
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
    /// What was recorded of the same runs, with so many answers: nothing is cut.
    pub fn as_recorded(&self, answers: u64) -> Self {
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

    /// The sum of a measure.
    pub fn sum(&self, measure: Measure) -> &Sum {
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

    fn add(&mut self, answer: &Answer, result: &SweepResult) {
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
        answer: &Answer,
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

    fn merge(&mut self, other: Self) {
        self.cut += other.cut;
        self.same += other.same;
        self.not_reached += other.not_reached;
        self.unknown += other.unknown;
        self.kept += other.kept;
        self.unknown_answers += other.unknown_answers;
        self.lost += other.lost;
        for (key, step) in other.lost_in {
            self.lose(key, step);
        }
        self.steps.merge(&other.steps);
        self.tokens.merge(&other.tokens);
        self.ms.merge(&other.ms);
    }
}

/// What a rule spares of a measure; `None` where that cannot be told.
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

    /// The limits of the varied rule, in rising order.
    pub fn limits(&self) -> &[Effect] {
        self.effects.get(..self.limits).unwrap_or_default()
    }

    /// The other rules, and then these together where there are several.
    pub fn rules(&self) -> &[Effect] {
        self.effects.get(self.limits..).unwrap_or_default()
    }

    /// Adds a run.
    pub fn add(&mut self, answer: &Answer) {
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
            // Limits are compared with each other, so a run counts at all of them or at none.
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

    /// Adds what was summed up elsewhere for the same question.
    pub fn merge(&mut self, other: Self) {
        self.runs += other.runs;
        self.answers += other.answers;
        self.going += other.going;
        self.estimated += other.estimated;
        self.inferred += other.inferred;
        self.vanished += other.vanished;
        self.unread += other.unread;
        for (effect, more) in self.effects.iter_mut().zip(other.effects) {
            effect.merge(more);
        }
        other
            .needs
            .iter()
            .for_each(|(reason, runs)| count(&mut self.needs, reason, *runs));
    }

    /// What limits are judged by: tokens where most runs spent some, else steps, which every run has.
    pub fn measure(&self) -> Measure {
        self.limits()
            .first()
            .map_or(Measure::Steps, |effect| self.measure_of(effect))
    }

    /// What one rule is judged by.
    pub fn measure_of(&self, effect: &Effect) -> Measure {
        let spenders = effect.tokens.spenders;
        if spenders > 0 && spenders * 2 >= self.runs {
            Measure::Tokens
        } else {
            Measure::Steps
        }
    }

    /// The limit that spares most without losing an answer; `None` where there is no answer to lose, where each that
    /// spares anything loses one, and where several do equally well.
    pub fn best(&self) -> Option<usize> {
        match self.choice() {
            Choice::One(place) => self
                .limits()
                .get(place)
                .filter(|effect| effect.lost == 0)
                .map(|_| place),
            _ => None,
        }
    }

    /// Which limit stands out: of those that spare anything it loses the fewest answers, and of these it spares most.
    pub fn choice(&self) -> Choice {
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

/// What can be said of the limits of a varied rule, against each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// None is known to spare anything.
    Nothing,
    /// No run of which it can be told has an answer to lose.
    NoAnswers,
    /// Several do equally well, this one among them.
    Tie(usize),
    /// This one stands out.
    One(usize),
}
