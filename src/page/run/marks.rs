//! Draws the scores and times of the listed steps: one picture per column, next to
//! the rows.
//!
//! One picture per row would be more than half of the page's elements. Each path holds all bars of
//! one color.

use std::fmt::Write as _;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::page::part::svg::PhaseClass;

/// The height of a line. The style sheet has the same number.
const LINE: usize = 28;
/// The width of a time bar.
const BAR: f64 = 36.0;
/// The top and height of a score bar and of a time bar, within their line.
const SCORE: (f64, f64) = (8.0, 12.0);
const TIME: (f64, f64) = (11.0, 6.0);
/// The classes that fill the critics' bars.
const CLASSES: [&str; 6] = ["d1", "d2", "d3", "d4", "d5", "d6"];
/// Maximum number of critics that get a bar.
const CRITICS: usize = 4;

/// The bars of the listed steps: scores, and times by phase.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "run/marks.html")]
pub(crate) struct Marks {
    /// The number of lines of the list.
    pub lines: usize,
    /// The class and path of each group of score bars.
    pub scores: Vec<(&'static str, String)>,
    /// The class and path of each group of time bars.
    pub times: Vec<(&'static str, String)>,
}

impl HtmlSafe for Marks {}

impl Marks {
    /// Adds the scores of the step on the current line, in the colors of their critics.
    /// [`Marks::next`] ends the line. A missing score, or one outside 0 to 1, leaves its track
    /// empty.
    pub(crate) fn scores(&mut self, scores: impl Iterator<Item = (usize, Option<f64>)>) {
        let (top, height) = SCORE;
        for (at, (series, score)) in scores.take(CRITICS).enumerate() {
            let x = 1 + 9 * at;
            let y = top + self.top();
            rect(&mut self.scores, "f-track", x as f64, y, 6.0, height);
            if let Some(score) = score.filter(|score| (0.0..=1.0).contains(score)) {
                let class = CLASSES
                    .get(series.wrapping_sub(1))
                    .copied()
                    .unwrap_or("f-ink");
                rect(
                    &mut self.scores,
                    class,
                    x as f64,
                    y + height * (1.0 - score),
                    6.0,
                    height * score,
                );
            }
        }
    }

    /// Adds the duration of the step on the current line: its phases, as shares of the longest
    /// step.
    pub(crate) fn times(&mut self, phases: impl Iterator<Item = (PhaseClass, f64)>) {
        let (top, height) = TIME;
        let y = top + self.top();
        rect(&mut self.times, "f-track", 0.0, y, BAR, height);
        let mut x = 0.0;
        for (class, share) in phases {
            let width = (share * BAR).min(BAR - x);
            if width > 0.0 {
                rect(&mut self.times, class_of(class), x, y, width, height);
                x += width;
            }
        }
    }

    /// Ends the line.
    pub(crate) fn next(&mut self) {
        self.lines += 1;
    }

    /// Returns the height of the picture.
    fn height(&self) -> usize {
        self.lines * LINE
    }

    fn top(&self) -> f64 {
        self.height() as f64
    }
}

/// Returns the class that fills a phase's part of a bar.
pub(crate) fn class_of(phase: PhaseClass) -> &'static str {
    match phase {
        "decide" => "f-decide",
        "act" => "f-act",
        "reduce" => "f-reduce",
        "critic" => "f-critic",
        "check" => "f-check",
        "recover" => "f-recover",
        _ => "f-plain",
    }
}

/// Adds a rectangle to the path of a class.
pub(crate) fn rect(
    paths: &mut Vec<(&'static str, String)>,
    class: &'static str,
    x: f64,
    y: f64,
    width: f64,
    height: f64,
) {
    let at = paths
        .iter()
        .position(|(known, _)| *known == class)
        .unwrap_or_else(|| {
            paths.push((class, String::new()));
            paths.len() - 1
        });
    if let Some((_, path)) = paths.get_mut(at) {
        // One decimal is a tenth of a pixel. Whole numbers are written without a decimal.
        let short = |number: f64| (number * 10.0).round() / 10.0;
        let (x, y, width, height) = (short(x), short(y), short(width), short(height));
        let _ = write!(path, "M{x} {y}h{width}v{height}h-{width}z");
    }
}

#[cfg(test)]
mod tests {
    use crate::page::run::marks::*;

    #[test]
    fn a_path_holds_what_has_one_colour() {
        let mut marks = Marks::default();
        for _ in 0..2 {
            marks.scores(
                [Some(0.25), None, Some(7.0), Some(1.0), Some(0.5)]
                    .into_iter()
                    .enumerate()
                    .map(|(n, score)| (n + 1, score)),
            );
            marks.times([("decide", 0.5), ("act", 0.0), ("odd", 0.8)].into_iter());
            marks.next();
        }
        let classes = |paths: &[(&'static str, String)]| {
            paths.iter().map(|(class, _)| *class).collect::<Vec<_>>()
        };
        assert_eq!(classes(&marks.scores), ["f-track", "d1", "d4"]);
        assert_eq!(classes(&marks.times), ["f-track", "f-decide", "f-plain"]);
        assert_eq!(marks.scores[1].1, "M1 17h6v3h-6zM1 45h6v3h-6z");
        assert_eq!(
            marks.times[2].1, "M18 11h18v6h-18zM18 39h18v6h-18z",
            "a bar does not overflow"
        );
        assert_eq!(
            marks.scores[0].1.matches('M').count(),
            8,
            "four critics have a track"
        );
        assert!(marks.render().unwrap().contains("viewBox=\"0 0 36 56\""));
    }
}
