//! Overlays the scores of several runs: one series for each run, and quartile bands over many runs.

use super::At;
use crate::analysis::newest::newest_run;
use crate::model::{CriticAction, Index};

/// The scores of one run as one line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// The number of steps.
    pub steps: usize,
    /// One score for each step that has any.
    pub points: Vec<At>,
    /// The steps where a retry was requested: by the selected critic, or by the deciding critic if
    /// all are combined.
    pub retries: Vec<usize>,
    /// The steps where a stop was requested, by the same critics.
    pub stops: Vec<usize>,
}

/// Returns the lowest score of each step, from `critic` or from any critic.
pub fn series(index: &Index, critic: Option<&str>) -> Series {
    let mut series = Series {
        steps: index.steps().len(),
        ..Series::default()
    };
    let wanted = critic.map(|name| index.names().find(name));
    for (n, step) in newest_run(index) {
        let marks = || {
            step.critics
                .iter()
                .filter(|mark| wanted.is_none_or(|wanted| wanted == Some(mark.name)))
        };
        // With all critics combined, the deciding one determines what the run did; see
        // `StepHead::deciding`.
        let asked = |action| match wanted {
            Some(_) => marks().any(|mark| mark.action == action),
            None => step.requested(action),
        };
        series.points.extend(
            marks()
                .filter_map(|mark| mark.score)
                .min_by(f64::total_cmp)
                .map(|score| (n, score)),
        );
        series
            .retries
            .extend(asked(CriticAction::Retry).then_some(n));
        series.stops.extend(asked(CriticAction::Stop).then_some(n));
    }
    series
}

impl Series {
    /// Returns the last score.
    pub fn last(&self) -> Option<At> {
        self.points.last().copied()
    }

    /// Returns the lowest score; the first of equals.
    pub fn lowest(&self) -> Option<At> {
        self.points
            .iter()
            .copied()
            .min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Returns the mean score.
    pub fn mean(&self) -> Option<f64> {
        let shares = 1.0 / self.points.len().max(1) as f64;
        (!self.points.is_empty()).then(|| self.points.iter().map(|(_, score)| score * shares).sum())
    }

    /// Returns the first step with a score below `threshold`.
    pub fn first_below(&self, threshold: f64) -> Option<usize> {
        self.points
            .iter()
            .find(|(_, score)| *score < threshold)
            .map(|(n, _)| *n)
    }
}

/// The distribution of runs in one column of a chart: half of them are between the quartiles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Band {
    /// How many runs have a score here.
    pub runs: usize,
    /// The lower quartile.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// The upper quartile.
    pub high: f64,
}

/// Returns the bands of `columns` columns. `place` maps a step of a run to its horizontal extent,
/// as shares of the chart's width from the left. A step outside the chart is skipped. A run's value
/// in a column is its lowest score there.
pub fn bands(
    runs: &[Series],
    columns: usize,
    place: impl Fn(&Series, usize) -> (f64, f64),
) -> Vec<Option<Band>> {
    let mut values: Vec<Vec<f64>> = vec![Vec::new(); columns];
    for run in runs {
        let mut own: Vec<Option<f64>> = vec![None; columns];
        for (n, score) in &run.points {
            let (from, to) = place(run, *n);
            if to <= 0.0 || from >= 1.0 {
                continue;
            }
            let column = |share: f64| (share.clamp(0.0, 1.0) * columns as f64) as usize;
            let (first, last) = (column(from), column(to).saturating_sub(1));
            for slot in own
                .iter_mut()
                .take(last.max(first) + 1)
                .skip(first.min(columns.saturating_sub(1)))
            {
                *slot = Some(slot.map_or(*score, |lowest: f64| lowest.min(*score)));
            }
        }
        for (all, own) in values.iter_mut().zip(own) {
            all.extend(own);
        }
    }
    values.into_iter().map(quartiles).collect()
}

/// Returns the quartiles of `values`, interpolated between neighbors, or `None` without values.
pub fn quartiles(mut values: Vec<f64>) -> Option<Band> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    let at = |share: f64| {
        let place = share * last as f64;
        let (low, high) = (
            values.get(place.floor() as usize)?,
            values.get(place.ceil() as usize)?,
        );
        let rest = place.fract();
        Some(low * (1.0 - rest) + high * rest)
    };
    Some(Band {
        runs: last + 1,
        low: at(0.25)?,
        median: at(0.5)?,
        high: at(0.75)?,
    })
}
