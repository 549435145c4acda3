//! Collects the scores of critics step by step: a lane of points for each critic, and statistics of
//! a lane.
//!
//! Uses only the index, apart from [`recorded_scores`], and doesn't know charts. Whatever else
//! critics wrote (reasons, patches, scores that aren't numbers) remains in the lines of the trace,
//! for callers that show a few of them.

mod agree;
mod aligned;
mod course;
mod document;
mod series;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

pub use agree::{MAX_CRITICS, Pair, Rank, agreement};
pub use aligned::aligned;
pub use course::{course, in_words};
pub use document::{CriticScores, RecordedPoint, RecordedScores, recorded_scores};
pub use series::{Band, Series, bands, quartiles, series};

use super::newest::newest_run;
use crate::model::{CriticAction, Index, RunScore, Symbol};

/// The critic output of a run. If a directory contains several runs, that of the newest.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scores {
    /// The number of steps. Critics may have scored only some of them.
    pub steps: usize,
    /// One lane for each critic with output for a step, in order of appearance.
    pub lanes: Vec<Lane>,
    /// Scores of the whole run, given at its end. They belong to no step.
    pub of_run: Vec<RunScore>,
}

/// The output of one critic.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lane {
    /// The critic's name.
    pub name: String,
    /// Its points, in step order. A critic with two outputs in one step has two points there.
    pub points: Vec<Point>,
}

/// A critic's output for one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The step's number, counted from 0.
    pub n: usize,
    /// The index of this output among the step's critic outputs that are objects.
    pub place: usize,
    /// The score, if it's a finite number.
    pub score: Option<f64>,
    /// The requested action.
    pub action: CriticAction,
    /// Whether it requests a change of the prompt or the state.
    pub patches: bool,
}

/// A step and its score.
pub type At = (usize, f64);

/// Statistics of a lane.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sums {
    /// The number of scores.
    pub scored: usize,
    /// The last score.
    pub last: Option<At>,
    /// The mean score.
    pub mean: Option<f64>,
    /// The lowest score; the first of equals.
    pub lowest: Option<At>,
    /// The highest score; the first of equals.
    pub highest: Option<At>,
    /// The steps where the critic requested a retry.
    pub retries: Vec<usize>,
    /// The steps where the critic requested a stop.
    pub stops: Vec<usize>,
}

/// A point that requested a retry, a stop or a change, and the critic's next score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Intervention {
    /// The index of the lane.
    pub lane: usize,
    /// The point.
    pub point: Point,
    /// The critic's next score.
    pub next: Option<At>,
}

impl Scores {
    /// Collects the scores from the index.
    pub fn of(index: &Index) -> Self {
        let mut places: HashMap<Symbol, usize> = HashMap::new();
        let mut scores = Self {
            steps: index.steps().len(),
            ..Self::default()
        };
        for (n, step) in newest_run(index) {
            for (place, mark) in step.critics.iter().enumerate() {
                let at = *places.entry(mark.name).or_insert_with(|| {
                    scores.lanes.push(Lane {
                        name: index.name(mark.name).to_owned(),
                        points: Vec::new(),
                    });
                    scores.lanes.len() - 1
                });
                let point = Point {
                    n,
                    place,
                    score: mark.score,
                    action: mark.action,
                    patches: mark.patches,
                };
                if let Some(lane) = scores.lanes.get_mut(at) {
                    lane.points.push(point);
                }
            }
        }
        let of_run = index
            .manifest()
            .get()
            .into_iter()
            .flat_map(|manifest| &manifest.scores);
        scores.of_run = of_run.cloned().collect();
        scores
    }

    /// Returns whether there's no critic output, neither for a step nor for the run.
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty() && self.of_run.is_empty()
    }

    /// Returns whether a critic of this name scored a step or the run.
    pub fn has(&self, critic: &str) -> bool {
        self.lanes.iter().any(|lane| lane.name == critic)
            || self.of_run.iter().any(|given| *given.name == *critic)
    }

    /// Returns how far the critics are apart at each step: the highest score minus the lowest, if
    /// at least two critics gave one. Only critics whose scores are between 0 and 1 count, since
    /// other scales can't be compared.
    pub fn spread(&self) -> Vec<Option<f64>> {
        let mut ends: Vec<Option<(f64, f64, usize)>> = vec![None; self.steps];
        for lane in self.lanes.iter().filter(|lane| lane.fits()) {
            for (n, score) in lane.by_step() {
                let Some(end) = ends.get_mut(n) else { continue };
                *end = Some(end.map_or((score, score, 1), |(low, high, critics)| {
                    (low.min(score), high.max(score), critics + 1)
                }));
            }
        }
        let apart = |(low, high, critics): (f64, f64, usize)| (critics > 1).then_some(high - low);
        ends.into_iter().map(|end| end.and_then(apart)).collect()
    }

    /// Returns every point that requested a retry, a stop or a change, in step order.
    pub fn interventions(&self) -> Vec<Intervention> {
        let mut asked = Vec::new();
        for (at, lane) in self.lanes.iter().enumerate() {
            let mut next = None;
            for point in lane.points.iter().rev() {
                if point.patches || matches!(point.action, CriticAction::Retry | CriticAction::Stop)
                {
                    asked.push(Intervention {
                        lane: at,
                        point: *point,
                        next,
                    });
                }
                next = point.score.map(|score| (point.n, score)).or(next);
            }
        }
        asked.sort_by_key(|asked| (asked.point.n, asked.point.place));
        asked
    }
}

impl Lane {
    /// Returns the scores that are numbers, with their steps.
    pub fn scores(&self) -> impl DoubleEndedIterator<Item = At> + '_ {
        self.points
            .iter()
            .filter_map(|point| Some((point.n, point.score?)))
    }

    /// Returns one score for each step that has any: the lowest.
    pub fn by_step(&self) -> Vec<At> {
        let mut steps: Vec<At> = Vec::with_capacity(self.points.len());
        for (n, score) in self.scores() {
            match steps.last_mut() {
                Some((last, lowest)) if *last == n => *lowest = lowest.min(score),
                _ => steps.push((n, score)),
            }
        }
        steps
    }

    /// Returns the statistics of the lane.
    pub fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        for (n, score) in self.scores() {
            sums.scored += 1;
            let share = 1.0 / sums.scored as f64;
            // The sum of all scores could overflow even if no score does.
            sums.mean = Some(sums.mean.unwrap_or_default() * (1.0 - share) + score * share);
            sums.last = Some((n, score));
            sums.lowest = sums
                .lowest
                .filter(|(_, lowest)| *lowest <= score)
                .or(Some((n, score)));
            sums.highest = sums
                .highest
                .filter(|(_, highest)| *highest >= score)
                .or(Some((n, score)));
        }
        let asked = |action| {
            self.points
                .iter()
                .filter(move |point| point.action == action)
                .map(|point| point.n)
        };
        sums.retries = asked(CriticAction::Retry).collect();
        sums.stops = asked(CriticAction::Stop).collect();
        sums
    }

    /// Returns how many scores are below `threshold`, and the first step with one. A score equal to
    /// the threshold isn't below it.
    pub fn below(&self, threshold: f64) -> (usize, Option<usize>) {
        let mut below = self
            .scores()
            .filter(|(_, score)| *score < threshold)
            .map(|(n, _)| n);
        let first = below.next();
        (usize::from(first.is_some()) + below.count(), first)
    }

    /// Returns whether all scores are between 0 and 1.
    pub fn fits(&self) -> bool {
        self.range() == (0.0, 1.0)
    }

    /// Returns the axis for the lane's scores: 0 to 1 if they fit, otherwise a range that includes
    /// 0, with round ends.
    pub fn range(&self) -> (f64, f64) {
        range(self.scores().map(|(_, score)| score))
    }
}

/// Returns the axis for `scores`.
pub fn range(scores: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = scores.fold((0.0_f64, 0.0_f64), |(low, high), score| {
        (low.min(score), high.max(score))
    });
    if low >= 0.0 && high <= 1.0 {
        return (0.0, 1.0);
    }
    let size = high - low;
    if !size.is_finite() || size <= f64::MIN_POSITIVE {
        return (low, high);
    }
    // Rounds to the largest 1, 2 or 5 times a power of ten that fits into the range at least four
    // times.
    let ten = 10_f64.powf((size / 4.0).log10().floor());
    let step = [5.0, 2.0, 1.0]
        .into_iter()
        .map(|part| part * ten)
        .find(|step| *step <= size / 4.0)
        .unwrap_or(ten);
    let (round_low, round_high) = ((low / step).floor() * step, (high / step).ceil() * step);
    if round_low.is_finite() && round_high.is_finite() {
        (round_low, round_high)
    } else {
        (low, high)
    }
}

/// Returns the position of a score on an axis, from 0 to 1. The length of the axis may exceed the
/// range of `f64`, so both ends are halved first.
pub fn share((low, high): (f64, f64), score: f64) -> f64 {
    let size = high / 2.0 - low / 2.0;
    if size > 0.0 {
        ((score / 2.0 - low / 2.0) / size).clamp(0.0, 1.0)
    } else {
        0.5
    }
}
