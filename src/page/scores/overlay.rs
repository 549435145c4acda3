//! Draws the scores of several runs in one picture: a line for each run, or for many runs the
//! median and the band of their middle half.
//!
//! The caller decides the position of a step along the axis: its index in the run, its share of the
//! run, or the row of an alignment.

use std::fmt::Write as _;

use askama::Template;
use askama::filters::HtmlSafe;

pub(crate) use crate::analysis::compare::letter;
use crate::analysis::format;
use crate::analysis::scores::{Series, bands, range};
use crate::page::part::{href, text};
use crate::page::run_view::RunView;
use crate::page::scores::plot::{
    Along, Dot, Frame, Px, Request, Spot, Trace, VisibleRange, WIDTH, tick_class, with_requests,
};
use crate::page::scores::threshold_handle::ThresholdHandle;

const FRAME: Frame = Frame {
    left: 0.0,
    right: WIDTH,
    top: 12.0,
    bottom: 236.0,
    range: (0.0, 1.0),
};
/// Clickable points on all lines, approximately at most.
const MAX_LINKS: usize = 72;
/// If there are more runs, they are drawn as a band.
pub(crate) const MAX_LINES: usize = 6;
/// Maximum number of columns of a band.
const BAND_COLUMNS: usize = 200;
/// Explains the band to the reader.
pub(crate) const BAND: &str = "The band covers the middle half of the runs, with their median as a line. \
                        Each run counts with its lowest score per column. The first run is drawn as a line.";

/// The axis along which steps are placed: its name, and its labels with their positions from 0 to
/// 1.
#[derive(Debug, Clone, Default)]
pub(crate) struct Axis {
    pub name: &'static str,
    pub ticks: Vec<(f64, String)>,
    /// The values at both ends, in the units of the address. `None` if the axis can't be zoomed.
    pub ends: Option<(f64, f64)>,
}

/// A picture of the scores of several runs.
#[derive(Debug, Clone, Template)]
#[template(path = "scores/overlay.html")]
pub(crate) struct Overlay {
    /// The title: `Lowest critic score of each step, 5 runs`.
    pub title: String,
    pub axis: Axis,
    pub frame: Frame,
    pub threshold: Option<f64>,
    /// The paths of the band and of the median. Empty if the runs are drawn as lines.
    pub band: (String, String),
    pub lines: Vec<Line>,
    /// The caption below: how many points are drawn, if not all are.
    pub caption: String,
}

impl HtmlSafe for Overlay {}

/// One run in the picture.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    key: String,
    trace: Trace,
    pub dots: Vec<Dot>,
    /// The end of the line, where its letter is drawn.
    end: (f64, f64),
}

/// The scores of a run, each with its position in the picture.
pub(crate) struct Source<'a> {
    view: &'a RunView<'a>,
    spots: Vec<Spot>,
}

impl<'a> Source<'a> {
    /// Creates the scores of a run. `place` returns the position of a step, from 0 at the left edge
    /// to 1 at the right. Scores outside aren't drawn.
    pub(crate) fn new(
        view: &'a RunView<'a>,
        series: &Series,
        place: impl Fn(usize) -> f64,
    ) -> Self {
        let request = |n: &usize| match n {
            n if series.stops.binary_search(n).is_ok() => Request::Stop,
            n if series.retries.binary_search(n).is_ok() => Request::Retry,
            _ => Request::None,
        };
        let spot = |(n, score): &(usize, f64)| Spot {
            n: *n,
            x: place(*n),
            score: *score,
            request: request(n),
        };
        let inside = |spot: &Spot| (0.0..=1.0).contains(&spot.x);
        Self {
            view,
            spots: series.points.iter().map(spot).filter(inside).collect(),
        }
    }

    fn scores(&self) -> impl Iterator<Item = f64> + Clone {
        self.spots.iter().map(|spot| spot.score)
    }

    /// Returns the line of the run at index `place`.
    fn line(&self, frame: Frame, place: usize, columns: usize) -> Line {
        let trace = frame.trace(&self.spots);
        let title = |spot: &Spot| {
            let (letter, label, score) = (
                letter(place),
                self.view.label(spot.n),
                format::score(spot.score),
            );
            let request_note = if spot.request == Request::None {
                ""
            } else {
                " · "
            };
            format!(
                "{letter} {} · step {label} · {score}{request_note}{}",
                self.view.key(),
                spot.request.word()
            )
        };
        let kept = with_requests(&self.spots, columns)
            .into_iter()
            .filter_map(|kept| self.spots.get(kept));
        let dots = kept
            .map(|spot| Dot {
                is_quiet: trace.is_dense,
                ..frame.dot(spot, title(spot))
            })
            .collect();
        let end = self
            .spots
            .last()
            .map_or((0.0, 0.0), |spot| (frame.x(spot.x), frame.y(spot.score)));
        Line {
            key: self.view.key().to_owned(),
            trace,
            dots,
            end,
        }
    }
}

impl Overlay {
    fn threshold_handle(&self) -> ThresholdHandle<'_> {
        ThresholdHandle::new(self.frame, "", self.threshold)
    }

    fn empty(title: String, axis: Axis, range: (f64, f64), threshold: Option<f64>) -> Self {
        let frame = Frame { range, ..FRAME };
        Self {
            title,
            axis,
            frame,
            threshold,
            band: Default::default(),
            lines: Vec::new(),
            caption: String::new(),
        }
    }

    /// Draws up to six runs as lines.
    pub(crate) fn lines(
        title: String,
        axis: Axis,
        runs: &[Source<'_>],
        threshold: Option<f64>,
    ) -> Self {
        let scores = runs.iter().flat_map(Source::scores);
        let fits = |score: f64| (0.0..=1.0).contains(&score);
        // A run with scores outside 0 to 1 must not flatten the others.
        let on_scale = |run: &Source<'_>| !run.spots.is_empty() && run.scores().all(fits);
        let range = if runs.iter().any(on_scale) {
            (0.0, 1.0)
        } else {
            range(scores.clone())
        };
        let off = scores
            .filter(|score| !(range.0..=range.1).contains(score))
            .count();
        let columns = (MAX_LINKS / 2 / runs.len().clamp(1, MAX_LINES)).max(1);
        let mut overlay = Self::empty(title, axis, range, threshold);
        let drawn = runs.iter().take(MAX_LINES).enumerate();
        overlay.lines = drawn
            .map(|(place, run)| run.line(overlay.frame, place, columns))
            .collect();
        let mut captions = Vec::new();
        if overlay.lines.iter().any(|line| line.trace.is_band) {
            captions
                .push("long runs are drawn as a band from lowest to highest per pixel".to_owned());
        }
        if off > 0 {
            let points = format::counted(off, "score");
            captions.push(format!(
                "{points} outside 0 to 1 drawn at the edge (hover for the number)"
            ));
        }
        overlay.caption = captions.join(" · ");
        overlay
    }

    /// Draws many runs as a median and a band between the quartiles, and the first run as a line.
    /// Steps are placed by their share of the run, or by their ordinal. The positions are the same
    /// as for lines.
    pub(crate) fn band(
        title: String,
        axis: Axis,
        first: Option<&Source<'_>>,
        runs: &[Series],
        by_share: bool,
        (visible, threshold): (VisibleRange, Option<f64>),
    ) -> Self {
        let longest = runs.iter().map(|run| run.steps).max().unwrap_or_default();
        let columns = if by_share {
            BAND_COLUMNS
        } else {
            longest.clamp(1, BAND_COLUMNS)
        };
        // The first column is at the left edge and the last at the right, like the first and the
        // last step.
        let gaps = columns.saturating_sub(1).max(1) as f64;
        let column_of = |share: f64| (visible.of(share) * gaps + 0.5 + 1e-9) / columns as f64;
        let bands = bands(runs, columns, |run, n| {
            let last = if by_share { run.steps } else { longest }.saturating_sub(1) as f64;
            // Each step extends half the distance to its neighbors. A single step fills the whole
            // run.
            let share = |at: f64| if last > 0.0 { at / last } else { at + 0.5 };
            (
                column_of(share(n as f64 - 0.5)),
                column_of(share(n as f64 + 0.5)),
            )
        });
        let scores = bands
            .iter()
            .flatten()
            .flat_map(|band| [band.low, band.high]);
        let range = range(scores.chain(first.iter().flat_map(|run| run.scores())));
        let mut overlay = Self::empty(title, axis, range, threshold);
        let frame = overlay.frame;
        let (area, median) = &mut overlay.band;
        let x = |column: usize| {
            Px(frame.x(if columns > 1 {
                column as f64 / gaps
            } else {
                0.5
            }))
        };
        let known: Vec<_> = bands
            .iter()
            .enumerate()
            .filter_map(|(column, band)| Some((column, (*band)?)))
            .collect();
        for stretch in known.chunk_by(|a, b| a.0 + 1 == b.0) {
            for (start, (column, band)) in stretch.iter().enumerate() {
                let pen = if start == 0 { 'M' } else { 'L' };
                let _ = write!(area, "{pen}{} {}", x(*column), Px(frame.y(band.high)));
                let _ = write!(median, "{pen}{} {}", x(*column), Px(frame.y(band.median)));
                median.push_str(if start == 0 { "h0" } else { "" });
            }
            for (column, band) in stretch.iter().rev() {
                let _ = write!(area, "L{} {}", x(*column), Px(frame.y(band.low)));
            }
            area.push('z');
        }
        overlay
            .lines
            .extend(first.map(|run| run.line(frame, 0, MAX_LINKS / 6)));
        overlay
    }
}
