//! Measures two sets of runs: success, scores, and what the runs used.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::figures::share_words;
use super::sets::{Judged, Set, Task, Two};
use super::statistics::{ALPHA, Effect, Pair, holm, none_of, paired, pass_at};
use super::success::{Rule, score};
use crate::analysis::format;
use crate::analysis::summary::{Cost, Summary};
use crate::model::words::words;

/// Maximum number of scores that are compared.
const MAX_SCORES: usize = 20;
/// Maximum number of runs of each side whose values are drawn.
const MAX_POINTS: usize = 400;

words! {
    /// The part of a table that a measure is in.
    pub(crate) enum MeasureGroup {
        /// How often runs succeed.
        Success = "success",
        /// What critics gave.
        Scores = "scores",
        /// What runs used.
        Spent = "spent",
    }
}

words! {
    /// The unit of a difference.
    pub(crate) enum Unit {
        /// A number of tasks.
        Tasks = "tasks",
        /// A share: 0.05 is 5 percentage points.
        Share = "share",
        /// A score.
        Score = "score",
        /// A change against A: 0.05 is 5% more.
        Change = "change",
    }
}

words! {
    /// The quantity that a measure is in.
    pub(crate) enum Quantity {
        /// A share of runs, 0 to 1.
        Share = "share",
        /// A score.
        Score = "score",
        /// A number.
        Count = "count",
        /// A number of tokens.
        Tokens = "tokens",
        /// US dollars.
        Usd = "usd",
        /// Milliseconds.
        Millis = "ms",
    }
}

/// The distribution of a measure over the runs of a side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Spread {
    /// The number of runs that record the measure.
    pub runs: usize,
    /// A tenth of the runs are below.
    pub p10: f64,
    /// A quarter of the runs are below.
    pub p25: f64,
    /// Half of the runs are below.
    pub median: f64,
    /// A quarter of the runs are above.
    pub p75: f64,
    /// A tenth of the runs are above.
    pub p90: f64,
}

/// A measure of both sets, compared.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ExperimentMeasure")]
pub(crate) struct Measure {
    /// The name in conditions: `success`, `tests`, `cost`.
    pub name: String,
    /// The name on pages.
    pub label: String,
    /// The part of the table.
    pub group: MeasureGroup,
    /// The quantity of `a` and `b`.
    pub quantity: Quantity,
    /// The mean over tasks in A, or over runs if they aren't paired.
    pub a: Option<f64>,
    /// The mean in B.
    pub b: Option<f64>,
    /// The unit of `difference`, `low` and `high`.
    pub unit: Unit,
    /// B − A, if it was estimated.
    pub difference: Option<f64>,
    /// The lower end of its 95% interval.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
    /// The probability of a difference at least as large if the sides were alike.
    pub p: Option<f64>,
    /// The same, corrected for the number of measures other than success.
    pub p_corrected: Option<f64>,
    /// Whether the corrected probability is below 0.05.
    pub is_clear: bool,
    /// The side that did better, if that's clear.
    pub better: Option<Set>,
    /// The number of tasks with this measure on both sides.
    pub tasks: usize,
    /// Whether any of the values are estimates.
    pub is_estimated: bool,
    /// The distribution over the runs of A.
    pub a_spread: Option<Spread>,
    /// The distribution over the runs of B.
    pub b_spread: Option<Spread>,
    /// The values of runs of each side.
    #[serde(skip)]
    pub points: (Vec<f64>, Vec<f64>),
    /// The means of each task, with its position.
    #[serde(skip)]
    pub task_values: Vec<(usize, f64, f64)>,
    #[serde(skip)]
    pub(super) effect: Option<Effect>,
}

/// A measure to take.
struct Wanted<'f> {
    name: String,
    label: String,
    group: MeasureGroup,
    quantity: Quantity,
    value: &'f dyn Fn(&Judged<'_>) -> Option<f64>,
}

type Read = fn(&Summary) -> Option<f64>;

/// Quantities for which less is better.
const SPENT: [(&str, &str, Quantity, Read); 5] = [
    ("steps", "Steps per run", Quantity::Count, |run| {
        run.steps_known().map(|steps| steps as f64)
    }),
    (
        "failed_steps",
        "Failed steps per run",
        Quantity::Count,
        |run| run.errors_known().map(|errors| errors as f64),
    ),
    ("tokens", "Tokens per run", Quantity::Tokens, |run| {
        // A lower bound would make the side look cheaper.
        let tokens = run.tokens.filter(|_| run.tokens_unknown == 0);
        tokens.map(|tokens| tokens as f64)
    }),
    ("cost", "Cost per run", Quantity::Usd, |run| {
        run.cost().map(Cost::usd)
    }),
    ("time", "Duration per run", Quantity::Millis, |run| {
        run.duration_ms
    }),
];

/// Takes all measures. With `paired`, tasks are compared, otherwise runs.
pub(super) fn measures(
    shared: &[(&str, &Task<'_>)],
    compared: &Two<Vec<Judged<'_>>>,
    paired: bool,
    rule: &Rule,
) -> Vec<Measure> {
    let k = runs_of_each_task(shared);
    let solved = match rule {
        Rule::Finished => "Finished",
        _ => "Solved",
    };
    let most = shared
        .iter()
        .map(|(_, task)| task.a.len().max(task.b.len()))
        .max()
        .unwrap_or(1);
    let has_known = compared
        .a
        .iter()
        .chain(&compared.b)
        .any(|judged| judged.solved.is_some());
    let label = match (k, most) {
        (Some(k), most) if k == most => format!("{solved}, mean of {k} runs"),
        (_, 2..) if paired && has_known => format!("{solved} tasks (mean over runs)"),
        _ => solved.to_owned(),
    };
    let success = |judged: &Judged<'_>| judged.solved.map(|solved| f64::from(u8::from(solved)));
    let mut all = vec![taken(
        &Wanted {
            name: "success".to_owned(),
            label,
            group: MeasureGroup::Success,
            quantity: Quantity::Share,
            value: &success,
        },
        shared,
        compared,
        paired,
    )];
    if let Some(k) = k.filter(|_| paired) {
        all.extend(of_several_runs(shared, k, solved));
    }
    let names = |runs: &[Judged<'_>]| -> BTreeSet<String> {
        let scores = runs.iter().flat_map(|judged| &judged.run.critic_scores);
        scores.map(|given| given.name.clone()).collect()
    };
    let (of_a, of_b) = (names(&compared.a), names(&compared.b));
    for name in of_a.intersection(&of_b).take(MAX_SCORES) {
        let value = |judged: &Judged<'_>| score(judged.run, name);
        let wanted = Wanted {
            name: name.clone(),
            label: name.clone(),
            group: MeasureGroup::Scores,
            quantity: Quantity::Score,
            value: &value,
        };
        all.push(taken(&wanted, shared, compared, paired));
    }
    for (name, label, quantity, read) in SPENT {
        let value = |judged: &Judged<'_>| read(judged.run);
        let wanted = Wanted {
            name: name.to_owned(),
            label: label.to_owned(),
            group: MeasureGroup::Spent,
            quantity,
            value: &value,
        };
        let measure = taken(&wanted, shared, compared, paired);
        let is_estimated = name == "cost"
            && compared
                .a
                .iter()
                .chain(&compared.b)
                .any(|judged| matches!(judged.run.cost(), Some(Cost::Estimated(_))));
        // A quantity that is always zero isn't worth a row.
        let is_some = |value: Option<f64>| value.is_some_and(|value| value != 0.0);
        if is_some(measure.a) || is_some(measure.b) {
            all.push(Measure {
                is_estimated,
                ..measure
            });
        }
    }
    correct(&mut all);
    all
}

/// Returns how many runs with a known success each task has on each side at least, if that's more
/// than one.
fn runs_of_each_task(shared: &[(&str, &Task<'_>)]) -> Option<usize> {
    let known = |runs: &[Judged<'_>]| runs.iter().filter(|run| run.solved.is_some()).count();
    let counts = shared
        .iter()
        .map(|(_, task)| (known(&task.a), known(&task.b)))
        .filter(|(a, b)| *a > 0 && *b > 0);
    counts.map(|(a, b)| a.min(b)).min().filter(|k| *k > 1)
}

/// Measures how often some run of a task succeeds, and how often all do.
fn of_several_runs(shared: &[(&str, &Task<'_>)], k: usize, solved: &str) -> [Measure; 2] {
    let of = |runs: &[Judged<'_>]| {
        let known = runs.iter().filter_map(|judged| judged.solved);
        let (all, yes) = known.fold((0, 0), |(all, yes), solved| {
            (all + 1, yes + usize::from(solved))
        });
        pass_at(k, yes, all)
    };
    let values: Vec<_> = shared
        .iter()
        .enumerate()
        .filter_map(|(at, (_, task))| Some((at, of(&task.a)?, of(&task.b)?)))
        .collect();
    let measure = |name: &str, label: String, pick: fn((f64, f64)) -> f64| {
        let values = values.iter().map(|(at, a, b)| (*at, pick(*a), pick(*b)));
        Measure::of_tasks(
            Measure::named(name, &label, MeasureGroup::Success, Quantity::Share),
            values.collect(),
        )
    };
    [
        measure(
            "pass_once",
            format!("{solved} at least once (pass@{k})"),
            |(once, _)| once,
        ),
        measure(
            "pass_always",
            format!("{solved} every time (all of {k})"),
            |(_, always)| always,
        ),
    ]
}

fn taken(
    wanted: &Wanted<'_>,
    shared: &[(&str, &Task<'_>)],
    compared: &Two<Vec<Judged<'_>>>,
    is_paired: bool,
) -> Measure {
    let values = |runs: &[Judged<'_>]| -> Vec<f64> {
        let values = runs.iter().filter_map(|run| (wanted.value)(run));
        values.filter(|value| value.is_finite()).collect()
    };
    let mean = |values: &[f64]| {
        let sum: f64 = values.iter().sum();
        (!values.is_empty()).then(|| sum / values.len() as f64)
    };
    let (of_a, of_b) = (values(&compared.a), values(&compared.b));
    let named = Measure::named(&wanted.name, &wanted.label, wanted.group, wanted.quantity);
    let mut measure = if is_paired {
        let tasks = shared.iter().enumerate().filter_map(|(at, (_, task))| {
            let a = mean(&values(&task.a))?;
            Some((at, a, mean(&values(&task.b))?))
        });
        Measure::of_tasks(named, tasks.collect())
    } else {
        let (a, b) = (mean(&of_a), mean(&of_b));
        let change = a.zip(b).and_then(|(a, b)| match wanted.group {
            MeasureGroup::Spent => (a > 0.0).then(|| b / a - 1.0),
            _ => Some(b - a),
        });
        Measure {
            a,
            b,
            difference: change,
            unit: match wanted.group {
                MeasureGroup::Success => Unit::Share,
                _ => named.unit,
            },
            ..named
        }
    };
    if measure.a.is_none() && measure.b.is_none() {
        // Without a task that both sides know, each side's own mean is still worth seeing.
        (measure.a, measure.b) = (mean(&of_a), mean(&of_b));
    }
    if wanted.group == MeasureGroup::Spent {
        (measure.a_spread, measure.b_spread) = (spread(&of_a), spread(&of_b));
        measure.points = (thinned(&of_a), thinned(&of_b));
    }
    measure
}

impl Measure {
    fn named(name: &str, label: &str, group: MeasureGroup, quantity: Quantity) -> Self {
        Self {
            name: name.to_owned(),
            label: label.to_owned(),
            group,
            quantity,
            a: None,
            b: None,
            unit: match group {
                MeasureGroup::Success => Unit::Tasks,
                MeasureGroup::Scores => Unit::Score,
                MeasureGroup::Spent => Unit::Change,
            },
            difference: None,
            low: None,
            high: None,
            p: None,
            p_corrected: None,
            is_clear: false,
            better: None,
            tasks: 0,
            is_estimated: false,
            a_spread: None,
            b_spread: None,
            points: Default::default(),
            task_values: Vec::new(),
            effect: None,
        }
    }

    /// Compares the means of tasks.
    fn of_tasks(self, values: Vec<(usize, f64, f64)>) -> Self {
        let n = values.len() as f64;
        let is_ratio = self.group == MeasureGroup::Spent;
        let pairs: Vec<Pair> = values
            .iter()
            .map(|(_, a, b)| match is_ratio {
                true => Pair::ratio(*a, *b),
                false => Pair::difference(*a, *b),
            })
            .collect();
        let mut effect = paired(&pairs, if is_ratio { 1.0 } else { 0.0 });
        if let Some(effect) = &mut effect
            && self.group == MeasureGroup::Success
            && let Some((low, high)) = effect.interval
        {
            // That all tasks differed alike doesn't show that none can differ otherwise.
            let more = if low < high {
                0.0
            } else {
                none_of(values.len())
            };
            let (low, high) = ((low - more).max(-1.0), (high + more).min(1.0));
            // The interval excludes zero if the test does.
            let is_clear = effect.p < ALPHA;
            effect.interval = Some(match effect.estimate {
                estimate if is_clear && estimate > 0.0 => (low.max(f64::EPSILON), high),
                estimate if is_clear && estimate < 0.0 => (low, high.min(-f64::EPSILON)),
                _ => (low, high),
            });
        }
        let scaled = |value: f64| match self.unit {
            Unit::Tasks => value * n,
            Unit::Change => value - 1.0,
            Unit::Share | Unit::Score => value,
        };
        let interval = effect.and_then(|effect| effect.interval);
        let mean = |side: fn(&(usize, f64, f64)) -> f64| {
            (n > 0.0).then(|| values.iter().map(side).sum::<f64>() / n)
        };
        Self {
            a: mean(|(_, a, _)| *a),
            b: mean(|(_, _, b)| *b),
            difference: effect.map(|effect| scaled(effect.estimate)),
            low: interval.map(|(low, _)| scaled(low)),
            high: interval.map(|(_, high)| scaled(high)),
            p: effect.map(|effect| effect.p),
            tasks: values.len(),
            task_values: values,
            effect,
            ..self
        }
    }

    /// Returns whether more is better.
    pub(crate) fn is_more_better(&self) -> bool {
        self.group != MeasureGroup::Spent
    }

    /// Returns the amount of a side in words: `12.8`, `≈$0.30`, `56%`.
    pub(crate) fn amount(&self, value: Option<f64>) -> String {
        let Some(value) = value else {
            return format::MISSING.to_owned();
        };
        match self.quantity {
            Quantity::Share => share_words(value),
            Quantity::Score => format::score(value),
            Quantity::Count if value < 100.0 => format!("{value:.1}"),
            Quantity::Count | Quantity::Tokens => format::tokens(value.round().max(0.0) as u64),
            Quantity::Usd if self.is_estimated => format!("≈{}", mean_usd(value)),
            Quantity::Usd => mean_usd(value),
            Quantity::Millis => format::millis(value),
        }
    }

    /// Returns the side that a clear difference favors.
    fn favoured(&self) -> Option<Set> {
        let difference = self.difference.filter(|_| self.is_clear)?;
        Some(match (difference > 0.0) == self.is_more_better() {
            true => Set::B,
            false => Set::A,
        })
    }

    /// Decides whether the difference is clear.
    pub(super) fn decide(&mut self) {
        self.is_clear = self.p_corrected.is_some_and(|p| p < ALPHA);
        self.better = self.favoured();
    }
}

/// Corrects the p-values of all measures but the first, which is the main one.
fn correct(measures: &mut [Measure]) {
    let others: Vec<f64> = measures
        .iter()
        .skip(1)
        .filter_map(|measure| measure.p)
        .collect();
    let mut corrected = holm(&others).into_iter();
    for (at, measure) in measures.iter_mut().enumerate() {
        measure.p_corrected = match (at, measure.p) {
            (0, p) => p,
            (_, Some(_)) => corrected.next(),
            _ => None,
        };
        measure.decide();
    }
}

/// Formats a mean cost. Its digits beyond the third would be noise.
fn mean_usd(value: f64) -> String {
    match value {
        0.1..1.0 => format!("${value:.2}"),
        0.01..0.1 => format!("${value:.3}"),
        _ => format::usd(value),
    }
}

fn spread(values: &[f64]) -> Option<Spread> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let at = |share: f64| {
        let place = share * last as f64;
        let below = sorted.get(place.floor() as usize).copied();
        let above = sorted.get(place.ceil() as usize).copied();
        let (below, above) = (below.unwrap_or_default(), above.unwrap_or_default());
        below + (above - below) * place.fract()
    };
    Some(Spread {
        runs: sorted.len(),
        p10: at(0.1),
        p25: at(0.25),
        median: at(0.5),
        p75: at(0.75),
        p90: at(0.9),
    })
}

/// Keeps at most [`MAX_POINTS`] values, evenly.
fn thinned(values: &[f64]) -> Vec<f64> {
    let every = values.len().div_ceil(MAX_POINTS).max(1);
    values.iter().step_by(every).copied().collect()
}
