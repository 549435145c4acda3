//! How did the critics judge, step by step? A lane of points for each critic, and what is said of a lane in numbers.
//!
//! Rests on the index alone: no line is read here, and nothing is known of pictures. What critics wrote besides their
//! score (reasons, patches, scores that are no numbers) is on the lines, for whoever shows a few of them.

mod agree;
mod aligned;
mod course;
mod series;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

pub use agree::{MAX_CRITICS, Pair, Rank, agreement};
pub use aligned::aligned;
pub use course::{course, in_words};
pub use series::{Band, Series, bands, quartiles, series};

use super::newest::newest_run;
use crate::model::{CriticAction, Index, RunScore, Symbol};

/// What the critics of a run said; where a directory holds several, of the newest.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scores {
    /// How many steps the run has; critics may have spoken at some of them only.
    pub steps: usize,
    /// One for each critic that spoke of a step, in order of appearance.
    pub lanes: Vec<Lane>,
    /// Scores of the run as a whole, given at its end. No step has these.
    pub of_run: Vec<RunScore>,
}

/// What one critic said.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lane {
    /// Its name.
    pub name: String,
    /// In the order of the steps; a critic that has two outputs in one step has two points there.
    pub points: Vec<Point>,
}

/// What a critic said about one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The step's ordinal.
    pub n: usize,
    /// Which of the step's outputs it is, counting those that are objects.
    pub place: usize,
    /// The score, where it is a finite number.
    pub score: Option<f64>,
    /// What it asked for.
    pub action: CriticAction,
    /// Whether it wants the prompt or the state changed.
    pub patches: bool,
}

/// A score and the step that has it.
pub type At = (usize, f64);

/// A lane in numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sums {
    /// How many scores there are.
    pub scored: usize,
    /// The last one.
    pub last: Option<At>,
    /// Their mean.
    pub mean: Option<f64>,
    /// The first of the lowest.
    pub lowest: Option<At>,
    /// The first of the highest.
    pub highest: Option<At>,
    /// The steps at which it asked for a retry.
    pub retries: Vec<usize>,
    /// The steps at which it asked to stop.
    pub stops: Vec<usize>,
}

/// A point that asked for more than to go on, and what came after it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Intervention {
    /// Which lane it is in.
    pub lane: usize,
    /// The point.
    pub point: Point,
    /// The critic's next score.
    pub next: Option<At>,
}

impl Scores {
    /// Collects what the index knows.
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

    /// Nobody spoke, neither of a step nor of the run.
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty() && self.of_run.is_empty()
    }

    /// Whether a critic of this name spoke of a step or of the run.
    pub fn has(&self, critic: &str) -> bool {
        self.lanes.iter().any(|lane| lane.name == critic)
            || self.of_run.iter().any(|given| *given.name == *critic)
    }

    /// How far the critics are apart at each step: the highest score less the lowest, where two critics gave one. Only
    /// critics whose scores lie between 0 and 1 count; those on scales of their own cannot be compared.
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

    /// Every point that asked for a retry or a stop or wants something changed, in the order of the steps.
    pub fn asked(&self) -> Vec<Intervention> {
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
    /// The scores that are numbers, with their steps.
    pub fn scores(&self) -> impl DoubleEndedIterator<Item = At> + '_ {
        self.points
            .iter()
            .filter_map(|point| Some((point.n, point.score?)))
    }

    /// One score for each step that has one, the lowest where there are several.
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

    /// The lane in numbers.
    pub fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        for (n, score) in self.scores() {
            sums.scored += 1;
            let share = 1.0 / sums.scored as f64;
            // A sum of all scores could leave the range of numbers where none of them does.
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

    /// How many scores lie below `threshold`, and the first step with one; a score at the threshold is not below it.
    pub fn below(&self, threshold: f64) -> (usize, Option<usize>) {
        let mut below = self
            .scores()
            .filter(|(_, score)| *score < threshold)
            .map(|(n, _)| n);
        let first = below.next();
        (usize::from(first.is_some()) + below.count(), first)
    }

    /// Whether all its scores lie between 0 and 1.
    pub fn fits(&self) -> bool {
        self.range() == (0.0, 1.0)
    }

    /// The axis its scores fit on: from 0 to 1 where they do, else from 0 to where they reach, on round numbers.
    pub fn range(&self) -> (f64, f64) {
        range(self.scores().map(|(_, score)| score))
    }
}

/// The axis that `scores` fit on.
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
    // A round number of steps of 1, 2 or 5 tens, hundreds, tenths: at least four of them.
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

/// Where a score lies on an axis, from 0 to 1; the axis may be wider than a number can say.
pub fn share((low, high): (f64, f64), score: f64) -> f64 {
    let size = high / 2.0 - low / 2.0;
    if size > 0.0 {
        ((score / 2.0 - low / 2.0) / size).clamp(0.0, 1.0)
    } else {
        0.5
    }
}
