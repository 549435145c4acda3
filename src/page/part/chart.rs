//! Computes the coordinates of small charts. The templates provide colors and markup.

use std::fmt::Write as _;

use crate::page::shell::Status;

/// Scores as a line of 56 by 16 units on a scale from 0 (bottom) to 1 (top).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Spark {
    /// SVG path data. A step without a score is a gap.
    pub path: String,
    /// The x coordinate of the last score.
    pub x: String,
    /// The y coordinate of the last score.
    pub y: String,
}

/// The number of series colors.
const SERIES: usize = 6;

/// Returns the number of a critic's color, from 1. It is the same in all lists, bars and lanes of
/// a run.
pub(crate) fn series_of(critics: &[String], name: &str) -> usize {
    critics
        .iter()
        .position(|critic| critic == name)
        .unwrap_or(SERIES - 1)
        % SERIES
        + 1
}

/// Columns of the sparkline. If there are more than two scores per column, only the extremes of
/// each column are drawn.
const COLUMNS: usize = 56;

impl Spark {
    /// Draws `scores`, one per step. A score that is missing or outside 0 to 1 is a gap. Returns
    /// `None` if there are only gaps.
    pub(crate) fn new(scores: &[Option<f64>]) -> Option<Self> {
        let scores = thin(scores);
        let step = if scores.len() > 1 {
            54.0 / (scores.len() - 1) as f64
        } else {
            0.0
        };
        let first = if scores.len() > 1 { 1.0 } else { 55.0 };
        let mut spark = None;
        let mut path = String::new();
        let mut joined = false;
        for (index, score) in scores.iter().enumerate() {
            let Some(score) = score else {
                joined = false;
                continue;
            };
            let x = format!("{:.1}", first + index as f64 * step);
            let y = format!("{:.1}", 14.0 - 12.0 * score);
            // A single point needs a line of length zero to be visible.
            let _ = if joined {
                write!(path, "L{x} {y}")
            } else {
                write!(path, "M{x} {y}h0")
            };
            joined = true;
            spark = Some((x, y));
        }
        spark.map(|(x, y)| Spark { path, x, y })
    }
}

/// Removes scores outside 0 to 1. Thins many scores to the lowest and the highest of each column,
/// in their order.
fn thin(scores: &[Option<f64>]) -> Vec<Option<f64>> {
    let drawn = scores
        .iter()
        .map(|score| score.filter(|score| (0.0..=1.0).contains(score)));
    if scores.len() <= 2 * COLUMNS {
        return drawn.collect();
    }
    let drawn: Vec<_> = drawn.collect();
    let mut out = Vec::with_capacity(2 * COLUMNS);
    for column in drawn.chunks(drawn.len().div_ceil(COLUMNS)) {
        let known = || {
            column
                .iter()
                .enumerate()
                .filter_map(|(index, score)| score.map(|score| (index, score)))
        };
        let low = known().min_by(|a, b| a.1.total_cmp(&b.1));
        let high = known().max_by(|a, b| a.1.total_cmp(&b.1));
        match (low, high) {
            (Some(low), Some(high)) if low.0 <= high.0 => out.extend([Some(low.1), Some(high.1)]),
            (Some(low), Some(high)) => out.extend([Some(high.1), Some(low.1)]),
            _ => out.extend([None, None]),
        }
    }
    out
}

/// One share of a stacked bar, without a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Share {
    /// The status of the runs, which sets the color.
    pub status: Status,
    /// The name of the share: `budget_steps`.
    pub name: String,
    /// The number of runs.
    pub count: usize,
    /// The address of the list of these runs.
    pub href: String,
}

/// One share of a stacked bar of 1000 units, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    pub share: Share,
    pub x: String,
    pub width: String,
}

/// Places `shares` side by side, in their order. Skips those with a count of zero.
pub(crate) fn stack(shares: Vec<Share>) -> Vec<Segment> {
    let total: usize = shares.iter().map(|share| share.count).sum();
    let scale = 1000.0 / total.max(1) as f64;
    let mut before = 0;
    let mut segments = Vec::with_capacity(shares.len());
    for share in shares.into_iter().filter(|share| share.count > 0) {
        let (x, width) = (before as f64 * scale, share.count as f64 * scale);
        before += share.count;
        segments.push(Segment {
            share,
            x: format!("{x:.1}"),
            width: format!("{width:.1}"),
        });
    }
    segments
}

/// Returns the filled part of a bar of 100 units: `done` of `limit`, at most 100.
pub(crate) fn filled(done: usize, limit: usize) -> String {
    format!(
        "{:.1}",
        (100.0 * done as f64 / limit.max(1) as f64).min(100.0)
    )
}

#[cfg(test)]
mod tests {
    use crate::page::part::chart::*;

    #[test]
    fn a_missing_score_is_a_gap() {
        let spark = Spark::new(&[Some(0.0), None, Some(0.5), Some(1.0)]).unwrap();
        assert_eq!(spark.path, "M1.0 14.0h0M37.0 8.0h0L55.0 2.0");
        assert_eq!((spark.x.as_str(), spark.y.as_str()), ("55.0", "2.0"));
    }

    #[test]
    fn what_is_outside_the_scale_is_not_drawn() {
        assert_eq!(
            Spark::new(&[Some(7.0), Some(f64::NAN), Some(-0.1), None]),
            None
        );
        assert_eq!(Spark::new(&[Some(0.25)]).unwrap().path, "M55.0 11.0h0");
    }

    #[test]
    fn thinning_keeps_the_extremes() {
        let mut scores = vec![Some(0.5); 5000];
        scores[2500] = Some(0.0);
        scores[2501] = Some(1.0);
        let path = Spark::new(&scores).unwrap().path;
        assert!(
            path.len() < 2000 && path.contains(" 14.0") && path.contains(" 2.0"),
            "{path}"
        );
    }

    #[test]
    fn shares_fill_the_bar() {
        let share = |count| Share {
            status: Status::Of(crate::analysis::run_result::ShownStatus::Limit),
            name: "x".into(),
            count,
            href: "/".into(),
        };
        let segments = stack(vec![share(1), share(0), share(3)]);
        let places: Vec<_> = segments
            .iter()
            .map(|s| (s.x.as_str(), s.width.as_str()))
            .collect();
        assert_eq!(places, [("0.0", "250.0"), ("250.0", "750.0")]);
        assert_eq!(stack(vec![]), []);
        assert_eq!(filled(15, 14), "100.0");
    }
}
